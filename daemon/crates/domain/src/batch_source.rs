//! The source of a batch's prompt: a person, or a machine that also writes prompts.

use super::names::named;

/// Where the prompt of a batch came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BatchSource {
    #[default]
    User,
    /// A background agent or shell has ended, and the agent's program wrote the prompt.
    AgentNotification,
    /// A message from another session, agent or teammate, or from a channel.
    AgentMessage,
    /// The agent's program itself: a schedule, a loop, a poll, or a hook's feedback.
    System,
    /// The prompt asks to carry out a plan.
    Plan,
    /// No prompt: the batch was opened for activities that had none.
    Recovery,
    /// A prompt that was entirely private; none of it is kept.
    Private,
    /// A prompt typed while the agent worked on another one.
    Queued,
}

named! { BatchSource {
    User = "user",
    AgentNotification = "agent_notification",
    AgentMessage = "agent_message",
    System = "system",
    Plan = "plan",
    Recovery = "recovery",
    Private = "private",
    Queued = "queued",
} }

impl BatchSource {
    /// Whether a person asked, and the prompt was not private.
    pub fn is_asked_openly(self) -> bool {
        matches!(self, Self::User | Self::Plan | Self::Queued)
    }

    /// Whether a person asked, privately or not.
    pub fn is_of_person(self) -> bool {
        self.is_asked_openly() || self == Self::Private
    }

    /// Whether a machine wrote the prompt: a background agent ended, another session sent a message, a schedule fired.
    pub fn is_made_by_machine(self) -> bool {
        matches!(self, Self::AgentNotification | Self::AgentMessage | Self::System)
    }
}
