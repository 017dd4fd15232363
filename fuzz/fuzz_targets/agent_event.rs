#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use recall_agents::AGENTS;
use recall_domain::redaction::{RedactionPolicy, Redactor};
use recall_protocol::wire::{Deliver, EventId, Flags, ShimContext};

static REDACTOR: LazyLock<Redactor> =
    LazyLock::new(|| Redactor::new(&RedactionPolicy::default()).expect("the built-in rules are valid"));

// The first byte chooses the agent and the second one its event; the rest is the payload. Any payload is an event or is
// refused, and reading it twice gives the same.
fuzz_target!(|bytes: &[u8]| {
    let [agent, event, payload @ ..] = bytes else { return };
    let agents: Vec<_> = AGENTS.iter().collect();
    let spec = agents[usize::from(*agent) % agents.len()];
    let events = spec.events();
    let delivery = Deliver {
        event_id: EventId([1; 16]),
        agent: spec.name.to_owned(),
        event_name: events[usize::from(*event) % events.len()].name.to_owned(),
        captured_at_ms: 1_795_262_400_000,
        boot_id: [2; 16],
        boot_ns: 3,
        context: ShimContext { cwd: "/home/mia/shop".to_owned(), ..ShimContext::default() },
        payload: payload.to_vec(),
        flags: Flags::default(),
    };
    if let Ok(event) = spec.event(&delivery) {
        assert_eq!(spec.event(&delivery).ok().as_ref(), Some(&event), "read differently");
        REDACTOR.redact_event(event);
    }
});
