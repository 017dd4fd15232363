//! Hostile texts, tried in every place where stored text is injected into an agent.
//!
//! A text has broken out if the block has a fence other than its own, or a line that the text began: a heading, a list
//! entry, one of our labels. Whether a model obeys what it reads is another question, which rendering cannot answer.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::checkout::{Containment, Elsewhere, Here, History, MadeOn, Tip, elsewhere};
use super::context::{
    BlockLimits, Declaration, InjectionMoment, Material, Note, PassageNote, SummaryNote, assemble,
};
use super::continuity::{Continuity, PlanNote};
use super::document::{DocumentKey, DocumentKind};
use super::ids::{BranchName, CommitId, ObservationId, Timestamp};
use super::observation::{Importance, Maker, ObservationType, Voice};
use super::passage::PassageKey;
use super::plan::PlanStage;

const NOW: Timestamp = Timestamp(86_400_000_000);

/// Attacks known from agents with memories, adapted to this one. The viewer's tests have the same.
static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let texts: Vec<String> =
        serde_json::from_str(include_str!("../../../../tests/fixtures/hostile-texts.json")).unwrap();
    assert_eq!(texts.len(), 40);
    texts
});

/// Stored text in every place that a block can have. Branch names are foreign text, too.
fn on_branch(name: &str) -> Option<Elsewhere> {
    struct NoGit;
    impl History for NoGit {
        fn tip(&self, _branch: &BranchName) -> Tip {
            Tip::Unknown
        }

        fn contains(&self, _commit: &CommitId) -> Containment {
            Containment::Unknown
        }
    }
    let made = MadeOn { branch: Some(BranchName::from(name)), ..MadeOn::default() };
    elsewhere(&[made], &Here::default(), &NoGit)
}

fn material(text: &str) -> Material {
    let note = |id| Note {
        warns_of: Some(text.to_owned()),
        maker: Maker::Machine,
        is_pinned: false,
        voice: Some(Voice::Import),
        author: Some(text.to_owned()),
        is_of_others: true,
        id: ObservationId(id),
        kind: ObservationType::Gotcha,
        title: text.to_owned(),
        narrative: text.to_owned(),
        facts: vec![text.to_owned(), format!("and {text}")],
        importance: Importance::clamped(9),
        alone: 0,
        at: Timestamp(NOW.0 - 1000),
        elsewhere: on_branch(text),
        changed: vec![text.to_owned()],
    };
    let statement = |row| PassageNote {
        changed: Vec::new(),
        key: PassageKey { document: DocumentKey { kind: DocumentKind::Response, row }, part: 0 },
        label: "answer",
        heading: text.to_owned(),
        text: text.to_owned(),
        author: Some(text.to_owned()),
        at: Timestamp(NOW.0 - 1000),
        probability: 0.9,
        reason: String::new(),
        elsewhere: on_branch(text),
    };
    Material {
        places: vec![Declaration {
            file: text.to_owned(),
            line: 1,
            kind: "fn",
            within: text.to_owned(),
            name: text.to_owned(),
        }],
        project: text.to_owned(),
        others: Some(SummaryNote {
            author: Some(text.to_owned()),
            id: 2,
            title: text.to_owned(),
            completed: text.to_owned(),
            next_steps: text.to_owned(),
            at: Timestamp(NOW.0 - 1000),
            ..SummaryNote::default()
        }),
        summary: Some(SummaryNote {
            author: None,
            id: 1,
            title: text.to_owned(),
            request: text.to_owned(),
            completed: text.to_owned(),
            learned: text.to_owned(),
            next_steps: text.to_owned(),
            at: Timestamp(NOW.0 - 1000),
            elsewhere: on_branch(text),
        }),
        observations: vec![note(1), note(2)],
        by_hand: vec![note(1)],
        statements: vec![statement(1), statement(2)],
        file: text.to_owned(),
        continuity: Some(Continuity {
            session: 7,
            prompts: 3,
            goal: text.to_owned(),
            asked: Some(text.to_owned()),
            plan: Some(PlanNote { title: text.to_owned(), stage: PlanStage::Draft, text: text.to_owned() }),
            open_tasks: vec![text.to_owned(), text.to_owned()],
            changed_files: vec![text.to_owned()],
            read_files: vec![text.to_owned()],
            decided: vec![text.to_owned()],
        }),
    }
}

/// The block's lines as Markdown sees them, counted by their first characters.
fn beginnings(block: &str) -> Vec<String> {
    let lines = block.split(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']);
    let mut words: Vec<String> =
        lines.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
    words.dedup();
    words
}

/// What a lenient reader takes for tags of a conversation: any spelling of a bracket, white space, and a name with a dash
/// or one that means a speaker.
fn tags(block: &str) -> Vec<String> {
    let mut text = block.to_lowercase();
    for spelling in ["&lt;", "&#60;", "&#x3c;", "\\u003c", "\u{ff1c}"] {
        text = text.replace(spelling, "<");
    }
    let mut tags = Vec::new();
    for piece in text.split('<').skip(1) {
        let bare = piece.trim_start_matches([' ', '/', '\\']);
        let slash = if piece.strip_suffix(bare).is_some_and(|lead| lead.contains('/')) { "/" } else { "" };
        let bare: String =
            bare.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '!')).collect();
        let begins = bare.starts_with(|c: char| c.is_alphabetic() || c == '!');
        let is_speaker = ["system", "user", "assistant", "human", "private"].contains(&bare.as_str());
        if begins && (bare.trim_end_matches('-').contains('-') || bare.starts_with('!') || is_speaker) {
            tags.push(format!("<{slash}{bare}"));
        }
    }
    tags
}

/// `None` if it stayed text.
fn breaks_out(text: &str, moment: InjectionMoment) -> Option<String> {
    // The same block with harmless text.
    const LIMITS: BlockLimits = BlockLimits { tokens: 9_000, utf16_units: 10_000 };
    let harmless = assemble(moment, &material("harmless"), LIMITS, NOW).text;
    let block = assemble(moment, &material(text), LIMITS, NOW).text;
    let known = beginnings(&harmless);
    if let Some(line) = beginnings(&block).into_iter().find(|word| !known.contains(word)) {
        return Some(format!("a line begins with {line:?}"));
    }
    let tags = tags(&block);
    if !block.is_empty() && tags != ["<recall-context", "</recall-context"] {
        return Some(format!("tags: {tags:?}"));
    }
    let heading = |text: &str| text.lines().filter(|line| line.starts_with('#')).count();
    if heading(&block) > heading(&harmless) {
        return Some("a heading of its own".to_owned());
    }
    let unseen = |c: char| (c.is_control() && c != '\n') || ('\u{2028}'..='\u{202e}').contains(&c);
    block.chars().find(|c| unseen(*c)).map(|c| format!("{c:?} is in it"))
}

const MOMENTS: [InjectionMoment; 7] = [
    InjectionMoment::Start,
    InjectionMoment::Resume,
    InjectionMoment::Compact,
    InjectionMoment::Prompt,
    InjectionMoment::File,
    InjectionMoment::Subagent,
    InjectionMoment::Command,
];

/// The documents state this figure: how many of the texts break out.
#[test]
fn no_hostile_text_breaks_out_of_the_context_block() {
    let broken: Vec<String> = TEXTS
        .iter()
        .flat_map(|text| MOMENTS.map(|moment| (text, moment)))
        .filter_map(|(text, moment)| breaks_out(text, moment).map(|how| format!("{text:?}: {how}")))
        .collect();
    assert!(broken.is_empty(), "{} of {}: {broken:#?}", broken.len(), TEXTS.len() * MOMENTS.len());
}

proptest! {
    #[test]
    fn no_random_text_breaks_out_of_the_context_block(
        text in ".{0,120}|(<|>|&|/|recall-context|#|- #|\n|\r|\u{2028}|\u{85}|\u{202e}|Open:|a| ){0,40}",
    ) {
        for moment in MOMENTS {
            prop_assert_eq!(breaks_out(&text, moment), None);
        }
    }
}
