//! Projects that only some machines of a team may read: `recall share --only`, and what `recall share --list` and
//! `recall team members` say of them.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use recall_protocol::paths::Paths;
use serde_json::{Value, json};

use super::failure::Failure;
use super::team_place::{Place, not_owner, print_words, refused};
use super::terminal::{GOOD, WARNING};
use recall_config::sharing::{RemoteSettings, SharedProject};
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::space_of;
use recall_sync::key::SealingKey;
use recall_sync::team::readers::{Readers, Rekeyed, Within, restricted_in};
use recall_sync::team::{Member, MemberState, Team, TeamError, TeamStatement};

/// A restricted project of a team, as far as this machine knows of it.
pub(super) struct Restricted {
    /// The project's identity on all machines. `None` if it is not shared here.
    pub(super) identity: Option<String>,
    /// The members that may read it. `None` if this machine may not.
    readers: Option<Vec<Member>>,
}

impl Restricted {
    pub(super) fn title(&self) -> &str {
        self.identity.as_deref().unwrap_or("A project that is not shared here")
    }

    /// Its readers as JSON; null if this machine is not among them.
    pub(super) fn json(&self) -> Value {
        self.readers.as_deref().map_or(Value::Null, as_json)
    }

    pub(super) fn describe(&self) -> String {
        match &self.readers {
            Some(readers) => format!("readable only by {}", named(readers)),
            None => "readable only by other machines".to_owned(),
        }
    }
}

fn as_json(members: &[Member]) -> Value {
    let one =
        |member: &Member| json!({"device": member.device.0, "author": member.author, "name": member.name});
    members.iter().map(one).collect()
}

fn named(members: &[Member]) -> String {
    let one = |member: &Member| {
        let Member { device, author, name, .. } = member;
        format!("{author}, {name} ({})", device.short())
    };
    members.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The restricted projects of a team.
pub(super) fn of_team(place: &Place) -> Result<Vec<Restricted>, Failure> {
    let known = Known::of(place)?;
    let spaces = known.team.restricted().iter();
    spaces.map(|space| known.restricted(place, space)).collect()
}

/// Returns the members that may read a shared project, according to the remote. `None` if it is not restricted, as far
/// as this machine knows.
pub(super) fn readers_of(
    share: &SharedProject,
    remote: Option<&RemoteSettings>,
) -> Option<anyhow::Result<Restricted>> {
    let space = space_of(&share.project);
    let data = Paths::from_env().ok()?.database().parent().map(PathBuf::from)?;
    // Remotes are asked only if there is something to ask.
    if remote.is_none_or(|remote| remote.plaintext) || !restricted_in(&data).contains(&space) {
        return None;
    }
    let restricted = || {
        let place = Place::open(&share.remote)?;
        let known = Known::of(&place)?;
        let is_restricted = known.team.restricts(&space);
        Ok(if is_restricted { Some(known.restricted(&place, &space)?) } else { None })
    };
    restricted().transpose()
}

/// The team, and what its machines say of it.
struct Known {
    team: Team,
    statements: Vec<TeamStatement>,
}

impl Known {
    fn of(place: &Place) -> Result<Self, Failure> {
        let statements = place.statements()?;
        let mut team = place.team()?;
        team.keep_up(&place.device, &statements).map_err(|error| refused(&error))?;
        Ok(Self { team, statements })
    }

    fn within<'w>(&'w self, place: &'w Place, space: &'w str) -> Within<'w> {
        Within { team: &self.team, device: &place.device, of_team: &self.statements, space }
    }

    /// The machines that are in the team now.
    fn members(&self, place: &Place) -> Result<Vec<Member>, Failure> {
        let mut members =
            self.team.members(&place.device, &self.statements).map_err(|error| refused(&error))?;
        members.retain(|member| member.standing != MemberState::Removed);
        Ok(members)
    }

    fn readers(&self, place: &Place, space: &str) -> Result<Option<(Readers, Vec<TeamStatement>)>, Failure> {
        let within = self.within(place, space);
        let id = within.id();
        let Some(mut readers) = Readers::load(&place.data, &id).map_err(|error| refused(&error))? else {
            return Ok(None);
        };
        let statements = place.reader_statements(space, &id)?;
        match readers.keep_up(within, &statements) {
            Ok(_) => Ok(Some((readers, statements))),
            Err(TeamError::NotReader) => Ok(None),
            Err(error) => Err(refused(&error)),
        }
    }

    fn restricted(&self, place: &Place, space: &str) -> Result<Restricted, Failure> {
        let shared = place.sharing.shares.iter().find(|share| space_of(&share.project) == space);
        let identity = shared.map(|share| share.project.clone());
        let Some((readers, statements)) = self.readers(place, space)? else {
            return Ok(Restricted { identity, readers: None });
        };
        let devices = readers.devices(&statements);
        let mut members = self.members(place)?;
        members.retain(|member| devices.contains(&member.device));
        Ok(Restricted { identity, readers: Some(members) })
    }
}

/// Who may read a project from now on.
pub(super) struct Plan {
    place: Place,
    space: String,
    readers: Vec<Member>,
    /// Those who may read it now and are not among them.
    gone: Vec<Member>,
    is_first: bool,
}

impl Plan {
    /// `only`: persons, machines, or beginnings of machines' ids. The person who asks reads it anyway.
    pub(super) fn of(remote: &RemoteSettings, project: &str, only: &[String]) -> anyhow::Result<Self> {
        if remote.plaintext {
            return Err(Failure::usage(format!(
                "{} is not encrypted, so recall cannot restrict who reads it",
                remote.name
            ))
            .hint("Share the project through an encrypted remote.")
            .into());
        }
        let place = Place::open(&remote.name)?;
        let known = Known::of(&place)?;
        if !known.team.owns(&place.device.id) {
            return Err(not_owner());
        }
        let space = space_of(project);
        let members = known.members(&place)?;
        let own = members.iter().find(|member| member.device == place.device.id);
        let own = own.map(|member| member.author.clone());
        let mut readers: Vec<Member> = Vec::new();
        for name in only {
            let is_meant = |member: &&Member| {
                member.author == *name || member.name == *name || member.device.0.starts_with(name)
            };
            let mut found = members.iter().filter(is_meant).peekable();
            if name.is_empty() || found.peek().is_none() {
                return Err(refused(&TeamError::NoSuchMember(name.clone()))
                    .hint(format!("`recall team members {}` names them.", place.name))
                    .into());
            }
            readers.extend(found.cloned());
        }
        readers.extend(members.iter().filter(|member| Some(&member.author) == own.as_ref()).cloned());
        let wanted: BTreeSet<DeviceId> = readers.iter().map(|member| member.device.clone()).collect();
        let of = |devices: &BTreeSet<DeviceId>| -> Vec<Member> {
            members.iter().filter(|member| devices.contains(&member.device)).cloned().collect()
        };
        let before = known.readers(&place, &space)?.map(|(readers, statements)| readers.devices(&statements));
        let gone = before.iter().flatten().filter(|device| !wanted.contains(device)).cloned().collect();
        let (readers, gone) = (of(&wanted), of(&gone));
        Ok(Self { space, readers, gone, is_first: before.is_none(), place })
    }

    /// Says what will be.
    pub(super) fn show(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "Only these machines of the team can read it: {}.", named(&self.readers))?;
        if self.is_first {
            writeln!(out, "The whole team can still read what it could read until now.")?;
        }
        if !self.gone.is_empty() {
            writeln!(
                out,
                "{WARNING}Removed from the project: {}. They keep what they have read, and can join again only as new machines.{WARNING:#}",
                named(&self.gone)
            )?;
        }
        Ok(())
    }

    /// Does it. Returns the words of the project's key, if there is a new one.
    pub(super) fn follow(&self) -> anyhow::Result<Option<String>> {
        let Self { place, space, readers: meant, .. } = self;
        let heads = place.heads(space)?;
        let _lock = Team::lock(&place.data)?;
        let known = Known::of(place)?;
        let within = known.within(place, space);
        let id = within.id();
        let statements = place.reader_statements(space, &id)?;
        let before = Readers::load(&place.data, &id).map_err(|error| refused(&error))?;
        let is_first = before.is_none();
        let mut readers = match before {
            Some(readers) => readers,
            None => Readers::begin(within, &statements, &heads).map_err(|error| refused(&error))?,
        };
        let wanted = meant.iter().map(|member| member.device.clone()).collect();
        let rekeyed =
            readers.restrict(within, &statements, &wanted, &heads).map_err(|error| refused(&error))?;
        // The key is there before anybody is told that it is needed.
        place.keep_readers(&readers, space)?;
        let mut team = known.team.clone();
        team.announce(space);
        place.keep(&team)?;
        match is_first || rekeyed == Rekeyed::Yes {
            true => Ok(Some(readers.words()?)),
            false => Ok(None),
        }
    }

    /// Who may read, as JSON.
    pub(super) fn json(&self) -> Value {
        as_json(&self.readers)
    }

    /// Tells the words of a new key.
    pub(super) fn print(&self, words: Option<&str>, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{GOOD}Restricted{GOOD:#}: readable only by {}.", named(&self.readers))?;
        let Some(words) = words else { return Ok(()) };
        print_words(words, out)?;
        writeln!(
            out,
            "On a machine of the team, `recall team join {}` asks for these words.",
            self.place.name
        )
    }
}

/// Enters the readers of a project with its words. Returns what the project is called, if it is shared here.
pub(super) fn enter(place: &Place, key: &SealingKey) -> Result<Option<String>, Failure> {
    let _lock = Team::lock(&place.data).map_err(|error| refused(&error))?;
    let known = Known::of(place)?;
    for space in known.team.restricted() {
        let within = known.within(place, space);
        let id = within.id();
        if Readers::load(&place.data, &id).map_err(|error| refused(&error))?.is_some() {
            continue;
        }
        let statements = place.reader_statements(space, &id)?;
        let mut readers = match Readers::recovered(within, key, &statements) {
            Ok(readers) => readers,
            Err(TeamError::OtherWords | TeamError::NoTeam) => continue,
            Err(error) => return Err(refused(&error)),
        };
        readers.keep_up(within, &statements).map_err(|error| refused(&error))?;
        place.keep_readers(&readers, space)?;
        return Ok(known.restricted(place, space)?.identity);
    }
    Err(refused(&TeamError::OtherWords))
}

/// Removes the keys of restricted projects from this machine.
pub(super) fn discard(place: &Place) -> Result<(), Failure> {
    let team = place.team()?;
    for space in team.restricted() {
        let within = Within { team: &team, device: &place.device, of_team: &[], space };
        let id = within.id();
        if Readers::load(&place.data, &id).map_err(|error| refused(&error))?.is_some() {
            Team::discard(&place.data, &id).map_err(|error| refused(&error))?;
        }
    }
    Ok(())
}
