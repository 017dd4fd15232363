//! Finds problems that keep recurring: the same failure in several sessions, turns that the user stopped, workarounds,
//! denied calls. Each comes with its evidence, and a sentence that may be worth remembering.

mod denials;
mod failures;
mod stops;
mod workarounds;

use std::collections::BTreeMap;

use super::ids::{ObservationId, SessionId, Timestamp};
use super::observation::ObservationType;
use super::past_work::PastSession;

/// The kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrictionKind {
    /// The same error occurred in several sessions.
    Failure,
    /// The user corrected the agent.
    Correction,
    /// The user stopped a turn.
    Stop,
    /// A call was denied repeatedly.
    Denial,
    /// The agent used a provisional solution.
    Workaround,
}

impl FrictionKind {
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Failure, "failure"),
        (Self::Correction, "correction"),
        (Self::Stop, "stop"),
        (Self::Denial, "denial"),
        (Self::Workaround, "workaround"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("failure", |(_, name)| name)
    }
}

/// A recurring problem with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Friction {
    pub kind: FrictionKind,
    /// The problem, in one line.
    pub what: String,
    pub times: u32,
    /// One per session, latest first.
    pub met: Vec<Meeting>,
    /// One occurrence, verbatim.
    pub example: Option<String>,
    /// What to remember, and its type.
    pub remember: Option<(ObservationType, String)>,
    /// The note that already says so.
    pub note: Option<ObservationId>,
}

/// The last occurrence in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    pub session: SessionId,
    pub at: Timestamp,
}

/// Finds all recurring problems in these sessions. Within each kind, those in the most sessions come first.
pub fn friction(sessions: &[PastSession]) -> Vec<Friction> {
    let mut found = failures::failures(sessions);
    found.extend(stops::stops(sessions));
    found.extend(denials::denials(sessions));
    found.extend(workarounds::workarounds(sessions));
    found
}

/// Occurrences grouped by a key.
struct Groups<T> {
    groups: BTreeMap<String, Vec<Occurrence<T>>>,
}

struct Occurrence<T> {
    session: SessionId,
    at: Timestamp,
    what: T,
}

impl<T> Groups<T> {
    fn new() -> Self {
        Self { groups: BTreeMap::new() }
    }

    fn add(&mut self, key: String, session: &SessionId, at: Timestamp, what: T) {
        self.groups.entry(key).or_default().push(Occurrence { session: session.clone(), at, what });
    }

    /// Returns the groups with at least `least` sessions. Those with the most sessions come first, then the latest.
    /// Within a group the latest occurrence comes first.
    fn of_sessions(self, least: usize) -> Vec<Group<T>> {
        let mut groups: Vec<Group<T>> = (self.groups.into_values())
            .map(|mut occurrences| {
                occurrences.sort_by_key(|one| std::cmp::Reverse(one.at));
                Group { met: meetings(&occurrences), occurrences }
            })
            .filter(|group| group.met.len() >= least)
            .collect();
        groups
            .sort_by_key(|group| std::cmp::Reverse((group.met.len(), group.met.first().map(|last| last.at))));
        groups
    }
}

struct Group<T> {
    /// Latest first.
    occurrences: Vec<Occurrence<T>>,
    met: Vec<Meeting>,
}

impl<T> Group<T> {
    fn times(&self) -> u32 {
        u32::try_from(self.occurrences.len()).unwrap_or(u32::MAX)
    }
}

fn meetings<T>(occurrences: &[Occurrence<T>]) -> Vec<Meeting> {
    let mut met: Vec<Meeting> = Vec::new();
    for one in occurrences {
        if !met.iter().any(|known| known.session == one.session) {
            met.push(Meeting { session: one.session.clone(), at: one.at });
        }
    }
    met
}

#[cfg(test)]
mod tests;
