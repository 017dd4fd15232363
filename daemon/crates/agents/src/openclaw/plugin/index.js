// recall's plugin, written by `recall install`; `recall uninstall` removes it. It hands session events to recall-shim and
// adds what that remembers. It imports only node:, so nothing has to be installed for it.
import { spawn } from "node:child_process"

const plain = (content) =>
  typeof content === "string" ? content
    : Array.isArray(content) ? content.filter((c) => c?.type === "text").map((c) => c.text).join("\n") : ""

export default {
  id: "recall",
  name: "recall",
  description: "Feeds session events to recall-shim and adds what it remembers.",
  register(api) {
    const shimPath = api.pluginConfig?.shim || process.env.RECALL_SHIM || "@recall-shim@"
    const last = new Map()     // sessionKey -> what is known about it (session id, folder)
    const fresh = new Map()    // session id -> a start that still has to be announced

    const shim = (event, payload, ms) => new Promise((done) => {
      if (process.env.RECALL_DISABLE === "1") return done("")
      let out = ""
      let child
      try {
        child = spawn(shimPath, ["openclaw", event], { stdio: ["pipe", "pipe", "ignore"] })
      } catch { return done("") }
      const timer = setTimeout(() => { child.kill(); done("") }, ms)
      child.on("error", () => { clearTimeout(timer); done("") })
      child.on("close", () => {
        clearTimeout(timer)
        try { done(JSON.parse(out).hookSpecificOutput?.additionalContext || "") } catch { done("") }
      })
      child.stdout.on("data", (d) => { out += d })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify({ hook_event_name: event, ...payload }))
    })

    const base = (event, ctx) => {
      const key = ctx?.sessionKey || event?.sessionKey
      const known = key ? last.get(key) || {} : {}
      const id = ctx?.sessionId || event?.sessionId || known.session_id
      const cwd = ctx?.workspaceDir || known.cwd
      if (key) {
        last.set(key, { session_id: id, cwd })
        if (last.size > 256) last.delete(last.keys().next().value)
      }
      return { session_id: id || key || "", session_key: key, agent: ctx?.agentId, cwd,
        channel: ctx?.channel || ctx?.channelId, account: ctx?.accountId,
        conversation: ctx?.conversationId || ctx?.chatId, run_id: ctx?.runId || event?.runId }
    }
    const on = (name, handler, opts) => { try { api.on(name, handler, opts) } catch { /* this host has no such hook */ } }

    // A start can neither be answered nor does it know its folder, so it is announced with the first prompt.
    on("session_start", (e) => {
      fresh.set(e.sessionId, { source: e.resumedFrom ? "clear" : "startup", resumed_from: e.resumedFrom })
      if (fresh.size > 256) fresh.delete(fresh.keys().next().value)
    })
    let modern = false         // true once before_prompt_build fired: then before_agent_start is a duplicate
    const prompted = async (e, ctx) => {
      const b = base(e, ctx)
      const machine = (ctx?.trigger && ctx.trigger !== "user") ||
        (ctx?.inputProvenance?.kind && ctx.inputProvenance.kind !== "external_user")
      const start = machine ? undefined : fresh.get(b.session_id)
      if (start) fresh.delete(b.session_id)
      const pack = start ? await shim("SessionStart", { ...b, ...start }, 1000) : ""
      const prompt = e.currentUserMessage ?? e.prompt
      const found = await shim("UserPromptSubmit", { ...b, prompt, message_id: e.currentUserMessageId,
        trigger: ctx?.trigger, sender_id: ctx?.senderId, origin: ctx?.inputProvenance?.kind }, 800)
      const text = [pack, found].filter(Boolean).join("\n\n")
      return text ? { prependContext: text } : undefined
    }
    on("before_prompt_build", (e, ctx) => { modern = true; return prompted(e, ctx) }, { timeoutMs: 2500 })
    on("before_agent_start", (e, ctx) => (modern ? undefined : prompted(e, ctx)))   // hosts before the split
    on("after_tool_call", async (e, ctx) => {
      const b = { ...base(e, ctx), tool_name: e.toolName, tool_use_id: e.toolCallId, tool_input: e.params, duration_ms: e.durationMs }
      if (e.error) await shim("PostToolUseFailure", { ...b, error: e.error }, 500)
      else await shim("PostToolUse", { ...b, tool_response: e.result }, 500)
    })
    on("agent_end", async (e, ctx) => {
      const said = (e.messages || []).filter((m) => m?.role === "assistant").map((m) => plain(m.content)).filter(Boolean)
      await shim(e.success === false ? "StopFailure" : "Stop", { ...base(e, ctx), stop_hook_active: false,
        last_assistant_message: said.at(-1) || "", error: e.error, duration_ms: e.durationMs }, 1000)
    })
    on("before_compaction", (e, ctx) => shim("PreCompact", { ...base(e, ctx), trigger: "auto", message_count: e.messageCount,
      token_count: e.tokenCount }, 1000))
    on("after_compaction", (e, ctx) => {
      const b = base(e, ctx)
      fresh.set(b.session_id, { source: "compact" })
      return shim("PostCompact", { ...b, message_count: e.messageCount, compacted_count: e.compactedCount,
        previous_session_id: e.previousSessionId }, 1000)
    })
    on("before_reset", (e, ctx) => shim("PreReset", { ...base(e, ctx), reason: e.reason }, 500))
    on("session_end", (e, ctx) => {
      const b = base(e, ctx)
      if (b.session_key) last.set(b.session_key, { cwd: b.cwd })   // its next message is not this session's
      return shim("SessionEnd", { ...b, reason: e.reason || "unknown", message_count: e.messageCount,
        duration_ms: e.durationMs, next_session_id: e.nextSessionId }, 700)
    })
    // It may come before its session is known here: recall knows who talks where.
    on("message_received", (e, ctx) => {
      const b = base(e, ctx)
      return shim("MessageReceived", { ...b, session_id: last.get(b.session_key)?.session_id, from: e.from,
        content: e.content, timestamp: e.timestamp, metadata: { ...e.metadata, message_id: e.messageId,
          sender_id: e.senderId, thread_id: e.threadId, reply_to_id: e.replyToId } }, 500)
    })
    on("subagent_spawned", (e, ctx) => shim("SubagentStart", { ...base(e, ctx), agent_id: e.childSessionKey, agent_type: e.agentId,
      title: e.label, model: e.resolvedModel }, 500))
    on("subagent_ended", (e, ctx) => shim("SubagentStop", { ...base(e, ctx), agent_id: e.targetSessionKey, status: e.outcome,
      error: e.error }, 500))
    // The fork with session hooks adds these two; other hosts ignore or refuse the names.
    on("session_suspend", (e, ctx) => shim("SessionSuspend", { ...base(e, ctx), reason: e.reason, message_count: e.messageCount,
      duration_ms: e.durationMs }, 500))
    on("session_resume", (e, ctx) => {
      fresh.set(e.sessionId, { source: "resume" })
      return shim("SessionResume", { ...base(e, ctx), suspended_for_ms: e.suspendedForMs }, 500)
    })
  },
}
