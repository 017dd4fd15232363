//! The kinds of tools, whatever an agent calls them.

/// The kind of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Read,
    /// Replaces parts of a file, or changes files by a patch of `*** Update File:` sections.
    Edit,
    NotebookEdit,
    /// Writes a whole file.
    Write,
    Command,
    Search,
    /// Opens a web page, or searches the web.
    Fetch,
    /// Starts a subagent.
    Delegate,
    /// Asks the user.
    Ask,
    /// Submits a plan for approval.
    Plan,
    /// Writes the whole task list.
    TodoList,
    TaskCreate,
    TaskUpdate,
}
