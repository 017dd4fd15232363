//! Reports the state of sharing: each project with each remote, and how far every machine's log was read.

use std::collections::BTreeSet;

use super::names::names;
use super::syncing::{RoundHistory, RoundOutcome, Syncing};
use crate::answers::sharing::{
    DeviceAnswer, ForgottenAnswer, HeldNote, ShareAnswer, SyncAnswer, WaitingDeletion,
};
use crate::answers::{Moment, PublicId};
use crate::ports::Ports;
use crate::queries::{Answer, Refused};
use recall_config::sharing::{SharedProject, Sharing};
use recall_domain::ids::Timestamp;
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::space_of;
use recall_domain::sync::skew::Skew;
use recall_store::{ReadHead, Reader, Share, StoreError};

/// The maximum number of deletions that are listed one by one.
const MOST_DELETIONS: u32 = 20;

/// When the next round begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextRound(pub Option<Timestamp>);

/// Reports the state of all shares. Blocks.
pub fn report(syncing: &Syncing<impl Ports>, next: NextRound) -> Answer<SyncAnswer> {
    let sharing = syncing.config.get().sharing.clone();
    let (author, device_name) = names(&sharing);
    let RoundHistory { outcomes, trouble, failing, notices, .. } = syncing.known();
    let answer = syncing.readers.read(|db| {
        let stored = db.shares()?;
        let mut shares = Vec::new();
        for meant in &sharing.shares {
            let of = |share: &&Share| share.remote == meant.remote && share.space == space_of(&meant.project);
            let share = stored.iter().find(of);
            let mut outcome = share.and_then(|share| outcomes.get(&share.id)).cloned().unwrap_or_default();
            outcome.error = trouble.clone().or(outcome.error);
            let not_before = failing.get(&meant.remote).map(|failing| failing.not_before);
            let next = NextRound(next.0.map(|at| not_before.map_or(at, |least| at.max(least))));
            shares.push(share_answer(db, &sharing, &ShareState { meant, share, outcome, next })?);
        }
        let device = stored.first().map(|share| share.device.0.clone());
        Ok(SyncAnswer { device, author, device_name, shares, notices })
    });
    answer.map_err(Refused::from)
}

/// A share in the settings, with what is stored and known of it.
struct ShareState<'a> {
    meant: &'a SharedProject,
    share: Option<&'a Share>,
    outcome: RoundOutcome,
    next: NextRound,
}

fn share_answer(
    db: Reader<'_>,
    sharing: &Sharing,
    state: &ShareState<'_>,
) -> Result<ShareAnswer, StoreError> {
    let ShareState { meant, share, outcome, next } = state;
    let remote = sharing.remote(&meant.remote);
    let mut answer = ShareAnswer {
        project: meant.project.clone(),
        identity: meant.project.clone(),
        remote: meant.remote.clone(),
        url: remote.map(|remote| remote.url.clone()).unwrap_or_default(),
        kind: remote
            .and_then(|remote| remote.address().ok())
            .map(|address| address.kind().as_str().to_owned()),
        encrypted: remote.is_some_and(|remote| !remote.plaintext),
        inject: meant.inject,
        personal: meant.personal,
        prompts: meant.prompts,
        answers: meant.answers,
        logged: 0,
        sent: outcome.sent,
        sent_last: outcome.moved.sent,
        read_last: outcome.moved.read,
        received: 0,
        held: Vec::new(),
        parked: 0,
        quarantined: 0,
        devices: Vec::new(),
        forgotten: ForgottenAnswer::default(),
        next_try: next.0.filter(|_| outcome.error.is_some()).map(Moment),
        error: outcome.error.clone(),
        synced_at: outcome.synced_at.map(Moment),
    };
    let Some(share) = share else {
        answer.error.get_or_insert_with(|| "no session in this project yet".to_owned());
        return Ok(answer);
    };
    answer.project = share.project_name.clone();
    (answer.logged, _) = db.log_head(share.id)?;
    answer.received = db.count_foreign(share.id)?;
    answer.parked = db.count_parked(share.id)?;
    answer.quarantined = db.count_quarantined(share.id)?;
    let held = db.held_back(share.id)?.into_iter();
    answer.held =
        held.map(|held| HeldNote { id: held.what.map(PublicId), title: held.title, why: held.why }).collect();
    answer.devices = devices(db.heads(share.id)?, outcome);
    answer.forgotten = forgotten(db, share, &answer.devices)?;
    Ok(answer)
}

/// All machines that have written anything.
fn devices(heads: Vec<ReadHead>, outcome: &RoundOutcome) -> Vec<DeviceAnswer> {
    let RoundOutcome { available, stopped, readers, skews, deferred, .. } = outcome;
    let of = |device: &DeviceId, author: &str, name: &str| DeviceAnswer {
        available: available.get(device).copied(),
        error: stopped.get(device).cloned(),
        has_read: readers.get(device).map(|reader| reader.seq),
        clock_ahead_ms: match skews.get(device) {
            Some(Skew::AheadAtLeast(by)) => Some(*by),
            Some(Skew::BehindAtLeast(by)) => Some(by.saturating_neg()),
            None => None,
        },
        deferred: deferred.contains(device),
        device: device.0.clone(),
        author: author.to_owned(),
        name: name.to_owned(),
        seq: 0,
        at: None,
        refused: 0,
    };
    let known = |device: &&DeviceId| heads.iter().any(|head| head.device == **device);
    // Machines without entries, or whose entries could not be read yet.
    let silent: BTreeSet<&DeviceId> = stopped.keys().chain(readers.keys()).filter(|it| !known(it)).collect();
    let silent = silent.into_iter().map(|device| match readers.get(device) {
        Some(reader) => of(device, &reader.author, &reader.name),
        None => of(device, "", ""),
    });
    let read = heads.iter().map(|head| DeviceAnswer {
        seq: head.seq,
        at: Some(Moment(head.at)),
        refused: head.refused,
        ..of(&head.device, &head.author, &head.name)
    });
    read.chain(silent).collect()
}

/// How far this machine's deletions have reached others.
fn forgotten(db: Reader<'_>, share: &Share, devices: &[DeviceAnswer]) -> Result<ForgottenAnswer, StoreError> {
    let read = |device: &DeviceAnswer| device.has_read.unwrap_or_default();
    let least = devices.iter().map(read).min().unwrap_or_default();
    let (total, everywhere) = db.count_deletions(share.id, least)?;
    let waiting = db.deletions_after(share.id, least, MOST_DELETIONS)?.into_iter();
    let waiting = waiting.map(|(seq, at)| {
        let (has, lacks): (Vec<_>, Vec<_>) = devices.iter().partition(|device| read(device) >= seq);
        WaitingDeletion {
            at: Moment(at),
            confirmed: has.len() as u64,
            missing: lacks.into_iter().map(DeviceAnswer::title).collect(),
        }
    });
    Ok(ForgottenAnswer { total, everywhere, machines: devices.len() as u64, waiting: waiting.collect() })
}
