//! Words that hint at the purpose of a sentence. Each list is one feature; the weights decide how much it counts.
//!
//! The lists are English, because the training data is. In other languages these features are zero, so form, place
//! and names decide.

use std::sync::LazyLock;

use crate::phrases::Phrases;

/// The text in lower case, with a single space for everything that is not a letter or digit, and one at each end.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len() + 2);
    plain.push(' ');
    for letter in text.chars() {
        if letter.is_alphanumeric() || letter == '\'' {
            plain.extend(letter.to_lowercase());
        } else if !plain.ends_with(' ') {
            plain.push(' ');
        }
    }
    if !plain.ends_with(' ') {
        plain.push(' ');
    }
    plain
}

/// Finds any word of a comma-separated list in a plain text. A word with a point at its end must match whole words; any
/// other matches beginnings of words.
pub(super) fn cue(list: &str) -> Phrases {
    Phrases::new(list.split(',').map(|word| match word.strip_suffix('.') {
        Some(whole) => format!(" {whole} "),
        None => format!(" {word}"),
    }))
}

const CAUSE: &str = "because.,since.,so that.,therefore.,hence.,caus,due to.,root cause.,reason.,why.,lead to.,leads to.,result in.,\
results in.,otherwise.,thus.";
const FIX: &str = "fix,bug.,wrong.,broken.,fail,missing.,overwrit,mask,hard coded.,hardcoded.,fall back,falls back,falling back,fallback.,\
regress,crash,panic,silently.,leak,race.,stale.";
const OPEN: &str = "follow up.,followup.,todo.,later.,deferred.,remain,open.,next.,pending.,not yet.,not pushed.,not committed.,\
not implemented.,not included.,out of scope.,limitation.,risk.,caveat.,uncommitted.,unpushed.";
const DECIDE: &str = "decid,decision.,chose.,choose,prefer,declined.,recommend,keep.,kept.,trade off.,tradeoff.,by design.,intentional,\
deliberate,on purpose.";
const STATUS: &str = "all tests.,tests pass,test pass,lint clean.,lint is clean.,0 issues.,no errors.,passes.,passing.,working tree clean.,\
up to date.,committed.,pushed.";

/// Cues of the text itself, by name.
pub(super) static TEXT: LazyLock<[(&'static str, Phrases); 12]> =
    LazyLock::new(|| LISTS.map(|(name, list)| (name, cue(list))));

const LISTS: [(&str, &str); 12] = [
    ("cue cause", CAUSE),
    (
        "cue contrast",
        "instead.,rather than.,but.,although.,even when.,even if.,even though.,only.,unless.,except.,never.,not.,without.,\
no longer.,however.,while.,still.,yet.,regardless.,despite.",
    ),
    ("cue past", "was.,were.,previously.,before.,used to.,had been.,did.,didn't."),
    ("cue fix", FIX),
    ("cue norm", "must.,should.,need.,needs.,needed.,always.,requir,ensure.,prevent,guard.,avoid"),
    ("cue open", OPEN),
    ("cue decide", DECIDE),
    (
        "cue offer",
        "want me to.,would you like.,shall i.,let me know.,should i.,do you want.,happy to.,feel free.",
    ),
    ("cue status", STATUS),
    ("cue you", "you.,your.,you're."),
    ("cue we", "i.,i'm.,i've.,i'll.,me.,my.,let's.,we.,our."),
    ("cue test", "test.,tests."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cue_matches_only_at_the_start_of_a_word() {
        let plain = plain("It hangs — because nobody *fixed* it.");
        assert_eq!(plain, " it hangs because nobody fixed it ");
        assert!(cue("since.,because.").are_in(&plain));
        assert!(cue("fix").are_in(&plain));
        assert!(!cue("fix.").are_in(&plain));
        assert!(!cue("cause.").are_in(&plain));
    }
}
