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

pub mod readers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bip39::{Language, Mnemonic};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use x25519_dalek::{PublicKey, StaticSecret};

use super::device::{Device, is_signed};
use super::hex::{hex, unhex};
use super::key::{NoRandomness, SealingKey};
use super::sealed::SpaceKeys;
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::space_of;
use recall_system::trusted_file::{self, Links};

const MOST_BYTES: u64 = 1024 * 1024;
/// Size in bytes of a code that admits one machine.
const CODE: usize = 16;
/// The number of words that two people compare.
const COMPARED: usize = 6;

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

/// A machine's statement about the team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamStatement {
    remote: String,
    pub device: DeviceId,
    public: String,
    /// Its public key, with which others wrap keys for it.
    exchange: String,
    /// The name of a key, and the author's names sealed with that key.
    who: Option<(String, String)>,
    /// For each key that it has, by name: its number, and a proof that only its holders can make.
    proofs: BTreeMap<String, (u32, String)>,
    /// The name of the current key, and the earlier keys sealed with it.
    older: Option<(String, String)>,
    wrapped: Vec<WrappedKey>,
    removed: BTreeMap<DeviceId, Upto>,
    owners: BTreeSet<DeviceId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    restricted: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    named: BTreeSet<DeviceId>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    before: BTreeMap<DeviceId, u64>,
    /// A request for admission with a code.
    asks: Option<String>,
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

/// Why a machine cannot read or write for the team.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TeamError {
    #[error(
        "the remote is encrypted, and this machine has no key: create a team with `recall team init REMOTE`, or enter one with `recall team join REMOTE`"
    )]
    NoKey,
    #[error("this machine's key is not the key of this team; nothing was written")]
    OtherKey,
    #[error("this machine was removed from the team")]
    Removed,
    #[error(
        "the team has a newer key, which this machine has not received yet: wait for a round of an owner's machine, or join \
         again with `recall team leave REMOTE` and `recall team join REMOTE`"
    )]
    NotGiven,
    #[error("two members have removed each other: create a new team with `recall team init REMOTE`")]
    RemovedEachOther,
    #[error("the team already exists: join it with `recall team join REMOTE`")]
    Exists,
    #[error("there is no team yet: create one with `recall team init REMOTE`")]
    NoTeam,
    #[error("these are not the words of a team or of an invitation: a word is wrong, or one is missing")]
    Words,
    #[error("these words belong to another team, or the team now has a newer key")]
    OtherWords,
    #[error(
        "only an owner of the team may do this: the machine that created it, or one that an owner has named"
    )]
    NotOwner,
    #[error(
        "the members do not agree on who owns the team: join with an invitation from somebody whom you know"
    )]
    OwnersDiffer,
    #[error(
        "only some machines may read this project, and this one is not among them: an owner among them can name it"
    )]
    NotReader,
    #[error("two owners have removed each other from this project: share it through another remote")]
    TookOutEachOther,
    #[error("an owner whom this machine does not know has restricted this project")]
    RestrictedAlready,
    #[error(
        "two owners have restricted this project in different ways: agree who may read it, and share it through another remote"
    )]
    RestrictedTwice,
    #[error("the machine {0} was removed from this project, and can join again only as a new machine")]
    TakenOut(String),
    #[error("no other member matches {0:?}")]
    NoSuchMember(String),
    #[error("several members match {0:?}")]
    SeveralMembers(String),
    #[error("the remote's name is not valid")]
    Remote,
    #[error("the team's file cannot be used: {0}")]
    File(String),
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// Words that admit a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryWords {
    /// The team's own key.
    Recovery(SealingKey),
    /// A code for one machine.
    Code(InvitationCode),
}

/// A code that admits one machine. People pass it on to each other, never through the remote. Its `Debug` output
/// hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct InvitationCode {
    key: SealingKey,
    words: String,
}

impl std::fmt::Debug for InvitationCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Code(…)")
    }
}

impl InvitationCode {
    pub fn random() -> Result<Self, TeamError> {
        let random = SealingKey::random()?;
        Self::of(random.bytes().get(..CODE).unwrap_or_default())
    }

    fn of(entropy: &[u8]) -> Result<Self, TeamError> {
        let words = Mnemonic::from_entropy(entropy).map_err(|_| TeamError::Words)?.to_string();
        let key = [entropy, b"recall-code-1..."].concat();
        let key = SealingKey::from_bytes(&key).ok_or(TeamError::Words)?.derived(&["code"]);
        Ok(Self { key, words })
    }

    pub fn words(&self) -> &str {
        &self.words
    }

    /// Words that both sides see if nobody intercepts the exchange.
    pub fn compared(&self, asking: &TeamStatement) -> String {
        let key = self.key.derived(&["compare", &asking.remote, &asking.device.0, &asking.exchange]);
        let words = Mnemonic::from_entropy(key.bytes()).map(|words| words.to_string()).unwrap_or_default();
        words.split(' ').take(COMPARED).collect::<Vec<_>>().join(" ")
    }
}

impl EntryWords {
    /// Reads the 24 words of a team, or the 12 of an invitation.
    pub fn read(words: &str) -> Result<Self, TeamError> {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let read = Mnemonic::parse_in_normalized(Language::English, &words).map_err(|_| TeamError::Words)?;
        let entropy = read.to_entropy();
        match entropy.len() {
            CODE => Ok(Self::Code(InvitationCode::of(&entropy)?)),
            _ => SealingKey::from_bytes(&entropy).map(Self::Recovery).ok_or(TeamError::Words),
        }
    }
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
        if statements.iter().any(|said| !said.proofs.is_empty()) {
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
        if statements.iter().all(|said| said.proofs.is_empty()) {
            return Err(TeamError::NoTeam);
        }
        let proven = statements.iter().find_map(|said| {
            let (number, _) = said.proofs.get(&name)?;
            said.proves(key, *number).then_some(*number)
        });
        let number = proven.ok_or(TeamError::OtherWords)?;
        let having: Vec<&TeamStatement> = statements.iter().filter(|said| said.proves(key, number)).collect();
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
        let gives = |said: &&TeamStatement| {
            said.owners.contains(&said.device) && team.unwrap_key(said, device, Some(&code.key)).is_some()
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
            let givers = statements.iter().filter(|said| !self.removed.contains_key(&said.device));
            let givers: Vec<&TeamStatement> =
                givers.filter(|said| self.owners.contains(&said.device) && self.has_proof(said)).collect();
            for said in givers {
                self.unwrap_key(said, device, None);
                self.take_older(said);
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
        let others: Vec<&TeamStatement> = statements.iter().filter(|said| said.device != device.id).collect();
        if self.is_outdated(statements) {
            return Err(TeamError::NotGiven);
        }
        let vouched = self.vouched(statements);
        let members: Vec<&TeamStatement> =
            others.iter().filter(|said| self.counts(said, &vouched)).copied().collect();
        // Never write with a wrong key. A machine that has proved its key here is not stopped by others' claims.
        let is_known = statements.iter().any(|said| said.device == device.id && self.has_proof(said));
        // Whoever has a key names owners. Of the readers of a project those do whose words count.
        let has_other = |said: &&TeamStatement| !said.proofs.is_empty() && !said.owners.is_empty();
        if !is_known && members.is_empty() && others.iter().any(has_other) {
            return Err(TeamError::OtherKey);
        }
        if self.owns(&device.id) {
            self.wrap_for_members(device, &members, &removed)?;
        }
        let members = members.into_iter().map(|said| said.device.clone()).collect();
        Ok(Standings { members, removed, before: BTreeMap::new() })
    }

    /// Whether a machine proves that it has any key of this team.
    fn has_proof(&self, said: &TeamStatement) -> bool {
        self.keys.iter().any(|held| said.proves(&held.key, held.number))
    }

    /// Whether an owner has a newer key that this machine has not received.
    fn is_outdated(&self, statements: &[TeamStatement]) -> bool {
        let Ok((current, key)) = self.current() else { return false };
        let has_newer = |said: &TeamStatement| said.proofs.values().any(|(number, _)| *number > current);
        let of_owners = statements.iter().filter(|said| self.owns(&said.device));
        of_owners.filter(|said| said.proves(&key, current)).any(has_newer)
    }

    /// The machines to which owners with the current key have given a key.
    fn vouched(&self, statements: &[TeamStatement]) -> BTreeSet<DeviceId> {
        let Ok((number, key)) = self.current() else { return BTreeSet::new() };
        let owners = statements.iter().filter(|said| self.owns(&said.device) && said.proves(&key, number));
        let given = owners.flat_map(|said| &said.wrapped).chain(&self.wrapped);
        given.map(|wrapped| wrapped.to.clone()).collect()
    }

    /// Whether a machine is a member. An older key suffices only if an owner has given the machine a key: a removed machine has
    /// an older key, too, and may take another name.
    fn counts(&self, said: &TeamStatement, vouched: &BTreeSet<DeviceId>) -> bool {
        self.current().is_ok_and(|(number, key)| said.proves(&key, number))
            || vouched.contains(&said.device) && self.has_proof(said)
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
            let naming =
                statements.iter().filter(|said| self.owns(&said.device) && said.proves(&key, number));
            let named: Vec<DeviceId> = naming.flat_map(|said| said.owners.iter().cloned()).collect();
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
        let owners = statements.iter().filter(|said| self.owners.contains(&said.device));
        for said in owners.filter(|said| said.proves(&key, number)) {
            claims.insert(&said.device, &said.removed);
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
        let has_current = |said: &&&TeamStatement| said.proves(&key, number);
        // Usually no member lacks it, and a team may be large.
        let is_behind = |said: &&&TeamStatement| !removed.contains_key(&said.device) && !has_current(said);
        let behind: Vec<&&TeamStatement> = members.iter().filter(is_behind).collect();
        if behind.is_empty() {
            return Ok(());
        }
        let givers: Vec<&&TeamStatement> = members.iter().filter(has_current).collect();
        let is_given = |to: &DeviceId, wrapped: &[WrappedKey]| {
            wrapped.iter().any(|one| one.to == *to && one.key == name)
        };
        for said in behind {
            let by_others = givers.iter().any(|giver| is_given(&said.device, &giver.wrapped));
            if !by_others && !is_given(&said.device, &self.wrapped) {
                self.wrap_for(device, said, None)?;
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
    fn unwrap_key(&mut self, said: &TeamStatement, device: &Device, code: Option<&SealingKey>) -> Option<()> {
        let wrapped = said.wrapped.iter().find(|one| one.to == device.id)?;
        let via: [u8; 32] = unhex(&wrapped.via)?.try_into().ok()?;
        let shared = exchange_of(device).diffie_hellman(&PublicKey::from(via));
        let place = [self.remote.as_str(), &said.device.0, &device.id.0, &wrapped.via];
        let inside = wrapping_key(shared.as_bytes(), code).open(&place, &wrapped.sealed).ok()?;
        let (number, key): (u32, String) = serde_json::from_str(&inside).ok()?;
        let key = SealingKey::from_bytes(&unhex(&key)?)?;
        let is_newer = self.keys.last().is_none_or(|last| last.number <= number);
        (is_newer && key.name() == wrapped.key).then(|| self.hold(number, &key))
    }

    /// Takes the keys that are older than one that this machine has.
    fn take_older(&mut self, said: &TeamStatement) {
        let Some((name, sealed)) = &said.older else { return };
        let Some(Held { number, key }) = self.held(name).cloned() else { return };
        let place = [self.remote.as_str(), &said.device.0, "older"];
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
        let having = |said: &&TeamStatement| said.device != device.id && self.counts(said, &vouched);
        let having: Vec<&TeamStatement> = statements.iter().filter(having).collect();
        self.removed.extend(gone);
        let (number, _) = self.current()?;
        self.hold(number.saturating_add(1), &SealingKey::random()?);
        self.wrapped.clear();
        for said in having {
            if !self.removed.contains_key(&said.device) {
                self.wrap_for(device, said, None)?;
            }
        }
        Ok(())
    }

    /// Composes this machine's statement.
    pub fn statement(&self, device: &Device, author: &str, name: &str) -> Result<TeamStatement, TeamError> {
        let (_, current) = self.current()?;
        let mut said = TeamStatement::bare(&self.remote, device);
        let sealed = |what: &str, text: &str| {
            let sealed = current.seal(&[&self.remote, &device.id.0, what], text)?;
            Ok::<_, NoRandomness>(Some((current.name(), sealed)))
        };
        said.who = sealed("who", &serde_json::json!([author, name]).to_string())?;
        said.older = match self.keys.split_last() {
            Some((_, older)) if !older.is_empty() => {
                sealed("older", &serde_json::to_string(older).unwrap_or_default())?
            }
            _ => None,
        };
        said.proofs = self
            .keys
            .iter()
            .map(|Held { number, key }| (key.name(), (*number, said.proof(key, *number))))
            .collect();
        said.wrapped.clone_from(&self.wrapped);
        said.removed.clone_from(&self.removed);
        said.owners.clone_from(&self.owners);
        said.restricted.clone_from(&self.restricted);
        said.named.clone_from(&self.named);
        said.before.clone_from(&self.before);
        Ok(said)
    }

    /// Whether a stored statement equals the one that this machine would write now.
    pub fn is_said(&self, said: &TeamStatement, now: &TeamStatement) -> bool {
        let opened =
            |said: &TeamStatement| (self.names(said), said.older.as_ref().map(|(key, _)| key.clone()));
        let without = |said: &TeamStatement| TeamStatement { who: None, older: None, ..said.clone() };
        opened(said) == opened(now) && without(said) == without(now)
    }

    fn names(&self, said: &TeamStatement) -> Option<(String, String)> {
        let (name, sealed) = said.who.as_ref()?;
        let names = self.held(name)?.key.open(&[&self.remote, &said.device.0, "who"], sealed).ok()?;
        serde_json::from_str(&names).ok()
    }

    /// Lists all machines that have or had a key.
    pub fn members(&self, device: &Device, statements: &[TeamStatement]) -> Result<Vec<Member>, TeamError> {
        let mut known = self.clone();
        known.take_owners(statements)?;
        let removed = known.removed_by_owners(device, statements)?;
        let vouched = known.vouched(statements);
        let (number, current) = self.current()?;
        let member = |said: &TeamStatement| {
            let standing = match () {
                () if removed.contains_key(&said.device) => MemberState::Removed,
                () if said.proves(&current, number) => MemberState::Member,
                () if known.counts(said, &vouched) => MemberState::Behind,
                () => return None,
            };
            let (author, name) = self.names(said).unwrap_or_default();
            let role = if known.owners.contains(&said.device) { TeamRole::Owner } else { TeamRole::Writer };
            Some(Member { device: said.device.clone(), author, name, standing, role })
        };
        Ok(statements.iter().filter_map(member).collect())
    }

    /// Locks the team files against other processes until the result is dropped. Blocks.
    pub fn lock(data: &Path) -> Result<File, TeamError> {
        let folder = data.join("teams");
        let locked = std::fs::create_dir_all(&folder).and_then(|()| {
            let file = File::options().create(true).truncate(false).write(true).open(folder.join("lock"))?;
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        locked.map_err(|error| TeamError::File(format!("{}: {error}", folder.display())))
    }

    /// Loads the file of a remote's team. Returns `None` if this machine is not in one.
    pub fn load(data: &Path, remote: &str) -> Result<Option<Self>, TeamError> {
        let path = file_of(data, remote)?;
        match trusted_file::read_text(&path, Links::Refused, MOST_BYTES) {
            Ok(text) => {
                serde_json::from_str(&text).map(Some).map_err(|error| TeamError::File(error.to_string()))
            }
            Err(why) if why.is_absence() => Ok(None),
            Err(why) => Err(TeamError::File(why.to_string())),
        }
    }

    /// Writes the file, readable only by this user.
    pub fn save(&self, data: &Path) -> Result<(), TeamError> {
        let path = file_of(data, &self.remote)?;
        self.write(&path).map_err(|error| TeamError::File(format!("{}: {error}", path.display())))
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        // Temporary files are private to the user.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(serde_json::to_string(self)?.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    }

    /// Deletes the file. From then on this machine has no key.
    pub fn discard(data: &Path, remote: &str) -> Result<(), TeamError> {
        let path = file_of(data, remote)?;
        std::fs::remove_file(&path).map_err(|error| TeamError::File(format!("{}: {error}", path.display())))
    }
}

impl TeamStatement {
    fn bare(remote: &str, device: &Device) -> Self {
        Self {
            remote: remote.to_owned(),
            device: device.id.clone(),
            public: device.public_key(),
            exchange: hex(PublicKey::from(&exchange_of(device)).as_bytes()),
            who: None,
            proofs: BTreeMap::new(),
            older: None,
            wrapped: Vec::new(),
            removed: BTreeMap::new(),
            owners: BTreeSet::new(),
            restricted: BTreeSet::new(),
            named: BTreeSet::new(),
            before: BTreeMap::new(),
            asks: None,
        }
    }

    /// Composes the statement of a machine that asks for admission with a code.
    pub fn asking(
        remote: &str,
        device: &Device,
        code: &InvitationCode,
        author: &str,
        name: &str,
    ) -> Result<Self, TeamError> {
        let mut said = Self::bare(remote, device);
        let names = serde_json::json!([author, name]).to_string();
        said.who = Some((String::new(), code.key.seal(&[remote, &device.id.0, "who"], &names)?));
        said.asks = Some(said.ask(code));
        Ok(said)
    }

    fn ask(&self, code: &InvitationCode) -> String {
        hex(code.key.derived(&["ask", &self.remote, &self.device.0, &self.exchange]).bytes())
    }

    /// The author and name of the machine that asks with this code; `None` if it is not this one.
    pub fn asks_with(&self, code: &InvitationCode) -> Option<(String, String)> {
        let (_, who) = self.who.as_ref()?;
        if self.asks.as_ref() != Some(&self.ask(code)) {
            return None;
        }
        let names = code.key.open(&[&self.remote, &self.device.0, "who"], who).ok()?;
        serde_json::from_str(&names).ok()
    }

    /// A proof for this machine that only holders of a key can make.
    fn proof(&self, key: &SealingKey, number: u32) -> String {
        let number = number.to_string();
        hex(key.derived(&["proof", &self.remote, &self.device.0, &self.exchange, &number]).bytes())
    }

    fn proves(&self, key: &SealingKey, number: u32) -> bool {
        self.proofs.get(&key.name()) == Some(&(number, self.proof(key, number)))
    }

    /// Encodes the signed text.
    pub fn encode(&self, device: &Device) -> serde_json::Result<String> {
        let body = serde_json::to_string(self)?;
        let signature = device.sign(&signed(&body));
        Ok(format!("{body}\n{signature}\n"))
    }

    /// Decodes a machine's text. Returns `None` if it did not sign it, or if it is about another remote.
    pub fn decode(text: &str, remote: &str, device: &DeviceId) -> Option<Self> {
        let (body, signature) = text.trim_end().split_once('\n')?;
        let said: Self = serde_json::from_str(body).ok()?;
        let is_its = said.remote == remote
            && said.device == *device
            && is_signed(device, &said.public, &signed(body), signature);
        is_its.then_some(said)
    }
}

/// The owners that more than half of these statements name. A single machine could name itself.
fn owners_of_most(statements: &[&TeamStatement]) -> BTreeSet<DeviceId> {
    let mut named: BTreeMap<&DeviceId, usize> = BTreeMap::new();
    for owner in statements.iter().flat_map(|said| &said.owners) {
        *named.entry(owner).or_default() += 1;
    }
    let of_most = named.into_iter().filter(|(_, by)| by * 2 > statements.len());
    of_most.map(|(owner, _)| owner.clone()).collect()
}

fn signed(body: &str) -> String {
    // No log or progress file begins like this.
    format!("team\n{body}")
}

/// The key pair with which a machine receives keys.
fn exchange_of(device: &Device) -> StaticSecret {
    StaticSecret::from(*device.derived("recall-exchange-1").bytes())
}

/// Derives the key that wraps a key, from the shared secret and the code if there is one.
fn wrapping_key(shared: &[u8; 32], code: Option<&SealingKey>) -> SealingKey {
    let code = code.map(|code| hex(code.bytes())).unwrap_or_default();
    SealingKey::of(*shared).derived(&["wrapped", &code])
}

fn file_of(data: &Path, remote: &str) -> Result<PathBuf, TeamError> {
    // The remote chooses its name, so it is not trusted.
    let is_name =
        !remote.is_empty() && remote.len() <= 64 && remote.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_name { Ok(data.join("teams").join(format!("{remote}.json"))) } else { Err(TeamError::Remote) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: &str = "remote";

    /// A machine of a test, and a place where all of them say what they know.
    struct Machine {
        device: Device,
        team: Team,
    }

    #[derive(Default)]
    struct Place(BTreeMap<DeviceId, TeamStatement>);

    impl Place {
        fn all(&self) -> Vec<TeamStatement> {
            self.0.values().cloned().collect()
        }

        fn put(&mut self, said: TeamStatement, by: &Device) {
            let text = said.encode(by).unwrap();
            self.0.insert(by.id.clone(), TeamStatement::decode(&text, REMOTE, &by.id).unwrap());
        }

        fn round(&mut self, machine: &mut Machine) -> Result<Standings, TeamError> {
            let standings = machine.team.keep_up(&machine.device, &self.all())?;
            self.put(machine.team.statement(&machine.device, "a", "d").unwrap(), &machine.device);
            Ok(standings)
        }
    }

    fn device(home: &tempfile::TempDir, name: &str) -> Device {
        Device::load_or_create(&home.path().join(name)).unwrap()
    }

    fn begin(home: &tempfile::TempDir, place: &mut Place) -> Machine {
        let device = device(home, "first");
        let mut machine = Machine { team: Team::begin(REMOTE, &device.id, &place.all()).unwrap(), device };
        place.round(&mut machine).unwrap();
        machine
    }

    /// Lets a machine in by a code, as two persons do.
    fn enter(home: &tempfile::TempDir, name: &str, place: &mut Place, by: &mut Machine) -> Machine {
        let device = device(home, name);
        let code = InvitationCode::random().unwrap();
        let EntryWords::Code(told) = EntryWords::read(code.words()).unwrap() else { panic!("a code") };
        place.put(TeamStatement::asking(REMOTE, &device, &told, name, "d").unwrap(), &device);
        assert_eq!(Team::joined(REMOTE, &told, &device, &place.all()), None);
        let asking = place.0[&device.id].clone();
        assert_eq!(asking.asks_with(&InvitationCode::random().unwrap()), None);
        assert_eq!(asking.asks_with(&code), Some((name.to_owned(), "d".to_owned())));
        assert_eq!(code.compared(&asking), told.compared(&asking));
        by.team.let_in(&by.device, &asking, &code).unwrap();
        place.round(by).unwrap();
        assert_eq!(Team::joined(REMOTE, &InvitationCode::random().unwrap(), &device, &place.all()), None);
        let team = Team::joined(REMOTE, &told, &device, &place.all()).unwrap();
        let mut machine = Machine { device, team };
        place.round(&mut machine).unwrap();
        machine
    }

    /// The first names the other an owner, and it hears of it.
    fn own(place: &mut Place, by: &mut Machine, named: &mut Machine) {
        by.team.name_owner(&by.device, &place.all(), &named.device.id).unwrap();
        place.round(by).unwrap();
        place.round(named).unwrap();
    }

    fn standing(of: &Machine, place: &Place, other: &Machine) -> Option<MemberState> {
        let members = of.team.members(&of.device, &place.all()).unwrap();
        members.into_iter().find(|member| member.device == other.device.id).map(|member| member.standing)
    }

    #[test]
    fn a_code_lets_one_machine_in_and_the_words_of_a_team_any() {
        let home = tempfile::tempdir().unwrap();
        let mut place = Place::default();
        let mut first = begin(&home, &mut place);
        assert_eq!(Team::begin(REMOTE, &first.device.id, &place.all()), Err(TeamError::Exists));
        let second = enter(&home, "second", &mut place, &mut first);
        assert_eq!(first.team.current().unwrap(), second.team.current().unwrap());
        assert_eq!(standing(&first, &place, &second), Some(MemberState::Member));
        let words = second.team.words().unwrap();
        assert_eq!(words.split(' ').count(), 24);
        let EntryWords::Recovery(key) = EntryWords::read(&words.to_uppercase()).unwrap() else {
            panic!("a key")
        };
        let third = Team::recovered(REMOTE, &key, &place.all()).unwrap();
        assert_eq!(third.current().unwrap(), first.team.current().unwrap());
        let other = SealingKey::random().unwrap();
        assert_eq!(Team::recovered(REMOTE, &other, &place.all()), Err(TeamError::OtherWords));
        assert_eq!(Team::recovered(REMOTE, &key, &[]), Err(TeamError::NoTeam));
        for wrong in ["", "abandon", &words.replacen(' ', " zoo ", 1)] {
            assert_eq!(EntryWords::read(wrong), Err(TeamError::Words), "{wrong}");
        }
        // A machine with the key of another team writes nothing.
        let x = device(&home, "x");
        let mut stranger = Machine { team: Team::begin(REMOTE, &x.id, &[]).unwrap(), device: x };
        assert_eq!(place.round(&mut stranger).unwrap_err(), TeamError::OtherKey);
    }

    #[test]
    fn no_debug_output_shows_a_key_or_a_code() {
        let team = Team::begin(REMOTE, &DeviceId::default(), &[]).unwrap();
        let code = InvitationCode::random().unwrap();
        let shown = format!("{team:?} {code:?} {:?}", EntryWords::Code(code.clone()));
        assert!(!shown.contains(&hex(team.keys[0].key.bytes())), "{shown}");
        assert!(!shown.contains(code.words()), "{shown}");
        assert!(!shown.contains(&format!("{:?}", team.keys[0].key.bytes())), "{shown}");
    }

    #[test]
    fn whoever_is_removed_gets_no_new_key_and_cannot_give_one() {
        let home = tempfile::tempdir().unwrap();
        let mut place = Place::default();
        let mut first = begin(&home, &mut place);
        let mut second = enter(&home, "second", &mut place, &mut first);
        own(&mut place, &mut first, &mut second);
        let mut third = enter(&home, "third", &mut place, &mut second);
        place.round(&mut first).unwrap();
        let old = first.team.current().unwrap();
        let upto = Upto::from([("space".to_owned(), 3)]);
        first.team.remove(&first.device, &place.all(), &third.device.id, upto).unwrap();
        place.put(first.team.statement(&first.device, "a", "d").unwrap(), &first.device);
        // The removed one makes a key of its own, and offers it to all.
        let own = third.team.clone();
        third.team.hold(9, &SealingKey::random().unwrap());
        for other in [&first, &second] {
            let said = place.0[&other.device.id].clone();
            third.team.wrap_for(&third.device, &said, None).unwrap();
        }
        place.put(third.team.statement(&third.device, "a", "d").unwrap(), &third.device);
        for _ in 0..2 {
            for machine in [&mut first, &mut second] {
                let standings = place.round(machine).unwrap();
                assert_eq!(standings.reads(&third.device.id, "space"), Reads::Upto(3));
                assert_eq!(standings.reads(&third.device.id, "other"), Reads::Upto(0));
            }
        }
        let new = first.team.current().unwrap();
        assert_ne!(new.1, old.1);
        assert_eq!((second.team.current().unwrap(), new.0), (new.clone(), 2));
        assert_eq!(standing(&second, &place, &third), Some(MemberState::Removed));
        let mut third = Machine { team: own, ..third };
        assert_eq!(place.round(&mut third).unwrap_err(), TeamError::Removed);
        assert_eq!(third.team.current().unwrap(), old);
        // A newcomer reads what was written before, and what the second removes stays removed for all.
        let fourth = enter(&home, "fourth", &mut place, &mut second);
        assert_eq!(fourth.team.keys.len(), 2);
        second.team.remove(&second.device, &place.all(), &first.device.id, Upto::new()).unwrap();
        place.round(&mut second).unwrap();
        let mut fourth = fourth;
        let standings = place.round(&mut fourth).unwrap();
        assert_eq!(standings.reads(&third.device.id, "space"), Reads::Upto(3));
        assert_eq!(standings.reads(&first.device.id, "space"), Reads::Upto(0));
        assert_eq!(fourth.team.current().unwrap(), second.team.current().unwrap());
    }

    #[test]
    fn only_owners_remove_let_in_and_name_owners_whatever_others_say() {
        let home = tempfile::tempdir().unwrap();
        let mut place = Place::default();
        let mut first = begin(&home, &mut place);
        let mut second = enter(&home, "second", &mut place, &mut first);
        let mut third = enter(&home, "third", &mut place, &mut first);
        let asking = place.0[&third.device.id].clone();
        let code = InvitationCode::random().unwrap();
        let (by, all, owner) = (&second.device, place.all(), first.device.id.clone());
        assert_eq!(second.team.remove(by, &all, &third.device.id, Upto::new()), Err(TeamError::NotOwner));
        assert_eq!(second.team.let_in(by, &asking, &code), Err(TeamError::NotOwner));
        assert_eq!(second.team.name_owner(by, &all, &second.device.id), Err(TeamError::NotOwner));
        // A program of its own says it all the same, and offers a key that only the third gets.
        let honest = second.team.clone();
        second.team.owners.insert(second.device.id.clone());
        let old = first.team.current().unwrap();
        second.team.remove(&second.device, &place.all(), &first.device.id, Upto::new()).unwrap();
        place.put(second.team.statement(&second.device, "a", "d").unwrap(), &second.device);
        second.team.keys = honest.keys.clone();
        for _ in 0..2 {
            for machine in [&mut first, &mut third] {
                let standings = place.round(machine).unwrap();
                assert_eq!(standings.reads(&second.device.id, "space"), Reads::All);
                assert_eq!(machine.team.current().unwrap(), old);
                assert!(!machine.team.owns(&second.device.id) && machine.team.owns(&owner));
            }
        }
        let role = |of: &Machine, place: &Place, other: &Machine| {
            let members = of.team.members(&of.device, &place.all()).unwrap();
            members.into_iter().find(|member| member.device == other.device.id).map(|member| member.role)
        };
        // Under the old key it claims the same, and is an owner for itself alone.
        place.put(second.team.statement(&second.device, "a", "d").unwrap(), &second.device);
        place.round(&mut third).unwrap();
        assert_eq!(role(&third, &place, &second), Some(TeamRole::Writer));
        assert_eq!(role(&third, &place, &first), Some(TeamRole::Owner));
        // Nor does it become one for whoever enters with the words of the team.
        let (_, key) = first.team.current().unwrap();
        let recovered = Team::recovered(REMOTE, &key, &place.all()).unwrap();
        assert_eq!(recovered.owners, BTreeSet::from([first.device.id.clone()]));
        let alone: Vec<TeamStatement> =
            vec![place.0[&first.device.id].clone(), place.0[&second.device.id].clone()];
        assert!(!Team::recovered(REMOTE, &key, &alone).unwrap().owners.contains(&second.device.id));
        // Whom the first names may, and an owner that was removed may not any more.
        second.team = honest;
        place.round(&mut second).unwrap();
        own(&mut place, &mut first, &mut second);
        place.round(&mut third).unwrap();
        assert!(third.team.owns(&second.device.id));
        second.team.remove(&second.device, &place.all(), &first.device.id, Upto::new()).unwrap();
        place.round(&mut second).unwrap();
        place.round(&mut third).unwrap();
        assert_eq!(place.round(&mut first).unwrap_err(), TeamError::Removed);
        assert!(!third.team.owns(&first.device.id));
        assert_eq!(third.team.current().unwrap(), second.team.current().unwrap());
    }

    #[test]
    fn an_old_key_under_a_new_name_lets_nobody_back_in() {
        let home = tempfile::tempdir().unwrap();
        let mut place = Place::default();
        let mut first = begin(&home, &mut place);
        let third = enter(&home, "third", &mut place, &mut first);
        let mut away = enter(&home, "away", &mut place, &mut first);
        place.round(&mut first).unwrap();
        first.team.remove(&first.device, &place.all(), &third.device.id, Upto::new()).unwrap();
        place.round(&mut first).unwrap();
        // It has the key that it had, and takes another name.
        let again = device(&home, "again");
        let mut again = Machine { team: third.team.clone(), device: again };
        place.put(again.team.statement(&again.device, "a", "d").unwrap(), &again.device);
        for _ in 0..2 {
            let standings = place.round(&mut first).unwrap();
            assert_eq!(standings.reads(&again.device.id, "space"), Reads::Nothing);
            let _ = place.round(&mut again);
            assert_ne!(again.team.current().unwrap(), first.team.current().unwrap());
        }
        // Nor do the old words.
        let (_, old) = third.team.current().unwrap();
        assert_eq!(Team::recovered(REMOTE, &old, &place.all()), Err(TeamError::OtherWords));
        // Who was away meanwhile gets the new one.
        let standings = place.round(&mut away).unwrap();
        assert_eq!(away.team.current().unwrap(), first.team.current().unwrap());
        assert_eq!(standings.reads(&again.device.id, "space"), Reads::Nothing);
    }

    #[test]
    fn two_who_remove_somebody_at_once_end_with_the_same_key() {
        let home = tempfile::tempdir().unwrap();
        let mut place = Place::default();
        let mut first = begin(&home, &mut place);
        let mut second = enter(&home, "second", &mut place, &mut first);
        let third = enter(&home, "third", &mut place, &mut first);
        let fourth = enter(&home, "fourth", &mut place, &mut first);
        own(&mut place, &mut first, &mut second);
        let before = place.all();
        for (machine, gone) in [(&mut first, &third), (&mut second, &fourth)] {
            machine.team.remove(&machine.device, &before, &gone.device.id, Upto::new()).unwrap();
        }
        for machine in [&first, &second] {
            place.put(machine.team.statement(&machine.device, "a", "d").unwrap(), &machine.device);
        }
        for _ in 0..3 {
            place.round(&mut first).unwrap();
            place.round(&mut second).unwrap();
        }
        assert_eq!(first.team.current().unwrap(), second.team.current().unwrap());
        for gone in [&third, &fourth] {
            assert_eq!(standing(&first, &place, gone), Some(MemberState::Removed));
        }
    }

    #[test]
    fn a_statement_is_its_machines_own_and_the_file_is_the_users() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let mut place = Place::default();
        let first = begin(&home, &mut place);
        let other = device(&home, "other");
        let said = first.team.statement(&first.device, "mia", "laptop").unwrap();
        let text = said.encode(&first.device).unwrap();
        assert!(!text.contains("mia") && !text.contains("laptop"));
        assert_eq!(TeamStatement::decode(&text, "another", &first.device.id), None);
        assert_eq!(TeamStatement::decode(&text, REMOTE, &other.id), None);
        assert_eq!(TeamStatement::decode(&said.encode(&other).unwrap(), REMOTE, &first.device.id), None);
        assert_eq!(
            TeamStatement::decode(
                &text.replace("\"wrapped\":[]", "\"wrapped\": []"),
                REMOTE,
                &first.device.id
            ),
            None
        );
        assert!(first.team.is_said(&said, &first.team.statement(&first.device, "mia", "laptop").unwrap()));
        assert!(!first.team.is_said(&said, &first.team.statement(&first.device, "eve", "laptop").unwrap()));
        first.team.save(home.path()).unwrap();
        let file = home.path().join("teams/remote.json");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Team::load(home.path(), REMOTE).unwrap(), Some(first.team));
        for wrong in ["", "../device", "a/b", &"a".repeat(65)] {
            assert_eq!(Team::load(home.path(), wrong), Err(TeamError::Remote));
        }
        Team::discard(home.path(), REMOTE).unwrap();
        assert_eq!(Team::load(home.path(), REMOTE), Ok(None));
    }
}
