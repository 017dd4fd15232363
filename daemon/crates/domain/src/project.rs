//! Identifies projects. A repository is one project in all its clones, worktrees and subfolders.
//!
//! A project has several identities of different strength: its remote, its first commit, the folder itself, and the
//! folder's path. The strongest one names the project. The weaker ones recognise a project that was known before it
//! had a stronger one.
//!
//! A remote is a line in a file, a first commit may be public, and a path may lead to something else by now. So these
//! three only suggest a project. Proof is the folder itself, or a commit of the project.

use super::ids::{ProjectKey, ProjectRow};

/// Facts read from a repository or a plain folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryFacts {
    /// The url of `origin` or, without one, of the first remote.
    pub remote: Option<String>,
    pub root_commit: Option<String>,
    /// The folder of the objects, shared by all worktrees.
    pub common_dir: Option<String>,
    /// The folder of the work tree, or the plain folder.
    pub folder: String,
    /// Distinguishes the git folder, or the plain folder, from any other that ever had its path. `None` if there is
    /// none.
    pub made: Option<FolderMark>,
    /// The mark of the work tree's folder, if the repository was created in it and not cloned.
    pub made_in: Option<FolderMark>,
    /// The latest commit of the repository that this one was cloned from before it got a remote.
    pub came_with: Option<String>,
    /// The local repository that this one was cloned from.
    pub origin: Option<Box<RepositoryFacts>>,
    pub mentions: Mentions,
}

/// Distinguishes a folder from every other that ever had its path. It stays the same when the folder moves, and nobody
/// can choose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderMark(pub String);

impl FolderMark {
    pub fn identity(&self) -> ProjectKey {
        ProjectKey(format!("made:{}", self.0))
    }
}

/// Claims in a repository's files about other repositories. They prove nothing, so they may only restrict what recall
/// does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// The git folder that its `.git` file points at, if that folder does not point back.
    pub pointed_at: Option<String>,
    /// The addresses of all remotes, as written and as used.
    pub addresses: Vec<String>,
    /// The addresses that are local paths, whether or not they exist.
    pub paths: Vec<String>,
    /// The repositories at those paths, the one that is pointed at, and the enclosing one.
    pub repositories: Vec<RepositoryFacts>,
    /// Included configuration that was not read, with the reason.
    pub unread: Vec<String>,
}

impl RepositoryFacts {
    /// Iterates over these facts, those of the origins, and those of all repositories that any of them mentions.
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

/// Returns the folder that identifies the project best among those that an event names, most reliable first. An
/// absolute path beats a bare name.
pub fn identifying_folder<'a>(named: &[&'a str]) -> &'a str {
    // Windows paths start with a drive letter; sessions of other machines are imported too.
    let is_whole = |folder: &&&str| folder.starts_with('/') || folder.get(1..2) == Some(":");
    let whole = named.iter().find(is_whole);
    whole.or_else(|| named.iter().find(|folder| !folder.is_empty())).copied().unwrap_or_default()
}

/// The identities by which a person may know a project, strongest first. Never empty.
pub fn identities(facts: &RepositoryFacts) -> Vec<ProjectKey> {
    let remote = facts.remote.as_deref().and_then(normalise_remote).map(|remote| format!("git:{remote}"));
    let root = facts.root_commit.as_deref().map(|commit| format!("root:{commit}"));
    let folder = match &facts.common_dir {
        Some(dir) => format!("dir:{dir}"),
        None => format!("path:{}", facts.folder),
    };
    [remote, root, Some(folder)].into_iter().flatten().map(ProjectKey).collect()
}

/// The identity by which other machines know a project: its remote on a server or else its first commit. Paths are
/// specific to this machine.
pub fn shared_identity(identities: &[ProjectKey]) -> Option<&ProjectKey> {
    let is_on_server = |key: &&ProjectKey| {
        let remote = key.as_str().strip_prefix("git:").unwrap_or_default();
        !remote.is_empty() && !remote.starts_with(['/', '.', '~'])
    };
    let remote = identities.iter().find(|key| key.kind() == Kind::Remote && is_on_server(key));
    remote.or_else(|| identities.iter().find(|key| key.kind() == Kind::RootCommit))
}

/// The display name: the name of the main work tree's folder, for all worktrees.
pub fn display_name(facts: &RepositoryFacts) -> String {
    let main_tree = facts.common_dir.as_deref().and_then(|dir| dir.strip_suffix("/.git"));
    let separators = ['/', '\\'];
    let path = main_tree.unwrap_or(&facts.folder).trim_end_matches(separators);
    let last = path.rsplit(separators).next().unwrap_or(path);
    let name = last.strip_suffix(".git").unwrap_or(last);
    if name.is_empty() { "/".to_owned() } else { name.to_owned() }
}

/// Normalises a remote's url to `host/path`, equal for all spellings of one remote. A path stays a path. `None` if
/// empty.
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
    // `git@host:path` has no scheme. A slash before the colon makes it a path.
    if let Some((login, path)) = url.split_once(':').filter(|(login, _)| !login.contains('/')) {
        let host = login.rsplit('@').next().unwrap_or(login);
        return Some(format!("{}/{}", host.to_ascii_lowercase(), path.trim_start_matches('/')));
    }
    Some(url.to_owned())
}

/// Returns all identities of a folder, strongest first, and the commit that came from another repository.
pub fn claims(facts: &RepositoryFacts) -> Vec<ProjectKey> {
    let mut claims = identities(facts);
    let path = claims.pop();
    claims.extend(facts.made.as_ref().map(FolderMark::identity));
    claims.extend(path);
    claims.extend(facts.came_with.as_deref().map(|commit| ProjectKey(format!("from:{commit}"))));
    claims
}

/// A known project with all identities it ever had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub project: ProjectRow,
    pub aliases: Vec<ProjectKey>,
}

impl Known {
    fn has(&self, kind: Kind) -> bool {
        self.aliases.iter().any(|alias| alias.kind() == kind)
    }

    /// Whether the project was only ever seen without a repository.
    fn is_plain(&self) -> bool {
        ![Kind::Remote, Kind::RootCommit, Kind::GitFolder].into_iter().any(|kind| self.has(kind))
    }

    /// Whether the project has an identity of this kind, but a different one.
    fn contradicts(&self, identity: &ProjectKey) -> bool {
        let kind = identity.kind();
        matches!(kind, Kind::Remote | Kind::RootCommit) && self.has(kind) && !self.aliases.contains(identity)
    }
}

/// Whether a folder belongs to a project that one of its claims names, judged by the folder's own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belonging {
    /// The folder was known before as this project's.
    Proven,
    /// The folder must contain a commit of the project.
    NeedsCommit,
    /// The folder belongs to another project.
    Denied,
}

/// Decides whether a folder with these claims belongs to the project.
pub fn belonging(facts: &RepositoryFacts, claims: &[ProjectKey], project: &Known) -> Belonging {
    let contradicts = |kind: Kind| {
        let of_kind = |claim: &&ProjectKey| claim.kind() == kind;
        claims.iter().filter(of_kind).any(|claim| project.contradicts(claim))
    };
    let is = |mark: &Option<FolderMark>| {
        mark.as_ref().is_some_and(|mark| project.aliases.contains(&mark.identity()))
    };
    if contradicts(Kind::Remote) {
        return Belonging::Denied;
    }
    // The same git folder, even if its history was rewritten.
    if is(&facts.made) {
        return Belonging::Proven;
    }
    match (&facts.common_dir, project.is_plain()) {
        // Without a repository, a folder is identified by its path alone.
        (None, true) if claims.iter().any(|claim| project.aliases.contains(claim)) => Belonging::Proven,
        // A repository was created in a folder that was known without one.
        (Some(_), true) if is(&facts.made_in) => Belonging::Proven,
        (None, _) | (Some(_), true) => Belonging::Denied,
        (Some(_), false) if contradicts(Kind::RootCommit) => Belonging::Denied,
        (Some(_), false) => Belonging::NeedsCommit,
    }
}

/// Returns the identities that may name the folder's project, strongest first.
pub fn candidates(facts: &RepositoryFacts, claims: &[ProjectKey]) -> Vec<ProjectKey> {
    let named = claims.iter().filter(|claim| claim.kind() != Kind::Source);
    named.cloned().chain(facts.made_in.as_ref().map(FolderMark::identity)).collect()
}

/// Chooses among the known projects, given in the order of the identities that found them. The strongest identity
/// always decides if it is known. Later matches by path alone prove nothing, and a match that contradicts a stronger
/// identity is rejected: two forks share their first commit but have different remotes, so they are two projects.
pub fn choose(identities: &[ProjectKey], known: &[Known]) -> Option<ProjectRow> {
    let decides =
        |identity: &&ProjectKey| matches!(identity.kind(), Kind::Remote | Kind::RootCommit | Kind::Folder);
    let strongest = identities.first()?;
    let fits = |project: &&Known| {
        identities.iter().filter(decides).any(|identity| project.aliases.contains(identity))
            && !identities.iter().any(|identity| project.contradicts(identity))
    };
    let found = known.iter().find(|project| project.aliases.contains(strongest));
    found.or_else(|| known.iter().find(fits)).map(|project| project.project)
}

/// The type of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Remote,
    RootCommit,
    /// The folder itself, with or without a repository.
    Folder,
    /// The path of a git folder.
    GitFolder,
    /// The path of a folder without a repository, or a name from another source.
    Path,
    /// A commit of the repository that this one was cloned from. It identifies no project.
    Source,
}

impl ProjectKey {
    pub fn kind(&self) -> Kind {
        match self.as_str().split_once(':').map(|(kind, _)| kind) {
            Some("git") => Kind::Remote,
            Some("root") => Kind::RootCommit,
            Some("made") => Kind::Folder,
            Some("dir") => Kind::GitFolder,
            Some("from") => Kind::Source,
            _ => Kind::Path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_remote_are_normalised_alike() {
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
    fn the_shared_identity_is_the_remote_or_else_the_first_commit() {
        let shared = |texts: &[&str]| {
            let keys: Vec<_> = texts.iter().map(|text| ProjectKey::from(*text)).collect();
            shared_identity(&keys).map(|key| key.as_str().to_owned())
        };
        assert_eq!(shared(&["root:1", "git:host/a", "path:/a"]).as_deref(), Some("git:host/a"));
        assert_eq!(shared(&["git:/srv/a.git", "root:1", "dir:/a"]).as_deref(), Some("root:1"));
        assert_eq!(shared(&["git:../a", "made:1", "dir:/a", "path:/a"]), None);
    }

    #[test]
    fn an_absolute_path_is_preferred_to_a_bare_folder_name() {
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
    fn a_project_name_comes_from_the_main_work_tree() {
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
    fn a_project_claim_needs_the_same_folder_or_a_commit_as_proof() {
        use Belonging::{Denied, NeedsCommit, Proven};
        #[track_caller]
        fn check(mark: &str, claimed: &[&str], aliases: &[&str], expected: Belonging) {
            let known = Known { project: ProjectRow(1), aliases: keys(aliases) };
            let is_plain = claimed.iter().any(|claim| claim.starts_with("path:"));
            let facts = RepositoryFacts {
                made: Some(FolderMark(mark.to_owned())),
                made_in: Some(FolderMark("tree".to_owned())).filter(|_| !is_plain),
                common_dir: Some("/x/.git".to_owned()).filter(|_| !is_plain),
                ..RepositoryFacts::default()
            };
            assert_eq!(belonging(&facts, &keys(claimed), &known), expected, "{claimed:?} {aliases:?}");
        }
        // A clone, or what says so.
        check("2", &["git:a", "dir:/y"], &["git:a", "made:1", "dir:/x"], NeedsCommit);
        check("2", &["git:a", "root:1", "dir:/y"], &["git:a", "root:1", "dir:/x"], NeedsCommit);
        check("2", &["root:1", "dir:/y"], &["git:a", "root:1", "dir:/x"], NeedsCommit);
        check("2", &["git:a", "root:2", "dir:/y"], &["git:a", "root:1", "dir:/x"], Denied);
        // The known path with something else in it.
        check("2", &["git:a", "root:2", "dir:/x"], &["git:a", "made:1", "dir:/x"], NeedsCommit);
        check("2", &["git:a", "root:2", "dir:/x"], &["git:a", "root:1", "made:1", "dir:/x"], Denied);
        check("2", &["dir:/x"], &["git:a", "made:1", "dir:/x"], NeedsCommit);
        check("2", &["git:b", "dir:/x"], &["git:a", "made:1", "dir:/x"], Denied);
        check("2", &["path:/x"], &["git:a", "made:1", "dir:/x", "path:/x"], Denied);
        // The same git folder: its first commit, its first remote, another history.
        check("1", &["root:2", "dir:/x"], &["root:1", "made:1", "dir:/x"], Proven);
        check("1", &["git:a", "root:2", "dir:/moved"], &["made:1", "dir:/x"], Proven);
        check("1", &["git:b", "dir:/x"], &["git:a", "made:1", "dir:/x"], Denied);
        // Without a repository, before and after.
        check("2", &["path:/x"], &["made:1", "path:/x"], Proven);
        check("1", &["path:/moved"], &["made:1", "path:/x"], Proven);
        check("2", &["path:/y"], &["made:1", "path:/x"], Denied);
        check("2", &["dir:/x/.git"], &["made:tree", "path:/x"], Proven);
        check("2", &["dir:/x/.git"], &["made:other", "path:/x"], Denied);
    }

    #[test]
    fn weaker_identities_recognise_a_project_until_a_stronger_one_contradicts() {
        check(&["git:a", "dir:/x"], &[&["git:a", "dir:/y"]], Some(1));
        // It got its remote later.
        check(&["git:a", "root:1", "dir:/x"], &[&["root:1", "dir:/x"]], Some(1));
        // A moved folder without a remote.
        check(&["root:1", "dir:/new"], &[&["root:1", "dir:/old"]], Some(1));
        check(&["made:1", "dir:/new"], &[&["made:1", "dir:/old"]], Some(1));
        // A fork of the same first commit.
        check(&["git:fork", "root:1", "dir:/f"], &[&["git:a", "root:1", "dir:/x"]], None);
        // The folder was used for another repository.
        check(&["root:2", "dir:/x"], &[&["root:1", "dir:/x"]], None);
        check(&["root:2", "made:2", "dir:/x"], &[&["git:a", "made:1", "dir:/x"]], None);
        check(&["made:2", "path:/x"], &[&["git:a", "dir:/x", "path:/x"]], None);
        check(&["dir:/x"], &[&["git:a", "dir:/x"]], Some(1));
        check(&["path:/x"], &[], None);
    }
}
