//! Tests the extension that reports to the hook client where an agent has no command hooks. Node runs it with a host
//! of the test.

use std::process::Command;

use recall_tests::Stage;
use serde_json::json;

/// Calls the extension as its host does, in a session, and prints the context that a prompt gets.
const HOST: &str = r#"
import recall from "./recall.mjs"
const [session, prompt, cwd] = process.argv.slice(2)
const handlers = {}
const pi = { on: (name, handler) => { handlers[name] = handler } }
recall(pi)
recall(pi)
const ctx = { cwd, sessionManager: { getSessionId: () => session, getSessionFile: () => undefined } }
const text = (text) => [{ type: "text", text }]
await handlers.session_start({ reason: "startup" }, ctx)
const given = await handlers.before_agent_start({ prompt }, ctx)
const call = { toolName: "edit", toolCallId: "t1", input: { path: "src/cart.rs", oldText: "a", newText: "b" } }
await handlers.tool_result({ ...call, content: text("done"), isError: false }, ctx)
const failed = { toolName: "bash", toolCallId: "t2", input: { command: "cargo test" } }
await handlers.tool_result({ ...failed, content: text("1 failed"), isError: true }, ctx)
const said = "The cart rounded each line before the sum. Rounding happens once now, after the sum, in `Cart::total`."
await handlers.agent_end({ messages: [{ role: "user", content: prompt }, { role: "assistant", content: text(said) }] }, ctx)
await handlers.session_shutdown({ reason: "quit" }, ctx)
process.stdout.write(given?.message.content || "")
"#;

fn play(stage: &Stage, session: &str, prompt: &str) -> String {
    let server = stage.command("recall");
    let mut node = Command::new("node");
    node.arg(stage.user_home().join("host.mjs")).args([session, prompt]).arg(stage.project());
    node.env_clear().envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = node.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    stage.flush();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_extension_reports_a_session_and_injects_context() {
    if Command::new("node").arg("--version").output().is_err() {
        println!("skipped: there is no Node");
        return;
    }
    let stage = Stage::new().daemon();
    let installed = stage.recall(["install", "--agent", "pi", "--yes", "--no-service"]);
    assert_eq!(installed.code(), 0, "{installed:?}");
    let extension = stage.user_home().join(".pi/agent/extensions/recall.ts");
    std::fs::copy(extension, stage.user_home().join("recall.mjs")).unwrap();
    std::fs::write(stage.user_home().join("host.mjs"), HOST).unwrap();

    play(&stage, "pi-1", "Why does the cart round twice?");
    let session = stage.json(["ctl", "session", "pi-1"]);
    assert_eq!((&session["agent"], &session["status"]), (&json!("pi"), &json!("completed")), "{session}");
    let batches = session["batches"].as_array().unwrap();
    assert_eq!(batches.len(), 1, "two copies of the extension report once: {session}");
    assert_eq!(batches[0]["prompt"], "Why does the cart round twice?");
    assert!(batches[0]["response"].as_str().unwrap().contains("after the sum"), "{session}");
    let calls = batches[0]["activities"].as_array().unwrap();
    let outcomes: Vec<_> = calls.iter().map(|call| (&call["tool_name"], &call["failed"])).collect();
    assert_eq!(outcomes, [(&json!("edit"), &json!(false)), (&json!("bash"), &json!(true))], "{calls:?}");

    let given = play(&stage, "pi-2", "Where does the cart round its total?");
    assert!(given.contains("<recall-context") && given.contains("after the sum"), "{given}");
}

/// Calls the plugin as Amp's documents describe it.
const THREAD: &str = r#"
import recall from "./recall.mjs"
const [session, prompt, cwd] = process.argv.slice(2)
const handlers = {}
const helpers = { filePathFromURI: (uri) => new URL(uri).pathname }
const amp = { on: (name, handler) => { handlers[name] = handler }, helpers, system: { workspaceRoot: `file://${cwd}` } }
recall(amp)
recall(amp)
const thread = { id: session }
const ctx = { thread: { messages: async () => [] } }
const given = await handlers["agent.start"]({ thread, message: prompt, id: 1 }, ctx)
const edit = { tool: "edit_file", toolUseID: "t1", input: { path: "src/cart.rs", old_str: "a", new_str: "b" } }
await handlers["tool.result"]({ thread, ...edit, status: "done", output: "done" }, ctx)
const failed = { tool: "Bash", toolUseID: "t2", input: { cmd: "cargo test" } }
await handlers["tool.result"]({ thread, ...failed, status: "done", output: { output: "1 failed", exitCode: 101 } }, ctx)
const text = "The cart rounded each line before the sum. Rounding happens once now, after the sum, in `Cart::total`."
const messages = [{ role: "user", content: [] }, { role: "assistant", content: [{ type: "text", text }] }]
await handlers["agent.end"]({ thread, message: prompt, id: 1, status: "done", messages }, ctx)
process.stdout.write(given.message?.content || "")
"#;

#[test]
fn a_plugin_reports_a_thread_and_injects_context() {
    if Command::new("node").arg("--version").output().is_err() {
        println!("skipped: there is no Node");
        return;
    }
    let stage = Stage::new().daemon();
    let installed = stage.recall(["install", "--agent", "amp", "--yes", "--no-service"]);
    assert_eq!(installed.code(), 0, "{installed:?}");
    let plugin = stage.user_home().join(".config/amp/plugins/recall.ts");
    std::fs::copy(plugin, stage.user_home().join("recall.mjs")).unwrap();
    std::fs::write(stage.user_home().join("host.mjs"), THREAD).unwrap();

    play(&stage, "T-1", "Why does the cart round twice?");
    let session = stage.json(["ctl", "session", "T-1"]);
    let batches = session["batches"].as_array().unwrap();
    assert_eq!((&session["agent"], batches.len()), (&json!("amp"), 1), "{session}");
    assert!(batches[0]["response"].as_str().unwrap().contains("after the sum"), "{session}");
    let calls = batches[0]["activities"].as_array().unwrap();
    let outcomes: Vec<_> = calls.iter().map(|call| (&call["tool_name"], &call["failed"])).collect();
    assert_eq!(outcomes, [(&json!("edit_file"), &json!(false)), (&json!("Bash"), &json!(true))], "{calls:?}");

    let given = play(&stage, "T-2", "Where does the cart round its total?");
    assert!(given.contains("<recall-context") && given.contains("after the sum"), "{given}");
}

/// Calls the mod as its engine does. See `plugins/claude-code-turns/tests`.
const ENGINE: &str = r#"
import { spawnSync } from "node:child_process"
import { register } from "./recall.mjs"
const [session, prompt, cwd, interactive] = process.argv.slice(2)
const hooks = {}
register((event, hook) => { hooks[event] = hook })
const run = async ([program, ...words], { stdin }) => spawnSync(process.env[program], words, { input: stdin, cwd })
const $ = { session: { id: async () => session, cwd: async () => cwd }, process: { run } }
const raise = (event, e) => hooks[event]($, e, async (e) => ({ text: e.text ?? e.answer ?? "" }))
await raise("session.start", { cwd, isInteractive: interactive === "yes" })
if (prompt === "queued") await raise("prompt.submit", { text: prompt, turnId: "t" })
if (prompt === "message") await raise("session.receive", { origin: { kind: "peer", teammate: "ada" }, text: "Look at the cart." })
const turn = { turnId: "t", durationMs: 1, isAborted: false, answer: "" }
if (prompt === "failed") await raise("turn.complete", { ...turn, reason: "error" })
if (prompt === "answered") await raise("turn.complete", { ...turn, reason: "answer", answer: "It rounds once." })
if (["interrupted", "queued"].includes(prompt)) await raise("turn.complete", { ...turn, reason: "aborted", answer: "I began." })
"#;

#[test]
fn a_mod_reports_turns_and_messages_that_no_hook_reports() {
    if Command::new("node").arg("--version").output().is_err() {
        println!("skipped: there is no Node");
        return;
    }
    let stage = Stage::new().daemon();
    let source = recall_tests::workspace().join("plugins/claude-code-turns/hooks/turns.js");
    std::fs::copy(source, stage.user_home().join("recall.mjs")).unwrap();
    std::fs::write(stage.user_home().join("host.mjs"), ENGINE).unwrap();
    let shim = stage.command("recall-shim");
    let raise = |id: &str, what: &str, interactive: &str| {
        let mut node = Command::new("node");
        node.arg(stage.user_home().join("host.mjs")).args([id, what]).arg(stage.project()).arg(interactive);
        node.env_clear().envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
        node.env("recall-shim", shim.get_program());
        let output = node.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let state = |what: &str, interactive: &str| {
        let id = format!("{what}-{interactive}");
        stage.hook(&stage.event(&id, "UserPromptSubmit", json!({"prompt": "Why does it round?"})));
        raise(&id, what, interactive);
        stage.flush();
        let session = stage.json(["ctl", "session", &id]);
        let batch = &session["batches"][0];
        (batch["status"].clone(), batch["response"].clone(), session)
    };
    let (open, closed) = (json!("open"), json!("closed"));
    let (status, answer, _) = state("interrupted", "yes");
    assert_eq!((status, answer), (closed.clone(), json!("I began.")));
    assert_eq!(state("failed", "no").0, closed);
    // A hook reports the end of these turns.
    assert_eq!(state("failed", "yes").0, open);
    assert_eq!(state("answered", "yes").0, open);
    // The waiting prompt becomes the next turn.
    assert_eq!(state("queued", "yes").0, open);
    let (status, _, session) = state("message", "yes");
    assert_eq!(status, open);
    assert!(session.to_string().contains("Look at the cart."), "{session}");
}

/// Calls the plugin as its gateway does: a message, a session that continues another one, a message in it, its end,
/// and a message after it.
const GATEWAY: &str = r#"
import plugin from "./.openclaw/extensions/recall/index.js"
const [session, prompt, cwd] = process.argv.slice(2)
const handlers = {}
plugin.register({ on: (name, handler) => { handlers[name] = handler } })
const key = "agent:main:telegram:direct:4711"
const ctx = { channelId: "telegram", accountId: "shop-bot", conversationId: "4711", sessionKey: key }
const metadata = { to: "shop-bot", provider: "telegram", surface: "chat", threadId: "7", originatingChannel: "telegram",
  originatingTo: "4711", messageId: "m1", senderId: "4711", senderName: "Ada", senderUsername: "ada", senderE164: "+15550004711" }
const message = (content) => handlers.message_received({ from: "telegram:4711", content, metadata }, ctx)
await message("before")
await handlers.session_start({ sessionId: session, sessionKey: key, resumedFrom: "s0" }, {})
await handlers.before_prompt_build({ prompt }, { sessionId: session, sessionKey: key, workspaceDir: cwd, channelId: "telegram",
  accountId: "shop-bot", chatId: "4711" })
await message("within")
await handlers.after_compaction({ messageCount: 5, compactedCount: 40 }, { sessionId: session, sessionKey: key })
await handlers.session_end({ sessionId: session, sessionKey: key, messageCount: 6, reason: "new" }, {})
await message("after")
"#;

#[test]
fn a_plugin_of_a_gateway_reports_senders_and_the_resumed_session() {
    if Command::new("node").arg("--version").output().is_err() {
        println!("skipped: there is no Node");
        return;
    }
    let stage = Stage::new().daemon();
    let installed = stage.recall(["install", "--agent", "openclaw", "--yes", "--no-service"]);
    assert_eq!(installed.code(), 0, "{installed:?}");
    std::fs::write(stage.user_home().join("host.mjs"), GATEWAY).unwrap();
    play(&stage, "s1", "Why does the cart round twice?");
    let sessions = stage.json(["ctl", "sessions"])["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
    let session = stage.json(["ctl", "session", "s1"]);
    assert_eq!(
        (&session["status"], &session["resumed_from"]),
        (&json!("completed"), &json!("s0")),
        "{session}"
    );
    assert_eq!((&session["host_message_count"], &session["host_compacted_count"]), (&json!(6), &json!(40)));
    let rows =
        stage.json(["sql", "SELECT input FROM calls WHERE tool_name = 'MessageReceived'"])["rows"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    for field in [
        "within",
        "to",
        "provider",
        "surface",
        "threadId",
        "originatingChannel",
        "originatingTo",
        "messageId",
        "senderId",
        "senderName",
        "senderUsername",
        "senderE164",
    ] {
        assert!(rows.to_string().contains(field), "{field}: {rows}");
    }
}
