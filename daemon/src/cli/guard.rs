//! `recall guard`: shows which guards are in force, and their verdict on a call.
//!
//! The verdict is computed here, by the same functions and settings as in the daemon.

use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use recall_protocol::agents::DEFAULT;
use recall_protocol::boot;
use recall_protocol::paths::Paths;
use recall_protocol::wire::{Deliver, EventId, Flags, ShimContext};
use serde::Serialize;
use serde_json::json;

use super::client::this_folder;
use super::failure::Failure;
use super::install::agent::{LocalAgent, SettingsOwner};
use super::install::inspection::{GuardHook, connected_specs, guard_hook, without_guard_hook};
use super::install::{config, guarding};
use super::terminal::{DIM, WARNING, table};
use crate::server::run::last_config;
use crate::service::environment::Environment;
use recall_agents::{AGENTS, Advised, AgentSpec, Asking, GuardAnswers, Guarding};
use recall_app::guards::{GuardFinding, changed, judge};
use recall_app::settings::guards_of;
use recall_config::keys::as_toml;
use recall_config::{Config, Loaded};
use recall_domain::guard::{Access, GuardPolicy, Rule, Violation};

/// A longer payload does not come from a hook.
const MOST_BYTES: u64 = 16 << 20;

#[derive(Debug, Subcommand)]
pub enum GuardCommand {
    /// Show the guards and whether they are on
    List(ListArgs),
    /// Test the guards on a hook's payload or on a file
    Test(TestArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct TestArgs {
    /// File with a hook's JSON payload; `-` reads stdin
    #[arg(required_unless_present_any = ["write", "read"])]
    payload: Option<PathBuf>,
    /// Test writing this file
    #[arg(long, value_name = "PATH", conflicts_with_all = ["payload", "read"])]
    write: Option<String>,
    /// Test reading this file
    #[arg(long, value_name = "PATH", conflicts_with = "payload")]
    read: Option<String>,
    /// The agent that sent the payload
    #[arg(long, value_name = "NAME", default_value = DEFAULT,
        value_parser = PossibleValuesParser::new(AGENTS.iter().map(|spec| spec.name)))]
    agent: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `recall guard`. Fails if the payload cannot be read.
pub fn run(command: &GuardCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("Cannot find recall's folders")?;
    let loaded = Config::obeyed(paths.config_file(), &last_config(&paths));
    match command {
        GuardCommand::List(args) => list(args, &loaded, out),
        GuardCommand::Test(args) => test(args, &loaded.config, out),
    }
}

fn list(args: &ListArgs, loaded: &Loaded, out: &mut dyn Write) -> anyhow::Result<()> {
    let policy = &loaded.config.guards;
    let environment = Environment::of_process();
    let agents = AGENTS.iter().map(|spec| (spec.name, possible_answers(spec)));
    let hooks: Vec<&str> = AGENTS.iter().map(|spec| hook(spec, environment.as_ref())).collect();
    if args.json {
        let rules: Vec<_> = Rule::ALL
            .iter()
            .map(|rule| json!({"rule": rule.name(), "covers": rule.covers(), "state": state(*rule, policy)}))
            .collect();
        let agents: serde_json::Map<_, _> =
            agents.map(|(name, answers)| (name.to_owned(), answers.into())).collect();
        let hooks: serde_json::Map<_, _> =
            AGENTS.iter().zip(hooks).map(|(spec, hook)| (spec.name.to_owned(), hook.into())).collect();
        let can: serde_json::Map<_, _> =
            AGENTS.iter().map(|spec| (spec.name.to_owned(), json!(abilities(spec)))).collect();
        let answer =
            json!({"rules": rules, "settings": policy, "agents": agents, "can": can, "hooks": hooks});
        return Ok(writeln!(out, "{answer}")?);
    }
    let rows: Vec<Vec<String>> = Rule::ALL
        .iter()
        .map(|rule| vec![rule.name().to_owned(), state(*rule, policy), rule.covers().to_owned()])
        .collect();
    table(out, &["RULE", "STATE", "COVERS"], &rows)?;
    let lists = [
        ("guards.write_paths", &policy.write_paths),
        ("guards.read_paths", &policy.read_paths),
        ("guards.allow", &policy.allow),
        ("guards.unset_env", &policy.unset_env),
    ];
    for (key, patterns) in lists.into_iter().filter(|(_, patterns)| !patterns.is_empty()) {
        writeln!(out, "{key} = {}", as_toml(&json!(patterns)))?;
    }
    writeln!(out)?;
    let rows: Vec<Vec<String>> = AGENTS
        .iter()
        .zip(hooks)
        .map(|(spec, hook)| vec![spec.name.to_owned(), abilities_in_words(spec), hook.to_owned()])
        .collect();
    table(out, &["AGENT", "CAN BE MADE TO", "HOOKS"], &rows)?;
    for problem in &loaded.problems {
        writeln!(out, "{WARNING}{problem}{WARNING:#}")?;
    }
    let all_off = Rule::ALL.iter().all(|rule| state(*rule, policy) == "off");
    if all_off {
        writeln!(out, "{DIM}All are off. `recall config set guards.reads deny` turns one on.{DIM:#}")?;
    }
    Ok(print_unguarded_agents(out, environment.as_ref())?)
}

/// Names the agents for which guards cannot refuse calls yet, and the command that fixes it.
pub(super) fn print_unguarded_agents(
    out: &mut dyn Write,
    environment: Option<&Environment>,
) -> std::io::Result<()> {
    let guarding = environment.map_or(Guarding::Off, guarding);
    let nothing = match guarding {
        Guarding::Off => return Ok(()),
        Guarding::Calls => "no call is refused",
        Guarding::Commands => "no variable is removed",
    };
    let missing = without_guard_hook(AGENTS, guarding);
    if !missing.is_empty() {
        let missing = missing.join(" and ");
        writeln!(
            out,
            "{WARNING}{missing}: recall is not asked before calls yet, so {nothing} there. Run `recall \
             install`.{WARNING:#}"
        )?;
    }
    let Some(policy) = environment.and_then(config).map(|config| config.guards) else { return Ok(()) };
    print_incapable_agents(out, &policy)
}

/// Names the connected agents that cannot do what the settings require.
fn print_incapable_agents(out: &mut dyn Write, policy: &GuardPolicy) -> std::io::Result<()> {
    let connected = connected_specs(AGENTS);
    let mut print = |unable: fn(&GuardAnswers) -> bool, why: &str| {
        let unable = connected.iter().filter(|spec| unable(&spec.guards)).map(|spec| spec.title);
        let unable: Vec<&str> = unable.collect();
        match unable.is_empty() {
            true => Ok(()),
            false => writeln!(out, "{WARNING}{}: {why} there.{WARNING:#}", unable.join(" and ")),
        }
    };
    if policy.advises() {
        let why = "nobody can be notified before a call, so `advise` does nothing";
        print(|guards| guards.advice.is_none(), why)?;
    }
    if !policy.unset_env.is_empty() {
        let why = "a command cannot be modified before it runs, so `guards.unset_env` does nothing";
        print(|guards| guards.command_change.is_none(), why)?;
    }
    Ok(())
}

/// Whether the agent's hooks for guards are installed.
fn hook(spec: &'static AgentSpec, environment: Option<&Environment>) -> &'static str {
    let agent = environment.map(|environment| LocalAgent { spec, environment, scope: SettingsOwner::User });
    match agent.map_or(GuardHook::NotConnected, guard_hook) {
        _ if possible_answers(spec) == NOTHING => "-",
        GuardHook::NotConnected => "not connected",
        GuardHook::Missing if spec.guards.refusal.is_some() => "not before calls",
        GuardHook::Missing | GuardHook::Installed => "installed",
    }
}

const NOTHING: &str = "nothing";

/// The effect of a rule on reads and writes.
fn state(rule: Rule, policy: &GuardPolicy) -> String {
    let word = |value: &dyn Fn() -> serde_json::Result<serde_json::Value>| {
        value().ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let reads = word(&|| serde_json::to_value(policy.reads));
    let writes = word(&|| serde_json::to_value(policy.writes));
    match rule {
        Rule::System | Rule::Erase => word(&|| serde_json::to_value(policy.system)),
        Rule::Outside => word(&|| serde_json::to_value(policy.outside)),
        Rule::Ssh | Rule::Git | Rule::LockFiles if writes == "off" => writes,
        Rule::Ssh | Rule::Git | Rule::LockFiles => format!("{writes} writes"),
        Rule::Environment if reads == "off" => reads,
        Rule::Environment => format!("{reads} reads"),
        Rule::Secrets | Rule::Yours => match (reads.as_str(), writes.as_str()) {
            ("off", "off") => reads,
            ("off", _) => format!("{writes} writes"),
            (_, "off") => format!("{reads} reads"),
            _ => format!("{reads} reads, {writes} writes"),
        },
    }
}

fn possible_answers(spec: &AgentSpec) -> &'static str {
    match (spec.guards.refusal.is_some(), spec.guards.warning.is_some()) {
        (true, true) => "refusals and warnings",
        (true, false) => "refusals",
        (false, true) => "warnings",
        (false, false) => NOTHING,
    }
}

/// What guards can make an agent do, in stable words for other programs.
fn abilities(spec: &AgentSpec) -> Vec<&'static str> {
    let guards = &spec.guards;
    let asks = guards.refusal.is_some() && guards.asking == Asking::Asks;
    let advises = guards.advice.map(|advice| match advice.to {
        Advised::Model => "advise",
        Advised::User => "advise the user",
    });
    let words = [
        guards.refusal.map(|_| "deny"),
        asks.then_some("ask"),
        advises,
        guards.command_change.map(|_| "environment"),
        guards.warning.map(|_| "warn"),
    ];
    words.into_iter().flatten().collect()
}

fn abilities_in_words(spec: &AgentSpec) -> String {
    let words = abilities(spec);
    if words.is_empty() { NOTHING.to_owned() } else { words.join(", ") }
}

/// The guards' verdict, for scripts.
#[derive(Serialize)]
struct GuardVerdict {
    /// `deny`, `ask`, `advise`, `change`, `warn` or `pass`.
    decision: &'static str,
    rule: Option<&'static str>,
    reason: Option<String>,
    /// The output of the hook.
    stdout: Option<String>,
}

impl GuardVerdict {
    const NOTHING: Self = Self { decision: "pass", rule: None, reason: None, stdout: None };

    fn refusal(verdict: &Violation) -> Self {
        Self {
            decision: verdict.decision.name(),
            rule: Some(verdict.rule.name()),
            reason: Some(verdict.reason()),
            stdout: None,
        }
    }
}

fn test(args: &TestArgs, config: &Config, out: &mut dyn Write) -> anyhow::Result<()> {
    let verdict = guard_verdict(args, config)?;
    if args.json {
        return Ok(writeln!(out, "{}", serde_json::to_string(&verdict)?)?);
    }
    match &verdict.reason {
        Some(reason) => writeln!(out, "{}: {reason}", verdict.decision)?,
        None => writeln!(out, "{}: no guard applies", verdict.decision)?,
    }
    if let Some(stdout) = &verdict.stdout {
        writeln!(out, "{DIM}{stdout}{DIM:#}")?;
    }
    Ok(())
}

fn guard_verdict(args: &TestArgs, config: &Config) -> anyhow::Result<GuardVerdict> {
    let Some(guards) = guards_of(config) else { return Ok(GuardVerdict::NOTHING) };
    let cwd = this_folder();
    let file = match (&args.write, &args.read) {
        (Some(path), _) => Some((Access::Write, path)),
        (None, Some(path)) => Some((Access::Read, path)),
        (None, None) => None,
    };
    if let Some((access, path)) = file {
        let verdict = guards.verdict_on(access, path, &cwd);
        return Ok(verdict.as_ref().map_or(GuardVerdict::NOTHING, GuardVerdict::refusal));
    }
    let spec = AGENTS.spec(&args.agent);
    let delivery = Deliver {
        event_id: EventId::new(boot::wall_ms()),
        agent: args.agent.clone(),
        event_name: String::new(),
        captured_at_ms: 0,
        boot_id: [0; 16],
        boot_ns: 0,
        context: ShimContext { cwd: cwd.clone(), ..ShimContext::default() },
        payload: payload(args.payload.as_ref())?,
        flags: Flags::default(),
    };
    let event = spec.event(&delivery).map_err(|why| {
        Failure::failed(format!("This is not a hook payload of {}: {why}", spec.title))
            .hint("It is one JSON object with session_id, hook_event_name, tool_name and tool_input.")
    })?;
    let change = changed(&guards, spec, &event);
    let as_text = |stdout: &[u8]| String::from_utf8_lossy(stdout).trim_end().to_owned();
    let Some(answer) = judge(&guards, spec, &event, &cwd) else {
        return Ok(change.map_or(GuardVerdict::NOTHING, |change| GuardVerdict {
            decision: "change",
            rule: None,
            reason: Some("the command gets none of the variables in guards.unset_env".to_owned()),
            stdout: Some(as_text(&change.added_to(&[]))),
        }));
    };
    let stdout = match change.filter(|_| answer.refused_by().is_none()) {
        Some(change) => as_text(&change.added_to(&answer.stdout)),
        None => as_text(&answer.stdout),
    };
    Ok(match answer.finding {
        GuardFinding::Refusal(verdict) | GuardFinding::Advice(verdict) => {
            GuardVerdict { stdout: Some(stdout), ..GuardVerdict::refusal(&verdict) }
        }
        GuardFinding::Warning(warning) => GuardVerdict {
            decision: "warn",
            rule: Some(Rule::Outside.name()),
            reason: Some(warning.text()),
            stdout: Some(stdout),
        },
    })
}

fn payload(path: Option<&PathBuf>) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match path.filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            let file =
                std::fs::File::open(path).with_context(|| format!("Cannot open {}", path.display()))?;
            file.take(MOST_BYTES).read_to_end(&mut bytes).context("Cannot read the payload")?;
        }
        None => {
            std::io::stdin().lock().take(MOST_BYTES).read_to_end(&mut bytes).context("Cannot read stdin")?;
        }
    }
    Ok(bytes)
}
