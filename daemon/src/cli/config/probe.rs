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
use crate::config::{Config, EmbeddingPolicy, Loaded};
use crate::embedding::{Embedder, InstalledModels, Purpose};
use crate::providers::embeddings::EmbeddingProvider;
use crate::providers::{Backend, CallSettings, KeySource, chat};

/// The text that a sentence model is given.
const PROBE: &str = "Which settings does recall have?";

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
            .hint("Fix them first with `recall config edit`; no model is called while the file has errors.")
            .into());
    }
    let (policy, embedding) = (config.compression, config.embedding);
    if policy.backends.is_empty() && embedding == EmbeddingPolicy::None {
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
    let makes_vectors = match &embedding {
        EmbeddingPolicy::None => true,
        EmbeddingPolicy::Local { model } => run_here(model, &paths, out)?,
        EmbeddingPolicy::OpenAi { backend, settings } => embed(backend, settings, runtime.handle(), out)?,
    };
    let hint = match (silent, makes_vectors) {
        (0, true) => return Ok(()),
        (0, false) => "Searches go on by words until it does.",
        (_, true) => "The built-in compressor is used until they do.",
        (_, false) => "The built-in compressor is used, and searches go on by words, until they do.",
    };
    let (failed, all) = (
        silent + usize::from(!makes_vectors),
        policy.backends.len() + usize::from(embedding != EmbeddingPolicy::None),
    );
    Err(Failure::failed(format!("{failed} of {all} models did not answer")).hint(hint).into())
}

/// True if the sentence model of this machine made a vector.
fn run_here(model: &str, paths: &Paths, out: &mut dyn Write) -> anyhow::Result<bool> {
    let made = InstalledModels::new(paths.models_dir())
        .open(model)
        .map_err(|error| format!("{error}. {}", error.hint()))
        .and_then(|opened| {
            let started = Instant::now();
            let made = opened.embed(&[PROBE.to_owned()], Purpose::Question);
            made.map(|_| took(started)).map_err(|error| format!("{error}."))
        });
    Ok(report((model, "made a vector", "made no vector"), made, out)?)
}

/// True if the server made a vector.
fn embed(
    backend: &Backend,
    settings: &CallSettings,
    runtime: &tokio::runtime::Handle,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let provider = EmbeddingProvider::new(backend, settings, settings.timeout, runtime)?;
    let started = Instant::now();
    let made = provider.embed(&[PROBE.to_owned()], clock::now()).map(|reply| {
        let dimensions = reply.vectors.first().map_or(0, Vec::len);
        let cost = reply.tokens.map_or_else(String::new, |tokens| format!(", {tokens} tokens"));
        format!("of {dimensions} dimensions {}{cost}", took(started))
    });
    let made = made.map_err(|error| format!("{error}."));
    report_call(backend, ("made a vector", "made no vector"), made, out)
}

/// True if the model answered.
fn ask(
    backend: &Backend,
    settings: &CallSettings,
    runtime: &tokio::runtime::Handle,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let provider = chat::provider(backend, settings, runtime)?;
    let started = Instant::now();
    let answered = provider.ask(&prompt::probe(), clock::now()).map(|reply| {
        let cost = reply
            .tokens
            .map_or_else(String::new, |tokens| format!(", {} tokens in and {} out", tokens.into, tokens.out));
        format!("{}{cost}", took(started))
    });
    let answered = answered.map_err(|error| format!("{error}."));
    report_call(backend, ("answered", "did not answer"), answered, out)
}

fn took(started: Instant) -> String {
    format!("in {:.1} s", started.elapsed().as_secs_f32())
}

/// A model's line: what it did and how, or what it did not and why. True if it did.
fn report(
    (name, did, did_not): (&str, &str, &str),
    outcome: Result<String, String>,
    out: &mut dyn Write,
) -> std::io::Result<bool> {
    match &outcome {
        Ok(how) => writeln!(out, "{GOOD}ok{GOOD:#}  {BOLD}{name}{BOLD:#} {did} {how}.")?,
        Err(why) => writeln!(out, "{ERROR}no{ERROR:#}  {BOLD}{name}{BOLD:#} {did_not}: {why}")?,
    }
    Ok(outcome.is_ok())
}

/// The line of a model behind a server or a program, and where its key comes from if not every daemon sees that.
fn report_call(
    backend: &Backend,
    (did, did_not): (&str, &str),
    outcome: Result<String, String>,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let has_worked = report((&backend.origin(), did, did_not), outcome, out)?;
    if has_worked && let KeySource::Environment(variable) = &backend.key {
        writeln!(
            out,
            "    Its key comes from {variable}: a daemon that a hook has started does not see it, one of a service \
             manager only if it is set there."
        )?;
    }
    Ok(has_worked)
}
