//! `recall wrong`: records that items should not have been injected where they were.

use recall_protocol::query::{InjectionVerdict, Wrong};
use recall_protocol::wire::ErrorKind;

use super::CommandContext;
use super::by_hand::{not_written, unanswered};
use crate::answers::injection_uses::{WrongAnswer, WrongLine};
use crate::clock;
use crate::documents::title_and_text;
use crate::ports::{Ports, Writer};
use crate::queries::session::one_session;
use crate::queries::show::{load, parse_id};
use crate::queries::{Answer, Refused, read};
use recall_store::{ClearWrong, MarkWrong};

pub async fn wrong(context: &CommandContext<impl Ports>, request: Wrong) -> Answer<WrongAnswer> {
    let (lookup, asked) = (context.context_lookup.clone(), request.clone());
    let found = tokio::task::spawn_blocking(move || {
        read(&lookup, |db| {
            let session = asked.session.as_deref().map(|id| one_session(db, id)).transpose()?;
            let items = asked.ids.iter().map(|id| {
                let key = parse_id(id)?;
                Ok((key, title_and_text(&load(db, key)?, lookup.agents).0))
            });
            Ok((session.map(|session| session.row), items.collect::<Result<Vec<_>, Refused>>()?))
        })
    });
    let (session, items) = found.await.map_err(|_| unanswered())??;
    let writer = context.ports.writer();
    let mut lines = Vec::new();
    for (key, title) in items {
        let place = match request.told {
            InjectionVerdict::Wrongly => {
                let mark = MarkWrong { key, session, now: clock::now() };
                match writer.write(mark).await.map_err(not_written)? {
                    Some(place) => Some(place),
                    None => return Err(never_injected(&key.to_string())),
                }
            }
            InjectionVerdict::Rightly => {
                writer.write(ClearWrong { key }).await.map_err(not_written)?;
                None
            }
        };
        lines.push(WrongLine::new(key, title, place));
    }
    Ok(WrongAnswer { items: lines })
}

fn never_injected(id: &str) -> Refused {
    Refused::new(
        ErrorKind::NotFound,
        format!("{id} was not injected into such a session"),
        format!(
            "`recall why {id}` shows who received it; `recall resolve {id}` marks it as no longer valid."
        ),
    )
}
