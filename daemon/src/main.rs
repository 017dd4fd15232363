//! The `recall` program: the daemon, and every command that talks to it.

use std::process::ExitCode;

fn main() -> ExitCode {
    recall::cli::run(std::env::args_os())
}
