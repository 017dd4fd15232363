//! The authors of documents from other machines.

use std::collections::HashSet;
use std::sync::Arc;

use crate::database::row::Sql;
use crate::{Reader, StoreError};
use recall_domain::document::{DocumentKey, Whose};

/// The author name that means the user who is asking.
const ME: &str = "me";

/// The documents that have an author, and the names under which this machine writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authors {
    /// Names in lower case. All machines of a personal share belong to one person.
    foreign: Vec<(DocumentKey, String, Sharer)>,
    own: HashSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharer {
    Oneself,
    Somebody,
}

impl Reader<'_> {
    /// Reads no row on a machine that shares nothing and has imported nothing from others.
    pub fn authors(self) -> Result<Authors, StoreError> {
        let db = self.0;
        let foreign: Vec<(DocumentKey, String, bool)> = db.all(
            "SELECT 'observation', o.id, o.author, ifnull(s.personal, FALSE)
             FROM observations o INDEXED BY observations_by_author LEFT JOIN shares s ON s.id = o.share
             WHERE o.author IS NOT NULL
             UNION ALL SELECT 'summary', m.id, ifnull(m.author, ''), s.personal
             FROM session_summaries m INDEXED BY session_summaries_of_others JOIN shares s ON s.id = m.share
             WHERE m.share IS NOT NULL
             UNION ALL SELECT 'plan', l.id, ifnull(l.author, ''), s.personal
             FROM plans l INDEXED BY plans_of_others JOIN shares s ON s.id = l.share WHERE l.share IS NOT NULL
             UNION ALL SELECT 'said', t.id, t.author, s.personal
             FROM said_elsewhere t INDEXED BY said_elsewhere_by_share JOIN shares s ON s.id = t.share",
            [],
        )?;
        let own: Vec<String> = db.all("SELECT DISTINCT author FROM shares", [])?;
        let sharer = |is_personal: bool| if is_personal { Sharer::Oneself } else { Sharer::Somebody };
        Ok(Authors {
            foreign: foreign
                .into_iter()
                .map(|(key, author, is_personal)| (key, author.to_lowercase(), sharer(is_personal)))
                .collect(),
            own: own.into_iter().map(|name| name.to_lowercase()).collect(),
        })
    }
}

impl Authors {
    /// Returns the documents of an author; `me` is the user who is asking. `None` if the name is unknown.
    pub fn whose(&self, name: &str) -> Option<Whose> {
        let name = name.to_lowercase();
        let keys = |is_listed: &dyn Fn(&str, Sharer) -> bool| {
            let listed = self.foreign.iter().filter(|(_, author, sharer)| is_listed(author, *sharer));
            Arc::new(listed.map(|(key, ..)| *key).collect::<HashSet<_>>())
        };
        if name == ME {
            let is_of_others =
                |author: &str, sharer| sharer == Sharer::Somebody && !self.own.contains(author);
            return Some(Whose::AllBut(keys(&is_of_others)));
        }
        if self.own.contains(&name) {
            return Some(Whose::AllBut(keys(&|author, _| author != name)));
        }
        let keys = keys(&|author, _| author == name);
        (!keys.is_empty()).then_some(Whose::These(keys))
    }

    /// All known names.
    pub fn names(&self) -> Vec<String> {
        let all: HashSet<&String> =
            self.foreign.iter().map(|(_, author, _)| author).chain(&self.own).collect();
        let mut names: Vec<String> = all.into_iter().filter(|name| !name.is_empty()).cloned().collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::document::DocumentKind;

    #[test]
    fn the_author_filter_me_matches_all_machines_of_the_user() {
        let key = |row| DocumentKey { kind: DocumentKind::Observation, row };
        let authors = Authors {
            foreign: vec![
                (key(1), "mia".to_owned(), Sharer::Somebody),
                (key(2), "ben".to_owned(), Sharer::Somebody),
                // Ben's other machine, under another name.
                (key(3), "benjamin".to_owned(), Sharer::Oneself),
            ],
            own: ["ben".to_owned()].into(),
        };
        let check = |name: &str, expected: [bool; 4]| {
            let whose = authors.whose(name).unwrap();
            assert_eq!([1, 2, 3, 9].map(|row| whose.has(key(row))), expected, "{name}");
        };
        check("Mia", [true, false, false, false]);
        check("ben", [false, true, false, true]);
        check("benjamin", [false, false, true, false]);
        check("me", [false, true, true, true]);
        assert_eq!(authors.whose("zoe"), None);
        assert_eq!(authors.names(), ["ben", "benjamin", "mia"]);
        assert!(Authors::default().whose("me").unwrap().has(key(1)));
    }
}
