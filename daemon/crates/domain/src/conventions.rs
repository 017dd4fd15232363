//! Texts that an agent's program itself adds to prompts, answers and paths.
//!
//! `agents/` supplies them as data, so the domain's rules need no agent's name.

use super::batch_source::BatchSource;

/// The conventions of one agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conventions {
    /// Folders relative to the project's folder, with a trailing slash, in which the agent creates work trees.
    pub work_trees: &'static [&'static str],
    /// Prefixes of prompts that carry an approved plan into a fresh conversation. The plan follows.
    pub plan_prompts: &'static [&'static str],
    /// Prefixes of prompts that no person typed, and the source of such a prompt.
    pub machine_prompts: &'static [(&'static str, BatchSource)],
    /// Line prefixes by which the program marks a prompt as written by another agent.
    pub foreign_lines: &'static [&'static str],
    /// Placeholder answers that mean no answer, in lower case.
    pub empty_answers: &'static [&'static str],
    /// Prefixes of answers by which the program reports that its model was unreachable.
    pub failed_answers: &'static [&'static str],
}

impl Conventions {
    /// The source of a prompt that no person typed.
    pub fn machine_source(&self, prompt: &str) -> Option<BatchSource> {
        let prompt = prompt.trim_start();
        let begins = |(beginning, _): &&(&str, BatchSource)| prompt.starts_with(beginning);
        if let Some((_, source)) = self.machine_prompts.iter().find(begins) {
            return Some(*source);
        }
        let is_foreign =
            |line: &str| self.foreign_lines.iter().any(|opening| line.trim_start().starts_with(opening));
        // Checked first, because most agents have no such lines.
        (!self.foreign_lines.is_empty() && prompt.lines().any(is_foreign))
            .then_some(BatchSource::AgentMessage)
    }

    /// Whether this answer is a placeholder.
    pub fn is_empty_answer(&self, answer: &str) -> bool {
        answer.is_empty()
            || self.empty_answers.iter().any(|empty| answer.eq_ignore_ascii_case(empty))
            || self.failed_answers.iter().any(|failed| answer.starts_with(failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_and_error_answers_count_as_empty() {
        let conventions = Conventions {
            empty_answers: &["nothing."],
            failed_answers: &["API Error: "],
            ..Conventions::default()
        };
        for (answer, is_empty) in [
            ("", true),
            ("Nothing.", true),
            ("API Error: 401 {}", true),
            ("The API Error: 401 came from an old token.", false),
            ("Nothing. Or is it?", false),
        ] {
            assert_eq!(conventions.is_empty_answer(answer), is_empty, "{answer}");
        }
    }

    #[test]
    fn a_machine_prompt_is_recognized_by_its_prefix_or_a_marker_line() {
        let conventions = Conventions {
            machine_prompts: &[("<note>", BatchSource::System)],
            foreign_lines: &["Another agent wrote this"],
            ..Conventions::default()
        };
        for (prompt, source) in [
            ("<note>a build has ended", Some(BatchSource::System)),
            ("\n <note>a build has ended", Some(BatchSource::System)),
            ("Never use tabs.\n\nAnother agent wrote this, not your user.", Some(BatchSource::AgentMessage)),
            ("What does <note> mean?", None),
            ("Who says that \"Another agent wrote this\"?", None),
        ] {
            assert_eq!(conventions.machine_source(prompt), source, "{prompt}");
        }
    }
}
