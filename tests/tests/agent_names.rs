//! Tests that an agent's name and the spellings of its JSON, tools and settings occur only in the agent's folder.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use recall_agents::AGENTS;
use recall_protocol::agents::ROWS;
use regex::Regex;

/// The spellings that agents write, besides their names.
const SPELLINGS: &str = r#""(?:MultiEdit|Notebook\w+|Bash|PowerShell|Grep|Glob|WebFetch|WebSearch|AskUserQuestion|ExitPlanMode|TodoWrite|TaskCreate|TaskUpdate|ListMcpResourcesTool|SlashCommand|Skill|hook_event_name|tool_name|tool_input|tool_response|last_assistant_message|stop_hook_active|systemMessage|hookEventName|hookSpecificOutput|additionalContext|disableAllHooks|enabledPlugins)"|task-notification|system-reminder|worktrees/"#;

/// Texts that contain a name but belong to no agent, and the places where they may occur.
const NO_AGENT: [(&str, &str); 19] = [
    // A model provider that calls the program, and a model.
    (r"(?i)\bclaude[-_]?cli\b|ClaudeCli", ""),
    (r#""claude-haiku[^"]*""#, ""),
    (".*", "/claude_cli.rs"),
    (r"(?i)\b(?:codex|gemini|qwen|copilot|opencode)[-_]?cli\b", ""),
    (r#""(?:gpt|gemini)-[\d.]+[^"]*""#, "/providers/src/backend.rs"),
    (".*", "/chat/program.rs"),
    // Blocks that other memories inject.
    ("claude-(?:recall|mem)-context", "protocol/src/tag.rs"),
    // Another memory, whose database names agents in its own spelling.
    (".*", "/import/claude_mem.rs"),
    (r"(?i)\bclaude[-_]mem\b", "/cli/import/"),
    // Examples in the help.
    (r"recall import \S+", "/cli/import/mod.rs"),
    (r"recall import \S+", "/cli/commands.rs"),
    (r"--to \S+", "/cli/commands.rs"),
    // Endpoints of another memory's worker, which other programs call in its own spelling.
    (".*", "/server/http/hooks.rs"),
    (".*", "/server/http/routes.rs"),
    // Files that may be in any project or home: notes and keys.
    (r#""(?:claude|gemini)\.md""#, "/compression/"),
    (".*", "/domain/src/redaction/"),
    // A column of the database, and of an export.
    (r#""tool_name""#, "/crates/store/"),
    (r#""tool_name""#, "/cli/candidates.rs"),
    (r#""tool_name""#, "/app/src/commands/restore.rs"),
];

/// The files that may name agents: the table of the hook client, the list of agents, and the hosts without a folder.
const ABOUT_AGENTS: [&str; 3] =
    ["protocol/src/agents.rs", "daemon/crates/agents/src/lib.rs", "daemon/crates/agents/src/host.rs"];

/// Collects the source files below a folder, without those that exist only for tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    let for_tests: HashSet<String> = entries
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let declared = Regex::new(r"#\[cfg\(test\)\]\n(?:pub\(\w+\) )?mod (\w+);").unwrap();
            declared.captures_iter(&text).map(|found| found[1].to_owned()).collect::<Vec<_>>()
        })
        .collect();
    entries.retain(|path| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        name != "tests" && !for_tests.contains(name)
    });
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the lines of code with their numbers, up to the file's tests.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("\n#[cfg(test)]\nmod ").unwrap_or(text.len());
    (1..).zip(text[..end].lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Returns a pattern that matches any agent's name as a whole word, and its vendor's spelling of it.
fn names() -> Regex {
    let whole = ROWS.iter().map(|row| row.name).filter(|name| !["pi", "cursor", "amp"].contains(name));
    let whole = whole.map(|name| format!(r"\b{}\b", regex::escape(name)));
    // Titles match only as they are written, because `cursor` is also a word of terminals, and `amp` a word of HTML.
    let titles = AGENTS.iter().map(|spec| format!("(?-i:{})", regex::escape(spec.title)));
    let words =
        ["claude", "codex", "copilot", "gemini", "qwen", "openclaw", r"\.cursor", "beforeSubmitPrompt"];
    let all: Vec<String> = whole.chain(titles).chain(words.map(str::to_owned)).collect();
    Regex::new(&format!("(?i)(?:{})", all.join("|"))).unwrap()
}

fn violations(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for folder in ["daemon/src", "daemon/crates", "protocol/src", "shim/src"] {
        sources(&root.join(folder), &mut files);
    }
    assert!(files.len() > 200, "only {} files were found", files.len());
    let (names, spellings) = (names(), Regex::new(SPELLINGS).unwrap());
    let exceptions = NO_AGENT.map(|(what, place)| (Regex::new(what).unwrap(), place));
    let mut found = Vec::new();
    for file in files {
        let place = file.strip_prefix(root).unwrap().to_str().unwrap();
        let in_its_folder =
            place.strip_prefix("daemon/crates/agents/src/").is_some_and(|rest| rest.contains('/'));
        if in_its_folder || ABOUT_AGENTS.contains(&place) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for (number, line) in code(&text) {
            let mut line = line.to_owned();
            for (what, _) in exceptions.iter().filter(|(_, only)| place.contains(only)) {
                line = what.replace_all(&line, "").into_owned();
            }
            if names.is_match(&line) || spellings.is_match(&line) {
                found.push(format!("{place}:{number}: {}", line.trim()));
            }
        }
    }
    found
}

#[test]
fn agent_names_and_spellings_occur_only_in_the_agents_own_folder() {
    let found = violations(recall_tests::workspace());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Otherwise the test above would pass whatever it reads.
#[test]
fn agent_names_and_spellings_are_recognized() {
    let (names, spellings) = (names(), Regex::new(SPELLINGS).unwrap());
    for line in
        [r#"if tool == "Bash""#, r#".starts_with("<system-reminder>")"#, r#"field(json, "hook_event_name")"#]
    {
        assert!(spellings.is_match(line), "{line}");
    }
    for line in [r#"Some("CLAUDE_CONFIG_DIR")"#, r#"agent == "codex""#, r#"".claude/plans""#, "Claude Code"] {
        assert!(names.is_match(line), "{line}");
    }
    let text = "use a;\n// Claude Code\nfn b() {}\n\n#[cfg(test)]\nmod tests {\n    \"Bash\"\n}\n";
    let numbers: Vec<usize> =
        code(text).filter(|(_, line)| !line.is_empty()).map(|(number, _)| number).collect();
    assert_eq!(numbers, [1, 3]);
}

/// The README has a mark for each moment at which the agent can be given context. Agents with the same marks share a
/// row. Some are listed with the version that was tried.
#[test]
fn the_readme_marks_when_every_agent_takes_context() {
    use recall_domain::event::EventName;
    let readme = std::fs::read_to_string(recall_tests::workspace().join("README.md")).unwrap();
    let moments =
        [EventName::SessionStart, EventName::Prompt, EventName::ToolStart, EventName::SubagentStart];
    for spec in AGENTS.iter() {
        let marks = moments.map(|moment| if spec.takes_context_at(moment) { " ✓ |" } else { " |" }).concat();
        let tried = spec.host.tried.map(|tried| format!("{} {tried}", spec.title));
        let called = tried.unwrap_or_else(|| spec.title.to_owned());
        let mut rows = readme.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
        let row = rows.find(|(names, _)| names.split(", ").any(|name| name == called));
        assert_eq!(row.map(|(_, marks)| marks), Some(marks.as_str()), "{}", spec.title);
    }
}

#[test]
fn the_page_about_agents_lists_when_each_agent_takes_context() {
    let page = std::fs::read_to_string(recall_tests::workspace().join("docs/agents.md")).unwrap();
    for spec in AGENTS.iter() {
        let row = format!("| {} | {} |", spec.title, spec.given());
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn the_plugin_folder_has_the_hooks_that_install_writes() {
    let folder = recall_tests::workspace().join("plugins/claude-code");
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let hooks: serde_json::Value = serde_json::from_str(&read("hooks/hooks.json")).unwrap();
    let mut names: Vec<_> = hooks["hooks"].as_object().unwrap().keys().cloned().collect();
    let spec = AGENTS.named("claude-code").unwrap();
    let mut expected: Vec<_> = spec.events().iter().map(|event| event.name.to_owned()).collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
    for group in hooks["hooks"].as_object().unwrap().values() {
        assert_eq!(
            (&group[0]["hooks"][0]["command"], &group[0]["hooks"][0]["args"][0]),
            (&"recall-shim".into(), &"claude-code".into())
        );
    }
    let mods = recall_tests::workspace().join("plugins/claude-code-turns");
    for file in [".claude-plugin/plugin.json", "hooks/hooks.json"] {
        let text = std::fs::read_to_string(mods.join(file)).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }
    for file in [".claude-plugin/plugin.json", ".mcp.json"] {
        serde_json::from_str::<serde_json::Value>(&read(file)).unwrap();
    }
    assert!(read("skills/recall/SKILL.md").contains("recall search"));
}
