//! `recall handoff --to`: hands a session over to an agent's next session in its project.

use recall_protocol::query::HandOver as Request;
use recall_protocol::wire::ErrorKind;

use super::CommandContext;
use super::by_hand::not_written;
use crate::answers::handoff::HandedOverAnswer;
use crate::clock;
use crate::ports::{Ports, Writer};
use crate::queries::handoff::meant_session;
use crate::queries::{Answer, Refused, blocking, read};
use recall_agents::{AgentSpec, Agents};
use recall_domain::ids::AgentName;
use recall_search::edit_distance::nearest_name;
use recall_store::HandOver;

pub async fn hand_over(context: &CommandContext<impl Ports>, request: Request) -> Answer<HandedOverAnswer> {
    let lookup = context.context_lookup.clone();
    let (session, spec) = blocking(move || {
        let spec = agent(lookup.agents, &request.agent)?;
        if spec.events().iter().all(|event| event.answer.is_none()) {
            return Err(Refused::new(
                ErrorKind::Conflict,
                format!("{} cannot receive context: it ignores the output of its hooks", spec.title),
                "Paste the text of `recall handoff` yourself.",
            ));
        }
        if lookup.settings.context().budgets.start == 0 {
            return Err(Refused::new(
                ErrorKind::Conflict,
                "Sessions receive nothing at their start, because context.start_tokens is 0",
                "Restore the default with `recall config unset context.start_tokens`, or paste the text of `recall handoff` yourself.",
            ));
        }
        let session = read(&lookup, |db| meant_session(db, request.session.as_deref(), &request.project))?;
        Ok((session, spec))
    })
    .await?;
    let handed = HandOver { session: session.row, agent: AgentName(spec.name.to_owned()), at: clock::now() };
    context.ports.writer().write(handed).await.map_err(not_written)?;
    Ok(HandedOverAnswer {
        session_id: session.id.0,
        project: session.project.name,
        agent: spec.name.to_owned(),
        agent_title: spec.title.to_owned(),
    })
}

/// Returns the agent with this name, or the only one whose name begins with it.
fn agent(agents: Agents, named: &str) -> Result<&'static AgentSpec, Refused> {
    let begins: Vec<_> = agents.iter().filter(|spec| spec.name.starts_with(named)).collect();
    if let Some(spec) = agents.named(named) {
        return Ok(spec);
    }
    if let ([only], false) = (begins.as_slice(), named.is_empty()) {
        return Ok(only);
    }
    let names: Vec<&str> = agents.iter().map(|spec| spec.name).collect();
    let meant = nearest_name(named, names.iter().copied());
    let meant = meant.map(|name| format!("Did you mean {name}? ")).unwrap_or_default();
    let hint = format!("{meant}The agents are {}.", names.join(", "));
    Err(Refused::new(ErrorKind::Invalid, format!("{named:?} is not an agent that recall knows"), hint))
}
