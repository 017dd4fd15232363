// Tells recall what no hook reports: a turn that the user interrupted, a turn of `claude -p` that failed, and a message of another
// session. The hooks report everything else. It answers nothing and changes nothing.

const WITHIN_MS = 2000
const FROM_SESSIONS = ["peer", "peer-send-message", "coordinator"]

async function report($, event, fields) {
  try {
    const [session_id, cwd] = [await $.session.id(), await $.session.cwd()]
    const stdin = JSON.stringify({ hook_event_name: event, session_id, cwd, ...fields }) + "\n"
    await $.process.run(["recall-shim", "claude-code", event], { stdin, timeoutMs: WITHIN_MS })
  } catch {
    // A memory never disturbs a session.
  }
}

/** @type {import('claude-code').Register} */
export const register = (on) => {
  let isInteractive = true
  // Whether a prompt waits for the running turn's end. The turn's end would be taken for the prompt's.
  let hasWaiting = false

  on("session.start", ($, e, next) => {
    isInteractive = e.isInteractive
    return next(e)
  })

  on("prompt.submit", ($, e, next) => {
    hasWaiting ||= e.turnId !== undefined
    return next(e)
  })

  on("turn.complete", async ($, e, next) => {
    const done = await next(e)
    if (e.agentId === undefined) {
      if (e.reason === "aborted" && !hasWaiting) {
        await report($, "Stop", e.answer ? { last_assistant_message: e.answer } : {})
      }
      if (e.reason === "error" && !isInteractive) await report($, "StopFailure", { error: "unknown" })
      hasWaiting = false
    }
    return done
  })

  on("session.receive", async ($, e, next) => {
    const done = await next(e)
    const { kind, teammate } = e.origin
    if (done.text !== undefined && FROM_SESSIONS.includes(kind)) {
      await report($, "MessageReceived", { content: e.text, from: teammate ?? kind })
    }
    return done
  })
}
