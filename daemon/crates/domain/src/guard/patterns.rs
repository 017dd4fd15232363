//! Names of guarded files: the user's patterns, and the built-in lists.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Files that only a package manager writes.
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

/// The environment of a process, as a file.
pub(super) const ENVIRONMENT: &str = "/proc/self/environ";

pub(super) fn is_environment(path: &str) -> bool {
    path.strip_prefix("/proc/").is_some_and(|rest| rest.ends_with("/environ"))
}

/// Compiles patterns for absolute paths. A pattern that does not begin with `/` or `~/` matches in every folder, and a
/// folder's pattern matches everything in it.
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

/// The path from the root, without `.` and `..`, as its letters say it. Links are not followed.
pub(super) fn absolute(path: &str, cwd: &str, home: &str) -> String {
    let path = path.strip_prefix("file://").unwrap_or(path).replace('\\', "/");
    let in_home = ["~", "$HOME", "${HOME}"]
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
