//! The merged state of a shared note.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DeviceId, Stamp};
use crate::ids::Timestamp;

/// Field values by name.
pub type ItemFields = BTreeMap<String, Value>;

/// A value with its stamp.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StampedValue {
    pub value: Value,
    #[serde(flatten)]
    pub stamp: Stamp,
}

impl StampedValue {
    /// Whether this value wins. Equal stamps are decided by the values' text, so all machines keep the same one.
    fn beats(&self, value: &Value, stamp: &Stamp) -> bool {
        let text = |value: &Value| value.to_string();
        self.stamp > *stamp || self.stamp == *stamp && text(&self.value) >= text(value)
    }
}

/// Why a note was removed. `Forgotten` means that a person deleted it, for good and on all machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemRemoval {
    /// Its author's machine no longer has it, or no longer shares it. Later statements about it count again.
    Withdrawn,
    Forgotten,
}

/// A change of a note.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemChange {
    Set(ItemFields),
    Remove(ItemRemoval),
}

/// The state that results from all known changes of a note.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharedItem {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<String, StampedValue>,
    /// A permanent removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removed: Option<ItemRemoval>,
    /// The last withdrawal. Nothing said before it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    withdrawn: Option<Stamp>,
}

impl SharedItem {
    /// Adds a change. The result depends only on the set of added changes.
    pub fn merge(&mut self, change: &ItemChange, stamp: &Stamp) {
        match change {
            ItemChange::Remove(ItemRemoval::Forgotten) => {
                *self = Self { removed: Some(ItemRemoval::Forgotten), ..Self::default() };
            }
            _ if self.removed.is_some() => {}
            ItemChange::Remove(ItemRemoval::Withdrawn) => {
                if self.withdrawn.as_ref() < Some(stamp) {
                    self.withdrawn = Some(stamp.clone());
                    self.fields.retain(|_, field| field.stamp > *stamp);
                }
            }
            ItemChange::Set(_) if self.withdrawn.as_ref() >= Some(stamp) => {}
            ItemChange::Set(fields) => {
                for (name, value) in fields {
                    let known = self.fields.get(name);
                    if known.is_none_or(|known| !known.beats(value, stamp)) {
                        let field = StampedValue { value: value.clone(), stamp: stamp.clone() };
                        self.fields.insert(name.clone(), field);
                    }
                }
            }
        }
    }

    /// Why it is not shown. After a withdrawal, later statements may be too few to show it.
    pub fn removed(&self) -> Option<ItemRemoval> {
        let withdrawn = self.withdrawn.as_ref().filter(|_| self.is_empty());
        self.removed.or(withdrawn.map(|_| ItemRemoval::Withdrawn))
    }

    /// Whether the removal is permanent: no later change counts.
    pub fn is_gone_for_good(&self) -> bool {
        self.removed.is_some()
    }

    pub fn was_withdrawn(&self) -> bool {
        self.withdrawn.is_some()
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether no statement about it counts.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// A field's value; null if it is missing.
    pub fn get(&self, name: &str) -> &Value {
        self.fields.get(name).map_or(&Value::Null, |field| &field.value)
    }

    /// The device that first said when it was made: its author's.
    pub fn made_by(&self) -> Option<&DeviceId> {
        self.fields.get("created_at").map(|field| &field.stamp.device)
    }

    /// Whether the field was ever set.
    pub fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Returns the fields of `now` that differ from this state. A mark that nobody has set is not set; so a machine
    /// does not say so of each note that arrives.
    pub fn difference(&self, now: &ItemFields) -> ItemFields {
        let differs = |(name, value): &(&String, &Value)| {
            self.get(name) != *value && (self.has(name) || **value != Value::Bool(false))
        };
        now.iter().filter(differs).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The time of the latest change that counts, in milliseconds since 1970.
    pub fn latest(&self) -> Option<i64> {
        self.fields.values().map(|field| &field.stamp).chain(&self.withdrawn).map(|stamp| stamp.at).max()
    }

    /// The time to give to a change so that it beats everything known here.
    pub fn next_at(&self, now: Timestamp) -> i64 {
        self.latest().map_or(now.0, |latest| now.0.max(latest.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::sync::DeviceId;

    fn stamp(at: i64, device: &str) -> Stamp {
        Stamp { at, device: DeviceId(device.to_owned()) }
    }

    fn set(fields: &[(&str, Value)]) -> ItemChange {
        ItemChange::Set(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    fn merged<'a>(changes: impl IntoIterator<Item = &'a (ItemChange, Stamp)>) -> SharedItem {
        let mut item = SharedItem::default();
        changes.into_iter().for_each(|(change, stamp)| item.merge(change, stamp));
        item
    }

    #[test]
    fn the_latest_change_of_each_field_wins_and_forgetting_overrides_all() {
        let mut item = SharedItem::default();
        item.merge(&set(&[("title", json!("a")), ("resolved", json!(false))]), &stamp(5, "a"));
        item.merge(&set(&[("title", json!("b"))]), &stamp(7, "b"));
        item.merge(&set(&[("title", json!("c")), ("resolved", json!(true))]), &stamp(6, "c"));
        assert_eq!((item.get("title"), item.get("resolved")), (&json!("b"), &json!(true)));
        item.merge(&set(&[("title", json!("d"))]), &stamp(7, "d"));
        assert_eq!(item.get("title"), "d", "at the same time the greater device counts");
        item.merge(&ItemChange::Remove(ItemRemoval::Forgotten), &stamp(1, "a"));
        item.merge(&set(&[("title", json!("e"))]), &stamp(99, "e"));
        item.merge(&ItemChange::Remove(ItemRemoval::Withdrawn), &stamp(100, "e"));
        assert_eq!((item.get("title"), item.removed()), (&Value::Null, Some(ItemRemoval::Forgotten)));
    }

    #[test]
    fn a_withdrawn_note_can_be_shared_again_unless_it_was_forgotten() {
        let mut item = SharedItem::default();
        item.merge(&set(&[("title", json!("a"))]), &stamp(5, "a"));
        item.merge(&ItemChange::Remove(ItemRemoval::Withdrawn), &stamp(6, "a"));
        item.merge(&set(&[("title", json!("heard late"))]), &stamp(5, "b"));
        assert_eq!((item.get("title"), item.removed()), (&Value::Null, Some(ItemRemoval::Withdrawn)));
        let again = stamp(item.next_at(Timestamp(1)), "a");
        item.merge(&set(&[("title", json!("b"))]), &again);
        item.merge(&ItemChange::Remove(ItemRemoval::Withdrawn), &stamp(6, "a"));
        assert_eq!((item.get("title"), item.removed()), (&json!("b"), None));
        item.merge(&ItemChange::Remove(ItemRemoval::Forgotten), &stamp(1, "b"));
        item.merge(&set(&[("title", json!("c"))]), &stamp(99, "a"));
        assert_eq!(item.removed(), Some(ItemRemoval::Forgotten));
    }

    #[test]
    fn a_change_wins_over_the_state_its_author_saw_despite_wrong_clocks() {
        let mut item = SharedItem::default();
        let in_a_year = Timestamp(1_000 + 31_536_000_000);
        item.merge(&set(&[("title", json!("from a clock a year ahead"))]), &stamp(in_a_year.0, "z"));
        let answer = stamp(item.next_at(Timestamp(1_000)), "a");
        item.merge(&set(&[("title", json!("answered today"))]), &answer);
        assert_eq!(item.get("title"), "answered today");
        assert_eq!(SharedItem::default().next_at(Timestamp(7)), 7);
    }

    #[test]
    fn only_differing_fields_count_as_a_change() {
        let item = merged(&[(set(&[("title", json!("a")), ("subtitle", Value::Null)]), stamp(1, "a"))]);
        let now = |title: &str| -> ItemFields {
            [("title".to_owned(), json!(title)), ("subtitle".to_owned(), Value::Null)].into()
        };
        assert!(item.difference(&now("a")).is_empty());
        assert_eq!(item.difference(&now("b")).into_keys().collect::<Vec<_>>(), ["title"]);
    }

    fn change() -> impl Strategy<Value = (ItemChange, Stamp)> {
        let fields = proptest::collection::btree_map("[ab]", (0..3_i32).prop_map(|n| json!(n)), 0..3);
        let removal = prop_oneof![Just(ItemRemoval::Withdrawn), Just(ItemRemoval::Forgotten)];
        let change =
            prop_oneof![8 => fields.prop_map(ItemChange::Set), 1 => removal.prop_map(ItemChange::Remove)];
        // Few times and devices, so that ties are frequent.
        (change, 0..3_i64, "[xyz]").prop_map(|(change, at, device)| (change, stamp(at, &device)))
    }

    proptest! {
        #[test]
        fn changes_in_any_order_and_with_repetitions_merge_to_the_same_state(
            (changes, shuffled, again) in proptest::collection::vec(change(), 0..12).prop_flat_map(|changes| {
                let some = proptest::sample::subsequence(changes.clone(), 0..=changes.len());
                (Just(changes.clone()), Just(changes).prop_shuffle(), some)
            })
        ) {
            let expected = merged(&changes);
            prop_assert_eq!(&merged(&shuffled), &expected);
            prop_assert_eq!(&merged(again.iter().chain(&shuffled).chain(&again)), &expected);
            // A state that was stored and read back merges in the same way.
            let stored = serde_json::to_string(&merged(&again)).unwrap();
            let mut read: SharedItem = serde_json::from_str(&stored).unwrap();
            shuffled.iter().for_each(|(change, stamp)| read.merge(change, stamp));
            prop_assert_eq!(&read, &expected);
        }
    }
}
