//! Records what the last valid configuration forbade. A later invalid one is at least as strict.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::{Config, Excluded, Understood};
use recall_domain::guard::GuardPolicy;
use recall_domain::redaction::RedactionMode;
use recall_domain::review::Injectable;

/// The size limit of the record. It exceeds any list of patterns.
const MOST_BYTES: u64 = 1 << 20;

/// The restrictions of the last valid configuration, saved as JSON in recall's state folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LastGood {
    exclude: Vec<String>,
    skip_tools: Vec<String>,
    redact: bool,
    redact_extra: Vec<String>,
    redact_allow: Vec<String>,
    #[serde(default)]
    guards: GuardPolicy,
    #[serde(default)]
    reviewed_only: bool,
}

impl LastGood {
    /// The record for a valid configuration.
    pub(super) fn of(config: &Config) -> Self {
        let exclude = match &config.excluded {
            Excluded::Projects(patterns) => patterns.clone(),
            Excluded::Everything => Vec::new(),
        };
        Self {
            exclude,
            skip_tools: config.capture.skip_tools.clone(),
            redact: config.redaction.mode == RedactionMode::On,
            redact_extra: config.redaction.extra.clone(),
            redact_allow: config.redaction.allow.clone(),
            guards: config.guards.clone(),
            reviewed_only: config.injectable == Injectable::Reviewed,
        }
    }

    /// Reads the record. `None` if there is none or it cannot be read.
    pub(super) fn read(note: &Path) -> Option<Self> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(note).ok()?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// # Errors
    /// The record cannot be written. The previous one stays.
    pub(super) fn write(&self, note: &Path) -> io::Result<()> {
        let draft = note.with_extension("part");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&draft, note)
    }
}

/// Makes an invalid configuration at least as strict as the last valid one. If there was none and the exclusions are
/// unknown, everything is excluded.
pub(super) fn keep_restrictions(config: &mut Config, exclusions: Understood, last: Option<LastGood>) {
    let Some(last) = last else {
        if exclusions == Understood::Partly {
            config.excluded = Excluded::Everything;
        }
        return;
    };
    let Excluded::Projects(patterns) = &mut config.excluded else { return };
    add(patterns, last.exclude);
    add(&mut config.capture.skip_tools, last.skip_tools);
    add(&mut config.redaction.extra, last.redact_extra);
    config.redaction.allow.retain(|pattern| last.redact_allow.contains(pattern));
    let guards = &mut config.guards;
    guards.writes = guards.writes.max(last.guards.writes);
    guards.reads = guards.reads.max(last.guards.reads);
    guards.system = guards.system.max(last.guards.system);
    guards.outside = guards.outside.max(last.guards.outside);
    add(&mut guards.write_paths, last.guards.write_paths);
    add(&mut guards.read_paths, last.guards.read_paths);
    add(&mut guards.unset_env, last.guards.unset_env);
    guards.allow.retain(|pattern| last.guards.allow.contains(pattern));
    if last.reviewed_only {
        config.injectable = Injectable::Reviewed;
    }
    if last.redact {
        config.redaction.mode = RedactionMode::On;
    }
}

fn add(to: &mut Vec<String>, more: Vec<String>) {
    for one in more {
        if !to.contains(&one) {
            to.push(one);
        }
    }
}
