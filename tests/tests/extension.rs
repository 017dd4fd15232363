//! The extension that reports to the hook client where an agent has no command hooks, run by Node with a host of its own.

use std::process::Command;

use recall_tests::Stage;
use serde_json::json;

/// Calls the extension as its host does, in a session, and prints what a prompt is given.
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
    let told = node.output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    stage.flush();
    String::from_utf8(told.stdout).unwrap()
}

#[test]
fn an_extension_reports_a_session_and_gives_context() {
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
    let told: Vec<_> = calls.iter().map(|call| (&call["tool_name"], &call["failed"])).collect();
    assert_eq!(told, [(&json!("edit"), &json!(false)), (&json!("bash"), &json!(true))], "{calls:?}");

    let given = play(&stage, "pi-2", "Where does the cart round its total?");
    assert!(given.contains("<recall-context") && given.contains("after the sum"), "{given}");
}
