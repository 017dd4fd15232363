//! Tests that a daemon killed at any step of a round with a remote loses nothing and doubles nothing, on either
//! machine.

use std::process::Stdio;

use recall_system::faults::Point;
use recall_tests::Stage;
use recall_tests::faults::process::Daemon;
use recall_tests::postgres::Cluster;
use serde_json::{Value, json};

use super::sharing::{MOSS, RULE, Shared, exchange, found, id_of, machine, remember, share, sync};
use super::sharing_database::{add, init, passwords, url};

/// A remote that machines can join and a test can search.
trait Place: Sync {
    fn enter(&self, stage: &Stage, author: &str);
    /// Returns whether a text is anywhere in the remote.
    fn has(&self, text: &str) -> bool;
}

impl Place for Shared {
    fn enter(&self, stage: &Stage, _: &str) {
        share(stage, self, &[]);
    }

    fn has(&self, text: &str) -> bool {
        self.contains(text)
    }
}

impl Place for Cluster {
    fn enter(&self, stage: &Stage, author: &str) {
        passwords(stage, &[author]);
        super::sharing::done(&add(stage, &url(author, self.port(), ""), &[]));
    }

    fn has(&self, text: &str) -> bool {
        let found = format!("SELECT count(*) FROM recall.record WHERE body LIKE '%{text}%'");
        self.sql("memory", &found) != "0"
    }
}

const NOTE: &str = "Cents are integers in every table of the ledger";

/// Starts two machines. Each has a note to send, and the first also has a deletion to send.
fn two(place: &dyn Place) -> [Stage; 2] {
    let stages = [("mia", "laptop"), ("ben", "desktop")].map(|(author, device)| {
        let stage = machine(author, device, "");
        place.enter(&stage, author);
        stage
    });
    let [mia, ben] = &stages;
    remember(mia, MOSS);
    exchange(&[mia, ben]);
    remember(mia, RULE);
    super::sharing::done(&mia.recall(["forget", &id_of(mia, "moss"), "--yes"]));
    remember(ben, NOTE);
    stages
}

/// Kills one of two machines at a point of its round. Returns whether it reached that point.
fn killed_at(point: Point, victim: usize, place: &dyn Place) -> bool {
    let mut stages = two(place);
    if victim == 1 {
        // The other machine syncs first, so that the killed one has something to read.
        sync(&stages[0]);
    } else {
        sync(&stages[1]);
    }
    assert!(stages[victim].stop_daemon().success());
    let armed = format!("{}=return(kill)", point.name());
    let mut daemon = Daemon::spawn_armed(&stages[victim], &armed, Stdio::null());
    let listens = daemon.wait_until_it_listens(&stages[victim]).is_ok();
    let output = stages[victim].recall(["sync", "--now"]);
    let died = !listens || output.code() != 0;
    match died {
        true => assert!(!daemon.wait().success(), "{point:?}: {output:?}"),
        false => daemon.kill(),
    }
    stages[victim].start_daemon();
    let [mia, ben] = &stages;
    exchange(&[mia, ben]);
    for (stage, received, author) in [(mia, 1, json!("ben")), (ben, 1, json!("mia"))] {
        let state = sync(stage);
        let share = &state["shares"][0];
        assert_eq!(
            (&share["received"], &state["notices"]),
            (&json!(received), &json!([])),
            "{point:?} {state}"
        );
        assert_eq!(share["sent"], share["logged"], "{point:?} {state}");
        let devices = share["devices"].as_array().unwrap();
        assert_eq!((devices.len(), &devices[0]["error"], &devices[0]["author"]), (1, &Value::Null, &author));
        for (words, count) in [("moss boiler", 0), ("invoices hedwig", 1), ("cents ledger", 1)] {
            let answer = stage.json(["search", words]);
            assert_eq!(answer["results"].as_array().unwrap().len(), count, "{point:?} {words}: {answer}");
        }
    }
    assert_eq!(found(mia, "cents ledger")["author"], "ben");
    assert!(place.has("Hedwig") && place.has("Cents") && !place.has("boiler"), "{point:?}");
    died
}

/// Tests each point with each machine. A point that neither machine reaches is a failure.
fn all_points(points: &[Point], place: &(dyn Fn() -> Box<dyn Place> + Sync)) {
    let reached = |point: &Point| {
        let died = [0, 1].map(|victim| killed_at(*point, victim, place().as_ref()));
        assert!(died.contains(&true), "{point:?} was never reached");
    };
    std::thread::scope(|scope| {
        for some in points.chunks(points.len().div_ceil(4)) {
            scope.spawn(move || some.iter().for_each(reached));
        }
    });
}

#[test]
fn kills_at_any_step_of_a_folder_sync_lose_and_duplicate_nothing() {
    all_points(&Point::OF_SHARING, &|| Box::new(Shared::new()));
}

#[test]
fn kills_at_any_step_of_a_database_sync_lose_and_duplicate_nothing() {
    if Cluster::start().is_none() {
        return;
    }
    let of_folders = [Point::FolderWritten, Point::FolderLinked, Point::FolderReplace];
    let points: Vec<Point> =
        Point::OF_SHARING.into_iter().filter(|point| !of_folders.contains(point)).collect();
    all_points(&points, &|| {
        let cluster = Cluster::start().unwrap();
        init(&cluster);
        Box::new(cluster)
    });
}
