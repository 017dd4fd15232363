//! Finds the secrets in a text.
//!
//! One pass searches for all literals at once with an Aho-Corasick automaton. Only at a hit is anything else tried: a
//! provider's pattern anchored there, or a parser with bounded reach. A second pass examines long runs of token
//! characters for secrets without a literal, and decodes those that are base64 text. The beginning of a text is also
//! checked for the words that restore a wallet. Patterns are compiled on first use, because most are never needed.
//! Time is linear in the text: patterns run without backtracking, and each fails within a bounded number of bytes or
//! is tried once per run.

use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use recall_protocol::elision::ELISION;
use regex::Regex;

use super::beginning;
use super::byte_set::ByteSet;
use super::plausibility::{Name, looks_random};
use super::rules::{Lead, RULES, Rule, Start};
use super::shapes::SearchScope;
use super::{assignment, command_line, cut, http, key_block, mnemonic, password_file, sentence, shapes, url};

/// A secret: its range, and its kind for the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secret {
    pub range: Range<usize>,
    pub kind: &'static str,
    certainty: Certainty,
}

/// The evidence for a secret, in order of certainty. If two overlap, the more certain one determines the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    Format,
    ValuePosition,
    Name,
}

/// What a literal may announce.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// The rule with this index.
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
    Reader,
    PasswordFile,
    Mnemonic,
    Elision,
}

/// The scanner. Built once and used from any thread.
pub(super) struct Scanner {
    literals: AhoCorasick,
    meanings: Vec<Meaning>,
    /// Parallel to the literals: the exact spelling, or `None` if case is ignored.
    spellings: Vec<Option<&'static str>>,
    /// Parallel to `RULES`, compiled on first use.
    patterns: Vec<OnceLock<Option<Regex>>>,
    shapes: shapes::Shapes,
    extra: Vec<Regex>,
    allow: Vec<Regex>,
}

/// The longest `lead` of a rule, in bytes.
const LEAD: usize = 16;
/// Every rule's secret begins with at least this many bytes of `RUN_BYTES`.
const SHORTEST: usize = 16;
const SECRET_BYTES: ByteSet = ByteSet::alphanumeric_and(b"_-./+=%:~$");
/// The number of bytes examined after a literal.
const TAIL: usize = 64;
/// Characters of a run for [`Start::OncePerRun`].
const RUN_BYTES: ByteSet = ByteSet::alphanumeric_and(b"_-");

/// How far the text has been examined, so that nothing is read twice.
#[derive(Default)]
struct Examined {
    /// The end of the last secret of a known format. Nothing is searched inside it.
    secret_end: usize,
    /// The end of the last value. Names inside a value are skipped; otherwise nested ones would be read once for each.
    value_end: usize,
    /// The end of the last run in which a [`Start::OncePerRun`] rule was tried.
    run_end: usize,
    /// The ends of the last command and of the last cookie header that were examined.
    command_end: usize,
    /// The end of the last program that reads a secret.
    reader_end: usize,
    cookies_end: usize,
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
        table.extend(mnemonic::NAMES.iter().map(|name| (*name, Meaning::Mnemonic)));
        table.extend(command_line::READERS.iter().map(|name| (*name, Meaning::Reader)));
        table.extend(password_file::PORTS.iter().map(|port| (*port, Meaning::PasswordFile)));
        let literals = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .ascii_case_insensitive(true)
            .build(table.iter().map(|(text, _)| *text))?;
        let spelling = |(text, meaning): &(&'static str, Meaning)| {
            matches!(meaning, Meaning::Rule(_) | Meaning::Program(_) | Meaning::Reader).then_some(*text)
        };
        let spellings = table.iter().map(spelling).collect();
        let meanings = table.into_iter().map(|(_, meaning)| meaning).collect();
        let patterns = RULES.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { literals, meanings, spellings, patterns, shapes: shapes::Shapes::default(), extra, allow })
    }

    /// Whether the text certainly contains no secret after decoding its strings. Cheaper than scanning.
    pub(super) fn is_clean_json(&self, json: &str) -> bool {
        self.extra.is_empty()
            && !self.literals.is_match(json)
            // Letters and slashes may be escaped.
            && !json.contains("\\u")
            && !json.contains("\\/")
            && !shapes::may_hold(json)
            && !mnemonic::may_hold(json)
    }

    /// The kind of secret that a field's name announces.
    pub(super) fn name_of_key(&self, key: &str) -> Option<Name> {
        self.literals.find_overlapping_iter(key).find_map(|found| {
            match self.meanings.get(found.pattern().as_usize()) {
                Some(Meaning::Word(name)) => assignment::key(key, &found.range()).map(|_| *name),
                _ => None,
            }
        })
    }

    /// Returns all secrets in order, without overlaps.
    pub(super) fn secrets(&self, text: &str, scope: SearchScope) -> Vec<Secret> {
        self.secrets_at(text, scope, 0)
    }

    /// The kind of the first secret in a text that was base64-encoded.
    fn kind_within(&self, plain: &str, depth: u8) -> Option<&'static str> {
        /// Base64 may contain base64, as the secrets of Kubernetes do.
        const DEEPEST: u8 = 2;
        let within = (depth < DEEPEST).then(|| self.secrets_at(plain, SearchScope::Everywhere, depth + 1))?;
        within.first().map(|secret| secret.kind)
    }

    fn secrets_at(&self, text: &str, scope: SearchScope, depth: u8) -> Vec<Secret> {
        let mut found: Vec<Secret> = Vec::new();
        let mut progress = Examined::default();
        for hit in self.literals.find_overlapping_iter(text) {
            let number = hit.pattern().as_usize();
            let Some(meaning) = self.meanings.get(number) else { continue };
            if hit.start() < progress.secret_end
                || (hit.start() < progress.value_end && matches!(meaning, Meaning::Word(_)))
                || (scope == SearchScope::FormatsOnly && !meaning.is_format())
                || self.spellings.get(number).is_some_and(|spelling| {
                    spelling.is_some_and(|spelling| text.get(hit.range()) != Some(spelling))
                })
            {
                continue;
            }
            let before = found.len();
            self.examine_hit(text, hit.range(), *meaning, &mut progress, &mut found);
            let mut at = before;
            while let Some(secret) = found.get(at) {
                if !self.counts(text, secret.range.clone()) {
                    found.swap_remove(at);
                    continue;
                }
                match secret.certainty {
                    Certainty::Format => progress.secret_end = progress.secret_end.max(secret.range.end),
                    Certainty::Name => progress.value_end = progress.value_end.max(secret.range.end),
                    Certainty::ValuePosition => {}
                }
                at += 1;
            }
        }
        let shapes::LongRuns { secrets: shaped, encoded } = self.shapes.find(text, scope);
        let shaped = shaped.into_iter().map(|(range, kind)| {
            let certainty = if kind == shapes::UNNAMED { Certainty::Name } else { Certainty::Format };
            Secret { range, kind, certainty }
        });
        let encoded = encoded.into_iter().filter_map(|(range, plain)| {
            let kind = self.kind_within(&plain, depth)?;
            Some(Secret { range, kind, certainty: Certainty::ValuePosition })
        });
        let words = (scope == SearchScope::Everywhere).then(|| mnemonic::at_start(text)).flatten();
        let words =
            words.into_iter().map(|range| Secret { range, kind: "mnemonic", certainty: Certainty::Format });
        let others = shaped.chain(encoded).chain(words);
        found.extend(others.filter(|secret| self.counts(text, secret.range.clone())));
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

    fn examine_hit(
        &self,
        text: &str,
        hit: Range<usize>,
        meaning: Meaning,
        progress: &mut Examined,
        found: &mut Vec<Secret>,
    ) {
        use Certainty::{Format, Name, ValuePosition};
        let mut add = |range: Option<Range<usize>>, kind, certainty| {
            found.extend(range.map(|range| Secret { range, kind, certainty }));
        };
        match meaning {
            Meaning::Rule(at) => {
                let Some(rule) = RULES.get(at) else { return };
                let range = self.by_rule(text, hit, at, rule, progress);
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
                add(assigned.or_else(|| sentence::stated_value(text, key.end, name)), name.kind(), Name);
            }
            Meaning::Url => add(url::password(text, hit.start), "url-password", ValuePosition),
            Meaning::KeyBlock => add(key_block::armoured(text, hit.start), "private-key", Format),
            Meaning::KeyEnd => {
                add(key_block::tail(text, hit.start, progress.secret_end), "private-key", Format);
            }
            Meaning::PuttyKey => add(key_block::putty_private_part(text, hit.start), "private-key", Format),
            Meaning::Authorization => add(http::authorization(text, hit.end), "authorization", ValuePosition),
            Meaning::Bearer => add(http::credentials(text, hit.end), "authorization", ValuePosition),
            Meaning::Parameter => add(http::parameter(text, hit.end), "parameter", ValuePosition),
            Meaning::Cookie if hit.start >= progress.cookies_end => {
                let (cookies, end) = http::cookies(text, hit.end);
                progress.cookies_end = end;
                cookies.into_iter().for_each(|range| add(Some(range), "cookie", ValuePosition));
            }
            Meaning::Program(program) if hit.start >= progress.command_end => {
                let (secrets, end) = command_line::secrets(text, hit, program);
                progress.command_end = end;
                secrets.into_iter().for_each(|range| add(Some(range), "password", ValuePosition));
            }
            Meaning::Reader if command_line::reads_secret(text, hit.clone()) => {
                add(command_line::piped(text, hit.clone(), progress.reader_end), "password", ValuePosition);
                progress.reader_end = hit.end;
            }
            Meaning::Mnemonic => add(mnemonic::announced(text, hit.end), "mnemonic", Format),
            Meaning::PasswordFile => add(password_file::password(text, hit), "password", ValuePosition),
            Meaning::Elision => {
                cut::fragments_at(text, hit)
                    .into_iter()
                    .for_each(|range| add(Some(range), "cut-secret", ValuePosition));
            }
            Meaning::Cookie | Meaning::Program(_) | Meaning::Reader => {}
        }
    }

    /// Returns the secret in the rule's format for the literal at `hit`. It may directly follow another secret.
    fn by_rule(
        &self,
        text: &str,
        hit: Range<usize>,
        number: usize,
        rule: &Rule,
        progress: &mut Examined,
    ) -> Option<Range<usize>> {
        let before = text.as_bytes().get(..hit.start)?;
        let lead = match rule.lead {
            Lead::Nothing => 0,
            Lead::Digits => run_before(before, u8::is_ascii_digit),
            Lead::Alphanumerics(count) => count,
        };
        let start = hit.start.checked_sub(lead)?;
        let first = text.as_bytes().get(start..start + SHORTEST)?;
        if SECRET_BYTES.run(first) < SHORTEST {
            return None;
        }
        match rule.start {
            Start::Anywhere => {}
            Start::Word
                if start == progress.secret_end
                    || begins_token(text.as_bytes(), start)
                    || is_drawn(text, hit.end) => {}
            Start::Drawn
                if (start == progress.secret_end || begins_token(text.as_bytes(), start))
                    && is_drawn(text, hit.end) => {}
            Start::OncePerRun if start >= progress.run_end => {
                progress.run_end = start + RUN_BYTES.run(text.as_bytes().get(start..)?);
            }
            Start::Word | Start::Drawn | Start::OncePerRun => return None,
        }
        let pattern =
            self.patterns.get(number)?.get_or_init(|| Regex::new(&format!(r"\A(?-u:{})", rule.pattern)).ok());
        let end = pattern.as_ref()?.find(text.get(start..)?)?.end();
        Some(start..start + end)
    }

    /// Whether the secret is not on the user's list of exceptions.
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
    /// The kind as written in the mark.
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

/// Whether a word begins at `start`. A line break written as `\n`, a percent escape, a colour code and an option's
/// letter do not belong to the word.
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

/// Whether the text after a literal mixes capitals, lower-case letters and digits randomly.
fn is_drawn(text: &str, start: usize) -> bool {
    let rest = text.get(start..).unwrap_or_default();
    let tail = beginning(rest, SECRET_BYTES.run(beginning(rest, TAIL).as_bytes()));
    let has = |is: fn(&u8) -> bool| tail.bytes().any(|byte| is(&byte));
    has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && looks_random(tail)
}

/// Whether the text ends with a colour code such as `\x1b[31`, in any spelling of the escape.
fn ends_colour(before: &[u8]) -> bool {
    let codes =
        before.iter().rev().take(12).take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    before.len().checked_sub(codes + 1).and_then(|at| before.get(at)) == Some(&b'[')
}

/// Merges overlapping secrets.
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
