//! The secrets that let somebody in, kept as hashes, and how many calls there may be.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use uuid::Uuid;

/// How long a link can be opened.
const LINK_FOR: Duration = Duration::from_secs(300);
/// Links and browsers at the same time; the oldest makes room.
const MOST: usize = 16;
/// Calls in a row of those who were let in, and each second.
const BURST: f64 = 400.0;
const EACH_SECOND: f64 = 200.0;
/// The same of everybody else. Any page in the browser can send calls, and must not take the places of the others.
const STRANGERS_BURST: f64 = 100.0;
const STRANGERS_EACH_SECOND: f64 = 50.0;

/// A hash of a secret: comparing hashes takes as long whatever is right about a guess.
type Digested = [u8; 32];

fn digest(secret: &str) -> Digested {
    Sha256::digest(secret.as_bytes()).into()
}

/// 244 random bits.
fn new_secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// What lets somebody in.
pub struct Keys {
    token: Digested,
    links: Mutex<VecDeque<(Digested, Instant)>>,
    browsers: Mutex<VecDeque<Digested>>,
    callers: Rate,
    strangers: Rate,
}

/// Whose places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Known,
    Stranger,
}

struct Rate {
    burst: f64,
    each_second: f64,
    /// How many places are left, and since when.
    left: Mutex<(f64, Instant)>,
}

impl Rate {
    fn new(burst: f64, each_second: f64) -> Self {
        Self { burst, each_second, left: Mutex::new((burst, Instant::now())) }
    }

    fn take(&self, now: Instant) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(left.1).as_secs_f64();
        *left = ((left.0 + passed * self.each_second).min(self.burst), now);
        let free = left.0 >= 1.0;
        if free {
            left.0 -= 1.0;
        }
        free
    }
}

impl Keys {
    /// The keys, and the token in words.
    pub fn new() -> (Self, String) {
        let token = new_secret();
        let keys = Self {
            token: digest(&token),
            links: Mutex::default(),
            browsers: Mutex::default(),
            callers: Rate::new(BURST, EACH_SECOND),
            strangers: Rate::new(STRANGERS_BURST, STRANGERS_EACH_SECOND),
        };
        (keys, token)
    }

    pub fn new_link(&self) -> String {
        let key = new_secret();
        push(&self.links, (digest(&key), Instant::now()));
        key
    }

    /// The cookie for whoever opens this link; `None`: it was opened before, or is too old.
    pub fn open(&self, key: &str) -> Option<String> {
        let key = digest(key);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|(_, made)| made.elapsed() < LINK_FOR);
        let at = links.iter().position(|(link, _)| *link == key)?;
        links.remove(at);
        let cookie = new_secret();
        push(&self.browsers, digest(&cookie));
        Some(cookie)
    }

    pub fn knows_browser(&self, cookie: &str) -> bool {
        let cookie = digest(cookie);
        self.browsers.lock().unwrap_or_else(PoisonError::into_inner).contains(&cookie)
    }

    pub fn is_token(&self, given: &str) -> bool {
        digest(given) == self.token
    }

    /// Takes a place of this second; false if there is none.
    pub fn take_place(&self, caller: Caller, now: Instant) -> bool {
        match caller {
            Caller::Known => self.callers.take(now),
            Caller::Stranger => self.strangers.take(now),
        }
    }
}

fn push<T>(places: &Mutex<VecDeque<T>>, new: T) {
    let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
    places.truncate(MOST - 1);
    places.push_front(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_lets_one_browser_in_once() {
        let (keys, _) = Keys::new();
        let link = keys.new_link();
        assert_eq!(keys.open("another"), None);
        let cookie = keys.open(&link).unwrap();
        assert!(keys.knows_browser(&cookie) && !keys.knows_browser(&link));
        assert_eq!(keys.open(&link), None, "it was opened before");
        let browsers: Vec<String> = (0..MOST).map(|_| keys.open(&keys.new_link()).unwrap()).collect();
        assert!(!keys.knows_browser(&cookie), "the oldest makes room");
        assert!(browsers.iter().all(|cookie| keys.knows_browser(cookie)));
    }

    #[test]
    fn too_many_calls_wait_for_their_second() {
        let (keys, _) = Keys::new();
        let now = Instant::now();
        let taken = |caller| (0..1_000).filter(|_| keys.take_place(caller, now)).count();
        let strangers = taken(Caller::Stranger);
        assert!((100..=101).contains(&strangers), "{strangers}");
        let known = taken(Caller::Known);
        assert!((400..=401).contains(&known), "strangers take no place of theirs: {known}");
        assert!(keys.take_place(Caller::Known, now + Duration::from_secs(1)));
    }
}
