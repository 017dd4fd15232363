//! The last statement of a session wins, in observations and in the summary.

use super::*;
use recall_domain::ids::EventId;
use recall_domain::material::SourcedText;

fn session(turns: &[(&str, &str)]) -> SessionMaterial {
    let mut before: Option<String> = None;
    let batch = |(number, (prompt, answer)): (u8, &(&str, &str))| {
        let text = |kind: u8, text: &str| SourcedText {
            event: EventId([number * 2 + kind; 16]),
            text: (*text).to_owned(),
        };
        BatchMaterial {
            prompt_number: u32::from(number) + 1,
            prompt: Some(text(0, prompt)),
            response: Some(text(1, answer)),
            previous_response: before.replace((*answer).to_owned()),
            ..BatchMaterial::default()
        }
    };
    SessionMaterial { batches: (0..).zip(turns).map(batch).collect() }
}

/// All observations, one per line, followed by the fields of the summary.
fn drafted_text(turns: &[(&str, &str)], extent: SessionExtent) -> String {
    let SessionDraft { summary, batches } = Extractive.draft_session(&session(turns), extent);
    let mut lines: Vec<String> =
        batches.into_iter().flatten().map(|draft| format!("{} {}", draft.title, draft.narrative)).collect();
    let summary = summary.unwrap_or_default();
    lines.extend([summary.title, summary.completed, summary.learned, summary.next_steps]);
    lines.join("\n")
}

/// Checks that where the second answer contradicts the first, only the second is reported.
#[track_caller]
fn check(turns: &[(&str, &str)], holds: &[&str], is_over: &[&str]) {
    for extent in [SessionExtent::SoFar, SessionExtent::Whole] {
        let drafted = drafted_text(turns, extent);
        for text in is_over {
            assert!(!drafted.contains(text), "{text:?} is over:\n{drafted}");
        }
        for text in holds {
            assert!(drafted.contains(text), "{text:?} holds:\n{drafted}");
        }
    }
}

const GATEWAY: (&str, &str) = (
    "Why do payments fail now and then?",
    "The gateway client gives up after 30 s because the bank answers late. See `TIMEOUT_S` in src/gateway.rs.",
);

#[test]
fn only_the_last_of_two_values_is_kept() {
    let raised =
        "Done. The gateway client now gives up after 90 s, because the bank's slowest answer took 70 s.";
    check(&[GATEWAY, ("ok, raise it then", raised)], &["after 90 s"], &["after 30 s"]);
}

#[test]
fn only_the_last_of_three_values_is_kept() {
    let raised =
        "Done. The gateway client now gives up after 60 s, because the bank's slowest answer took 50 s.";
    let again =
        "Raised: the gateway client now gives up after 90 s, because the bank took 70 s on a holiday.";
    check(
        &[GATEWAY, ("ok, raise it then", raised), ("it still fails", again)],
        &["after 90 s"],
        &["after 30 s", "after 60 s"],
    );
}

#[test]
fn a_changed_rule_replaces_the_earlier_one() {
    let first = "Parcel weights are stored in pounds, because the first carrier only took pounds.";
    let second =
        "Changed. Parcel weights are always stored in kilograms now; `Parcel::weight_kg` converts them.";
    check(
        &[("Which unit do parcels have?", first), ("No, always use kilograms", second)],
        &["stored in kilograms"],
        &["stored in pounds"],
    );
}

#[test]
fn a_retracted_cause_is_not_kept() {
    let first =
        "Found the smoking gun: the deploy script clears `/var/cache/shop`, so the cache is cold afterwards.";
    let second = "You are right: the deploy script is not the cause. The cache is cold because `Cache::warm` runs \
                  before the database is up, and gives up silently.";
    check(
        &[("Why is the cache cold?", first), ("are you sure? it is cold elsewhere too", second)],
        &["Cache::warm runs before the database is up"],
        &["smoking gun", "clears /var/cache/shop"],
    );
}

#[test]
fn a_fixed_finding_is_removed_and_the_other_one_is_kept() {
    let first = "Finding 1: `Cart::total` rounds each line, which loses cents in long orders. Finding 2: \
                 `Cart::remove` panics on an empty cart because it indexes item 0.";
    let second =
        "Fixed: `Cart::remove` returns None on an empty cart. The test `removing_from_nothing` covers it.";
    check(
        &[("Review src/cart.rs", first), ("fix the second one", second)],
        &["Cart::remove returns None", "Cart::total rounds each line"],
        &["panics on an empty cart"],
    );
}

#[test]
fn a_statement_about_another_subject_replaces_nothing() {
    let order = "Orders are stored in Postgres, because several writers must append to them at once.";
    for later in [
        // Another subject, another number of the same subject, no change, and a repetition.
        "Invoices are now stored in Postgres, because the accountants query them in SQL.",
        "The Postgres pool of orders now has 20 connections, because eight were exhausted at noon.",
        "Orders are stored in Postgres. I found no other place that writes them.",
    ] {
        let drafted =
            drafted_text(&[("Where are orders?", order), ("and now?", later)], SessionExtent::Whole);
        assert!(drafted.contains("Orders are stored in Postgres"), "{later}:\n{drafted}");
    }
    let phase = "Phase 3 draws the whole cart anew in the browser, because the server was too slow.";
    let next = "Phase 4 now draws the whole cart anew on the server, with a cache in front of it.";
    let drafted = drafted_text(&[("What does phase 3 do?", phase), ("go on", next)], SessionExtent::Whole);
    assert!(drafted.contains("Phase 3 draws"), "{drafted}");
}

#[test]
fn an_observation_inherits_the_evidence_of_the_one_it_replaces() {
    let raised =
        "Done. The gateway client now gives up after 90 s, because the bank's slowest answer took 70 s.";
    let session = session(&[GATEWAY, ("ok, raise it then", raised)]);
    let first = Extractive.draft(&session.batches[0]);
    assert!(first[0].title.contains("after 30 s"), "{first:?}");
    let drafts = Extractive.draft_session(&session, SessionExtent::Whole).batches;
    let heir = drafts[1].iter().find(|draft| draft.title.contains("90 s")).unwrap();
    assert!(first[0].evidence.iter().all(|event| heir.evidence.contains(event)), "{first:?}\n{drafts:?}");
}
