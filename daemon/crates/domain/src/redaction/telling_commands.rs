//! Commands whose output is secret regardless of its format: `env`, `gh auth token`, `kubectl get secret -o yaml`. The
//! command is kept and its output removed.
//!
//! This does not imitate a shell: a command is split at its operators, and each part is compared with a table.

use super::json_text::{Role, StringPlace, rewrite};
use super::secret_files::is_command;

/// The number of bytes of a command that are examined. Longer commands contain a document.
const MOST: usize = 16 * 1024;
/// Programs that run the words after them.
const RUNNERS: [&str; 8] = ["sudo", "command", "exec", "time", "nohup", "npx", "doas", "builtin"];

/// A program, the words that must follow it in this order, and words of which one must occur, unless the list is
/// empty.
struct Telling(&'static str, &'static [&'static str], &'static [&'static str]);

const TELLING: &[Telling] = &[
    Telling("printenv", &[], &[]),
    Telling("gh", &["auth", "token"], &[]),
    Telling("gh", &["auth", "status"], &["-t", "--show-token"]),
    Telling("glab", &["auth", "token"], &[]),
    Telling("kubectl", &["get", "secret"], &["-o", "--output"]),
    Telling("kubectl", &["get", "secrets"], &["-o", "--output"]),
    Telling("kubectl", &["config", "view"], &["--raw"]),
    Telling("kubectl", &["create", "token"], &[]),
    Telling("oc", &["get", "secret"], &["-o", "--output"]),
    Telling("oc", &["get", "secrets"], &["-o", "--output"]),
    Telling("oc", &["whoami"], &["-t", "--show-token"]),
    Telling("aws", &["configure", "get"], &[]),
    Telling("aws", &["configure", "export-credentials"], &[]),
    Telling("aws", &["sts"], &["get-session-token", "assume-role", "get-federation-token"]),
    Telling("aws", &["secretsmanager", "get-secret-value"], &[]),
    Telling("aws", &["ssm"], &["--with-decryption"]),
    Telling("aws", &["ecr", "get-login-password"], &[]),
    Telling("aws", &["iam", "create-access-key"], &[]),
    Telling("gcloud", &["auth"], &["print-access-token", "print-identity-token"]),
    Telling("gcloud", &["secrets", "versions", "access"], &[]),
    Telling("az", &["account", "get-access-token"], &[]),
    Telling("az", &["keyvault", "secret", "show"], &[]),
    Telling("az", &["storage", "account", "keys", "list"], &[]),
    Telling("az", &["acr", "credential", "show"], &[]),
    Telling("az", &["ad", "sp", "create-for-rbac"], &[]),
    Telling("vault", &["read"], &[]),
    Telling("vault", &["kv", "get"], &[]),
    Telling("vault", &["token", "create"], &[]),
    Telling("op", &["read"], &[]),
    Telling("op", &["item", "get"], &[]),
    Telling("pass", &["show"], &[]),
    Telling("gopass", &["show"], &[]),
    Telling("lpass", &["show"], &[]),
    Telling("bw", &["get"], &[]),
    Telling("bw", &["unlock"], &[]),
    Telling("bw", &["export"], &[]),
    Telling("keepassxc-cli", &["show"], &[]),
    Telling("security", &["find-generic-password"], &["-w", "-g"]),
    Telling("security", &["find-internet-password"], &["-w", "-g"]),
    Telling("secret-tool", &["lookup"], &[]),
    Telling("doppler", &["secrets"], &[]),
    Telling("infisical", &["secrets"], &[]),
    Telling("infisical", &["export"], &[]),
    Telling("heroku", &["config"], &[]),
    Telling("heroku", &["config:get"], &[]),
    Telling("heroku", &["auth:token"], &[]),
    Telling("fly", &["auth", "token"], &[]),
    Telling("flyctl", &["auth", "token"], &[]),
    Telling("netlify", &["env:list"], &[]),
    Telling("netlify", &["env:get"], &[]),
    Telling("railway", &["variables"], &[]),
    Telling("sops", &[], &["-d", "--decrypt", "decrypt"]),
    Telling("age", &[], &["-d", "--decrypt"]),
    Telling("gpg", &[], &["-d", "--decrypt", "--export-secret-keys"]),
    Telling("ansible-vault", &["view"], &[]),
    Telling("ansible-vault", &["decrypt"], &["--output=-", "-"]),
    Telling("git", &["credential", "fill"], &[]),
    Telling("npm", &["token", "create"], &[]),
    Telling("openssl", &["rand"], &[]),
    Telling("pwgen", &[], &[]),
    Telling("terraform", &["output"], &["-raw", "-json"]),
    Telling("pulumi", &["config"], &["--show-secrets"]),
    Telling("pulumi", &["stack", "output"], &["--show-secrets"]),
    Telling("rails", &["credentials:show"], &[]),
];

/// Whether a command in this JSON, a call's input or a whole payload, prints secrets.
pub(super) fn is_named(json: &str) -> bool {
    let mut found = false;
    // The words of a command given as a list.
    let mut list = String::new();
    rewrite(json, |StringPlace { role, text }| {
        match role {
            Role::Value { key } if is_command(key) => found = found || tells(text),
            Role::Element { key } if is_command(key) => {
                found = found || (text.contains(' ') && tells(text));
                list.push_str(text);
                list.push(' ');
            }
            Role::Key | Role::Value { .. } | Role::Element { .. } => {}
        }
        Vec::new()
    });
    found || tells(&list)
}

/// Whether a command prints secrets.
fn tells(command: &str) -> bool {
    super::beginning(command, MOST).split([';', '|', '&', '\n', '(', ')', '`', '"', '\'']).any(is_telling)
}

/// Whether one simple command prints secrets.
fn is_telling(command: &str) -> bool {
    let is_left_out = |word: &&str| {
        let is_variable =
            word.split_once('=').is_some_and(|(name, _)| !name.starts_with('-') && !name.is_empty());
        is_variable || RUNNERS.contains(word) || *word == "$" || *word == "-E"
    };
    let mut words = command.split_whitespace().skip_while(is_left_out);
    let Some(program) = words.next() else { return false };
    let program = program.rsplit('/').next().unwrap_or(program);
    // Text that is written to a file is not printed.
    let words: Vec<&str> = words.take(64).collect();
    let arguments = || words.iter().filter(|word| !word.starts_with(['-', '<', '>']) && !word.contains('>'));
    match program {
        // With a name after them these set variables or run programs.
        "env" | "set" => {
            arguments().next().is_none() && words.iter().all(|word| word.starts_with('>') || *word == "-0")
        }
        "export" | "declare" | "typeset" => {
            arguments().next().is_none() && words.iter().all(|word| ["-p", "-x", "-px", "-xp"].contains(word))
        }
        _ => TELLING.iter().any(|Telling(name, follow, one_of)| {
            *name == program
                && has_in_order(arguments(), follow)
                && (one_of.is_empty()
                    || words.iter().any(|word| one_of.iter().any(|one| is_option(word, one))))
        }),
    }
}

/// Whether these words begin a command's arguments. Values of options may stand between them.
fn has_in_order<'a>(mut arguments: impl Iterator<Item = &'a &'a str>, follow: &[&str]) -> bool {
    /// The maximum number of option values between two words.
    const BETWEEN: usize = 3;
    follow.iter().all(|word| arguments.by_ref().take(BETWEEN).any(|argument| argument == word))
}

/// Whether the word is this option, as in `-o`, `-o=yaml` and `-oyaml`.
fn is_option(word: &str, option: &str) -> bool {
    word.strip_prefix(option).is_some_and(|rest| {
        rest.is_empty() || rest.starts_with('=') || (option.len() == 2 && option.starts_with('-'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_print_secrets_are_recognised() {
        for command in [
            "env",
            "env | sort",
            "cd x && env | grep -i rust",
            "/usr/bin/env",
            "printenv",
            "printenv DATABASE_URL",
            "export -p",
            "declare -x",
            "set",
            "gh auth token",
            "GH_TOKEN=$(gh auth token) make",
            "gh auth status --show-token",
            "kubectl get secret db -o yaml",
            "kubectl -n prod get secret db -o jsonpath={.data.password} | base64 -d",
            "kubectl get secrets --output=json",
            "sudo kubectl get secret db -oyaml",
            "bash -lc 'gh auth token'",
            "aws --profile x configure get aws_secret_access_key",
            "aws ssm get-parameter --name x --with-decryption",
            "gcloud auth application-default print-access-token",
            "vault kv get -field=password secret/app",
            "op read op://a/b/c",
            "gpg -d x.gpg",
            "openssl rand -hex 32",
        ] {
            assert!(tells(command), "{command}");
            assert!(is_named(&serde_json::json!({ "command": command }).to_string()), "{command}");
        }
        assert!(is_named(r#"{"command":["gh","auth","token"]}"#));
        assert!(is_named(r#"{"command":["bash","-lc","env | sort"]}"#));
    }

    #[test]
    fn harmless_commands_are_not_recognised_as_printing_secrets() {
        for command in [
            "env RUST_LOG=debug cargo test",
            "env -u X cargo test",
            "/usr/bin/env python3 x.py",
            "set -euo pipefail; make",
            "export PATH=$PATH:x",
            "declare -a list",
            "gh auth status",
            "gh pr list",
            "kubectl get secret",
            "kubectl get pods -o yaml",
            "kubectl create secret generic db",
            "aws s3 ls",
            "vault status",
            "git log",
            "gpg --verify x.sig",
            "terraform output",
            "openssl x509 -in a.pem",
            "echo 'see the docs of env files'",
            "environment",
            "make test",
        ] {
            assert!(!tells(command), "{command}");
        }
        assert!(!is_named(r#"{"query":"gh auth token"}"#));
    }
}
