//! Whether a call failed, as the agent reports it.
//!
//! Agents report failure in different places: a separate event, a flag or an exit code in the result, an error next
//! to it. All code that depends on it uses [`FailureRules::error_text`], so the answer is the same everywhere. A
//! command's output is no reliable sign of how the command ended. So only its last lines are searched, for the line
//! that the agent's program adds.

use super::json::{self, JsonFields, objects};

/// Flags that mean failure if true.
const FAILED: [&str; 2] = ["is_error", "isError"];
/// Flags that mean failure if false.
const SUCCEEDED: [&str; 2] = ["success", "ok"];
/// JsonFields with an error message. An empty one is not an error.
const ERRORS: [&str; 3] = ["error", "error_message", "tool_error"];
/// JsonFields with the status of the call; [`FAILURES`] are the values that mean failure.
const STATUSES: [&str; 3] = ["status", "result_type", "resultType"];
const FAILURES: [&str; 9] =
    ["error", "errored", "fail", "failed", "failure", "denied", "rejected", "timeout", "timed_out"];
const EXIT_CODES: [&str; 7] =
    ["exit_code", "exitCode", "return_code", "returnCode", "returncode", "exit_status", "exitStatus"];
/// JsonFields with the program's output, or with the part of it that the model got.
const OUTPUTS: [&str; 8] = [
    "stdout",
    "stderr",
    "output",
    "result",
    "content",
    "text_result_for_llm",
    "textResultForLlm",
    "llmContent",
];

/// Facts that only some agents report.
#[derive(Clone, Copy, Debug)]
pub struct FailureRules {
    /// The field that explains a harmless exit code.
    pub exit_code_note: Option<&'static str>,
    /// An object inside the result, and its field with the exit code.
    pub inner_exit_code: Option<(&'static str, &'static str)>,
    /// The text before and after the exit code in a line that the agent's program adds to a command's output.
    pub exit_code_line: Option<(&'static str, &'static str)>,
    /// The text before the exit code in the line that the agent's program puts before a failed command's output.
    pub exit_code_first: Option<&'static str>,
}

/// Whose result this is. A server's tool may return any data, such as `{"status": "failed"}` about somebody's build,
/// so only the protocol's own flag counts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultSource {
    Agent,
    Server,
}

impl ResultSource {
    pub fn of(tool: &str) -> Self {
        if ["mcp_", "MCP:"].iter().any(|start| tool.starts_with(start)) { Self::Server } else { Self::Agent }
    }
}

impl FailureRules {
    pub const COMMON: Self =
        Self { exit_code_note: None, inner_exit_code: None, exit_code_line: None, exit_code_first: None };

    /// The agent's text about a failure. `None` if no failure is reported. `payload` is the hook's JSON, `response` the
    /// JSON of the call's result.
    pub fn error_text(
        &self,
        source: ResultSource,
        payload: &JsonFields,
        response: Option<&str>,
    ) -> Option<String> {
        let result = response.map(|response| Reading::from(source, response)).unwrap_or_default();
        let in_result = match source {
            ResultSource::Agent => result.objects.iter().find_map(|object| self.status(object)),
            ResultSource::Server => result.protocol_status(),
        };
        let failed = match (self.status(payload), in_result) {
            (Some(Status::Failed), _) | (_, Some(Status::Failed)) => true,
            (Some(Status::Succeeded), _) | (_, Some(Status::Succeeded)) => false,
            (None, None) => {
                let in_line = || self.last_line(&result, response).or_else(|| self.first_line(response));
                let in_result = || self.exit_code_in(&result).or_else(in_line);
                let in_result = (source == ResultSource::Agent).then(in_result).flatten();
                self.exit_code(payload).or(in_result).is_some_and(|code| code != 0)
            }
        };
        failed.then(|| self.text_of(payload, response, &result))
    }

    /// The text about a call that is known to have failed.
    pub(crate) fn failure_text(&self, payload: &JsonFields, response: Option<&str>) -> String {
        self.text_of(payload, response, &response.map(Reading::of).unwrap_or_default())
    }

    fn text_of(&self, payload: &JsonFields, response: Option<&str>, result: &Reading) -> String {
        let mut texts: Vec<String> = error(payload).into_iter().collect();
        if texts.is_empty() {
            let code = self.exit_code(payload).or_else(|| self.exit_code_in(result));
            texts.extend(code.map(|code| format!("Exit code {code}")));
            texts.extend(result.texts());
            // A string that contains a result was parsed above.
            let is_read = |response: &&str| response.starts_with('"') && !result.objects.is_empty();
            texts.extend(response.filter(|response| !is_read(response)).and_then(text_of));
        }
        if texts.is_empty() { response.unwrap_or_default().to_owned() } else { texts.join("\n") }
    }

    fn status(&self, object: &JsonFields) -> Option<Status> {
        let any_equals =
            |names: &[&str], value: &str| names.iter().any(|name| flag_equals(object, name, value));
        let status = STATUSES.iter().filter_map(|field| object.word(field));
        let mut status = status.map(|word| word.to_ascii_lowercase());
        if any_equals(&FAILED, "true")
            || any_equals(&SUCCEEDED, "false")
            || error(object).is_some()
            || status.any(|word| FAILURES.contains(&word.as_str()))
        {
            return Some(Status::Failed);
        }
        let noted = || self.exit_code_note.and_then(|note| object.word(note)).is_some();
        let succeeded = any_equals(&FAILED, "false") || any_equals(&SUCCEEDED, "true") || noted();
        succeeded.then_some(Status::Succeeded)
    }

    fn exit_code_in(&self, result: &Reading) -> Option<i64> {
        result.objects.iter().find_map(|object| self.exit_code(object))
    }

    /// The exit code in one of the last lines.
    fn last_line(&self, result: &Reading, response: Option<&str>) -> Option<i64> {
        const LINES: usize = 4;
        let (before, after) = self.exit_code_line?;
        let text = json::string(response?).or_else(|| result.texts().pop())?;
        text.lines().rev().take(LINES).find_map(|line| {
            let (_, code) = line.split_once(before)?;
            code.strip_suffix(after)?.trim().parse().ok()
        })
    }

    /// The exit code in the first line.
    fn first_line(&self, response: Option<&str>) -> Option<i64> {
        let before = self.exit_code_first?;
        let text = json::string(response?)?;
        text.lines().next()?.strip_prefix(before)?.trim().parse().ok()
    }

    fn exit_code(&self, object: &JsonFields) -> Option<i64> {
        let code = |object: &JsonFields, names: &[&str]| {
            let quoted = |name: &str| unquoted(object.raw(name)?).parse().ok();
            names.iter().find_map(|name| object.number(name).or_else(|| quoted(name)))
        };
        code(object, &EXIT_CODES).or_else(|| {
            let (outer, field) = self.inner_exit_code?;
            let inner = object.raw(outer).filter(|raw| raw.starts_with('{'))?;
            code(&JsonFields::read(inner.as_bytes()).ok()?, &[field])
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Failed,
    Succeeded,
}

/// The parts of a result that say how the call ended: one object, or the flagged blocks of a message.
#[derive(Default)]
struct Reading {
    objects: Vec<JsonFields>,
}

impl Reading {
    /// Parses a result. Some hosts pass on a server's result as a string with JSON inside.
    fn from(source: ResultSource, response: &str) -> Self {
        let inner = (source == ResultSource::Server).then(|| json::string(response)).flatten();
        match inner.filter(|inner| inner.trim_start().starts_with('{')) {
            Some(inner) => Self::of(inner.trim_start()),
            None => Self::of(response),
        }
    }

    fn of(response: &str) -> Self {
        let objects = match response.as_bytes().first() {
            Some(b'{') => JsonFields::read(response.as_bytes()).into_iter().collect(),
            // Most messages are long and have no flag.
            Some(b'[') if FAILED.iter().any(|flag| response.contains(flag)) => {
                objects(response).into_iter().filter(is_flagged).collect()
            }
            _ => Vec::new(),
        };
        Self { objects }
    }

    fn protocol_status(&self) -> Option<Status> {
        self.objects.iter().any(is_flagged).then_some(Status::Failed)
    }

    fn texts(&self) -> Vec<String> {
        let texts = self.objects.iter().flat_map(|object| {
            let outputs = OUTPUTS.iter().filter_map(|field| text_of(object.raw(field)?));
            error(object).into_iter().chain(outputs)
        });
        texts.collect()
    }
}

fn is_flagged(object: &JsonFields) -> bool {
    FAILED.iter().any(|flag| flag_equals(object, flag, "true"))
}

/// Whether a flag has this value. Some hosts put the value in quotes.
fn flag_equals(object: &JsonFields, flag: &str, value: &str) -> bool {
    object.raw(flag).is_some_and(|raw| unquoted(raw).eq_ignore_ascii_case(value))
}

fn unquoted(raw: &str) -> &str {
    raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw).trim()
}

/// A non-empty error.
fn error(object: &JsonFields) -> Option<String> {
    ERRORS.iter().find_map(|field| {
        let raw = object.raw(field)?;
        match raw.as_bytes().first()? {
            b'"' => json::string(raw).filter(|text| !text.trim().is_empty()),
            b'{' => {
                let error = JsonFields::read(raw.as_bytes()).ok().filter(|error| !error.is_empty())?;
                error.word("message").or_else(|| Some(raw.to_owned()))
            }
            b't' => Some(String::from("error")),
            _ => None,
        }
    })
}

/// The text of a string, or of an array of strings and content blocks.
fn text_of(raw: &str) -> Option<String> {
    let text = match raw.as_bytes().first()? {
        b'"' => json::string(raw)?,
        b'[' => {
            let strings = serde_json::from_str::<Vec<serde_json::Value>>(raw).ok()?;
            let texts =
                strings.iter().filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: FailureRules = FailureRules {
        exit_code_note: Some("note"),
        inner_exit_code: Some(("metadata", "exit")),
        exit_code_line: Some(("<exit code ", ">")),
        exit_code_first: None,
    };

    #[track_caller]
    fn check(tool: &str, payload: &str, response: &str, expected: Option<&str>) {
        let payload = JsonFields::read(payload.as_bytes()).unwrap();
        let found = RULES.error_text(
            ResultSource::of(tool),
            &payload,
            Some(response).filter(|text| !text.is_empty()),
        );
        assert_eq!(found.as_deref(), expected, "{response}");
    }

    #[test]
    fn every_failure_field_is_read() {
        for (response, words) in [
            (r#"{"output":"1 failing","is_error":true}"#, "1 failing"),
            (r#"{"content":[{"type":"text","text":"no such sku"}],"isError":true}"#, "no such sku"),
            (r#"{"success":false,"result":["1 failing"]}"#, "1 failing"),
            (
                r#"{"error":{"message":"File not found","type":"x"},"llmContent":"Could not"}"#,
                "File not found\nCould not",
            ),
            (r#"{"error":"ENOENT"}"#, "ENOENT"),
            (r#"{"exit_code":1,"output":"1 failing"}"#, "Exit code 1\n1 failing"),
            (r#"{"exitCode":101,"stdout":"a","stderr":"b"}"#, "Exit code 101\na\nb"),
            (r#"{"output":"x","metadata":{"exit":3}}"#, "Exit code 3\nx"),
            (r#"{"returncode":3,"stdout":"x"}"#, "Exit code 3\nx"),
            (r#"{"exit_status":1}"#, "Exit code 1"),
            (r#"{"exitStatus":1}"#, "Exit code 1"),
            (r#"{"exit_code":"2","stderr":"x"}"#, "Exit code 2\nx"),
            (r#"{"is_error":"true","output":"x"}"#, "x"),
            (r#"{"ok":false,"output":"x"}"#, "x"),
            (r#"{"success":"False","output":"x"}"#, "x"),
            (r#"{"status":"failed","output":"x"}"#, "x"),
            (r#"{"status":"Error"}"#, r#"{"status":"Error"}"#),
            (r#"{"result_type":"failure","text_result_for_llm":"x"}"#, "x"),
            (r#"[{"type":"tool_result","is_error":true,"content":"x"}]"#, "x"),
            (r#""1 failing\n<exit code 1>""#, "1 failing\n<exit code 1>"),
            (r#"{"text_result_for_llm":"x\n<exit code 2>"}"#, "x\n<exit code 2>"),
        ] {
            check("Bash", "{}", response, Some(words));
        }
        // Beside the result.
        check("Bash", r#"{"exit_code":1}"#, r#"{"output":"x"}"#, Some("Exit code 1\nx"));
        check("Bash", r#"{"is_error":true}"#, r#""x""#, Some("x"));
        check("Bash", r#"{"error":"gone"}"#, "", Some("gone"));
    }

    #[test]
    fn unrelated_fields_and_success_values_report_no_failure() {
        for response in [
            r#"{"stdout":"error: failed","stderr":"","interrupted":false}"#,
            r#"{"exit_code":0,"error":null,"success":true,"is_error":false,"status":"completed"}"#,
            r#"{"error":"","output":"x"}"#,
            r#"{"error":{}}"#,
            r#"{"status":"async_launched"}"#,
            r#"{"task":{"status":"failed"}}"#,
            r#"{"code":404}"#,
            r#"{"exit_code":null}"#,
            r#"{"exit_code":"0","is_error":"false","ok":"true"}"#,
            r#"{"exit_code":""}"#,
            r#"{"exit_status":"running","returncode":0}"#,
            // The content of a file, or a command's output.
            r#""{\"isError\":true}""#,
            r#""is_error: true""#,
            r#""<exit code 0>""#,
            r#""<exit code 1>\n1\n2\n3\n4""#,
            "null",
            "7",
            "",
            "not json",
        ] {
            check("Bash", "{}", response, None);
        }
    }

    /// `grep` returns 1 if it finds nothing.
    #[test]
    fn the_agents_status_takes_precedence_over_the_exit_code() {
        check("Bash", "{}", r#"{"exit_code":1,"is_error":false}"#, None);
        check("Bash", "{}", r#"{"exit_code":1,"success":true}"#, None);
        check("Bash", "{}", r#"{"exitCode":1,"note":"No matches found"}"#, None);
        check("Bash", r#"{"success":true}"#, r#"{"exit_code":1}"#, None);
    }

    #[test]
    fn in_an_mcp_result_only_is_error_reports_a_failure() {
        check(
            "mcp__ci__build",
            "{}",
            r#"{"status":"failed","exit_code":1,"error":"x","success":false}"#,
            None,
        );
        check(
            "mcp__ci__build",
            "{}",
            r#"{"isError":true,"content":[{"type":"text","text":"no"}]}"#,
            Some("no"),
        );
        check("mcp__ci__build", r#"{"error":"gone"}"#, "{}", Some("gone"));
        let result = |flag| {
            let result = format!(r#"{{"content":[{{"type":"text","text":"no"}}],"isError":{flag}}}"#);
            serde_json::Value::String(result).to_string()
        };
        check("mcp__ci__build", "{}", &result("true"), Some("no"));
        check("mcp__ci__build", "{}", &result("false"), None);
    }
}
