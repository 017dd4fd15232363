//! Identifies projects. One repository is one project, in every clone, worktree and subfolder.
//!
//! A project has several identities of different strength: its remote, its first commit, the folder of its repository,
//! or a plain path if there is no repository. The strongest one names it. The weaker ones recognise a project from
//! before it had a stronger one.

use super::ids::{ProjectKey, ProjectRow};

/// What was read of a repository, or of a plain folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryFacts {
    /// The url of `origin`, else of the first remote.
    pub remote: Option<String>,
    pub root_commit: Option<String>,
    /// The folder with the objects, shared by all worktrees.
    pub common_dir: Option<String>,
    /// The folder of the work tree, or the plain folder.
    pub folder: String,
    /// The repository on this disk that this one was cloned from.
    pub origin: Option<Box<RepositoryFacts>>,
    pub mentions: Mentions,
}

/// What the files of a repository say of others. It proves nothing: only what makes recall do less asks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// The git folder that its `.git` points at, where that does not point back.
    pub pointed_at: Option<String>,
    /// The addresses of all its remotes, as they are written and as they are used.
    pub addresses: Vec<String>,
    /// Those of them that are paths of this disk, whether there is anything or not.
    pub paths: Vec<String>,
    /// The repositories there, the one that is pointed at, and the one around it.
    pub repositories: Vec<RepositoryFacts>,
    /// What the configuration includes and is not read, with the reason.
    pub unread: Vec<String>,
}

impl RepositoryFacts {
    /// These facts, those of the origins, and those of all repositories that any of them mentions.
    pub fn asked(&self) -> impl Iterator<Item = &Self> {
        let mut left = vec![self];
        std::iter::from_fn(move || {
            let next = left.pop()?;
            left.extend(next.mentions.repositories.iter().rev());
            left.extend(next.origin.as_deref());
            Some(next)
        })
    }
}

/// The folder that identifies the project best, of those that an event names, most reliable first. A complete path
/// beats a bare name.
pub fn identifying_folder<'a>(named: &[&'a str]) -> &'a str {
    // Windows paths start with a drive letter; sessions of other machines are imported, too.
    let is_whole = |folder: &&&str| folder.starts_with('/') || folder.get(1..2) == Some(":");
    let whole = named.iter().find(is_whole);
    whole.or_else(|| named.iter().find(|folder| !folder.is_empty())).copied().unwrap_or_default()
}

/// The identities, strongest first. Never empty.
pub fn identities(facts: &RepositoryFacts) -> Vec<ProjectKey> {
    let remote = facts.remote.as_deref().and_then(normalise_remote).map(|remote| format!("git:{remote}"));
    let root = facts.root_commit.as_deref().map(|commit| format!("root:{commit}"));
    let folder = match &facts.common_dir {
        Some(dir) => format!("dir:{dir}"),
        None => format!("path:{}", facts.folder),
    };
    [remote, root, Some(folder)].into_iter().flatten().map(ProjectKey).collect()
}

/// The display name: the folder of the main work tree, also in other worktrees.
pub fn display_name(facts: &RepositoryFacts) -> String {
    let main_tree = facts.common_dir.as_deref().and_then(|dir| dir.strip_suffix("/.git"));
    let separators = ['/', '\\'];
    let path = main_tree.unwrap_or(&facts.folder).trim_end_matches(separators);
    let last = path.rsplit(separators).next().unwrap_or(path);
    let name = last.strip_suffix(".git").unwrap_or(last);
    if name.is_empty() { "/".to_owned() } else { name.to_owned() }
}

/// A remote's url as `host/path`, equal for all spellings of one remote. A path stays a path. `None` if empty.
///
/// Credentials, scheme, port, a trailing `.git` and the case of the host are ignored.
pub fn normalise_remote(url: &str) -> Option<String> {
    let url = url.trim().trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url).trim_end_matches('/');
    if url.is_empty() {
        return None;
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        if scheme == "file" {
            return Some(rest.to_owned());
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = authority.rsplit('@').next().unwrap_or(authority);
        let host = host
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
            .map_or(host, |(host, _)| host);
        return Some(format!("{}/{}", host.to_ascii_lowercase(), path.trim_start_matches('/')));
    }
    // git@host:path, the form without a scheme. A slash before the colon makes it a path.
    if let Some((login, path)) = url.split_once(':').filter(|(login, _)| !login.contains('/')) {
        let host = login.rsplit('@').next().unwrap_or(login);
        return Some(format!("{}/{}", host.to_ascii_lowercase(), path.trim_start_matches('/')));
    }
    Some(url.to_owned())
}

/// Whether a folder may join the project that its remote names.
///
/// The remote is only a line in a file that may have come with an archive. So the folder has to prove that it is a
/// clone: it was known before, it has the same first commit, or it contains one of the project's commits, whose hashes
/// nobody knows without access to the repository.
///
/// # Errors
/// Those of `has_a_commit`, which is called last.
pub fn may_join<E>(
    identities: &[ProjectKey],
    project: &Known,
    has_a_commit: impl FnOnce() -> Result<bool, E>,
) -> Result<bool, E> {
    let of = |strength: Strength| identities.iter().filter(move |key| self::strength(key) == strength);
    let knows = |key: &ProjectKey| project.aliases.contains(key);
    if of(Strength::Folder).any(knows) || of(Strength::RootCommit).any(knows) {
        return Ok(true);
    }
    let roots_are_known = project.aliases.iter().any(|alias| strength(alias) == Strength::RootCommit);
    let began_otherwise = roots_are_known && of(Strength::RootCommit).next().is_some();
    if began_otherwise { Ok(false) } else { has_a_commit() }
}

/// A known project that one of the identities refers to, with all identities it ever had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub project: ProjectRow,
    pub aliases: Vec<ProjectKey>,
}

/// Chooses one of the known projects, given in the order of the identities that found them.
///
/// A weaker identity counts only if no stronger one contradicts it. Two forks share their first commit but have
/// different remotes, so they are two projects. A folder that held another repository before is a new project.
pub fn choose(identities: &[ProjectKey], known: &[Known]) -> Option<ProjectRow> {
    let contradicts = |project: &Known| {
        identities.iter().any(|identity| {
            let strength = strength(identity);
            let same_kind = || project.aliases.iter().filter(|alias| self::strength(alias) == strength);
            strength > Strength::Folder && same_kind().next().is_some() && !project.aliases.contains(identity)
        })
    };
    let strongest = identities.first()?;
    known
        .iter()
        .find(|project| project.aliases.contains(strongest))
        .or_else(|| known.iter().find(|project| !contradicts(project)))
        .map(|project| project.project)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Folder,
    RootCommit,
    Remote,
}

fn strength(identity: &ProjectKey) -> Strength {
    match identity.as_str().split_once(':').map(|(kind, _)| kind) {
        Some("git") => Strength::Remote,
        Some("root") => Strength::RootCommit,
        _ => Strength::Folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_is_the_same_however_it_is_written() {
        for url in [
            "git@github.com:acme/shop.git",
            "https://github.com/acme/shop",
            "https://GitHub.com/acme/shop.git/",
            "ssh://git@github.com:22/acme/shop.git",
            "https://user:token@github.com/acme/shop.git",
            "git://github.com/acme/shop",
        ] {
            assert_eq!(normalise_remote(url).as_deref(), Some("github.com/acme/shop"), "{url}");
        }
        assert_eq!(normalise_remote("/srv/git/shop.git").as_deref(), Some("/srv/git/shop"));
        assert_eq!(normalise_remote("file:///srv/git/shop").as_deref(), Some("/srv/git/shop"));
        assert_eq!(normalise_remote("  "), None);
    }

    #[test]
    fn a_bare_name_says_nothing_beside_a_whole_path() {
        for (named, expected) in [
            (["/code/shop", "/code/shop/src", "/"], "/code/shop"),
            (["shop", "/code/shop/src", "/"], "/code/shop/src"),
            (["shop", "", "/code/shop"], "/code/shop"),
            (["", "shop", "src"], "shop"),
            (["", "C:\\code\\shop", "/"], "C:\\code\\shop"),
            (["", "", ""], ""),
        ] {
            assert_eq!(identifying_folder(&named), expected, "{named:?}");
        }
    }

    #[test]
    fn names_come_from_the_main_work_tree() {
        let name = |common: Option<&str>, folder: &str| {
            let common_dir = common.map(str::to_owned);
            display_name(&RepositoryFacts { common_dir, folder: folder.to_owned(), ..Default::default() })
        };
        assert_eq!(name(Some("/home/dev/shop/.git"), "/home/dev/shop-feature"), "shop");
        assert_eq!(name(Some("/srv/git/shop.git"), "/srv/git/shop.git"), "shop.git".trim_end_matches(".git"));
        assert_eq!(name(None, "/home/dev/notes/"), "notes");
        assert_eq!(name(None, "/"), "/");
        assert_eq!(name(None, "C:\\code\\shop"), "shop");
    }

    fn keys(texts: &[&str]) -> Vec<ProjectKey> {
        texts.iter().map(|text| ProjectKey::from(*text)).collect()
    }

    #[track_caller]
    fn check(identities: &[&str], known: &[&[&str]], expected: Option<i64>) {
        let known: Vec<_> = (1..)
            .zip(known)
            .map(|(row, aliases)| Known { project: ProjectRow(row), aliases: keys(aliases) })
            .collect();
        assert_eq!(choose(&keys(identities), &known), expected.map(ProjectRow));
    }

    #[test]
    fn a_remote_is_believed_of_who_shows_a_commit() {
        #[track_caller]
        fn check(identities: &[&str], aliases: &[&str], has_a_commit: bool, expected: bool) {
            let known = Known { project: ProjectRow(1), aliases: keys(aliases) };
            let found = may_join(&keys(identities), &known, || Ok::<_, ()>(has_a_commit));
            assert_eq!(found, Ok(expected), "{identities:?} {aliases:?}");
        }
        // A clone whose own log does not go back to the first commit.
        check(&["git:a", "dir:/x"], &["git:a", "dir:/y"], true, true);
        check(&["git:a", "dir:/x"], &["git:a", "root:1", "dir:/y"], true, true);
        // A folder that only claims the remote.
        check(&["git:a", "dir:/x"], &["git:a", "dir:/y"], false, false);
        check(&["git:a", "root:2", "dir:/x"], &["git:a", "root:1", "dir:/y"], true, false);
        check(&["git:a", "root:2", "dir:/x"], &["git:a", "dir:/y"], false, false);
        check(&["git:a", "root:1", "dir:/x"], &["git:a", "root:1", "dir:/y"], false, true);
        // Known before.
        check(&["git:a", "root:2", "dir:/x"], &["git:a", "root:1", "dir:/x"], false, true);
    }

    #[test]
    fn weaker_identities_recognise_a_project_until_a_stronger_one_contradicts() {
        check(&["git:a", "dir:/x"], &[&["git:a", "dir:/y"]], Some(1));
        // It got its remote later.
        check(&["git:a", "root:1", "dir:/x"], &[&["root:1", "dir:/x"]], Some(1));
        // A moved folder without a remote.
        check(&["root:1", "dir:/new"], &[&["root:1", "dir:/old"]], Some(1));
        // A fork of the same first commit.
        check(&["git:fork", "root:1", "dir:/f"], &[&["git:a", "root:1", "dir:/x"]], None);
        // The folder was used for another repository.
        check(&["root:2", "dir:/x"], &[&["root:1", "dir:/x"]], None);
        check(&["dir:/x"], &[&["git:a", "dir:/x"]], Some(1));
        check(&["path:/x"], &[], None);
    }
}
