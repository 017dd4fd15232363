//! Names of guarded files: the user's patterns and the built-in lists.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Files that only a package manager should write.
const LOCK_FILES: [&str; 19] = [
    "cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.lock",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "pipfile.lock",
    "gemfile.lock",
    "composer.lock",
    "go.sum",
    "flake.lock",
    "mix.lock",
    "pubspec.lock",
    "packages.lock.json",
];

pub(super) fn is_lock_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    LOCK_FILES.contains(&name.as_str())
}

/// The path that stands for a process's environment.
pub(super) const ENVIRONMENT: &str = "/proc/self/environ";

pub(super) fn is_environment(path: &str) -> bool {
    path.strip_prefix("/proc/").is_some_and(|rest| rest.ends_with("/environ"))
}

/// Folders of the operating system.
const SYSTEM_FOLDERS: [&str; 17] = [
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/boot",
    "/efi",
    "/sys",
    "/proc/sys",
    "/System",
    "/Library",
    "/private/etc",
    "/nix/store",
    "/snap",
];
/// Prefixes of disk names.
const DISKS: [&str; 8] = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk"];
/// The folder in which some containers keep the project.
const SOURCES: &str = "/usr/src";

/// Whether an absolute path belongs to the operating system.
pub(super) fn is_of_system(path: &str, cwd: &str) -> bool {
    if is_in(path, SOURCES) && is_in(cwd, SOURCES) {
        return false;
    }
    let disk = path.strip_prefix("/dev/");
    SYSTEM_FOLDERS.iter().any(|folder| is_in(path, folder))
        || disk.is_some_and(|name| DISKS.iter().any(|start| name.starts_with(start)))
}

/// Whether an absolute path is this folder or inside it.
fn is_in(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether erasing a folder recursively would remove far more than an agent's work.
pub(super) fn holds_too_much(path: &str, cwd: &str, home: &str) -> bool {
    let folder = without_everything(path);
    let cwd = cwd.trim_end_matches('/');
    let is_above = |inner: &str| inner.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let parts: Vec<&str> = folder.split('/').skip(1).collect();
    let is_a_home = match parts.as_slice() {
        ["root"] | ["var", "root"] => true,
        ["home" | "Users"] | ["home" | "Users", _] => true,
        _ => !home.is_empty() && (folder == home || is_above(home)),
    };
    let own_git = folder.strip_suffix("/.git").is_some_and(|project| {
        project == cwd || cwd.strip_prefix(project).is_some_and(|rest| rest.starts_with('/'))
    });
    folder.is_empty() || is_a_home || is_above(cwd) || own_git
}

/// Strips a trailing pattern that means everything in a folder. The root becomes empty.
fn without_everything(path: &str) -> &str {
    let mut folder = path;
    while let Some((rest, last)) = folder.rsplit_once('/') {
        let is_everything = last.is_empty() || ["*", "**", ".*", "{*,.*}", ".[!.]*", ".??*"].contains(&last);
        if !is_everything {
            break;
        }
        folder = rest;
    }
    folder
}

/// Compiles patterns for absolute paths. A pattern that does not begin with `/` or `~/` matches in every folder, and a
/// folder's pattern matches everything inside.
pub(super) fn globs(patterns: &[String], home: &str) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let rooted = match pattern.strip_prefix("~/") {
            Some(rest) => format!("{}/{rest}", globset::escape(home.trim_end_matches('/'))),
            None if pattern.starts_with('/') => pattern.clone(),
            None => format!("**/{}", pattern.trim_start_matches("./")),
        };
        let rooted = rooted.trim_end_matches('/');
        for spelling in [rooted.to_owned(), format!("{rooted}/**")] {
            set.add(GlobBuilder::new(&spelling).literal_separator(true).build()?);
        }
    }
    set.build()
}

/// Makes a path absolute and removes `.` and `..` textually. Links are not followed.
pub(super) fn absolute(path: &str, cwd: &str, home: &str) -> String {
    let path = path.strip_prefix("file://").unwrap_or(path).replace('\\', "/");
    let in_home = ["~", "$HOME", "${HOME}", "${HOME:?}"]
        .iter()
        .find_map(|start| path.strip_prefix(start).filter(|rest| rest.is_empty() || rest.starts_with('/')));
    let whole = match in_home {
        Some(rest) => format!("{home}{rest}"),
        None if path.starts_with('/') => path,
        None => format!("{}/{path}", cwd.replace('\\', "/")),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
