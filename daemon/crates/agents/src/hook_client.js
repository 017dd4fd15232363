// recall's file, written by `recall install`; `recall uninstall` removes it. It hands session events to recall-shim and adds
// what that remembers. It imports only node:, so nothing has to be installed for it.
import { spawn } from "node:child_process"

const SHIM = process.env.RECALL_SHIM || "@recall-shim@"

// Runs the hook client, and gives the context that it prints. Never fails.
function shim(event, payload, ms) {
  if (process.env.RECALL_DISABLE === "1" || !payload.session_id) return Promise.resolve("")
  return new Promise((done) => {
    let out = ""
    let child
    try {
      child = spawn(SHIM, ["@agent@", event], { stdio: ["pipe", "pipe", "ignore"] })
    } catch {
      return done("")
    }
    const timer = setTimeout(() => { child.kill(); done("") }, ms)
    child.on("error", () => { clearTimeout(timer); done("") })
    child.on("close", () => {
      clearTimeout(timer)
      try { done(JSON.parse(out).hookSpecificOutput?.additionalContext || "") } catch { done("") }
    })
    child.stdout.on("data", (data) => { out += data })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify({ hook_event_name: event, ...payload }))
  })
}

