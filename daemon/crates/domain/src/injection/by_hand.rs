//! Whether a prompt is about what a person wrote or pinned.
//!
//! No learned model decides: what somebody asked to be remembered is worth telling whenever it is concerned, and there is
//! too little of it to learn from. Of a note and a prompt that needs nothing it tells one pair in 1,100. `docs/retrieval.md` has the
//! figures by which the bounds were chosen.

/// How a prompt touches a passage of what was written by hand.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Touch {
    /// The information of the subject words that both have, and that of the rarest of them.
    pub shared: f32,
    pub rarest: f32,
    /// The share of the passage's subject words that the prompt has, 0 to 1.
    pub of_passage: f32,
    /// The share of the prompt's information that the passage has, 0 to 1.
    pub of_prompt: f32,
}

/// The information of two rare words, which are no chance.
const TWO_WORDS: f32 = 1.4;
/// Of a long passage two words are chance.
const FEW_OF_PASSAGE: f32 = 0.15;
/// A rare word alone has to be much of both.
const ONE_WORD: f32 = 0.6;
const MUCH_OF_PASSAGE: f32 = 0.2;
const MUCH_OF_PROMPT: f32 = 0.25;

impl Touch {
    /// Whether the prompt is about it.
    pub fn is_about(&self) -> bool {
        let by_two = self.shared >= TWO_WORDS && self.of_passage >= FEW_OF_PASSAGE;
        let by_one =
            self.rarest >= ONE_WORD && self.of_passage >= MUCH_OF_PASSAGE && self.of_prompt >= MUCH_OF_PROMPT;
        by_two || by_one
    }

    /// Orders those that a prompt is about.
    pub fn closeness(&self) -> f32 {
        self.shared * self.of_passage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_have_to_be_a_part_of_both() {
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
