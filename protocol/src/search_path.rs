//! The `PATH` of a daemon started by a hook.
//!
//! A hook inherits the `PATH` of the agent's shell, which often begins with folders of the current project
//! (`node_modules/.bin`, a virtual environment), where anybody may have committed a `git`. The daemon outlives the
//! hook and serves every project, so it keeps only folders that nobody except the user and root can write.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The fallback if no folder of the hook's `PATH` is safe.
const SYSTEM: &str = "/usr/bin:/bin";
/// Groups whose members can become root anyway: root's own, and the administrators of macOS, who own Homebrew.
const GROUPS_OF_ROOT: &[u32] = if cfg!(target_os = "macos") { &[0, 80] } else { &[0] };
const STICKY: u32 = 0o1000;

/// Returns the folders of `path` from which a daemon may run programs, in order, with symlinks resolved. Kept are
/// absolute folders that belong to us or root, that nobody else can write or replace, and that are in no work tree.
pub fn trusted(path: &OsStr, home: Option<&Path>, current: Option<&Path>) -> OsString {
    let project = Project { home: home.and_then(resolved), current: current.and_then(resolved) };
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in std::env::split_paths(path).filter(|folder| folder.is_absolute()) {
        if let Some(folder) = resolved(&folder)
            && is_safe(&folder)
            && !project.may_hold(&folder)
            && !folders.contains(&folder)
        {
            folders.push(folder);
        }
    }
    match std::env::join_paths(folders) {
        Ok(path) if !path.is_empty() => path,
        Ok(_) | Err(_) => SYSTEM.into(),
    }
}

/// Like [`trusted`], for this process.
pub fn of_process() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    trusted(&path, std::env::home_dir().as_deref(), std::env::current_dir().ok().as_deref())
}

fn resolved(folder: &Path) -> Option<PathBuf> {
    fs::canonicalize(folder).ok()
}

/// The project in which the hook started.
struct Project {
    home: Option<PathBuf>,
    current: Option<PathBuf>,
}

impl Project {
    /// Whether a folder may be part of the project's files.
    fn may_hold(&self, folder: &Path) -> bool {
        let is_project = |above: &&Path| !self.holds_home(above);
        folder.components().any(|part| part.as_os_str() == "node_modules")
            || folder
                .ancestors()
                .filter(is_project)
                .any(|above| fs::symlink_metadata(above.join(".git")).is_ok())
            || self.current.as_deref().filter(is_project).is_some_and(|current| folder.starts_with(current))
    }

    /// Whether `above` is the user's home or contains it. The home may be under version control, but nobody else has
    /// put files there.
    fn holds_home(&self, above: &Path) -> bool {
        above == Path::new("/") || self.home.as_ref().is_some_and(|home| home.starts_with(above))
    }
}

/// Whether only we and root can write to this folder or replace it.
fn is_safe(folder: &Path) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    folder.ancestors().all(|place| {
        let Ok(found) = fs::symlink_metadata(place) else { return false };
        let is_guarded = place != folder && found.mode() & STICKY != 0;
        found.is_dir()
            && (found.uid() == 0 || found.uid() == ours)
            && (is_guarded || found.mode() & 0o002 == 0)
            && (is_guarded || found.mode() & 0o020 == 0 || is_private_group(found.gid(), ours))
    })
}

/// Whether a group has no other members. Where each user has a private group, its number equals the user's.
fn is_private_group(group: u32, user: u32) -> bool {
    GROUPS_OF_ROOT.contains(&group) || (group == user && rustix::process::getegid().as_raw() == group)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("temp dir"))
        }

        fn folder(&self, name: &str, mode: u32) -> PathBuf {
            let folder = self.0.path().join(name);
            fs::create_dir_all(&folder).expect("mkdir");
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("chmod");
            resolved(&folder).expect("is there")
        }

        fn kept(&self, folders: &[&Path]) -> Vec<PathBuf> {
            let path = std::env::join_paths(folders).expect("no colons");
            let home = self.folder("home", 0o700);
            let kept = trusted(&path, Some(&home), Some(&self.folder("current", 0o755)));
            std::env::split_paths(&kept).collect()
        }
    }

    #[test]
    fn open_relative_and_missing_folders_are_removed_from_the_path() {
        let place = Place::new();
        let (good, open) = (place.folder("good", 0o755), place.folder("open", 0o777));
        let within = place.folder("open/within", 0o755);
        let link = place.0.path().join("link");
        std::os::unix::fs::symlink(&good, &link).expect("symlink");
        let (relative, absent) = (Path::new("node/bin"), place.0.path().join("absent"));
        let all = [relative, &open, &within, &link, &good, &absent, Path::new("/usr/bin")];
        assert_eq!(place.kept(&all), [good, resolved(Path::new("/usr/bin")).expect("is there")]);
        assert_eq!(place.kept(&[&open]), [Path::new("/usr/bin"), Path::new("/bin")], "never nothing");
    }

    #[test]
    fn project_folders_are_removed_from_the_path() {
        let place = Place::new();
        let tools = place.folder("home/.local/bin", 0o755);
        place.folder("home/.git", 0o755);
        let venv = place.folder("home/shop/.venv/bin", 0o755);
        fs::write(place.0.path().join("home/shop/.git"), "gitdir: elsewhere").expect("write");
        let modules = place.folder("home/plain/node_modules/.bin", 0o755);
        let here = place.folder("current/bin", 0o755);
        assert_eq!(place.kept(&[&modules, &here, &venv, &tools]), [tools]);
    }

    #[test]
    fn folders_of_another_user_are_removed_from_the_path() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only the superuser can give folders away");
            return;
        }
        let place = Place::new();
        let (good, foreign) = (place.folder("good", 0o755), place.folder("foreign", 0o755));
        let within = place.folder("foreign/within", 0o755);
        std::os::unix::fs::chown(&foreign, Some(65534), Some(65534)).expect("chown");
        assert_eq!(place.kept(&[&foreign, &within, &good]), [good]);
    }
}
