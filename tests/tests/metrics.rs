//! Tests that Prometheus can read `recall status --prometheus`.

use std::collections::{HashMap, HashSet};

use recall_tests::Stage;
use regex::Regex;

/// Returns the samples of a page, by name and labels. Fails on lines that the format does not allow.
fn read(page: &str) -> HashMap<String, f64> {
    let sample =
        Regex::new(r#"^([a-z_]+)((?:\{[a-z]+="[^"\\\n]*"(?:,[a-z]+="[^"\\\n]*")*\})?) (\S+)$"#).unwrap();
    let (mut samples, mut described) = (HashMap::new(), HashSet::new());
    let mut current = String::new();
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            current = help.split_once(' ').unwrap().0.to_owned();
            assert!(described.insert(current.clone()), "{current} is described twice");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, current);
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is no {kind}");
        } else {
            let parts = sample.captures(line).unwrap_or_else(|| panic!("{line:?} is no sample"));
            assert_eq!(parts[1], current, "samples stand beneath their description");
            let value = parts[3].parse().unwrap();
            assert!(
                samples.insert(format!("{}{}", &parts[1], &parts[2]), value).is_none(),
                "{line} comes twice"
            );
        }
    }
    samples
}

#[test]
fn prometheus_output_is_valid_and_matches_the_status() {
    let stage = Stage::new().daemon();
    stage.discount_session("s");
    stage.flush();
    let output = stage.recall(["status", "--prometheus"]);
    assert_eq!(output.code(), 0);
    let samples = read(&output.stdout);
    let status = stage.json(["status"]);
    for (name, value) in [
        ("recall_sessions{state=\"ended\"}", &status["sessions"]["total"]),
        ("recall_events_stored", &status["events"]["stored"]),
        ("recall_jobs{state=\"done\"}", &status["jobs"]["done"]),
        ("recall_observations", &status["observations"]),
        ("recall_spool_files", &status["events"]["spooled"]),
    ] {
        assert_eq!(samples.get(name).copied(), value.as_f64(), "{name}");
    }
    assert!(samples["recall_observations"] > 0.0);
    assert!(samples["recall_hook_answer_seconds{quantile=\"0.99\"}"] > 0.0);
    assert_eq!(samples[&format!("recall_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))], 1.0);
    assert_eq!(stage.recall(["status", "--prometheus", "--json"]).code(), 2);
}
