//! Checks the current folder: its project, and what its files say.

use std::path::Path;

use recall_protocol::paths::Paths;
use recall_protocol::query::Identity;

use super::{ANSWER_WITHIN, Area, Finding};
use crate::cli::client::{Client, Start, this_folder};
use crate::cli::remote::sharing;
use crate::cli::share::proposal_in;
use recall_app::answers::found::{IdentityAnswer, UnprovenClaimAnswer};
use recall_app::capture_rules::project_files;
use recall_config::sharing::SharedProject;
use recall_domain::project::{RepositoryFacts, identities};
use recall_repository::Ignored;
use recall_repository::project_file::{Captured, Proposal};

/// Reports what the files of the current project say.
pub(super) fn project(findings: &mut Vec<Finding>) {
    let Ok(folder) = std::env::current_dir() else { return };
    let facts = recall_repository::facts(&folder);
    let home = std::env::home_dir().unwrap_or_default();
    let files = project_files(&folder, &facts, &home);
    let mut area = Area { name: "project", findings };
    for Ignored { path, why } in recall_repository::ignored(&folder) {
        area.note(
            format!("{} is ignored: {why}", path.display()),
            "Files of a repository are read only if they belong to you or root, nobody else may write them, and no symlink \
             leads out of it. Use `chown` and `chmod go-w` to fix that.",
        );
    }
    if let Some(target) = &facts.mentions.pointed_at {
        area.note(
            format!(
                "{} is treated as a separate project: its .git points at {target}, which does not point back",
                facts.folder
            ),
            "Anybody can write such a pointer, so this folder gets no notes of that project. For a worktree that was moved, \
             run `git worktree repair`; for a git folder elsewhere, run `git config core.worktree \"$PWD\"` here.",
        );
    }
    for unread in &facts.mentions.unread {
        area.note(
            format!("{}: .git/config includes a file that recall does not read: {unread}", facts.folder),
            "Its remotes are not compared with capture.exclude. If one of them is an excluded project, exclude this folder \
             too.",
        );
    }
    proposal(&mut area, &folder, &facts);
    for (root, rules) in files {
        let root = root.display();
        if rules.captured == Captured::No && rules.complaints.is_empty() {
            area.note(format!("{root} is not recorded"), "Its .recall.toml says so.");
        }
        for complaint in rules.complaints {
            area.note(
                format!("{root}: {complaint}"),
                ".recall.toml may contain `exclude`, `disable`, `alias` and `share`. It must be a regular file of yours or root's that \
                 no other user may write.",
            );
        }
    }
}

/// Reports a share that the project's file proposes and nobody has accepted.
fn proposal(area: &mut Area<'_>, folder: &Path, facts: &RepositoryFacts) {
    let Some(Proposal { remote, .. }) = proposal_in(folder) else { return };
    let identities = identities(facts);
    let is_accepted = sharing().is_ok_and(|sharing| {
        let is_it = |share: &SharedProject| {
            share.remote == remote && identities.iter().any(|key| key.as_str() == share.project)
        };
        sharing.shares.iter().any(is_it)
    });
    if !is_accepted {
        area.note(
            format!(
                "the project's .recall.toml proposes to share its notes through {remote:?}; nothing is shared"
            ),
            "`recall share` shows what would be shared, and asks.",
        );
    }
}

/// Reports why the current folder is not treated as part of the project that it names.
pub(super) fn identity(paths: &Paths, findings: &mut Vec<Finding>) {
    let request = Identity { folder: this_folder() };
    // Other checks report a missing daemon or one of another version.
    let Ok(answer) = Client::connect_at(paths, Start::Never)
        .and_then(|mut client| client.ask_within(request, ANSWER_WITHIN)?.read())
    else {
        return;
    };
    let IdentityAnswer { folder, project, doubted: Some(doubted) } = answer else { return };
    let UnprovenClaimAnswer { remote, project: other, .. } = doubted;
    let mut area = Area { name: "project", findings };
    area.note(
        format!(
            "{folder} is treated as a separate project, \"{project}\": its .git/config names {remote} (project \
             \"{other}\"), but it contains none of that project's commits"
        ),
        "Anybody can write such a line, so this folder gets no notes of that project. For a clone, run `git fetch` (or \
         `git repack -a -d` if it borrows another folder's objects); the next session then joins the project. For \
         another project, name it with `alias = \"NAME\"` in its .recall.toml.",
    );
}
