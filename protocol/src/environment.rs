//! The environment of processes that recall starts.
//!
//! Agents put API keys and session tokens into a hook's environment, and recall must not pass them on to other
//! programs. The daemon also receives settings for glibc's allocator (`mallopt(3)`), which can only be set from
//! outside. Other C libraries ignore them.

/// Variables set when starting a daemon, as in `systemd/recall.service`. They make glibc return large freed blocks to
/// the system, which saves a third of the memory once the index is built. They also limit it to two arenas instead of
/// sixteen: every thread that ever ran keeps an arena, so under load the daemon's memory would double and stay
/// doubled.
pub const DAEMON_SETTINGS: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_ARENA_MAX", "2")];

/// Whether to pass this variable on.
pub fn stays(name: &str) -> bool {
    ["HOME", "PATH", "USER", "LANG", "TMPDIR"].contains(&name)
        || name.starts_with("XDG_")
        || name.starts_with("RECALL_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_variables_are_not_passed_on() {
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
