//! Tests the whole command, without a service manager and with a script as the agent.

use super::*;
use insta::assert_snapshot;
use std::ffi::OsString;
use std::fs;

const AGENTS_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents");

struct Home {
    folder: tempfile::TempDir,
    environment: Environment,
    programs: Programs,
}

impl Home {
    fn new(path: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path().into(), [("PATH".into(), OsString::from(path))]);
        let programs = Programs { recall: "/opt/bin/recall".into(), shim: "/opt/bin/recall-shim".into() };
        Self { folder, environment, programs }
    }

    fn with_settings(text: &str) -> Self {
        let home = Self::new(AGENTS_FOLDER);
        fs::create_dir(home.folder.path().join(".claude")).unwrap();
        fs::write(home.settings(), text).unwrap();
        home
    }

    fn settings(&self) -> PathBuf {
        self.folder.path().join(".claude/settings.json")
    }

    /// Runs the command and returns its output, with the home folder shown as `~`.
    fn run(&self, consent: Consent<'_>) -> anyhow::Result<String> {
        let agents = selected(AGENTS, &[], &self.environment);
        let installation = Installation {
            environment: &self.environment,
            programs: &self.programs,
            known: AGENTS,
            agents,
            service: None,
        };
        let mut out = anstream::StripStream::new(Vec::new());
        installation.run(consent, &mut out)?;
        let said = String::from_utf8(out.into_inner())?;
        Ok(said.replace(&self.folder.path().display().to_string(), "~"))
    }
}

#[test]
fn a_first_and_a_second_run() {
    let home = Home::with_settings("{\"model\": \"opus\"}\n");
    assert_snapshot!(home.run(Consent::Given).unwrap(), @"
    Claude Code 2.1.329: 13 hooks in ~/.claude/settings.json
    Installed the hooks of Claude Code. Its next session will be remembered.
      The settings before are in ~/.claude/settings.json.recall-backup
    ");
    let written = fs::read_to_string(home.settings()).unwrap();
    assert_snapshot!(home.run(Consent::Unavailable).unwrap(), @"
    Claude Code 2.1.329: 13 hooks in ~/.claude/settings.json
      They are installed already; nothing to change.
    ");
    assert_eq!(fs::read_to_string(home.settings()).unwrap(), written);
}

#[test]
fn a_dry_run_shows_the_difference_and_writes_nothing() {
    let home = Home::with_settings("{}\n");
    let said = home.run(Consent::ShowOnly).unwrap();
    assert!(said.contains("+++ ~/.claude/settings.json\n@@ -1 +1,"), "{said}");
    assert!(said.contains("\n-{}\n+{\n+  \"hooks\": {\n+    \"SessionStart\": ["), "{said}");
    assert!(said.ends_with("Dry run; nothing was changed.\n"), "{said}");
    assert_eq!(fs::read_to_string(home.settings()).unwrap(), "{}\n");
    assert_eq!(fs::read_dir(home.settings().parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_no_and_a_missing_terminal_change_nothing() {
    let home = Home::with_settings("{}\n");
    let said = home.run(Consent::Ask(&mut "n\n".as_bytes())).unwrap();
    assert!(
        said.contains("+++ ") && said.ends_with("Make these changes? [y/N] Nothing was changed.\n"),
        "{said}"
    );
    assert!(home.run(Consent::Unavailable).is_err());
    assert_eq!(fs::read_to_string(home.settings()).unwrap(), "{}\n");
}

#[test]
fn warnings_come_with_the_plan() {
    let home = Home::with_settings(r#"{"disableAllHooks": true, "enabledPlugins": {"recall@market": true}}"#);
    assert_snapshot!(home.run(Consent::Given).unwrap(), @"
    Claude Code 2.1.329: 13 hooks in ~/.claude/settings.json
      Warning: disableAllHooks is true there, so Claude Code runs no hooks.
      Warning: the plugin recall@market brings the same hooks; disable one of the two.
    Installed the hooks of Claude Code. Its next session will be remembered.
      The settings before are in ~/.claude/settings.json.recall-backup
    ");
}

#[test]
fn an_agent_without_a_version_gets_the_older_hooks() {
    let home = Home::new("/nonexistent");
    fs::create_dir(home.folder.path().join(".claude")).unwrap();
    assert_snapshot!(home.run(Consent::Given).unwrap(), @"
    Claude Code: 10 hooks in ~/.claude/settings.json
      Could not detect the agent's version; newer hooks were skipped.
    Installed the hooks of Claude Code. Its next session will be remembered.
    ");
    assert!(fs::read_to_string(home.settings()).unwrap().contains("\"/opt/bin/recall-shim claude-code\""));
}

#[test]
fn no_agent_at_all_is_said_and_is_no_failure() {
    assert_snapshot!(Home::new("/nonexistent").run(Consent::Given).unwrap(), @"
    No coding agent was found (looked for Claude Code).
    Run `recall install` again once there is one.
    ");
}

#[test]
fn the_command_line_is_understood() {
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: InstallArgs,
    }
    let parse =
        |line: &str| <Command as clap::Parser>::try_parse_from(line.split(' ')).map(|command| command.args);
    let args = parse("recall --agent claude-code --yes --no-service --shim /x/recall-shim").unwrap();
    assert_eq!(args.agents, ["claude-code"]);
    assert!(args.yes && args.no_service && !args.dry_run);
    assert_eq!(args.shim.as_deref(), Some(Path::new("/x/recall-shim")));
    assert!(parse("recall --agent emacs").is_err());
}
