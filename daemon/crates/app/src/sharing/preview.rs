//! Previews what would leave if a project were shared.

use std::path::Path;

use recall_protocol::query::{ConversationPart, Persons, SharePreview, TermsPreview};
use recall_protocol::wire::ErrorKind;

use crate::answers::PublicId;
use crate::answers::sharing::{HeldNote, PreviewAnswer};
use crate::clock;
use crate::commands::CommandContext;
use crate::commands::by_hand::title_of;
use crate::identity::{Identity, identify};
use crate::ports::{Ports, Writer};
use crate::queries::{Answer, Refused, blocking, read};
use recall_domain::ids::ProjectKey;
use recall_domain::project::shared_identity;
use recall_store::{KnowProject, PreviewText, ShareTerms};

/// The maximum number of titles that are shown.
const SAMPLES: usize = 3;

/// A project that may be shared.
struct Candidate {
    keys: Vec<ProjectKey>,
    name: String,
}

pub async fn preview(context: &CommandContext<impl Ports>, request: SharePreview) -> Answer<PreviewAnswer> {
    let SharePreview { project, persons } = request;
    terms_preview(context, TermsPreview { project, persons, said: Vec::new() }).await
}

/// Lists what would leave. It also stores the project, so that others' notes about it have a place.
pub async fn terms_preview(
    context: &CommandContext<impl Ports>,
    request: TermsPreview,
) -> Answer<PreviewAnswer> {
    let TermsPreview { project, persons, said: parts } = request;
    let asked = context.clone();
    let Candidate { keys, name } = blocking(move || candidate(&asked, &project)).await?;
    let Some(identity) = shared_identity(&keys).cloned() else {
        return Err(Refused::new(
            ErrorKind::Invalid,
            format!(
                "Other machines cannot recognise the project {name}: it has neither a Git remote nor a commit"
            ),
            "Make a first commit, or add a Git remote, and start a session there.",
        ));
    };
    let row = context
        .ports
        .writer()
        .write(KnowProject { keys, name: name.clone(), at: clock::now() })
        .await
        .map_err(crate::commands::by_hand::not_written)?;
    let context = context.clone();
    blocking(move || {
        let terms = ShareTerms {
            injects: false,
            is_personal: persons == Persons::One,
            has_prompts: parts.contains(&ConversationPart::Prompts),
            has_answers: parts.contains(&ConversationPart::Answers),
        };
        let redactor = context.ingest.redactor.get();
        let (mut samples, mut held) = (Vec::new(), Vec::new());
        let visit = |PreviewText { key, title, text }| {
            if redactor.redact_text(&text) != text {
                held.push(HeldNote {
                    id: Some(PublicId(key)),
                    title: Some(redactor.redact_text(&titled(&title, &text)).into_owned()),
                    why: "it looks like a secret".to_owned(),
                });
            } else if samples.len() < SAMPLES {
                samples.push(titled(&title, &text));
            }
        };
        let found = read(&context.context_lookup, |db| Ok(db.preview(row, terms, visit)?))?;
        Ok(PreviewAnswer {
            project: name,
            identity: identity.as_str().to_owned(),
            observations: found.observations,
            summaries: found.summaries,
            plans: found.plans,
            prompts: found.prompts,
            answers: found.answers,
            sessions: found.sessions,
            personal: found.personal,
            samples,
            held,
        })
    })
    .await
}

/// Returns the title. A prompt or an answer has none, so its text is used instead.
fn titled(title: &str, text: &str) -> String {
    if title.is_empty() { title_of(text) } else { title.to_owned() }
}

fn candidate(context: &CommandContext<impl Ports>, named: &str) -> Result<Candidate, Refused> {
    if Path::new(named).is_absolute() {
        if !Path::new(named).is_dir() {
            let what = format!("There is no folder {named}");
            return Err(Refused::new(ErrorKind::NotFound, what, "Name an existing folder, or a project."));
        }
        let facts = recall_repository::facts(Path::new(named));
        let Identity { keys, name, doubted, .. } =
            read(&context.context_lookup, |db| Ok(identify(db, &facts)?))?;
        return match doubted {
            None => Ok(Candidate { keys, name }),
            Some(doubted) => Err(Refused::new(
                ErrorKind::Conflict,
                format!(
                    "This folder claims to be the project {}, but contains none of its commits",
                    doubted.project.name
                ),
                "Fetch its commits first; then recall recognises the project.",
            )),
        };
    }
    let mut found = read(&context.context_lookup, |db| Ok(db.projects_named(named)?))?;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => {
            let known = read(&context.context_lookup, |db| Ok(db.known_project(&only.key)?))?;
            let mut keys = vec![only.key];
            keys.extend(known.map(|known| known.aliases).unwrap_or_default());
            Ok(Candidate { keys, name: only.name })
        }
        (Some(_), false) => Err(Refused::new(
            ErrorKind::Conflict,
            format!("Several projects are called {named:?}"),
            "Name the folder instead.",
        )),
        (None, _) => Err(Refused::new(
            ErrorKind::NotFound,
            format!("recall knows no project {named:?}"),
            "Name its folder, or run this in it.",
        )),
    }
}
