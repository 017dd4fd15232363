//! `recall config test`: gives each configured model a small task.

use std::io::Write;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use recall_protocol::paths::Paths;
use serde::Serialize;
use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::terminal::{BOLD, ERROR, GOOD, counted};
use recall_app::clock;
use recall_compression::policy::Unit;
use recall_compression::{probe, prompt};
use recall_config::{Config, EmbeddingPolicy, Loaded};
use recall_embedding::{Embedder, InstalledModels, Purpose};
use recall_providers::chat::ChatRequest;
use recall_providers::embeddings::EmbeddingProvider;
use recall_providers::{Backend, CallSettings, KeySource, chat};

/// The text for a sentence model.
const PROBE: &str = "Which settings does recall have?";

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of a model's task.
#[derive(Serialize)]
struct Tried {
    model: String,
    works: bool,
    /// The result, or why it failed.
    said: String,
    /// The environment variable that contains its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_from: Option<String>,
}

/// Sends each configured model a test request. Fails if the settings are invalid, or a model does not respond properly.
pub(super) fn run(args: &TestArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("Cannot find recall's folders")?;
    let file = paths.config_file();
    let Loaded { config, problems, .. } = Config::load(file);
    if !problems.is_empty() {
        let named: Vec<_> = problems.iter().map(|problem| format!("{}, {problem}", file.display())).collect();
        return Err(Failure::failed(format!("The configuration has errors: {}", named.join("; ")))
            .hint("Fix them first with `recall config edit`; no model is called while the file has errors.")
            .into());
    }
    let (policy, embedding) = (config.compression, config.embedding);
    if policy.backends.is_empty() && embedding == EmbeddingPolicy::None && !args.json {
        return Ok(writeln!(out, "No model is configured; the built-in compressor is used.")?);
    }
    // The calls only wait for the network.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("Cannot start the runtime")?;
    let settings = policy.call_settings();
    let mut tried = Vec::new();
    for backend in &policy.backends {
        tried.push(report(ask(backend, policy.unit, &settings, runtime.handle())?, args, out)?);
    }
    let silent = tried.iter().filter(|tried| !tried.works).count();
    let makes_vectors = match &embedding {
        EmbeddingPolicy::None => None,
        EmbeddingPolicy::Local { model } => Some(run_here(model, &paths)),
        EmbeddingPolicy::OpenAi { backend, settings } => Some(embed(backend, settings, runtime.handle())?),
    };
    let makes_vectors = match makes_vectors {
        Some(made) => {
            tried.push(report(made, args, out)?);
            tried.last().is_none_or(|tried| tried.works)
        }
        None => true,
    };
    if args.json {
        writeln!(out, "{}", json!({"models": tried}))?;
    }
    let hint = match (silent, makes_vectors) {
        (0, true) => return Ok(()),
        (0, false) => "Searches use words only until it does.",
        (_, true) => "The built-in compressor is used until they do.",
        (_, false) => "The built-in compressor is used, and searches use words only, until they do.",
    };
    let failed = tried.iter().filter(|tried| !tried.works).count();
    Err(Failure::failed(format!("{failed} of {} models cannot be used", tried.len())).hint(hint).into())
}

/// Computes a vector with the local sentence model.
fn run_here(model: &str, paths: &Paths) -> Tried {
    let made = InstalledModels::new(paths.models_dir())
        .open(model)
        .map_err(|error| format!("computed no vector: {error}. {}", error.hint()))
        .and_then(|opened| {
            let started = Instant::now();
            let made = opened.embed(&[PROBE.to_owned()], Purpose::Question);
            made.map(|_| format!("computed a vector {}", took(started)))
                .map_err(|error| format!("computed no vector: {error}"))
        });
    tried(model.to_owned(), made, None)
}

/// Requests a vector from a server.
fn embed(
    backend: &Backend,
    settings: &CallSettings,
    runtime: &tokio::runtime::Handle,
) -> anyhow::Result<Tried> {
    let provider = EmbeddingProvider::new(backend, settings, settings.timeout, runtime)?;
    let started = Instant::now();
    let made = provider.embed(&[PROBE.to_owned()], clock::now()).map(|reply| {
        let dimensions = reply.vectors.first().map_or(0, Vec::len);
        let cost = reply.tokens.map_or_else(String::new, |tokens| format!(", {tokens} tokens"));
        format!("computed a vector of {dimensions} dimensions {}{cost}", took(started))
    });
    let made = made.map_err(|error| format!("computed no vector: {error}"));
    Ok(tried(backend.origin(), made, Some(&backend.key)))
}

/// Asks a model for notes on a small session. As after a real session, it may correct its answer once.
fn ask(
    backend: &Backend,
    unit: Unit,
    settings: &CallSettings,
    runtime: &tokio::runtime::Handle,
) -> anyhow::Result<Tried> {
    let provider = chat::provider(backend, settings, runtime)?;
    let started = Instant::now();
    let (mut into, mut out) = (0, 0);
    let mut ask_model = |request: &ChatRequest| {
        let reply =
            provider.ask(request, clock::now()).map_err(|error| format!("did not respond: {error}"))?;
        let tokens = reply.tokens.unwrap_or_default();
        (into, out) = (into + tokens.into, out + tokens.out);
        Ok::<_, String>(reply.text)
    };
    let request = probe::request(unit);
    let found = ask_model(&request).and_then(|first| match probe::judge(unit, &first) {
        Ok(found) => Ok(found),
        Err(problem) => {
            let second = ask_model(&prompt::repair(&request, &first, &problem.to_string()))?;
            probe::judge(unit, &second)
                .map_err(|problem| format!("answered twice, but recall cannot use the answers: {problem}"))
        }
    });
    let cost = if into + out > 0 { format!(", {into} tokens in and {out} out") } else { String::new() };
    let answered = found.map(|found| {
        let found = counted(found, "observation", "observations");
        format!("answered {} with {found} of a small session{cost}", took(started))
    });
    Ok(tried(backend.origin(), answered, Some(&backend.key)))
}

fn took(started: Instant) -> String {
    format!("in {:.1} s", started.elapsed().as_secs_f32())
}

fn tried(model: String, outcome: Result<String, String>, key: Option<&KeySource>) -> Tried {
    let works = outcome.is_ok();
    let key_from = match key {
        Some(KeySource::Environment(variable)) if works => Some(variable.clone()),
        _ => None,
    };
    Tried { model, works, said: outcome.unwrap_or_else(|why| why), key_from }
}

/// Prints a model's line, and where its key comes from if not every daemon can see it.
fn report(tried: Tried, args: &TestArgs, out: &mut dyn Write) -> std::io::Result<Tried> {
    if args.json {
        return Ok(tried);
    }
    let Tried { model, works, said: outcome, key_from } = &tried;
    match works {
        true => writeln!(out, "{GOOD}ok{GOOD:#}  {BOLD}{model}{BOLD:#} {outcome}.")?,
        false => {
            writeln!(out, "{ERROR}no{ERROR:#}  {BOLD}{model}{BOLD:#} {}.", outcome.trim_end_matches('.'))?
        }
    }
    if let Some(variable) = key_from {
        writeln!(
            out,
            "    Its key comes from {variable}: a daemon started by a hook does not see it, one of a service \
             manager only if it is set there."
        )?;
    }
    // A slow model must not delay the results of the others.
    out.flush()?;
    Ok(tried)
}
