//! Passages: parts of a text that each answer one question, cut at paragraph and section boundaries.
//!
//! A prompt receives a passage instead of a whole answer. Passages are derived: the same text always has the same
//! passages, so a row and a number identify one.

pub use super::document::Passage;
use super::document::{DocumentKey, DocumentKind};
use super::ids::Timestamp;
use super::observation::{Importance, ObservationType};
use super::ranking::{Background, Commonness};

/// The maximum length of a passage without its heading, in characters.
pub const LONGEST: usize = 600;
/// The minimum length of a section, in characters. A shorter one is joined to the next.
const SHORTEST: usize = 160;
/// The maximum number of passages per text. The rest of a longer text is ignored.
pub const MOST: usize = 64;
/// The maximum length of a heading, in characters.
const LONGEST_HEADING: usize = 100;
/// A passage with fewer letters carries no information.
const FEWEST_LETTERS: usize = 12;

/// A passage, identified by its document and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PassageKey {
    pub document: DocumentKey,
    pub part: u32,
}

/// A passage as the index found it.
#[derive(Clone, Debug, PartialEq)]
pub struct PassageMatch {
    pub key: PassageKey,
    pub at: Timestamp,
    /// The same number for all passages of a session.
    pub conversation: u64,
    pub importance: Importance,
    pub observation_type: Option<ObservationType>,
    /// The passage's length in terms.
    pub length: u32,
    /// The presence of each term weighted by its information, as a share of the maximum, from 0 to 1.
    pub strength: f32,
    /// One bit per entry of [`PassageMatches::terms`].
    pub found: u32,
    /// The cosine of the passage's vector and the prompt's, if both are known.
    pub cosine: Option<f32>,
}

/// A term of the question, with its frequency in the searched project.
#[derive(Clone, Debug, PartialEq)]
pub struct PassageTerm {
    pub text: String,
    pub information: f32,
    /// The number of passages that contain the term.
    pub passages: u32,
    pub commonness: Commonness,
}

/// The index's result for a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassageMatches {
    pub terms: Vec<PassageTerm>,
    /// The number of passages in the project.
    pub population: u32,
    /// Strongest first.
    pub matches: Vec<PassageMatch>,
    /// The distribution of cosines in the project, if the prompt has a vector.
    pub background: Option<Background>,
}

impl PassageMatches {
    /// The summed information of the found terms.
    pub fn information(&self, found: u32) -> f32 {
        self.found(found).map(|term| term.information).sum()
    }

    /// Removes prompts of other sessions that repeat this one and say no more: repeating a question does not answer
    /// it.
    pub fn leave_out_repeats(&mut self) {
        let all = (0..self.terms.len())
            .try_fold(0, |bits, place| Some(bits | 1_u32.checked_shl(place.try_into().ok()?)?));
        let longest = self.terms.len() * 2;
        let is_repeat = |one: &PassageMatch| {
            one.key.document.kind == DocumentKind::Prompt
                && Some(one.found) == all
                && usize::try_from(one.length).is_ok_and(|length| length <= longest)
        };
        self.matches.retain(|one| !is_repeat(one));
    }

    /// The terms for these bits.
    pub fn found(&self, found: u32) -> impl Iterator<Item = &PassageTerm> {
        let has = move |place: usize| {
            u32::try_from(place)
                .ok()
                .and_then(|place| found.checked_shr(place))
                .is_some_and(|bits| bits & 1 == 1)
        };
        self.terms.iter().enumerate().filter(move |(place, _)| has(*place)).map(|(_, term)| term)
    }
}

/// Cuts a text into passages.
pub fn cut(text: &str) -> Vec<Passage> {
    let mut cutter = Cutter::default();
    for block in blocks(text) {
        cutter.take(&block);
    }
    cutter.finish()
}

/// Cuts a text with a title into passages: one, or several if it is long.
pub fn titled(title: &str, body: &str) -> Vec<Passage> {
    let mut passages = cut(body);
    if passages.is_empty() {
        passages.push(Passage::default());
    }
    for passage in &mut passages {
        if passage.heading.is_empty() {
            passage.heading = title.trim().to_owned();
        }
    }
    passages
}

/// A piece of text that is split only if it is too long.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Block {
    Heading(String),
    /// Paragraphs, list entries, and fenced code with its fence.
    Text(String),
}

/// The blocks of a text.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open = String::new();
    let mut fence: Option<&str> = None;
    let close = |open: &mut String, blocks: &mut Vec<Block>| {
        if !open.trim().is_empty() {
            blocks.push(Block::Text(std::mem::take(open).trim_end().to_owned()));
        }
        open.clear();
    };
    for line in text.lines() {
        let trimmed = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (Some(known), Some(mark)) if known == mark => fence = None,
            (Some(_), _) => {}
            (None, Some(mark)) => fence = Some(mark),
            (None, None) if trimmed.is_empty() => {
                close(&mut open, &mut blocks);
                continue;
            }
            (None, None) => {
                if let Some(heading) = heading(trimmed) {
                    close(&mut open, &mut blocks);
                    blocks.push(Block::Heading(heading));
                    continue;
                }
                if is_entry(line) {
                    close(&mut open, &mut blocks);
                }
            }
        }
        open.push_str(line);
        open.push('\n');
    }
    close(&mut open, &mut blocks);
    blocks
}

/// The words of a heading: `## Words`, or a line that is entirely bold.
fn heading(line: &str) -> Option<String> {
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    let words = if (1..=6).contains(&marks) {
        line.get(marks..).filter(|rest| rest.starts_with(' '))?
    } else {
        line.trim_end_matches(':')
            .strip_prefix("**")?
            .strip_suffix("**")
            .filter(|rest| !rest.contains("**"))?
    };
    let words = words.trim().trim_matches(['*', '#', ':', ' ']);
    let is_short = words.chars().count() <= LONGEST_HEADING;
    (is_short && words.chars().any(char::is_alphanumeric)).then(|| words.to_owned())
}

/// Whether a top-level list entry begins here.
fn is_entry(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(digits..).unwrap_or_default();
    if digits > 0 {
        rest.starts_with(". ") || rest.starts_with(") ")
    } else {
        line.starts_with(['-', '*', '+']) && rest.get(1..).is_some_and(|rest| rest.starts_with(' '))
    }
}

/// Joins blocks into passages.
#[derive(Default)]
struct Cutter {
    done: Vec<Passage>,
    open: Passage,
    /// The number of characters in the open passage.
    length: usize,
}

impl Cutter {
    fn take(&mut self, block: &Block) {
        match block {
            Block::Heading(heading) => {
                if self.length >= SHORTEST {
                    self.close();
                }
                if self.length == 0 {
                    self.open.heading.clone_from(heading);
                } else {
                    // A short section continues into the next one.
                    self.add(&format!("{heading}:"));
                }
            }
            Block::Text(text) => pieces(text).into_iter().for_each(|piece| self.add(piece)),
        }
    }

    fn add(&mut self, piece: &str) {
        let length = piece.chars().count();
        if self.length > 0 && self.length + 1 + length > LONGEST {
            let heading = self.open.heading.clone();
            self.close();
            self.open.heading = heading;
        }
        if self.length > 0 {
            self.open.text.push('\n');
            self.length += 1;
        }
        self.open.text.push_str(piece);
        self.length += length;
    }

    fn close(&mut self) {
        self.length = 0;
        let passage = std::mem::take(&mut self.open);
        let letters = passage.text.chars().filter(|c| c.is_alphanumeric()).take(FEWEST_LETTERS).count();
        if letters == FEWEST_LETTERS && self.done.len() < MOST {
            self.done.push(passage);
        }
    }

    fn finish(mut self) -> Vec<Passage> {
        self.close();
        self.done
    }
}

/// Splits a block that is too long, at lines if possible, else at sentences, else at words.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while let Some((most, _)) = text.char_indices().nth(LONGEST) {
        let head = text.get(..most).unwrap_or_default();
        let at = ["\n", ". ", "; ", ", ", " "]
            .into_iter()
            .find_map(|border| head.rfind(border).map(|at| at + border.len()).filter(|at| *at > most / 3))
            .unwrap_or(most);
        let (piece, rest) = text.split_at_checked(at).unwrap_or((text, ""));
        pieces.push(piece.trim_end());
        text = rest.trim_start();
    }
    if !text.is_empty() {
        pieces.push(text);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn passages_are_cut_at_sections_and_paragraphs() {
        let long = "The gateway answers late, so its calls are retried three times with a pause. ".repeat(3);
        let text = format!("Done.\n\n## Why\n\n{long}\n\n**What is open**\n\n- {long}\n- {long}\n- {long}");
        let passages = cut(&text);
        let seen: Vec<(&str, usize)> =
            passages.iter().map(|it| (it.heading.as_str(), it.text.matches("gateway").count())).collect();
        assert_eq!(seen, [("", 3), ("What is open", 6), ("What is open", 3)]);
        assert!(passages[0].text.starts_with("Done.\nWhy:\nThe gateway"), "{passages:?}");
    }

    #[test]
    fn code_stays_whole_and_a_long_line_is_cut_at_its_sentences() {
        let code = "```sh\n# not a heading\n\n- not an entry\n```";
        assert_eq!(cut(code), [Passage { heading: String::new(), text: code.to_owned() }]);
        let text = "Each sentence has an end here. ".repeat(40);
        let passages = cut(&text);
        assert!(passages.len() == 3 && passages.iter().all(|it| it.text.ends_with('.')), "{passages:?}");
    }

    #[test]
    fn text_without_content_has_no_passages() {
        assert_eq!(cut(""), []);
        assert_eq!(cut("Ok.\n\n---\n\n##\n"), []);
        assert_eq!(titled("A title", ""), [Passage { heading: "A title".to_owned(), text: String::new() }]);
    }

    proptest! {
        #[test]
        fn passages_are_short_and_reproducible_and_add_no_letters(text in "([a-z]{1,9}[ .\n]{1,2}|\n- |\n## |```\n|é){0,300}") {
            let passages = cut(&text);
            prop_assert!(passages.iter().all(|it| it.text.chars().count() <= LONGEST));
            let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
            let kept: usize = passages.iter().map(|it| letters(&it.text)).sum();
            prop_assert!(kept <= letters(&text));
            prop_assert_eq!(passages, cut(&text));
        }
    }
}
