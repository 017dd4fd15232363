//! How many tokens a text costs a model, estimated without a tokenizer's tables.

/// Tokens of a text: four ASCII characters to one, as providers quote for English and code; two other letters to
/// one; and one for each character of Chinese, Japanese and Korean.
pub fn estimate(text: &str) -> u32 {
    Measure::of(text).tokens()
}

/// How long a text is, so that a growing text need not be counted again from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    ascii: u64,
    wide: u64,
    other: u64,
    utf16_units: u64,
}

impl Measure {
    pub fn of(text: &str) -> Self {
        let mut measure = Self::default();
        for character in text.chars() {
            measure.utf16_units += character.len_utf16() as u64;
            match character {
                '\0'..='\x7f' => measure.ascii += 1,
                '\u{2e80}'..='\u{9fff}'
                | '\u{ac00}'..='\u{d7af}'
                | '\u{f900}'..='\u{faff}'
                | '\u{20000}'..='\u{3ffff}' => measure.wide += 1,
                _ => measure.other += 1,
            }
        }
        measure
    }

    /// The two texts one after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            ascii: self.ascii + other.ascii,
            wide: self.wide + other.wide,
            other: self.other + other.other,
            utf16_units: self.utf16_units + other.utf16_units,
        }
    }

    pub fn tokens(self) -> u32 {
        u32::try_from(self.ascii.div_ceil(4) + self.wide + self.other.div_ceil(2)).unwrap_or(u32::MAX)
    }

    pub fn utf16_units(self) -> u64 {
        self.utf16_units
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_weigh_differently() {
        assert_eq!(estimate(""), 0);
        assert_eq!(estimate("four"), 1);
        assert_eq!(estimate("カート"), 3);
        assert_eq!(estimate("äöüß"), 2);
        let parts = Measure::of("Ünder").and(Measure::of(" 日本 😀"));
        assert_eq!(parts, Measure::of("Ünder 日本 😀"));
        assert_eq!(parts.utf16_units(), 11);
    }
}
