//! Reduces a command to its form: what it runs, without options and values. The form finds what is known about the
//! command.
//!
//! `sudo FOO=1 npm run deploy --force` has the form `npm run deploy`, and `cd web && ./scripts/sync.sh "all"` has
//! `scripts/sync.sh`. Commands that only inspect have no form, because nobody needs a warning about `ls`.

/// A command without its options, quoted words and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandForm {
    /// The program and the first of its plain arguments.
    words: Vec<String>,
    /// Further plain arguments, which say what the command is about.
    others: Vec<String>,
}

/// Programs that only inspect, or that say nothing on their own.
const SILENT: [&str; 48] = [
    "alias", "awk", "basename", "bat", "cat", "cd", "clear", "cut", "date", "df", "diff", "dirname", "du",
    "echo", "env", "exit", "export", "false", "file", "find", "grep", "head", "jq", "ls", "mkdir", "popd",
    "printf", "ps", "pushd", "pwd", "realpath", "rg", "sed", "set", "sleep", "sort", "stat", "tail", "tee",
    "test", "touch", "tr", "tree", "true", "type", "uniq", "wc", "which",
];
/// Git subcommands that change nothing that others see.
const SILENT_GIT: [&str; 10] =
    ["add", "blame", "branch", "commit", "diff", "fetch", "log", "show", "stash", "status"];
/// Words that precede a command.
const PREFIXES: [&str; 13] = [
    "sudo", "env", "time", "command", "builtin", "exec", "nice", "nohup", "then", "do", "else", "if", "while",
];
/// The maximum number of simple commands examined per line, and of characters of the line.
const MOST_FORMS: usize = 3;
const MOST_CHARS: usize = 4_000;
/// The maximum number of words in a form, and of further words.
const FORM_WORDS: usize = 3;
const OTHER_WORDS: usize = 6;
/// The maximum number of words in front of a wrapped command: `docker compose exec`.
const WRAPPING_WORDS: usize = 3;

impl CommandForm {
    /// The forms of a command line, in order.
    pub fn all(line: &str) -> Vec<Self> {
        let line: String = line.chars().take(MOST_CHARS).collect();
        let mut forms: Vec<Self> = Vec::new();
        for simple in simple_commands(&line) {
            if let Some(form) = Self::of(&simple)
                && !forms.contains(&form)
                && forms.len() < MOST_FORMS
            {
                forms.push(form);
            }
        }
        forms
    }

    fn of(simple: &[Word]) -> Option<Self> {
        let mut plain = simple.iter().skip_while(|word| {
            let is_assignment = word.text.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            });
            is_assignment || word.text.starts_with('-') || PREFIXES.contains(&word.text.as_str())
        });
        let program = plain.next().filter(|word| !word.is_quoted)?;
        let program = program.text.trim_start_matches("./").to_owned();
        let name = program.rsplit('/').next().unwrap_or_default();
        if name.is_empty() || SILENT.contains(&name) || !name.starts_with(|c: char| c.is_alphanumeric()) {
            return None;
        }
        let is_word = |word: &&Word| {
            !word.is_quoted
                && !word.text.starts_with(['-', '<', '>', '$', '&'])
                && !word.text.contains(['=', '$', '*', '<', '>'])
        };
        let mut arguments = plain
            .filter(is_word)
            .map(|word| word.text.trim_start_matches("./").to_owned())
            .filter(|word| !word.is_empty());
        let mut words = vec![program.clone()];
        words.extend(arguments.by_ref().take(FORM_WORDS - 1));
        if name == "git" && words.get(1).is_none_or(|verb| SILENT_GIT.contains(&verb.as_str())) {
            return None;
        }
        Some(Self { words, others: arguments.take(OTHER_WORDS).collect() })
    }

    /// Whether this is the other command behind another program: `rtk npm run deploy` wraps `npm run deploy`.
    pub fn wraps(&self, other: &Self) -> bool {
        let words = |form: &Self| form.words.iter().chain(&form.others).cloned().collect::<Vec<_>>();
        let (outer, inner) = (words(self), words(other));
        inner.len() > 1
            && outer.ends_with(&inner)
            && (1..=WRAPPING_WORDS).contains(&(outer.len() - inner.len()))
    }

    /// The form as a single string.
    pub fn text(&self) -> String {
        self.words.join(" ")
    }

    /// All words that say what the command is about, including parts of names, for a search.
    pub fn subjects(&self) -> String {
        let words = self.words.iter().chain(&self.others);
        words.map(|word| word.replace(['/', ':', '_', '-', '.'], " ")).collect::<Vec<_>>().join(" ")
    }

    /// Whether a text names this command: the program with its first argument, or a file of the command by its path.
    /// The program alone is not enough unless it is a file.
    pub fn is_named_in(&self, text: &str) -> bool {
        let text = spaced(text);
        let is_file = |word: &&String| word.contains('/') || has_extension(word);
        let files = self.words.iter().chain(&self.others).filter(is_file);
        let is_long = |file: &&String| file.len() >= SHORTEST_FILE;
        if files.filter(is_long).any(|file| has_word(&text, &file.to_lowercase())) {
            return true;
        }
        let program = self.words.first().map(|word| word.rsplit('/').next().unwrap_or_default());
        let argument =
            self.words.get(1).filter(|word| word.chars().all(|c| c.is_alphanumeric() || ":_-".contains(c)));
        match (program, argument) {
            (Some(program), Some(argument)) => {
                has_word(&text, &format!("{program} {argument}").to_lowercase())
            }
            _ => false,
        }
    }
}

const SHORTEST_FILE: usize = 5;

fn has_extension(word: &str) -> bool {
    word.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (1..=4).contains(&extension.len())
            && extension.chars().all(|c| c.is_ascii_alphabetic())
    })
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Whether the words occur in the text, not inside longer words.
fn has_word(text: &str, words: &str) -> bool {
    let is_edge = |next: Option<char>| next.is_none_or(|c| !c.is_alphanumeric() && !"_-/:".contains(c));
    text.match_indices(words).any(|(at, _)| {
        is_edge(text[..at].chars().next_back()) && is_edge(text[at + words.len()..].chars().next())
    })
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Word {
    text: String,
    is_quoted: bool,
}

/// The names of the programs that a command line runs, in order, without their folders.
pub fn programs(line: &str) -> Vec<String> {
    let line: String = line.chars().take(MOST_CHARS).collect();
    let is_before = |word: &&Word| word.text.contains('=') || PREFIXES.contains(&word.text.as_str());
    let program = |words: &Vec<Word>| {
        let word = words.iter().find(|word| !is_before(word))?;
        word.text.rsplit('/').next().map(str::to_owned)
    };
    simple_commands(&line).iter().filter_map(program).collect()
}

/// Returns the words of each simple command of a line. Lines of a here-document are not commands.
fn simple_commands(line: &str) -> Vec<Vec<Word>> {
    let line = line.split_once("<<").map_or(line, |(before, _)| before);
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), Word::default());
    let mut quote = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.text.push(c),
            (None, '\'' | '"' | '`') => {
                quote = Some(c);
                word.is_quoted = true;
            }
            (None, '\\') => word.text.extend(chars.next()),
            // A redirection such as `2>&1`.
            (None, '&') if word.text.ends_with('>') => word.text.push(c),
            (None, ';' | '|' | '&' | '\n' | '(' | ')') => {
                push_word(&mut words, &mut word);
                commands.push(std::mem::take(&mut words));
            }
            (None, c) if c.is_whitespace() => push_word(&mut words, &mut word),
            (None, c) => word.text.push(c),
        }
    }
    push_word(&mut words, &mut word);
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    commands
}

fn push_word(words: &mut Vec<Word>, word: &mut Word) {
    let word = std::mem::take(word);
    if !word.text.is_empty() {
        words.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(line: &str) -> Vec<String> {
        CommandForm::all(line).iter().map(CommandForm::text).collect()
    }

    #[test]
    fn a_form_is_the_command_without_options_and_values() {
        assert_eq!(forms("sudo FOO=1 npm run deploy --force"), ["npm run deploy"]);
        assert_eq!(forms("cd web && ./scripts/sync.sh \"all of it\" > log"), ["scripts/sync.sh log"]);
        assert_eq!(
            forms("bin/migrate up --env=staging; cargo test cart | tail -3"),
            ["bin/migrate up", "cargo test cart"]
        );
        assert_eq!(forms("cargo build 2>&1 | tail -3"), ["cargo build"]);
        assert_eq!(forms("git push origin main"), ["git push origin"]);
        assert_eq!(forms("psql -c 'DROP TABLE x' shop"), ["psql shop"]);
        assert_eq!(forms("kubectl --context prod apply -f app.yaml"), ["kubectl prod apply"]);
    }

    #[test]
    fn a_command_behind_a_wrapper_program_is_recognized() {
        let wraps = |outer: &str, inner: &str| {
            let one = |line: &str| CommandForm::all(line).remove(0);
            one(outer).wraps(&one(inner))
        };
        assert!(wraps("rtk bun run test 2>&1", "bun run test"));
        assert!(wraps("docker compose exec npm test", "npm test"));
        for (outer, inner) in [
            ("bun run test", "bun run test"),
            ("bun run test", "rtk bun run test"),
            ("npm run test", "test"),
            ("rtk bun run test", "bun run lint"),
            ("cargo xtask a b c npm test", "npm test"),
        ] {
            let inner_form = CommandForm::all(inner);
            assert!(inner_form.is_empty() || !wraps(outer, inner), "{outer} {inner}");
        }
    }

    #[test]
    fn harmless_and_unclear_commands_have_no_form() {
        for line in [
            "ls -la src",
            "git status",
            "git commit -m 'Never run migrations'",
            "git",
            "cat a | grep b",
            "",
            "  ",
            "echo \"npm run deploy\"",
            "'quoted program' x",
            "$CMD run",
            "cat <<EOF\nnpm run deploy\nEOF",
        ] {
            assert_eq!(forms(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn a_text_names_a_command_by_its_file_or_by_its_first_words() {
        #[track_caller]
        fn check(line: &str, text: &str, named: bool) {
            let forms = CommandForm::all(line);
            assert_eq!(forms.iter().any(|form| form.is_named_in(text)), named, "{line}: {text}");
        }
        check("npm run deploy", "Never use `npm  run` here: the lock file is pnpm's", true);
        check("npm run deploy", "npm is slow", false);
        check("npm run deploy", "pnpm run deploy is used", false);
        check("./scripts/sync.sh --all", "Run it through `scripts/sync.sh`, never directly", true);
        check("bash scripts/sync.sh", "scripts/sync.sh.bak is old", true);
        check("bash scripts/sync.sh", "other/scripts/sync.shell", false);
        check("rake db:migrate", "`rake db:migrate` wipes the seeds", true);
        check("rake db:migrate", "rake db:migrate:down is safe", false);
        check("make test", "Tests make sense", false);
        check("cargo test cart_total", "The cart is tested", false);
    }

    #[test]
    fn the_subjects_of_a_command_include_parts_of_names() {
        let form = CommandForm::all("bin/rails db:migrate staging").remove(0);
        assert_eq!(form.subjects(), "bin rails db migrate staging");
    }
}
