//! Measures hooks while readers follow the gateway's events. One of the readers has stopped reading.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use recall_protocol::frame::Deadline;
use recall_protocol::query::Status;
use recall_protocol::wire::Reply;
use serde_json::{Value, json};

use super::{Services, deliver, percentile};

/// Hook events per second.
const RATE: u32 = 500;
/// The events of one round.
const EVENTS: usize = 2_500;
/// Rounds without and with readers. They alternate, so that other load on the machine affects both.
const ROUNDS: usize = 4;

/// Prints the times of hooks without and with readers, and the daemon's memory.
pub(super) fn measure(readers: usize) {
    let mut services = Services::new();
    std::fs::create_dir_all(services.paths.config_file().parent().unwrap()).unwrap();
    std::fs::write(services.paths.config_file(), "[gateway]\nenabled = true\n").unwrap();
    services.start();
    // The gateway is open when the daemon answers queries.
    services.ask(Status);
    let note = std::fs::read(services.folder.path().join("run/gateway.json")).unwrap();
    let note: Value = serde_json::from_slice(&note).unwrap();
    let mut number = 0;
    round(&services, &mut number);
    let rss = |services: &Services| services.ask(Status)["rss_bytes"].as_f64().unwrap() / 1048576.0;
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    let (mut grown_alone, mut grown_watched) = (0.0, 0.0);
    let read = Arc::new(AtomicU64::new(0));
    for _ in 0..ROUNDS {
        let begun = rss(&services);
        alone.extend(round(&services, &mut number));
        let between = rss(&services);
        grown_alone += between - begun;
        let streams: Vec<TcpStream> = (0..readers).map(|_| follow(&note)).collect();
        // The first reader does not read, so its socket fills.
        streams.iter().skip(1).for_each(|stream| count_events(stream, &read));
        watched.extend(round(&services, &mut number));
        for stream in streams {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        grown_watched += rss(&services) - between;
    }
    println!(
        "\n{RATE} hook events a second, without readers and with {readers}, one of which reads nothing\n"
    );
    println!("| | p50 ms | p99 ms |\n|---|---:|---:|");
    for (name, times) in [("without", &mut alone), ("with", &mut watched)] {
        println!("| {name} | {:.2} | {:.2} |", percentile(times, 50.0), percentile(times, 99.0));
    }
    println!("\nevents read: {}", read.load(Ordering::Relaxed));
    println!(
        "daemon RSS: {:.1} MiB; grown by {grown_alone:.1} MiB without and by {grown_watched:.1} MiB with readers",
        rss(&services)
    );
}

/// Sends prompts, calls and answers at a steady rate. Returns the milliseconds of each. Every session has one turn.
fn round(services: &Services, number: &mut usize) -> Vec<f64> {
    let mut connection = services.connect();
    let begun = Instant::now();
    let mut took = Vec::new();
    for nth in 0..EVENTS {
        let due = begun + nth as u32 * Duration::from_secs(1) / RATE;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let (session, part) = (*number / 5, *number % 5);
        let mut event = match part {
            0 => json!({"hook_event_name": "UserPromptSubmit", "prompt": format!("look at step {session}")}),
            4 => json!({"hook_event_name": "SessionEnd", "reason": "other"}),
            3 => {
                json!({"hook_event_name": "Stop", "last_assistant_message": format!("Step {session} is done.")})
            }
            _ => {
                json!({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": format!("t{number}"),
                "tool_input": {"command": format!("make step-{number}")},
                "tool_response": {"stdout": "x".repeat(700), "stderr": ""}})
            }
        };
        event["session_id"] = json!(format!("watched-{session}"));
        event["cwd"] = json!("/tmp");
        *number += 1;
        let request = deliver(&event, *number as u128 + (1 << 65));
        let sent = Instant::now();
        let reply = connection.ask(&request, Deadline::after(Duration::from_secs(20))).unwrap();
        assert!(matches!(reply, Reply::Ack { .. } | Reply::Unsaved { .. }), "{reply:?}");
        took.push(sent.elapsed().as_secs_f64() * 1000.0);
    }
    took
}

/// Opens the stream of events.
fn follow(note: &Value) -> TcpStream {
    let address = note["url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let token = note["token"].as_str().unwrap();
    let head =
        format!("GET /api/stream HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Counts events on another thread until the stream ends.
fn count_events(stream: &TcpStream, count: &Arc<AtomicU64>) {
    let (lines, count) = (BufReader::new(stream.try_clone().unwrap()), Arc::clone(count));
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            count.fetch_add(u64::from(line.starts_with("id: ")), Ordering::Relaxed);
        }
    });
}
