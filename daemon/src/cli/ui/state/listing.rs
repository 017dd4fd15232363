//! A list of the screen and its pages.

use super::super::row::Row;
use super::super::worker::{MOST_ROWS, Page, ROWS, Rest, Source};

/// A list and its selected row.
#[derive(Debug)]
pub(in crate::cli::ui) struct Listing {
    pub(in crate::cli::ui) source: Source,
    pub(in crate::cli::ui) rows: Vec<Row>,
    pub(in crate::cli::ui) selected: usize,
    /// The first row on the screen. Drawing keeps the selected row visible.
    pub(in crate::cli::ui) top: usize,
    /// The page requested last.
    pub(super) page: Page,
    pub(in crate::cli::ui) rest: Rest,
    pub(in crate::cli::ui) loading: bool,
}

impl Listing {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            rows: Vec::new(),
            selected: 0,
            top: 0,
            page: Page::First(ROWS),
            rest: Rest::Nothing,
            loading: true,
        }
    }

    pub(super) fn remove(&mut self, is_gone: impl Fn(&Row) -> bool) {
        self.rows.retain(|row| !is_gone(row));
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
    }

    /// Returns the page that reloads the shown rows.
    pub(super) fn again(&self) -> Page {
        let shown = u32::try_from(self.rows.len()).unwrap_or(MOST_ROWS);
        match self.page {
            Page::First(limit) => Page::First(limit),
            Page::Next { .. } => Page::First(shown.clamp(ROWS, MOST_ROWS)),
        }
    }

    /// Returns the page after the shown rows; `None` if there is none.
    pub(super) fn more(&self) -> Option<Page> {
        let last = self.rows.last().filter(|_| self.rest == Rest::More)?;
        if self.source.is_by_time() {
            // Several rows may have the same time.
            let of_it = self.rows.iter().rev().take_while(|row| row.at.0 == last.at.0).count();
            let skip = u32::try_from(of_it).unwrap_or(u32::MAX);
            return Some(Page::Next { until_ms: last.at.0.0 + 1, skip });
        }
        let Page::First(limit) = self.page else { return None };
        (limit < MOST_ROWS).then(|| Page::First((limit * 2).min(MOST_ROWS)))
    }
}
