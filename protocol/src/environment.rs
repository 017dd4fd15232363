//! The environment of a process that recall starts.
//!
//! Agents put API keys and session tokens into a hook's environment, and none of them is anybody else's business. The
//! daemon gets a few settings of glibc's allocator (`mallopt(3)`), which can only be made from outside; others ignore
//! them.

/// What a daemon is started with, as in `systemd/recall.service`. Large blocks go back to the system when they are freed:
/// a third less memory once the index is built. Two arenas instead of sixteen: every thread that has once worked would
/// leave one behind, and the daemon's memory would double under load and stay so.
pub const DAEMON_SETTINGS: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_ARENA_MAX", "2")];

/// Whether a variable goes on.
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
