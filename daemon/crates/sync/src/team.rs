//! A team: the machines that have the keys of a remote. Each machine writes one signed statement into a space of the
//! remote: which keys it has, to whom it gives the current one, and whom it has removed. A key is wrapped for one
//! machine alone. Removing a machine creates a new key, which all others receive.
//!
//! The server, or anybody who can write to the remote, sees which machines exist. It cannot give anybody a key, and
//! no machine accepts one that an owner has not given.
//!
//! The machine that founds a team is its owner, and so is any machine that an owner names. Only owners' statements
//! about removals, new keys and owners count. A newcomer learns who they are from the machine that admits it. A
//! machine with the key can always pass it on outside of recall; no rule can prevent that.
//!
//! A project that not all of the team may read has readers with a key of their own (`readers.rs`).

mod error;
mod file;
pub mod readers;
mod statement;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use bip39::Mnemonic;
use serde::{Deserialize, Serialize};
use x25519_dalek::{PublicKey, StaticSecret};

use super::device::Device;
use super::hex::{hex, unhex};
use super::key::{NoRandomness, SealingKey};
use super::sealed::SpaceKeys;
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::space_of;

pub use error::TeamError;
pub use statement::TeamStatement;
use statement::exchange_of;
pub use words::{EntryWords, InvitationCode};

/// The space with the machines' team statements.
pub fn team_space() -> String {
    space_of("recall-team-1")
}

/// This machine's knowledge of a team: its file in the data folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Team {
    /// The remote's own id.
    remote: String,
    keys: Vec<Held>,
    wrapped: Vec<WrappedKey>,
    removed: BTreeMap<DeviceId, Upto>,
    /// The machines that may admit and remove others. Removed machines among them may not.
    owners: BTreeSet<DeviceId>,
    /// The spaces of the projects that not all of the team may read.
    #[serde(default)]
    restricted: BTreeSet<String>,
    /// Only of a restricted project: the machines that are given its key, and how far each log counts whose machine lacks it.
    #[serde(default)]
    named: BTreeSet<DeviceId>,
    #[serde(default)]
    before: BTreeMap<DeviceId, u64>,
}

/// The last entry to read of a removed machine's logs, by space.
pub type Upto = BTreeMap<String, u64>;

/// A key of the team. The one with the greatest number is current.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Held {
    number: u32,
    key: SealingKey,
}

/// The current key, wrapped for one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WrappedKey {
    to: DeviceId,
    /// The name of the wrapped key.
    key: String,
    /// The public half of a key pair that was made for this wrapping only.
    via: String,
    sealed: String,
}

/// A machine of the team, as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub device: DeviceId,
    pub author: String,
    pub name: String,
    pub standing: MemberState,
    pub role: TeamRole,
}

/// What a machine may do in the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeamRole {
    /// Admit and remove others, and name more owners.
    Owner,
    /// Read and write.
    Writer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    Member,
    /// It has an older key, and will receive the current one.
    Behind,
    Removed,
}

/// Which machines this one reads, derived from all statements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standings {
    members: BTreeSet<DeviceId>,
    removed: BTreeMap<DeviceId, Upto>,
    /// How far other logs count.
    before: BTreeMap<DeviceId, u64>,
}

impl Standings {
    /// Whether a machine's log is read, and how far.
    pub fn reads(&self, device: &DeviceId, space: &str) -> Reads {
        match self.removed.get(device) {
            Some(upto) => Reads::Upto(upto.get(space).copied().unwrap_or_default()),
            None if self.members.contains(device) => Reads::All,
            None => self.before.get(device).map_or(Reads::Nothing, |last| Reads::Upto(*last)),
        }
    }
}

/// How much is read of a log. More is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reads {
    /// It has not proved that it has the key.
    Nothing,
    /// It was removed; read up to this entry.
    Upto(u64),
    All,
}

impl Team {
    /// Creates a team with a new key.
    pub fn begin(remote: &str, device: &DeviceId, statements: &[TeamStatement]) -> Result<Self, TeamError> {
        if statements.iter().any(|statement| !statement.proofs.is_empty()) {
            return Err(TeamError::Exists);
        }
        let owners = BTreeSet::from([device.clone()]);
        let mut team = Self { remote: remote.to_owned(), owners, ..Self::default() };
        team.hold(1, &SealingKey::random()?);
        Ok(team)
    }

    /// Enters a team with the team's own words.
    pub fn recovered(
        remote: &str,
        key: &SealingKey,
        statements: &[TeamStatement],
    ) -> Result<Self, TeamError> {
        let name = key.name();
        if statements.iter().all(|statement| statement.proofs.is_empty()) {
            return Err(TeamError::NoTeam);
        }
        let proven = statements.iter().find_map(|statement| {
            let (number, _) = statement.proofs.get(&name)?;
            statement.proves(key, *number).then_some(*number)
        });
        let number = proven.ok_or(TeamError::OtherWords)?;
        let having: Vec<&TeamStatement> =
            statements.iter().filter(|statement| statement.proves(key, number)).collect();
        let mut team = Self { remote: remote.to_owned(), owners: owners_of_most(&having), ..Self::default() };
        if team.owners.is_empty() {
            return Err(TeamError::OwnersDiffer);
        }
        team.hold(number, key);
        // Whoever was removed knows the words of an older key.
        if team.is_outdated(statements) { Err(TeamError::OtherWords) } else { Ok(team) }
    }

    /// Enters a team with a code. Returns `None` until an owner has given the key.
    pub fn joined(
        remote: &str,
        code: &InvitationCode,
        device: &Device,
        statements: &[TeamStatement],
    ) -> Option<Self> {
        let mut team = Self { remote: remote.to_owned(), ..Self::default() };
        let gives = |statement: &&TeamStatement| {
            statement.owners.contains(&statement.device)
                && team.unwrap_key(statement, device, Some(&code.key)).is_some()
        };
        let owners = statements.iter().find(gives)?.owners.clone();
        Some(Self { owners, ..team })
    }

    fn hold(&mut self, number: u32, key: &SealingKey) {
        let held = Held { number, key: key.clone() };
        if !self.keys.contains(&held) {
            self.keys.push(held);
            self.keys.sort();
        }
    }

    fn held(&self, name: &str) -> Option<&Held> {
        self.keys.iter().find(|held| held.key.name() == name)
    }

    fn current(&self) -> Result<(u32, SealingKey), TeamError> {
        self.keys.last().map(|held| (held.number, held.key.clone())).ok_or(TeamError::NoKey)
    }

    /// The team's key as words, with which any machine can enter.
    pub fn words(&self) -> Result<String, TeamError> {
        let (_, key) = self.current()?;
        Ok(Mnemonic::from_entropy(key.bytes()).map_err(|_| TeamError::Words)?.to_string())
    }

    /// Derives the keys of a project's space.
    pub fn space_keys(&self, space: &str) -> Result<SpaceKeys, TeamError> {
        let (_, current) = self.current()?;
        let all: Vec<SealingKey> = self.keys.iter().map(|held| held.key.clone()).collect();
        Ok(SpaceKeys::of(space, &current, &all))
    }

    /// Takes keys from owners, and wraps the current one for members that lack it. Returns which machines are read.
    pub fn keep_up(&mut self, device: &Device, statements: &[TeamStatement]) -> Result<Standings, TeamError> {
        // A new key makes more statements trusted, which may contain a newer key.
        for _ in 0..=statements.len() {
            self.take_owners(statements)?;
            self.removed = self.removed_by_owners(device, statements)?;
            let before = self.keys.len();
            let givers = statements.iter().filter(|statement| !self.removed.contains_key(&statement.device));
            let givers: Vec<&TeamStatement> = givers
                .filter(|statement| self.owners.contains(&statement.device) && self.has_proof(statement))
                .collect();
            for statement in givers {
                self.unwrap_key(statement, device, None);
                self.take_older(statement);
            }
            if self.keys.len() == before {
                break;
            }
        }
        if self.removed.remove(&device.id).is_some() {
            return Err(TeamError::Removed);
        }
        self.take_restricted(statements)?;
        let removed = self.removed.clone();
        let others: Vec<&TeamStatement> =
            statements.iter().filter(|statement| statement.device != device.id).collect();
        if self.is_outdated(statements) {
            return Err(TeamError::NotGiven);
        }
        let vouched = self.vouched(statements);
        let members: Vec<&TeamStatement> =
            others.iter().filter(|statement| self.counts(statement, &vouched)).copied().collect();
        // Never write with a wrong key. A machine that has proved its key here is not stopped by others' claims.
        let is_known =
            statements.iter().any(|statement| statement.device == device.id && self.has_proof(statement));
        // Whoever has a key names owners. Of the readers of a project those do whose words count.
        let has_other =
            |statement: &&TeamStatement| !statement.proofs.is_empty() && !statement.owners.is_empty();
        if !is_known && members.is_empty() && others.iter().any(has_other) {
            return Err(TeamError::OtherKey);
        }
        if self.owns(&device.id) {
            self.wrap_for_members(device, &members, &removed)?;
        }
        let members = members.into_iter().map(|statement| statement.device.clone()).collect();
        Ok(Standings { members, removed, before: BTreeMap::new() })
    }

    /// Whether a machine proves that it has any key of this team.
    fn has_proof(&self, statement: &TeamStatement) -> bool {
        self.keys.iter().any(|held| statement.proves(&held.key, held.number))
    }

    /// Whether an owner has a newer key that this machine has not received.
    fn is_outdated(&self, statements: &[TeamStatement]) -> bool {
        let Ok((current, key)) = self.current() else { return false };
        let has_newer =
            |statement: &TeamStatement| statement.proofs.values().any(|(number, _)| *number > current);
        let of_owners = statements.iter().filter(|statement| self.owns(&statement.device));
        of_owners.filter(|statement| statement.proves(&key, current)).any(has_newer)
    }

    /// The machines to which owners with the current key have given a key.
    fn vouched(&self, statements: &[TeamStatement]) -> BTreeSet<DeviceId> {
        let Ok((number, key)) = self.current() else { return BTreeSet::new() };
        let owners = statements
            .iter()
            .filter(|statement| self.owns(&statement.device) && statement.proves(&key, number));
        let given = owners.flat_map(|statement| &statement.wrapped).chain(&self.wrapped);
        given.map(|wrapped| wrapped.to.clone()).collect()
    }

    /// Whether a machine is a member. An older key suffices only if an owner has given the machine a key: a removed machine has
    /// an older key, too, and may take another name.
    fn counts(&self, statement: &TeamStatement, vouched: &BTreeSet<DeviceId>) -> bool {
        self.current().is_ok_and(|(number, key)| statement.proves(&key, number))
            || vouched.contains(&statement.device) && self.has_proof(statement)
    }

    /// Whether a machine may admit and remove others.
    pub fn owns(&self, device: &DeviceId) -> bool {
        self.owners.contains(device) && !self.removed.contains_key(device)
    }

    /// Adds the machines that owners have named, and those that these have named in turn.
    fn take_owners(&mut self, statements: &[TeamStatement]) -> Result<(), TeamError> {
        let (number, key) = self.current()?;
        loop {
            let before = self.owners.len();
            let naming = statements
                .iter()
                .filter(|statement| self.owns(&statement.device) && statement.proves(&key, number));
            let named: Vec<DeviceId> =
                naming.flat_map(|statement| statement.owners.iter().cloned()).collect();
            self.owners.extend(named);
            if self.owners.len() == before {
                return Ok(());
            }
        }
    }

    /// Makes a machine an owner.
    pub fn name_owner(
        &mut self,
        device: &Device,
        statements: &[TeamStatement],
        named: &DeviceId,
    ) -> Result<(), TeamError> {
        self.keep_up(device, statements)?;
        if !self.owns(&device.id) {
            return Err(TeamError::NotOwner);
        }
        self.owners.insert(named.clone());
        Ok(())
    }

    /// Makes all members owners, if this machine may: all belong to one person.
    pub fn name_members(&mut self, device: &Device, standings: &Standings) {
        if self.owns(&device.id) {
            self.owners.extend(standings.members.iter().cloned());
        }
    }

    /// The machines that owners with the current key have removed. The set is kept, because owners may lack the next
    /// key.
    fn removed_by_owners(
        &self,
        device: &Device,
        statements: &[TeamStatement],
    ) -> Result<BTreeMap<DeviceId, Upto>, TeamError> {
        let (number, key) = self.current()?;
        let mut claims: BTreeMap<&DeviceId, &BTreeMap<DeviceId, Upto>> = BTreeMap::new();
        let owners = statements.iter().filter(|statement| self.owners.contains(&statement.device));
        for statement in owners.filter(|statement| statement.proves(&key, number)) {
            claims.insert(&statement.device, &statement.removed);
        }
        claims.insert(&device.id, &self.removed);
        let mut removed: BTreeMap<DeviceId, Upto> = BTreeMap::new();
        for (by, of) in &claims {
            for (device, upto) in *of {
                let has_power = self.owners.contains(*by);
                if has_power && claims.get(device).is_some_and(|back| back.contains_key(*by)) {
                    return Err(TeamError::RemovedEachOther);
                }
                let known = removed.entry(device.clone()).or_default();
                for (space, seq) in upto {
                    let most = known.entry(space.clone()).or_default();
                    *most = (*most).max(*seq);
                }
            }
        }
        Ok(removed)
    }

    fn wrap_for_members(
        &mut self,
        device: &Device,
        members: &[&TeamStatement],
        removed: &BTreeMap<DeviceId, Upto>,
    ) -> Result<(), TeamError> {
        let (number, key) = self.current()?;
        let name = key.name();
        let has_current = |statement: &&&TeamStatement| statement.proves(&key, number);
        // Usually no member lacks it, and a team may be large.
        let is_behind =
            |statement: &&&TeamStatement| !removed.contains_key(&statement.device) && !has_current(statement);
        let behind: Vec<&&TeamStatement> = members.iter().filter(is_behind).collect();
        if behind.is_empty() {
            return Ok(());
        }
        let givers: Vec<&&TeamStatement> = members.iter().filter(has_current).collect();
        let is_given = |to: &DeviceId, wrapped: &[WrappedKey]| {
            wrapped.iter().any(|one| one.to == *to && one.key == name)
        };
        for statement in behind {
            let by_others = givers.iter().any(|giver| is_given(&statement.device, &giver.wrapped));
            if !by_others && !is_given(&statement.device, &self.wrapped) {
                self.wrap_for(device, statement, None)?;
            }
        }
        Ok(())
    }

    /// Wraps the current key for a machine that has asked with this code.
    pub fn let_in(
        &mut self,
        device: &Device,
        asking: &TeamStatement,
        code: &InvitationCode,
    ) -> Result<(), TeamError> {
        if !self.owns(&device.id) {
            return Err(TeamError::NotOwner);
        }
        self.wrap_for(device, asking, Some(&code.key))
    }

    fn wrap_for(
        &mut self,
        device: &Device,
        to: &TeamStatement,
        code: Option<&SealingKey>,
    ) -> Result<(), TeamError> {
        let (number, key) = self.current()?;
        let own = StaticSecret::from(*SealingKey::random()?.bytes());
        let Some(theirs) = unhex(&to.exchange).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) else {
            return Err(TeamError::NoSuchMember(to.device.short().to_owned()));
        };
        let via = hex(PublicKey::from(&own).as_bytes());
        let shared = own.diffie_hellman(&PublicKey::from(theirs));
        let seal = wrapping_key(shared.as_bytes(), code);
        let place = [self.remote.as_str(), &device.id.0, &to.device.0, &via];
        let inside = serde_json::json!([number, hex(key.bytes())]).to_string();
        let sealed = seal.seal(&place, &inside)?;
        self.wrapped.retain(|one| one.to != to.device);
        self.wrapped.push(WrappedKey { to: to.device.clone(), key: key.name(), via, sealed });
        Ok(())
    }

    /// Takes a key that was wrapped for this machine, if it is new. Two simultaneous removals make two keys with one
    /// number.
    fn unwrap_key(
        &mut self,
        statement: &TeamStatement,
        device: &Device,
        code: Option<&SealingKey>,
    ) -> Option<()> {
        let wrapped = statement.wrapped.iter().find(|one| one.to == device.id)?;
        let via: [u8; 32] = unhex(&wrapped.via)?.try_into().ok()?;
        let shared = exchange_of(device).diffie_hellman(&PublicKey::from(via));
        let place = [self.remote.as_str(), &statement.device.0, &device.id.0, &wrapped.via];
        let inside = wrapping_key(shared.as_bytes(), code).open(&place, &wrapped.sealed).ok()?;
        let (number, key): (u32, String) = serde_json::from_str(&inside).ok()?;
        let key = SealingKey::from_bytes(&unhex(&key)?)?;
        let is_newer = self.keys.last().is_none_or(|last| last.number <= number);
        (is_newer && key.name() == wrapped.key).then(|| self.hold(number, &key))
    }

    /// Takes the keys that are older than one that this machine has.
    fn take_older(&mut self, statement: &TeamStatement) {
        let Some((name, sealed)) = &statement.older else { return };
        let Some(Held { number, key }) = self.held(name).cloned() else { return };
        let place = [self.remote.as_str(), &statement.device.0, "older"];
        let Ok(inside) = key.open(&place, sealed) else { return };
        let older: Vec<Held> = serde_json::from_str(&inside).unwrap_or_default();
        for held in older.into_iter().filter(|held| held.number <= number) {
            self.hold(held.number, &held.key);
        }
    }

    /// Removes a machine: makes a new key, and wraps it for all others.
    pub fn remove(
        &mut self,
        device: &Device,
        statements: &[TeamStatement],
        gone: &DeviceId,
        upto: Upto,
    ) -> Result<(), TeamError> {
        self.keep_up(device, statements)?;
        if !self.owns(&device.id) {
            return Err(TeamError::NotOwner);
        }
        self.exclude(device, statements, BTreeMap::from([(gone.clone(), upto)]))
    }

    /// Makes a new key, which these machines do not get.
    fn exclude(
        &mut self,
        device: &Device,
        statements: &[TeamStatement],
        gone: BTreeMap<DeviceId, Upto>,
    ) -> Result<(), TeamError> {
        let vouched = self.vouched(statements);
        let having =
            |statement: &&TeamStatement| statement.device != device.id && self.counts(statement, &vouched);
        let having: Vec<&TeamStatement> = statements.iter().filter(having).collect();
        self.removed.extend(gone);
        let (number, _) = self.current()?;
        self.hold(number.saturating_add(1), &SealingKey::random()?);
        self.wrapped.clear();
        for statement in having {
            if !self.removed.contains_key(&statement.device) {
                self.wrap_for(device, statement, None)?;
            }
        }
        Ok(())
    }

    /// Composes this machine's statement.
    pub fn statement(&self, device: &Device, author: &str, name: &str) -> Result<TeamStatement, TeamError> {
        let (_, current) = self.current()?;
        let mut statement = TeamStatement::bare(&self.remote, device);
        let sealed = |what: &str, text: &str| {
            let sealed = current.seal(&[&self.remote, &device.id.0, what], text)?;
            Ok::<_, NoRandomness>(Some((current.name(), sealed)))
        };
        statement.who = sealed("who", &serde_json::json!([author, name]).to_string())?;
        statement.older = match self.keys.split_last() {
            Some((_, older)) if !older.is_empty() => {
                sealed("older", &serde_json::to_string(older).unwrap_or_default())?
            }
            _ => None,
        };
        statement.proofs = self
            .keys
            .iter()
            .map(|Held { number, key }| (key.name(), (*number, statement.proof(key, *number))))
            .collect();
        statement.wrapped.clone_from(&self.wrapped);
        statement.removed.clone_from(&self.removed);
        statement.owners.clone_from(&self.owners);
        statement.restricted.clone_from(&self.restricted);
        statement.named.clone_from(&self.named);
        statement.before.clone_from(&self.before);
        Ok(statement)
    }

    /// Whether a stored statement equals the one that this machine would write now.
    pub fn is_unchanged(&self, stored: &TeamStatement, now: &TeamStatement) -> bool {
        let opened = |statement: &TeamStatement| {
            (self.names(statement), statement.older.as_ref().map(|(key, _)| key.clone()))
        };
        let without =
            |statement: &TeamStatement| TeamStatement { who: None, older: None, ..statement.clone() };
        opened(stored) == opened(now) && without(stored) == without(now)
    }

    fn names(&self, statement: &TeamStatement) -> Option<(String, String)> {
        let (name, sealed) = statement.who.as_ref()?;
        let names = self.held(name)?.key.open(&[&self.remote, &statement.device.0, "who"], sealed).ok()?;
        serde_json::from_str(&names).ok()
    }

    /// Lists all machines that have or had a key.
    pub fn members(&self, device: &Device, statements: &[TeamStatement]) -> Result<Vec<Member>, TeamError> {
        let mut known = self.clone();
        known.take_owners(statements)?;
        let removed = known.removed_by_owners(device, statements)?;
        let vouched = known.vouched(statements);
        let (number, current) = self.current()?;
        let member = |statement: &TeamStatement| {
            let standing = match () {
                () if removed.contains_key(&statement.device) => MemberState::Removed,
                () if statement.proves(&current, number) => MemberState::Member,
                () if known.counts(statement, &vouched) => MemberState::Behind,
                () => return None,
            };
            let (author, name) = self.names(statement).unwrap_or_default();
            let role =
                if known.owners.contains(&statement.device) { TeamRole::Owner } else { TeamRole::Writer };
            Some(Member { device: statement.device.clone(), author, name, standing, role })
        };
        Ok(statements.iter().filter_map(member).collect())
    }
}

/// The owners that more than half of these statements name. A single machine could name itself.
fn owners_of_most(statements: &[&TeamStatement]) -> BTreeSet<DeviceId> {
    let mut named: BTreeMap<&DeviceId, usize> = BTreeMap::new();
    for owner in statements.iter().flat_map(|statement| &statement.owners) {
        *named.entry(owner).or_default() += 1;
    }
    let of_most = named.into_iter().filter(|(_, by)| by * 2 > statements.len());
    of_most.map(|(owner, _)| owner.clone()).collect()
}

/// Derives the key that wraps a key, from the shared secret and the code if there is one.
fn wrapping_key(shared: &[u8; 32], code: Option<&SealingKey>) -> SealingKey {
    let code = code.map(|code| hex(code.bytes())).unwrap_or_default();
    SealingKey::of(*shared).derived(&["wrapped", &code])
}

#[cfg(test)]
mod tests;
