#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use recall_domain::ids::CommitId;
use recall_repository::git_folder::GitFolder;
use recall_repository::history::containment;
use recall_repository::refs::WorkLocation;

const COMMIT: &str = "1234567890123456789012345678901234567890";

/// The files of a repository that recall reads.
const FILES: [&str; 8] = [
    ".git/HEAD",
    ".git/config",
    ".git/packed-refs",
    ".git/refs/heads/main",
    ".git/shallow",
    ".git/objects/pack/pack-a.idx",
    ".git/objects/pack/pack-a.pack",
    ".git/objects/12/34567890123456789012345678901234567890",
];

// The first byte chooses one of a repository's files; the rest is its content. No content makes recall fail, or makes it
// read for ever.
fuzz_target!(|bytes: &[u8]| {
    let [file, content @ ..] = bytes else { return };
    let home = tempfile::tempdir().expect("a folder for the repository");
    let write = |name: &str, content: &[u8]| {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().expect("in .git")).and_then(|()| fs::write(&path, content))
    };
    write(".git/HEAD", b"ref: refs/heads/main\n").expect("the folder is writable");
    write(".git/refs/heads/main", COMMIT.as_bytes()).expect("the folder is writable");
    write(FILES[usize::from(*file) % FILES.len()], content).expect("the folder is writable");
    let _ = recall_repository::facts(home.path());
    let commit = CommitId::from(COMMIT);
    let _ = GitFolder::known(&home.path().join(".git")).map(|folder| folder.holds(&commit));
    if let Some(refs) = WorkLocation::at(home.path()).refs() {
        let _ = (refs.checkout(), refs.named_commits(), refs.is_shallow());
        let _ = refs.objects().map(|objects| containment(&objects, &commit, &commit));
    }
});
