//! Finding the secrets of one text.
//!
//! One pass looks for all literals at once (an Aho-Corasick automaton); only where one stands is anything else tried:
//! a provider's pattern, anchored there, or a reader of bounded reach. A second pass looks at long runs of token
//! characters, for what no literal begins. Patterns are compiled at their first use, since most never see a literal of
//! theirs. Time is linear in the text: patterns run without backtracking, and each fails within a bounded number of
//! bytes or is tried once per run.

use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use recall_protocol::elision::ELISION;
use regex::Regex;

use super::byte_set::ByteSet;
use super::plausibility::Name;
use super::rules::{Lead, RULES, Rule, Start};
use super::{assignment, command_line, cut, http, key_block, sentence, shapes, url};

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
    ValuePosition,
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
    KeyEnd,
    PuttyKey,
    Authorization,
    Bearer,
    Cookie,
    Parameter,
    Program(&'static command_line::Program),
    Elision,
}

/// Which secrets are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Everywhere,
    /// Those with a format of their own: in ids and paths a name says nothing of what stands beside it.
    FormatsOnly,
}

/// Built once, used from any thread.
pub(super) struct Scanner {
    literals: AhoCorasick,
    meanings: Vec<Meaning>,
    /// Beside each literal, in the spelling it must have; `None`: any.
    spellings: Vec<Option<&'static str>>,
    /// Beside `RULES`, filled at first use.
    patterns: Vec<OnceLock<Option<Regex>>>,
    shapes: shapes::Shapes,
    extra: Vec<Regex>,
    allow: Vec<Regex>,
}

/// The longest `lead` of a rule, in bytes.
const LEAD: usize = 16;
/// No rule's secret begins with fewer bytes of these in a row.
const SHORTEST: usize = 16;
const SECRET_BYTES: ByteSet = ByteSet::alphanumeric_and(b"_-./+=%:~$");
/// What a run of [`Start::OncePerRun`] is made of.
const RUN_BYTES: ByteSet = ByteSet::alphanumeric_and(b"_-");

/// How far a text has been read, so that nothing reads it twice.
#[derive(Default)]
struct Progress {
    /// Inside a secret of known format nothing is looked for.
    covered: usize,
    /// Inside a value no names of further values are: a text of nested ones would be read once for each.
    valued: usize,
    /// The end of a run in which a far-reaching rule has been tried.
    tried: usize,
    /// The ends of what a command and a header with cookies has been read for.
    commanded: usize,
    cookies: usize,
}

impl Scanner {
    pub(super) fn new(extra: Vec<Regex>, allow: Vec<Regex>) -> Result<Self, aho_corasick::BuildError> {
        let rules = RULES.iter().enumerate();
        let mut table: Vec<_> = rules
            .flat_map(|(at, rule)| rule.literals.iter().map(move |text| (*text, Meaning::Rule(at))))
            .collect();
        table.extend(assignment::WORDS.iter().map(|(word, name)| (*word, Meaning::Word(*name))));
        table.extend(http::PARAMETERS.iter().map(|name| (*name, Meaning::Parameter)));
        table.extend(command_line::PROGRAMS.iter().map(|program| (program.name, Meaning::Program(program))));
        table.extend([
            (url::SEPARATOR, Meaning::Url),
            (key_block::BEGIN, Meaning::KeyBlock),
            (key_block::END, Meaning::KeyEnd),
            (key_block::PUTTY, Meaning::PuttyKey),
            ("authorization", Meaning::Authorization),
            ("bearer ", Meaning::Bearer),
            ("cookie", Meaning::Cookie),
            (ELISION, Meaning::Elision),
        ]);
        let literals = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .ascii_case_insensitive(true)
            .build(table.iter().map(|(text, _)| *text))?;
        let spelling = |(text, meaning): &(&'static str, Meaning)| {
            matches!(meaning, Meaning::Rule(_) | Meaning::Program(_)).then_some(*text)
        };
        let spellings = table.iter().map(spelling).collect();
        let meanings = table.into_iter().map(|(_, meaning)| meaning).collect();
        let patterns = RULES.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { literals, meanings, spellings, patterns, shapes: shapes::Shapes::default(), extra, allow })
    }

    /// Whether the text cannot hold a secret, whatever its strings are decoded to. Cheaper than looking.
    pub(super) fn is_clean_json(&self, json: &str) -> bool {
        self.extra.is_empty()
            && !self.literals.is_match(json)
            // Letters or slashes may hide in escapes.
            && !json.contains("\\u")
            && !json.contains("\\/")
            && !shapes::may_hold(json)
    }

    /// What a field's name promises of its value.
    pub(super) fn lifecycle_json(&self, key: &str) -> Option<Name> {
        self.literals.find_overlapping_iter(key).find_map(|found| {
            match self.meanings.get(found.pattern().as_usize()) {
                Some(Meaning::Word(name)) => assignment::key(key, &found.range()).map(|_| *name),
                _ => None,
            }
        })
    }

    /// All secrets, in order, none overlapping another.
    pub(super) fn secrets(&self, text: &str, look: Look) -> Vec<Secret> {
        let mut found: Vec<Secret> = Vec::new();
        let mut progress = Progress::default();
        for hit in self.literals.find_overlapping_iter(text) {
            let number = hit.pattern().as_usize();
            let Some(meaning) = self.meanings.get(number) else { continue };
            if hit.start() < progress.covered
                || (hit.start() < progress.valued && matches!(meaning, Meaning::Word(_)))
                || (look == Look::FormatsOnly && !meaning.is_format())
                || self.spellings.get(number).is_some_and(|spelling| {
                    spelling.is_some_and(|spelling| text.get(hit.range()) != Some(spelling))
                })
            {
                continue;
            }
            let before = found.len();
            self.look(text, hit.range(), *meaning, &mut progress, &mut found);
            let mut at = before;
            while let Some(secret) = found.get(at) {
                if !self.counts(text, secret.range.clone()) {
                    found.swap_remove(at);
                    continue;
                }
                match secret.certainty {
                    Certainty::Format => progress.covered = progress.covered.max(secret.range.end),
                    Certainty::Name => progress.valued = progress.valued.max(secret.range.end),
                    Certainty::ValuePosition => {}
                }
                at += 1;
            }
        }
        let shaped = self.shapes.find(text, look).into_iter().map(|(range, kind)| {
            let certainty = if kind == shapes::UNNAMED { Certainty::Name } else { Certainty::Format };
            Secret { range, kind, certainty }
        });
        found.extend(shaped.filter(|secret| self.counts(text, secret.range.clone())));
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

    fn look(
        &self,
        text: &str,
        hit: Range<usize>,
        meaning: Meaning,
        progress: &mut Progress,
        found: &mut Vec<Secret>,
    ) {
        use Certainty::{Format, Name, ValuePosition};
        let mut add = |range: Option<Range<usize>>, kind, certainty| {
            found.extend(range.map(|range| Secret { range, kind, certainty }));
        };
        match meaning {
            Meaning::Rule(at) => {
                let Some(rule) = RULES.get(at) else { return };
                let range = self.by_rule(text, hit.start, (at, rule), progress);
                if rule.kind == "aws-access-key"
                    && let Some(id) = &range
                {
                    add(shapes::aws_secret(text, id), "aws-secret-key", ValuePosition);
                }
                add(range, rule.kind, Format);
            }
            Meaning::Word(name) => {
                let Some(key) = assignment::key(text, &hit) else { return };
                let assigned = assignment::assigned(text, &key, name);
                add(assigned.or_else(|| sentence::said(text, key.end, name)), name.kind(), Name);
            }
            Meaning::Url => add(url::password(text, hit.start), "url-password", ValuePosition),
            Meaning::KeyBlock => add(key_block::armoured(text, hit.start), "private-key", Format),
            Meaning::KeyEnd => {
                add(key_block::tail(text, hit.start, progress.covered), "private-key", Format);
            }
            Meaning::PuttyKey => add(key_block::putty(text, hit.start), "private-key", Format),
            Meaning::Authorization => add(http::authorization(text, hit.end), "authorization", ValuePosition),
            Meaning::Bearer => add(http::credentials(text, hit.end), "authorization", ValuePosition),
            Meaning::Parameter => add(http::parameter(text, hit.end), "parameter", ValuePosition),
            Meaning::Cookie if hit.start >= progress.cookies => {
                let (cookies, end) = http::cookies(text, hit.end);
                progress.cookies = end;
                cookies.into_iter().for_each(|range| add(Some(range), "cookie", ValuePosition));
            }
            Meaning::Program(program) if hit.start >= progress.commanded => {
                let (secrets, end) = command_line::secrets(text, hit, program);
                progress.commanded = end;
                secrets.into_iter().for_each(|range| add(Some(range), "password", ValuePosition));
            }
            Meaning::Elision => {
                cut::touching(text, hit)
                    .into_iter()
                    .for_each(|range| add(Some(range), "cut-secret", ValuePosition));
            }
            Meaning::Cookie | Meaning::Program(_) => {}
        }
    }

    /// The secret of the rule's format whose literal stands at `at`. One that follows another without a gap begins
    /// where that ended.
    fn by_rule(
        &self,
        text: &str,
        at: usize,
        (number, rule): (usize, &Rule),
        progress: &mut Progress,
    ) -> Option<Range<usize>> {
        let before = text.as_bytes().get(..at)?;
        let lead = match rule.lead {
            Lead::Nothing => 0,
            Lead::Digits => run_before(before, u8::is_ascii_digit),
            Lead::Alphanumerics => run_before(before, u8::is_ascii_alphanumeric),
        };
        let start = at - lead;
        let first = text.as_bytes().get(start..start + SHORTEST)?;
        if SECRET_BYTES.run(first) < SHORTEST {
            return None;
        }
        match rule.start {
            Start::Anywhere => {}
            Start::Word if start == progress.covered || begins_token(text.as_bytes(), start) => {}
            Start::OncePerRun if start >= progress.tried => {
                progress.tried = start + RUN_BYTES.run(text.as_bytes().get(start..)?);
            }
            Start::Word | Start::OncePerRun => return None,
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

impl Meaning {
    fn is_format(self) -> bool {
        matches!(self, Self::Rule(_) | Self::KeyBlock | Self::KeyEnd | Self::PuttyKey)
    }
}

impl Name {
    /// The word in the mark.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Password | Self::Login | Self::Pass | Self::Pair => "password",
            Self::Key => "secret",
            Self::Token => "token",
        }
    }
}

fn run_before(before: &[u8], is: fn(&u8) -> bool) -> usize {
    before.iter().rev().take(LEAD).take_while(|byte| is(byte)).count()
}

/// Whether a word begins at `start`. A line break written as `\n`, a percent escape, a colour's code and an option's
/// letter are no part of it.
fn begins_token(text: &[u8], start: usize) -> bool {
    let back = |count: usize| start.checked_sub(count).and_then(|at| text.get(at)).copied();
    match back(1) {
        Some(b'm') if ends_colour(text.get(..start - 1).unwrap_or_default()) => true,
        Some(byte) if byte.is_ascii_alphanumeric() => {
            (back(2) == Some(b'\\') && b"nrt".contains(&byte))
                || (back(3) == Some(b'%') && byte.is_ascii_hexdigit())
                || (back(2) == Some(b'-') && matches!(back(3), None | Some(b' ' | b'\n' | b'"' | b'\'')))
        }
        _ => true,
    }
}

/// Whether this ends like `\x1b[31`, however the escape is written.
fn ends_colour(before: &[u8]) -> bool {
    let codes =
        before.iter().rev().take(12).take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    before.len().checked_sub(codes + 1).and_then(|at| before.get(at)) == Some(&b'[')
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
