//! Runs the built-in compressor over recorded hook events and writes the result for each session in the format of
//! `recall ctl session ID --json`. A scorer or a reader can then judge it without a daemon.
//!
//! ```text
//! cargo run --example observe_replay -- OUT_DIR SESSION.jsonl ...
//! ```
//!
//! The format of a session is that of `replay/mod.rs`. Files that end in `.gz` are gunzipped.

mod replay;

use std::path::Path;

use anyhow::Context;
use recall_compression::extractive::Extractive;
use recall_domain::material::SessionExtent;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().context("usage: observe_replay OUT_DIR SESSION.jsonl ...")?;
    std::fs::create_dir_all(&out)?;
    for path in arguments {
        for (id, session) in replay::sessions(Path::new(&path))? {
            let draft = Extractive.draft_session(&session, SessionExtent::Whole);
            let json = replay::session_json(&id, &session, draft.batches, draft.summary);
            let file = Path::new(&out).join(format!("{id}.json"));
            std::fs::write(&file, serde_json::to_string_pretty(&json)?)?;
        }
    }
    Ok(())
}
