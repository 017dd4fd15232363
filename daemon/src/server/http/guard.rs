//! Who may call: a program with the token of the note, or a browser that a one-time link has let in.
//!
//! Any page in the user's browser can send requests to this machine, and a name of its own can lead here (DNS
//! rebinding). So `Host` must be this machine, and `Origin`, where there is one, the gateway itself.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{self, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::Reception;
use super::answer::Refusal;

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
pub(super) struct Keys {
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
    pub(super) fn new() -> (Self, String) {
        let token = new_secret();
        let rate = Mutex::new(Rate { left: BURST, at: Instant::now() });
        (Self { token: digest(&token), links: Mutex::default(), browsers: Mutex::default(), rate }, token)
    }

    pub(super) fn new_link(&self) -> String {
        let key = new_secret();
        push(&self.links, (digest(&key), Instant::now()));
        key
    }

    /// The cookie for whoever opens this link; `None`: it was opened before, or is too old.
    pub(super) fn open(&self, key: &str) -> Option<String> {
        let key = digest(key);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|(_, made)| made.elapsed() < LINK_FOR);
        let at = links.iter().position(|(link, _)| *link == key)?;
        links.remove(at);
        let cookie = new_secret();
        push(&self.browsers, digest(&cookie));
        Some(cookie)
    }

    fn knows_browser(&self, cookie: &str) -> bool {
        let cookie = digest(cookie);
        self.browsers.lock().unwrap_or_else(PoisonError::into_inner).contains(&cookie)
    }

    /// Takes a place of this second.
    fn take_place(&self, now: Instant) -> bool {
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

/// What holds for every call: where it is addressed to, where it comes from, and how many there are.
pub(super) fn check(head: &Parts, reception: &Reception) -> Result<(), Refusal> {
    let forbidden = |what| Refusal::new(StatusCode::FORBIDDEN, "forbidden", what);
    if !reception.keys.take_place(Instant::now()) {
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many", "Too many calls")
            .hint("Try again in a second."));
    }
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    if hosts.next().is_some() || !is_own(host, reception.port) {
        return Err(forbidden("The call is addressed to another host"));
    }
    let own = |origin: &str| origin.strip_prefix("http://").is_some_and(|host| is_own(host, reception.port));
    if head.headers.get_all(header::ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(own)) {
        return Err(forbidden("The call comes from another page"));
    }
    Ok(())
}

fn is_own(host: &str, port: u16) -> bool {
    ["127.0.0.1", "localhost"].iter().any(|name| *host == format!("{name}:{port}"))
}

/// What holds for every call that reads or changes something.
pub(super) fn admit(head: &Parts, reception: &Reception) -> Result<(), Refusal> {
    let unknown = |what: &str| {
        Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", what)
            .hint("Programs send the token of gateway.json as `Authorization: Bearer TOKEN`; for a browser run `recall ui --web`.")
    };
    if let Some(given) = head.headers.get(header::AUTHORIZATION) {
        let token = given.to_str().ok().and_then(|given| given.strip_prefix("Bearer "));
        return match token.is_some_and(|token| digest(token) == reception.keys.token) {
            true => Ok(()),
            false => Err(unknown("The token is not the one of this gateway")),
        };
    }
    let cookie = cookie(&head.headers, &cookie_name(reception.port));
    if !cookie.is_some_and(|cookie| reception.keys.knows_browser(cookie)) {
        return Err(unknown("The call has no token"));
    }
    // A cookie comes along whoever makes the browser call, also a page on another port of this machine.
    let site = head.headers.get("sec-fetch-site").map_or("none", |site| site.to_str().unwrap_or("?"));
    let has_origin = head.headers.contains_key(header::ORIGIN);
    if !matches!(site, "same-origin" | "none") || (head.method != Method::GET && !has_origin) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", "The call comes from another page"));
    }
    Ok(())
}

/// Cookies do not tell ports apart.
pub(super) fn cookie_name(port: u16) -> String {
    format!("recall_{port}")
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let given = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let mut pairs =
        given.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
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

    #[test]
    fn only_this_machine_is_ours() {
        for (host, expected) in [
            ("127.0.0.1:7", true),
            ("localhost:7", true),
            ("127.0.0.1", false),
            ("127.0.0.1:8", false),
            ("evil.example:7", false),
            ("127.0.0.1:7.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_own(host, 7), expected, "{host}");
        }
    }
}
