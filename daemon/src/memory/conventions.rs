//! What an agent's program writes by itself into prompts, answers and paths.
//!
//! `agents/` says what that is. The rules of the domain get it as data, so that they need no agent's name.

/// The conventions of one agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conventions {
    /// Folders, relative to the project's, in which the agent makes work trees. They end with a slash.
    pub work_trees: &'static [&'static str],
    /// Beginnings of prompts that carry an approved plan into a fresh conversation. The plan follows.
    pub plan_prompts: &'static [&'static str],
    /// Beginnings of prompts that no person wrote.
    pub machine_prompts: &'static [&'static str],
    /// Answers that stand for none, in lower case.
    pub empty_answers: &'static [&'static str],
}

impl Conventions {
    /// Whether a machine wrote this prompt.
    pub fn is_machine_prompt(&self, prompt: &str) -> bool {
        self.machine_prompts.iter().any(|beginning| prompt.starts_with(beginning))
    }

    /// Whether this answer says nothing.
    pub fn is_empty_answer(&self, answer: &str) -> bool {
        answer.is_empty() || self.empty_answers.iter().any(|empty| answer.eq_ignore_ascii_case(empty))
    }
}
