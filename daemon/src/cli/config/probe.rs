//! `recall config test`: makes one small call to each configured model.

use std::io::Write;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use recall_protocol::paths::Paths;

use crate::app::clock;
use crate::cli::failure::Failure;
use crate::cli::terminal::{BOLD, ERROR, GOOD};
use crate::compression::prompt;
use crate::config::{Config, Loaded};
use crate::providers::{Backend, CallSettings, KeySource, chat};

#[derive(Debug, Args)]
pub struct TestArgs {}

/// Fails when the settings are invalid or a model does not answer.
pub(super) fn run(TestArgs {}: &TestArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("finding recall's folders")?;
    let file = paths.config_file();
    let Loaded { config, problems, .. } = Config::load(file);
    if !problems.is_empty() {
        let named: Vec<_> = problems.iter().map(|problem| format!("{}, {problem}", file.display())).collect();
        return Err(Failure::failed(format!("The configuration has errors: {}", named.join("; ")))
            .hint("Fix them first; no model is called while [compression] has an error.")
            .into());
    }
    let policy = config.compression;
    if policy.backends.is_empty() {
        return Ok(writeln!(out, "No model is configured; the built-in compressor is used.")?);
    }
    // The calls only wait for the network.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let settings = policy.call_settings();
    let mut silent = 0;
    for backend in &policy.backends {
        if !ask(backend, &settings, runtime.handle(), out)? {
            silent += 1;
        }
    }
    match silent {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{silent} of {} models did not answer", policy.backends.len()))
            .hint("The built-in compressor is used until they do.")
            .into()),
    }
}

/// True if the model answered.
fn ask(
    backend: &Backend,
    settings: &CallSettings,
    runtime: &tokio::runtime::Handle,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let name = backend.origin();
    let provider = chat::provider(backend, settings, runtime)?;
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
