//! How many tokens a text costs a model, estimated without a tokenizer's tables.

/// Tokens of a text: four ASCII characters to one, as providers quote for English and code; two other letters to
/// one; and one for each character of Chinese, Japanese and Korean.
pub fn estimate(text: &str) -> u32 {
    let (mut ascii, mut wide, mut other) = (0u64, 0u64, 0u64);
    for character in text.chars() {
        match character {
            '\0'..='\x7f' => ascii += 1,
            '\u{2e80}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7af}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}' => {
                wide += 1;
            }
            _ => other += 1,
        }
    }
    u32::try_from(ascii.div_ceil(4) + wide + other.div_ceil(2)).unwrap_or(u32::MAX)
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
    }
}
