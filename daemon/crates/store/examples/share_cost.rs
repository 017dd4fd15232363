//! What sharing a project costs the writer: commits one observation at a time, with and without an open share.
//!
//! ```text
//! cargo run --release -p recall-store --example share_cost -- [OBSERVATIONS] [ROUNDS]
//! valgrind --tool=callgrind target/release/examples/share_cost 500 1 shared|alone
//! ```

// A report for a reader.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use recall_domain::ids::{ProjectKey, Timestamp};
use recall_domain::observation::{Importance, ObservationDraft, ObservationType};
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::space_of;
use recall_store::{
    Changes, Durability, OpenShare, Operation, RemarkAuthor, Remembered, ShareTerms, StoreWriter,
};
use recall_system::holding::Holding;

const KEY: &str = "git:host/acme/shop";
const OBSERVATIONS: usize = 2_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual| arguments.get(at).map_or(Ok(usual), |text| text.parse());
    let (observations, rounds): (usize, usize) = (number(0, OBSERVATIONS)?, number(1, ROUNDS)?);
    let only = arguments.get(2).map(String::as_str);
    for round in 1..=rounds {
        for project in [Project::Alone, Project::Shared] {
            if only.is_none_or(|only| only == project.name()) {
                let median = committed(observations, project)?;
                println!("round {round}, {}: {median:.1} us (median of a commit)", project.name());
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Project {
    Alone,
    Shared,
}

impl Project {
    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Shared => "shared",
        }
    }
}

/// Returns the median time of a commit of one observation, in microseconds.
fn committed(observations: usize, project: Project) -> Result<f64, Box<dyn Error>> {
    let home = std::env::temp_dir().join(format!("recall-share-cost-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let mut writer = StoreWriter::open(
        &home.join("recall.db"),
        &home.join("backups"),
        Durability::Normal,
        &Holding::default(),
    )?;
    if let Project::Shared = project {
        write(&mut writer, share())?;
    }
    let mut times = Vec::with_capacity(observations);
    for number in 0..observations {
        let begun = Instant::now();
        write(&mut writer, remembered(number))?;
        times.push(begun.elapsed());
    }
    drop(writer);
    std::fs::remove_dir_all(&home)?;
    times.sort_unstable();
    Ok(times.get(observations / 2).map_or(0.0, |median| median.as_secs_f64() * 1e6))
}

fn write<O: Operation>(writer: &mut StoreWriter, operation: O) -> Result<(), Box<dyn Error>> {
    let mut changes = Changes::default();
    writer.begin()?;
    writer.execute(operation, &mut changes)?;
    writer.commit(&changes)?;
    Ok(())
}

fn share() -> OpenShare {
    OpenShare {
        project: ProjectKey::from(KEY),
        project_name: "shop".to_owned(),
        remote: "team".to_owned(),
        space: space_of(KEY),
        device: DeviceId("a".repeat(32)),
        author: "Ada".to_owned(),
        device_name: "laptop".to_owned(),
        terms: ShareTerms { injects: true, is_personal: false, has_prompts: false, has_answers: false },
        at: Timestamp(1),
    }
}

/// An observation of the usual length.
fn remembered(number: usize) -> Remembered {
    let draft = ObservationDraft {
        kind: ObservationType::Decision,
        title: format!("The total of cart {number} is rounded once, after all lines are summed"),
        subtitle: None,
        narrative:
            "Each line had lost up to a cent of its own, so that the invoice and the ledger differed. "
                .repeat(4),
        facts: vec![
            "Cart::total is where it happens".to_owned(),
            "refunds are rounded the same way".to_owned(),
        ],
        concepts: Vec::new(),
        files_read: vec!["src/cart.rs".to_owned()],
        files_modified: vec!["src/total.rs".to_owned()],
        importance: Importance::clamped(6),
        evidence: Vec::new(),
        subject: None,
    };
    Remembered {
        project: vec![ProjectKey::from(KEY)],
        project_name: "shop".to_owned(),
        draft,
        author: RemarkAuthor::User,
        at: Timestamp(7 + i64::try_from(number).unwrap_or(i64::MAX)),
    }
}
