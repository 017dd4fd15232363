export const description = "Hands thread events to recall-shim, and adds what it remembers to prompts"

const words = (content) =>
  typeof content === "string" ? content
    : Array.isArray(content) ? content.filter((part) => part?.type === "text").map((part) => part.text).join("\n") : ""

export default function recall(amp) {
  const live = (globalThis[Symbol.for("recall.live")] ??= new WeakSet())
  if (live.has(amp)) return     // installed for the user and in the project: only the first one speaks
  live.add(amp)
  const started = new Set()     // threads whose start was announced: it can be answered only together with a prompt
  const about = (event) => {
    const root = amp.system?.workspaceRoot
    let cwd = process.cwd()
    try { if (root) cwd = amp.helpers.filePathFromURI(root) } catch {}
    return { session_id: event.thread?.id || "", cwd }
  }
  const source = async (ctx) => {
    try {
      const earlier = await ctx.thread.messages({ from: "start", limit: 4 })
      return earlier.some((message) => message.role === "assistant") ? "resume" : "startup"
    } catch {
      return "startup"
    }
  }

  amp.on("agent.start", async (event, ctx) => {
    const given = []
    if (!started.has(event.thread.id)) {
      started.add(event.thread.id)
      given.push(await shim("SessionStart", { ...about(event), source: await source(ctx) }, 1500))
    }
    given.push(await shim("UserPromptSubmit", { ...about(event), prompt: event.message, prompt_id: String(event.id) }, 800))
    const content = given.filter(Boolean).join("\n\n")
    return content ? { message: { content, display: false } } : {}
  })
  amp.on("tool.result", async (event) => {
    const call = { ...about(event), tool_name: event.tool, tool_use_id: event.toolUseID, tool_input: event.input }
    if (event.status === "done") {
      const { output } = event
      const response = output && typeof output === "object" && !Array.isArray(output) ? output : { output: words(output) }
      await shim("PostToolUse", { ...call, tool_response: response }, 500)
    } else {
      await shim("PostToolUseFailure", { ...call, error: event.error || words(event.output) || event.status }, 500)
    }
  })
  amp.on("agent.end", async (event) => {
    const said = (event.messages || []).filter((message) => message.role === "assistant")
      .map((message) => words(message.content)).filter(Boolean).at(-1) || ""
    const turn = { ...about(event), prompt_id: String(event.id) }
    if (event.status === "error") await shim("StopFailure", { ...turn, error: "error" }, 1000)
    else await shim("Stop", { ...turn, last_assistant_message: said }, 1000)
  })
}
