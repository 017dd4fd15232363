//! The commented file that `recall config edit` starts with. It names every key with its default.

/// The whole file. Without its comment signs it is valid, but for the keys that have no default.
pub const TEMPLATE: &str = include_str!("template.toml");

/// A key of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownKey {
    pub section: &'static str,
    pub key: &'static str,
    /// As TOML; empty if it has none.
    pub default: &'static str,
}

/// All keys in the order of the template, but those of `[[subscribe]]`.
pub fn keys() -> Vec<KnownKey> {
    let mut keys = Vec::new();
    let mut section = "";
    for line in TEMPLATE.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if line.starts_with("# [[") {
            break;
        } else if let Some((key, default)) = line.strip_prefix("# ").and_then(|line| line.split_once(" = "))
            && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        {
            let default = if default == "\"\"" { "" } else { default };
            keys.push(KnownKey { section, key, default });
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn everything_set() -> String {
        let lines =
            TEMPLATE.lines().map(|line| match line.strip_prefix("# ").filter(|rest| rest.contains(" = ")) {
                Some(rest) if !rest.ends_with(" = \"\"") => rest,
                _ => line,
            });
        lines.take_while(|line| !line.starts_with("events")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn its_defaults_are_the_defaults() {
        assert_eq!(Config::parse(TEMPLATE).problems, []);
        let loaded = Config::parse(&everything_set());
        assert_eq!(loaded.problems, [], "{}", everything_set());
        assert_eq!(loaded.config, Config::default());
    }

    #[test]
    fn it_names_every_key_and_no_other() {
        for section in
            ["capture", "durability", "timers", "context", "compression", "embedding", "mcp", "redaction"]
        {
            let problems = Config::parse(&format!("[{section}]\nnosuchkey = 1\n")).problems;
            let told = problems.iter().map(|problem| problem.what.clone()).collect::<Vec<_>>().join(" ");
            let mut expected: Vec<&str> = told.split('`').skip(3).step_by(2).collect();
            // Tables of their own, described in the README.
            expected.retain(|key| !["anthropic", "openai", "claude-cli"].contains(key));
            let mut named: Vec<&str> =
                keys().into_iter().filter(|key| key.section == section).map(|key| key.key).collect();
            expected.sort_unstable();
            named.sort_unstable();
            assert_eq!(named, expected, "{section}: {told}");
        }
    }
}
