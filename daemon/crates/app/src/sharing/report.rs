//! What one sees of the sharing: each project with each remote, and how far every machine's log was read.

use super::round::{Known, Outcome, Syncing, names};
use crate::answers::sharing::{DeviceAnswer, HeldNote, ShareAnswer, SyncAnswer};
use crate::answers::{Moment, PublicId};
use crate::ports::Ports;
use crate::queries::{Answer, Refused};
use recall_config::sharing::{SharedProject, Sharing};
use recall_domain::ids::Timestamp;
use recall_domain::sync::record::space_of;
use recall_store::{Reader, Share, StoreError};

/// When a failed round is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextRound(pub Option<Timestamp>);

/// The state of all shares. Blocks.
pub fn report(syncing: &Syncing<impl Ports>, next: NextRound) -> Answer<SyncAnswer> {
    let sharing = syncing.config.get().sharing.clone();
    let (author, device_name) = names(&sharing);
    let Known { outcomes, trouble, notices } = syncing.known();
    let answer = syncing.readers.read(|db| {
        let stored = db.shares()?;
        let mut shares = Vec::new();
        for meant in &sharing.shares {
            let of = |share: &&Share| share.remote == meant.remote && share.space == space_of(&meant.project);
            let share = stored.iter().find(of);
            let mut outcome = share.and_then(|share| outcomes.get(&share.id)).cloned().unwrap_or_default();
            outcome.error = trouble.clone().or(outcome.error);
            shares.push(share_answer(db, &sharing, meant, share, outcome, next)?);
        }
        let device = stored.first().map(|share| share.device.0.clone());
        Ok(SyncAnswer { device, author, device_name, shares, notices })
    });
    answer.map_err(Refused::from)
}

fn share_answer(
    db: Reader<'_>,
    sharing: &Sharing,
    meant: &SharedProject,
    share: Option<&Share>,
    outcome: Outcome,
    next: NextRound,
) -> Result<ShareAnswer, StoreError> {
    let mut answer = ShareAnswer {
        project: meant.project.clone(),
        identity: meant.project.clone(),
        remote: meant.remote.clone(),
        url: sharing.url_of(&meant.remote).unwrap_or_default().to_owned(),
        inject: meant.inject,
        personal: meant.personal,
        logged: 0,
        sent: outcome.sent,
        received: 0,
        held: Vec::new(),
        parked: 0,
        devices: Vec::new(),
        next_try: next.0.filter(|_| outcome.error.is_some()).map(Moment),
        error: outcome.error,
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
    let held = db.held_back(share.id)?.into_iter();
    answer.held =
        held.map(|held| HeldNote { id: held.what.map(PublicId), title: held.title, why: held.why }).collect();
    let (available, mut stopped) = (outcome.available, outcome.stopped);
    for head in db.heads(share.id)? {
        answer.devices.push(DeviceAnswer {
            available: available.get(&head.device).copied(),
            error: stopped.remove(&head.device),
            device: head.device.0,
            author: head.author,
            name: head.name,
            seq: head.seq,
            at: Some(Moment(head.at)),
            refused: head.refused,
        });
    }
    // Machines of which nothing could be read yet.
    answer.devices.extend(stopped.into_iter().map(|(device, error)| DeviceAnswer {
        available: available.get(&device).copied(),
        device: device.0,
        author: String::new(),
        name: String::new(),
        seq: 0,
        at: None,
        refused: 0,
        error: Some(error),
    }));
    Ok(answer)
}
