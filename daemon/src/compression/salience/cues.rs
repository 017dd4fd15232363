//! Words that hint at what a sentence is for. Each list is one feature; the weights decide what it is worth.
//!
//! The lists are English, because the training data is. In other languages the features are zero, and form, place and
//! names decide.

/// The text in lower case with single spaces for everything that is no letter or digit, and one at each end.
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

/// Whether one of the words, separated by commas, begins a word of the plain text. A word with a point at its end is whole.
pub(super) fn has(plain: &str, cue: &str) -> bool {
    cue.split(',').any(|word| {
        let (word, is_whole) = word.strip_suffix('.').map_or((word, false), |word| (word, true));
        plain.match_indices(word).any(|(at, _)| {
            let before = at.checked_sub(1).and_then(|before| plain.as_bytes().get(before));
            let behind = plain.as_bytes().get(at + word.len());
            before == Some(&b' ') && (!is_whole || behind == Some(&b' '))
        })
    })
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

/// Cues of the text itself.
pub(super) const TEXT: [(&str, &str); 12] = [
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
    fn a_cue_begins_a_word() {
        let plain = plain("It hangs — because nobody *fixed* it.");
        assert_eq!(plain, " it hangs because nobody fixed it ");
        assert!(has(&plain, "since.,because."));
        assert!(has(&plain, "fix"));
        assert!(!has(&plain, "fix."));
        assert!(!has(&plain, "cause."));
    }
}
