//! Changes one settings file of an agent: plans the change, shows it, then writes it.
//!
//! **Guarantees.** The change is recomputed from the file when it is written, because agents also write their
//! settings. A copy is kept before the first change. Uninstalling restores its bytes if nothing else has changed, and
//! deletes a file that only recall created.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;

use super::agent::{Goal, GoalState, LocalAgent, Registration};
use super::difference::write_difference;
use super::hook_settings::{self, HookSwitch, SettingsError};
use super::part::{Wanted, meaning_without_traces};
use super::settings_file::{FileError, SettingsFile};
use crate::cli::failure::Failure;
use recall_agents::AgentSpec;
use recall_agents::settings::{InstalledPart, OwnKind};

/// The changes to an agent's settings.
#[derive(Clone, Debug)]
pub(crate) enum EditAction {
    /// Install exactly this.
    Register(Registration),
    /// Remove everything that belongs to recall.
    Remove,
}

/// A planned change of one file.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) spec: &'static AgentSpec,
    pub(crate) file: SettingsFile,
    goals: Vec<Goal>,
    before: Option<String>,
    after: After,
}

/// The settings after the change.
#[derive(Debug, PartialEq, Eq)]
enum After {
    Unchanged,
    /// The user has a program with the name that the agent searches for.
    LeftOut,
    Text(String),
    /// The content of the backup, which is then no longer needed.
    Restored(String),
    /// No file, because recall created it.
    Gone,
}

impl Edit {
    /// Plans the changes of these parts, one per file. Fails without changing anything if settings are unreadable or
    /// have an unexpected structure.
    pub(crate) fn plan(
        agent: LocalAgent<'_>,
        parts: &[&'static [InstalledPart]],
        action: &EditAction,
    ) -> anyhow::Result<Vec<Self>> {
        let registration = match action {
            EditAction::Register(registration) => registration.clone(),
            EditAction::Remove => Registration::default(),
        };
        let mut files: Vec<(PathBuf, Vec<Goal>)> = Vec::new();
        for (path, goals) in parts.iter().flat_map(|parts| agent.goals(parts, &registration)) {
            match files.iter_mut().find(|(known, _)| *known == path) {
                Some((_, known)) => known.extend(goals),
                None => files.push((path, goals)),
            }
        }
        let edits = files.into_iter().map(|(path, mut goals)| {
            if matches!(action, EditAction::Remove) {
                goals.iter_mut().for_each(|goal| goal.state = GoalState::Absent);
            }
            Self::of(agent.spec, SettingsFile::at(&path)?, goals)
        });
        edits.collect()
    }

    fn of(spec: &'static AgentSpec, file: SettingsFile, goals: Vec<Goal>) -> anyhow::Result<Self> {
        let before = file.read()?;
        let after = match goals.iter().any(|goal| goal.state == GoalState::Present) {
            true => registered(before.as_deref(), &goals),
            false => removed(before.as_deref(), &goals, &file),
        };
        let is_program = |goal: &Goal| matches!(goal.wanted, Wanted::OwnFile(_, OwnKind::Program));
        let after = match after {
            Err(SettingsError::Foreign) if goals.iter().all(is_program) => Ok(After::LeftOut),
            after => after,
        };
        let after =
            after.map_err(|error| refusal(spec, &file, &error, switched_off(&goals, before.as_deref())))?;
        Ok(Self { spec, file, goals, before, after })
    }

    pub(crate) fn is_needed(&self) -> bool {
        !matches!(self.after, After::Unchanged | After::LeftOut)
    }

    /// Whether a user's file is in the place of recall's.
    pub(crate) fn is_left_out(&self) -> bool {
        self.after == After::LeftOut
    }

    /// Returns the future text of the settings; `None` if there will be no file.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.after {
            After::Unchanged | After::LeftOut => self.before.as_deref(),
            After::Text(text) | After::Restored(text) => Some(text),
            After::Gone => None,
        }
    }

    pub(crate) fn show(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        write_difference(out, self.file.path(), self.before.as_deref(), self.text())?;
        Ok(())
    }

    /// Applies the change to the current content of the file.
    pub(crate) fn apply(self) -> anyhow::Result<()> {
        let now = Self::of(self.spec, self.file, self.goals)?;
        let written = match &now.after {
            After::Unchanged | After::LeftOut => Ok(()),
            After::Text(text) => now.keep_backup().and_then(|()| match now.is_program() {
                true => now.file.write_program(text),
                false => now.file.write(text),
            }),
            After::Restored(text) => now.file.write(text).and_then(|()| now.file.remove_backup()),
            After::Gone => now.file.remove().map(|()| now.file.remove_own_folder()),
        };
        written.with_context(|| format!("the settings of {} are unchanged", now.spec.title))
    }

    fn is_program(&self) -> bool {
        self.goals.iter().any(|goal| matches!(goal.wanted, Wanted::OwnFile(_, OwnKind::Program)))
    }

    /// Backs up the latest text that contains nothing of recall's. A text that does is used only if there is no better
    /// one.
    fn keep_backup(&self) -> Result<(), FileError> {
        let Some(before) = &self.before else { return Ok(()) };
        let has_own_file = self.goals.iter().any(|goal| matches!(goal.wanted, Wanted::OwnFile(..)));
        let registers = self.goals.iter().any(|goal| goal.state == GoalState::Present);
        if registers
            && !has_own_file
            && (is_without_us(&self.goals, before) || self.file.read_backup()?.is_none())
        {
            return self.file.write_backup(before);
        }
        Ok(())
    }
}

fn registered(before: Option<&str>, goals: &[Goal]) -> Result<After, SettingsError> {
    let mut text: Option<String> = before.map(str::to_owned);
    for goal in goals {
        text = match (goal.state, text) {
            (GoalState::Present, text) => Some(goal.wanted.put(text.as_deref())?),
            (GoalState::Absent, Some(text)) => Some(goal.wanted.take(&text)?.text),
            (GoalState::Absent, None) => None,
        };
    }
    Ok(match text {
        Some(text) if before != Some(text.as_str()) => After::Text(text),
        _ => After::Unchanged,
    })
}

fn removed(before: Option<&str>, goals: &[Goal], file: &SettingsFile) -> Result<After, SettingsError> {
    // A file without our name is left unchanged, even if it cannot be parsed.
    let Some(before) = before.filter(|text| text.contains("recall")) else { return Ok(After::Unchanged) };
    let mut text = before.to_owned();
    let mut entries = 0;
    for goal in goals {
        let removal = goal.wanted.take(&text)?;
        entries += removal.entries;
        text = removal.text;
    }
    if entries == 0 {
        return Ok(After::Unchanged);
    }
    let wanted: Vec<Wanted> = goals.iter().map(|goal| goal.wanted.clone()).collect();
    let meaning = |text: &str| meaning_without_traces(&wanted, text);
    let left = meaning(&text);
    // The hooks are removed even if the backup is unreadable.
    let backup = file.read_backup().ok().flatten().filter(|backup| is_without_us(goals, backup));
    Ok(match backup {
        Some(backup) if left.is_some() && meaning(&backup) == left => After::Restored(backup),
        None if left.is_some() && left == Some(serde_json::json!({})) => After::Gone,
        _ => After::Text(text),
    })
}

fn is_without_us(goals: &[Goal], text: &str) -> bool {
    meaning_without_traces(&goals.iter().map(|goal| goal.wanted.clone()).collect::<Vec<_>>(), text).is_some()
        && goals.iter().all(|goal| !goal.wanted.is_in(text))
}

/// Returns the setting that disables all hooks.
fn switched_off(goals: &[Goal], text: Option<&str>) -> Option<&'static str> {
    goals.iter().find_map(|goal| {
        let Wanted::JsonHooks(json, _) = &goal.wanted else { return None };
        match hook_settings::survey(json, text?).ok()?.switch {
            HookSwitch::Off(setting) => Some(setting),
            HookSwitch::On => None,
        }
    })
}

fn refusal(
    spec: &AgentSpec,
    file: &SettingsFile,
    error: &SettingsError,
    off: Option<&'static str>,
) -> Failure {
    let path = file.path().display();
    let title = spec.title;
    match error {
        SettingsError::Json { line, column, what } => {
            Failure::failed(format!("{path}:{line}:{column}: {what}; nothing was changed")).hint(format!(
                "{title} ignores the whole file because it cannot be parsed. Fix line {line} and try again, or name the other agents with --agent"
            ))
        }
        SettingsError::Foreign => Failure::failed(format!("{path}: {error}; nothing was changed"))
            .hint("recall needs a file with that name. Move yours away and try again"),
        SettingsError::Shape(_) => {
            let off = off.map(|setting| format!(" ({setting} is set there too, so {title} runs no hooks)"));
            Failure::failed(format!("{path}: {error}; nothing was changed")).hint(format!(
                "recall does not change settings with an unknown structure. Fix them and try again, \
                 or name the other agents with --agent{}",
                off.unwrap_or_default()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::agent::SettingsOwner;
    use super::*;
    use crate::service::environment::Environment;
    use recall_agents::AGENTS;
    use std::fs;
    use std::path::PathBuf;

    struct TestHome {
        _folder: tempfile::TempDir,
        environment: Environment,
        settings: PathBuf,
    }

    fn local(environment: &Environment) -> LocalAgent<'_> {
        LocalAgent { spec: AGENTS.spec("claude-code"), environment, scope: SettingsOwner::User }
    }

    fn register(shim: &str) -> EditAction {
        EditAction::Register(Registration {
            version: None,
            shim: shim.to_owned(),
            recall: "recall".to_owned(),
            ..Registration::default()
        })
    }

    fn place(settings: Option<&str>) -> TestHome {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path().into(), []);
        let path = local(&environment).settings();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some(text) = settings {
            fs::write(&path, text).unwrap();
        }
        TestHome { _folder: folder, environment, settings: path }
    }

    impl TestHome {
        fn plan(&self, action: EditAction) -> anyhow::Result<Edit> {
            let agent = local(&self.environment);
            Ok(Edit::plan(agent, &[agent.spec.install.hooks], &action)?.remove(0))
        }

        fn install(&self, shim: &str) {
            self.plan(register(shim)).unwrap().apply().unwrap();
        }

        fn uninstall(&self) {
            self.plan(EditAction::Remove).unwrap().apply().unwrap();
        }

        fn files(&self) -> Vec<(String, String)> {
            let entries = fs::read_dir(self.settings.parent().unwrap()).unwrap().map(Result::unwrap);
            let mut files: Vec<_> = entries
                .map(|entry| {
                    let text = fs::read_to_string(entry.path()).unwrap();
                    (entry.file_name().into_string().unwrap(), text)
                })
                .collect();
            files.sort();
            files
        }
    }

    #[test]
    fn uninstalling_restores_settings_byte_for_byte() {
        for name in ["1-empty", "2-other-hooks", "3-full-user-settings", "4-tabs-no-final-newline"] {
            let path = format!("{}/tests/settings/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let text = fs::read_to_string(path).unwrap();
            let place = place(Some(&text));
            place.install("/old/recall-shim");
            place.install("/new/recall-shim");
            assert_eq!(place.files()[1], ("settings.json.recall-backup".into(), text.clone()), "{name}");
            place.uninstall();
            assert_eq!(place.files(), [("settings.json".into(), text)], "{name}");
        }
    }

    #[test]
    fn uninstalling_removes_a_file_that_installing_created() {
        let place = place(None);
        place.install("/old/recall-shim");
        place.install("/new/recall-shim");
        assert!(fs::read_to_string(&place.settings).unwrap().contains("/new/recall-shim"));
        place.uninstall();
        place.uninstall();
        assert!(!place.settings.exists());
    }

    #[test]
    fn uninstalling_keeps_changes_made_after_installing() {
        let place = place(Some("{\"model\": \"opus\"}"));
        place.install("/bin/recall-shim");
        let text = fs::read_to_string(&place.settings).unwrap();
        fs::write(&place.settings, text.replace("opus", "sonnet")).unwrap();
        place.uninstall();
        assert_eq!(place.files()[0].1.matches("recall-shim").count(), 0);
        assert!(place.files()[0].1.contains("sonnet"));
    }

    #[test]
    fn a_change_after_planning_is_not_overwritten() {
        let place = place(Some("{}"));
        let edit = place.plan(register("/bin/recall-shim")).unwrap();
        fs::write(&place.settings, "{\"model\": \"opus\"}").unwrap();
        edit.apply().unwrap();
        let text = fs::read_to_string(&place.settings).unwrap();
        assert!(text.contains("opus") && text.contains("recall-shim"));
    }

    #[test]
    fn installing_again_needs_no_edit() {
        let place = place(Some("{}"));
        place.install("/bin/recall-shim");
        let edit = place.plan(register("/bin/recall-shim")).unwrap();
        assert!(!edit.is_needed());
    }

    #[test]
    fn rejected_settings_stay_unchanged_and_the_error_names_the_place() {
        #[track_caller]
        fn check(name: &str, action: EditAction, expected: &str) {
            let path = format!("{}/tests/settings/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let text = fs::read_to_string(path).unwrap();
            let place = place(Some(&text));
            let error = place.plan(action).unwrap_err();
            let failure = error.downcast_ref::<Failure>().unwrap();
            assert_eq!(failure.kind.code(), 1);
            assert!(failure.what.contains(expected), "{failure}");
            assert_eq!(place.files(), [("settings.json".into(), text)]);
        }
        let register = || register("/bin/recall-shim");
        check("6-broken", register(), "settings.json:2:3: key must be a string");
        check("7-unusual-shapes", register(), "hooks.PreToolUse is an object");
        check("7-unusual-shapes", register(), "hooks.PostToolUse is null");
    }

    #[test]
    fn the_error_hint_mentions_that_hooks_are_disabled() {
        let place = place(Some(include_str!("../../../tests/settings/7-unusual-shapes.json")));
        let error = place.plan(register("/bin/recall-shim")).unwrap_err();
        let hint = error.downcast_ref::<Failure>().unwrap().hint.clone().unwrap();
        assert!(hint.contains("disableAllHooks is set"), "{hint}");
    }
}
