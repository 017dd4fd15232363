//! Copies of one session: a fork, or a resumed session that began a new file with the old records. Each message is
//! stored only once, in its original session.

use std::collections::{HashMap, HashSet};

use super::files::SessionFile;
use recall_agents::AgentSpec;
use recall_agents::history::RecordedSession;
use recall_agents::turns::RecordedTurn;

/// Groups files that have an id in common, originals first. The groups keep the order of their first files.
pub(super) fn families(files: Vec<SessionFile>) -> Vec<Vec<SessionFile>> {
    let mut families: Vec<Vec<(usize, SessionFile)>> = Vec::new();
    let mut homes: HashMap<(&str, String), usize> = HashMap::new();
    for file in files {
        let agent = file.spec.name;
        let kin = file.spec.history.and_then(|history| history.kin);
        let ids = kin.map(|kin| kin(&file.path)).unwrap_or_default();
        let known: Vec<usize> =
            ids.iter().filter_map(|id| homes.get(&(agent, id.clone())).copied()).collect();
        let home = known.iter().min().copied().unwrap_or(families.len());
        if home == families.len() {
            families.push(Vec::new());
        }
        for other in known.into_iter().filter(|other| *other != home) {
            let moved = families.get_mut(other).map(std::mem::take).unwrap_or_default();
            if let Some(family) = families.get_mut(home) {
                family.extend(moved);
            }
            homes.values_mut().filter(|place| **place == other).for_each(|place| *place = home);
        }
        // A copy names more ids than its original.
        let names = ids.len();
        homes.extend(ids.into_iter().map(|id| ((agent, id), home)));
        if let Some(family) = families.get_mut(home) {
            family.push((names, file));
        }
    }
    let sorted = families.into_iter().filter(|family| !family.is_empty()).map(|mut family| {
        // Files that were restored together have one time. A copy is longer than its original then.
        let length = |file: &SessionFile| std::fs::metadata(&file.path).map_or(0, |known| known.len());
        family.sort_by(|(names, a), (other, b)| {
            (names, a.modified).cmp(&(other, b.modified)).then_with(|| length(a).cmp(&length(b)))
        });
        family.into_iter().map(|(_, file)| file).collect()
    });
    sorted.collect()
}

/// The contents of a family's sessions so far.
#[derive(Default)]
pub(super) struct FamilyContent {
    events: HashSet<String>,
    sessions: Vec<Vec<RecordedTurn>>,
}

impl FamilyContent {
    /// Removes everything that a session only repeats.
    pub(super) fn without_repeated(&mut self, session: &mut RecordedSession, spec: &AgentSpec) {
        let turns = session.turns(spec);
        let places: HashSet<usize> = self.repeated(&turns, session.events.len()).collect();
        let ids: Vec<String> = session.events.iter().map(|event| event.id.clone()).collect();
        let mut place = 0;
        session.events.retain(|event| {
            let is_repeated = places.contains(&place) || self.events.contains(&event.id);
            place += 1;
            !is_repeated
        });
        self.events.extend(ids);
        self.sessions.push(turns);
    }

    /// Returns the range of turns with which both sessions begin, if ids do not show it.
    fn repeated(&self, turns: &[RecordedTurn], events: usize) -> std::ops::Range<usize> {
        let is_same = |(a, b): &(&RecordedTurn, &RecordedTurn)| {
            let answers = a.answer.as_ref().zip(b.answer.as_ref());
            a.prompt.is_some() && a.prompt == b.prompt && answers.is_none_or(|(a, b)| a.text == b.text)
        };
        let common = self.sessions.iter().map(|known| turns.iter().zip(known).take_while(is_same).count());
        let count = common.max().unwrap_or_default();
        let begin = turns.first().map_or(0, |turn| turn.places.0);
        match count {
            0 => 0..0,
            count => begin..turns.get(count).map_or(events, |turn| turn.places.0),
        }
    }
}
