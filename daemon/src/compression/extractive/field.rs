//! A field of a summary: entries in one line, up to a limit.

/// A field that grows up to its room, entries separated by semicolons.
pub(super) struct Field {
    pub(super) text: String,
    room: usize,
}

impl Field {
    pub(super) fn new(room: usize) -> Self {
        Self { text: String::new(), room }
    }

    pub(super) fn has_room(&self, entry: &str) -> bool {
        self.text.is_empty() || self.text.len() + entry.len() + 2 <= self.room
    }

    pub(super) fn add(&mut self, entry: &str) {
        let entry = entry.trim().trim_end_matches([';', '.', ':']);
        if entry.is_empty() || !self.has_room(entry) {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("; ");
        }
        self.text.push_str(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_joined_while_there_is_room() {
        let mut field = Field::new(12);
        field.add("one.");
        field.add(" ");
        field.add("two");
        field.add("three");
        assert_eq!(field.text, "one; two");
        assert!(!field.has_room("three"));
        assert!(field.has_room("4"));
    }

    #[test]
    fn the_first_entry_is_told_whatever_its_length() {
        let mut field = Field::new(3);
        field.add("longer");
        assert_eq!(field.text, "longer");
    }
}
