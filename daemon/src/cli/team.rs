//! `recall team`: the machines that have the keys of an encrypted remote. It accesses the remote itself, and needs no
//! daemon.

use std::io::{BufRead, IsTerminal, Write};

use clap::{Args, Subcommand};
use serde_json::json;

use super::consent::{Confirmation, Consent};
use super::failure::Failure;
use super::restricted;
use super::team_place::{Place, not_owner, print_words, refused};
use super::terminal::{BOLD, DIM, GOOD, WARNING};
use recall_app::sharing::names::names;
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::space_of;
use recall_sync::team::{
    EntryWords, InvitationCode, Member, MemberState, Team, TeamError, TeamRole, TeamStatement, Upto,
};

#[derive(Debug, Subcommand)]
pub enum TeamCommand {
    /// Create a team and its key
    Init(RemoteArgs),
    /// Invite a machine
    ///
    /// Prints 12 words. Tell them to the machine's user, but not through the remote. On that machine, `recall team
    /// join` asks for them. Then both machines show six words: confirm only if they are the same.
    Invite(InviteArgs),
    /// Join a team with an invitation's 12 words, or with the team's own 24 words
    Join(RemoteArgs),
    /// List the machines that have a key
    Members(RemoteArgs),
    /// Make a machine an owner, which may admit and remove machines
    ///
    /// The machine that creates a team is its first owner. Name a second one: if all owners are lost, nobody can
    /// remove a machine.
    Owner(OwnerArgs),
    /// Remove a machine, and give the others a new key
    ///
    /// The removed machine can still read everything written until now. It cannot read what is written afterwards.
    Remove(RemoveArgs),
    /// Delete the team's key from this machine
    Leave(RemoteArgs),
}

#[derive(Debug, Args)]
pub struct RemoteArgs {
    /// The remote's name in `recall remote list`
    remote: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct InviteArgs {
    /// The remote's name in `recall remote list`
    remote: String,
    /// Admit any machine that has the words, without asking
    #[arg(long, short)]
    yes: bool,
}

#[derive(Debug, Args)]
pub struct OwnerArgs {
    /// The remote's name in `recall remote list`
    remote: String,
    /// A person, a machine, or the beginning of its name in `recall team members`
    member: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The remote's name in `recall remote list`
    remote: String,
    /// A person, a machine, or the beginning of its name in `recall team members`
    member: String,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// # Errors
/// The remote does not exist or is not encrypted, or the team's rules forbid the change.
pub fn run(command: &TeamCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        TeamCommand::Init(args) => init(args, out),
        TeamCommand::Invite(args) => invite(args, out),
        TeamCommand::Join(args) => join(args, out),
        TeamCommand::Members(args) => members(args, out),
        TeamCommand::Owner(args) => owner(args, out),
        TeamCommand::Remove(args) => remove(args, out),
        TeamCommand::Leave(args) => leave(args, out),
    }
}

fn init(args: &RemoteArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let place = Place::open(&args.remote)?;
    let _lock = Team::lock(&place.data)?;
    let known = Team::load(&place.data, &place.id).map_err(|error| refused(&error))?;
    if known.is_some() {
        return Err(in_it_already());
    }
    let team =
        Team::begin(&place.id, &place.device.id, &place.statements()?).map_err(|error| refused(&error))?;
    place.keep(&team)?;
    let words = team.words()?;
    if args.json {
        return Ok(writeln!(out, "{}", json!({"words": words}))?);
    }
    writeln!(
        out,
        "{GOOD}Created{GOOD:#} the team of {}. Everything shared through it is encrypted before it leaves this machine.",
        place.name
    )?;
    print_words(&words, out)?;
    Ok(writeln!(out, "Admit another machine with `recall team invite {}`.", place.name)?)
}

fn invite(args: &InviteArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let place = Place::open(&args.remote)?;
    let mut team = place.team()?;
    // An owner may have just named this machine.
    team.keep_up(&place.device, &place.statements()?).map_err(|error| refused(&error))?;
    if !team.owns(&place.device.id) {
        return Err(not_owner());
    }
    let code = InvitationCode::random()?;
    writeln!(out, "Tell these words to the machine's user, and leave this command running:")?;
    writeln!(out, "  {BOLD}{}{BOLD:#}", code.words())?;
    writeln!(out, "On that machine, run `recall team join {}`.", place.name)?;
    out.flush()?;
    let asking = place.wait_for(|statements| {
        statements.iter().find_map(|statement| statement.asks_with(&code).map(|who| (who, statement.clone())))
    })?;
    let ((author, name), asking) = asking;
    writeln!(
        out,
        "{author}, {name} has answered. Both sides must show: {BOLD}{}{BOLD:#}",
        asking.compared(&code)
    )?;
    let mut input = std::io::stdin().lock();
    let consent = if args.yes { Consent::Given } else { Consent::at_terminal(&mut input) };
    if consent.obtain(&format!("Let {author} in?"), out)? == Confirmation::Leave {
        return Ok(());
    }
    let _lock = Team::lock(&place.data)?;
    let mut team = place.team()?;
    team.keep_up(&place.device, &place.statements()?).map_err(|error| refused(&error))?;
    team.let_in(&place.device, &asking, &code).map_err(|error| refused(&error))?;
    place.keep(&team)?;
    Ok(writeln!(out, "{GOOD}Admitted{GOOD:#} {author}, {name}.")?)
}

fn join(args: &RemoteArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let place = Place::open(&args.remote)?;
    let known = Team::load(&place.data, &place.id).map_err(|error| refused(&error))?;
    if known.as_ref().is_some_and(|team| team.restricted().is_empty()) {
        return Err(in_it_already());
    }
    let mut input = std::io::stdin().lock();
    if std::io::stdin().is_terminal() {
        let asked = match known {
            None => "Type the 12 words of an invitation, or the 24 of the team:  ",
            Some(_) => "This machine is in the team. Type the 24 words of a restricted project:  ",
        };
        write!(out, "{asked}")?;
        out.flush()?;
    }
    // They are not arguments, because every user of the machine can see those.
    let mut words = String::new();
    input.read_line(&mut words)?;
    let team = match EntryWords::read(&words).map_err(|error| refused(&error))? {
        EntryWords::Recovery(key) if known.is_some() => {
            let project = restricted::enter(&place, &key)?;
            if args.json {
                return Ok(writeln!(out, "{}", json!({"joined": true, "project": project}))?);
            }
            let of = project.as_deref().unwrap_or("a project that is not shared here yet");
            return Ok(writeln!(out, "{GOOD}Joined{GOOD:#} the readers of {of}.")?);
        }
        EntryWords::Code(_) if known.is_some() => return Err(in_it_already()),
        EntryWords::Recovery(key) => {
            Team::recovered(&place.id, &key, &place.statements()?).map_err(|error| refused(&error))?
        }
        EntryWords::Code(code) => {
            let (author, name) = names(&place.sharing);
            let asking = TeamStatement::asking(&place.id, &place.device, &code, &author, &name)?;
            place.state(&asking)?;
            if !args.json {
                writeln!(out, "Both sides must show: {BOLD}{}{BOLD:#}", asking.compared(&code))?;
                out.flush()?;
            }
            place.wait_for(|statements| Team::joined(&place.id, &code, &place.device, statements))?
        }
    };
    let _lock = Team::lock(&place.data)?;
    place.keep(&team)?;
    if args.json {
        return Ok(writeln!(out, "{}", json!({"joined": true}))?);
    }
    writeln!(out, "{GOOD}Joined{GOOD:#} the team of {}.", place.name)?;
    Ok(writeln!(out, "Share a project with `recall share --with {}` in its folder.", place.name)?)
}

fn members(args: &RemoteArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let place = Place::open(&args.remote)?;
    let members =
        place.team()?.members(&place.device, &place.statements()?).map_err(|error| refused(&error))?;
    let standing = |standing: MemberState| match standing {
        MemberState::Member => "member",
        MemberState::Behind => "behind",
        MemberState::Removed => "removed",
    };
    if args.json {
        let one = |member: &Member| {
            let this = member.device == place.device.id;
            json!({"device": member.device.0, "author": member.author, "name": member.name,
                   "standing": standing(member.standing), "owner": member.role == TeamRole::Owner, "this": this})
        };
        let restricted: Vec<_> = restricted::of_team(&place)?
            .iter()
            .map(|project| json!({"project": project.identity, "readers": project.json()}))
            .collect();
        let members: Vec<_> = members.iter().map(one).collect();
        return Ok(writeln!(out, "{}", json!({"members": members, "restricted": restricted}))?);
    }
    for Member { device, author, name, standing: is, role } in &members {
        let this = if *device == place.device.id { ", this machine" } else { "" };
        let standing_text = match is {
            MemberState::Member => "",
            MemberState::Behind => ", has not fetched the newest key yet",
            MemberState::Removed => ", removed",
        };
        let owns = if *role == TeamRole::Owner { ", owner" } else { "" };
        writeln!(
            out,
            "{BOLD}{author}{BOLD:#}, {name} {DIM}({}){DIM:#}{owns}{standing_text}{this}",
            device.short()
        )?;
    }
    let owning = |member: &&Member| member.role == TeamRole::Owner && member.standing != MemberState::Removed;
    if members.len() > 1 && members.iter().filter(owning).count() < 2 {
        writeln!(
            out,
            "{WARNING}Only one machine owns the team. If it is lost, nobody can remove a machine. Name a second owner with `recall team owner {}`.{WARNING:#}",
            place.name
        )?;
    }
    for project in restricted::of_team(&place)? {
        writeln!(out, "{BOLD}{}{BOLD:#}: {}", project.title(), project.describe())?;
    }
    Ok(())
}

/// Finds the only other member of this name.
fn member(place: &Place, statements: &[TeamStatement], named: &str) -> anyhow::Result<Member> {
    let mut found = place.team()?.members(&place.device, statements).map_err(|error| refused(&error))?;
    let is_meant = |member: &Member| {
        member.device != place.device.id
            && member.standing != MemberState::Removed
            && (member.author == named || member.name == named || member.device.0.starts_with(named))
    };
    found.retain(is_meant);
    match (found.pop(), found.is_empty()) {
        (Some(found), true) => Ok(found),
        (None, _) => Err(refused(&TeamError::NoSuchMember(named.to_owned()))
            .hint("List them with `recall team members`.")
            .into()),
        (Some(_), false) => Err(refused(&TeamError::SeveralMembers(named.to_owned()))
            .hint("Name one by its id, which `recall team members` lists.")
            .into()),
    }
}

fn owner(args: &OwnerArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let place = Place::open(&args.remote)?;
    let statements = place.statements()?;
    let Member { device, author, name, .. } = member(&place, &statements, &args.member)?;
    let _lock = Team::lock(&place.data)?;
    let mut team = place.team()?;
    match team.name_owner(&place.device, &statements, &device) {
        Ok(()) => place.keep(&team)?,
        Err(TeamError::NotOwner) => return Err(not_owner()),
        Err(error) => return Err(refused(&error).into()),
    }
    if args.json {
        return Ok(writeln!(out, "{}", json!({"owner": device.0}))?);
    }
    Ok(writeln!(out, "{GOOD}Owner{GOOD:#}: {author}, {name} may admit and remove others, too.")?)
}

fn remove(args: &RemoveArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let place = Place::open(&args.remote)?;
    let statements = place.statements()?;
    let Member { device, author, name, .. } = member(&place, &statements, &args.member)?;
    let mut team = place.team()?;
    team.keep_up(&place.device, &statements).map_err(|error| refused(&error))?;
    if !team.owns(&place.device.id) {
        return Err(not_owner());
    }
    let mut input = std::io::stdin().lock();
    let consent = if args.yes { Consent::Given } else { Consent::at_terminal(&mut input) };
    writeln!(out, "{author}, {name} could read what was written until now. All others get a new key.")?;
    if consent.obtain(&format!("Remove {author}, {name}?"), out)? == Confirmation::Leave {
        return Ok(());
    }
    let upto = written(&place, &device)?;
    let _lock = Team::lock(&place.data)?;
    let mut team = place.team()?;
    team.remove(&place.device, &statements, &device, upto).map_err(|error| refused(&error))?;
    place.keep(&team)?;
    writeln!(out, "{GOOD}Removed{GOOD:#} {author}, {name}.")?;
    Ok(print_words(&team.words()?, out)?)
}

/// Returns how far a machine's logs are in the projects that are shared here.
fn written(place: &Place, device: &DeviceId) -> Result<Upto, Failure> {
    let mut upto = Upto::new();
    for share in place.sharing.shares.iter().filter(|share| share.remote == place.name) {
        let space = space_of(&share.project);
        let last = place.heads(&space)?.remove(device);
        upto.extend(last.map(|last| (space, last)));
    }
    Ok(upto)
}

fn leave(args: &RemoteArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let place = Place::open(&args.remote)?;
    place.team()?;
    if place.sharing.shares.iter().any(|share| share.remote == place.name) {
        return Err(Failure::failed(format!("Projects are still shared through {}", place.name))
            .hint("Stop sharing them first with `recall unshare`.")
            .into());
    }
    let _lock = Team::lock(&place.data)?;
    restricted::discard(&place)?;
    Team::discard(&place.data, &place.id).map_err(|error| refused(&error))?;
    if args.json {
        return Ok(writeln!(out, "{}", json!({"left": true}))?);
    }
    writeln!(out, "{GOOD}Left{GOOD:#} the team of {}: this machine no longer has a key.", place.name)?;
    Ok(writeln!(
        out,
        "{WARNING}Anybody with a copy of it can still use it, until an owner runs `recall team remove`.{WARNING:#}"
    )?)
}

fn in_it_already() -> anyhow::Error {
    Failure::failed("This machine is in the team already").into()
}
