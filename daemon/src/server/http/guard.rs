//! Decides who may call: a program with the token from the note, or a page with a token that it got through a one-time
//! link. A browser sends neither automatically. Cookies would go to every port of this machine, and so to other users'
//! servers.
//!
//! Any page in the user's browser can send requests to this machine, and its host name can resolve to it (DNS
//! rebinding). So `Host` must be this machine, and `Origin`, if present, must be the gateway itself or a page that the
//! user named.

use hyper::StatusCode;
use hyper::header;
use hyper::http::request::Parts;

use super::GatewayContext;
use super::answer::Refusal;

/// Checks the host and origin of every call. Returns the origin if it is an allowed page.
pub(super) fn check(head: &Parts, gateway: &GatewayContext) -> Result<Option<String>, Refusal> {
    let forbidden = |what| Refusal::new(StatusCode::FORBIDDEN, "forbidden", what);
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    if hosts.next().is_some() || !is_own(host, gateway.port) {
        return Err(forbidden("The request is addressed to another host"));
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
    let hint = "`gateway.origins` lists the pages that may send requests.";
    Err(forbidden("The request comes from another page").hint(hint))
}

fn is_own(host: &str, port: u16) -> bool {
    ["127.0.0.1", "localhost"].iter().any(|name| *host == format!("{name}:{port}"))
}

/// Authorises every call that reads or changes something.
pub(super) fn admit(head: &Parts, gateway: &GatewayContext) -> Result<(), Refusal> {
    let unknown = |what: &str| {
        Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", what)
            .hint("Programs send the token of gateway.json as `Authorization: Bearer TOKEN`; for a browser run `recall ui --web`.")
    };
    let Some(given) = head.headers.get(header::AUTHORIZATION) else {
        return Err(unknown("The request has no token"));
    };
    let token = given.to_str().ok().and_then(|given| given.strip_prefix("Bearer "));
    match token.is_some_and(|token| gateway.keys.is_token(token)) {
        true => Ok(()),
        false => Err(unknown("The token does not belong to this gateway")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_local_host_with_the_gateways_port_is_accepted() {
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
