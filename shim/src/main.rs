//! `recall-shim AGENT [EVENT]`: passes one lifecycle event of a coding agent to recall's daemon.
//!
//! Agents run this program at every hook and wait for it, so it is the project's hot path. Its steps in order:
//!
//! | step | at most |
//! |---|---|
//! | answer a person who asks with an option ([`usage`]) | stdin is read and dropped, without waiting for more than 50 ms |
//! | do nothing inside recall's own compressor (`RECALL_DISABLE=1`) | the same |
//! | read stdin until the first complete JSON value, cleaning it as it comes ([`input`]) | 1 s of waiting if it never completes |
//! | stamp it, connect, check who listens, send it, read the answer ([`delivery`]) | 50 ms, 20 ms for events without an answer, or `RECALL_ANSWER_MS` |
//! | without an acknowledgement: store it in the spool | 10 ms |
//! | no daemon listens: start it, at most once every 10 s ([`launch`]); only a session start waits for it | 1 s |
//! | print the answer, whole or not at all ([`output`]) | 20 ms |
//! | read and discard what follows the value, if anything does ([`input::drain`]) | 50 ms without input, 1 s in total |
//!
//! Whatever happens at a hook, the exit code is 0 and stderr stays empty: agents show stderr to the user, pass it to
//! the model, or treat it as a refusal. Only an unknown option without an agent's name is reported on stderr. Stdout
//! contains what the daemon rendered, or the agent's empty answer ([`recall_protocol::agents`]).
//!
//! **Invariant:** no runtime, no regular expressions, no JSON tree, no command line parser.

#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]

mod agent;
mod delivery;
mod input;
mod launch;
mod output;
#[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
mod start;
mod usage;

use std::io::{IsTerminal, Write};
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
use std::process::ExitCode;

use agent::Agent;
use recall_protocol::core_dump;
use usage::Invocation;

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
fn main() -> ExitCode {
    run();
    ExitCode::SUCCESS
}

fn run() {
    // Even a panic must not block the agent or print anything.
    std::panic::set_hook(Box::new(|_| std::process::exit(0)));

    core_dump::disable();

    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let (agent, event_name) = match Invocation::of(arguments) {
        Invocation::Event { .. } if std::io::stdin().is_terminal() => {
            // Stdin is a terminal, so a person runs the shim: no agent gives a hook its terminal.
            output::print(usage::help().as_bytes());
            return;
        }
        Invocation::Event { agent, event_name } => (agent, event_name),
        Invocation::Answer(text) => {
            output::print(text.as_bytes());
            drain();
            return;
        }
        Invocation::UnknownOption(text) => {
            let _ = std::io::stderr().write_all(text.as_bytes());
            drain();
            return;
        }
    };
    let agent = Agent::named(agent);
    if std::env::var_os("RECALL_DISABLE").is_some_and(|value| value == "1") {
        output::print(agent.row().silence(&event_name).as_bytes());
        drain();
        return;
    }

    let input::Input { cleaned, behind } = input::read(rustix::stdio::stdin());
    let event = delivery::Event::new(&agent, event_name, cleaned);
    let answer = event.deliver().unwrap_or_default();
    output::print(if answer.is_empty() { event.silence().as_bytes() } else { &answer });
    if behind == input::Behind::More {
        input::drain(rustix::stdio::stdin());
    }
}

/// Lets the writer finish, although its input is discarded. Terminals are not read.
fn drain() {
    if !std::io::stdin().is_terminal() {
        input::drain(rustix::stdio::stdin());
    }
}
