//! Removes environment variables from shell commands.
//!
//! The same shell runs the command as before, behind an `unset`. So its quotes, here-documents and `cd` keep their
//! meaning, and an agent that compares each part of a command with the user's rules still sees all parts. Wrapping the
//! command in a second shell would break both.

/// The prefix that removes the variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unset {
    prefix: String,
}

impl Unset {
    /// Builds the prefix. `None` if there are no names.
    ///
    /// # Errors
    /// A name is not a valid variable name. `*` stands for any letters, digits and `_`.
    pub(super) fn new(names: &[String]) -> Result<Option<Self>, String> {
        if let Some(wrong) = names.iter().find(|name| !is_name(name)) {
            return Err(format!(
                "`{wrong}` is not a variable name; use letters, digits and _, and * for any of them: \
                 AWS_*, GITHUB_TOKEN"
            ));
        }
        if names.is_empty() {
            return Ok(None);
        }
        let (patterns, plain): (Vec<&String>, Vec<&String>) =
            names.iter().partition(|name| name.contains('*'));
        let mut words: Vec<String> = plain.into_iter().cloned().collect();
        if !patterns.is_empty() {
            // zsh requires at least one name.
            if words.is_empty() {
                words.push("RECALL_UNSET".to_owned());
            }
            let finds =
                |pattern: &&String| format!("s/^\\({}\\)=.*/\\1/p", pattern.replace('*', "[A-Za-z0-9_]*"));
            let finds: Vec<String> = patterns.iter().map(finds).collect();
            words.push(format!("$(env | sed -n '{}')", finds.join(";")));
        }
        Ok(Some(Self { prefix: format!("unset -v {}; ", words.join(" ")) }))
    }

    pub(super) fn put_before(&self, command: &str) -> String {
        format!("{}{command}", self.prefix)
    }

    /// Returns the agent's JSON of a call without the prefix of its command.
    pub(super) fn taken_from(&self, input: &str) -> Option<String> {
        let quoted = serde_json::to_string(&self.prefix).ok()?;
        let begun = quoted.strip_suffix('"')?;
        // Agents write JSON with or without spaces.
        let at = input.find(begun)?;
        let before = input.get(..=at)?;
        let behind = input.get(at + begun.len()..)?;
        before.trim_end_matches('"').trim_end().ends_with(':').then(|| format!("{before}{behind}"))
    }
}

/// Whether this names one or some variables. A bare `*` would include `PATH`.
fn is_name(name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '*';
    name.len() <= 200
        && name.chars().all(is_of_name)
        && name.contains(|c: char| c.is_ascii_alphabetic())
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::json;

    use super::*;

    fn unset(names: &[&str]) -> Unset {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Unset::new(&names).unwrap().unwrap()
    }

    #[test]
    fn only_valid_variable_names_are_accepted() {
        assert_eq!(Unset::new(&[]), Ok(None));
        for wrong in ["", "*", "**", "A B", "A;rm", "A-B", "1A", "$A", "A=1", "'", "A\n"] {
            assert!(
                Unset::new(&[wrong.to_owned()]).unwrap_err().starts_with(&format!("`{wrong}`")),
                "{wrong}"
            );
        }
        assert_eq!(unset(&["A", "B_1"]).put_before("make"), "unset -v A B_1; make");
        assert_eq!(
            unset(&["A", "B_*", "*_TOKEN"]).put_before("make"),
            "unset -v A $(env | sed -n 's/^\\(B_[A-Za-z0-9_]*\\)=.*/\\1/p;\
             s/^\\([A-Za-z0-9_]*_TOKEN\\)=.*/\\1/p'); make"
        );
    }

    #[test]
    fn the_unset_prefix_can_be_removed_again() {
        let unset = unset(&["A", "B_*"]);
        for command in ["make \"x\" | cat", "cat <<'E'\n$A\nE", "", "unset -v A; x"] {
            let input = json!({"command": command, "timeout": 1}).to_string();
            let changed = json!({"command": unset.put_before(command), "timeout": 1});
            assert_eq!(unset.taken_from(&changed.to_string()), Some(input.clone()));
            assert_eq!(unset.taken_from(&input), None);
            let spaced = serde_json::to_string_pretty(&changed).unwrap();
            assert!(unset.taken_from(&spaced).is_some());
        }
        let quoted = json!({"content": format!("as in: {}", unset.put_before("make"))}).to_string();
        assert_eq!(unset.taken_from(&quoted), None);
    }

    /// The output of a command in a real shell, with secrets in its environment.
    fn run(shell: &str, command: &str) -> Option<(String, i32)> {
        let mut run = Command::new(shell);
        run.arg("-c").arg(command).current_dir("/").env_remove("C");
        run.env("A", "secret")
            .env("B_1", "two\nB_9=lines")
            .env("B_2", "x")
            .env("KEPT", "kept")
            .env("AB_1", "kept");
        let output = run.output().ok()?;
        Some((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code()?))
    }

    #[test]
    fn a_real_shell_runs_the_command_as_before_but_without_the_variables() {
        let shows =
            "echo \"A=${A-} B1=${B_1-} B2=${B_2-} KEPT=$KEPT AB=$AB_1\"; env | grep -c '^[AB]_*[0-9]*='";
        for shell in ["sh", "bash", "dash", "zsh"] {
            let Some((plain, _)) = run(shell, shows) else {
                eprintln!("skipped: there is no {shell}");
                continue;
            };
            assert!(plain.starts_with("A=secret B1=two"), "{shell}: {plain}");
            let without = run(shell, &unset(&["A", "B_*"]).put_before(shows)).unwrap();
            assert_eq!(without, ("A= B1= B2= KEPT=kept AB=kept\n0\n".to_owned(), 1), "{shell}");
            for names in [&["A"][..], &["B_*"], &["NOT_SET", "NEITHER_*"], &["NEITHER_*"]] {
                let unset = unset(names);
                for command in [
                    "echo 'it''s' \"a  b\" c\\ d; echo $((1+2))",
                    "cd /tmp && pwd; cd / ; pwd",
                    "cat <<'EOF' | tr a-z A-Z\nhello $KEPT 'x' \"y\"\nEOF",
                    "cat <<EOF\n$KEPT `echo b`\nEOF\nexit 3",
                    "# only a comment",
                    "\n\nfalse || echo or",
                    "(exit 4)",
                    "! true",
                    "for i in 1 2; do echo $i; done | tail -1",
                    "f() { echo f $1; }; f 1 && f 2 &\nwait",
                    "X=1 Y=2 env | grep '^[XY]=' | sort",
                    "echo a > /dev/null 2>&1; echo $?",
                    "set -eu; false; echo not here",
                    "printf '%s\\n' \"$0\" | head -c 0; echo \"${KEPT:-no}\"",
                ] {
                    assert_eq!(
                        run(shell, &unset.put_before(command)),
                        run(shell, command),
                        "{shell} {names:?} {command}"
                    );
                }
            }
        }
    }
}
