//! Determines, from the session itself, what became of injected items, and whether to inject them again.
//!
//! Nobody is asked. The result is conservative, because a useful line often leaves no trace.

use std::collections::HashMap;

use super::document::DocumentKey;
use super::ids::Timestamp;
use super::names::named;
use super::observation::Importance;

/// How a session used an injected item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Use {
    /// The agent read it in full.
    Opened,
    /// The agent ran a command that the item names.
    Followed,
    /// The agent ran a command that the item warns about.
    Repeated,
    /// The user's next words contradict it.
    Contradicted,
    /// A person said that the item should not have been injected there.
    Wrong,
}

named! { Use {
    Opened = "opened",
    Followed = "followed",
    Repeated = "repeated",
    Contradicted = "contradicted",
    Wrong = "wrong",
} }

impl Use {
    /// How much this speaks against injecting the item again on such an occasion.
    fn strikes(self) -> u32 {
        match self {
            Self::Opened | Self::Followed | Self::Repeated => 0,
            Self::Contradicted => 1,
            Self::Wrong => MOST_STRIKES,
        }
    }
}

/// An item that was injected into a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedDocument {
    pub key: DocumentKey,
    /// The item's whole text.
    pub text: String,
    pub at: Timestamp,
    pub occasion: Occasion,
}

/// Something that happened in a session afterwards, in chronological order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    pub at: Timestamp,
    pub what: DeedKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeedKind {
    /// The agent requested these items from recall.
    Opened(Vec<DocumentKey>),
    /// A command line that was run.
    Ran(String),
    /// A person's prompt.
    Prompted(String),
}

/// The kind of moment at which something is injected. Moments of one kind are comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occasion {
    Start,
    Prompt,
    File,
    Command,
}

impl Occasion {
    /// Maps the stored name of a moment.
    pub fn of(moment: &str) -> Self {
        match moment {
            "prompt" | "subagent" => Self::Prompt,
            "file" => Self::File,
            "command" | "failure" => Self::Command,
            _ => Self::Start,
        }
    }
}

/// Returns the uses of an item, each with the time at which it was first seen.
pub fn uses(injected: &InjectedDocument, deeds: &[Deed]) -> Vec<(Use, Timestamp)> {
    let later = || deeds.iter().filter(|deed| deed.at > injected.at);
    let mut uses = Vec::new();
    let opened =
        later().find(|deed| matches!(&deed.what, DeedKind::Opened(keys) if keys.contains(&injected.key)));
    uses.extend(opened.map(|deed| (Use::Opened, deed.at)));
    for (command, use_of_it) in named_commands(&injected.text) {
        // A command's notes are injected before that command runs, so the first command is skipped.
        let skipped = usize::from(injected.occasion == Occasion::Command);
        let ran = later()
            .filter(|deed| matches!(&deed.what, DeedKind::Ran(ran) if spaced(ran).contains(&command)))
            .nth(skipped);
        if let Some(deed) = ran.filter(|_| uses.iter().all(|(known, _)| *known != use_of_it)) {
            uses.push((use_of_it, deed.at));
        }
    }
    // A session's first prompt cannot refer to what was injected before it.
    if injected.occasion != Occasion::Start {
        let next = later().find_map(|deed| match &deed.what {
            DeedKind::Prompted(prompt) => Some((prompt, deed.at)),
            _ => None,
        });
        let against =
            next.filter(|(prompt, _)| speaks_against(prompt) && shares_subject(prompt, &injected.text));
        uses.extend(against.map(|(_, at)| (Use::Contradicted, at)));
    }
    uses
}

const SHORTEST_COMMAND: usize = 6;
const LONGEST_COMMAND: usize = 200;

/// Returns the commands in backticks, and what it means to run each of them.
fn named_commands(text: &str) -> Vec<(String, Use)> {
    let mut found = Vec::new();
    let mut before = String::new();
    for (place, part) in text.split('`').enumerate() {
        let is_code = place % 2 == 1;
        let command = spaced(part);
        let is_command = is_code
            && (SHORTEST_COMMAND..=LONGEST_COMMAND).contains(&command.len())
            && command.contains([' ', '/'])
            && !part.contains('\n');
        if is_command {
            let use_of_it = if warns(&before) { Use::Repeated } else { Use::Followed };
            found.push((command, use_of_it));
        }
        before.push_str(part);
    }
    found
}

/// Whether the sentence that these words begin forbids what follows.
fn warns(before: &str) -> bool {
    const WORDS: [&str; 15] = [
        "never",
        "don't",
        "do not",
        "must not",
        "mustn't",
        "should not",
        "shouldn't",
        "avoid",
        "instead of",
        "rather than",
        "nicht",
        "nie",
        "jamais",
        "nunca",
        "not with",
    ];
    let sentence = before.rsplit(['.', ';', '!', '\n']).next().unwrap_or_default().to_lowercase();
    WORDS.iter().any(|word| has_words(&sentence, word))
}

fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let is_edge = |next: Option<char>| next.is_none_or(|next| !next.is_alphanumeric());
        is_edge(text[..at].chars().next_back()) && is_edge(text[at + words.len()..].chars().next())
    })
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a prompt begins by denying something.
fn speaks_against(prompt: &str) -> bool {
    const BEGINNINGS: [&str; 22] = [
        "no,",
        "no.",
        "no -",
        "nope",
        "wrong",
        "that's wrong",
        "that is wrong",
        "this is wrong",
        "not true",
        "that's not",
        "that is not",
        "that's outdated",
        "that is outdated",
        "outdated",
        "we don't",
        "we no longer",
        "nein",
        "falsch",
        "das stimmt nicht",
        "non,",
        "c'est faux",
        "no es",
    ];
    let prompt = prompt.trim_start().to_lowercase();
    BEGINNINGS.iter().any(|beginning| prompt.starts_with(beginning))
}

/// The number of characters at the beginning of a prompt in which a denial is searched.
const BEGINNING: usize = 300;

/// Whether the beginning of a prompt is about the injected text: it shares two longer words, or one name.
fn shares_subject(prompt: &str, injected: &str) -> bool {
    const SHORTEST: usize = 4;
    const COMMON: [&str; 16] = [
        "that", "this", "with", "from", "have", "then", "there", "what", "when", "which", "would", "should",
        "does", "wrong", "outdated", "longer",
    ];
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|char: char| char.is_whitespace() || ",;:!?()\"'`".contains(char));
        words
            .map(|word| word.trim_matches('.').to_lowercase())
            .filter(|word| word.len() >= SHORTEST && !COMMON.contains(&word.as_str()))
            .collect()
    };
    let injected = words(injected);
    let beginning: String = prompt.chars().take(BEGINNING).collect();
    let mut shared: Vec<String> =
        words(&beginning).into_iter().filter(|word| injected.contains(word)).collect();
    shared.sort();
    shared.dedup();
    let is_name =
        |word: &String| word.contains(['/', '_', '.', '-']) || word.chars().any(|c| c.is_ascii_digit());
    shared.len() >= 2 || shared.iter().any(is_name)
}

/// From this many strikes an item is no longer injected unasked.
const MOST_STRIKES: u32 = 2;
/// How much a strike lowers an item's importance.
const LOWERED_BY: i64 = 3;

/// The strikes against injecting items again, by occasion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disfavour {
    strikes: HashMap<(DocumentKey, Occasion), u32>,
    /// Observations from other machines.
    from_elsewhere: HashMap<DocumentKey, FromElsewhere>,
}

/// Whether an observation from another machine may be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromElsewhere {
    Injectable,
    /// Only a search finds it.
    OnlyFound,
}

/// Lowers others' importance, so that at equal importance one's own notes come first.
const LOWERED_FROM_ELSEWHERE: i64 = 1;

impl Disfavour {
    pub fn of(uses: impl IntoIterator<Item = (DocumentKey, Occasion, Use)>) -> Self {
        let mut strikes = HashMap::new();
        for (key, occasion, use_of_it) in uses {
            *strikes.entry((key, occasion)).or_default() += use_of_it.strikes();
        }
        Self { strikes, from_elsewhere: HashMap::new() }
    }

    #[must_use]
    pub fn and_from_elsewhere(self, rows: impl IntoIterator<Item = (DocumentKey, FromElsewhere)>) -> Self {
        Self { from_elsewhere: rows.into_iter().collect(), ..self }
    }

    /// The importance of an item on such an occasion, or `None` if it is not to be injected.
    pub fn worth(&self, key: DocumentKey, occasion: Occasion, importance: Importance) -> Option<Importance> {
        let lowered = |importance: Importance, by| Importance::clamped(i64::from(importance.get()) - by);
        let importance = match self.from_elsewhere.get(&key) {
            None => importance,
            Some(FromElsewhere::OnlyFound) => return None,
            Some(FromElsewhere::Injectable) => lowered(importance, LOWERED_FROM_ELSEWHERE),
        };
        match self.strikes.get(&(key, occasion)).copied().unwrap_or_default() {
            0 => Some(importance),
            MOST_STRIKES.. => None,
            _ => Some(lowered(importance, LOWERED_BY)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::DocumentKind;

    const KEY: DocumentKey = DocumentKey { kind: DocumentKind::Observation, row: 12 };

    fn injected(text: &str, occasion: Occasion) -> InjectedDocument {
        InjectedDocument { key: KEY, text: text.to_owned(), at: Timestamp(10), occasion }
    }

    #[track_caller]
    fn check(text: &str, occasion: Occasion, deeds: &[(i64, DeedKind)], expected: &[Use]) {
        let deeds: Vec<Deed> =
            deeds.iter().map(|(at, what)| Deed { at: Timestamp(*at), what: what.clone() }).collect();
        let found: Vec<Use> =
            uses(&injected(text, occasion), &deeds).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(found, expected, "{text}");
    }

    fn ran(command: &str) -> DeedKind {
        DeedKind::Ran(command.to_owned())
    }

    fn prompted(prompt: &str) -> DeedKind {
        DeedKind::Prompted(prompt.to_owned())
    }

    #[test]
    fn an_injected_item_that_the_agent_requests_counts_as_opened() {
        let opened = |row| DeedKind::Opened(vec![DocumentKey { kind: DocumentKind::Observation, row }]);
        check("x", Occasion::Start, &[(11, opened(12))], &[Use::Opened]);
        check("x", Occasion::Start, &[(9, opened(12)), (11, opened(13))], &[]);
    }

    #[test]
    fn running_a_command_of_an_injected_item_counts_as_followed_or_repeated() {
        let sync = "Sync through `scripts/sync.sh --all`: the direct call wiped the target";
        check(sync, Occasion::Prompt, &[(11, ran("cd x &&  scripts/sync.sh  --all"))], &[Use::Followed]);
        check(sync, Occasion::Prompt, &[(11, ran("rsync -a x y")), (9, ran("scripts/sync.sh --all"))], &[]);
        let never = "Migrations are Priya's. Never run `bin/migrate up` by hand";
        check(never, Occasion::Start, &[(11, ran("bin/migrate up"))], &[Use::Repeated]);
        check(never, Occasion::Command, &[(11, ran("bin/migrate up"))], &[]);
        check(
            never,
            Occasion::Command,
            &[(11, ran("bin/migrate up")), (12, ran("bin/migrate up"))],
            &[Use::Repeated],
        );
        check("Annie runs `npm test` first", Occasion::Start, &[(11, ran("npm test"))], &[Use::Followed]);
        check("`ls`", Occasion::Start, &[(11, ran("ls -l"))], &[]);
    }

    #[test]
    fn the_next_prompt_may_contradict_an_injected_item() {
        let port = "The staging server listens on port 8081";
        let no = "No, staging has another port now, 9090";
        check(port, Occasion::Prompt, &[(11, prompted(no))], &[Use::Contradicted]);
        check(port, Occasion::Start, &[(11, prompted(no))], &[]);
        check(port, Occasion::Prompt, &[(11, prompted("Thanks, now the tests")), (12, prompted(no))], &[]);
        check(port, Occasion::Prompt, &[(11, prompted("No, I meant the other file"))], &[]);
        check(port, Occasion::Prompt, &[(11, prompted("No problem: staging listens on that port"))], &[]);
        check(
            "Totals are rounded in `cart.rs`",
            Occasion::File,
            &[(11, prompted("That's outdated, see cart.rs"))],
            &[Use::Contradicted],
        );
    }

    #[test]
    fn contradicted_items_lose_importance_and_wrong_ones_are_not_injected() {
        let importance = Importance::clamped(7);
        let worth = |uses: &[Use], occasion| {
            let uses = uses.iter().map(|kind| (KEY, Occasion::Prompt, *kind));
            Disfavour::of(uses).worth(KEY, occasion, importance).map(Importance::get)
        };
        assert_eq!(worth(&[Use::Opened, Use::Repeated], Occasion::Prompt), Some(7));
        assert_eq!(worth(&[Use::Contradicted], Occasion::Prompt), Some(4));
        assert_eq!(worth(&[Use::Contradicted, Use::Contradicted], Occasion::Prompt), None);
        assert_eq!(worth(&[Use::Wrong], Occasion::Prompt), None);
        assert_eq!(worth(&[Use::Wrong], Occasion::Start), Some(7), "it may be right elsewhere");
    }
}
