//! Changes one agent's settings: plans the change, shows it, then writes it.
//!
//! **Guarantees.** The change is computed again from the file when it is written, because agents also write their
//! settings. A copy is kept before the first change. Uninstalling restores its bytes if nothing else has changed,
//! and deletes a file that only recall had created.

use std::io::Write;

use anyhow::Context;

use super::agent::{LocalAgent, Registration};
use super::difference::write_difference;
use super::hook_entry::Hook;
use super::hook_settings::{self, HookSwitch, SettingsError, Survey};
use super::settings_file::SettingsFile;
use crate::agents::AgentSpec;
use crate::agents::settings::{Install, JsonHooks};
use crate::cli::failure::Failure;

/// The change to an agent's hooks.
#[derive(Clone, Debug)]
pub(crate) enum EditAction {
    /// Register exactly these hooks.
    Register(Registration),
    /// Remove all of recall's hooks.
    Remove,
}

/// A planned change of one agent's settings.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) spec: &'static AgentSpec,
    pub(crate) file: SettingsFile,
    action: EditAction,
    before: Option<String>,
    after: After,
}

/// The settings after the change.
#[derive(Debug, PartialEq, Eq)]
enum After {
    Unchanged,
    Text(String),
    /// The content of the backup, which is then no longer needed.
    Restored(String),
    /// No file, because recall had created it.
    Gone,
}

impl Edit {
    /// Plans the change. Fails without changing anything if the settings are unreadable or have an unexpected
    /// structure.
    pub(crate) fn plan(agent: LocalAgent<'_>, action: EditAction) -> anyhow::Result<Self> {
        Self::of(agent.spec, SettingsFile::at(&agent.settings())?, action)
    }

    fn of(spec: &'static AgentSpec, file: SettingsFile, action: EditAction) -> anyhow::Result<Self> {
        let before = file.read()?;
        let Install::JsonHooks(json) = &spec.install;
        let after = match &action {
            EditAction::Register(registration) => {
                registered(before.as_deref(), &registration.hooks(spec, json))
            }
            EditAction::Remove => removed(json, before.as_deref(), &file),
        };
        let after = after.map_err(|error| refusal(spec, &file, &error, before.as_deref()))?;
        Ok(Self { spec, file, action, before, after })
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.after != After::Unchanged
    }

    /// The future text of the settings; `None` for no file.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.after {
            After::Unchanged => self.before.as_deref(),
            After::Text(text) | After::Restored(text) => Some(text),
            After::Gone => None,
        }
    }

    /// The registered hooks after the change; `None` if they cannot be read.
    pub(crate) fn survey(&self) -> Option<Survey> {
        let Install::JsonHooks(json) = &self.spec.install;
        hook_settings::survey(json, self.text().unwrap_or_default()).ok()
    }

    pub(crate) fn show(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        write_difference(out, self.file.path(), self.before.as_deref(), self.text())?;
        Ok(())
    }

    /// Applies the change to the current content of the file.
    pub(crate) fn apply(self) -> anyhow::Result<()> {
        let now = Self::of(self.spec, self.file, self.action)?;
        let written = match &now.after {
            After::Unchanged => Ok(()),
            After::Text(text) => now.keep_backup().and_then(|()| now.file.write(text)),
            After::Restored(text) => now.file.write(text).and_then(|()| now.file.remove_backup()),
            After::Gone => now.file.remove(),
        };
        written.with_context(|| format!("the settings of {} are as they were", now.spec.title))
    }

    /// Backs up the newest text without recall's hooks. A text with them is used only if there is no better one.
    fn keep_backup(&self) -> Result<(), super::settings_file::FileError> {
        let Install::JsonHooks(json) = &self.spec.install;
        match (&self.action, &self.before) {
            (EditAction::Register(_), Some(before))
                if is_without_us(json, before) || self.file.read_backup()?.is_none() =>
            {
                self.file.write_backup(before)
            }
            _ => Ok(()),
        }
    }
}

fn registered(before: Option<&str>, hooks: &[Hook]) -> Result<After, SettingsError> {
    let text = hook_settings::install(before.unwrap_or_default(), hooks)?;
    Ok(if before == Some(text.as_str()) { After::Unchanged } else { After::Text(text) })
}

fn removed(json: &JsonHooks, before: Option<&str>, file: &SettingsFile) -> Result<After, SettingsError> {
    let Some(before) = before else { return Ok(After::Unchanged) };
    let removal = hook_settings::uninstall(before)?;
    if removal.entries == 0 {
        return Ok(After::Unchanged);
    }
    // Remove the hooks even if the backup is unreadable.
    let backup = file.read_backup().ok().flatten().filter(|backup| is_without_us(json, backup));
    Ok(match backup {
        Some(backup) if hook_settings::same_settings(&backup, &removal.text) => After::Restored(backup),
        None if hook_settings::same_settings("{}", &removal.text) => After::Gone,
        _ => After::Text(removal.text),
    })
}

fn is_without_us(json: &JsonHooks, text: &str) -> bool {
    hook_settings::survey(json, text).is_ok_and(|survey| survey.entries.is_empty())
}

fn refusal(spec: &AgentSpec, file: &SettingsFile, error: &SettingsError, text: Option<&str>) -> Failure {
    let path = file.path().display();
    let title = spec.title;
    match error {
        SettingsError::Json { line, column, what } => {
            Failure::failed(format!("{path}:{line}:{column}: {what}; nothing was changed")).hint(format!(
                "{title} ignores the whole file because it is not valid JSON. Fix line {line} and try again"
            ))
        }
        SettingsError::Shape(_) => {
            let Install::JsonHooks(json) = &spec.install;
            let survey = hook_settings::survey(json, text.unwrap_or_default());
            let switch = match survey.map(|survey| survey.switch) {
                Ok(HookSwitch::Off(setting)) => {
                    format!(" ({setting} is true there too, so {title} runs no hooks)")
                }
                _ => String::new(),
            };
            Failure::failed(format!("{path}: {error}; nothing was changed")).hint(format!(
                "recall does not change settings whose shape it does not know. Fix them and try again{switch}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::AGENTS;
    use crate::service::environment::Environment;
    use std::fs;
    use std::path::PathBuf;

    struct TestHome {
        _folder: tempfile::TempDir,
        environment: Environment,
        settings: PathBuf,
    }

    fn local(environment: &Environment) -> LocalAgent<'_> {
        LocalAgent { spec: AGENTS.spec("claude-code"), environment }
    }

    fn register(shim: &str) -> EditAction {
        EditAction::Register(Registration { version: None, shim: shim.to_owned() })
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
            Edit::plan(local(&self.environment), action)
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
    fn every_sound_file_comes_back_byte_for_byte() {
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
    fn a_file_that_install_made_goes_again() {
        let place = place(None);
        place.install("/old/recall-shim");
        place.install("/new/recall-shim");
        assert!(fs::read_to_string(&place.settings).unwrap().contains("/new/recall-shim"));
        place.uninstall();
        place.uninstall();
        assert!(!place.settings.exists());
    }

    #[test]
    fn what_changed_in_between_is_kept() {
        let place = place(Some("{\"model\": \"opus\"}"));
        place.install("/bin/recall-shim");
        let text = fs::read_to_string(&place.settings).unwrap();
        fs::write(&place.settings, text.replace("opus", "sonnet")).unwrap();
        place.uninstall();
        assert_eq!(hook_settings::uninstall(&place.files()[0].1).unwrap().entries, 0);
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
    fn installing_twice_writes_nothing() {
        let place = place(Some("{}"));
        place.install("/bin/recall-shim");
        let edit = place.plan(register("/bin/recall-shim")).unwrap();
        assert!(!edit.is_needed());
    }

    #[test]
    fn refusals_name_the_place_and_change_nothing() {
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
        check("6-broken", EditAction::Remove, "settings.json:2:3: key must be a string");
        check("7-unusual-shapes", register(), "hooks.PreToolUse is an object");
        check("7-unusual-shapes", register(), "hooks.PostToolUse is null");
    }

    #[test]
    fn a_refusal_says_that_hooks_are_off_as_well() {
        let place = place(Some(include_str!("../../../tests/settings/7-unusual-shapes.json")));
        let error = place.plan(register("/bin/recall-shim")).unwrap_err();
        let hint = error.downcast_ref::<Failure>().unwrap().hint.clone().unwrap();
        assert!(hint.contains("disableAllHooks is true"), "{hint}");
    }
}
