//! The readers of a restricted project: the machines of a team that may read it. They have a separate key, which is
//! given to them like the team's. Entries are sealed with a key derived from both. So a machine that leaves either
//! group reads nothing new.
//!
//! Owners of the team restrict a project. Their statements about its readers are in a separate space for each
//! project. Of these, only statements of machines that own the team and are readers count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::device::Device;
use super::super::key::SealingKey;
use super::super::sealed::SpaceKeys;
use super::{Standings, Team, TeamError, TeamStatement, Upto};
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::space_of;

/// A restricted project, from the view of one machine of the team.
#[derive(Clone, Copy)]
pub struct Within<'w> {
    /// The team, brought up to date with all statements.
    pub team: &'w Team,
    pub device: &'w Device,
    /// The machines' statements about the team.
    pub of_team: &'w [TeamStatement],
    /// The project's space.
    pub space: &'w str,
}

/// This machine's knowledge of the readers of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readers(Team);

/// The space with the machines' statements about the readers of a project.
pub fn readers_space(space: &str) -> String {
    space_of(&format!("recall-readers-1 {space}"))
}

/// The spaces of the restricted projects of all teams of this machine.
pub fn restricted_in(data: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(data.join("teams")).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().to_str()?.strip_suffix(".json").map(str::to_owned));
    let teams = names.filter_map(|name| Team::load(data, &name).ok().flatten());
    teams.flat_map(|team| team.restricted).collect()
}

impl Within<'_> {
    /// The name of the remote in all statements about the readers. Because of it, a statement about one project is
    /// useless for another.
    pub fn id(&self) -> String {
        space_of(&format!("recall-readers-1 {} {}", self.team.remote, self.space))
    }

    /// The parts of machines' statements about the readers that count. From a machine that does not own the team, only
    /// the keys that it has count.
    fn effective(&self, statements: &[TeamStatement]) -> Vec<TeamStatement> {
        let without_power = |statement: &TeamStatement| TeamStatement {
            older: None,
            wrapped: Vec::new(),
            removed: BTreeMap::new(),
            owners: BTreeSet::new(),
            named: BTreeSet::new(),
            before: BTreeMap::new(),
            ..statement.clone()
        };
        let effective = |statement: &TeamStatement| match self.team.owns(&statement.device) {
            true => statement.clone(),
            false => without_power(statement),
        };
        statements.iter().map(effective).collect()
    }

    /// The key pair of a machine that has proved that it has the team's key.
    fn of_member(&self, device: &DeviceId) -> Option<&TeamStatement> {
        let statement = self.of_team.iter().find(|statement| statement.device == *device)?;
        (self.team.has_proof(statement) && !self.team.removed.contains_key(device)).then_some(statement)
    }
}

impl Readers {
    /// Restricts a project to this machine. `heads` says how far each log is, because earlier entries stay readable.
    pub fn begin(
        within: Within<'_>,
        statements: &[TeamStatement],
        heads: &BTreeMap<DeviceId, u64>,
    ) -> Result<Self, TeamError> {
        let Within { team, device, .. } = within;
        if !team.owns(&device.id) {
            return Err(TeamError::NotOwner);
        }
        if statements.iter().any(|statement| team.owns(&statement.device) && !statement.proofs.is_empty()) {
            return Err(TeamError::RestrictedAlready);
        }
        let owners = BTreeSet::from([device.id.clone()]);
        let mut readers = Team { remote: within.id(), owners, before: heads.clone(), ..Team::default() };
        readers.hold(1, &SealingKey::random()?);
        Ok(Self(readers))
    }

    /// The readers of a project whose key an owner of the team has given to this machine. Fails if no owner has, or if
    /// several have who do not know each other's keys.
    pub fn granted(within: Within<'_>, statements: &[TeamStatement]) -> Result<Self, TeamError> {
        let effective = within.effective(statements);
        let given = effective
            .iter()
            .filter(|statement| statement.owners.contains(&statement.device))
            .filter_map(|statement| {
                let mut readers =
                    Team { remote: within.id(), owners: statement.owners.clone(), ..Team::default() };
                readers.unwrap_key(statement, within.device, None)?;
                Some((statement, readers))
            });
        let given: Vec<(&TeamStatement, Team)> = given.collect();
        let newest = given.iter().max_by_key(|(_, readers)| readers.keys.clone());
        let (by, readers) = newest.ok_or(TeamError::NotReader)?;
        let knows = |(of, other): &(&TeamStatement, Team)| readers.has_proof(of) || other.has_proof(by);
        match given.iter().all(knows) {
            true => Ok(Self(readers.clone())),
            false => Err(TeamError::RestrictedTwice),
        }
    }

    /// The readers of a project, entered with the project's own words.
    pub fn recovered(
        within: Within<'_>,
        key: &SealingKey,
        statements: &[TeamStatement],
    ) -> Result<Self, TeamError> {
        let of_owners: Vec<TeamStatement> =
            statements.iter().filter(|statement| within.team.owns(&statement.device)).cloned().collect();
        Team::recovered(&within.id(), key, &of_owners).map(Self)
    }

    /// Takes keys from owners, and gives the current one to readers that lack it. Returns which machines are read.
    pub fn keep_up(
        &mut self,
        within: Within<'_>,
        statements: &[TeamStatement],
    ) -> Result<Standings, TeamError> {
        let Self(readers) = self;
        for (gone, upto) in &within.team.removed {
            let last = upto.get(within.space).copied().unwrap_or_default();
            let known = readers.removed.entry(gone.clone());
            known.or_insert_with(|| Upto::from([(within.space.to_owned(), last)]));
        }
        let effective = within.effective(statements);
        let kept_up = readers.keep_up(within.device, &effective);
        let mut standings = kept_up.map_err(|error| match error {
            TeamError::Removed | TeamError::NotGiven => TeamError::NotReader,
            TeamError::RemovedEachOther => TeamError::TookOutEachOther,
            error => error,
        })?;
        self.take_named(within, &effective)?;
        let Self(readers) = self;
        if readers.owns(&within.device.id) {
            readers.give_to_named(within, &effective)?;
        }
        standings.members.extend(readers.named.iter().cloned());
        standings.before.clone_from(&readers.before);
        Ok(standings)
    }

    /// Takes the readers that owners have named, and how far owners say that other logs count.
    fn take_named(&mut self, within: Within<'_>, statements: &[TeamStatement]) -> Result<(), TeamError> {
        let Self(readers) = self;
        let (number, key) = readers.current()?;
        for statement in statements {
            let counts = readers.owns(&statement.device) && statement.proves(&key, number);
            if counts && statement.device != within.device.id {
                readers.named.extend(statement.named.iter().cloned());
                for (device, last) in &statement.before {
                    readers.before.entry(device.clone()).or_insert(*last);
                }
            }
        }
        let removed = readers.removed.clone();
        readers.named.retain(|device| !removed.contains_key(device));
        Ok(())
    }

    /// Lets only these machines and this one read. Other machines that could read are removed, and a new key is made.
    /// Returns whether there is a new key.
    pub fn restrict(
        &mut self,
        within: Within<'_>,
        statements: &[TeamStatement],
        wanted: &BTreeSet<DeviceId>,
        heads: &BTreeMap<DeviceId, u64>,
    ) -> Result<Rekeyed, TeamError> {
        self.keep_up(within, statements)?;
        let own = &within.device.id;
        if !(within.team.owns(own) && self.0.owns(own)) {
            return Err(TeamError::NotOwner);
        }
        if let Some(out) = wanted.iter().find(|device| self.0.removed.contains_key(device)) {
            return Err(TeamError::TakenOut(out.short().to_owned()));
        }
        let upto = |device: &DeviceId| {
            Upto::from([(within.space.to_owned(), heads.get(device).copied().unwrap_or_default())])
        };
        let gone =
            self.devices(statements).into_iter().filter(|device| device != own && !wanted.contains(device));
        let gone: BTreeMap<DeviceId, Upto> = gone.map(|device| (device.clone(), upto(&device))).collect();
        let Self(readers) = self;
        readers.named.retain(|device| !gone.contains_key(device));
        readers.named.extend(wanted.iter().filter(|device| *device != own).cloned());
        readers.owners.extend(wanted.iter().filter(|device| within.team.owns(device)).cloned());
        let effective = within.effective(statements);
        let rekeyed = if gone.is_empty() { Rekeyed::No } else { Rekeyed::Yes };
        if rekeyed == Rekeyed::Yes {
            readers.exclude(within.device, &effective, gone)?;
        }
        readers.give_to_named(within, &effective)?;
        Ok(rekeyed)
    }

    /// The machines that may read, including this one.
    pub fn devices(&self, statements: &[TeamStatement]) -> BTreeSet<DeviceId> {
        let Self(readers) = self;
        let vouched = readers.vouched(statements);
        let proven = statements
            .iter()
            .filter(|statement| readers.counts(statement, &vouched))
            .map(|statement| &statement.device);
        let all = proven.chain(&readers.named).chain(&readers.owners);
        all.filter(|device| !readers.removed.contains_key(device)).cloned().collect()
    }

    /// The keys of the project's space. Each is derived from a key of the team and one of the readers. Entries from
    /// before the restriction open with the team's keys.
    pub fn space_keys(&self, within: Within<'_>) -> Result<SpaceKeys, TeamError> {
        let of_both = |own: &SealingKey, teams: &SealingKey| own.with(teams, &["readers", within.space]);
        let current = of_both(&self.0.current()?.1, &within.team.current()?.1);
        let of_team: Vec<SealingKey> = within.team.keys.iter().map(|held| held.key.clone()).collect();
        let own = self.0.keys.iter();
        let both = own.flat_map(|own| of_team.iter().map(move |teams| of_both(&own.key, teams)));
        let all: Vec<SealingKey> = both.chain(of_team.iter().cloned()).collect();
        Ok(SpaceKeys::of(within.space, &current, &all))
    }

    /// The key of the readers as words.
    pub fn words(&self) -> Result<String, TeamError> {
        self.0.words()
    }

    /// This machine's statement about the readers.
    pub fn statement(&self, device: &Device, author: &str, name: &str) -> Result<TeamStatement, TeamError> {
        self.0.statement(device, author, name)
    }

    /// Whether a statement equals the one that this machine would write now.
    pub fn is_unchanged(&self, stored: &TeamStatement, now: &TeamStatement) -> bool {
        self.0.is_unchanged(stored, now)
    }

    /// Reads the file. `None` if this machine is not among the readers.
    pub fn load(data: &Path, id: &str) -> Result<Option<Self>, TeamError> {
        Ok(Team::load(data, id)?.map(Self))
    }

    /// Writes the file, readable only by this user.
    pub fn save(&self, data: &Path) -> Result<(), TeamError> {
        self.0.save(data)
    }
}

/// Whether a reader was removed, so that the readers have a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rekeyed {
    Yes,
    No,
}

impl Team {
    /// Whether owners have restricted a project.
    pub fn restricts(&self, space: &str) -> bool {
        self.restricted.contains(space)
    }

    /// The spaces of restricted projects.
    pub fn restricted(&self) -> &BTreeSet<String> {
        &self.restricted
    }

    /// States to the team that a project is restricted.
    pub fn announce(&mut self, space: &str) {
        self.restricted.insert(space.to_owned());
    }

    /// Takes over which projects owners have restricted, and keeps it, because a remote may lose their statements.
    pub(super) fn take_restricted(&mut self, statements: &[TeamStatement]) -> Result<(), TeamError> {
        let (number, key) = self.current()?;
        let by_owners = statements
            .iter()
            .filter(|statement| self.owns(&statement.device) && statement.proves(&key, number));
        let restricted: Vec<String> =
            by_owners.flat_map(|statement| statement.restricted.iter().cloned()).collect();
        self.restricted.extend(restricted);
        Ok(())
    }

    /// Gives the current key to named machines that lack it.
    fn give_to_named(&mut self, within: Within<'_>, statements: &[TeamStatement]) -> Result<(), TeamError> {
        let (number, key) = self.current()?;
        let name = key.name();
        let has_it = |device: &DeviceId| {
            statements.iter().any(|statement| statement.device == *device && statement.proves(&key, number))
        };
        let named = self.named.iter().filter(|device| !self.removed.contains_key(device));
        let lacking: Vec<DeviceId> = named.filter(|device| !has_it(device)).cloned().collect();
        for device in lacking {
            let is_given = self.wrapped.iter().any(|one| one.to == device && one.key == name);
            if let (false, Some(member)) = (is_given, within.of_member(&device)) {
                self.wrap_for(within.device, member, None)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Segment, SegmentHeader};
    use crate::team::Reads;
    use recall_domain::sync::item::ItemChange;
    use recall_domain::sync::record::Record;

    const REMOTE: &str = "remote";
    const SPACE: &str = "space";

    struct Machine {
        device: Device,
        team: Team,
        readers: Option<Readers>,
    }

    /// All machines' statements about the team, and about the readers of the project.
    #[derive(Default)]
    struct Place {
        team: BTreeMap<DeviceId, TeamStatement>,
        readers: BTreeMap<DeviceId, TeamStatement>,
    }

    fn all(statements: &BTreeMap<DeviceId, TeamStatement>) -> Vec<TeamStatement> {
        statements.values().cloned().collect()
    }

    impl Place {
        /// The first machine owns the team; the others have entered with its words.
        fn of(home: &tempfile::TempDir, names: &[&str]) -> (Self, Vec<Machine>) {
            let mut place = Self::default();
            let mut machines: Vec<Machine> = Vec::new();
            for name in names {
                let device = Device::load_or_create(&home.path().join(name)).unwrap();
                let team = match machines.first() {
                    None => Team::begin(REMOTE, &device.id, &[]).unwrap(),
                    Some(first) => {
                        Team::recovered(REMOTE, &first.team.current().unwrap().1, &all(&place.team)).unwrap()
                    }
                };
                let mut machine = Machine { device, team, readers: None };
                place.round(&mut machine).unwrap();
                machines.push(machine);
            }
            (place, machines)
        }

        /// A round of a machine that shares the project.
        fn round(&mut self, machine: &mut Machine) -> Result<Option<Standings>, TeamError> {
            let Machine { device, team, .. } = machine;
            team.keep_up(device, &all(&self.team))?;
            self.publish(machine);
            let Machine { device, team, readers } = machine;
            if !team.restricts(SPACE) {
                return Ok(None);
            }
            let (of_team, of_readers) = (all(&self.team), all(&self.readers));
            let within = Within { team, device, of_team: &of_team, space: SPACE };
            let mut known = readers.clone().map_or_else(|| Readers::granted(within, &of_readers), Ok)?;
            let standings = known.keep_up(within, &of_readers)?;
            *readers = Some(known);
            self.publish(machine);
            Ok(Some(standings))
        }

        fn publish(&mut self, machine: &Machine) {
            let Machine { device, team, readers } = machine;
            let statement = team.statement(device, "a", "d").unwrap();
            let text = statement.encode(device).unwrap();
            self.team.insert(device.id.clone(), TeamStatement::decode(&text, REMOTE, &device.id).unwrap());
            if let Some(readers) = readers {
                let text = readers.statement(device, "a", "d").unwrap().encode(device).unwrap();
                let id = Within { team, device, of_team: &[], space: SPACE }.id();
                self.readers
                    .insert(device.id.clone(), TeamStatement::decode(&text, &id, &device.id).unwrap());
            }
        }

        fn restrict(
            &mut self,
            by: &mut Machine,
            wanted: &[&DeviceId],
            heads: &BTreeMap<DeviceId, u64>,
        ) -> Result<Rekeyed, TeamError> {
            let wanted = wanted.iter().map(|device| (*device).clone()).collect();
            let (of_team, of_readers) = (all(&self.team), all(&self.readers));
            let within = Within { team: &by.team, device: &by.device, of_team: &of_team, space: SPACE };
            let mut readers = match by.readers.clone() {
                Some(readers) => readers,
                None => Readers::begin(within, &of_readers, heads)?,
            };
            let rekeyed = readers.restrict(within, &of_readers, &wanted, heads)?;
            by.readers = Some(readers);
            by.team.announce(SPACE);
            self.publish(by);
            Ok(rekeyed)
        }
    }

    fn keys(of: &Machine) -> SpaceKeys {
        let within = Within { team: &of.team, device: &of.device, of_team: &[], space: SPACE };
        match &of.readers {
            Some(readers) if of.team.restricts(SPACE) => readers.space_keys(within).unwrap(),
            _ => of.team.space_keys(SPACE).unwrap(),
        }
    }

    fn sealed(by: &Machine) -> Segment {
        let header = SegmentHeader::of(&by.device, SPACE, "mia", "laptop");
        let change = ItemChange::Set([("title".to_owned(), serde_json::json!("Hedwig"))].into());
        let records = vec![Record::of(1, "u", 7, &change, "chance")];
        let (header, records) = keys(by).seal(header, records).unwrap();
        Segment { header, records, end: "end".to_owned() }
    }

    fn opens(machine: &Machine, segment: &Segment) -> bool {
        keys(machine).open(segment.clone()).is_ok()
    }

    #[test]
    fn only_named_readers_get_the_key_of_a_restricted_project() {
        let home = tempfile::tempdir().unwrap();
        let (mut place, mut machines) = Place::of(&home, &["mia", "jan", "ben"]);
        let [mia, jan, ben] = machines.as_mut_slice() else { panic!("three machines") };
        let before = sealed(ben);
        let heads = BTreeMap::from([(ben.device.id.clone(), 1), (jan.device.id.clone(), 4)]);
        place.restrict(mia, &[&jan.device.id], &heads).unwrap();
        let of_mia = sealed(mia);
        assert_eq!(place.round(ben), Err(TeamError::NotReader));
        assert!(!opens(ben, &of_mia) && !opens(jan, &of_mia));
        let standings = place.round(jan).unwrap().unwrap();
        assert!(opens(jan, &of_mia) && opens(jan, &before), "what was written before stays readable");
        assert_eq!(standings.reads(&ben.device.id, SPACE), Reads::Upto(1));
        assert_eq!(standings.reads(&mia.device.id, SPACE), Reads::All);
        let of_jan = sealed(jan);
        let standings = place.round(mia).unwrap().unwrap();
        assert!(opens(mia, &of_jan) && !opens(ben, &of_jan));
        assert_eq!(standings.reads(&jan.device.id, SPACE), Reads::All);
        // A file that is kept says the same, and who reads the place learns no key from it.
        assert!(!format!("{:?}", mia.readers).contains(&mia.readers.as_ref().unwrap().words().unwrap()));

        // Named later, it reads what was written since.
        assert_eq!(place.restrict(mia, &[&jan.device.id, &ben.device.id], &heads), Ok(Rekeyed::No));
        place.round(ben).unwrap().unwrap();
        assert!(opens(ben, &of_mia) && opens(ben, &of_jan));
        assert_eq!(place.round(jan).unwrap().unwrap().reads(&ben.device.id, SPACE), Reads::All);
    }

    #[test]
    fn a_machine_removed_from_a_project_or_team_reads_nothing_new() {
        let home = tempfile::tempdir().unwrap();
        let (mut place, mut machines) = Place::of(&home, &["mia", "jan", "ben", "zoe"]);
        let [mia, jan, ben, zoe] = machines.as_mut_slice() else { panic!("four machines") };
        let three = [&jan.device.id, &ben.device.id, &zoe.device.id].map(Clone::clone);
        place.restrict(mia, &three.iter().collect::<Vec<_>>(), &BTreeMap::new()).unwrap();
        // Zoe is away, and fetches the key only after the next change.
        place.round(jan).unwrap();
        place.round(ben).unwrap();
        place.round(mia).unwrap();
        let old = sealed(mia);
        let heads = BTreeMap::from([(ben.device.id.clone(), 3)]);
        let two = [&jan.device.id, &zoe.device.id].map(Clone::clone);
        let rekeyed = place.restrict(mia, &two.iter().collect::<Vec<_>>(), &heads);
        assert_eq!(rekeyed, Ok(Rekeyed::Yes));
        let new = sealed(mia);
        assert_eq!(place.round(ben), Err(TeamError::NotReader));
        assert!(opens(ben, &old) && !opens(ben, &new));
        for machine in [&mut *jan, &mut *zoe] {
            let standings = place.round(machine).unwrap().unwrap();
            assert_eq!(standings.reads(&ben.device.id, SPACE), Reads::Upto(3));
            assert!(opens(machine, &new) && opens(machine, &old));
        }
        let back = place.restrict(mia, &[&ben.device.id.clone()], &heads);
        assert_eq!(back, Err(TeamError::TakenOut(ben.device.id.short().to_owned())));
        // The team removes Jan. The readers' key is the same, and what is written from then on needs the team's new one.
        let upto = Upto::from([(SPACE.to_owned(), 5)]);
        mia.team.remove(&mia.device, &all(&place.team), &jan.device.id, upto).unwrap();
        place.round(mia).unwrap();
        let newest = sealed(mia);
        assert_eq!(place.round(jan), Err(TeamError::Removed));
        assert!(!opens(jan, &newest) && opens(jan, &new));
        let standings = place.round(zoe).unwrap().unwrap();
        assert!(opens(zoe, &newest));
        assert_eq!(standings.reads(&jan.device.id, SPACE), Reads::Upto(5));
    }

    #[test]
    fn only_owners_can_restrict_a_project_and_give_its_key() {
        let home = tempfile::tempdir().unwrap();
        let (mut place, mut machines) = Place::of(&home, &["mia", "jan", "eve"]);
        let [mia, jan, eve] = machines.as_mut_slice() else { panic!("three machines") };
        assert_eq!(place.restrict(eve, &[], &BTreeMap::new()), Err(TeamError::NotOwner));
        // A program of its own restricts the project to itself and Jan all the same. Nobody hears it.
        let honest = eve.team.clone();
        eve.team.owners.insert(eve.device.id.clone());
        place.restrict(eve, &[&jan.device.id], &BTreeMap::new()).unwrap();
        assert_eq!(place.round(jan).unwrap(), None);
        assert!(!jan.team.restricts(SPACE));
        // An owner restricts it. What the other has made up is neither in the way nor taken.
        place.restrict(mia, &[&jan.device.id], &BTreeMap::new()).unwrap();
        let forged = eve.readers.clone().unwrap();
        let standings = place.round(jan).unwrap().unwrap();
        assert_eq!(jan.readers.as_ref().unwrap().0.current(), mia.readers.as_ref().unwrap().0.current());
        assert_eq!(standings.reads(&eve.device.id, SPACE), Reads::Nothing);
        // A wrap for somebody else opens nothing, and nobody speaks in the name of an owner.
        (eve.team, eve.readers) = (honest, None);
        place.readers.remove(&eve.device.id);
        assert_eq!(place.round(eve), Err(TeamError::NotReader));
        let mut stolen = place.readers[&mia.device.id].clone();
        stolen.wrapped.iter_mut().for_each(|one| one.to = eve.device.id.clone());
        place.readers.insert(mia.device.id.clone(), stolen);
        assert_eq!(place.round(eve), Err(TeamError::NotReader));
        let text = forged.statement(&eve.device, "a", "d").unwrap().encode(&eve.device).unwrap();
        let id = Within { team: &mia.team, device: &mia.device, of_team: &[], space: SPACE }.id();
        assert_eq!(TeamStatement::decode(&text, &id, &mia.device.id), None);
        assert_eq!(
            TeamStatement::decode(&text, REMOTE, &eve.device.id),
            None,
            "it is about this project alone"
        );
    }

    #[test]
    fn an_owner_who_is_not_a_reader_can_neither_read_nor_pose_as_one() {
        let home = tempfile::tempdir().unwrap();
        let (mut place, mut machines) = Place::of(&home, &["mia", "zoe", "jan"]);
        let [mia, zoe, jan] = machines.as_mut_slice() else { panic!("three machines") };
        mia.team.name_owner(&mia.device, &all(&place.team), &zoe.device.id).unwrap();
        for machine in [&mut *mia, zoe, jan] {
            place.round(machine).unwrap();
        }
        place.restrict(mia, &[], &BTreeMap::new()).unwrap();
        let of_mia = sealed(mia);
        assert_eq!(place.round(zoe), Err(TeamError::NotReader));
        assert!(!opens(zoe, &of_mia));
        assert_eq!(place.restrict(zoe, &[], &BTreeMap::new()), Err(TeamError::RestrictedAlready));
        // Its own program restricts the project once more, to itself and Jan, whom the first has named meanwhile.
        let hidden = std::mem::take(&mut place.readers);
        place.restrict(zoe, &[&jan.device.id], &BTreeMap::new()).unwrap();
        place.readers.extend(hidden);
        place.restrict(mia, &[&jan.device.id], &BTreeMap::new()).unwrap();
        assert_eq!(place.round(jan), Err(TeamError::RestrictedTwice));
        // Whoever reads it already goes on.
        place.round(mia).unwrap();
        assert!(!opens(zoe, &sealed(mia)));
        let gone = place.readers.remove(&zoe.device.id);
        place.round(jan).unwrap();
        place.readers.extend(gone.map(|statement| (zoe.device.id.clone(), statement)));
        place.round(jan).unwrap();
        assert!(opens(jan, &of_mia) && !opens(jan, &sealed(zoe)));
    }

    #[test]
    fn the_words_of_a_project_let_only_machines_of_the_team_read_it() {
        let home = tempfile::tempdir().unwrap();
        let (mut place, mut machines) = Place::of(&home, &["mia", "new", "ben"]);
        let [mia, new, ben] = machines.as_mut_slice() else { panic!("three machines") };
        place.restrict(mia, &[], &BTreeMap::new()).unwrap();
        let of_mia = sealed(mia);
        let words = mia.readers.as_ref().unwrap().words().unwrap();
        let Ok(crate::team::EntryWords::Recovery(key)) = crate::team::EntryWords::read(&words) else {
            panic!("a key")
        };
        assert_eq!(place.round(new), Err(TeamError::NotReader));
        let of_team = all(&place.team);
        let within = Within { team: &new.team, device: &new.device, of_team: &of_team, space: SPACE };
        let other = SealingKey::random().unwrap();
        assert_eq!(Readers::recovered(within, &other, &all(&place.readers)), Err(TeamError::OtherWords));
        new.readers = Some(Readers::recovered(within, &key, &all(&place.readers)).unwrap());
        place.round(new).unwrap().unwrap();
        assert!(opens(new, &of_mia));
        // It counts as a reader, and gets the next key.
        let standings = place.round(mia).unwrap().unwrap();
        assert_eq!(standings.reads(&new.device.id, SPACE), Reads::All);
        // Whoever is in no team has half of what is needed.
        ben.team = Team::begin("other", &ben.device.id, &[]).unwrap();
        ben.team.announce(SPACE);
        ben.readers = new.readers.clone();
        assert!(!opens(ben, &of_mia));
    }
}
