//! Finds secrets after options of known programs: `curl -u name:password`, `mysql -ppassword`. Options named after a
//! secret (`--password`) are handled as assignments.

use std::ops::Range;

use super::cursor::Cursor;
use super::http;
use super::plausibility::{Name, ValuePosition, is_secret};

/// A program with options that take secrets.
#[derive(Debug)]
pub(super) struct Program {
    /// The program's name as spelled in the command.
    pub name: &'static str,
    options: &'static [(&'static str, Value)],
}

/// The form of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// A password: `-p WORD`, `-pWORD`.
    Word,
    /// A password attached to its option. A separate word counts only if it cannot be anything else.
    Attached,
    /// `name:password`
    Login,
    /// `name%password`
    Percent,
    /// `pass:password`
    Pass,
    /// `name=password`
    Pair,
    /// The last word of the command is a password.
    Last,
    Cookies,
}

use Value::{Attached, Cookies, Last, Login, Pair, Pass, Percent, Word};

const fn program(name: &'static str, options: &'static [(&'static str, Value)]) -> Program {
    Program { name, options }
}

pub(super) const PROGRAMS: &[Program] = &[
    program(
        "curl ",
        &[
            ("-u", Login),
            ("--user", Login),
            ("--proxy-user", Login),
            ("-U", Login),
            ("-b", Cookies),
            ("--cookie", Cookies),
        ],
    ),
    program("http ", &[("-a", Login), ("--auth", Login)]),
    program("https ", &[("-a", Login), ("--auth", Login)]),
    program("wget ", &[("--http-user", Login), ("--password", Word)]),
    program("htpasswd ", &[("-b", Last)]),
    program("kubectl ", &[("--from-literal", Pair)]),
    program("vault kv put ", &[("", Pair)]),
    program("gh secret set ", &[("-b", Word), ("--body", Word)]),
    program("mysql", &[("-p", Attached)]),
    program("mariadb", &[("-p", Attached)]),
    program("sshpass ", &[("-p", Word)]),
    program("redis-cli ", &[("-a", Word), ("--pass", Word)]),
    program("mongo", &[("-p", Word)]),
    program("docker login ", &[("-p", Word)]),
    program("podman login ", &[("-p", Word)]),
    program("helm registry login ", &[("-p", Word)]),
    program("az login ", &[("-p", Word)]),
    program("sqlcmd ", &[("-P", Word)]),
    program("bcp ", &[("-P", Word)]),
    program("ldapsearch ", &[("-w", Word)]),
    program("ldapmodify ", &[("-w", Word)]),
    program("ldapadd ", &[("-w", Word)]),
    program("smbclient ", &[("-U", Percent)]),
    program("rpcclient ", &[("-U", Percent)]),
    program("openssl ", &[("-passin", Pass), ("-passout", Pass), ("-pass", Pass), ("-k", Word)]),
    program("7z ", &[("-p", Attached)]),
    program("zip ", &[("-P", Word)]),
    program("unrar ", &[("-p", Attached)]),
    program("keytool ", &[("-storepass", Word), ("-keypass", Word)]),
    program("ssh-keygen ", &[("-N", Word), ("-P", Word)]),
    program("lftp ", &[("-u", Login)]),
    program("snmpwalk ", &[("-A", Word), ("-X", Word)]),
];

/// Programs and options that read a secret from the standard input.
pub(super) const READERS: &[&str] =
    &["--password-stdin", "--with-token", "passwd --stdin", "chpasswd", "sudo "];

/// The number of bytes of a command that are examined.
const MOST: usize = 512;
/// Options without a value, which may be combined in one word before another option.
const CURL_FLAGS: &str = "sSfLkvgiIjnNqR0146#";
const HTPASSWD_FLAGS: &str = "ncvBmdsD25";

/// Returns the password passed to the reader at `hit`: `echo WORD | sudo -S`, `sudo -S <<< WORD`. Nothing before
/// `floor` is examined.
pub(super) fn piped(text: &str, hit: Range<usize>, floor: usize) -> Option<Range<usize>> {
    let after = Cursor { text, at: hit.end }.line(MOST);
    let floor = floor.max(hit.start.saturating_sub(MOST));
    let floor = (floor..=hit.start).find(|at| text.is_char_boundary(*at))?;
    let before = text.get(floor..hit.start)?;
    let before = before.get(before.rfind('\n').map_or(0, |at| at + 1)..)?;
    let from = hit.start - before.len();
    let (start, end) = match before.rsplit_once('|') {
        Some((_, reader)) if reader.contains([';', '&']) => return None,
        Some((command, _)) => {
            let programs = ["echo ", "printf "].into_iter();
            let word = programs.filter_map(|name| Some(command.rfind(name)? + name.len())).max()?;
            (from + word, from + command.len())
        }
        None => (hit.end + after.find("<<<")? + "<<<".len(), hit.end + after.len()),
    };
    let mut words = Words { line: text.get(start..end)?, at: 0 };
    let kind = if text.get(hit)? == "chpasswd" { Login } else { Word };
    while let Some(word) = words.next_word() {
        let value = words.line.get(word.clone())?;
        if !value.starts_with(['-', '%']) {
            return secret(text, start + word.start, value, kind).pop();
        }
    }
    None
}

/// Whether the reader at `hit` reads a secret: `sudo` does so only with its option `-S`.
pub(super) fn reads_secret(text: &str, hit: Range<usize>) -> bool {
    const OPTIONS: usize = 48;
    let asks = |word: &str| word.starts_with('-') && word.ends_with('S');
    text.get(hit.clone()) != Some("sudo ")
        || Cursor { text, at: hit.end }.line(OPTIONS).split(' ').take_while(|word| *word != "|").any(asks)
}

/// Returns the secrets in the command of the program whose name is at `hit`, and where the examined text ends.
pub(super) fn secrets(text: &str, hit: Range<usize>, program: &Program) -> (Vec<Range<usize>>, usize) {
    let before = hit.start.checked_sub(1).and_then(|at| text.as_bytes().get(at));
    if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte)) {
        return (Vec::new(), hit.end);
    }
    // The hit may be the beginning of a longer name, such as `mysqldump`.
    let start = if program.name.ends_with(' ') { hit.end } else { name_end(text, hit.end) };
    let line = Cursor { text, at: start }.line(MOST);
    let mut found = Vec::new();
    let mut words = Words { line, at: 0 };
    let (mut waiting, mut last, mut ends_with_secret) = (None, (start, ""), false);
    while let Some(word) = words.next_word() {
        let value = line.get(word.clone()).unwrap_or_default();
        if let Some(kind) = waiting.take().filter(|_| !value.starts_with('-')) {
            if kind != Attached || is_secret(value, Name::Pass, ValuePosition::Sentence) {
                found.extend(secret(text, start + word.start, value, kind));
            }
            continue;
        }
        last = (start + word.start, value);
        for (option, kind) in program.options {
            let Some(rest) = value.strip_prefix(option).or_else(|| bundled(value, option, *kind)) else {
                continue;
            };
            let attached = start + word.end - rest.len();
            match rest.strip_prefix('=').unwrap_or(rest).trim_start_matches(['"', '\'']) {
                _ if *kind == Last => ends_with_secret = true,
                "" => waiting = Some(*kind),
                // A different option, such as `--user-agent` or `-port`.
                _ if option.starts_with("--") && !rest.starts_with('=') => continue,
                inner => {
                    let at = attached + rest.len() - inner.len();
                    found.extend(secret(text, at, inner, *kind));
                }
            }
            break;
        }
    }
    if ends_with_secret {
        let (start, value) = last;
        found.extend(secret(text, start, value, Word));
    }
    (found, start + words.at)
}

/// The value that follows a one-letter option bundled with others, as in `-sSu`.
fn bundled<'a>(word: &'a str, option: &str, kind: Value) -> Option<&'a str> {
    let flags = match kind {
        Login => CURL_FLAGS,
        Last => HTPASSWD_FLAGS,
        _ => return None,
    };
    let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1)?;
    word.strip_prefix('-')?.trim_start_matches(|flag| flags.contains(flag)).strip_prefix(letter)
}

fn name_end(text: &str, end: usize) -> usize {
    let rest = text.as_bytes().get(end..).unwrap_or_default();
    end + rest.iter().take(16).take_while(|byte| byte.is_ascii_alphabetic() || b"-_".contains(byte)).count()
}

/// Returns the secret part of an option's value.
fn secret(text: &str, start: usize, value: &str, kind: Value) -> Vec<Range<usize>> {
    let behind = |sign: char| {
        let (name, _) = value.split_once(sign)?;
        let inside = value.len() - value.get(name.len() + 1..)?.trim_start_matches(['"', '\'']).len();
        Some(start + inside..start + value.len())
    };
    let range = match kind {
        Pair if value.starts_with('-') || value.contains("=@") => None,
        Pair => behind('='),
        Word | Attached | Last => Some(start..start + value.len()),
        Login => behind(':'),
        Percent => behind('%'),
        Pass => value.strip_prefix("pass:").map(|word| start + value.len() - word.len()..start + value.len()),
        Cookies => return http::cookie_list(Cursor { text, at: start }).0,
    };
    range.filter(|range| text.get(range.clone()).is_some_and(is_password)).into_iter().collect()
}

/// Whether the word is a password, not a variable, a placeholder, an earlier mark or another option.
pub(super) fn is_password(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let samples = ["pass", "password", "secret", "pwd", "token", "apikey", "api_key"];
    word.len() >= 3
        && !word.starts_with(['$', '<', '{', '[', '-', '%', '*'])
        && !word.contains("${")
        && !samples.contains(&lower.as_str())
        && !lower.contains("xxxx")
}

/// Iterates over the words of one command without their quotes.
struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl Words<'_> {
    /// Returns the range of the next word. `None` at the end of the command.
    fn next_word(&mut self) -> Option<Range<usize>> {
        let bytes = self.line.as_bytes();
        self.at += bytes.get(self.at..)?.iter().take_while(|byte| b" \t".contains(byte)).count();
        let quote = |at: usize| bytes.get(at).copied().filter(|byte| b"\"'".contains(byte));
        // Quotes are escaped inside JSON or inside a quoted command.
        self.at += bytes.get(self.at..)?.iter().take_while(|byte| **byte == b'\\').count();
        if let Some(open) = quote(self.at) {
            let start = self.at + 1;
            let length = bytes.get(start..)?.iter().position(|byte| *byte == open)?;
            self.at = start + length + 1;
            let inside = self.line.get(start..start + length)?.trim_end_matches('\\');
            return Some(start..start + inside.len());
        }
        let start = self.at;
        let length = bytes.get(start..)?.iter().take_while(|byte| !b" \t|;&<>`\"'\\)".contains(byte)).count();
        self.at = start + length;
        if length > 0 {
            // `-u"name:password"`, `--user='name:password'`
            let word = self.line.get(start..self.at)?;
            let is_option = word.ends_with(['=', ':']) || (word.starts_with('-') && length == 2);
            if let Some(open) = quote(self.at).filter(|_| is_option)
                && let Some(inside) = bytes.get(self.at + 1..)?.iter().position(|byte| *byte == open)
            {
                self.at += inside + 2;
                return Some(start..self.at - 1);
            }
            return Some(start..start + length);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found = PROGRAMS.iter().find_map(|program| {
            let at = text.find(program.name)?;
            Some(secrets(text, at..at + program.name.len(), program).0)
        });
        let found = found.unwrap_or_default();
        let found: Vec<_> = found.into_iter().filter_map(|range| text.get(range)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_password_behind_an_option_is_found() {
        check("curl -u admin:hunter2 https://h.test", &["hunter2"]);
        check("curl -s --user 'admin:hunter 2' https://h.test", &["hunter 2"]);
        check("curl -uadmin:hunter2 x", &["hunter2"]);
        check("curl --user=admin:hunter2 x", &["hunter2"]);
        check("curl -u\"admin:hunter2\" x", &["hunter2"]);
        check("{\"a\": \"mysql -phunter2\", \"b\": \"c\"}", &["hunter2"]);
        check("curl -b 'sessionid=a8Kd93jfLs02mQpz; theme=dark' x", &["a8Kd93jfLs02mQpz"]);
        check("mysqldump -h db -uroot -phunter2 shop", &["hunter2"]);
        check("sshpass -p hunter2 ssh a@b", &["hunter2"]);
        check("sshpass -phunter2 ssh a@b", &["hunter2"]);
        check("redis-cli -h x -a swordfish ping", &["swordfish"]);
        check("docker login -u me -p hunter2 r.test", &["hunter2"]);
        check("openssl rsa -passin pass:hunter2 -in a", &["hunter2"]);
        check("smbclient -U me%hunter2 //h/s", &["hunter2"]);
    }

    #[test]
    fn other_options_and_variables_are_not_redacted() {
        check("curl -u $USER:$PASS https://h.test", &[]);
        check("curl --user-agent a:b https://h.test; echo -u c:d", &[]);
        check("mysql -u root -p shop", &[]);
        check("mysql -p$PASS shop", &[]);
        check("libcurl -u a:b1234", &[]);
        check("docker login --password-stdin", &[]);
    }
}
