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
struct SecretCommand(&'static str, &'static [&'static str], &'static [&'static str]);

const SECRET_COMMANDS: &[SecretCommand] = &[
    SecretCommand("printenv", &[], &[]),
    SecretCommand("gh", &["auth", "token"], &[]),
    SecretCommand("gh", &["auth", "status"], &["-t", "--show-token"]),
    SecretCommand("glab", &["auth", "token"], &[]),
    SecretCommand("kubectl", &["get", "secret"], &["-o", "--output"]),
    SecretCommand("kubectl", &["get", "secrets"], &["-o", "--output"]),
    SecretCommand("kubectl", &["config", "view"], &["--raw"]),
    SecretCommand("kubectl", &["create", "token"], &[]),
    SecretCommand("oc", &["get", "secret"], &["-o", "--output"]),
    SecretCommand("oc", &["get", "secrets"], &["-o", "--output"]),
    SecretCommand("oc", &["whoami"], &["-t", "--show-token"]),
    SecretCommand("aws", &["configure", "get"], &[]),
    SecretCommand("aws", &["configure", "export-credentials"], &[]),
    SecretCommand("aws", &["sts"], &["get-session-token", "assume-role", "get-federation-token"]),
    SecretCommand("aws", &["secretsmanager", "get-secret-value"], &[]),
    SecretCommand("aws", &["ssm"], &["--with-decryption"]),
    SecretCommand("aws", &["ecr", "get-login-password"], &[]),
    SecretCommand("aws", &["iam", "create-access-key"], &[]),
    SecretCommand("gcloud", &["auth"], &["print-access-token", "print-identity-token"]),
    SecretCommand("gcloud", &["secrets", "versions", "access"], &[]),
    SecretCommand("az", &["account", "get-access-token"], &[]),
    SecretCommand("az", &["keyvault", "secret", "show"], &[]),
    SecretCommand("az", &["storage", "account", "keys", "list"], &[]),
    SecretCommand("az", &["acr", "credential", "show"], &[]),
    SecretCommand("az", &["ad", "sp", "create-for-rbac"], &[]),
    SecretCommand("vault", &["read"], &[]),
    SecretCommand("vault", &["kv", "get"], &[]),
    SecretCommand("vault", &["token", "create"], &[]),
    SecretCommand("op", &["read"], &[]),
    SecretCommand("op", &["item", "get"], &[]),
    SecretCommand("pass", &["show"], &[]),
    SecretCommand("gopass", &["show"], &[]),
    SecretCommand("lpass", &["show"], &[]),
    SecretCommand("bw", &["get"], &[]),
    SecretCommand("bw", &["unlock"], &[]),
    SecretCommand("bw", &["export"], &[]),
    SecretCommand("keepassxc-cli", &["show"], &[]),
    SecretCommand("security", &["find-generic-password"], &["-w", "-g"]),
    SecretCommand("security", &["find-internet-password"], &["-w", "-g"]),
    SecretCommand("secret-tool", &["lookup"], &[]),
    SecretCommand("doppler", &["secrets"], &[]),
    SecretCommand("infisical", &["secrets"], &[]),
    SecretCommand("infisical", &["export"], &[]),
    SecretCommand("heroku", &["config"], &[]),
    SecretCommand("heroku", &["config:get"], &[]),
    SecretCommand("heroku", &["auth:token"], &[]),
    SecretCommand("fly", &["auth", "token"], &[]),
    SecretCommand("flyctl", &["auth", "token"], &[]),
    SecretCommand("netlify", &["env:list"], &[]),
    SecretCommand("netlify", &["env:get"], &[]),
    SecretCommand("railway", &["variables"], &[]),
    SecretCommand("sops", &[], &["-d", "--decrypt", "decrypt"]),
    SecretCommand("age", &[], &["-d", "--decrypt"]),
    SecretCommand("gpg", &[], &["-d", "--decrypt", "--export-secret-keys"]),
    SecretCommand("ansible-vault", &["view"], &[]),
    SecretCommand("ansible-vault", &["decrypt"], &["--output=-", "-"]),
    SecretCommand("git", &["credential", "fill"], &[]),
    SecretCommand("npm", &["token", "create"], &[]),
    SecretCommand("openssl", &["rand"], &[]),
    SecretCommand("pwgen", &[], &[]),
    SecretCommand("terraform", &["output"], &["-raw", "-json"]),
    SecretCommand("pulumi", &["config"], &["--show-secrets"]),
    SecretCommand("pulumi", &["stack", "output"], &["--show-secrets"]),
    SecretCommand("rails", &["credentials:show"], &[]),
];

/// Whether a command in this JSON, a call's input or a whole payload, prints secrets.
pub(super) fn is_named(json: &str) -> bool {
    let mut found = false;
    // The words of a command given as a list.
    let mut list = String::new();
    rewrite(json, |StringPlace { role, text }| {
        match role {
            Role::Value { key } if is_command(key) => found = found || prints_secrets(text),
            Role::Element { key } if is_command(key) => {
                found = found || (text.contains(' ') && prints_secrets(text));
                list.push_str(text);
                list.push(' ');
            }
            Role::Key | Role::Value { .. } | Role::Element { .. } => {}
        }
        Vec::new()
    });
    found || prints_secrets(&list)
}

/// Whether a command prints secrets.
fn prints_secrets(command: &str) -> bool {
    super::beginning(command, MOST)
        .split([';', '|', '&', '\n', '(', ')', '`', '"', '\''])
        .any(is_secret_command)
}

/// Whether one simple command prints secrets.
fn is_secret_command(command: &str) -> bool {
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
        _ => SECRET_COMMANDS.iter().any(|SecretCommand(name, follow, one_of)| {
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
            assert!(prints_secrets(command), "{command}");
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
            assert!(!prints_secrets(command), "{command}");
        }
        assert!(!is_named(r#"{"query":"gh auth token"}"#));
    }
}
