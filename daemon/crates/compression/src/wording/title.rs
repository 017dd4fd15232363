//! Chooses titles: among some pieces, the statement that stands alone in an index line.

mod written;

use super::check::{is_check, is_code};
use super::clause::{Border, Cut, Opening, cut, opening};
use super::commit::Conventional;
use super::faults::{faults, is_bare};
use super::never::{Within, never};
use super::plain::{capitalized, is_balanced, plain, row, without_list_mark};
use super::subject::{Label, labelled, of_heading, of_sentence};
use super::word::{bare, content, is_file, is_identifier, is_past};
use super::{Piece, Progress, SourceKind};
pub(crate) use written::clean_title;

/// The maximum number of characters of a title.
pub(crate) const LONGEST_TITLE: usize = 100;

/// A title, and what it leaves out of its piece.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Title {
    pub text: String,
    /// The piece that it was made of.
    pub piece: usize,
    /// The rest of that piece, for the narrative. Empty if the title says it all.
    pub rest: String,
}

/// The title of some pieces, given in the order of their texts. `None` if none of them is a statement.
pub(crate) fn title(pieces: &[Piece<'_>]) -> Option<Title> {
    let mut best: Option<(f32, Title)> = None;
    for (at, piece) in pieces.iter().enumerate() {
        for (score, title) in of_piece(pieces, at, *piece) {
            if best.as_ref().is_none_or(|(known, _)| score > *known) {
                best = Some((score, title));
            }
        }
    }
    // Where an opening went, a list mark or a speaker may have come to the front.
    best.map(|(_, title)| Title { text: capitalized(without_speaker(&plain(&title.text))), ..title })
        .filter(|title| !title.text.is_empty())
}

/// The possible titles of a piece, each with its value.
fn of_piece(pieces: &[Piece<'_>], at: usize, piece: Piece<'_>) -> Vec<(f32, Title)> {
    // A label in code may have its own colon: `` `Caused by:`: the pool is empty ``.
    let row = of_row(piece.text);
    let text = plain(row.as_deref().unwrap_or(piece.text)).replace(":: ", ": ");
    let text = without_pronoun(&without_opening(without_speaker(without_count(&text))));
    if text.is_empty()
        || text.ends_with(['?', ':', ','])
        || is_code(&text)
        || is_check(&text, piece.heading)
        || never(piece.text, piece.source, Within::Earlier).is_some()
    {
        return Vec::new();
    }
    // What is left names no work that was done.
    let is_left = |piece: &Piece<'_>| piece.progress == Progress::Left;
    let left = if is_left(&piece) && !pieces.iter().all(is_left) { 2.0 } else { 0.0 };
    let place = place_worth(pieces, at) - left;
    let mut found = Vec::new();
    for form in forms(pieces, at, piece, &text) {
        if let Some((worth, title)) = form.title(at) {
            found.push((worth + place + 0.5 * piece.salience.clamp(0.0, 2.0), title));
        }
    }
    found
}

/// Labels that say where a text comes from, not what it is about.
const SPEAKERS: [&str; 3] = ["user", "plan", "open"];

fn without_speaker(text: &str) -> &str {
    let mut rest = text;
    while let Some((label, after)) = rest.split_once(':') {
        if !SPEAKERS.iter().any(|speaker| label.trim().eq_ignore_ascii_case(speaker)) {
            break;
        }
        rest = without_list_mark(after);
    }
    rest
}

/// Removes the number of `Phase 2: x`, `Step 3 — x`, `4. x`.
fn without_count(text: &str) -> &str {
    const COUNTED: [&str; 10] =
        ["phase", "step", "task", "part", "stage", "issue", "milestone", "fix", "option", "pr"];
    let Some((label, after)) =
        text.split_once(": ").or_else(|| text.split_once(" — ")).or_else(|| text.split_once(". "))
    else {
        return text;
    };
    let mut words = label.split_whitespace().map(bare);
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    let is_number = |word: &str| word.len() < 4 && word.starts_with(|c: char| c.is_ascii_digit());
    let is_count = words.next().is_none()
        && match second {
            Some(number) => COUNTED.contains(&first.as_str()) && (is_number(&number) || number.len() == 1),
            None => is_number(&first) || first.len() == 1 && label.len() < 4,
        };
    if is_count && after.split_whitespace().count() > 1 { after } else { text }
}

/// The value of a piece's place: earlier pieces make better titles, because later ones explain them.
fn place_worth(pieces: &[Piece<'_>], at: usize) -> f32 {
    let nth = at.min(6) as f32;
    let is_subject = at == 0 && pieces.first().is_some_and(|piece| piece.source == SourceKind::Commit);
    let later_heading = pieces
        .first()
        .is_some_and(|first| pieces.get(at).is_some_and(|piece| piece.heading != first.heading));
    -0.2 * nth + if is_subject { 0.25 } else { 0.0 } - if later_heading { 0.2 } else { 0.0 }
}

/// A statement with the name that precedes it.
struct Form {
    prefix: Option<String>,
    statement: String,
    opening: Opening,
    source: SourceKind,
    /// How natural this form is.
    worth: f32,
}

fn forms(pieces: &[Piece<'_>], at: usize, piece: Piece<'_>, text: &str) -> Vec<Form> {
    let form = |prefix: Option<String>, statement: &str, worth: f32| Form {
        prefix,
        opening: opening(statement),
        statement: statement.to_owned(),
        source: piece.source,
        worth,
    };
    let mut forms = Vec::new();
    let subject = conventional(text, piece.source);
    let text = subject.as_deref().unwrap_or(text);
    let text = without_lead(text);
    let (label, statement) = labelled(text);
    match label {
        Label::File(file) => {
            return vec![form(Some(file), &uncapitalized(statement), 0.0), form(None, statement, -0.1)];
        }
        Label::Named(name) => forms.push(form(Some(name), statement, 0.05)),
        Label::Generic => {
            // `Medium: Hash collision — ...` has a second label.
            match labelled(statement) {
                (Label::Named(name), statement) => forms.push(form(Some(name), statement, 0.0)),
                (_, _) => forms.push(form(None, statement, 0.0)),
            }
        }
        Label::None => {}
    }
    let plainly = form(None, if label_of(text) == Label::Generic { statement } else { text }, 0.0);
    if let Some(heading) = of_heading(piece.about(), text)
        && (plainly.needs_subject() || plainly.opening == Opening::Imperative)
    {
        let statement =
            uncapitalized(if matches!(label_of(text), Label::Generic) { statement } else { text });
        forms.push(form(Some(heading), &statement, if plainly.needs_subject() { 0.1 } else { -0.15 }));
    }
    if let Some(named) = antecedent(pieces, at, text) {
        forms.push(form(None, &named, 0.05));
    }
    forms.push(plainly);
    forms
}

/// A table row as `name: the cell that says most`.
fn of_row(text: &str) -> Option<String> {
    let (name, cells) = row(text)?;
    let longest = cells.into_iter().max_by_key(|cell| cell.split_whitespace().count())?;
    (longest.split_whitespace().count() > 2 && !name.contains(": ")).then(|| format!("{name}: {longest}"))
}

/// `The problem is on start — x fails` without the introduction.
fn without_lead(text: &str) -> &str {
    let Some((lead, rest)) = text.split_once(" — ").or_else(|| text.split_once(": ")) else { return text };
    let words: Vec<String> = lead.split_whitespace().map(bare).collect();
    let sort = matches!(
        words.get(1).map(String::as_str),
        Some(
            "problem"
                | "issue"
                | "bug"
                | "cause"
                | "reason"
                | "fix"
                | "catch"
                | "root"
                | "question"
                | "trick"
                | "key"
                | "point"
                | "gap"
        )
    );
    let is_lead = sort && words.first().is_some_and(|the| the == "the" || the == "one") && words.len() < 8;
    if is_lead && !lead.split_whitespace().any(is_identifier) && rest.split_whitespace().count() > 2 {
        rest
    } else {
        text
    }
}

fn label_of(text: &str) -> Label {
    labelled(text).0
}

impl Form {
    /// Whether nothing in the statement names its subject.
    fn needs_subject(&self) -> bool {
        let names = self.statement.split_whitespace().any(is_identifier);
        match self.opening {
            Opening::Lacking | Opening::Pronoun => true,
            Opening::Fragment | Opening::Done | Opening::Imperative => {
                !names && content(&self.statement).len() < 5
            }
            Opening::Subject => {
                !names && !has_proper_name(&self.statement) && content(&self.statement).len() < 5
            }
        }
    }

    /// The title in this form, and its value without place and salience.
    fn title(&self, piece: usize) -> Option<(f32, Title)> {
        let room =
            LONGEST_TITLE.checked_sub(self.prefix.as_ref().map_or(0, |prefix| prefix.chars().count() + 2))?;
        let (cut, squeezed) = fitting(&self.statement, room)?;
        let head = cut.head;
        // All that is said may stand in brackets.
        if !head.chars().any(char::is_alphanumeric) {
            return None;
        }
        let mut worth = self.worth - cut.border.cost() - squeezed;
        let text = match &self.prefix {
            Some(prefix) => format!("{prefix}: {head}"),
            None => head.clone(),
        };
        let text = capitalized(&text);
        let is_named = self.prefix.is_some();
        worth += match self.opening {
            Opening::Subject => 1.0,
            Opening::Done => 0.95,
            Opening::Imperative => match self.source {
                SourceKind::Commit | SourceKind::PullRequest | SourceKind::Task => 0.95,
                _ => 0.75,
            },
            Opening::Lacking if is_named => 0.95,
            Opening::Fragment if is_named => 0.6,
            Opening::Fragment if text.contains(['→', '=']) => 0.4,
            Opening::Fragment => 0.1,
            Opening::Lacking => 0.0,
            Opening::Pronoun => -0.4,
        };
        if self.needs_subject() && !is_named {
            worth -= 0.35;
        }
        if text.split_whitespace().any(is_identifier) {
            worth += 0.15;
        }
        worth -= faults(&text);
        if is_bare(&text) {
            worth -= 0.35;
        }
        if !is_title(&text) {
            return None;
        }
        Some((worth, Title { text, piece, rest: cut.rest }))
    }
}

/// Returns the statement if it fits; otherwise without its brackets, with shortened paths, or cut. `None` if it cannot
/// be shortened well.
fn fitting(statement: &str, room: usize) -> Option<(Cut, f32)> {
    let whole = cut(statement, room);
    if let Some(found) = &whole
        && found.border <= Border::Sentence
    {
        return whole.map(|cut| (cut, 0.0));
    }
    let (bare, brackets) = without_asides(statement);
    for (candidate, rest, cost) in [
        (short_paths(statement), String::new(), 0.02),
        (bare.clone(), brackets.clone(), 0.1),
        (short_paths(&bare), brackets, 0.12),
    ] {
        if let Some(found) = cut(&candidate, room)
            && found.border == Border::Whole
        {
            return Some((Cut { rest, ..found }, cost));
        }
    }
    whole.map(|cut| (cut, 0.0))
}

/// The text without round brackets and their content, and that content.
fn without_asides(text: &str) -> (String, String) {
    let (mut out, mut asides) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(open) = rest.find(" (") {
        let after = rest.get(open + 2..).unwrap_or_default();
        let mut depth = 1;
        let close = after.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        });
        let Some((close, _)) = close else { break };
        out.push_str(rest.get(..open).unwrap_or_default());
        asides.push(after.get(..close).unwrap_or_default());
        rest = after.get(close + 1..).unwrap_or_default();
    }
    out.push_str(rest);
    (out, asides.join("; "))
}

/// Shortens paths to their last part.
fn short_paths(text: &str) -> String {
    let short = |word: &str| {
        let long = is_file(word) && word.matches('/').count() > 0;
        if long { word.rsplit('/').next().unwrap_or(word).to_owned() } else { word.to_owned() }
    };
    text.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

/// `It returns x`, with the subject of the sentence before.
fn antecedent(pieces: &[Piece<'_>], at: usize, text: &str) -> Option<String> {
    let first = text.split_whitespace().next()?;
    let lower = bare(first);
    let is_lacking = opening(text) == Opening::Lacking;
    if lower != "it" && !is_lacking {
        return None;
    }
    let here = pieces.get(at)?;
    // Entries of one list share the subject that was named before the first of them.
    let before =
        pieces.get(..at)?.iter().rev().find(|piece| opening(&plain(piece.text)) != Opening::Lacking)?;
    let is_below = here
        .heading
        .is_none_or(|heading| super::subject::is_generic(&super::subject::without_number(heading)));
    if before.heading != here.heading && !is_below {
        return None;
    }
    let before = plain(before.text);
    let subject = match labelled(&before) {
        (Label::File(file), _) if is_lacking => file,
        _ => of_sentence(&before)?,
    };
    let rest =
        if is_lacking { uncapitalized(text) } else { text.get(first.len()..)?.trim_start().to_owned() };
    Some(format!("{subject} {rest}"))
}

/// A commit's subject without its conventional type; a scope stays if the subject does not name it.
fn conventional(text: &str, source: SourceKind) -> Option<String> {
    if !matches!(source, SourceKind::Commit | SourceKind::PullRequest) {
        return None;
    }
    let Conventional { scope, description, .. } = Conventional::of(text)?;
    let scope = scope.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let names_scope = scope.is_empty() || description.to_lowercase().contains(&scope.to_lowercase());
    Some(if names_scope { capitalized(description) } else { format!("{scope}: {description}") })
}

/// Makes the first letter lower case, unless it begins a name.
fn uncapitalized(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    let mut characters = text.chars();
    let is_plain = !is_identifier(first)
        && first.chars().skip(1).all(|c| c.is_lowercase() || matches!(c, ',' | '\'' | '-'))
        && (is_past(&bare(first))
            || super::word::is_base_verb(&bare(first))
            || super::word::is_weak(&bare(first))
            || super::word::is_third_person(&bare(first)));
    match characters.next() {
        Some(c) if is_plain => c.to_lowercase().chain(characters).collect(),
        _ => text.to_owned(),
    }
}

/// A text without the words that refer to the text before it.
fn without_opening(text: &str) -> String {
    const LEANING: [&str; 40] = [
        "However",
        "Also",
        "But",
        "So",
        "And",
        "Then",
        "Now",
        "Additionally",
        "Furthermore",
        "Moreover",
        "Finally",
        "Instead",
        "Therefore",
        "Thus",
        "Hence",
        "Specifically",
        "Importantly",
        "Note that",
        "Note",
        "Basically",
        "Essentially",
        "In other words",
        "In short",
        "As a result",
        "For example",
        "That said",
        "Meanwhile",
        "Similarly",
        "Interestingly",
        "Unfortunately",
        "Good news",
        "Confirmed",
        "Yes",
        "Exactly",
        "Right",
        "Correct",
        "Yeah",
        "Not quite",
        "Valid point",
        "Understood",
    ];
    let mut rest = text.trim();
    for _ in 0..2 {
        let found = LEANING.iter().find_map(|leaning| {
            let after = rest.strip_prefix(leaning)?;
            let after = after
                .strip_prefix([',', ':', '!', '.'])
                .or_else(|| after.strip_prefix(" —"))
                .or_else(|| {
                    matches!(*leaning, "But" | "So" | "And" | "Then" | "Now" | "Note that")
                        .then_some(after)
                        .filter(|after| after.starts_with(' '))
                })?;
            (after.split_whitespace().count() > 2).then_some(after.trim_start())
        });
        match found {
            Some(after) => rest = after,
            None => break,
        }
    }
    if rest.len() == text.trim().len() { text.trim().to_owned() } else { capitalized(rest) }
}

/// Turns `I've added x` into `Added x`, because the reader knows who did it.
fn without_pronoun(text: &str) -> String {
    const PRONOUNS: [&str; 8] =
        ["I've ", "I\u{2019}ve ", "I have ", "I ", "We've ", "We\u{2019}ve ", "We have ", "We "];
    let rest = PRONOUNS.iter().find_map(|pronoun| text.strip_prefix(pronoun)).map(|rest| {
        let adverb =
            ["also ", "now ", "just ", "successfully "].iter().find_map(|adverb| rest.strip_prefix(adverb));
        adverb.unwrap_or(rest)
    });
    match rest {
        Some(rest) if rest.split_whitespace().next().is_some_and(|verb| is_past(&bare(verb))) => {
            capitalized(rest)
        }
        _ => text.to_owned(),
    }
}

/// A capitalized word inside the sentence.
fn has_proper_name(text: &str) -> bool {
    text.split_whitespace()
        .skip(1)
        .any(|word| word.starts_with(|c: char| c.is_uppercase()) && word.chars().count() > 2)
}

/// Conditions that every title must meet.
fn is_title(text: &str) -> bool {
    let length = text.chars().count();
    let words = text.split_whitespace().count();
    (12..=LONGEST_TITLE).contains(&length)
        && words >= 2
        && !text.ends_with(['?', ':'])
        && !text.contains('…')
        && !text.ends_with("...")
        && without_speaker(text).len() == text.len()
        && !text.contains("? ")
        && !text.contains(" | ")
        && names_more_than_places(text)
        && is_balanced(text)
        && text.chars().any(char::is_alphabetic)
}

/// Whether the text contains more than paths and line numbers.
fn names_more_than_places(text: &str) -> bool {
    let others = text.split_whitespace().filter(|word| {
        !is_file(word)
            && bare(word).chars().any(char::is_alphabetic)
            && !matches!(bare(word).as_str(), "line" | "lines" | "and" | "location" | "file")
    });
    others.count() >= 2
}

#[cfg(test)]
mod tests;
