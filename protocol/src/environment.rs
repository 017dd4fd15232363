//! Which variables of an environment go on to a process that recall starts: agents put API keys and session tokens into
//! a hook's, and none of them is anybody else's business.

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
