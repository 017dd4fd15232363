//! Adds and removes a `[[remote]]` or a `[[share]]`. Comments are kept.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

use super::change::{ChangeError, checked, document};
use super::sharing::{RemoteSettings, SharedProject};

/// Returns the text with this remote added.
pub fn add_remote(text: &str, remote: &RemoteSettings) -> Result<String, ChangeError> {
    let mut added = Table::new();
    added.insert("name", toml_edit::value(&remote.name));
    added.insert("url", toml_edit::value(&remote.url));
    let file = remote.password_file.as_ref().map(|path| path.to_string_lossy().into_owned());
    for (key, value) in [
        ("password_env", &remote.password_env),
        ("password_file", &file),
        ("password_keyring", &remote.password_keyring),
    ] {
        if let Some(value) = value {
            added.insert(key, toml_edit::value(value));
        }
    }
    if remote.plaintext {
        added.insert("plaintext", toml_edit::value(true));
    }
    changed(text, "remote", |remotes| remotes.push(added))
}

/// Returns the text without this remote.
pub fn remove_remote(text: &str, name: &str) -> Result<String, ChangeError> {
    changed(text, "remote", |remotes| remotes.retain(|remote| text_of(remote, "name") != name))
}

/// Returns the text with this share, which replaces an earlier one of the same project and remote.
pub fn add_share(text: &str, share: &SharedProject) -> Result<String, ChangeError> {
    let mut added = Table::new();
    added.insert("project", toml_edit::value(&share.project));
    added.insert("remote", toml_edit::value(&share.remote));
    for (key, value) in [
        ("inject", share.inject),
        ("personal", share.personal),
        ("prompts", share.prompts),
        ("answers", share.answers),
    ] {
        if value {
            added.insert(key, toml_edit::value(true));
        }
    }
    changed(text, "share", |shares| {
        shares.retain(|known| !is_share(known, &share.project, &share.remote));
        shares.push(added);
    })
}

/// Returns the text without this share.
pub fn remove_share(text: &str, project: &str, remote: &str) -> Result<String, ChangeError> {
    changed(text, "share", |shares| shares.retain(|known| !is_share(known, project, remote)))
}

fn is_share(table: &Table, project: &str, remote: &str) -> bool {
    text_of(table, "project") == project && text_of(table, "remote") == remote
}

fn text_of<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(Item::as_str).unwrap_or_default()
}

fn changed(text: &str, name: &str, change: impl FnOnce(&mut ArrayOfTables)) -> Result<String, ChangeError> {
    let mut document: DocumentMut = document(text)?;
    let list = document.entry(name).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let message = format!("{name} is not a list: [[{name}]]");
    let list = list.as_array_of_tables_mut().ok_or(ChangeError::NotToml { what: message })?;
    change(list);
    if list.is_empty() {
        document.remove(name);
    }
    checked(text, document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(name: &str, url: &str) -> RemoteSettings {
        RemoteSettings { name: name.to_owned(), url: url.to_owned(), ..RemoteSettings::default() }
    }

    fn share(project: &str, remote: &str) -> SharedProject {
        SharedProject {
            project: project.to_owned(),
            remote: remote.to_owned(),
            inject: false,
            personal: false,
            prompts: false,
            answers: false,
        }
    }

    #[test]
    fn remotes_and_shares_are_added_and_removed_and_comments_stay() {
        let text = "# mine\n[timers]\nbatch_idle_s = 5 # short\n";
        let with_remote = add_remote(text, &remote("team", "file:///media/team")).unwrap();
        let with_share = add_share(&with_remote, &share("git:host/a/b", "team")).unwrap();
        assert!(with_share.starts_with(text) && with_share.contains("[[share]]"), "{with_share}");
        let share_to_inject = SharedProject { inject: true, ..share("git:host/a/b", "team") };
        let again = add_share(&with_share, &share_to_inject).unwrap();
        assert_eq!((again.matches("[[share]]").count(), again.matches("inject = true").count()), (1, 1));
        let without = remove_remote(&remove_share(&again, "git:host/a/b", "team").unwrap(), "team").unwrap();
        assert_eq!(without.trim_end(), text.trim_end());
    }

    #[test]
    fn invalid_remotes_and_shares_are_rejected() {
        #[track_caller]
        fn refused(changed: Result<String, ChangeError>, expected: &str) {
            let error = changed.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        refused(add_remote("", &remote("team", "https://host")), "remote.url");
        refused(add_remote("", &remote("a b", "file:///a")), "remote.name");
        let url = concat!("postgres://mia:swordfish", "@db/recall");
        let error = add_remote("", &remote("team", url)).unwrap_err().to_string();
        assert!(error.contains("contains a password") && !error.contains("swordfish"), "{error}");
        let database = remote("team", "postgres://mia@db/recall");
        let of_file = RemoteSettings { password_file: Some("/p".into()), ..database.clone() };
        let text = add_remote("", &of_file).unwrap();
        assert!(text.contains("password_file = \"/p\""), "{text}");
        let keyring = Some("mia".to_owned());
        refused(
            add_remote("", &RemoteSettings { password_keyring: keyring, ..of_file }),
            "several passwords",
        );
        refused(
            add_remote("", &RemoteSettings { password_file: Some("p".into()), ..database }),
            "absolute path",
        );
        let folder = RemoteSettings { password_env: Some("P".to_owned()), ..remote("team", "file:///a") };
        refused(add_remote("", &folder), "needs no password");
        refused(add_share("", &share("git:host/a", "team")), "there is no remote \"team\"");
        let text = add_remote("", &remote("team", "file:///a")).unwrap();
        refused(add_remote(&text, &remote("team", "file:///b")), "two remotes");
        refused(add_share(&text, &share("path:/a", "team")), "share.project");
        let text = add_share(&text, &share("git:host/a", "team")).unwrap();
        refused(remove_remote(&text, "team"), "there is no remote \"team\"");
    }
}
