//! The lines around a block: notices for the user, and the date and project for the agent.

use super::{ContextRequest, Depth};
use crate::clock;
use recall_domain::context::{Block, BlockItemKind};
use recall_domain::document::DocumentKind;
use recall_domain::ids::Timestamp;
use recall_domain::plain::{plain, visible};
use recall_domain::text::shortened_line;
use recall_store::CompressionTrouble;

/// The date, the project and its branch.
pub(super) fn ambient_line(depth: Depth, context_request: &ContextRequest, now: Timestamp) -> String {
    const LONGEST: usize = 80;
    let name = |text: &str| shortened_line(&plain(text), LONGEST).replace('`', "'");
    let mut line =
        format!("Today is {}. Project: `{}`", clock::day_of(now).0, name(&context_request.project.name));
    let checkout = match depth {
        Depth::Whole => context_request.place.refs().and_then(|refs| refs.checkout()),
        Depth::Titles => None,
    };
    if let Some(branch) = checkout.and_then(|checkout| checkout.branch) {
        line.push_str(&format!(", branch `{}`", name(branch.as_str())));
    }
    line.push('.');
    line
}

/// Returns the line for the user at a start; `None` if nothing is injected.
pub(super) fn notice(block: &Block, project: &str) -> Option<String> {
    let observations = block.items.iter().filter(|item| item.kind == BlockItemKind::OBSERVATION).count();
    let summary = block.items.iter().any(|item| match item.kind {
        BlockItemKind::Document(kind) => kind == DocumentKind::Summary,
        BlockItemKind::SessionState | BlockItemKind::Handover => true,
    });
    let given = match (observations, summary) {
        (0, false) => return None,
        (0, true) => "the last session's summary".to_owned(),
        (1, false) => "1 note".to_owned(),
        (1, true) => "the last session's summary and 1 note".to_owned(),
        (many, false) => format!("{many} notes"),
        (many, true) => format!("the last session's summary and {many} notes"),
    };
    Some(format!(
        "recall: gave {given} about {} (~{} tokens). See them with `recall context`.",
        visible(project),
        block.tokens
    ))
}

/// Returns the line for the user at a project's first start in a folder that another project had before.
pub(super) fn replaced_notice(context_request: &ContextRequest) -> Option<String> {
    let before = visible(context_request.replaced.as_deref()?);
    let name = visible(&context_request.project.name);
    Some(format!(
        "recall: this folder held another project before, \"{before}\". What is here now shows nothing of it, so it is a \
         project of its own, \"{name}\". `recall search WORDS --project \"{before}\"` finds what is known of the other."
    ))
}

/// Returns the line for the user if models have been failing for long.
pub(super) fn trouble_notice(trouble: &CompressionTrouble) -> String {
    let since = jiff::Timestamp::from_millisecond(trouble.since.0).unwrap_or_default();
    let since = since.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M");
    format!(
        "recall: the model that makes the notes has failed since {since} ({}); the built-in compressor \
         replaces it until then. See `recall ctl jobs --dead`, and run `recall ctl retry` once it works again.",
        visible(&trouble.error)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::context::{BlockItem, InjectedExtent};

    #[test]
    fn notices_contain_no_control_or_invisible_characters() {
        let hostile = "sh\u{1b}[2Jo\u{202e}p\u{200b}\nrecall: all is well";
        let (title, reason) = (String::new(), String::new());
        let item = BlockItem {
            kind: BlockItemKind::OBSERVATION,
            id: 1,
            extent: InjectedExtent::Whole,
            title,
            reason,
        };
        let notice = notice(&Block { items: vec![item], ..Block::default() }, hostile).unwrap();
        let trouble = CompressionTrouble { since: Timestamp(0), jobs: 1, error: hostile.to_owned() };
        for line in [notice, trouble_notice(&trouble)] {
            assert!(!line.contains(|c: char| c.is_control() || "\u{202e}\u{200b}".contains(c)), "{line:?}");
        }
    }
}
