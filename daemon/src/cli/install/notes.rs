//! Asks which program writes the notes: once, in `recall install`, at a terminal. Nothing is enabled without a yes.

use std::io::{BufRead, Write};

use anyhow::Context;
use recall_protocol::paths::Paths;

use super::settings_file::SettingsFile;
use crate::cli::consent::Confirmation;
use recall_agents::{AgentSpec, NotesProgram};
use recall_config::Config;
use recall_config::change::{self, Origin};
use recall_config::keys::Key;

/// The daily limit set by a yes.
const TOKENS_PER_DAY: &str = "100000";

/// Asks about the first agent whose own program can write notes, unless the user has already decided.
pub(super) fn offer(
    agents: &[&'static AgentSpec],
    paths: &Paths,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let Some((spec, program)) = agents.iter().find_map(|spec| Some((spec, spec.notes?))) else {
        return Ok(());
    };
    let settings = Config::settings(paths.config_file());
    let backend = settings.iter().find(|setting| setting.key.name == "compression.backend");
    if backend.is_none_or(|backend| backend.origin != Origin::Default) {
        return Ok(());
    }
    let NotesProgram { backend, model } = program;
    let question = format!(
        "Let {} write the notes? One short call per session (about 3,000 tokens of {model}), at most 100,000 tokens a day.",
        spec.title
    );
    let answer = Confirmation::read(input, &question, out)?;
    let decided: &[(&str, &str)] = match answer {
        Confirmation::Go => {
            &[("compression.backend", backend), ("compression.tokens_per_day", TOKENS_PER_DAY)]
        }
        // Recorded, so that the user is not asked again.
        Confirmation::Leave => &[("compression.backend", "extractive")],
    };
    let file = SettingsFile::at(paths.config_file())?;
    let mut text = file.read()?.unwrap_or_default();
    for (key, value) in decided {
        let key = Key::find(key).context("Cannot find a setting")?;
        text = change::set(&text, &key, &[(*value).to_owned()])?;
    }
    file.write(&text)?;
    match answer {
        Confirmation::Go => writeln!(
            out,
            "`recall config test` tries it; `recall config unset compression.backend` turns it off."
        )?,
        Confirmation::Leave => writeln!(
            out,
            "The built-in compressor writes them. `recall config set compression.backend {backend}` changes that."
        )?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_agents::AGENTS;

    /// The settings after an answer, and the output.
    fn after(before: &str, typed: &str) -> (String, String) {
        let home = tempfile::tempdir().unwrap();
        let here = home.path().as_os_str().to_owned();
        let paths = Paths::from_variables(&|name| (name == "RECALL_HOME").then(|| here.clone())).unwrap();
        let config = paths.config_file();
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        std::fs::write(config, before).unwrap();
        let mut output = Vec::new();
        let agents: Vec<_> = AGENTS.iter().collect();
        offer(&agents, &paths, &mut typed.as_bytes(), &mut output).unwrap();
        (std::fs::read_to_string(config).unwrap(), String::from_utf8(output).unwrap())
    }

    #[test]
    fn only_a_yes_enables_the_notes_program_and_sets_a_daily_limit() {
        let (text, output) = after("", "y\n");
        assert!(
            output.contains("about 3,000 tokens of haiku), at most 100,000 tokens a day. [y/N]"),
            "{output}"
        );
        assert!(
            text.contains("backend = \"claude-cli\"") && text.contains("tokens_per_day = 100000"),
            "{text}"
        );
        for typed in ["", "\n", "n\n", "maybe\n"] {
            let (text, _) = after("", typed);
            assert!(
                text.contains("backend = \"extractive\"") && !text.contains("claude"),
                "{typed:?}: {text}"
            );
        }
    }

    #[test]
    fn a_user_who_has_chosen_a_backend_is_not_asked() {
        for decided in
            ["[compression]\nbackend = \"extractive\"\n", "[compression]\nbackend = \"anthropic\"\n"]
        {
            assert_eq!(after(decided, "y\n"), (decided.to_owned(), String::new()));
        }
    }
}
