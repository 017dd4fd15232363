//! The gateway's secrets, stored as hashes, and its rate limits.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use uuid::Uuid;

/// How long a link is valid.
const LINK_FOR: Duration = Duration::from_secs(300);
/// The maximum number of links, and of browser pages, at the same time. A new one replaces the oldest.
const MOST: usize = 16;
/// The number of calls that authorised callers may make at once, and per second.
const BURST: f64 = 400.0;
const EACH_SECOND: f64 = 200.0;
/// The number of calls that all other callers may make at once, and per second. Any page in the browser can send
/// calls, and these must not use up what authorised callers may make.
const STRANGERS_BURST: f64 = 100.0;
const STRANGERS_EACH_SECOND: f64 = 50.0;

/// The hash of a secret. Comparing hashes takes equally long however much of a guess is right.
type Digested = [u8; 32];

fn digest(secret: &str) -> Digested {
    Sha256::digest(secret.as_bytes()).into()
}

/// A secret of 244 random bits.
fn new_secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// The gateway's credentials: token, one-time links, cookies.
pub struct Keys {
    /// The token, which also proves that this gateway is the one in the note.
    token: String,
    links: Mutex<VecDeque<Link>>,
    /// The tokens of pages that signed in through a link.
    pages: Mutex<VecDeque<Digested>>,
    callers: Rate,
    strangers: Rate,
}

struct Link {
    key: Digested,
    made: Instant,
    state: LinkState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Open,
    Used,
}

/// Why a link does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// The link was used before.
    Used,
    /// The link has expired, or belongs to another daemon.
    Unknown,
}

/// The rate limit group of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Known,
    Stranger,
}

struct Rate {
    burst: f64,
    each_second: f64,
    /// The number of calls left, and the time of that count.
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
    /// Creates the keys, and returns the token as text.
    pub fn new() -> (Self, String) {
        let token = new_secret();
        let keys = Self {
            token: token.clone(),
            links: Mutex::default(),
            pages: Mutex::default(),
            callers: Rate::new(BURST, EACH_SECOND),
            strangers: Rate::new(STRANGERS_BURST, STRANGERS_EACH_SECOND),
        };
        (keys, token)
    }

    pub fn new_link(&self) -> String {
        let key = new_secret();
        push(&self.links, Link { key: digest(&key), made: Instant::now(), state: LinkState::Open });
        key
    }

    /// Exchanges the key of a link for a token for its page.
    ///
    /// # Errors
    /// Fails when the link was already used or has expired.
    pub fn open(&self, key: &str) -> Result<String, Locked> {
        let key = digest(key);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let link = links.iter_mut().find(|link| link.key == key).ok_or(Locked::Unknown)?;
        if link.state == LinkState::Used {
            return Err(Locked::Used);
        }
        if link.made.elapsed() >= LINK_FOR {
            return Err(Locked::Unknown);
        }
        link.state = LinkState::Used;
        let token = new_secret();
        push(&self.pages, digest(&token));
        Ok(token)
    }

    /// Whether this is the token of the note or of a page.
    pub fn is_token(&self, given: &str) -> bool {
        let given = digest(given);
        given == digest(&self.token)
            || self.pages.lock().unwrap_or_else(PoisonError::into_inner).contains(&given)
    }

    /// Proves knowledge of the note's token by an HMAC-SHA256 in hexadecimal.
    pub fn proof(&self, challenge: &str) -> String {
        let key = self.token.as_bytes();
        let pad = |with: u8| {
            let mut block = [with; 64];
            for (byte, key) in block.iter_mut().zip(key) {
                *byte ^= key;
            }
            block
        };
        let inner = Sha256::new().chain_update(pad(0x36)).chain_update(challenge).finalize();
        let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
        outer.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Uses up one call of this second. Returns `false` if none is left.
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
    fn a_link_can_be_opened_only_once() {
        let (keys, _) = Keys::new();
        let link = keys.new_link();
        assert_eq!(keys.open("another"), Err(Locked::Unknown));
        let page = keys.open(&link).unwrap();
        assert!(keys.is_token(&page) && !keys.is_token(&link));
        assert_eq!(keys.open(&link), Err(Locked::Used));
        let pages: Vec<String> = (0..MOST).map(|_| keys.open(&keys.new_link()).unwrap()).collect();
        assert!(!keys.is_token(&page), "the oldest makes room");
        assert!(pages.iter().all(|page| keys.is_token(page)));
    }

    #[test]
    fn the_proof_is_an_hmac() {
        // RFC 4231, test case 2.
        let (mut keys, token) = Keys::new();
        assert!(token.len() == 64 && keys.proof("a") != keys.proof("b"), "the key is one block");
        keys.token = "Jefe".to_owned();
        assert_eq!(
            keys.proof("what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn strangers_and_known_callers_have_separate_limits_per_second() {
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
