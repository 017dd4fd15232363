//! Finds the files that a call changes, if its tool reports them.

use sha2::{Digest, Sha256};

use recall_agents::AgentSpec;
use recall_agents::format::tools::patched_files;
use recall_domain::event::{HookEvent, HookEventKind, ToolResult};
use recall_domain::material::{Action, ProjectFolder};

/// Returns the files that a call changes, as the agent spells them.
pub fn of_call(spec: &AgentSpec, tool_name: &str, input: &str) -> Vec<String> {
    match spec.action(tool_name, input, None) {
        Action::Edit { path, .. } | Action::Write { path, .. } => {
            let mut files = patched_files(input);
            files.push(path);
            files
        }
        _ => Vec::new(),
    }
}

/// Hashes a path that is relative to the project's folder.
pub fn mark(path: &str) -> [u8; 8] {
    let mut mark = [0; 8];
    mark.iter_mut().zip(Sha256::digest(path.as_bytes())).for_each(|(byte, digit)| *byte = digit);
    mark
}

/// Returns the project files that a call changed, as path hashes, because they are only counted. Empty for a failed
/// call.
pub fn marks(spec: &AgentSpec, event: &HookEvent, root: Option<&str>) -> Vec<[u8; 8]> {
    let HookEventKind::Tool(call) = &event.what else { return Vec::new() };
    if !matches!(call.result, ToolResult::Done(_)) {
        return Vec::new();
    }
    let folder = ProjectFolder { root, work_trees: spec.conventions.work_trees };
    let files = of_call(spec, &call.name, &call.input).into_iter().filter_map(|path| folder.beneath(&path));
    let mut marks: Vec<_> = files.map(|path| mark(&path)).collect();
    marks.sort_unstable();
    marks.dedup();
    marks
}
