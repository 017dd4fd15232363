//! `recall edit`: rewrites an observation in the user's editor.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::Args;
use recall_protocol::query::{Edit, Show};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::candidates;
use super::client::{Answer, Client, Start};
use super::failure::Failure;
use super::terminal::{ACCENT, BOLD};
use recall_app::answers::found::{ObservationAnswer, ShownItem};
use recall_app::commands::by_hand::title_of;
use recall_domain::observation::NoteOrigin;
use recall_domain::plain::{is_invisible, visible};

#[derive(Debug, Args)]
#[command(after_help = "Opens $VISUAL, $EDITOR or vi. Compression never changes your text afterwards.
`recall undo` reverts the edit.")]
pub struct EditArgs {
    /// Number of an observation, e.g. 12 or #12
    #[arg(add = candidates::observations())]
    id: String,
    /// Set the title, without an editor
    #[arg(long)]
    title: Option<String>,
    /// Set the text, without an editor; also renews the title, unless you wrote it
    #[arg(long)]
    text: Option<String>,
    /// Set the type, without an editor
    #[arg(long = "type", value_name = "TYPE", add = candidates::types())]
    kind: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &EditArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut client = Client::connect(Start::IfNeeded)?;
    let is_given = args.title.is_some() || args.text.is_some() || args.kind.is_some();
    let answer = match is_given {
        true => {
            let before = observation(&mut client, &args.id)?;
            client.ask(given(args, &before))?
        }
        false => match rewrite(&mut client, &args.id)? {
            Some(answer) => answer,
            None => return Ok(writeln!(out, "{NOTHING}.")?),
        },
    };
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in answer.read()?.items {
        writeln!(out, "Changed {ACCENT}#{}{ACCENT:#}: {BOLD}{}{BOLD:#}", item.id, item.title)?;
        if !item.narrative.is_empty() {
            writeln!(out, "{}", item.narrative)?;
        }
        item.facts.iter().try_for_each(|fact| writeln!(out, "- {fact}"))?;
    }
    Ok(())
}

/// The message if the editor changed nothing.
pub(super) const NOTHING: &str = "Nothing was changed";

/// Opens an observation in the user's editor. `None` if nothing was changed.
pub(super) fn rewrite(client: &mut Client, id: &str) -> anyhow::Result<Option<Answer<Edit>>> {
    let before = observation(client, id)?;
    let Some((request, draft)) = in_editor(&before)? else { return Ok(None) };
    let answer = client
        .ask(request)
        .map_err(|error| error.context(format!("your text is kept in {}", draft.display())))?;
    let _ = std::fs::remove_file(draft);
    Ok(Some(answer))
}

fn observation(client: &mut Client, id: &str) -> anyhow::Result<ObservationAnswer> {
    let shown = client.ask(Show { id: id.to_owned(), folder: None })?.unchanged()?;
    match shown.items.into_iter().next() {
        Some(ShownItem::Observation(before)) => Ok(*before),
        _ => Err(Failure::usage(format!("{id} is not an observation"))
            .hint("Only observations can be edited: 12 or #12.")
            .into()),
    }
}

fn given(args: &EditArgs, before: &ObservationAnswer) -> Edit {
    let text = args.text.as_deref().map(str::trim);
    let from_text = text.filter(|text| !text.is_empty() && !has_own_title(before)).map(title_of);
    let title = args.title.clone().or(from_text).unwrap_or_else(|| before.title.clone());
    let narrative = match text {
        // The title is the whole text.
        Some(text) if text == title => String::new(),
        Some(text) => text.to_owned(),
        None => before.narrative.clone(),
    };
    Edit {
        id: before.id.to_string(),
        kind: args.kind.clone().unwrap_or_else(|| before.observation_type.to_string()),
        title,
        // A new text replaces the facts too.
        facts: if text.is_some() { Vec::new() } else { before.facts.clone() },
        narrative,
        files: before.files_read.iter().chain(&before.files_modified).cloned().collect(),
    }
}

/// Whether the user wrote the title. Any other title was derived from the text, and changes with it.
fn has_own_title(before: &ObservationAnswer) -> bool {
    before.origin == NoteOrigin::USER
        && !before.narrative.is_empty()
        && before.title != title_of(&before.narrative)
}

/// Returns the user's text and its file; `None` if nothing was changed.
fn in_editor(before: &ObservationAnswer) -> anyhow::Result<Option<(Edit, PathBuf)>> {
    if !std::io::stdin().is_terminal() && std::env::var_os("VISUAL").or(std::env::var_os("EDITOR")).is_none()
    {
        return Err(Failure::usage("There is no terminal to edit in")
            .hint("Use --title, --text and --type, or set $EDITOR.")
            .into());
    }
    let text = render(before);
    let path = std::env::temp_dir().join(format!("recall-{}-{}.md", before.id, std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let file = file.as_mut().map_err(|error| {
        Failure::failed(format!("Cannot write {}: {error}", path.display()))
            .hint("Set TMPDIR to a folder where you may write.")
    })?;
    file.write_all(text.as_bytes()).with_context(|| format!("Cannot write {}", path.display()))?;
    if let Err(error) = open(&path) {
        let _ = std::fs::remove_file(&path);
        return Err(error);
    }
    let written =
        std::fs::read_to_string(&path).with_context(|| format!("Cannot read {}", path.display()))?;
    if written == text || written.trim().is_empty() {
        let _ = std::fs::remove_file(&path);
        return Ok(None);
    }
    match parse(&written) {
        Ok(edit) => Ok(Some((Edit { id: before.id.to_string(), ..edit }, path))),
        Err(Slip { line, what, hint }) => Err(Failure::failed(format!("Line {line}: {what}"))
            .hint(format!("{hint} Your text is kept in {}.", path.display()))
            .into()),
    }
}

/// Opens a file in the user's editor, and waits.
pub(super) fn open(path: &Path) -> anyhow::Result<()> {
    let editor = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let editor =
        editor.into_iter().find(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    let _interrupts = taken_interrupts();
    // The editor may have options, as in git. An interrupt must not end the shell around it either.
    let line = format!("trap : INT; {editor} \"$@\"");
    let status = Command::new("sh").args(["-c", &line, &editor]).arg(path).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failure::failed(format!("The editor {editor:?} failed; nothing was changed"))
            .hint("Set $EDITOR to an editor that waits until you are done.")
            .into()),
    }
}

/// Handles Ctrl-C, which is meant for the editor but reaches every process on the terminal. It must not end recall, so
/// it is caught and ignored from now on.
fn taken_interrupts() -> std::io::Result<Signal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    signal(SignalKind::interrupt())
}

const HELP: &str =
    "# Edit the text below. Lines that start with `# ` are ignored; an empty file changes nothing.
# After the empty line: the text, then one fact per line, each with `- ` in front.
";

/// Makes stored text safe for an editor: without control and invisible characters, and without lines that set the
/// editor's options. A space disables those.
fn harmless(text: &str) -> String {
    const NAMES: [&str; 5] = ["vi", "vim", "Vim", "ex", "Local Variables"];
    let mut out = String::with_capacity(text.len());
    for part in text.split_inclusive(':') {
        let space = |character| match character {
            '\n' | '\t' => character,
            hidden if is_invisible(hidden) => ' ',
            shown => shown,
        };
        let Some(head) = part.strip_suffix(':') else {
            out.extend(part.chars().map(space));
            continue;
        };
        let start = out.len();
        out.extend(head.chars().map(space));
        // Some versions read `vim700:` and `vim<700:`.
        let name = out.get(start..).unwrap_or_default().trim_end_matches(|sign: char| sign.is_ascii_digit());
        let name = name.trim_end_matches(['<', '>', '=']);
        let is_one = |one: &&str| {
            let before = name.strip_suffix(*one);
            before.is_some_and(|before| !before.ends_with(|last: char| last.is_alphanumeric()))
        };
        if NAMES.iter().any(is_one) {
            out.push(' ');
        }
        out.push(':');
    }
    out
}

fn render(before: &ObservationAnswer) -> String {
    let files = before.files_read.iter().chain(&before.files_modified);
    let files: Vec<String> = files.map(|file| visible(&harmless(file))).collect();
    let mut text = HELP.to_owned();
    let _ = write!(
        text,
        "title: {}\ntype: {}\nfiles: {}\n\n{}\n",
        visible(&harmless(&before.title)),
        visible(&before.observation_type),
        files.join(", "),
        harmless(&before.narrative)
    );
    for fact in &before.facts {
        let _ = write!(text, "\n- {}", harmless(&fact.replace('\n', " ")));
    }
    if !before.facts.is_empty() {
        text.push('\n');
    }
    text
}

/// A line that cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
struct Slip {
    line: usize,
    what: String,
    hint: &'static str,
}

fn parse(written: &str) -> Result<Edit, Slip> {
    let mut edit = Edit {
        id: String::new(),
        kind: String::new(),
        title: String::new(),
        narrative: String::new(),
        facts: Vec::new(),
        files: Vec::new(),
    };
    let lines = written.lines().enumerate().filter(|(_, line)| !line.starts_with("# ") && *line != "#");
    let mut lines = lines.skip_while(|(_, line)| line.trim().is_empty());
    for (number, line) in lines.by_ref() {
        if line.trim().is_empty() {
            break;
        }
        let slip =
            |what: String| Slip { line: number + 1, what, hint: "The keys are title, type and files." };
        let (key, value) = line.split_once(':').ok_or_else(|| slip(format!("{line:?} has no `key:`")))?;
        let value = value.trim();
        match key.trim() {
            "title" => value.clone_into(&mut edit.title),
            "type" => value.clone_into(&mut edit.kind),
            "files" => {
                let files = value.split(',').map(str::trim).filter(|file| !file.is_empty());
                edit.files = files.map(str::to_owned).collect();
            }
            other => return Err(slip(format!("{other:?} is not a key"))),
        }
    }
    if edit.title.is_empty() {
        return Err(Slip {
            line: 1, what: "there is no title".to_owned(), hint: "Write `title: …` first."
        });
    }
    let rest: Vec<&str> = lines.map(|(_, line)| line.trim_end()).collect();
    let is_fact = |line: &&str| line.starts_with("- ") || line.is_empty();
    let text = rest.len() - rest.iter().rev().take_while(|line| is_fact(line)).count();
    let (text, facts) = rest.split_at(text);
    edit.narrative = text.join("\n").trim().to_owned();
    edit.facts = facts.iter().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect();
    Ok(edit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_observation_is_parsed() {
        let edit = parse(
            "# help\ntitle: A: b\ntype: gotcha\nfiles: src/a.rs, b c.rs,\n\nOne.\n\n- in the text\nTwo.\n\n- a fact\n- another\n",
        );
        let edit = edit.unwrap();
        assert_eq!((edit.title.as_str(), edit.kind.as_str()), ("A: b", "gotcha"));
        assert_eq!(edit.files, ["src/a.rs", "b c.rs"]);
        assert_eq!(edit.narrative, "One.\n\n- in the text\nTwo.");
        assert_eq!(edit.facts, ["a fact", "another"]);
        assert_eq!(parse("title: x\ntype: y\nfiles:\n\n- only facts").unwrap().facts, ["only facts"]);
    }

    #[test]
    fn stored_text_steers_neither_terminal_nor_editor() {
        for (text, expected) in [
            ("a\u{1b}[2Jb\rc\u{202e}d", "a [2Jb c d"),
            ("# vim: set exrc:", "# vim : set exrc:"),
            ("x vi:noai", "x vi :noai"),
            ("/* vim700: x */ ex: y", "/* vim700 : x */ ex : y"),
            ("vim<800:x", "vim<800 :x"),
            ("Local Variables:\neval: (x)", "Local Variables :\neval: (x)"),
            ("index: 1, regex: b\n\tc: d::e", "index: 1, regex: b\n\tc: d::e"),
        ] {
            assert_eq!(harmless(text), expected);
        }
    }

    #[test]
    fn a_parse_error_names_its_line() {
        assert_eq!(parse("# help\ntitle: x\ntitel: y\n").unwrap_err().line, 3);
        assert_eq!(parse("no key").unwrap_err().line, 1);
        assert_eq!(parse("type: gotcha\n\ntext").unwrap_err().what, "there is no title");
    }
}
