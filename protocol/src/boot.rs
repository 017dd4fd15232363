//! Timestamps on a clock that cannot be set back.
//!
//! Events of a session are ordered by boot and by time since boot, so clock steps, daylight saving changes and late
//! spool files cannot reorder them.
//!
//! Linux names each boot (`/proc/sys/kernel/random/boot_id`), and CLOCK_BOOTTIME keeps counting during suspend. Where
//! reading the boot's name needs C code (macOS keeps it behind `sysctl`), the id is all zeros and the time comes from
//! the wall clock. Such events remain comparable but are affected by clock steps.

use std::time::{SystemTime, UNIX_EPOCH};

/// The boot id used where the boot has no readable name.
pub const UNKNOWN_BOOT: [u8; 16] = [0; 16];

/// A point in time relative to a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootStamp {
    pub boot_id: [u8; 16],
    /// Nanoseconds since that boot, or since 1970 if `boot_id` is [`UNKNOWN_BOOT`].
    pub boot_ns: u64,
}

impl BootStamp {
    /// Reads the clock. Never fails: the module documentation describes the fallback.
    pub fn now() -> Self {
        match (read_boot_id(), since_boot_ns()) {
            (Some(boot_id), Some(boot_ns)) => Self { boot_id, boot_ns },
            (None, _) | (_, None) => Self { boot_id: UNKNOWN_BOOT, boot_ns: wall_ns() },
        }
    }
}

/// The wall clock in milliseconds since 1970 (UTC), or 0 if it is set to an earlier time.
pub fn wall_ms() -> i64 {
    i64::try_from(wall_ns() / 1_000_000).unwrap_or(i64::MAX)
}

fn wall_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(target_os = "linux")]
fn read_boot_id() -> Option<[u8; 16]> {
    use rustix::fs::{Mode, OFlags};

    // One open and one read; the standard library's reader would ask for the file's size first.
    let file =
        rustix::fs::open("/proc/sys/kernel/random/boot_id", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .ok()?;
    let mut text = [0; 36];
    let read = rustix::io::read(&file, &mut text).ok()?;
    parse_boot_id(text.get(..read)?)
}

#[cfg(not(target_os = "linux"))]
fn read_boot_id() -> Option<[u8; 16]> {
    None
}

#[cfg(target_os = "linux")]
fn since_boot_ns() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec).ok()?)
}

#[cfg(not(target_os = "linux"))]
fn since_boot_ns() -> Option<u64> {
    None
}

/// Reads `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
#[cfg(any(target_os = "linux", test))]
fn parse_boot_id(text: &[u8]) -> Option<[u8; 16]> {
    let mut id = [0; 16];
    let mut digits = text.iter().filter(|byte| **byte != b'-').map(|byte| char::from(*byte).to_digit(16));
    for byte in &mut id {
        let (high, low) = (digits.next()??, digits.next()??);
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    digits.next().is_none().then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_stamps_of_one_boot_are_in_order() {
        let first = BootStamp::now();
        let second = BootStamp::now();
        assert_eq!(first.boot_id, second.boot_id);
        assert!(first.boot_ns <= second.boot_ns);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn linux_provides_the_boot_id() {
        let stamp = BootStamp::now();
        assert_ne!(stamp.boot_id, UNKNOWN_BOOT);
        assert!(stamp.boot_ns < wall_ns());
    }

    #[test]
    fn boot_ids_are_uuids() {
        let id = parse_boot_id(b"01234567-89ab-cdef-0123-456789abcdef").expect("a uuid");
        assert_eq!(
            id,
            [1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]
        );
        for text in
            ["", "01234567", "g1234567-89ab-cdef-0123-456789abcdef", "01234567-89ab-cdef-0123-456789abcdef0"]
        {
            assert_eq!(parse_boot_id(text.as_bytes()), None, "{text}");
        }
    }
}
