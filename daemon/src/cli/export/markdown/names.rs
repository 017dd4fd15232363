//! Names of pages. They are built from ids alone, so that no title changes them.

use sha2::{Digest, Sha256};

use super::memory::{Note, Project, Session};

/// The maximum length of an id in a file name. Longer ids end with a hash.
const LONGEST: usize = 80;

pub(super) const INDEX: &str = "index.md";
/// The folders of pages.
pub(super) const FOLDERS: [&str; 4] = ["sessions", "projects", "days", "threads"];

pub(super) fn of_session(session: &Session) -> String {
    format!("sessions/{}--{}.md", safe(&session.agent), safe(&session.session_id))
}

/// Returns the page of a project. Its name is chosen once; two projects with the same name differ by their identities.
pub(super) fn of_project(project: &Project) -> String {
    format!("projects/{}--{}.md", slug(&project.name), hash(&project.key))
}

pub(super) fn of_day(day: &str) -> String {
    format!("days/{day}.md")
}

/// Returns the page of a thread, named by its first statement because later ones will come.
pub(super) fn of_thread(first: &Note) -> String {
    format!("threads/{}.md", safe(&first.uuid))
}

/// Returns a file name that is valid on any system. Two ids never share a name, even if case is ignored.
fn safe(id: &str) -> String {
    let name = slug(id);
    if name == id && !id.is_empty() { name } else { format!("{name}-{}", hash(id)) }
}

/// Keeps lower-case letters, digits, `.`, `_` and `-`; other characters become `_`.
fn slug(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    let small = text.chars().take(LONGEST).map(|c| c.to_ascii_lowercase());
    let name: String = small.map(|c| if is_plain(c) { c } else { '_' }).collect();
    name.trim_start_matches('.').to_owned()
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn page_names_are_safe_and_distinct() {
        assert_eq!(safe("52ab9f04-61c3"), "52ab9f04-61c3");
        for hostile in ["../../etc/passwd", "", ".git", "a/b", "a\nb", "A/B", "A", "ü"] {
            let name = safe(hostile);
            assert!(
                !name.contains(['/', '\n']) && !name.starts_with('.') && name.len() > 10,
                "{hostile}: {name}"
            );
        }
        assert_ne!(safe("a/b"), safe("a_b"));
        assert_ne!(safe(&"x".repeat(200)), safe(&"x".repeat(201)));
        assert!(safe(&"x".repeat(200)).len() < 120);
    }
}
