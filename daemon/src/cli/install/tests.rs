//! Tests the whole command, without a service manager. A script replaces the agent.

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
            scope: SettingsOwner::User,
            access: Access::Hooks,
            service: None,
        };
        let mut out = anstream::StripStream::new(Vec::new());
        installation.run(consent, &mut out)?;
        let output = String::from_utf8(out.into_inner())?;
        Ok(output.replace(&self.folder.path().display().to_string(), "~"))
    }
}

#[test]
fn a_settings_file_writable_by_others_keeps_its_mode_and_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::with_settings("{}\n");
    fs::set_permissions(home.settings(), fs::Permissions::from_mode(0o666)).unwrap();
    let output = home.run(Consent::Given).unwrap();
    assert!(output.contains("(mode 666)") && output.contains("chmod go-w"), "{output}");
    assert_eq!(fs::metadata(home.settings()).unwrap().permissions().mode() & 0o777, 0o666);
}

#[test]
fn the_first_run_installs_and_the_second_changes_nothing() {
    let home = Home::with_settings("{\"model\": \"opus\"}\n");
    assert_snapshot!(home.run(Consent::Given).unwrap(), @"
    Claude Code 2.1.329: 14 hooks in ~/.claude/settings.json
    Installed the hooks of Claude Code.
      The previous settings are in ~/.claude/settings.json.recall-backup
    Next: start a new session of Claude Code; it will be remembered.
          `recall doctor` checks that everything works, `recall context` shows what is remembered here.
          `recall uninstall` reverts everything.
    ");
    let written = fs::read_to_string(home.settings()).unwrap();
    assert_snapshot!(home.run(Consent::Unavailable).unwrap(), @"
    Claude Code 2.1.329: 14 hooks in ~/.claude/settings.json
      Already installed; nothing to change.
    ");
    assert_eq!(fs::read_to_string(home.settings()).unwrap(), written);
}

#[test]
fn a_dry_run_shows_the_difference_and_writes_nothing() {
    let home = Home::with_settings("{}\n");
    let output = home.run(Consent::ShowOnly).unwrap();
    assert!(output.contains("+++ ~/.claude/settings.json\n@@ -1 +1,"), "{output}");
    assert!(output.contains("\n-{}\n+{\n+  \"hooks\": {\n+    \"SessionStart\": ["), "{output}");
    assert!(output.ends_with("Dry run; nothing was changed.\n"), "{output}");
    assert_eq!(fs::read_to_string(home.settings()).unwrap(), "{}\n");
    assert_eq!(fs::read_dir(home.settings().parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn answering_no_or_having_no_terminal_changes_nothing() {
    let home = Home::with_settings("{}\n");
    let output = home.run(Consent::Ask(&mut "n\n".as_bytes())).unwrap();
    assert!(
        output.contains("+++ ") && output.ends_with("Make these changes? [y/N] Nothing was changed.\n"),
        "{output}"
    );
    assert!(home.run(Consent::Unavailable).is_err());
    assert_eq!(fs::read_to_string(home.settings()).unwrap(), "{}\n");
}

#[test]
fn warnings_are_printed_with_the_plan() {
    let home = Home::with_settings(r#"{"disableAllHooks": true, "enabledPlugins": {"recall@market": true}}"#);
    assert_snapshot!(home.run(Consent::Given).unwrap(), @"
    Claude Code 2.1.329: 14 hooks in ~/.claude/settings.json
      Warning: disableAllHooks is set there, so Claude Code runs no hooks.
      Warning: the plugin recall@market contains the same hooks; disable one of the two.
    Installed the hooks of Claude Code.
      The previous settings are in ~/.claude/settings.json.recall-backup
    Next: start a new session of Claude Code; it will be remembered.
          `recall doctor` checks that everything works, `recall context` shows what is remembered here.
          `recall uninstall` reverts everything.
    ");
}

#[test]
fn an_agent_of_unknown_version_gets_the_older_hooks() {
    let home = Home::new("/nonexistent");
    fs::create_dir(home.folder.path().join(".claude")).unwrap();
    assert_snapshot!(home.run(Consent::Given).unwrap(), @"
    Claude Code: 11 hooks in ~/.claude/settings.json
      Claude Code's version is unknown, so these hooks were skipped: PostToolUseFailure, PostToolBatch, StopFailure. Run `recall install` again once `claude --version` works.
    Installed the hooks of Claude Code.
    Next: start a new session of Claude Code; it will be remembered.
          `recall doctor` checks that everything works, `recall context` shows what is remembered here.
          `recall uninstall` reverts everything.
    ");
    assert!(fs::read_to_string(home.settings()).unwrap().contains("\"/opt/bin/recall-shim claude-code\""));
}

#[test]
fn finding_no_agent_is_reported_but_is_no_error() {
    assert_snapshot!(Home::new("/nonexistent").run(Consent::Given).unwrap(), @"
    No coding agent was found (looked for Claude Code, Codex CLI, Gemini CLI, GitHub Copilot CLI, OpenCode, Qwen Code, Cursor, Copilot in VS Code, Windsurf, OpenClaw, Factory Droid, Devin, Kiro CLI, pi coding agent, Auggie, Cline, Grok Build, Antigravity CLI, Kimi Code, Kilo CLI, Goose, Amp, Command Code).
    Run `recall install` again once you have installed one.
    ");
}

#[test]
fn install_options_are_parsed() {
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

mod every_agent {
    use super::*;
    use crate::cli::uninstall::{Daemon, Uninstallation};
    use crate::service::commands::Processes;
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const SETTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/settings");

    /// Realistic settings: the agent, the recording, its location, and the user's words that must stay.
    const CASES: &[(&str, &str, &str, &[&str])] = &[
        ("claude-code", "/3-full-user-settings.json", ".claude/settings.json", &[]),
        ("codex", "02-config.toml", ".codex/config.toml", &["Keep this comment.", "# trailing comment"]),
        ("codex", "03-config-with-toml-hooks.toml", ".codex/config.toml", &["guard.sh", "trusted_hash"]),
        ("codex", "04-hooks-off.toml", ".codex/config.toml", &["features = { hooks = false"]),
        ("codex", "05-hooks.json", ".codex/hooks.json", &["format.sh", "\"matcher\": \"startup\""]),
        (
            "gemini-cli",
            "01-settings-commented.json",
            ".gemini/settings.json",
            &["// keep", "/* block comment */"],
        ),
        ("gemini-cli", "02-settings-with-hooks.json", ".gemini/settings.json", &["// ms", "old-hook"]),
        ("gemini-cli", "03-settings-legacy-hook-keys.json", ".gemini/settings.json", &["\"enabled\": true"]),
        ("copilot-cli", "01-hooks-user.json", ".copilot/hooks/mine.json", &["guard.ps1"]),
        ("copilot-cli", "03-settings-inline-hooks.json", ".copilot/settings.json", &["done.sh"]),
        ("copilot-cli", "04-mcp-config.json", ".copilot/mcp-config.json", &["Bearer x"]),
        (
            "opencode",
            "opencode.jsonc",
            ".config/opencode/opencode.jsonc",
            &["// personal defaults", "/* servers */"],
        ),
        ("opencode", "opencode.empty.json", ".config/opencode/opencode.json", &[]),
        (
            "qwen-code",
            "01-settings-commented.json",
            ".qwen/settings.json",
            &["/* keep */", "\"$version\": 3"],
        ),
        (
            "qwen-code",
            "02-settings-with-hooks.json",
            ".qwen/settings.json",
            &["// old style: ms", "8080/stop"],
        ),
        ("qwen-code", "03-settings-hooks-off.json", ".qwen/settings.json", &["disableAllHooks"]),
        ("cursor", "hooks.json", ".cursor/hooks.json", &["// team hooks: keep", "failClosed", "notify-send"]),
        ("cursor", "mcp.json", ".cursor/mcp.json", &["    \"mcpServers\""]),
        ("vscode-copilot", "03-mcp.json", ".config/Code/User/mcp.json", &["${input:token}"]),
        ("windsurf", "hooks.json", ".codeium/windsurf/hooks.json", &["guard.py", "working_directory"]),
        ("windsurf", "mcp_config.json", ".codeium/windsurf/mcp_config.json", &["\r\n"]),
        ("openclaw", "openclaw.json", ".openclaw/openclaw.json", &["is JSON5", "'anthropic/", "voice-call"]),
        ("droid", "hooks.json", ".factory/hooks.json", &["prettier"]),
        (
            "kimi-code",
            "config.toml",
            ".kimi-code/config.toml",
            &["# mine: keep", "check-bash.mjs", "[loop_control]"],
        ),
        ("kimi-code", "mcp.json", ".kimi-code/mcp.json", &["\"tickets\""]),
        (
            "command-code",
            "settings.json",
            ".commandcode/settings.json",
            &["guard-tools.sh", "notify-send done"],
        ),
        ("command-code", "mcp.json", ".commandcode/mcp.json", &["tickets-mcp"]),
        ("kilo", "kilo.jsonc", ".config/kilo/kilo.json", &["// mine", "anthropic/"]),
        ("goose", "hooks.json", ".agents/plugins/other/hooks/hooks.json", &["${PLUGIN_ROOT}"]),
        ("amp", "settings.json", ".config/amp/settings.json", &["// mine", "playwright"]),
        ("grok", "config.toml", ".grok/config.toml", &["# mine: keep", "# the team's"]),
        (
            "antigravity",
            "hooks.json",
            ".gemini/config/hooks.json",
            &["{ \"matcher\": \"run_command\"", "reminder.sh"],
        ),
        ("antigravity", "mcp_config.json", ".gemini/config/mcp_config.json", &["\t\t\"looker\""]),
        ("devin", "config.json", ".config/devin/config.json", &["// devin user config", "notify-send"]),
        ("kiro", "agent.json", ".kiro/agents/shop.json", &["\"tools\": [\"*\"]", "npm test"]),
        (
            "auggie",
            "settings.json",
            ".augment/settings.json",
            &["\"model\":\"default\"", "/home/dev/bin/guard"],
        ),
        ("auggie", "settings.with-servers.json", ".augment/settings.json", &["REGION", "indexingAllowDirs"]),
        (
            "cline",
            "cline_mcp_settings.json",
            ".cline/data/settings/cline_mcp_settings.json",
            &["tickets.example.com", "\"disabled\": true}"],
        ),
    ];

    fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => found.extend(files(&entry)),
                false => drop(found.insert(entry.clone(), fs::read(&entry).unwrap())),
            }
        }
        found
    }

    impl Home {
        fn with(agent: &str, recording: &str, place: &str) -> Self {
            let home = Self::new("/nonexistent");
            let path = home.folder.path().join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let folder = Path::new(SETTINGS);
            let file = match recording.strip_prefix('/') {
                Some(file) => folder.join(file),
                None => folder.join(agent).join(recording),
            };
            fs::copy(file, path).unwrap();
            home
        }

        fn install(&self, agent: &str) -> anyhow::Result<String> {
            self.install_into(agent, SettingsOwner::User)
        }

        fn install_into(&self, agent: &str, scope: SettingsOwner<'_>) -> anyhow::Result<String> {
            let installation = Installation {
                environment: &self.environment,
                programs: &self.programs,
                known: AGENTS,
                agents: vec![AGENTS.spec(agent)],
                scope,
                access: Access::HooksAndServer,
                service: None,
            };
            let mut out = anstream::StripStream::new(Vec::new());
            installation.run(Consent::Given, &mut out)?;
            Ok(String::from_utf8(out.into_inner())?.replace(&self.folder.path().display().to_string(), "~"))
        }

        fn uninstall(&self, agent: &str) {
            self.uninstall_from(agent, SettingsOwner::User);
        }

        fn uninstall_from(&self, agent: &str, scope: SettingsOwner<'_>) {
            let uninstallation = Uninstallation {
                environment: &self.environment,
                agents: vec![AGENTS.spec(agent)],
                scope,
                daemon: Daemon::Keep,
                commands: &Processes,
            };
            uninstallation.run(Consent::Given, &mut Vec::new()).unwrap();
        }
    }

    #[test]
    fn uninstalling_restores_settings_byte_for_byte() {
        for (agent, recording, place, words) in CASES {
            let home = Home::with(agent, recording, place);
            let before = files(home.folder.path());
            home.install(agent).unwrap_or_else(|error| panic!("{agent} {recording}: {error:#}"));
            let installed = files(home.folder.path());
            assert!(
                installed.values().any(|text| String::from_utf8_lossy(text).contains("/opt/bin/recall-shim")),
                "{agent} {recording}"
            );
            let text = String::from_utf8_lossy(&installed[&home.folder.path().join(place)]).into_owned();
            for word in *words {
                assert!(text.contains(word), "{agent} {recording}: {word} is gone\n{text}");
            }
            if text.contains("mcpServers") {
                assert!(text.contains("\"/opt/bin/recall\""), "{agent} {recording}: no server\n{text}");
            }
            let again = home.install(agent).unwrap();
            assert!(again.contains("Already installed"), "{agent} {recording}: {again}");
            assert_eq!(files(home.folder.path()), installed, "{agent} {recording}");
            let local = LocalAgent {
                spec: AGENTS.spec(agent),
                environment: &home.environment,
                scope: SettingsOwner::User,
            };
            let report = inspection::inspect_agent(local, &[], None);
            if let inspection::SettingsState::Read { events, .. } = &report.state {
                for event in events {
                    // The programs of this test do not exist, so only these two states are errors.
                    assert!(
                        !matches!(
                            event.state,
                            inspection::EventState::Missing | inspection::EventState::Duplicate(_)
                        ),
                        "{agent} {recording}: {event:?}"
                    );
                }
            } else {
                panic!("{agent} {recording}: {report:?}");
            }
            home.uninstall(agent);
            let after = files(home.folder.path());
            for (path, text) in &before {
                let shown = after.get(path).map(|text| String::from_utf8_lossy(text));
                assert_eq!(
                    shown.as_deref(),
                    Some(&*String::from_utf8_lossy(text)),
                    "{agent} {recording}: {}",
                    path.display()
                );
            }
            assert_eq!(
                after.keys().collect::<Vec<_>>(),
                before.keys().collect::<Vec<_>>(),
                "{agent} {recording}"
            );
        }
    }

    #[test]
    fn an_empty_home_gets_the_expected_files_and_uninstalling_removes_them() {
        let mut listing = String::new();
        for spec in AGENTS.iter().filter(|spec| spec.name != "claude-code") {
            let home = Home::new("/nonexistent");
            home.install(spec.name).unwrap();
            for (path, text) in files(home.folder.path()) {
                let path = path.strip_prefix(home.folder.path()).unwrap().display().to_string();
                let is_long = [".js", ".ts", ".md"].iter().any(|end| path.ends_with(end));
                let text = if is_long { "(a whole file)\n".into() } else { String::from_utf8(text).unwrap() };
                listing.push_str(&format!("=== {} {path}\n{text}", spec.name));
            }
            home.uninstall(spec.name);
            assert_eq!(files(home.folder.path()).len(), 0, "{}: nothing is left", spec.name);
        }
        assert_snapshot!("empty_homes", listing);
    }

    #[test]
    fn uninstalling_keeps_changes_made_after_installing() {
        for (agent, recording, place, from, to) in [
            ("codex", "02-config.toml", ".codex/config.toml", "gpt-5.5", "gpt-6"),
            ("gemini-cli", "01-settings-commented.json", ".gemini/settings.json", "GitHub", "Dracula"),
            ("cursor", "hooks.json", ".cursor/hooks.json", "notify-send", "say"),
            ("openclaw", "openclaw.json", ".openclaw/openclaw.json", "pairing", "open"),
        ] {
            let home = Home::with(agent, recording, place);
            let path = home.folder.path().join(place);
            let before = fs::read_to_string(&path).unwrap();
            home.install(agent).unwrap();
            fs::write(&path, fs::read_to_string(&path).unwrap().replace(from, to)).unwrap();
            home.uninstall(agent);
            let after = fs::read_to_string(&path).unwrap();
            assert!(after.contains(to) && !after.contains("recall"), "{agent}: {after}");
            // In a list that the editor has changed, a space or comma may be different.
            let signs = |text: &str| text.replace(|sign: char| sign.is_whitespace() || sign == ',', "");
            assert_eq!(signs(&after), signs(&before.replace(from, to)), "{agent}");
        }
    }

    #[test]
    fn a_broken_foreign_or_denying_file_is_rejected_and_stays_unchanged() {
        for (agent, recording, place, why) in [
            ("cursor", "hooks.broken.json", ".cursor/hooks.json", "hooks.json:4:"),
            ("openclaw", "openclaw.strict.json", ".openclaw/openclaw.json", "plugins.deny names recall"),
            ("opencode", "opencode.tabs.json", ".config/opencode/plugins/recall.js", "not recall's"),
            ("codex", "05-hooks.json", ".codex/config.toml", "config.toml:1:"),
        ] {
            let home = Home::with(agent, recording, place);
            let before = files(home.folder.path());
            let error = format!("{:#}", home.install(agent).unwrap_err());
            assert!(error.contains(why) && error.contains("nothing was changed"), "{agent}: {error}");
            assert_eq!(files(home.folder.path()), before, "{agent}");
        }
    }

    /// The agent refuses a call if the hook before it prints nothing.
    #[test]
    fn an_old_hook_before_tool_calls_is_removed_and_the_off_switch_is_kept() {
        let place = ".gemini/config/hooks.json";
        let home = Home::with("antigravity", "hooks.with-old-recall.json", place);
        let output = home.install("antigravity").unwrap();
        let path = home.folder.path().join(place);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("PreToolUse") && !text.contains("recall-0.0.1"), "{text}");
        assert!(text.contains("\"enabled\": false") && text.contains("PreInvocation"), "{text}");
        assert!(output.contains("Warning: recall.enabled = false is set there"), "{output}");
        home.uninstall("antigravity");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"enabled\": false") && !text.contains("recall-shim"), "{text}");
    }

    #[test]
    fn a_users_program_named_after_an_event_is_kept() {
        let home = Home::with("cline", "PostToolUse", ".cline/hooks/PostToolUse");
        let before = files(home.folder.path());
        let output = home.install("cline").unwrap();
        assert!(output.contains("~/.cline/hooks/PostToolUse is yours and stays"), "{output}");
        let hook = home.folder.path().join(".cline/hooks/TaskStart");
        assert_eq!(fs::metadata(&hook).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(fs::read_to_string(&hook).unwrap().ends_with("exec /opt/bin/recall-shim cline TaskStart\n"));
        assert!(files(home.folder.path()).len() > 5);
        home.uninstall("cline");
        assert_eq!(files(home.folder.path()), before);
    }

    #[test]
    fn an_agent_without_a_hook_file_is_skipped() {
        let home = Home::new("/nonexistent");
        let output = home.install("kiro").unwrap();
        assert_eq!(output, "Kiro CLI: has no file for hooks yet; skipped.\n");
        assert!(files(home.folder.path()).is_empty());
    }

    #[test]
    fn a_project_gets_a_rule_for_an_agent_without_skills() {
        for (agent, rule, start) in [
            ("cursor", ".cursor/rules/recall.mdc", "---\nalwaysApply: false\ndescription: Ask the memory"),
            (
                "windsurf",
                ".windsurf/rules/recall.md",
                "---\ntrigger: model_decision\ndescription: Ask the memory",
            ),
            ("cline", ".clinerules/recall.md", "<!-- written by"),
        ] {
            let home = Home::new("/nonexistent");
            let shop = home.folder.path().join("shop");
            fs::create_dir(&shop).unwrap();
            home.install_into(agent, SettingsOwner::Project(&shop)).unwrap();
            let text = fs::read_to_string(shop.join(rule)).unwrap();
            assert!(text.starts_with(start) && text.contains("recall search"), "{agent}: {text}");
            home.uninstall_from(agent, SettingsOwner::Project(&shop));
            assert!(files(home.folder.path()).is_empty(), "{agent}");
            home.install(agent).unwrap();
            assert!(!home.folder.path().join(rule).exists(), "{agent}: only a project has it");
        }
    }

    #[test]
    fn installing_keeps_symlinks_and_file_modes() {
        let home = Home::new("/nonexistent");
        let real = home.folder.path().join("dotfiles.json");
        fs::write(&real, "{\n  // mine\n}\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o440)).unwrap();
        fs::create_dir(home.folder.path().join(".qwen")).unwrap();
        let link = home.folder.path().join(".qwen/settings.json");
        symlink(&real, &link).unwrap();
        home.install("qwen-code").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o440);
        assert!(fs::read_to_string(&real).unwrap().contains("recall-shim"));
        home.uninstall("qwen-code");
        assert_eq!(fs::read_to_string(&real).unwrap(), "{\n  // mine\n}\n");
    }

    #[test]
    fn installing_warns_about_disabled_hooks() {
        for (agent, recording, place, setting) in [
            ("codex", "04-hooks-off.toml", ".codex/config.toml", "features.hooks = false"),
            ("qwen-code", "03-settings-hooks-off.json", ".qwen/settings.json", "disableAllHooks"),
        ] {
            let output = Home::with(agent, recording, place).install(agent).unwrap();
            assert!(output.contains(&format!("Warning: {setting} is set there")), "{output}");
        }
    }
}
