//! Tests twelve sessions with the notes that a good model would write of them, each through a fake program.
//!
//! A fake program prints the answer in the real program's own format, and stores how it was called.

use std::os::unix::fs::PermissionsExt;

use recall_tests::Stage;
use serde_json::{Value, json};

use super::turns::{observations, until_job};

/// A request, the agent's final answer, the changed file, the note (type, title and narrative), and the open point.
struct Recorded {
    asked: &'static str,
    answered: &'static str,
    file: &'static str,
    note: (&'static str, &'static str, &'static str),
    open: &'static str,
}

const RECORDED: [Recorded; 12] = [
    Recorded {
        asked: "Why does the booking page show yesterday's seats?",
        answered: "The seat map was cached by the browser for a day. `seat_map` in src/booking.rs now sends no-store.",
        file: "src/booking.rs",
        note: (
            "bugfix",
            "`seat_map` sends no-store",
            "The browser kept the map for a day, so freed seats were missing.",
        ),
        open: "",
    },
    Recorded {
        asked: "Import the old invoices, but leave drafts out",
        answered: "Invoices are imported by src/import.rs. Drafts have no number, so they are left out. The 2019 file still needs a decision about its currency.",
        file: "src/import.rs",
        note: (
            "decision",
            "Drafts are left out of the invoice import",
            "They have no number, and a number is the key.",
        ),
        open: "Decide the currency of the 2019 file.",
    },
    Recorded {
        asked: "The nightly job fails every Sunday, please find out why",
        answered: "On Sundays the backup holds the lock until 03:10, and the job gives up at 03:05. I moved the job to 04:00 in src/schedule.rs.",
        file: "src/schedule.rs",
        note: (
            "gotcha",
            "The backup holds the database lock until 03:10 on Sundays",
            "Jobs that start before give up after five minutes.",
        ),
        open: "",
    },
    Recorded {
        asked: "Always use kilograms for parcels from now on",
        answered: "Parcels are weighed in kilograms in src/parcel.rs; pounds are converted when they are read.",
        file: "src/parcel.rs",
        note: (
            "preference",
            "Parcels are always weighed in kilograms",
            "Pounds are converted when they are read.",
        ),
        open: "",
    },
    Recorded {
        asked: "Make the search forgive typos",
        answered: "Words of six letters and more may differ in one letter. Shorter ones gave too many hits. See src/search.rs.",
        file: "src/search.rs",
        note: (
            "trade_off",
            "Only words of six letters and more may have a typo",
            "Shorter words brought too many false hits.",
        ),
        open: "",
    },
    Recorded {
        asked: "Who may change the tax table?",
        answered: "The tax table belongs to the finance team; Ines approves changes. I noted it in src/tax.rs.",
        file: "src/tax.rs",
        note: ("contact", "Ines approves changes of the tax table", "It belongs to the finance team."),
        open: "",
    },
    Recorded {
        asked: "Uploads over 20 MB fail",
        answered: "The proxy cut bodies at 20 MB before src/upload.rs saw them. The limit is 50 MB now, and the proxy's file still has to be rolled out.",
        file: "src/upload.rs",
        note: (
            "bugfix",
            "Uploads up to 50 MB pass the proxy",
            "The proxy had cut bodies at 20 MB, and the server never saw them.",
        ),
        open: "Roll out the proxy's file.",
    },
    Recorded {
        asked: "No, do not mock the clock, pass it in",
        answered: "The clock is an argument of `due` in src/reminder.rs, and the tests give a fixed one.",
        file: "src/reminder.rs",
        note: (
            "correction",
            "The clock is passed to `due`, not mocked",
            "Mocked clocks had hidden a time zone fault.",
        ),
        open: "",
    },
    Recorded {
        asked: "Speed up the report",
        answered: "The report read each order on its own. src/report.rs reads them in one query, and it takes 0.4 s instead of 31 s.",
        file: "src/report.rs",
        note: (
            "discovery",
            "The report was slow because it read each order on its own",
            "One query takes 0.4 s instead of 31 s.",
        ),
        open: "",
    },
    Recorded {
        asked: "Should tokens be stored in the browser?",
        answered: "Tokens stay in a cookie that scripts cannot read; src/session.rs sets it. Local storage is readable by any script of the page.",
        file: "src/session.rs",
        note: (
            "security",
            "Session tokens stay in a cookie that scripts cannot read",
            "Any script of the page could read local storage.",
        ),
        open: "",
    },
    Recorded {
        asked: "Split the settings page",
        answered: "src/settings.rs is now one file per tab. The tab for billing is not split yet, because its form shares state with the profile.",
        file: "src/settings.rs",
        note: (
            "next_step",
            "The billing tab of the settings is not split yet",
            "Its form shares state with the profile.",
        ),
        open: "Split the tab for billing.",
    },
    Recorded {
        asked: "The labels print twice",
        answered: "The printer repeats a job that is not acknowledged within 2 s. src/label.rs acknowledges before it draws.",
        file: "src/label.rs",
        note: (
            "gotcha",
            "The label printer repeats a job without an acknowledgement within 2 s",
            "So the acknowledgement goes out before drawing.",
        ),
        open: "",
    },
];

impl Recorded {
    fn notes(&self) -> String {
        let (kind, title, narrative) = self.note;
        let observation =
            json!({"turn": 1, "type": kind, "title": title, "narrative": narrative, "importance": 7});
        let summary = json!({"title": title, "request": self.asked, "learned": narrative, "completed": self.answered,
            "next_steps": self.open});
        json!({"observations": [observation], "summary": summary}).to_string()
    }
}

/// Wraps an answer in a program's output format.
type Envelope = fn(&str) -> String;

/// A backend, its program, and the form of its output.
const PROGRAMS: [(&str, &str, Envelope); 6] = [
    ("codex-cli", "codex", |text| {
        let message = json!({"type": "item.completed", "item": {"type": "agent_message", "text": text}});
        let usage = json!({"type": "turn.completed", "usage": {"input_tokens": 40, "output_tokens": 2}});
        format!("{{\"type\":\"thread.started\"}}\n{message}\n{usage}")
    }),
    ("gemini-cli", "gemini", |text| {
        let tokens = json!({"prompt": 40, "candidates": 2, "thoughts": 0});
        json!({"response": text, "stats": {"models": {"m": {"tokens": tokens}}}}).to_string()
    }),
    ("qwen-cli", "qwen", |text| {
        let usage = json!({"input_tokens": 40, "output_tokens": 2});
        json!([{"type": "system"}, {"type": "result", "is_error": false, "result": text, "usage": usage}])
            .to_string()
    }),
    ("copilot-cli", "copilot", |text| text.to_owned()),
    ("opencode-cli", "opencode", |text| {
        let text = json!({"type": "text", "part": {"text": text}});
        let usage = json!({"type": "step_finish", "part": {"tokens": {"input": 40, "output": 2}}});
        format!("{text}\n{usage}")
    }),
    ("command", "my-model", |text| format!("Here you are:\n```json\n{text}\n```")),
];

/// Returns a stage whose program prints the content of the file `answer`.
fn stage(backend: &str, program: &str, answer: &str) -> Stage {
    let command =
        if backend == "command" { "command = ['my-model', '--quiet']\n" } else { "model = 'cheap'\n" };
    let stage =
        Stage::new().config(&format!("[compression]\nbackend = '{backend}'\n{command}concurrency = 1\n"));
    let folder = stage.user_home().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let home = stage.user_home().display().to_string();
    std::fs::write(stage.user_home().join("answer"), answer).unwrap();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > {home}/arguments\nenv > {home}/environment\npwd > {home}/folder\n\
         cat > {home}/stdin\ncat {home}/answer\n"
    );
    let path = folder.join(program);
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let search = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    stage.variable("PATH", &search).variable("AWS_SECRET_ACCESS_KEY", "of-another").daemon()
}

/// Plays the session from its prompt to its end.
fn play(stage: &Stage, session: &str, recorded: &Recorded) {
    let hook = |name: &str, mut fields: Value| {
        fields["prompt_id"] = json!(format!("{session}-p"));
        stage.hook(&stage.event(session, name, fields));
    };
    hook("UserPromptSubmit", json!({"prompt": recorded.asked}));
    let path = format!("/home/dev/shop/{}", recorded.file);
    hook(
        "PostToolUse",
        json!({"tool_name": "Edit", "tool_use_id": format!("{session}-t"),
        "tool_input": {"file_path": path, "old_string": "a", "new_string": "b"}, "tool_response": {"filePath": path}}),
    );
    hook("Stop", json!({"last_assistant_message": recorded.answered}));
    stage.hook(&stage.event(session, "SessionEnd", json!({"reason": "prompt_input_exit"})));
}

#[test]
fn answers_in_each_programs_format_become_notes() {
    for ((backend, program, envelope), pair) in PROGRAMS.into_iter().zip(RECORDED.chunks(2)) {
        let stage = stage(backend, program, "");
        for (number, recorded) in pair.iter().enumerate() {
            let session = format!("s{number}");
            std::fs::write(stage.user_home().join("answer"), envelope(&recorded.notes())).unwrap();
            play(&stage, &session, recorded);
            stage.flush();
            until_job(&stage, &session, "notes", |job| job["status"] == "done");
            let found = observations(&stage, &session);
            assert_eq!(found.len(), 1, "{backend}: {found:?}\n{}", stage.log());
            let title = found[0]["title"].as_str().unwrap().replace('`', "");
            assert_eq!(title, recorded.note.1.replace('`', ""), "{backend}");
            assert!(found[0]["origin"].as_str().unwrap().starts_with(&format!("{backend}:")), "{found:?}");
            assert!(!found[0]["evidence"].as_array().unwrap().is_empty(), "{found:?}");
            let summary = &stage.json(["ctl", "session", &session])["summary"];
            assert_eq!(summary["next_steps"], json!(recorded.open), "{backend}");
        }
        let read = |name: &str| std::fs::read_to_string(stage.user_home().join(name)).unwrap();
        assert!(read("stdin").contains("<material>"), "{backend}");
        assert!(
            !read("arguments").contains("material"),
            "{backend}: what is said in a session is no argument"
        );
        assert!(read("environment").lines().any(|line| line == "RECALL_DISABLE=1"), "{backend}");
        let passes_all = backend == "command";
        assert_eq!(read("environment").contains("AWS_SECRET"), passes_all, "{backend}");
        assert!(!std::path::Path::new(read("folder").trim()).exists(), "{backend}: its folder is gone");
        assert!(stage.json(["ctl", "status"])["compression"]["tokens_today"].as_u64() > Some(0), "{backend}");
    }
}

#[test]
fn a_program_without_an_answer_leaves_the_built_in_notes() {
    for (backend, program, _) in PROGRAMS {
        let stage = stage(backend, program, "");
        play(&stage, "s1", &RECORDED[0]);
        stage.flush();
        let dead = until_job(&stage, "s1", "notes", |job| job["status"] == "dead");
        assert!(dead["error"].as_str().unwrap().contains("without a readable answer"), "{backend}: {dead}");
        assert!(observations(&stage, "s1").iter().all(|it| it["origin"] == "extractive"), "{backend}");
    }
}
