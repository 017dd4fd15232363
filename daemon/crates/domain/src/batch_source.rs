//! Where the prompt of a batch comes from: a person, or one of the machines that also write prompts.

/// Where the prompt of a batch comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BatchSource {
    #[default]
    User,
    /// A machine-made prompt: a background agent or shell has ended.
    AgentNotification,
    /// A message of another session, agent or teammate, or of a channel.
    AgentMessage,
    /// The agent program itself: a schedule, a loop, a poll, feedback of a hook.
    System,
    /// Work on a plan.
    Plan,
    /// Opened for activities that had no batch.
    Recovery,
    /// The prompt was entirely private; nothing of it is kept.
    Private,
    /// Typed while the agent worked on another prompt.
    Queued,
}

impl BatchSource {
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::User, "user"),
        (Self::AgentNotification, "agent_notification"),
        (Self::AgentMessage, "agent_message"),
        (Self::System, "system"),
        (Self::Plan, "plan"),
        (Self::Recovery, "recovery"),
        (Self::Private, "private"),
        (Self::Queued, "queued"),
    ];

    /// Whether a person asked, and not privately.
    pub fn is_asked_openly(self) -> bool {
        matches!(self, Self::User | Self::Plan | Self::Queued)
    }

    /// Whether a person asked, openly or not.
    pub fn is_of_person(self) -> bool {
        self.is_asked_openly() || self == Self::Private
    }

    /// Whether no person typed it: a background agent has ended, another session writes, a schedule is due.
    pub fn is_made_by_machine(self) -> bool {
        matches!(self, Self::AgentNotification | Self::AgentMessage | Self::System)
    }

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(source, _)| *source == self).map_or("user", |(_, name)| name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(source, _)| *source)
    }
}
