//! Decides when an open batch is compressed.
//!
//! The whole batch is compressed each time, because later work may change the meaning of earlier work. So the interval
//! grows with the batch: a batch of thousands of activities is read about three times, not once per fifty activities.

/// A number of activities and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub activities: u32,
    /// The number of bytes of their inputs and responses.
    pub bytes: u64,
}

/// The load that was compressed, and the load that was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    pub compressed: Load,
    /// The load added since the last compression.
    pub fresh: Load,
}

impl Growth {
    /// Adds an activity of `bytes`.
    pub fn add(&mut self, bytes: u64) {
        self.fresh.activities = self.fresh.activities.saturating_add(1);
        self.fresh.bytes = self.fresh.bytes.saturating_add(bytes);
    }

    /// Whether the new part is as large as a chunk and as half of the compressed part.
    pub fn is_due(&self, chunk: Load) -> bool {
        self.fresh.activities >= chunk.activities.max(self.compressed.activities / 2)
            || self.fresh.bytes >= chunk.bytes.max(self.compressed.bytes / 2)
    }

    /// Adds the load of another batch that is merged into this one.
    pub fn join(&mut self, other: Self) {
        let loads = [other.compressed, other.fresh];
        self.fresh.activities =
            loads.iter().fold(self.fresh.activities, |sum, load| sum.saturating_add(load.activities));
        self.fresh.bytes = loads.iter().fold(self.fresh.bytes, |sum, load| sum.saturating_add(load.bytes));
    }

    pub fn compress(&mut self) {
        self.compressed.activities = self.compressed.activities.saturating_add(self.fresh.activities);
        self.compressed.bytes = self.compressed.bytes.saturating_add(self.fresh.bytes);
        self.fresh = Load::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of activities, of one kilobyte each, after which a batch is compressed.
    fn due_at(chunk: Load, until: u32) -> Vec<u32> {
        let mut growth = Growth::default();
        let mut is_due = |_: &u32| {
            growth.add(1_000);
            let is_due = growth.is_due(chunk);
            if is_due {
                growth.compress();
            }
            is_due
        };
        (1..=until).filter(|number| is_due(number)).collect()
    }

    #[test]
    fn the_interval_between_compressions_grows_with_the_batch() {
        let by_number = Load { activities: 50, bytes: u64::MAX };
        assert_eq!(due_at(by_number, 800), [50, 100, 150, 225, 337, 505, 757]);
        let by_bytes = Load { activities: u32::MAX, bytes: 200_000 };
        assert_eq!(due_at(by_bytes, 1_000), [200, 400, 600, 900]);
    }

    #[test]
    fn compressions_read_at_most_three_times_the_size_of_a_long_batch() {
        let chunk = Load { activities: 50, bytes: u64::MAX };
        let read: u32 = due_at(chunk, 10_000).iter().sum();
        assert!(read <= 30_000, "{read}");
    }
}
