use super::*;

const REMOTE: &str = "remote";

/// A machine of a test. The statements of all machines are in one [`Place`].
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

    fn put(&mut self, statement: TeamStatement, by: &Device) {
        let text = statement.encode(by).unwrap();
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

/// Lets a machine in with a code, as two people do.
fn enter(home: &tempfile::TempDir, name: &str, place: &mut Place, by: &mut Machine) -> Machine {
    let device = device(home, name);
    let code = InvitationCode::random().unwrap();
    let EntryWords::Code(entered) = EntryWords::read(code.words()).unwrap() else { panic!("a code") };
    place.put(TeamStatement::asking(REMOTE, &device, &entered, name, "d").unwrap(), &device);
    assert_eq!(Team::joined(REMOTE, &entered, &device, &place.all()), None);
    let asking = place.0[&device.id].clone();
    assert_eq!(asking.asks_with(&InvitationCode::random().unwrap()), None);
    assert_eq!(asking.asks_with(&code), Some((name.to_owned(), "d".to_owned())));
    assert_eq!(asking.compared(&code), asking.compared(&entered));
    by.team.let_in(&by.device, &asking, &code).unwrap();
    place.round(by).unwrap();
    assert_eq!(Team::joined(REMOTE, &InvitationCode::random().unwrap(), &device, &place.all()), None);
    let team = Team::joined(REMOTE, &entered, &device, &place.all()).unwrap();
    let mut machine = Machine { device, team };
    place.round(&mut machine).unwrap();
    machine
}

/// Makes `by` name the other machine an owner. Both machines then read it.
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
fn an_invitation_code_or_the_words_of_a_team_admit_a_machine() {
    let home = tempfile::tempdir().unwrap();
    let mut place = Place::default();
    let mut first = begin(&home, &mut place);
    assert_eq!(Team::begin(REMOTE, &first.device.id, &place.all()), Err(TeamError::Exists));
    let second = enter(&home, "second", &mut place, &mut first);
    assert_eq!(first.team.current().unwrap(), second.team.current().unwrap());
    assert_eq!(standing(&first, &place, &second), Some(MemberState::Member));
    let words = second.team.words().unwrap();
    assert_eq!(words.split(' ').count(), 24);
    let EntryWords::Recovery(key) = EntryWords::read(&words.to_uppercase()).unwrap() else { panic!("a key") };
    let third = Team::recovered(REMOTE, &key, &place.all()).unwrap();
    assert_eq!(third.current().unwrap(), first.team.current().unwrap());
    let other = SealingKey::random().unwrap();
    assert_eq!(Team::recovered(REMOTE, &other, &place.all()), Err(TeamError::OtherWords));
    assert_eq!(Team::recovered(REMOTE, &key, &[]), Err(TeamError::NoTeam));
    for wrong in ["", "abandon", &words.replacen(' ', " zoo ", 1)] {
        assert_eq!(EntryWords::read(wrong), Err(TeamError::Words), "{wrong}");
    }
    // A machine with the key of another team cannot write.
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
fn a_removed_machine_gets_no_new_key_and_cannot_give_one() {
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
    // The removed machine makes its own key and offers it to all.
    let own = third.team.clone();
    third.team.hold(9, &SealingKey::random().unwrap());
    for other in [&first, &second] {
        let statement = place.0[&other.device.id].clone();
        third.team.wrap_for(&third.device, &statement, None).unwrap();
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
    // A new machine reads what was written before. Both removals, the first machine's and the second's, hold for it.
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
fn only_owners_can_admit_and_remove_machines_and_name_owners() {
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
    // A modified program makes these statements anyway. It offers a key that only the third machine gets.
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
    // Under the old key it makes the same claim. It is then an owner only in its own view.
    place.put(second.team.statement(&second.device, "a", "d").unwrap(), &second.device);
    place.round(&mut third).unwrap();
    assert_eq!(role(&third, &place, &second), Some(TeamRole::Writer));
    assert_eq!(role(&third, &place, &first), Some(TeamRole::Owner));
    // Machines that enter with the team's words do not count it as an owner either.
    let (_, key) = first.team.current().unwrap();
    let recovered = Team::recovered(REMOTE, &key, &place.all()).unwrap();
    assert_eq!(recovered.owners, BTreeSet::from([first.device.id.clone()]));
    let alone: Vec<TeamStatement> =
        vec![place.0[&first.device.id].clone(), place.0[&second.device.id].clone()];
    assert!(!Team::recovered(REMOTE, &key, &alone).unwrap().owners.contains(&second.device.id));
    // A machine that the first one names an owner may do this. An owner that was removed may not any more.
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
fn a_removed_machine_cannot_return_with_its_old_key_under_a_new_name() {
    let home = tempfile::tempdir().unwrap();
    let mut place = Place::default();
    let mut first = begin(&home, &mut place);
    let third = enter(&home, "third", &mut place, &mut first);
    let mut away = enter(&home, "away", &mut place, &mut first);
    place.round(&mut first).unwrap();
    first.team.remove(&first.device, &place.all(), &third.device.id, Upto::new()).unwrap();
    place.round(&mut first).unwrap();
    // The removed machine keeps its old key and takes another name.
    let again = device(&home, "again");
    let mut again = Machine { team: third.team.clone(), device: again };
    place.put(again.team.statement(&again.device, "a", "d").unwrap(), &again.device);
    for _ in 0..2 {
        let standings = place.round(&mut first).unwrap();
        assert_eq!(standings.reads(&again.device.id, "space"), Reads::Nothing);
        let _ = place.round(&mut again);
        assert_ne!(again.team.current().unwrap(), first.team.current().unwrap());
    }
    // The old words do not let it in either.
    let (_, old) = third.team.current().unwrap();
    assert_eq!(Team::recovered(REMOTE, &old, &place.all()), Err(TeamError::OtherWords));
    // A machine that was away gets the new key.
    let standings = place.round(&mut away).unwrap();
    assert_eq!(away.team.current().unwrap(), first.team.current().unwrap());
    assert_eq!(standings.reads(&again.device.id, "space"), Reads::Nothing);
}

#[test]
fn two_owners_removing_machines_at_once_end_with_the_same_key() {
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
fn a_statement_is_valid_only_for_its_machine_and_the_team_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let mut place = Place::default();
    let first = begin(&home, &mut place);
    let other = device(&home, "other");
    let statement = first.team.statement(&first.device, "Mia Berg", "laptop").unwrap();
    let text = statement.encode(&first.device).unwrap();
    assert!(!text.contains("Mia Berg") && !text.contains("laptop"));
    assert_eq!(TeamStatement::decode(&text, "another", &first.device.id), None);
    assert_eq!(TeamStatement::decode(&text, REMOTE, &other.id), None);
    assert_eq!(TeamStatement::decode(&statement.encode(&other).unwrap(), REMOTE, &first.device.id), None);
    assert_eq!(
        TeamStatement::decode(&text.replace("\"wrapped\":[]", "\"wrapped\": []"), REMOTE, &first.device.id),
        None
    );
    assert!(
        first
            .team
            .is_unchanged(&statement, &first.team.statement(&first.device, "Mia Berg", "laptop").unwrap())
    );
    assert!(
        !first.team.is_unchanged(&statement, &first.team.statement(&first.device, "eve", "laptop").unwrap())
    );
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
