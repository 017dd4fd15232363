//! `recall outline`: where a repository declares a name.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recall_protocol::query::Outline as Request;
use recall_protocol::wire::ErrorKind;

use super::{Answer, Refused};
use crate::answers::TextAnswer;
use crate::answers::outline::PlaceAnswer;
use crate::context_lookup::ContextLookup;
use recall_config::Code;
use recall_domain::tokens::estimate;
use recall_outline::{Asked, Language, Outline};
use recall_repository::refs::WorkLocation;
use recall_repository::work_tree::WorkTree;

const LIMIT: u32 = 20;
const MOST: u32 = 500;
/// How long the first reading of a repository may take before the user is told to wait.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(20);

pub fn outline(lookup: &ContextLookup, request: Request) -> Answer<TextAnswer<PlaceAnswer>> {
    if lookup.settings.context().code == Code::Off {
        let hint =
            "`recall config set context.code true` lets recall read the source files of your repositories.";
        return Err(Refused::new(ErrorKind::NotFound, "The outline of code is off", hint));
    }
    let place = WorkLocation { cwd: Some(request.folder.clone()), root: Some(request.folder.clone()) };
    let tree = WorkTree::of(&place);
    let Some(folder) = tree.as_ref().and_then(WorkTree::of_repository) else {
        let what = format!("{} is not in a Git repository", request.folder);
        return Err(Refused::new(ErrorKind::NotFound, what, "Run the command inside a Git repository."));
    };
    let Some(outline) = waited_for(lookup, folder) else {
        let what = "The repository is still being read";
        return Err(Refused::new(ErrorKind::NotFound, what, "Ask again in a moment."));
    };
    let most = request.limit.unwrap_or(LIMIT).min(MOST) as usize;
    let asked = request.asked.trim();
    let found = match Language::of(asked) {
        Some(_) => {
            let path = Path::new(&request.folder).join(asked);
            let within = path.strip_prefix(folder).ok().and_then(Path::to_str).unwrap_or(asked);
            let here = outline.of_file(within);
            let found = if here.is_empty() { outline.of_file(asked) } else { here };
            found.into_iter().take(most).collect()
        }
        None => outline.related(asked, Asked::Searching, most),
    };
    let items: Vec<PlaceAnswer> = found.into_iter().map(PlaceAnswer::from).collect();
    let line = |item: &PlaceAnswer| format!("{}:{} {} {}", item.file, item.line, item.kind, item.symbol);
    let text = items.iter().map(line).collect::<Vec<_>>().join("\n");
    Ok(TextAnswer { tokens: estimate(&text), text, items })
}

/// Returns the outline, waiting for its first reading.
fn waited_for(lookup: &ContextLookup, folder: &Path) -> Option<Arc<Outline>> {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = lookup.outlines.of(folder);
        if found.is_some() || Instant::now() >= until {
            return found;
        }
        std::thread::sleep(STEP);
    }
}
