//! Finding the secrets of one text.
//!
//! One pass looks for all literals at once (an Aho-Corasick automaton); only where one stands is anything else tried:
//! a provider's pattern, anchored there, or a reader of bounded reach. Patterns are compiled at their first use, since
//! most never see a literal of theirs. Time is linear in the text: patterns run without backtracking and start at most
//! once per run of token characters.

use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex::Regex;

use super::plausibility::Name;
use super::rules::{Lead, RULES};
use super::{assignment, key_block, url};

/// A secret, where it stands and how it is called in the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secret {
    pub range: Range<usize>,
    pub kind: &'static str,
    certainty: Certainty,
}

/// What tells that it is one; where two overlap, the surer one names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    Format,
    Place,
    Name,
}

/// What a literal may be the beginning of.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// The rule of that number.
    Rule(usize),
    Word(Name),
    Url,
    KeyBlock,
    PuttyKey,
    Authorization,
    Bearer,
}

/// Built once, used from any thread.
pub(super) struct Scanner {
    literals: AhoCorasick,
    meanings: Vec<Meaning>,
    /// Beside `RULES`, filled at first use.
    patterns: Vec<OnceLock<Option<Regex>>>,
    extra: Vec<Regex>,
    allow: Vec<Regex>,
}

/// The longest `lead` of a rule, in bytes.
const LEAD: usize = 16;

impl Scanner {
    pub(super) fn new(extra: Vec<Regex>, allow: Vec<Regex>) -> Result<Self, aho_corasick::BuildError> {
        let rules = RULES.iter().enumerate();
        let mut table: Vec<_> = rules
            .flat_map(|(at, rule)| rule.literals.iter().map(move |text| (*text, Meaning::Rule(at))))
            .collect();
        table.extend(assignment::WORDS.iter().map(|(word, name)| (*word, Meaning::Word(*name))));
        table.extend([
            (url::SEPARATOR, Meaning::Url),
            (key_block::BEGIN, Meaning::KeyBlock),
            (key_block::PUTTY, Meaning::PuttyKey),
            ("authorization", Meaning::Authorization),
            ("bearer ", Meaning::Bearer),
        ]);
        let literals = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .ascii_case_insensitive(true)
            .build(table.iter().map(|(text, _)| *text))?;
        let meanings = table.into_iter().map(|(_, meaning)| meaning).collect();
        let patterns = RULES.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { literals, meanings, patterns, extra, allow })
    }

    /// Whether the text cannot hold a secret, whatever its strings are decoded to. Cheaper than looking.
    pub(super) fn is_clean_json(&self, json: &str) -> bool {
        self.extra.is_empty()
            && !self.literals.is_match(json)
            // Letters or slashes may hide in escapes.
            && !json.contains("\\u")
            && !json.contains("\\/")
    }

    /// What a field's name promises of its value.
    pub(super) fn telling(&self, key: &str) -> Option<Name> {
        self.literals.find_overlapping_iter(key).find_map(|found| {
            match self.meanings.get(found.pattern().as_usize()) {
                Some(Meaning::Word(name)) => assignment::key(key, &found.range()).map(|_| *name),
                _ => None,
            }
        })
    }

    /// All secrets, in order, none overlapping another.
    pub(super) fn secrets(&self, text: &str) -> Vec<Secret> {
        let mut found: Vec<Secret> = Vec::new();
        // Inside a secret of known format nothing is looked for, inside a value no names of further values: a text of
        // nested ones would be read once for each.
        let (mut covered, mut valued) = (0, 0);
        for hit in self.literals.find_overlapping_iter(text) {
            let Some(meaning) = self.meanings.get(hit.pattern().as_usize()) else { continue };
            if hit.start() < covered || (hit.start() < valued && matches!(meaning, Meaning::Word(_))) {
                continue;
            }
            let secret = self.look(text, hit.range(), *meaning, covered);
            if let Some(secret) = secret.filter(|secret| self.counts(text, secret.range.clone())) {
                match secret.certainty {
                    Certainty::Format => covered = covered.max(secret.range.end),
                    Certainty::Name => valued = valued.max(secret.range.end),
                    Certainty::Place => {}
                }
                found.push(secret);
            }
        }
        for pattern in &self.extra {
            let matches = pattern.find_iter(text).filter(|part| !part.is_empty());
            let secrets = matches.map(|part| Secret {
                range: part.range(),
                kind: "extra",
                certainty: Certainty::Format,
            });
            found.extend(secrets.filter(|secret| self.counts(text, secret.range.clone())));
        }
        found.sort_by_key(|secret| (secret.range.start, secret.range.end));
        joined(found)
    }

    fn look(&self, text: &str, hit: Range<usize>, meaning: Meaning, covered: usize) -> Option<Secret> {
        let (range, kind, certainty) = match meaning {
            Meaning::Rule(at) => {
                (self.by_rule(text, hit.start, at, covered)?, RULES.get(at)?.kind, Certainty::Format)
            }
            Meaning::Word(name) => (assignment::assigned(text, hit, name)?, name.kind(), Certainty::Name),
            Meaning::Url => (url::password(text, hit.start)?, "url-password", Certainty::Place),
            Meaning::KeyBlock => (key_block::armoured(text, hit.start)?, "private-key", Certainty::Format),
            Meaning::PuttyKey => (key_block::putty(text, hit.start)?, "private-key", Certainty::Format),
            Meaning::Authorization => {
                (assignment::authorization(text, hit.end)?, "authorization", Certainty::Place)
            }
            Meaning::Bearer => (assignment::credentials(text, hit.end)?, "authorization", Certainty::Place),
        };
        Some(Secret { range, kind, certainty })
    }

    /// The secret of the rule's format whose literal stands at `at`. One that follows another without a gap begins
    /// where that ended, at `covered`.
    fn by_rule(&self, text: &str, at: usize, number: usize, covered: usize) -> Option<Range<usize>> {
        let rule = RULES.get(number)?;
        let before = text.as_bytes().get(..at)?;
        let lead = match rule.lead {
            Lead::Nothing => 0,
            Lead::Digits => run_before(before, u8::is_ascii_digit),
            Lead::Alphanumerics => run_before(before, u8::is_ascii_alphanumeric),
        };
        let start = at - lead;
        let free = match rule.lead {
            // `bot123:AA…` in addresses.
            Lead::Digits => true,
            _ => start == covered || begins_token(text.as_bytes(), start),
        };
        if !free {
            return None;
        }
        let pattern =
            self.patterns.get(number)?.get_or_init(|| Regex::new(&format!(r"\A(?-u:{})", rule.pattern)).ok());
        let end = pattern.as_ref()?.find(text.get(start..)?)?.end();
        Some(start..start + end)
    }

    /// Whether what was found is not on the user's list of exceptions.
    pub(super) fn counts(&self, text: &str, range: Range<usize>) -> bool {
        let Some(part) = text.get(range) else { return false };
        !part.is_empty() && !self.allow.iter().any(|pattern| pattern.is_match(part))
    }
}

impl Name {
    /// The word in the mark.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Key => "secret",
            Self::Token => "token",
        }
    }
}

fn run_before(before: &[u8], is: fn(&u8) -> bool) -> usize {
    before.iter().rev().take(LEAD).take_while(|byte| is(byte)).count()
}

/// Whether no token goes on at `start`. A line break written as `\n`, a percent escape and a diff's sign at a line's
/// beginning are no part of a token.
fn begins_token(text: &[u8], start: usize) -> bool {
    let back = |count: usize| start.checked_sub(count).and_then(|at| text.get(at)).copied();
    match back(1) {
        None => true,
        Some(b'-') => matches!(back(2), None | Some(b'\n')),
        Some(b'_') => false,
        Some(byte) if byte.is_ascii_alphanumeric() => {
            (back(2) == Some(b'\\') && b"nrt".contains(&byte))
                || (back(3) == Some(b'%') && byte.is_ascii_hexdigit())
        }
        Some(_) => true,
    }
}

/// Makes one of those that overlap, from the first's beginning to the last's end.
fn joined(sorted: Vec<Secret>) -> Vec<Secret> {
    let mut out: Vec<Secret> = Vec::with_capacity(sorted.len());
    for secret in sorted {
        match out.last_mut() {
            Some(last) if secret.range.start < last.range.end => {
                last.range.end = last.range.end.max(secret.range.end);
                if secret.certainty < last.certainty {
                    (last.kind, last.certainty) = (secret.kind, secret.certainty);
                }
            }
            _ => out.push(secret),
        }
    }
    out
}
