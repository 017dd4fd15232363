//! Parses search queries: words, `"exact phrases"`, `-word` and `key:value` for known keys.
//!
//! There are no syntax errors: an unclosed quote, an unknown key or an invalid value is searched for as text.
//! [`mistake`] finds values that look like a typo, for callers that can ask the user. Text that was not typed as a
//! query, such as a prompt, is parsed by [`Query::plain`], which has no operators.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp as Instant};

use recall_domain::document::DocumentKind;
use recall_domain::ids::Timestamp;
use recall_domain::observation::ObservationType;

use super::edit_distance::edits;

/// A parsed query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Optional words. Documents with more of them rank higher.
    pub words: Vec<String>,
    /// Required phrases.
    pub phrases: Vec<String>,
    /// For each key, at least one of its values must match.
    pub filters: Vec<Filter>,
    pub without: Without,
}

/// Conditions that exclude a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// Words and phrases.
    pub texts: Vec<String>,
    pub filters: Vec<Filter>,
}

/// The author name that means the user who is asking.
pub const ME: &str = "me";

/// A condition on a document's properties instead of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    Type(ObservationType),
    Kind(DocumentKind),
    /// A path or consecutive components of one: `login.rs`, `auth/login`.
    File(String),
    /// A project's identity or its display name.
    Project(String),
    Agent(String),
    /// A session's id or a prefix of one.
    Session(String),
    /// An author's name in lower case, or [`ME`].
    By(String),
    Since(Since),
}

/// A point in time as typed. Relative ones are resolved when the query runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since(String);

impl Since {
    /// Parses `2d`, `3w`, `1 month`, `today`, `yesterday`, `2026-11-01` and RFC 3339 times.
    pub fn parse(text: &str) -> Option<Self> {
        let since = Self(text.to_owned());
        since.resolve(Timestamp(0), &TimeZone::UTC).map(|_| since)
    }

    /// Returns the earliest time meant. `None` if it is outside the calendar's range.
    pub fn resolve(&self, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let text = self.0.trim().to_ascii_lowercase();
        let now = Instant::from_millisecond(now.0).ok()?.to_zoned(zone.clone());
        let start = match text.as_str() {
            "today" => now.start_of_day().ok()?,
            "yesterday" => now.yesterday().ok()?.start_of_day().ok()?,
            _ => {
                if let Ok(instant) = self.0.trim().parse::<Instant>() {
                    return Some(Timestamp(instant.as_millisecond()));
                }
                if let Ok(date) = text.parse::<Date>() {
                    date.to_zoned(zone.clone()).ok()?
                } else {
                    let span = text.trim_end_matches("ago").trim().parse::<Span>().ok()?;
                    now.checked_sub(span.abs()).ok()?
                }
            }
        };
        Some(Timestamp(start.timestamp().as_millisecond()))
    }
}

impl Query {
    /// Parses the text as words only, without operators.
    pub fn plain(text: &str) -> Self {
        Self { words: text.split_whitespace().map(str::to_owned).collect(), ..Self::default() }
    }

    /// Returns all words and phrases of the query, in order.
    pub fn wanted_text(&self) -> String {
        let texts: Vec<&str> = self.words.iter().chain(&self.phrases).map(String::as_str).collect();
        texts.join(" ")
    }

    /// Whether the query has neither words nor conditions.
    pub fn asks_for_nothing(&self) -> bool {
        let conditions = !self.filters.is_empty() || self.without != Without::default();
        !conditions && !self.wanted_text().contains(char::is_alphanumeric)
    }
}

/// Parses a query. Never fails: whatever is not an operator is a word.
pub fn parse(text: &str) -> Query {
    let mut query = Query::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (item, after) = take_item(rest);
        item.add_to(&mut query);
        rest = after.trim_start();
    }
    query
}

/// A filter with a typo or without a value. [`parse`] searches for it as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The filter as typed, for example `type:bugfx`.
    pub typed: String,
    /// The intended key.
    pub key: &'static str,
    pub value: String,
    pub slip: Slip,
}

/// What is wrong with a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slip {
    /// The key is misspelt.
    Key,
    /// The value is not valid for the key.
    Value(Values),
}

/// The valid values of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    Names(Vec<&'static str>),
    Times,
}

/// Times that can be written as words.
const TIMES: [&str; 2] = ["today", "yesterday"];

impl Mistake {
    /// Returns the closest valid filter by spelling, if one is close enough.
    pub fn nearest(&self) -> Option<String> {
        let known: &[&str] = match &self.slip {
            Slip::Key => return Some(format!("{}:{}", self.key, self.value)),
            Slip::Value(Values::Names(names)) => names,
            Slip::Value(Values::Times) => &TIMES,
        };
        let typed = self.value.to_ascii_lowercase().replace('-', "_");
        let near = known.iter().map(|known| (edits(&typed, known), *known));
        let (edits, known) = near.min_by_key(|(edits, _)| *edits)?;
        (edits <= MOST_EDITS.min(known.len() / 2)).then(|| format!("{}:{known}", self.key))
    }

    /// Returns what is wrong, for the user.
    pub fn what(&self) -> String {
        let Self { key, value, .. } = self;
        match (&self.slip, value.is_empty()) {
            (Slip::Key, _) => {
                format!("Unknown filter {:?}", self.typed.split(':').next().unwrap_or_default())
            }
            (Slip::Value(Values::Times), true) => {
                format!("{key}: without a value: try 2h, yesterday, 2026-11-01")
            }
            (Slip::Value(Values::Times), false) => {
                format!("Invalid time {value:?}: try 2h, yesterday, 2026-11-01")
            }
            (Slip::Value(Values::Names(_)), true) => format!("{key}: without a value"),
            (Slip::Value(Values::Names(_)), false) => format!("Unknown {key} {value:?}"),
        }
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> String {
        let instead = match (self.nearest(), &self.slip) {
            (Some(nearest), _) => format!("Did you mean {nearest}? "),
            (None, Slip::Value(Values::Names(names))) => format!("Known: {}. ", names.join(", ")),
            (None, Slip::Value(Values::Times) | Slip::Key) => String::new(),
        };
        format!("{instead}To look for the text itself, quote it: '\"{}\"'.", self.typed.replace('"', ""))
    }
}

/// The maximum number of edits between a typo and the intended word.
const MOST_EDITS: usize = 3;

/// Returns the first mistyped filter of a query.
pub fn mistake(text: &str) -> Option<Mistake> {
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (item, after) = take_item(rest);
        if let Item::Word(_, word) = item
            && let Some(mistake) = mistake_in(word)
        {
            return Some(mistake);
        }
        rest = after.trim_start();
    }
    None
}

fn mistake_in(word: &str) -> Option<Mistake> {
    let (name, value) = word.split_once(':')?;
    let value = value.trim_matches(is_quote);
    // Code such as `std::type::x`.
    if value.contains(':') {
        return None;
    }
    let Some(key) = Key::parse(name) else { return mistyped_key(word, name, value) };
    let known = key.values()?;
    let slip = Slip::Value(known);
    Some(Mistake { typed: word.to_owned(), key: key.name(), value: value.to_owned(), slip })
}

/// Detects a mistyped key: in `typ:bugfix` the key is almost right and the value would be valid, while `foo:bar` is
/// text.
fn mistyped_key(word: &str, name: &str, value: &str) -> Option<Mistake> {
    let name = name.to_ascii_lowercase();
    let key = Key::ALL.into_iter().find(|key| edits(&name, key.name()) == 1)?;
    let is_meant = match key {
        Key::Type | Key::Kind | Key::Since => key.filter(value).is_some(),
        // Any value is valid for these keys, so only a longer key is certain.
        Key::Project | Key::Agent | Key::Session => !value.is_empty(),
        Key::File | Key::By => false,
    };
    is_meant.then(|| Mistake {
        typed: word.to_owned(),
        key: key.name(),
        value: value.to_owned(),
        slip: Slip::Key,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Polarity {
    With,
    Without,
}

enum Item<'a> {
    Word(Polarity, &'a str),
    Phrase(Polarity, &'a str),
    Filter(Polarity, Filter),
}

impl Item<'_> {
    fn add_to(self, query: &mut Query) {
        match self {
            Self::Word(Polarity::With, text) => query.words.push(text.to_owned()),
            Self::Phrase(Polarity::With, text) => query.phrases.push(text.to_owned()),
            Self::Filter(Polarity::With, filter) => query.filters.push(filter),
            Self::Word(Polarity::Without, text) | Self::Phrase(Polarity::Without, text) => {
                query.without.texts.push(text.to_owned());
            }
            Self::Filter(Polarity::Without, filter) => query.without.filters.push(filter),
        }
    }
}

/// Removes the first item from `text`, which is not empty and does not start with a space.
fn take_item(text: &str) -> (Item<'_>, &str) {
    let (polarity, body) = match text.strip_prefix('-') {
        // `-1` is a number and `--flag` a flag; both are searched for as text.
        Some(body) if body.starts_with(|c: char| c.is_alphabetic() || is_quote(c)) => {
            (Polarity::Without, body)
        }
        _ => (Polarity::With, text),
    };
    if let Some((phrase, after)) = take_quoted(body) {
        return (Item::Phrase(polarity, phrase), after);
    }
    if let Some((filter, after)) = take_filter(body) {
        return (Item::Filter(polarity, filter), after);
    }
    let (word, after) = take_bare(body);
    (Item::Word(polarity, word), after)
}

pub fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\u{201c}' | '\u{201d}')
}

/// Returns the contents of a closed, non-empty pair of quotes.
fn take_quoted(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix(is_quote)?;
    let end = inner.find(is_quote)?;
    let (phrase, close) = inner.split_at_checked(end)?;
    let after = close.strip_prefix(is_quote)?;
    (!phrase.trim().is_empty()).then_some((phrase, after))
}

/// Returns the text up to the next space. A quote inside a word belongs to it.
fn take_bare(text: &str) -> (&str, &str) {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn take_filter(text: &str) -> Option<(Filter, &str)> {
    let (key, value_and_rest) = text.split_once(':')?;
    let key = Key::parse(key)?;
    let (value, after) = take_quoted(value_and_rest).unwrap_or_else(|| take_bare(value_and_rest));
    let filter = key.filter(value.trim())?;
    Some((filter, after))
}

#[derive(Clone, Copy)]
enum Key {
    Type,
    Kind,
    File,
    Project,
    Agent,
    Session,
    By,
    Since,
}

impl Key {
    const ALL: [Self; 8] = [
        Self::Type,
        Self::Kind,
        Self::File,
        Self::Project,
        Self::Agent,
        Self::Session,
        Self::By,
        Self::Since,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Kind => "kind",
            Self::File => "file",
            Self::Project => "project",
            Self::Agent => "agent",
            Self::Session => "session",
            Self::By => "by",
            Self::Since => "since",
        }
    }

    /// Returns the valid values; `None` if any value is valid.
    fn values(self) -> Option<Values> {
        match self {
            Self::Type => Some(Values::Names(ObservationType::ALL.map(|(_, name)| name).to_vec())),
            Self::Kind => Some(Values::Names(DocumentKind::ALL.map(|(_, name, _)| name).to_vec())),
            Self::Since => Some(Values::Times),
            Self::File | Self::Project | Self::Agent | Self::Session | Self::By => None,
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "type" => Self::Type,
            "kind" => Self::Kind,
            "file" | "path" => Self::File,
            "project" => Self::Project,
            "agent" => Self::Agent,
            "session" => Self::Session,
            "by" | "author" => Self::By,
            "since" => Self::Since,
            _ => return None,
        })
    }

    /// Builds the filter. `None` if the value is invalid for this key; the text is then searched for literally.
    fn filter(self, value: &str) -> Option<Filter> {
        if value.is_empty() {
            return None;
        }
        let lower = value.to_ascii_lowercase();
        match self {
            Self::Type => ObservationType::parse(&lower.replace('-', "_")).map(Filter::Type),
            Self::Kind => {
                // Everyday names of types.
                let name = match lower.as_str() {
                    "answer" => "response",
                    "call" => "activity",
                    name => name,
                };
                DocumentKind::parse(name).map(Filter::Kind)
            }
            Self::File => Some(Filter::File(value.to_owned())),
            Self::Project => Some(Filter::Project(value.to_owned())),
            Self::Agent => Some(Filter::Agent(lower)),
            Self::Session => Some(Filter::Session(value.to_owned())),
            Self::By => Some(Filter::By(value.to_lowercase())),
            Self::Since => Since::parse(value).map(Filter::Since),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Renders a query in the notation of the tables below.
    fn render(query: &Query) -> String {
        let mut items: Vec<String> = query.words.clone();
        items.extend(query.phrases.iter().map(|text| format!("<{text}>")));
        items.extend(query.filters.iter().map(|filter| format!("{filter:?}")));
        items.extend(query.without.texts.iter().map(|text| format!("not <{text}>")));
        items.extend(query.without.filters.iter().map(|filter| format!("not {filter:?}")));
        items.join(" | ")
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(render(&parse(text)), expected, "for {text:?}");
    }

    #[test]
    fn words_phrases_and_negations_are_parsed() {
        check("slow login", "slow | login");
        check(r#"slow "login page" fix"#, "slow | fix | <login page>");
        check("login -oauth", "login | not <oauth>");
        check(r#"login -"single sign on""#, "login | not <single sign on>");
        check("\u{201c}login page\u{201d}", "<login page>");
    }

    #[test]
    fn known_keys_are_parsed_as_filters() {
        check("type:decision db", "db | Type(Decision)");
        check("type:trade-off Type:TRADE_OFF", "Type(TradeOff) | Type(TradeOff)");
        check("type:next-step type:contact", "Type(NextStep) | Type(Contact)");
        check("kind:plan", "Kind(Plan)");
        check("file:src/a.rs", r#"File("src/a.rs")"#);
        check(r#"file:"my file.rs" x"#, r#"x | File("my file.rs")"#);
        check(
            "project:Shop agent:Codex session:ab12",
            r#"Project("Shop") | Agent("codex") | Session("ab12")"#,
        );
        check(r#"by:Mia -author:"Ben B.""#, r#"By("mia") | not By("ben b.")"#);
        check("since:2d", r#"Since(Since("2d"))"#);
        check("-type:change x", "x | not Type(Change)");
    }

    #[test]
    fn invalid_syntax_in_a_query_is_parsed_as_text() {
        check("foo:bar", "foo:bar");
        check("type:nonsense", "type:nonsense");
        check("since:someday", "since:someday");
        check("file:", "file:");
        check(r#""unclosed quote"#, r#""unclosed | quote"#);
        check(r#"say "" twice"#, r#"say | "" | twice"#);
        check("a - b --flag -1", "a | - | b | --flag | -1");
        check("(a AND [b", "(a | AND | [b");
        check("path/to/file.rs:42", "path/to/file.rs:42");
        check("http://x.y/?q=1", "http://x.y/?q=1");
        check("  ", "");
    }

    #[test]
    fn a_mistyped_filter_is_detected_and_the_nearest_one_suggested() {
        let check = |text: &str, expected: Option<(&str, Option<&str>)>| {
            let found = mistake(text);
            let nearest = found.as_ref().and_then(Mistake::nearest);
            let found = found.as_ref().map(|mistake| (mistake.typed.as_str(), nearest.as_deref()));
            assert_eq!(found, expected, "{text}");
        };
        check("cart type:bugfx", Some(("type:bugfx", Some("type:bugfix"))));
        check("-type:tradeof x", Some(("type:tradeof", Some("type:trade_off"))));
        check("kind:promt", Some(("kind:promt", Some("kind:prompt"))));
        check("type:xyzzy", Some(("type:xyzzy", None)));
        check("since:someday", Some(("since:someday", None)));
        check("since:yesterdy", Some(("since:yesterdy", Some("since:yesterday"))));
        check("cart typ:bugfix", Some(("typ:bugfix", Some("type:bugfix"))));
        check("-knid:plan", Some(("knid:plan", Some("kind:plan"))));
        check("sinc:2d", Some(("sinc:2d", Some("since:2d"))));
        check("proejct:shop", Some(("proejct:shop", Some("project:shop"))));
        check("cart type: x", Some(("type:", None)));
        check("kind:\"\"", Some(("kind:\"\"", None)));
        for fine in [
            "type:bugfix kind:plan since:2d",
            "file:x agent:codx foo:bar file: std::type::x",
            r#""type:bugfx""#,
            "time:10 tile:x fill:red kin:dred types::x",
            "",
        ] {
            check(fine, None);
        }
    }

    #[test]
    fn plain_text_has_no_operators() {
        assert_eq!(
            render(&Query::plain("- fix -x type:plan \"a b\"")),
            "- | fix | -x | type:plan | \"a | b\""
        );
    }

    #[test]
    fn since_times_are_resolved_relative_to_the_query_time() {
        // 2026-11-21T12:00:00Z
        let now = Timestamp(1_795_262_400_000);
        for (text, expected) in [
            ("2d", "2026-11-19T12:00:00Z"),
            ("3w", "2026-10-31T12:00:00Z"),
            ("1 month ago", "2026-10-21T12:00:00Z"),
            ("90m", "2026-11-21T10:30:00Z"),
            ("today", "2026-11-21T00:00:00Z"),
            ("yesterday", "2026-11-20T00:00:00Z"),
            ("2026-11-01", "2026-11-01T00:00:00Z"),
            ("2026-11-01T10:00:00+01:00", "2026-11-01T09:00:00Z"),
        ] {
            let resolved = Since::parse(text).and_then(|since| since.resolve(now, &TimeZone::UTC));
            let instant = Instant::from_millisecond(resolved.expect(text).0).expect(text);
            assert_eq!(instant.to_string(), expected, "{text}");
        }
        assert_eq!(Since::parse("someday"), None);
    }

    #[test]
    fn a_date_starts_at_midnight_in_the_readers_time_zone() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let since = Since::parse("2026-11-01").expect("a date");
        let start = since.resolve(Timestamp(1_795_262_400_000), &zone).expect("in the calendar");
        assert_eq!(Instant::from_millisecond(start.0).expect("a time").to_string(), "2026-10-31T22:00:00Z");
    }

    proptest! {
        #[test]
        fn any_text_parses_as_a_query_without_losing_words(text in "\\PC{0,60}|[-a-z:\" 0-9]{0,60}") {
            let query = parse(&text);
            // Every word of the input appears somewhere, unless it is a filter.
            let kept = render(&query);
            for word in text.split_whitespace().filter(|word| word.chars().all(char::is_alphanumeric)) {
                prop_assert!(kept.contains(word), "{word:?} of {text:?} got lost in {kept:?}");
            }
        }

        #[test]
        fn any_time_is_read_without_panic(text in "\\PC{0,20}|-?[0-9]{1,19} ?[dwmyhs]", now in any::<i64>()) {
            let since = Since(text);
            if let Some(start) = since.resolve(Timestamp(now), &TimeZone::UTC) {
                prop_assert!(Instant::from_millisecond(start.0).is_ok());
            }
        }
    }
}
