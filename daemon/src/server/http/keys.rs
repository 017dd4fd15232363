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
/// Calls in a row, and each second.
const BURST: f64 = 400.0;
const EACH_SECOND: f64 = 200.0;

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
    rate: Mutex<Rate>,
}

struct Rate {
    left: f64,
    at: Instant,
}

impl Keys {
    /// The keys, and the token in words.
    pub fn new() -> (Self, String) {
        let token = new_secret();
        let rate = Mutex::new(Rate { left: BURST, at: Instant::now() });
        (Self { token: digest(&token), links: Mutex::default(), browsers: Mutex::default(), rate }, token)
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
    pub fn take_place(&self, now: Instant) -> bool {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(rate.at).as_secs_f64();
        rate.left = (rate.left + passed * EACH_SECOND).min(BURST);
        rate.at = now;
        let free = rate.left >= 1.0;
        if free {
            rate.left -= 1.0;
        }
        free
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
        let taken = (0..1_000).filter(|_| keys.take_place(now)).count();
        assert!((400..=401).contains(&taken), "{taken}");
        assert!(keys.take_place(now + Duration::from_secs(1)));
    }
}
