//! `recall config`: looks at the settings.

use std::io::Write;
use std::time::Instant;

use anyhow::Context;
use clap::{Args, Subcommand};
use recall_protocol::paths::Paths;

use super::failure::Failure;
use super::terminal::{BOLD, ERROR, GOOD};
use crate::app::clock;
use crate::compression::policy::{Backend, CompressionPolicy, KeySource};
use crate::compression::{prompt, provider};
use crate::config::{Config, Loaded};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Make one tiny call to each configured model and say what happened
    Test(TestArgs),
}

#[derive(Debug, Args)]
pub struct TestArgs {}

/// # Errors
/// When the settings are wrong, or a model does not answer.
pub fn run(command: &ConfigCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Test(TestArgs {}) => test(out),
    }
}

fn test(out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("finding recall's folders")?;
    let file = paths.config_file();
    let Loaded { config, problems, .. } = Config::load(file);
    if !problems.is_empty() {
        let named: Vec<_> = problems.iter().map(|problem| format!("{}, {problem}", file.display())).collect();
        return Err(Failure::failed(format!("The configuration has errors: {}", named.join("; ")))
            .hint("Mend them first: with an error in [compression] no model is asked.")
            .into());
    }
    let policy = config.compression;
    if policy.backends.is_empty() {
        return Ok(writeln!(out, "The built-in compressor does the work: there is no model to call.")?);
    }
    // Its calls wait for nothing but the network.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let mut silent = 0;
    for backend in &policy.backends {
        if !ask(backend, &policy, runtime.handle(), out)? {
            silent += 1;
        }
    }
    match silent {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{silent} of {} models did not answer", policy.backends.len()))
            .hint("Until they do, the built-in compressor makes the notes.")
            .into()),
    }
}

/// Whether the model has answered.
fn ask(
    backend: &Backend,
    policy: &CompressionPolicy,
    runtime: &tokio::runtime::Handle,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let name = backend.origin();
    let provider = provider::provider(backend, policy, runtime)?;
    let started = Instant::now();
    match provider.ask(&prompt::probe(), clock::now()) {
        Ok(reply) => {
            let took = started.elapsed().as_secs_f32();
            let cost = reply.tokens.map_or_else(String::new, |tokens| {
                format!(", {} tokens in and {} out", tokens.into, tokens.out)
            });
            writeln!(out, "{GOOD}ok{GOOD:#}  {BOLD}{name}{BOLD:#} answered in {took:.1} s{cost}.")?;
            if let KeySource::Environment(variable) = &backend.key {
                writeln!(
                    out,
                    "    Its key comes from {variable}: a daemon that a hook has started does not see it, one of a \
                     service manager only if it is set there."
                )?;
            }
            Ok(true)
        }
        Err(error) => {
            writeln!(out, "{ERROR}no{ERROR:#}  {BOLD}{name}{BOLD:#} did not answer: {error}.")?;
            Ok(false)
        }
    }
}
