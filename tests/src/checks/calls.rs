//! Checks that models are called only at their configured address.

use crate::Stage;
use crate::provider::{Behaviour, Provider, well};

/// No redirect and no variable of the environment changes the configured address.
pub fn redirects_reach_no_second_host(stage: Stage, status: u16) -> Stage {
    let elsewhere = Provider::start(well);
    let target = elsewhere.url();
    let location = vec![("location".to_owned(), format!("{target}/chat/completions"))];
    let provider =
        Provider::start(move |_, _| Behaviour::Raw { status, headers: location.clone(), body: Vec::new() });
    let stage = stage
        .config(&provider.config("openai", ""))
        .variable("HTTP_PROXY", &target)
        .variable("http_proxy", &target)
        .variable("ALL_PROXY", &target)
        .daemon();
    stage.discount_session("s1");
    stage.flush();
    assert!(!provider.asked().is_empty(), "the configured host was asked");
    assert_eq!(elsewhere.connections(), 0, "a second host was reached");
    stage
}
