//! Titles: of some pieces, the statement that stands alone in an index line.

use super::clause::{Border, Cut, Opening, cut, opening, trimmed};
use super::never::{Place, never};
use super::plain::{capitalized, is_balanced, plain};
use super::subject::{Label, labelled, of_heading, of_sentence};
use super::word::{bare, content, is_english, is_file, is_identifier, is_past, is_surely_finite, verb_at};
use super::{Piece, SourceKind};

/// Characters of a title.
pub const LONGEST_TITLE: usize = 100;

/// Whether a title says something by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It names its subject and says something of it.
    Alone,
    /// It is the best there is, but needs what stands beside it.
    Leaning,
}

/// A title, and what of its piece it does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Title {
    pub text: String,
    /// The piece that it was made of.
    pub piece: usize,
    /// The rest of that piece, for the narrative. Empty if the title says it all.
    pub rest: String,
    pub standing: Standing,
}

/// The title of some pieces, which stand in the order of their texts. `None` if nothing in them is a statement.
pub fn title(pieces: &[Piece<'_>]) -> Option<Title> {
    let mut best: Option<(f32, Title)> = None;
    for (at, piece) in pieces.iter().enumerate() {
        for (score, title) in of_piece(pieces, at, *piece) {
            if best.as_ref().is_none_or(|(known, _)| score > *known) {
                best = Some((score, title));
            }
        }
    }
    // Where an opening went, a list mark may have come to the front.
    best.map(|(_, title)| Title { text: capitalized(&plain(&title.text)), ..title })
        .filter(|title| !title.text.is_empty())
}

/// What a piece may be a title as, with how good each is.
fn of_piece(pieces: &[Piece<'_>], at: usize, piece: Piece<'_>) -> Vec<(f32, Title)> {
    let text = plain(piece.text);
    let text = without_opening(without_speaker(&text));
    if text.is_empty()
        || text.ends_with(['?', ':', ','])
        || is_code(&text)
        || never(piece.text, piece.source, Place::Earlier).is_some()
    {
        return Vec::new();
    }
    let place = place_worth(pieces, at);
    let mut found = Vec::new();
    for form in forms(pieces, at, piece, &text) {
        if let Some((worth, title)) = form.title(at) {
            let standing = if worth >= STANDS { Standing::Alone } else { Standing::Leaning };
            found.push((worth + place + 0.8 * piece.salience.clamp(0.0, 2.0), Title { standing, ..title }));
        }
    }
    found
}

/// Labels that say where a text comes from, not what it is about.
const SPEAKERS: [&str; 3] = ["user", "plan", "open"];

fn without_speaker(text: &str) -> &str {
    let mut rest = text;
    while let Some((label, said)) = rest.split_once(':') {
        if !SPEAKERS.iter().any(|speaker| label.trim().eq_ignore_ascii_case(speaker)) {
            break;
        }
        rest = said.trim_start();
    }
    rest
}

/// A form of at least this worth stands alone.
const STANDS: f32 = 0.75;

/// Earlier pieces are better titles: what follows explains them.
fn place_worth(pieces: &[Piece<'_>], at: usize) -> f32 {
    let nth = at.min(6) as f32;
    let is_subject = at == 0 && pieces.first().is_some_and(|piece| piece.source == SourceKind::Commit);
    let later_heading = pieces
        .first()
        .is_some_and(|first| pieces.get(at).is_some_and(|piece| piece.heading != first.heading));
    -0.12 * nth + if is_subject { 0.25 } else { 0.0 } - if later_heading { 0.2 } else { 0.0 }
}

/// A statement with the name that is put in front of it.
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
    let row = of_row(text);
    let text = row.as_deref().unwrap_or(text);
    let text = without_lead(text);
    let (label, said) = labelled(text);
    match label {
        Label::File(file) => {
            return vec![form(Some(file), &uncapitalized(said), 0.0), form(None, said, -0.1)];
        }
        Label::Named(name) => forms.push(form(Some(name), said, 0.05)),
        Label::Generic => {
            // `Medium: Hash collision — ...` has a second label.
            match labelled(said) {
                (Label::Named(name), said) => forms.push(form(Some(name), said, 0.0)),
                (_, _) => forms.push(form(None, said, 0.0)),
            }
        }
        Label::None => {}
    }
    let plainly = form(None, if label_of(text) == Label::Generic { said } else { text }, 0.0);
    if let Some(heading) = of_heading(piece.heading, text)
        && (plainly.needs_subject() || plainly.opening == Opening::Imperative)
    {
        let said = uncapitalized(if matches!(label_of(text), Label::Generic) { said } else { text });
        forms.push(form(Some(heading), &said, if plainly.needs_subject() { 0.1 } else { -0.15 }));
    }
    if let Some(named) = antecedent(pieces, at, text) {
        forms.push(form(None, &named, 0.05));
    }
    forms.push(plainly);
    forms
}

/// A table's row as `name: what is said of it`.
fn of_row(text: &str) -> Option<String> {
    let cells: Vec<&str> =
        text.split(" | ").map(str::trim).filter(|cell| cell.chars().any(char::is_alphabetic)).collect();
    let name = cells.first().filter(|name| text.contains(" | ") && !name.contains(": "))?;
    let said = cells.iter().skip(1).max_by_key(|cell| cell.split_whitespace().count())?;
    (said.split_whitespace().count() > 2).then(|| format!("{name}: {said}"))
}

/// `The problem is on start — x fails` without what only says that something follows.
fn without_lead(text: &str) -> &str {
    let Some((lead, said)) = text.split_once(" — ").or_else(|| text.split_once(": ")) else { return text };
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
    if is_lead && !lead.split_whitespace().any(is_identifier) && said.split_whitespace().count() > 2 {
        said
    } else {
        text
    }
}

fn label_of(text: &str) -> Label {
    labelled(text).0
}

impl Form {
    /// Whether nothing in the statement says what it is about.
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

    /// The title in this form, and its worth without place and salience.
    fn title(&self, piece: usize) -> Option<(f32, Title)> {
        let room =
            LONGEST_TITLE.checked_sub(self.prefix.as_ref().map_or(0, |prefix| prefix.chars().count() + 2))?;
        let (cut, squeezed) = fitting(&self.statement, room)?;
        let said = cut.head;
        let mut worth = self.worth - cut.border.cost() - squeezed;
        let text = match &self.prefix {
            Some(prefix) => format!("{prefix}: {said}"),
            None => said.clone(),
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
        if !is_title(&text) {
            return None;
        }
        Some((worth, Title { text, piece, rest: cut.rest, standing: Standing::Alone }))
    }
}

/// What is against a title, in the same units as its worth.
fn faults(text: &str) -> f32 {
    let words: Vec<String> = text.split_whitespace().map(bare).collect();
    let length = text.chars().count();
    let mut against = 0.0;
    if words.len() < 4 || length < 24 {
        against += 0.6;
    }
    // A step of a procedure, not a statement.
    const STEPS: [&str; 14] = [
        "run", "verify", "check", "test", "ensure", "confirm", "open", "manual", "click", "see", "look",
        "example", "read", "load",
    ];
    if words.first().is_some_and(|first| STEPS.contains(&first.as_str())) {
        against += 0.6;
    }
    if text.contains("...") || text.contains('…') || text.contains(['{', '}']) {
        against += 0.4;
    }
    // Code that is set to something, and a label before next to nothing.
    if text.matches(" = ").count() > 1 {
        against += 0.8;
    }
    if let Some((_, said)) = text.split_once(": ")
        && said.chars().count() < 24
        && !said.split_whitespace().any(is_identifier)
    {
        against += 0.3;
    }
    // `The issue was x`, `The comment explains y`: about the telling, not about the thing.
    const TELLING: [&str; 12] = [
        "issue",
        "problem",
        "comment",
        "checklist",
        "question",
        "point",
        "idea",
        "reason",
        "answer",
        "scenario",
        "thought",
        "feedback",
    ];
    let tells = words.iter().take(3).any(|word| TELLING.contains(&word.as_str()));
    if tells && words.first().is_some_and(|the| the == "the" || the == "general") {
        against += 0.35;
    }
    // A list of names says nothing of them.
    let names = text.split_whitespace().filter(|word| is_identifier(word)).count();
    if names * 3 > words.len() * 2 {
        against += 0.5;
    }
    let split: Vec<&str> = text.split_whitespace().collect();
    let has_verb =
        verb_at(&split, 0).is_some() || matches!(opening(text), Opening::Imperative | Opening::Done);
    if is_english(text) && !has_verb {
        against += 0.35;
    }
    if words.iter().any(|word| {
        matches!(word.as_str(), "i" | "i'd" | "i've" | "i'm" | "you" | "your" | "we" | "we'd" | "let's")
    }) {
        against += 0.35;
    }
    against
}

/// The statement within the room: whole, without its brackets, with short paths, or cut.
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

/// The text without what stands in round brackets, and that.
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

/// Paths by their last part.
fn short_paths(text: &str) -> String {
    let short = |word: &str| {
        let long = is_file(word) && word.matches('/').count() > 0;
        if long { word.rsplit('/').next().unwrap_or(word).to_owned() } else { word.to_owned() }
    };
    text.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

/// `It returns x` with the name of what the sentence before was about.
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
    let (kind, said) = text.split_once(": ")?;
    let kind = kind.trim_end_matches('!');
    let (name, scope) = match kind.split_once('(') {
        Some((name, scope)) => (name, scope.trim_end_matches(')')),
        None => (kind, ""),
    };
    const TYPES: [&str; 13] = [
        "feat", "fix", "docs", "chore", "refactor", "test", "tests", "perf", "ci", "build", "style",
        "revert", "feature",
    ];
    if !TYPES.contains(&name) {
        return None;
    }
    let scope = scope.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let names_scope = scope.is_empty() || said.to_lowercase().contains(&scope.to_lowercase());
    Some(if names_scope { capitalized(said) } else { format!("{scope}: {said}") })
}

/// A small letter at the beginning, unless a name stands there.
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

/// A text without the words by which it leans on the one before.
fn without_opening(text: &str) -> String {
    const LEANING: [&str; 34] = [
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

/// Whether a line is code or a command rather than words.
fn is_code(text: &str) -> bool {
    let marks = text
        .chars()
        .filter(|c| matches!(c, '{' | '}' | ';' | '=' | '$' | '|' | '<' | '>' | '\\' | '&'))
        .count();
    let words: Vec<&str> = text.split_whitespace().collect();
    let first = words.first().copied().unwrap_or_default();
    const COMMANDS: [&str; 20] = [
        "cargo", "git", "npm", "pnpm", "npx", "yarn", "bun", "go", "make", "cd", "mise", "pip", "pytest",
        "docker", "curl", "gh", "func", "let", "const", "import",
    ];
    let is_command = COMMANDS.contains(&first)
        && words.get(1).is_some_and(|second| {
            !is_surely_finite(&bare(second)) && second.chars().all(|c| !c.is_uppercase())
        });
    let is_comment = text.starts_with("//") || text.starts_with("/*") || text.contains(" // ");
    is_comment
        || marks * 8 > text.chars().count()
        || is_command
        || (words.len() < 4 && words.iter().all(|word| is_identifier(word)))
}

/// A capitalized word inside the sentence.
fn has_proper_name(text: &str) -> bool {
    text.split_whitespace()
        .skip(1)
        .any(|word| word.starts_with(|c: char| c.is_uppercase()) && word.chars().count() > 2)
}

/// What every title must be.
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

/// Whether there is more in it than paths and line numbers.
fn names_more_than_places(text: &str) -> bool {
    let others = text.split_whitespace().filter(|word| {
        !is_file(word)
            && bare(word).chars().any(char::is_alphabetic)
            && !matches!(bare(word).as_str(), "line" | "lines" | "and" | "location" | "file")
    });
    others.count() >= 2
}

/// A title as a model or a user wrote it, made to hold to the same rules: no prefix, no marks, no ellipsis, whole within
/// [`LONGEST_TITLE`]. What had to be cut is the rest. `None` if it is no statement: a question, a heading, nothing.
pub fn clean_title(written: &str) -> Option<Title> {
    let mut text = plain(&written.replace('…', " "));
    for _ in 0..2 {
        let Some((label, rest)) = text.split_once(": ") else { break };
        let label = label.to_lowercase();
        let label = label.split(" (").next().unwrap_or_default();
        const PREFIXES: [&str; 22] = [
            "user",
            "plan",
            "open",
            "decision",
            "decided",
            "summary",
            "note",
            "title",
            "bugfix",
            "fix",
            "feature",
            "change",
            "discovery",
            "gotcha",
            "refactor",
            "security",
            "trade-off",
            "preference",
            "correction",
            "next step",
            "todo",
            "user chose",
        ];
        if !PREFIXES.contains(&label) {
            break;
        }
        text = capitalized(&plain(rest));
    }
    let text = text.trim_matches(|edge| matches!(edge, '"' | '“' | '”')).trim();
    let text = trimmed(text.trim_end_matches("...").trim_end());
    // A script without spaces says enough in one word.
    let enough = text.split_whitespace().count() >= 2 || !text.is_ascii() && text.chars().count() > 6;
    if text.ends_with('?') || !enough || !text.chars().any(char::is_alphabetic) {
        return None;
    }
    let (cut, _) = fitting(text, LONGEST_TITLE).unwrap_or_else(|| (at_a_word(text), 0.0));
    let holds = cut.head.chars().any(char::is_alphabetic)
        && !cut.head.ends_with(['?', ':'])
        && !cut.head.ends_with("...");
    holds.then(|| Title { text: capitalized(&cut.head), piece: 0, rest: cut.rest, standing: Standing::Alone })
}

/// Cut between words where no clause ends in time: then the whole goes on, as a head alone says too little.
fn at_a_word(text: &str) -> Cut {
    let mut head = String::new();
    for word in text.split_whitespace() {
        if head.chars().count() + 1 + word.chars().count() > LONGEST_TITLE {
            break;
        }
        if !head.is_empty() {
            head.push(' ');
        }
        head.push_str(word);
    }
    while let Some((before, last)) = head.rsplit_once(' ') {
        if !super::word::is_weak(&bare(last)) && is_balanced(&head) {
            break;
        }
        head = before.to_owned();
    }
    if head.is_empty() {
        head = text.chars().take(LONGEST_TITLE).collect();
    }
    Cut { head: trimmed(&head).to_owned(), rest: text.to_owned(), border: Border::Addition }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece<'a>(text: &'a str, heading: Option<&'a str>, salience: f32) -> Piece<'a> {
        Piece { text, heading, salience, source: SourceKind::Answer }
    }

    #[track_caller]
    fn check(pieces: &[Piece<'_>], expected: &str) -> Title {
        let found = title(pieces).unwrap();
        assert_eq!(found.text, expected);
        found
    }

    #[track_caller]
    fn check_one(text: &str, heading: Option<&str>, expected: &str) {
        check(&[piece(text, heading, 1.0)], expected);
    }

    #[test]
    fn a_whole_statement_is_taken_as_it_is() {
        check_one("- **The cart rounds its total once.**", None, "The cart rounds its total once");
        check_one(
            "However, `Cart::total` returns cents for refunds.",
            None,
            "Cart::total returns cents for refunds",
        );
    }

    #[test]
    fn what_is_cut_goes_on_in_the_rest() {
        let long = "The cart rounds its total once after all lines are summed — every line had lost up to a cent of its own until now.";
        let title =
            check(&[piece(long, None, 1.0)], "The cart rounds its total once after all lines are summed");
        assert_eq!(title.rest, "every line had lost up to a cent of its own until now.");
        assert_eq!((title.piece, title.standing), (0, Standing::Alone));
        let aside = "`Cart::total` rounds the sum of all lines to cents (half to even, as the tax office wants it since the spring of this year)";
        let title = check(&[piece(aside, None, 1.0)], "Cart::total rounds the sum of all lines to cents");
        assert_eq!(title.rest, "half to even, as the tax office wants it since the spring of this year");
    }

    #[test]
    fn the_subject_comes_from_the_heading_the_file_or_the_sentence_before() {
        check_one(
            "Returns nothing on errors",
            Some("3. `Cart::total`"),
            "Cart::total: returns nothing on errors",
        );
        check_one("src/shop/cart.rs — rounds the total once", None, "cart.rs: rounds the total once");
        check_one(
            "Never rounded per line",
            Some("Totals of refunds"),
            "Totals of refunds: Never rounded per line",
        );
        let pieces = [
            piece("`Cart::total` adds up all lines of a cart.", None, 0.2),
            piece("It never rounds a single line of them", None, 1.9),
        ];
        check(&pieces, "Cart::total never rounds a single line of them");
    }

    #[test]
    fn a_generic_heading_or_label_is_left_out() {
        check_one(
            "Rounded the total of the cart once",
            Some("Summary of changes"),
            "Rounded the total of the cart once",
        );
        check_one("Impact: carts show a cent too little", None, "Carts show a cent too little");
        check_one(
            "The problem is on checkout — `Cart::total` rounds twice",
            None,
            "Cart::total rounds twice",
        );
    }

    #[test]
    fn a_commit_loses_its_type_and_keeps_a_scope_that_says_more() {
        let commit = |text| Piece { source: SourceKind::Commit, ..piece(text, None, 1.0) };
        check(&[commit("fix(cart): round totals once")], "Cart: round totals once");
        check(&[commit("fix(cart): round the cart's totals once")], "Round the cart's totals once");
    }

    #[test]
    fn the_statement_is_preferred_to_what_stands_around_it() {
        let pieces = [
            piece("Let me show you what I found.", None, 1.0),
            piece("Two things were wrong:", None, 1.0),
            piece("The gateway drops the sign of a refund", None, 1.0),
            piece("Should I go on?", None, 1.5),
        ];
        assert_eq!(check(&pieces, "The gateway drops the sign of a refund").piece, 2);
    }

    #[test]
    fn what_is_no_statement_is_no_title() {
        for text in [
            "Should drafts be public?",
            "What changed:",
            "cargo test --workspace",
            "src/cart.rs",
            "Done!",
            "let total = cart.total();",
            "// BEFORE total",
        ] {
            assert_eq!(title(&[piece(text, None, 1.0)]), None, "{text}");
        }
        assert_eq!(title(&[]), None);
        let found = title(&[piece("Separation of concerns", None, 1.0)]).unwrap();
        assert_eq!(found.standing, Standing::Leaning);
        let found = title(&[piece("It returns nothing on errors of the cart", None, 1.0)]).unwrap();
        assert_eq!(found.standing, Standing::Leaning);
    }

    #[track_caller]
    fn clean(written: &str, expected: Option<&str>) {
        assert_eq!(clean_title(written).map(|title| title.text).as_deref(), expected, "{written}");
    }

    #[test]
    fn a_written_title_is_held_to_the_same_rules() {
        clean("User: **always** use tabs", Some("Always use tabs"));
        clean("Plan: Open: - round once…", Some("Round once"));
        clean("cart.rs: rounds once", Some("cart.rs: rounds once"));
        clean("Should drafts be public?", None);
        clean("Summary", None);
        clean("", None);
        let long = "The gateway answers every request of the shop twice whenever a customer pays with two vouchers of different kinds at once";
        let title = clean_title(long).unwrap();
        assert!(title.text.chars().count() <= LONGEST_TITLE && !title.text.ends_with("of"), "{title:?}");
        assert!(!title.rest.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_a_title_within_its_bounds_or_none(
            text in ".{0,200}|[ -~]{0,240}|(the |cart |is |rounded |— |, |\\(|\\)|`|\"|: |x.rs |It ){0,40}",
            heading in ".{0,40}",
        ) {
            let pieces = [piece(&text, Some(&heading), 0.5), piece(&text, None, 0.5)];
            for found in title(&pieces).into_iter().chain(clean_title(&text)) {
                proptest::prop_assert!(found.text.chars().count() <= LONGEST_TITLE);
                proptest::prop_assert!(!found.text.ends_with(['?', ':', '…']));
                proptest::prop_assert!(found.text.chars().any(char::is_alphabetic));
            }
        }
    }
}
