//! Is this passage an answer? Computes the features of a candidate relative to everything else found.
//!
//! A feature means the same in a project of fifty passages and one of fifty thousand: shares, ratios and the
//! information of words. Only the commonness of words depends on a language.

use std::collections::HashMap;

use super::model::FeatureSet;
use crate::document::{DocumentKey, DocumentKind};
use crate::linear::Features;
use crate::observation::ObservationType;
use crate::passage::{PassageKey, PassageMatch, PassageMatches};
use crate::ranking::Commonness;

/// The number of strongest matches that are judged, and the number of closest ones.
const STRONGEST: usize = 60;
const CLOSEST: usize = 40;

/// A passage with its features.
pub struct Featured<'a> {
    pub found: &'a PassageMatch,
    /// Includes features of meaning if both the passage and the prompt have vectors.
    pub features: FeatureSet,
}

/// Facts that all matches of one prompt share.
struct Field<'a> {
    matches: &'a PassageMatches,
    whole: f32,
    /// Bits of the words that may name a subject.
    subject_bits: u32,
    subjects: usize,
    conversations: HashMap<u64, Conversation>,
    by_key: HashMap<PassageKey, &'a PassageMatch>,
    /// The lowest cosine among the closest passages.
    near: f32,
}

/// The matches from one session.
#[derive(Clone, Copy, Default)]
struct Conversation {
    found: u32,
    strongest: f32,
    second: f32,
    closest: f32,
    /// The number of its passages among the closest.
    near: usize,
}

impl<'a> Field<'a> {
    fn of(matches: &'a PassageMatches) -> Self {
        let mut conversations: HashMap<u64, Conversation> = HashMap::new();
        let near = least_of_closest(matches);
        for one in &matches.matches {
            let all = conversations.entry(one.conversation).or_default();
            all.found |= one.found;
            if one.strength > all.strongest {
                all.second = all.strongest;
                all.strongest = one.strength;
            } else {
                all.second = all.second.max(one.strength);
            }
            if let Some(cosine) = one.cosine {
                all.closest = all.closest.max(cosine);
                all.near += usize::from(cosine >= near);
            }
        }
        let subjects = || matches.terms.iter().filter(|term| term.commonness == Commonness::Content);
        let mut subject_bits = 0;
        for (place, term) in matches.terms.iter().enumerate() {
            let bit = u32::try_from(place).ok().and_then(|place| 1_u32.checked_shl(place)).unwrap_or(0);
            subject_bits |= if term.commonness == Commonness::Content { bit } else { 0 };
        }
        Self {
            whole: matches.terms.iter().map(|term| term.information).sum::<f32>().max(f32::MIN_POSITIVE),
            subject_bits,
            subjects: subjects().count(),
            conversations,
            by_key: matches.matches.iter().map(|one| (one.key, one)).collect(),
            near,
            matches,
        }
    }

    fn words(&self, one: &PassageMatch) -> Features {
        let subject = one.found & self.subject_bits;
        let mut rarest: Vec<f32> = self.matches.found(subject).map(|term| term.information).collect();
        rarest.sort_by(|a, b| b.total_cmp(a));
        let conversation = self.conversations.get(&one.conversation).copied().unwrap_or_default();
        let others = self.conversations.iter().filter(|(id, _)| **id != one.conversation);
        let rival = others.map(|(_, other)| other.strongest).fold(0.0, f32::max);
        let at = |part: Option<u32>| {
            let key = PassageKey { part: part?, ..one.key };
            self.by_key.get(&key).map(|near| near.strength)
        };
        let near = at(one.key.part.checked_sub(1)).into_iter().chain(at(one.key.part.checked_add(1)));
        let asked = match one.key.document.kind {
            DocumentKind::Response => {
                let document = DocumentKey { kind: DocumentKind::Prompt, ..one.key.document };
                self.by_key.get(&PassageKey { document, part: 0 }).map_or(0.0, |asked| asked.strength)
            }
            _ => 0.0,
        };
        let mut features = Features::default();
        let mut add = |name: &'static str, value: f32| features.add(name, f64::from(value));
        add("strength in bits", one.strength * self.whole);
        add("second rarest word", rarest.get(1).copied().unwrap_or(0.0));
        add("session coverage", self.matches.information(conversation.found) / self.whole);
        add("session strength", (conversation.strongest + conversation.second) / 2.0);
        add("strength near", near.fold(0.0, f32::max));
        add("strength of its prompt", asked);
        add("ahead of other sessions", (one.strength - rival).clamp(-0.3, 0.3));
        add("length", (1.0 + one.length as f32).ln());
        add("words asked", (1.0 + self.subjects as f32).ln());
        let kind = one.key.document.kind;
        features.add("is observation", kind == DocumentKind::Observation);
        features.add("is summary", kind == DocumentKind::Summary);
        features.add("is plan", kind == DocumentKind::Plan);
        features.add("is prompt", kind == DocumentKind::Prompt);
        features.add("is activity", kind == DocumentKind::Activity);
        features.add("is change", one.observation_type == Some(ObservationType::Change));
        features.add(
            "importance",
            if kind == DocumentKind::Observation { f64::from(one.importance.get()) - 5.0 } else { 0.0 },
        );
        features
    }

    /// A cosine means different things for different questions, so the distance to the usual is a feature too.
    fn meaning(&self, one: &PassageMatch) -> Option<Features> {
        let (cosine, background) = (one.cosine?, self.matches.background?);
        let conversation = self.conversations.get(&one.conversation).copied().unwrap_or_default();
        let others = self.conversations.iter().filter(|(id, _)| **id != one.conversation);
        let rival = others.map(|(_, other)| other.closest).fold(0.0, f32::max);
        let mut features = self.words(one);
        let mut add = |name: &'static str, value: f32| features.add(name, f64::from(value));
        add("cosine", cosine);
        add("deviations above the usual", background.deviations(cosine));
        add("closer than other sessions", (cosine - rival).clamp(-0.3, 0.3));
        add("closest of its session", conversation.closest);
        add("share of the closest", conversation.near as f32 / CLOSEST as f32);
        Some(features)
    }
}

/// Returns the strongest and the closest matches with their features, in the order of the matches.
pub fn candidates(matches: &PassageMatches) -> Vec<Featured<'_>> {
    let field = Field::of(matches);
    let is_judged =
        |place: usize, one: &PassageMatch| place < STRONGEST || one.cosine.is_some_and(|it| it >= field.near);
    let judged = matches.matches.iter().enumerate().filter(|(place, one)| is_judged(*place, one));
    judged
        .map(|(_, found)| {
            let features = FeatureSet { words: field.words(found), meaning: field.meaning(found) };
            Featured { found, features }
        })
        .collect()
}

/// The cosine of the last of the closest passages.
fn least_of_closest(matches: &PassageMatches) -> f32 {
    let mut cosines: Vec<f32> = matches.matches.iter().filter_map(|one| one.cosine).collect();
    cosines.sort_unstable_by(|a, b| b.total_cmp(a));
    cosines.get(CLOSEST - 1).or(cosines.last()).copied().unwrap_or_default()
}
