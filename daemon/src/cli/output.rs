//! How the output of a command is written, and what the command also warns about.

/// How the output of a command is written. With `--json` it is always written unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// Printed once, for people: it fits the screen and may be paged.
    Page,
    /// Printed line by line while the command works, for people: it fits the width of the screen.
    Lines,
    /// For people, in lines that the command itself breaks.
    Screen,
    /// For programs: unchanged.
    Program,
}

/// What a command also warns about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notices {
    /// Events that cannot be stored or were lost, and agents that report nothing any more.
    All,
    /// Events alone, because the command reports about the agents itself, or changes them.
    Events,
    /// Nothing: the doctor reports this in detail, nobody reads the daemon's output, a shell reads a completion script,
    /// and a prompt line has no room.
    None,
}
