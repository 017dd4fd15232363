const words = (content) =>
  typeof content === "string" ? content
    : Array.isArray(content) ? content.filter((part) => part?.type === "text").map((part) => part.text).join("\n") : ""

export default function recall(pi) {
  const live = (globalThis[Symbol.for("recall.live")] ??= new WeakSet())
  if (live.has(pi)) return      // installed for the user and in the project: only the first one speaks
  live.add(pi)
  // A start that has to be announced: it can be answered only together with a prompt.
  let start = "startup"
  const about = (ctx) => ({
    session_id: ctx?.sessionManager?.getSessionId?.() || "",
    transcript_path: ctx?.sessionManager?.getSessionFile?.(),
    cwd: ctx?.cwd,
  })

  pi.on("session_start", async (event) => {
    start = { new: "clear", fork: "fork", resume: "resume" }[event?.reason] || "startup"
  })
  pi.on("before_agent_start", async (event, ctx) => {
    const given = []
    if (start) {
      const source = start
      start = ""
      given.push(await shim("SessionStart", { ...about(ctx), source }, 1500))
    }
    given.push(await shim("UserPromptSubmit", { ...about(ctx), prompt: event.prompt }, 800))
    const content = given.filter(Boolean).join("\n\n")
    return content ? { message: { customType: "recall", content, display: false } } : undefined
  })
  pi.on("tool_result", async (event, ctx) => {
    const call = { ...about(ctx), tool_name: event.toolName, tool_use_id: event.toolCallId, tool_input: event.input }
    if (event.isError) {
      await shim("PostToolUseFailure", { ...call, error: words(event.content) }, 500)
      return undefined
    }
    const note = await shim("PostToolUse", { ...call, tool_response: { output: words(event.content) } }, 500)
    return note ? { content: [...event.content, { type: "text", text: note }] } : undefined
  })
  pi.on("agent_end", async (event, ctx) => {
    const said = (event.messages || []).filter((message) => message.role === "assistant")
      .map((message) => words(message.content)).filter(Boolean)
    await shim("Stop", { ...about(ctx), last_assistant_message: said.at(-1) || "" }, 1000)
  })
  pi.on("session_before_compact", async (event, ctx) => {
    await shim("PreCompact", { ...about(ctx), trigger: "auto" }, 1000)
  })
  pi.on("session_compact", async (event, ctx) => {
    start = "compact"
    await shim("PostCompact", { ...about(ctx), compact_summary: event.compactionEntry?.summary }, 1000)
  })
  pi.on("session_shutdown", async (event, ctx) => {
    if (event?.reason !== "reload") await shim("SessionEnd", { ...about(ctx), reason: event?.reason || "other" }, 700)
  })
}
