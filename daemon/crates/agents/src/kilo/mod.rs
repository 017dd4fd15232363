//! Kilo CLI, checked against 7.7.9: a fork of OpenCode. It loads the same plugin from its own folder.

use super::opencode;
use super::settings::{AgentVersion, FilePlace, Install, InstalledPart, JsonValues, OwnFile, SKILL, Syntax};
use super::{AgentSpec, Host};

pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "kilo",
    title: "Kilo CLI",
    host: Host {
        program: "kilo",
        folder: ".config/kilo",
        folder_variable: Some("KILO_CONFIG_DIR"),
        assumed_version: AgentVersion(7, 7, 9),
        tried: Some(AgentVersion(7, 7, 9)),
        ..AgentSpec::PLAIN.host
    },
    install: Install {
        hooks: &[InstalledPart::own_file(
            FilePlace::own("plugins/recall.js", &[".kilo/plugins/recall.js"]),
            OwnFile::text(opencode::PLUGIN),
        )],
        server: &[
            InstalledPart::values(
                FilePlace::own("kilo.json", &[".kilo/kilo.json"]),
                JsonValues::new(Syntax::CommentsAndTrailingCommas, &[(&["mcp", "recall"], opencode::SERVER)]),
            ),
            InstalledPart::own_file(
                FilePlace::own("skills/recall/SKILL.md", &[".kilo/skills/recall/SKILL.md"]),
                SKILL,
            ),
        ],
        then: None,
    },
    history: Some(opencode::history::OF_KILO),
    ..opencode::SPEC
};
