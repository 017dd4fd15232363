//! Who may call: a program with the token of the note, or a browser that a one-time link has let in.
//!
//! Any page in the user's browser can send requests to this machine, and a name of its own can lead here (DNS
//! rebinding). So `Host` must be this machine, and `Origin`, where there is one, the gateway itself or a page that the user
//! has named.

use hyper::header::{self, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::GatewayContext;
use super::answer::Refusal;

/// What holds for every call: where it is addressed to, and where it comes from. The origin that the user has named, if it
/// comes from such a page.
pub(super) fn check(head: &Parts, gateway: &GatewayContext) -> Result<Option<String>, Refusal> {
    let forbidden = |what| Refusal::new(StatusCode::FORBIDDEN, "forbidden", what);
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    if hosts.next().is_some() || !is_own(host, gateway.port) {
        return Err(forbidden("The call is addressed to another host"));
    }
    let mut origins = head.headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(None) };
    let origin = origin.to_str().ok().filter(|_| origins.next().is_none()).unwrap_or_default();
    if origin.strip_prefix("http://").is_some_and(|host| is_own(host, gateway.port)) {
        return Ok(None);
    }
    if gateway.context.services.config.get().gateway.origins.iter().any(|named| named == origin) {
        return Ok(Some(origin.to_owned()));
    }
    let hint = "`gateway.origins` names the pages that may call.";
    Err(forbidden("The call comes from another page").hint(hint))
}

fn is_own(host: &str, port: u16) -> bool {
    ["127.0.0.1", "localhost"].iter().any(|name| *host == format!("{name}:{port}"))
}

/// What holds for every call that reads or changes something.
pub(super) fn admit(head: &Parts, gateway: &GatewayContext) -> Result<(), Refusal> {
    let unknown = |what: &str| {
        Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", what)
            .hint("Programs send the token of gateway.json as `Authorization: Bearer TOKEN`; for a browser run `recall ui --web`.")
    };
    if let Some(given) = head.headers.get(header::AUTHORIZATION) {
        let token = given.to_str().ok().and_then(|given| given.strip_prefix("Bearer "));
        return match token.is_some_and(|token| gateway.keys.is_token(token)) {
            true => Ok(()),
            false => Err(unknown("The token is not the one of this gateway")),
        };
    }
    let cookie = cookie(&head.headers, &cookie_name(gateway.port));
    if !cookie.is_some_and(|cookie| gateway.keys.knows_browser(cookie)) {
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
