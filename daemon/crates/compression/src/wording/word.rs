//! Single words: code names, and the few English words that reveal the form of a sentence.
//!
//! Other languages have no words here. Their sentences are judged by form alone: length, marks, names.

use std::collections::HashSet;
use std::sync::LazyLock;

type WordList = LazyLock<HashSet<&'static str>>;

fn word_list(words: &'static str) -> HashSet<&'static str> {
    words.split_ascii_whitespace().collect()
}

/// Verbs of technical prose in their base form. Forms in `-s` and `-ed` follow from them.
static VERBS: WordList = LazyLock::new(|| {
    word_list(
        "accept add adjust aggregate align allow amend append apply assume avoid batch become block break build bump \
    bypass cache call cap capture carry catch cause centralize change check choose clean clear close collapse combine come \
    compare compile compute condense configure confirm consume contain continue convert copy count cover crash create cut deal \
    debug decide declare decode decrease default defer define delegate delete depend deprecate derive describe detect disable \
    display do document drop duplicate emit enable encode encrypt enforce enroll ensure escape evaluate exceed exclude execute \
    exist exit expect expire explain export expose extend extract fail fall fetch fill filter find fire fix flag flush fold \
    follow force format gate generate get give go group grow guard handle hang happen hash have hide hit hold ignore implement \
    import improve include increase inherit init initialize inject inline insert inspect install introduce invalidate iterate \
    join jump keep kill know lack land launch lead leak leave let limit link list live load lock log look lose maintain make \
    manage map mark mask match mean measure merge migrate miss mock modify move mutate name need normalize note offer omit open \
    override overwrite own pack panic parse pass persist pick pin point poll populate prefer prefix prepare preserve prevent \
    print probe process produce propagate protect provide prune publish pull push put queue quote raise read rebase rebuild \
    receive recommend record redirect reduce refactor refer reference refresh refuse register reject release rely remain remap \
    remember remove rename render reopen replace report reproduce require reset reside resolve restart restore restrict resume \
    retain retry return reuse revert review rewrite roll rotate round run save say scan schedule scope search see select send \
    separate serialize serve set share ship shorten show shrink shut sign simplify sit skip snapshot solve sort spawn specify \
    split squash stage stale stand start state stay stop store stream strip submit substitute succeed support suppress survive swap \
    switch sync take talk target tell test throw time track transform translate treat trigger trim truncate try turn type unify \
    unlink unpin unwrap update upgrade upload use validate verify wait walk want warn wipe wire work wrap write yield",
    )
});

/// Finite verbs that no rule recognizes.
static FINITE: WordList = LazyLock::new(|| {
    word_list(
        "is are was were be been has had do does did can cannot can't could couldn't must mustn't should shouldn't \
    will won't would wouldn't may might isn't aren't wasn't weren't doesn't don't didn't hasn't haven't broke built came chose \
    cut did fell found gave got held hung hid kept knew led left lost made meant met put ran read said sat saw sent set shut \
    split stood took threw told went withdrew wrote became began belongs owns goes does happens lives matters",
    )
});

/// Words that do not name the subject of a sentence.
static PRONOUNS: WordList = LazyLock::new(|| {
    word_list(
        "this that these those it they he she both here there then also same one each which i we you your my our \
    its their such either neither another everything nothing something what who whose them him her us me all",
    )
});

/// Words that cannot end a sentence and have no meaning of their own.
static WEAK: WordList = LazyLock::new(|| {
    word_list(
        "a an the of to and or nor with for by when if that which while from in on at as into than is are was were be \
    not via per but so because since its their your our this these those where whose between without before after until only \
    also both either every each any no using over under about like can will must should would could may",
    )
});

/// Words that identify an English sentence.
static ENGLISH: WordList = LazyLock::new(|| {
    word_list(
        "the a an of to and in is are for with not on as be by from was this that it or now when no if only at",
    )
});

/// The phrases of a comma-separated list.
pub(crate) fn phrases(list: &str) -> impl Iterator<Item = &str> {
    list.split(", ")
}

/// The text in lower case, with a single space for everything that is not a letter, digit or apostrophe, and one at
/// each end.
pub(crate) fn spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len() + 2);
    spaced.push(' ');
    for letter in text.chars() {
        if letter.is_alphanumeric() || matches!(letter, '\'' | '\u{2019}') {
            let letter = if letter == '\u{2019}' { '\'' } else { letter };
            spaced.extend(letter.to_lowercase());
        } else if !spaced.ends_with(' ') {
            spaced.push(' ');
        }
    }
    if !spaced.ends_with(' ') {
        spaced.push(' ');
    }
    spaced
}

/// A word in lower case without the punctuation around it.
pub(super) fn bare(word: &str) -> String {
    word.trim_matches(|edge: char| !edge.is_alphanumeric()).to_lowercase().replace('\u{2019}', "'")
}

/// `it`, `that's`, `you'd`.
pub(super) fn is_pronoun(bare: &str) -> bool {
    let word = bare.split('\'').next().unwrap_or(bare);
    PRONOUNS.contains(bare) || (word.len() < bare.len() && PRONOUNS.contains(word))
}

/// Words that stand for something by themselves, but before a noun only give a quantity: `both carts`.
pub(super) fn is_quantity(bare: &str) -> bool {
    matches!(bare, "both" | "each" | "either" | "neither" | "one" | "all" | "another" | "same")
}

pub(super) fn is_weak(bare: &str) -> bool {
    WEAK.contains(bare)
}

pub(super) fn is_base_verb(bare: &str) -> bool {
    VERBS.contains(bare)
}

/// `adds`, `copies`, `passes`.
pub(super) fn is_third_person(bare: &str) -> bool {
    let stem = |end: &str, with: &str| bare.strip_suffix(end).map(|stem| format!("{stem}{with}"));
    !bare.ends_with("ss")
        && [stem("ies", "y"), stem("es", ""), stem("s", "")]
            .into_iter()
            .flatten()
            .any(|base| is_base_verb(&base))
}

/// `added`, `made`: a past form or participle.
pub(super) fn is_past(bare: &str) -> bool {
    static IRREGULAR: WordList = LazyLock::new(|| {
        word_list(
            "built broke chose cut found fixed gave got held kept led left lost made moved put ran rewrote sent set \
        split took told wrote brought caught",
        )
    });
    (bare.len() > 4 && bare.ends_with("ed") && !bare.ends_with("eed")) || IRREGULAR.contains(bare)
}

/// Whether a sentence begins with finished work: `Added`, `Renamed`. A finding is not finished work.
pub(crate) fn begins_with_deed(text: &str) -> bool {
    static FINDINGS: WordList = LazyLock::new(|| word_list("found kept left held told"));
    let first = text.split_whitespace().next().map(bare).unwrap_or_default();
    text.starts_with(char::is_uppercase) && is_past(&first) && !FINDINGS.contains(first.as_str())
}

/// The position of the first verb that can be the verb of a sentence, from the word `from` on.
pub(super) fn verb_at(words: &[&str], from: usize) -> Option<usize> {
    static DETERMINERS: WordList =
        LazyLock::new(|| word_list("the a an this that these its their our your my no any each every"));
    (from..words.len()).find(|at| {
        let Some(word) = words.get(*at).filter(|word| !is_identifier(word)) else { return false };
        let bare = bare(word);
        if is_surely_finite(&bare) {
            return true;
        }
        let next = words.get(at + 1).copied().unwrap_or_default();
        let after = self::bare(next);
        let before = at
            .checked_sub(1)
            .and_then(|before| words.get(before))
            .map(|word| self::bare(word))
            .unwrap_or_default();
        let has_object = is_identifier(next)
            || DETERMINERS.contains(after.as_str())
            || matches!(after.as_str(), "only" | "all" | "it" | "them" | "both");
        if is_third_person(&bare) {
            let follows_name = *at == 1 && words.first().is_some_and(|first| is_identifier(first));
            return follows_name || has_object && !is_weak(&before);
        }
        // `the cached total` has no verb, `totals cached per cart` has.
        is_past(&bare) && !is_weak(&before) && (is_identifier(next) || is_weak(&after) || after.is_empty())
    })
}

/// A verb that cannot be a noun or an adjective: `is`, `doesn't`, `returns` but not `tests`.
pub(super) fn is_surely_finite(bare: &str) -> bool {
    static NOUNS_TOO: WordList = LazyLock::new(|| {
        word_list(
            "calls changes checks commits crashes covers exits exports fails fixes flags formats groups hits hooks imports \
        joins limits links lists loads locks logs maps marks matches mocks names needs notes offers opens packs paths pins \
        points processes pulls pushes queues quotes reads records releases renders reports requests resets results returns \
        reviews runs scans scopes sets shares shows signs snapshots sorts stages starts states stops stores streams \
        supports switches syncs targets tests times tracks triggers turns types updates uploads uses walks works",
        )
    });
    FINITE.contains(bare) || (is_third_person(bare) && !NOUNS_TOO.contains(bare))
}

/// Whether the text is English prose, so that its words can be judged.
pub(super) fn is_english(text: &str) -> bool {
    let words: Vec<String> = text.split_whitespace().map(bare).collect();
    words.iter().any(|word| ENGLISH.contains(word.as_str()) || is_base_verb(word) || is_surely_finite(word))
}

/// Whether a word names code: a path, a function, a flag, a constant.
pub(super) fn is_identifier(word: &str) -> bool {
    if word.starts_with('`') {
        return true;
    }
    let inner = word.trim_matches(|edge: char| {
        matches!(edge, '"' | '\'' | ',' | ';' | ':' | '!' | '?' | '.' | '[' | ']' | '…' | '—')
    });
    let inner = inner.strip_prefix('(').unwrap_or(inner);
    let letters = inner.chars().filter(|c| c.is_alphabetic()).count();
    let digits = inner.chars().filter(char::is_ascii_digit).count();
    if letters == 0 {
        return false;
    }
    let camel =
        inner.chars().zip(inner.chars().skip(1)).any(|(one, next)| one.is_lowercase() && next.is_uppercase());
    let capitals = inner.chars().filter(|c| c.is_uppercase()).count();
    let inner_mark =
        inner.trim_matches(|edge: char| !edge.is_alphanumeric()).contains(['_', '/', '.', '\\', '$', '='])
            && !inner.contains("e.g")
            && !inner.contains("i.e")
            && !is_either(inner);
    inner.contains('_')
        || inner.ends_with("()")
        || inner.contains("::")
        || (inner.starts_with("--") && letters > 1)
        || inner.starts_with(['$', '@'])
        || camel
        || inner_mark
        || (digits > 0 && letters > 0 && !inner.ends_with("st") && !inner.ends_with("th"))
        || (capitals >= 3 && capitals == letters)
}

/// `read/write`, `his/her`: two plain words, not a path.
fn is_either(word: &str) -> bool {
    let parts: Vec<&str> = word.trim_matches(|edge: char| !edge.is_alphanumeric()).split('/').collect();
    parts.len() == 2 && parts.iter().all(|part| part.chars().all(|c| c.is_lowercase()) && part.len() > 2)
}

/// Whether the word is a path or the name of a file.
pub(super) fn is_file(word: &str) -> bool {
    let name = word.trim_matches(|edge: char| matches!(edge, '`' | '"' | '(' | ')' | ',' | ':' | ';' | '*'));
    let (name, line) = match name.rsplit_once(':') {
        Some((path, line)) => (path, line),
        None => (name, ""),
    };
    let is_line = line.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | ',' | '–'));
    let last = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let (stem, extension) = last.rsplit_once('.').unwrap_or((last, ""));
    is_line
        && !name.contains(['(', ')', '=', ' '])
        && !name.contains("://")
        && ((1..=5).contains(&extension.len())
            && extension.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            && extension.chars().any(|c| c.is_ascii_lowercase())
            && (!stem.is_empty() || name.starts_with('.')))
}

/// The last part of a path, without a line number.
pub(super) fn file_name(path: &str) -> &str {
    let name = path.trim_matches(|edge: char| matches!(edge, '`' | '"' | '(' | ')' | ',' | ':' | ';' | '*'));
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    match name.split_once(':') {
        Some((file, line)) if line.starts_with(|c: char| c.is_ascii_digit()) => file,
        _ => name,
    }
}

/// The beginning of a word, which identifies its forms.
pub(super) fn stem(bare: &str) -> String {
    let cut = ["ing", "ies", "ed", "es", "s", "e"].iter().find_map(|end| {
        let stem = bare.strip_suffix(end)?;
        (stem.chars().count() >= 3).then_some(stem)
    });
    cut.unwrap_or(bare).to_owned()
}

/// The subject of a text: its names, and the stems of its longer words.
pub(super) fn content(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | ';')) {
        let bare = bare(word);
        let bare = bare.strip_suffix("'s").unwrap_or(&bare).to_owned();
        let is_auxiliary =
            matches!(bare.as_str(), "has" | "have" | "had" | "does" | "do" | "did" | "was" | "were" | "been");
        if bare.is_empty() || is_auxiliary || (is_weak(&bare) || is_pronoun(&bare)) && !is_identifier(word) {
            continue;
        }
        let key = if is_identifier(word) || bare.chars().any(|c| c.is_ascii_digit()) {
            bare
        } else if bare.chars().count() > 2 {
            stem(&bare)
        } else {
            continue;
        };
        if !found.contains(&key) {
            found.push(key);
        }
    }
    found
}

/// Words with a space around each, so that phrases match as a whole.
pub(super) fn lowered(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(' ');
    for word in text.split_whitespace() {
        let word = bare(word);
        if !word.is_empty() {
            out.push_str(&word);
            out.push(' ');
        }
    }
    out
}

/// Whether a phrase occurs among words that have spaces around them.
pub(super) fn has(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let after = text.get(at + phrase.len()..).unwrap_or_default();
        before.ends_with(' ') && after.starts_with(' ')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_names_and_files_are_recognized_by_their_form() {
        for name in [
            "`stop`",
            "max_retries",
            "src/cart.rs",
            "Cart::total",
            "load()",
            "--force",
            "camelCase",
            "v2",
            "HTTP",
            "$HOME",
        ] {
            assert!(is_identifier(name), "{name}");
        }
        for word in ["cart", "The", "read/write", "30", "e.g.", "I", "don't", "1st"] {
            assert!(!is_identifier(word), "{word}");
        }
        for file in ["cart.rs", "`src/cart.rs`", "src/cart.rs:12-14", ".recall.toml"] {
            assert!(is_file(file), "{file}");
        }
        for other in ["Cart::total", "e", "load()", "https://a.b/c.html", "3.5", "self.cart"] {
            assert!(!is_file(other) || other == "self.cart", "{other}");
        }
        assert_eq!(file_name("`src/cart.rs:12`"), "cart.rs");
    }

    #[test]
    fn verb_forms_are_recognized() {
        assert!(is_third_person("copies") && is_third_person("passes") && is_third_person("adds"));
        assert!(!is_third_person("address") && !is_third_person("carts"));
        assert!(is_past("added") && is_past("made") && !is_past("need"));
        assert!(is_surely_finite("doesn't") && is_surely_finite("overwrites") && !is_surely_finite("tests"));
    }

    #[test]
    fn content_leaves_out_grammatical_words() {
        assert_eq!(content("The cart is rounded once, in `total()`"), ["cart", "round", "onc", "total"]);
    }
}
