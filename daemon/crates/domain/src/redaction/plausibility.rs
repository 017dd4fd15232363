//! Judges whether a value next to a sensitive name is a secret, or rather code, a placeholder or prose.
//!
//! Only the name hints at a secret here, and code is full of `token = next_token()` and `password: String`. So a value
//! must look random. Where only a value is possible (an environment file, a JSON field of a call), any value counts
//! that is not a placeholder.

use super::beginning;
use super::byte_set::ByteSet;

/// The kind of secret that a name suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// Chosen by a person: short, possibly a word.
    Password,
    /// Generated, and always secret: API keys, client secrets.
    Key,
    /// Generated, but the word has other meanings in code.
    Token,
    /// `user:password` in base64, or a token.
    Login,
    /// `pass`: a password, or a verb. Counts only if the value resembles no word.
    Pass,
    /// `credentials`: a user name and a password together.
    Pair,
}

/// The position of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValuePosition {
    /// In quotes beside the name, as in code.
    Quoted,
    /// Unquoted, possibly an expression.
    Bare,
    /// Unquoted and alone on the rest of its line, as in YAML and property files.
    Line,
    /// Unquoted beside the name, in a log line, a sentence or an expression.
    Sentence,
    /// `NAME=value` as in environment files, connection strings and query strings.
    Environment,
    /// The value of a JSON field in the call itself.
    Field,
    /// Next to a name that says password or secret and nothing else, where anything is a value: a JSON key, an XML
    /// element, a quoted assignment, `password=word` in a log line. Even a word counts.
    Certain,
}

/// The number of bytes of a value that are examined.
const SAMPLE: usize = 64;

/// Judges a value by its first [`SAMPLE`] bytes.
pub(super) fn is_secret(value: &str, name: Name, place: ValuePosition) -> bool {
    let value = beginning(value, SAMPLE);
    if place == ValuePosition::Certain
        && matches!(name, Name::Password | Name::Key)
        && is_plain_value(value)
        && !is_reference(value)
        && !is_placeholder(value)
    {
        return true;
    }
    let has_shape = match (name, place) {
        (Name::Password, ValuePosition::Quoted | ValuePosition::Certain) if is_words(value) => return true,
        (Name::Pass, _) => {
            value.len() >= 8 && is_one_word(value) && is_broken(value) && !is_expression(value)
        }
        (Name::Pair, _) => false,
        (Name::Login, _) => is_login(value) || value.len() >= 16 && is_token(value) && is_random(value),
        (Name::Password | Name::Key, ValuePosition::Field) => value.len() >= 4 && !value.contains("://"),
        (Name::Password, ValuePosition::Environment) => value.len() >= 4 && is_one_word(value),
        (Name::Password, ValuePosition::Line) => value.len() >= 4 && is_one_word(value) && !is_type(value),
        (Name::Password, ValuePosition::Quoted) => value.len() >= 6 && is_one_word(value) && is_mixed(value),
        (Name::Password, ValuePosition::Sentence) => {
            value.len() >= 6
                && is_one_word(value)
                && (is_mixed(value) && !is_expression(value) || is_phrase(value))
        }
        (Name::Key, ValuePosition::Sentence) if is_broken(value) && value.len() >= 10 => {
            value.bytes().filter(u8::is_ascii_digit).count() >= 2 && !is_expression(value)
        }
        (Name::Key, ValuePosition::Environment | ValuePosition::Line) => {
            value.len() >= 8 && is_one_word(value) && is_mixed(value)
        }
        (Name::Token, ValuePosition::Environment | ValuePosition::Line) => {
            value.len() >= 12 && is_token(value) && is_mixed(value)
        }
        (Name::Key, ValuePosition::Quoted | ValuePosition::Certain)
            if is_sign_rich(value) || is_long_and_signed(value) =>
        {
            return value.len() >= 20 && !is_placeholder(value);
        }
        (_, ValuePosition::Bare | ValuePosition::Sentence | ValuePosition::Certain) => {
            value.len() >= 12 && is_token(value) && (is_random(value) || is_hex(value))
        }
        (_, ValuePosition::Quoted) | (Name::Token, ValuePosition::Field) => {
            value.len() >= 16 && is_token(value) && (is_random(value) || is_hex(value))
        }
    };
    has_shape && !is_reference(value) && !is_placeholder(value)
}

/// Whether the value refers to something: a variable, a template, a path, a call, an earlier redaction.
fn is_reference(value: &str) -> bool {
    let starts =
        ["$", "{", "<", "%", "(", "[", "/", "./", "../", "~/", "@", "&", "*", "process.env", "os.", "env."];
    let holds = ["${", "$(", "{{", "{}", "[redacted:", "::", "()", "://", "->"];
    starts.iter().any(|start| value.starts_with(start)) || holds.iter().any(|part| value.contains(part))
}

/// Whether the value is one or more words beside a name that leaves no other reading. Types, words about passwords and
/// names do not count.
fn is_plain_value(value: &str) -> bool {
    const NAMES: [&str; 17] = [
        "pass",
        "secret",
        "pwd",
        "token",
        "credential",
        "user",
        "input",
        "value",
        "prompt",
        "arg",
        "config",
        "hash",
        "string",
        "encrypt",
        "keyring",
        "vault",
        "valid",
    ];
    let word = value.trim_end_matches(['.', ',', ';', ':', '!', '?']);
    let lower = word.to_ascii_lowercase();
    word.len() >= 6
        && is_one_word(word)
        && word.bytes().any(|byte| byte.is_ascii_alphanumeric())
        && word.bytes().next().is_some_and(|byte| !b"#.:-".contains(&byte))
        && !word.contains(['/', '_'])
        && !NAMES.iter().any(|name| lower.contains(name))
        && !is_type(word)
}

/// Whether the value is a passphrase. Prose soon contains an article or a word about passwords.
pub(super) fn is_words(value: &str) -> bool {
    const OF_PROSE: [&str; 58] = [
        "the", "and", "for", "you", "your", "this", "that", "with", "not", "are", "was", "were", "has",
        "have", "had", "from", "must", "will", "can", "should", "when", "then", "than", "they", "there",
        "which", "what", "who", "how", "use", "used", "into", "only", "also", "but", "any", "all", "one",
        "its", "our", "their", "here", "please", "enter", "required", "key", "before", "after", "every",
        "each", "once", "does", "may", "new", "old", "set", "same", "where",
    ];
    const ABOUT: [&str; 8] = ["pass", "secret", "token", "user", "login", "valid", "empty", "value"];
    let sign = if value.contains(' ') { ' ' } else { '-' };
    let words = || value.split(sign);
    let is_word = |word: &str| {
        (3..=12).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_lowercase())
            && !OF_PROSE.contains(&word)
            && !ABOUT.iter().any(|part| word.contains(part))
    };
    let described = words().filter(|word| word.ends_with("ed") || word.ends_with("ing")).count();
    (4..=12).contains(&words().take(13).count()) && described <= 1 && words().all(is_word)
}

/// Whether the value is four hyphenated words, as people choose them for a passphrase.
fn is_phrase(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',', ';', ':', '!', '?']);
    let words = || value.split('-');
    words().count() >= 4
        && words().all(|word| word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_lowercase()))
        && !["pass", "secret", "form", "user", "token"].iter().any(|part| value.contains(part))
}

/// Whether digits or symbols interrupt the letters, without the separators of names and paths: `hunter2hunter2`,
/// `Tr0ub4dor`.
pub(super) fn is_broken(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',', ';', ':', '?', '…']);
    let is_letter = |byte: u8| byte.is_ascii_alphabetic();
    let letters = value.bytes().filter(|byte| is_letter(*byte)).count();
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let breaks = value
        .as_bytes()
        .windows(2)
        .filter(|two| matches!(two, [a, b] if is_letter(*a) != is_letter(*b)))
        .count();
    letters >= 3
        && digits > 0
        && (breaks >= 2 || digits >= 2 && value.len() >= 10)
        && !value.contains(['_', '-', '/', '.', ':', ',', ';', '[', ']'])
}

/// Whether the value has only letters and its capitals are distributed randomly: several in a row, and single
/// lower-case letters between them.
fn is_shuffled(value: &str) -> bool {
    let (mut unusual, mut letters) = (0_usize, 0_usize);
    let mut run = (Class::Other, 0_usize);
    let is_unusual = |(class, length): (Class, usize)| {
        (class == Class::Capital && length >= 2) || (class == Class::Small && length == 1)
    };
    for byte in value.bytes() {
        let class = Class::of(byte);
        letters += usize::from(class != Class::Other);
        if class == run.0 {
            run.1 += 1;
        } else {
            unusual += usize::from(is_unusual(run));
            run = (class, 1);
        }
    }
    unusual += usize::from(is_unusual(run));
    letters >= 16 && unusual * 8 >= letters && unusual >= 3 && entropy(value) >= 3.5
}

/// Whether the value is a placeholder for a secret.
fn is_placeholder(value: &str) -> bool {
    const CONTAINED: [&str; 16] = [
        "example",
        "changeme",
        "change_me",
        "change-me",
        "placeholder",
        "your_",
        "your-",
        "yourpass",
        "dummy",
        "redacted",
        "xxxx",
        "****",
        "....",
        "todo",
        "replace",
        "insert",
    ];
    const EXACT: [&str; 14] = [
        "password",
        "passwd",
        "secret",
        "token",
        "string",
        "none",
        "null",
        "undefined",
        "true",
        "false",
        "test",
        "fake",
        "hidden",
        "optional",
    ];
    let lower = value.to_ascii_lowercase();
    CONTAINED.iter().any(|part| lower.contains(part)) || EXACT.contains(&lower.as_str())
}

/// Whether a value looks random on its own.
pub(super) fn looks_random(value: &str) -> bool {
    let sample = beginning(value, SAMPLE);
    is_random(sample)
        && is_mixed(sample)
        && entropy(sample) >= if is_hex(sample) { 3.0 } else { 3.5 }
        && !is_placeholder(sample)
}

/// Whether the value is hexadecimal with letters, and not one repeated digit.
fn is_hex(value: &str) -> bool {
    value.len() >= 16
        && value.bytes().all(|byte| byte.is_ascii_hexdigit())
        && is_mixed(value)
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && entropy(value) >= 1.5
}

/// Whether the value has many unusual symbols between letters and digits, like a Django key.
fn is_sign_rich(value: &str) -> bool {
    let signs = b"!@#$%^&*()=+";
    signs.iter().filter(|sign| value.as_bytes().contains(sign)).count() >= 4
        && value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'`{}<>;,".contains(&byte))
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && entropy(value) >= 3.5
}

/// Whether the value is long and has a few of those symbols.
fn is_long_and_signed(value: &str) -> bool {
    value.len() >= 32
        && value.bytes().any(|byte| SIGNS.has(byte) || b"()".contains(&byte))
        && value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'`{}<>;,/".contains(&byte))
        && value.bytes().filter(u8::is_ascii_digit).count() >= 3
        && is_random(value)
        && entropy(value) >= 4.0
}

/// Whether the value is `user:password` in base64.
fn is_login(value: &str) -> bool {
    let plain = base64(value);
    let text = |bytes: &[u8]| bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    let colon = plain.iter().position(|byte| *byte == b':');
    value.len() >= 8 && text(&plain) && colon.is_some_and(|at| at > 0 && at + 1 < plain.len())
}

/// Decodes base64. Empty if it is invalid.
pub(super) fn base64(value: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let digits: Option<Vec<u8>> = value.trim_end_matches('=').bytes().map(digit).collect();
    let digits = digits.unwrap_or_default();
    let mut out = Vec::new();
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, digit| (bits << 6) | u32::from(*digit));
        let bits = bits << (6 * (4 - four.len()));
        out.extend(bits.to_be_bytes().into_iter().skip(1).take(four.len().saturating_sub(1)));
    }
    out
}

/// Whether the value is a type or description that follows a name in a declaration or a form label.
fn is_type(value: &str) -> bool {
    const TYPES: [&str; 47] = [
        "str",
        "text",
        "bytes",
        "byte",
        "char",
        "varchar",
        "int",
        "integer",
        "number",
        "bool",
        "boolean",
        "any",
        "object",
        "unknown",
        "never",
        "void",
        "uuid",
        "buffer",
        "required",
        "prompt",
        "input",
        "field",
        "default",
        "enabled",
        "disabled",
        "auto",
        "basic",
        "plain",
        "file",
        "stdin",
        "keyring",
        "yes",
        "no",
        "off",
        "nil",
        "nullable",
        "secretstr",
        "word",
        "missing",
        "unset",
        "erforderlich",
        "notwendig",
        "falsch",
        "requis",
        "obligatoire",
        "obligatoria",
        "requerida",
    ];
    let is_capital = value.as_bytes().first().is_some_and(u8::is_ascii_uppercase);
    let lower = value.to_ascii_lowercase();
    TYPES.contains(&lower.trim_end_matches(['!', '?', '.', ':']))
        || (is_capital && value.bytes().all(|byte| byte.is_ascii_alphabetic()) && !is_shuffled(value))
        || is_expression(value)
}

/// Whether the value is a member, or a name with a number: an algorithm, a type, the second of two passwords.
fn is_expression(value: &str) -> bool {
    const NAMES: [&str; 18] = [
        "pass", "sha", "md5", "base64", "base32", "pbkdf", "argon", "bcrypt", "scrypt", "utf", "x509",
        "oauth", "ed25519", "hash", "aes", "uint", "hex", "arg",
    ];
    let value = value.trim_end_matches(['.', ',', ';', ':', '!', '?', '…']);
    let lower = value.to_ascii_lowercase();
    is_member(value)
        || value.matches(':').count() > 1
        || (NAMES.iter().any(|name| lower.starts_with(name))
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        // Base64 ends with up to two of them.
        || ["&&", "||", "==", "!=", "=>", "?:", "..", "->"]
            .iter()
            .any(|sign| value.trim_end_matches('=').contains(sign))
}

/// Whether the value is a member such as `settings.password`, or a version. Names do not mix digits and capitals.
fn is_member(value: &str) -> bool {
    let is_name = |part: &str| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    let is_version = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    value.contains('.')
        && (is_version
            || value.split('.').all(is_name) && !(has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase)))
}

/// Whether the value has no blanks and no code punctuation.
fn is_one_word(value: &str) -> bool {
    WORD_BYTES.run(value.as_bytes()) == value.len() && value.len() > 1
}

/// Characters of a single word.
const WORD_BYTES: ByteSet = ByteSet::alphanumeric_and(b"!#$%&*+,-./:;=?@[]^_~");
/// Symbols that are unusual between letters.
const SIGNS: ByteSet = ByteSet::of(b"!@#$%^&*+=?~");

/// Characters of tokens, of hexadecimal and of all base64 alphabets.
const TOKEN_BYTES: ByteSet = ByteSet::alphanumeric_and(b"_-+/.~:!@#$%^&*");

fn is_token(value: &str) -> bool {
    let padding = value.trim_end_matches('=').as_bytes();
    TOKEN_BYTES.run(padding) == padding.len()
}

/// Whether the value has letters with digits or unusual symbols, or only digits.
fn is_mixed(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let signs = value.bytes().filter(|byte| SIGNS.has(*byte)).count();
    // A version number has dots and no letters.
    letters > 0 && (digits > 0 || signs > 0) || digits == value.len() || is_shuffled(value)
}

/// Whether lower-case letters, capitals and digits alternate as in random text, not as in words and names.
fn is_random(value: &str) -> bool {
    let (mut length, mut changes, mut last) = (0_usize, 0_usize, Class::Other);
    for byte in value.bytes() {
        let class = Class::of(byte);
        length += usize::from(class != Class::Other);
        changes += usize::from(is_change(last, class));
        last = class;
    }
    changes * 5 >= length && entropy(value) >= 3.0 || is_shuffled(value)
}

/// The class of a byte in a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Other,
    Small,
    Capital,
    Digit,
}

impl Class {
    /// A table lookup, because this is called for every byte of a possible secret.
    fn of(byte: u8) -> Self {
        const CLASSES: [Class; 256] = Class::table();
        CLASSES.get(usize::from(byte)).copied().unwrap_or(Self::Other)
    }

    #[allow(clippy::indexing_slicing, reason = "run by the compiler, and within bounds")]
    const fn table() -> [Self; 256] {
        let mut table = [Self::Other; 256];
        let mut byte = 0;
        while byte < table.len() {
            table[byte] = match byte as u8 {
                b'a'..=b'z' => Self::Small,
                b'A'..=b'Z' => Self::Capital,
                b'0'..=b'9' => Self::Digit,
                _ => Self::Other,
            };
            byte += 1;
        }
        table
    }
}

/// Whether the class changes between lower case, upper case and digits here. A capital that begins a word does not
/// count.
fn is_change(left: Class, right: Class) -> bool {
    left != right
        && left != Class::Other
        && right != Class::Other
        && (left, right) != (Class::Capital, Class::Small)
}

/// The Shannon entropy of the value's bytes, in bits per byte.
fn entropy(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    // At most [`SAMPLE`] bytes, so the conversion is exact.
    let total = value.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / total)
        .map(|p| -p * p.log2())
        .sum()
}

/// Endings of words that describe a password.
const ENDINGS: [&str; 24] = [
    "ed", "ing", "ent", "ble", "ary", "al", "ive", "ect", "ty", "en", "ful", "ous", "ic", "less", "ly",
    "ong", "lid", "ak", "et", "one", "own", "ort", "ull", "ay",
];
/// Words that describe a password.
const ABOUT: [&str; 38] = [
    "option",
    "argument",
    "instead",
    "parameter",
    "switch",
    "prompt",
    "falsch",
    "erforderlich",
    "notwendig",
    "unbekannt",
    "geheim",
    "korrekt",
    "richtig",
    "obligatoria",
    "wrong",
    "secret",
    "password",
    "needed",
    "stored",
    "there",
    "here",
    "fine",
    "good",
    "safe",
    "unique",
    "random",
    "null",
    "none",
    "false",
    "true",
    "nothing",
    "yours",
    "string",
    "visible",
    "optional",
    "plaintext",
    "something",
    "unsafe",
];

/// Whether a plain word may be a password, because it does not describe one.
pub(super) fn may_be_password(word: &str) -> bool {
    word.len() >= 6
        && word.bytes().all(|byte| byte.is_ascii_lowercase())
        && !ABOUT.contains(&word)
        && !ENDINGS.iter().any(|ending| word.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: Name, place: ValuePosition, secret: &[&str], harmless: &[&str]) {
        for value in secret {
            assert!(is_secret(value, name, place), "{value} is a secret");
        }
        for value in harmless {
            assert!(!is_secret(value, name, place), "{value} is harmless");
        }
    }

    #[test]
    fn quoted_values_are_secrets_only_if_they_look_random() {
        check(
            Name::Token,
            ValuePosition::Quoted,
            &[
                "a8Kd93jfLs02mQpz71Xc",
                "9f86d081884c7d659a2feaa0c55ad015",
                "550e8400-e29b-41d4-a716-446655440000",
            ],
            &[
                "refresh_token_grant",
                "bert-base-uncased-v2",
                "com.example.Token2Parser",
                "aaaaaaaaaaaaaaaaaaaaaaaa",
            ],
        );
        check(
            Name::Password,
            ValuePosition::Quoted,
            &["hunter2", "s3cr3t!pass", "correct-horse-9"],
            &[
                "password",
                "Enter your password",
                "user_password",
                "^1.2.3",
                "${DB_PASSWORD}",
                "changeme1",
                "{password}",
            ],
        );
    }

    #[test]
    fn unquoted_values_that_look_like_expressions_are_no_secrets() {
        check(
            Name::Key,
            ValuePosition::Bare,
            &["a8Kd93jfLs02mQpz71Xc"],
            &[
                "x25519_shared_secret",
                "config.api_key",
                "next_token()",
                "String",
                "sha256_hmac_sha512",
                "self.keys[0]",
            ],
        );
    }

    #[test]
    fn a_plain_word_in_an_environment_file_or_password_field_is_a_secret() {
        check(
            Name::Password,
            ValuePosition::Environment,
            &["swordfish", "p4ss"],
            &["$PASS", "password", "<secret>", "/run/secrets/db"],
        );
        check(
            Name::Password,
            ValuePosition::Field,
            &["swordfish", "two words"],
            &["", "null", "{{ vault }}"],
        );
        check(Name::Token, ValuePosition::Field, &["a8Kd93jfLs02mQpz71Xc"], &["page_two", "identifier"]);
    }
}
