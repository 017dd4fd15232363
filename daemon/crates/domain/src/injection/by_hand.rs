//! Decides whether a prompt is about a note that a person wrote or pinned.
//!
//! No learned model decides, because what somebody asked to be remembered is worth injecting whenever it applies, and
//! there is too little of it to learn from. Of pairs of such a note and a prompt that does not need it, this rule
//! injects one in 1,100. `docs/retrieval.md` has the figures behind the bounds.

/// How much a prompt overlaps with a passage that a person wrote or pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Touch {
    /// The summed information of the subject words that both share.
    pub shared: f32,
    pub rarest: f32,
    /// The share of the passage's subject words that the prompt has, from 0 to 1.
    pub of_passage: f32,
    /// The share of the prompt's information that the passage has, from 0 to 1.
    pub of_prompt: f32,
}

/// The information of two rare words, which cannot be chance.
const TWO_WORDS: f32 = 1.4;
/// The minimum share of the passage: in a long one, two words may be chance.
const FEW_OF_PASSAGE: f32 = 0.15;
/// A single rare word must cover much of both texts.
const ONE_WORD: f32 = 0.6;
const MUCH_OF_PASSAGE: f32 = 0.2;
const MUCH_OF_PROMPT: f32 = 0.25;

impl Touch {
    /// Whether the prompt is about the passage.
    pub fn is_about(&self) -> bool {
        let by_two = self.shared >= TWO_WORDS && self.of_passage >= FEW_OF_PASSAGE;
        let by_one =
            self.rarest >= ONE_WORD && self.of_passage >= MUCH_OF_PASSAGE && self.of_prompt >= MUCH_OF_PROMPT;
        by_two || by_one
    }

    /// The sort key among passages that a prompt is about.
    pub fn closeness(&self) -> f32 {
        self.shared * self.of_passage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_rare_words_must_cover_enough_of_note_and_prompt() {
        let touch = |shared, rarest, of_passage, of_prompt| {
            Touch { shared, rarest, of_passage, of_prompt }.is_about()
        };
        assert!(touch(1.5, 0.8, 0.3, 0.1), "two words, in a long prompt");
        assert!(touch(0.8, 0.8, 0.25, 0.4), "one word, in short texts");
        assert!(!touch(0.8, 0.8, 0.25, 0.1), "one word of a long prompt");
        assert!(!touch(1.5, 0.8, 0.05, 0.4), "two words of a long note");
        assert!(!touch(0.5, 0.5, 1.0, 1.0), "a common word");
        assert!(!touch(0.0, 0.0, 0.0, 0.0));
    }
}
