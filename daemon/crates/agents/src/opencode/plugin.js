const MARK = "recall"
const live = (globalThis[Symbol.for("recall.live")] ??= new Set())   // folders served by a copy of this plugin

const RecallPlugin = async ({ directory, worktree }) => {
  if (live.has(directory)) return {}   // installed for the user and in the project: only the first one speaks
  live.add(directory)
  const started = new Map()   // session -> source still to be announced, or "done"
  const parent = new Map()    // subagent session -> parent session
  const replies = new Map()   // session -> last assistant text
  const failed = new Set()    // tool call ids already reported as failed
  const squeezed = new Map()  // session -> "auto" | "manual" while a compaction is under way
  let n = 0
  const base = (id) => ({ session_id: parent.get(id) || id, cwd: directory, project_dir: worktree,
    ...(parent.has(id) ? { agent_id: id } : {}) })
  const asPart = (message, text) => ({ id: `prt_zz${MARK}${Date.now().toString(16)}${n++}`, sessionID: message.sessionID,
    messageID: message.id, type: "text", text, synthetic: true })

  return {
    event: async ({ event }) => {
      const p = event.properties || {}
      switch (event.type) {
        case "session.created":
          if (p.info?.parentID) {
            parent.set(p.info.id, p.info.parentID)
            await shim("SubagentStart", { ...base(p.info.id), agent_type: p.info.agent, title: p.info.title }, 500)
          } else started.set(p.info.id, "startup")
          break
        case "message.part.updated": {
          const t = p.part
          if (t?.type === "compaction") squeezed.set(p.sessionID, t.auto ? "auto" : "manual")
          if (t?.type === "tool" && t.state?.status === "error" && !failed.has(t.callID)) {
            failed.add(t.callID)
            if (failed.size > 512) failed.clear()
            await shim("PostToolUseFailure", { ...base(p.sessionID), tool_name: t.tool, tool_use_id: t.callID,
              tool_input: t.state.input, error: t.state.error,
              duration_ms: (t.state.time?.end || 0) - (t.state.time?.start || 0) }, 500)
          }
          break
        }
        case "session.compacted": {
          const summary = replies.get(p.sessionID) || ""
          replies.delete(p.sessionID)          // before any await: session.idle may arrive meanwhile
          started.set(p.sessionID, "compact")
          await shim("PostCompact", { ...base(p.sessionID), trigger: squeezed.get(p.sessionID) || "auto",
            compact_summary: summary }, 500)
          break
        }
        case "session.idle": {
          const said = replies.get(p.sessionID)
          const onlyCompacted = said === undefined && squeezed.has(p.sessionID)   // no turn: nothing to stop
          replies.delete(p.sessionID)
          squeezed.delete(p.sessionID)
          if (parent.has(p.sessionID)) {
            await shim("SubagentStop", { ...base(p.sessionID), last_assistant_message: said || "" }, 1000)
            parent.delete(p.sessionID)
          } else if (!onlyCompacted) {
            await shim("Stop", { ...base(p.sessionID), stop_hook_active: false, last_assistant_message: said || "" }, 1000)
          }
          break
        }
        case "session.error":
          await shim("StopFailure", { ...base(p.sessionID), error: p.error?.name, message: p.error?.data?.message }, 500)
          break
        case "session.deleted":
          await shim("SessionEnd", { ...base(p.info?.id || p.sessionID), reason: "deleted" }, 500)
          break
        case "todo.updated":
          await shim("TodoUpdated", { ...base(p.sessionID), todos: p.todos }, 500)
          break
      }
    },
    "chat.message": async (input, output) => {
      const id = input.sessionID
      if (parent.has(id)) return
      const prompt = output.parts.filter((x) => x.type === "text" && !x.synthetic).map((x) => x.text).join("\n")
      const source = started.get(id) || "resume"
      if (source !== "done") {
        started.set(id, "done")
        const start = await shim("SessionStart", { ...base(id), source, model: output.message.model?.modelID }, 1500)
        if (start) output.parts.push(asPart(output.message, start))
      }
      const found = await shim("UserPromptSubmit", { ...base(id), prompt, message_id: output.message.id,
        agent: output.message.agent }, 800)
      if (found) output.parts.push(asPart(output.message, found))
    },
    "tool.execute.after": async (input, output) => {
      const note = await shim("PostToolUse", { ...base(input.sessionID), tool_name: input.tool, tool_use_id: input.callID,
        tool_input: input.args, tool_response: { title: output.title, output: output.output, metadata: output.metadata } }, 500)
      if (note && typeof output.output === "string") output.output += `\n${note}`
    },
    "experimental.text.complete": async (input, output) => { replies.set(input.sessionID, output.text) },
    "experimental.session.compacting": async (input, output) => {
      const keep = await shim("PreCompact", { ...base(input.sessionID),
        trigger: squeezed.get(input.sessionID) || "auto" }, 1000)
      if (keep) output.context.push(keep)
    },
    dispose: async () => { live.delete(directory) },
  }
}

export default { id: MARK, server: RecallPlugin }
