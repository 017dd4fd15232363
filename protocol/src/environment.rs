//! The environment of processes that recall starts.
//!
//! Agents put API keys and session tokens into a hook's environment, which other programs must not get. The daemon
//! also gets settings of glibc's allocator (`mallopt(3)`), which can only be set from outside and have no effect
//! elsewhere.

/// Variables that a daemon is started with, as in `systemd/recall.service`. Large freed blocks return to the system,
/// which saves a third of the memory once the index is built. Two arenas instead of sixteen, because every thread that
/// ever ran would keep one, and the daemon's memory would double under load and stay so.
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
