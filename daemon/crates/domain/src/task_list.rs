//! A session's task list, stored as Markdown so that it is read, searched and shown like any plan.
//!
//! Updates may arrive in any order; their capture times decide. Each task's latest update counts, and a deleted task
//! stays deleted even if its creation arrives later.

use crate::text::one_line;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::order::Order;

/// A change that a call makes to the task list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskChange {
    /// Replaces the whole list.
    List(Vec<Task>),
    Add {
        id: String,
        subject: String,
    },
    Update {
        id: String,
        subject: Option<String>,
        state: Option<TaskState>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub subject: String,
    pub state: TaskState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    Pending,
    Running,
    Done,
    Deleted,
}

impl TaskState {
    /// Parses an agent's word. An unknown one means a pending task.
    pub fn parse(word: &str) -> Self {
        match word {
            "in_progress" => Self::Running,
            "completed" => Self::Done,
            "deleted" | "cancelled" => Self::Deleted,
            _ => Self::Pending,
        }
    }

    fn mark(self) -> char {
        match self {
            Self::Running => '~',
            Self::Done => 'x',
            Self::Pending | Self::Deleted => ' ',
        }
    }

    fn from_mark(mark: char) -> Self {
        match mark {
            '~' => Self::Running,
            'x' => Self::Done,
            _ => Self::Pending,
        }
    }
}

/// The merged state of a task list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskList {
    /// The last update of the whole list.
    whole: Option<Update<String>>,
    /// Tasks with individual updates, in the order of their first updates.
    tasks: Vec<KnownTask>,
}

/// A value and the time of its latest update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Update<T> {
    value: T,
    at: Order,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownTask {
    id: String,
    first: Order,
    latest: Order,
    /// Absent until the task's creation arrives, and for a deleted task.
    subject: Option<Update<String>>,
    state: Option<Update<TaskState>>,
}

impl TaskList {
    /// Builds a list that is known only as text, with the time of its last change.
    pub fn of_text(text: &str, at: Order) -> Self {
        let mut list = Self::default();
        let mut rest = String::new();
        for line in text.lines() {
            let task = line.get(6..).and_then(|entry| entry.strip_prefix('#')?.split_once(' '));
            let Some((id, subject)) = task else {
                let _ = writeln!(rest, "{line}");
                continue;
            };
            let state = line.chars().nth(3).map(TaskState::from_mark);
            list.take(
                &TaskChange::Update { id: id.to_owned(), subject: Some(subject.to_owned()), state },
                at,
            );
        }
        list.whole = (!rest.is_empty()).then_some(Update { value: rest, at });
        list
    }

    /// Applies a change that was captured at `at`.
    pub fn take(&mut self, change: &TaskChange, at: Order) {
        match change {
            TaskChange::List(tasks) => update_if_later(&mut self.whole, whole_list(tasks), at),
            TaskChange::Add { id, subject } => self.update_task(id, Some(subject), None, at),
            TaskChange::Update { id, subject, state } => self.update_task(id, subject.as_ref(), *state, at),
        }
    }

    fn update_task(&mut self, id: &str, subject: Option<&String>, state: Option<TaskState>, at: Order) {
        let id = one_line(id);
        let known = self.tasks.iter().position(|task| task.id == id).map(|place| self.tasks.remove(place));
        let new = KnownTask { id, first: at, latest: at, subject: None, state: None };
        let mut task = known.unwrap_or(new);
        if at.is_before(&task.first) {
            task.first = at;
        }
        if task.latest.is_before(&at) {
            task.latest = at;
        }
        if let Some(state) = state.filter(|_| !task.is_deleted()) {
            match state {
                TaskState::Deleted => task.state = Some(Update { value: state, at }),
                _ => update_if_later(&mut task.state, state, at),
            }
        }
        match subject.filter(|_| !task.is_deleted()) {
            Some(subject) => update_if_later(&mut task.subject, one_line(subject), at),
            None if task.is_deleted() => task.subject = None,
            None => {}
        }
        let place = self.tasks.iter().take_while(|known| !task.first.is_before(&known.first)).count();
        self.tasks.insert(place, task);
    }

    /// Renders one entry per line. A task whose updates are all older than the whole list is already in it, or gone.
    pub fn text(&self) -> String {
        let mut text = self.whole.as_ref().map(|whole| whole.value.clone()).unwrap_or_default();
        let is_newer =
            |task: &&KnownTask| self.whole.as_ref().is_none_or(|whole| whole.at.is_before(&task.latest));
        for task in self.tasks.iter().filter(is_newer).filter(|task| !task.is_deleted()) {
            let mark = task.state.as_ref().map_or(TaskState::Pending, |state| state.value).mark();
            let _ = match &task.subject {
                Some(subject) => writeln!(text, "- [{mark}] #{} {}", task.id, subject.value),
                None => writeln!(text, "- [{mark}] #{0} task {0}", task.id),
            };
        }
        text
    }
}

impl KnownTask {
    fn is_deleted(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.value == TaskState::Deleted)
    }
}

/// Sets the value, unless a later one is known.
fn update_if_later<T>(known: &mut Option<Update<T>>, value: T, at: Order) {
    if known.as_ref().is_none_or(|known| !at.is_before(&known.at)) {
        *known = Some(Update { value, at });
    }
}

fn whole_list(tasks: &[Task]) -> String {
    let mut text = String::new();
    for task in tasks.iter().filter(|task| task.state != TaskState::Deleted) {
        let _ = writeln!(text, "- [{}] {}", task.state.mark(), one_line(&task.subject));
    }
    text
}

/// Returns the texts of the open entries of a task list.
pub fn open_tasks(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.strip_prefix("- [ ] ").or_else(|| line.strip_prefix("- [~] "))).map(
        |words| words.strip_prefix('#').and_then(|rest| rest.split_once(' ')).map_or(words, |(_, rest)| rest),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(boot_ns: u64) -> Order {
        Order { boot_ns, ..Order::default() }
    }

    fn add(id: &str, subject: &str) -> TaskChange {
        TaskChange::Add { id: id.into(), subject: subject.into() }
    }

    fn update(id: &str, state: TaskState) -> TaskChange {
        TaskChange::Update { id: id.into(), subject: None, state: Some(state) }
    }

    /// The list after these changes arrive in this order, each with its capture time.
    fn list_after(changes: &[(u64, TaskChange)]) -> String {
        let mut list = TaskList::default();
        changes.iter().for_each(|(moment, change)| list.take(change, at(*moment)));
        list.text()
    }

    #[test]
    fn the_latest_update_of_each_task_counts() {
        let changes = [
            (1, add("1", "Read the\ncart")),
            (2, add("2", "Fix it")),
            (3, update("1", TaskState::Running)),
            (4, update("1", TaskState::Done)),
            (5, add("3", "Test it")),
            (6, update("3", TaskState::Running)),
            (7, update("2", TaskState::Deleted)),
        ];
        let expected = "- [x] #1 Read the cart\n- [~] #3 Test it\n";
        assert_eq!(list_after(&changes), expected);
        let backwards: Vec<_> = changes.iter().rev().cloned().collect();
        assert_eq!(list_after(&backwards), expected);
        assert_eq!(open_tasks(expected).collect::<Vec<_>>(), ["Test it"]);
    }

    #[test]
    fn a_deleted_task_stays_deleted_in_any_order_of_arrival() {
        let (created, deleted) = ((1, add("1", "Fix it")), (5, update("1", TaskState::Deleted)));
        for others in [vec![], vec![(3, update("1", TaskState::Running))], vec![(7, add("1", "Fix it"))]] {
            let all: Vec<_> = [deleted.clone(), created.clone()].into_iter().chain(others).collect();
            assert_eq!(list_after(&all), "", "{all:?}");
        }
        let json = serde_json::to_string(&{
            let mut list = TaskList::default();
            list.take(&created.1, at(1));
            list.take(&deleted.1, at(5));
            list
        });
        assert!(!json.unwrap().contains("Fix it"), "nothing of it is kept");
    }

    #[test]
    fn a_whole_list_replaces_earlier_updates() {
        let whole = TaskChange::List(vec![
            Task { subject: "A".into(), state: TaskState::Done },
            Task { subject: "B".into(), state: TaskState::Pending },
            Task { subject: "C".into(), state: TaskState::Deleted },
        ]);
        let changes =
            [(1, add("1", "Before")), (2, whole), (3, add("2", "After")), (0, TaskChange::List(vec![]))];
        assert_eq!(list_after(&changes), "- [x] A\n- [ ] B\n- [ ] #2 After\n");
    }

    #[test]
    fn a_task_list_restored_from_text_can_be_updated() {
        let text = "- [ ] Written whole\n- [x] #1 Read it\n- [~] #2 Fix it\n";
        let mut list = TaskList::of_text(text, at(5));
        assert_eq!(list.text(), "- [ ] Written whole\n");
        list.take(&update("2", TaskState::Done), at(6));
        assert_eq!(list.text(), "- [ ] Written whole\n- [x] #2 Fix it\n");
        let mut list = TaskList::of_text("- [ ] #1 Read it\n", at(5));
        list.take(&update("1", TaskState::Deleted), at(6));
        assert_eq!(list.text(), "");
    }

    fn any_change() -> impl Strategy<Value = TaskChange> {
        let id = prop::sample::select(vec!["1", "2", "3"]);
        let state = prop::sample::select(vec![
            TaskState::Pending,
            TaskState::Running,
            TaskState::Done,
            TaskState::Deleted,
        ]);
        prop_oneof![
            4 => (id.clone(), "[a-c]{1,2}").prop_map(|(id, subject)| add(id, &subject)),
            4 => (id.clone(), state).prop_map(|(id, state)| update(id, state)),
            2 => (id, "[a-c]{1,2}").prop_map(|(id, subject)| TaskChange::Update {
                id: id.into(),
                subject: Some(subject),
                state: None,
            }),
            1 => "[a-c]".prop_map(|subject| TaskChange::List(vec![Task { subject, state: TaskState::Pending }])),
        ]
    }

    proptest! {
        #[test]
        fn the_arrival_order_of_task_changes_does_not_matter(
            changes in prop::collection::vec(any_change(), 1..12),
            shuffle in any::<u64>(),
        ) {
            let changes: Vec<_> = (1..).zip(changes).collect();
            let mut shuffled = changes.clone();
            shuffled.sort_by_key(|(moment, _)| (moment * 7919) ^ shuffle.rotate_left(*moment as u32));
            prop_assert_eq!(list_after(&changes), list_after(&shuffled));
        }
    }
}
