//! The features of a unit: its place, its form, the names in it, and other units that say the same.

use super::analysis::{Analysis, BatchFacts, Places, Source};
use super::cues;
use super::sources::SourceKind;
use super::terms::{Term, Terms};
use super::units::{Form, Unit};
use recall_domain::linear::{Features, Row};

/// The kinds of source, with the names of their features.
pub(super) const KINDS: [(SourceKind, &str); 12] = [
    (SourceKind::Answer, "is answer"),
    (SourceKind::Commit, "is commit"),
    (SourceKind::PullRequest, "is pull request"),
    (SourceKind::Plan, "is plan"),
    (SourceKind::Document, "is document"),
    (SourceKind::Prompt, "is prompt"),
    (SourceKind::PlanPrompt, "is plan prompt"),
    (SourceKind::Ask, "is ask"),
    (SourceKind::Subagent, "is subagent"),
    (SourceKind::Comment, "is comment"),
    (SourceKind::Failure, "is failure"),
    (SourceKind::Cure, "is cure"),
];

/// The sources of each term so far.
#[derive(Debug, Default)]
pub(super) struct Index {
    sources: Vec<Vec<u32>>,
    seen_units: usize,
    /// Scratch space: the terms that a unit shares with each source.
    shared: Vec<u32>,
}

impl Index {
    /// Adds the new units.
    pub(super) fn extend(&mut self, analysis: &Analysis) {
        self.sources.resize(analysis.frequency.len(), Vec::new());
        for (number, terms) in analysis.terms.iter().enumerate().skip(self.seen_units) {
            let source = analysis.source_of.get(number).copied().unwrap_or(0) as u32;
            for term in &terms.content {
                if let Some(sources) = self.sources.get_mut(term.index())
                    && sources.last() != Some(&source)
                {
                    sources.push(source);
                }
            }
        }
        self.seen_units = analysis.terms.len();
        self.shared.resize(analysis.sources.len(), 0);
    }

    /// The features of a unit.
    pub(super) fn row(&mut self, analysis: &Analysis, batch: BatchFacts, number: usize) -> Row {
        self.features(analysis, batch, number).map_or_else(Vec::new, |features| features.values())
    }

    pub(super) fn features(
        &mut self,
        analysis: &Analysis,
        batch: BatchFacts,
        number: usize,
    ) -> Option<Features> {
        let unit = analysis.units.get(number)?;
        let terms = analysis.terms.get(number)?;
        let source_number = *analysis.source_of.get(number)?;
        let source = analysis.sources.get(source_number)?;
        let mut features = Features::default();
        let f = &mut features;
        for (kind, name) in KINDS {
            f.add(name, source.kind == kind);
        }
        form(f, unit, terms);
        place(f, analysis, source, number);
        let lower = cues::plain(&unit.text);
        for (name, cue) in cues::TEXT.iter() {
            f.add(name, cue.are_in(&lower));
        }
        self.recurrence(f, analysis, source_number, terms);
        f.add("edits of batch", ln(batch.edits + 1));
        f.add("failures of batch", ln(batch.failures + 1));
        f.add("steps of batch", ln(batch.steps + 1));
        f.add("length of prompt", ln(batch.prompt_chars + 1));
        f.add("prompt asks", batch.asks);
        Some(features)
    }

    /// How often its names and its content recur.
    fn recurrence(&mut self, f: &mut Features, analysis: &Analysis, source_number: usize, terms: &Terms) {
        let Some(source) = analysis.sources.get(source_number) else { return };
        let names = terms.names.len();
        let frequencies = || terms.names.iter().map(|name| analysis.frequency(*name));
        f.add(
            "frequency of names",
            frequencies().map(|n| n.min(6)).sum::<usize>() as f64 / names.max(1) as f64,
        );
        f.add("rare names", frequencies().filter(|n| *n == 1).count() as f64);
        f.add("common names", frequencies().filter(|n| *n >= 2).count() as f64);
        let share = |kinds: &[SourceKind], places| {
            if kinds.contains(&source.kind) { 0.0 } else { analysis.share_in(&terms.content, places) }
        };
        f.add("share in prompts", share(&[SourceKind::Prompt], Places::PROMPT));
        f.add("share in commits", share(&[SourceKind::Commit, SourceKind::PullRequest], Places::COMMIT));
        f.add("share in answers", share(&[SourceKind::Answer], Places::ANSWER));
        f.add("share in plans", share(&[SourceKind::Plan, SourceKind::PlanPrompt], Places::PLAN));
        let (later, earlier, own_answer) = self.overlap(analysis, &terms.content, source_number);
        f.add("share in answer of batch", if source.kind == SourceKind::Answer { 0.0 } else { own_answer });
        f.add("share in later source", later);
        f.add("share in earlier source", earlier);
        f.add("content", terms.content.len() as f64);
    }

    /// The largest share of the content in a later source, in an earlier one, and in the answer of the batch.
    fn overlap(&mut self, analysis: &Analysis, content: &[Term], own: usize) -> (f64, f64, f64) {
        let batch = analysis.sources.get(own).map(|source| source.batch);
        let mut touched: Vec<u32> = Vec::new();
        for term in content {
            for source in self.sources.get(term.index()).map_or(&[][..], Vec::as_slice) {
                if let Some(score) = self.shared.get_mut(*source as usize) {
                    if *score == 0 {
                        touched.push(*source);
                    }
                    *score += 1;
                }
            }
        }
        let (mut later, mut earlier, mut answer) = (0.0_f64, 0.0_f64, 0.0_f64);
        for source in touched {
            let number = source as usize;
            let score = self.shared.get_mut(number).map_or(0, std::mem::take);
            let share = f64::from(score) / content.len().max(1) as f64;
            match number.cmp(&own) {
                std::cmp::Ordering::Less => earlier = earlier.max(share),
                std::cmp::Ordering::Greater => later = later.max(share),
                std::cmp::Ordering::Equal => {}
            }
            if let Some(source) = analysis.sources.get(number)
                && source.kind == SourceKind::Answer
                && Some(source.batch) == batch
            {
                answer = share;
            }
        }
        (later, earlier, answer)
    }
}

/// Features of a unit's form.
fn form(f: &mut Features, unit: &Unit, terms: &Terms) {
    let text = unit.text.as_str();
    let names = terms.names.len();
    f.add("length", ln(unit.chars));
    f.count("names", names, 8);
    f.add("share of names", terms.name_chars as f64 / unit.chars.max(1) as f64);
    f.count("numbers", terms.numbers, 5);
    f.count("words", terms.words, 120);
    f.add("share of stop words", terms.stop_words as f64 / terms.words.max(1) as f64);
    f.count("code spans", text.matches('`').count() / 2, 8);
    f.add("is item", unit.form == Form::Item);
    f.add("is row", unit.form == Form::Row);
    f.add("is code", unit.form == Form::Code);
    f.count("depth", unit.depth, 3);
    f.add("is bold", unit.is_bold);
    f.add("is subject", unit.is_subject);
    f.add("is led", unit.is_led);
    f.add("ends with colon", text.ends_with(':'));
    f.add("ends with question mark", text.trim_end_matches(['"', '\'']).ends_with('?'));
    f.add("ends with exclamation mark", text.ends_with('!'));
    f.count(
        "dashes",
        text.matches('—').count() + text.matches(" – ").count() + text.matches(" - ").count(),
        2,
    );
    f.count("parentheses", text.matches('(').count(), 3);
    f.count("arrows", text.matches('→').count() + text.matches("->").count(), 2);
    f.add("has colon", text.contains(": "));
    f.count("quotes", text.matches('"').count(), 6);
    f.count("paths", terms.paths, 3);
    f.count("calls", text.matches("()").count(), 3);
    f.add("has hash", has_hash(text));
    f.add("is file", is_file_line(text));
}

/// Its place in its source and in its section.
fn place(f: &mut Features, analysis: &Analysis, source: &Source, number: usize) {
    let Some(unit) = analysis.units.get(number) else { return };
    let units = source.units.len();
    let at = number - source.units.start;
    f.add("place", at as f64 / units.saturating_sub(1).max(1) as f64);
    f.count("units before", at, 20);
    f.count("units behind", units - 1 - at, 20);
    f.add("place of section", unit.section as f64 / source.sections.saturating_sub(1).max(1) as f64);
    f.count("sections", source.sections, 15);
    f.add("length of source", ln(source.chars + 1));
    f.add("is long source", source.chars > 3_000);
    f.add("is end of subagent", source.kind == SourceKind::Subagent && at * 10 > units * 7);
    f.count("headings", unit.headings.len(), 6);
    f.add("is first", unit.is_first);
    let section = |other: usize| {
        source.units.contains(&other) && analysis.units.get(other).is_some_and(|u| u.section == unit.section)
    };
    let first = (source.units.start..number).rev().take(40).take_while(|other| section(*other)).count();
    let last = (number + 1..source.units.end).take(40).take_while(|other| section(*other)).count();
    let (first, last) = (number - first, number + last + 1);
    let in_section = first..last;
    f.count("units of section", in_section.len(), 20);
    f.count("place in section", number - first, 10);
    let section_names: usize =
        in_section.clone().filter_map(|other| analysis.terms.get(other)).map(|terms| terms.names.len()).sum();
    f.add("names of section", section_names as f64 / in_section.len().max(1) as f64);
    let same_paragraph = in_section
        .filter(|other| analysis.units.get(*other).is_some_and(|u| u.paragraph == unit.paragraph))
        .count();
    f.count("units of paragraph", same_paragraph, 12);
}

/// The features of the first unit, from which the names are taken.
pub(super) fn first(analysis: &Analysis) -> Option<Features> {
    let mut index = Index::default();
    index.extend(analysis);
    index.features(analysis, BatchFacts::default(), 0)
}

fn ln(count: usize) -> f64 {
    (count.max(1) as f64).ln()
}

/// A word of seven to ten hexadecimal digits.
fn has_hash(text: &str) -> bool {
    text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).any(|word| {
        (7..=10).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

/// Whether a line names a file and says little about it.
fn is_file_line(text: &str) -> bool {
    let bare = text.trim_start_matches('`');
    let length = bare
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'\\' | b'-'))
        .count();
    let (name, rest) = bare.split_at(length);
    let ends_like_a_file = name
        .rsplit_once('.')
        .is_some_and(|(stem, ending)| !stem.is_empty() && (1..=5).contains(&ending.len()));
    ends_like_a_file && rest.chars().count() <= 42 && {
        let rest = rest.trim_start_matches('`').trim_start();
        rest.is_empty() || rest.starts_with(['(', '—', ':', '-'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_hashes_and_file_lines_are_recognized_by_their_form() {
        assert!(has_hash("Committed as 88aa001."));
        assert!(!has_hash("The decade of facades"));
        assert!(is_file_line("`src/pool.rs` (new)"));
        assert!(is_file_line("src/pool.rs — waits"));
        assert!(!is_file_line("src/pool.rs waits for the drain"));
    }
}
