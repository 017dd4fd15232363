//! The environment of processes that recall starts.
//!
//! Agents put API keys and session tokens into a hook's environment; other programs must not get them. The daemon also
//! gets settings of glibc's allocator (`mallopt(3)`). They can only be set from outside, and other C libraries ignore
//! them.

/// Variables that a daemon is started with, as in `systemd/recall.service`. Large freed blocks return to the system,
/// which saves a third of the memory once the index is built. Two arenas replace sixteen: every thread that ever ran
/// keeps one, so under load the daemon's memory would double and stay doubled.
pub const DAEMON_SETTINGS: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_ARENA_MAX", "2")];

/// Whether a variable is passed on.
pub fn stays(name: &str) -> bool {
    ["HOME", "PATH", "USER", "LANG", "TMPDIR"].contains(&name)
        || name.starts_with("XDG_")
        || name.starts_with("RECALL_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_behind() {
        for name in ["HOME", "PATH", "XDG_RUNTIME_DIR", "RECALL_HOME", "LANG"] {
            assert!(stays(name), "{name}");
        }
        for name in [
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_MESSAGING_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_AUTH_SOCK",
            "LD_PRELOAD",
        ] {
            assert!(!stays(name), "{name}");
        }
    }
}
