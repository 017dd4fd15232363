//! Sends the same events in every run, to a daemon whose instructions are counted. The events are sessions with
//! prompts, calls of 1 KB or another size, and answers. The difference between a longer and a shorter run is the cost
//! of the additional events.

use std::time::Duration;

use recall_protocol::frame::Deadline;
use recall_protocol::query::{Flush, Stop};
use recall_protocol::wire::Reply;
use serde_json::{Value, json};

use super::{Random, Services, deliver};

/// Calls per turn, and turns per session.
const CALLS: usize = 8;
const TURNS: usize = 5;

/// Sends this many events with calls of this many bytes. Waits until they are compressed and searchable, and stops
/// the daemon.
pub(super) fn play(events: usize, bytes: usize, under: Option<&str>) {
    let mut services = Services::new();
    services.start_under(under);
    let mut connection = services.connect();
    let mut random = Random(11);
    for number in 0..events {
        let request = deliver(&event(number, bytes, &mut random), number as u128 + 1);
        let reply = connection.ask(&request, Deadline::after(Duration::from_secs(60))).unwrap();
        assert!(matches!(reply, Reply::Ack { .. } | Reply::Unsaved { .. }), "{reply:?}");
    }
    services.ask(Flush);
    services.ask(Stop);
    services.daemon.take().unwrap().wait().unwrap();
    println!("{events} events of {bytes} bytes");
}

fn event(number: usize, bytes: usize, random: &mut Random) -> Value {
    let in_turn = number % (CALLS + 2);
    let turn = number / (CALLS + 2);
    let mut event = match in_turn {
        0 => {
            json!({"hook_event_name": "UserPromptSubmit", "prompt": format!("Why does the {} fail?", random.words(6))})
        }
        last if last == CALLS + 1 => {
            json!({"hook_event_name": "Stop", "last_assistant_message": format!("The {} was wrong. {}", random.words(4), random.words(20))})
        }
        _ => {
            json!({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": format!("t{number}"),
            "tool_input": {"command": format!("make {}-{number}", random.words(1))},
            "tool_response": {"stdout": output(bytes.saturating_sub(300), random), "stderr": ""}})
        }
    };
    event["session_id"] = json!(format!("replayed-{}", turn / TURNS));
    event["cwd"] = json!("/tmp");
    event
}

/// Returns lines as a program prints them.
fn output(bytes: usize, random: &mut Random) -> String {
    let mut text = String::new();
    while text.len() < bytes {
        text.push_str(&format!("src/{}.rs:{}: {}\n", random.words(1), random.next() % 900, random.words(5)));
    }
    text.truncate(bytes);
    text
}
