// Run by `claude plugin test plugins/claude-code-turns`.
import { describe, expect, test } from 'claude-code/testing'

describe('turns', () => {
  test('an interrupted turn and a message of another session are reported, and no answer', async ($, on) => {
    const told: [string, Record<string, unknown>][] = []
    on('session.id', () => ({ value: 's1' }))
    on('session.cwd', () => ({ value: '/work' }))
    on('session.start', ($, e) => ({ cwd: e.cwd }))
    on('turn.complete', ($, e) => ({ text: e.answer }))
    on('session.receive', ($, e) => ({ text: e.text }))
    on('process.run', ($, e) => {
      const { session_id, cwd, ...fields } = JSON.parse(e.init?.stdin ?? '{}')
      expect([e.argv[0], e.argv[1], session_id, cwd]).toEqual(['recall-shim', 'claude-code', 's1', '/work'])
      told.push([e.argv[2] ?? '', fields])
      return { value: { exitCode: 0, stdout: '', stderr: '', isStdoutTruncated: false, isStderrTruncated: false } }
    })

    await $.session.start({ surface: 'terminal', isInteractive: true, cwd: '/work' })
    const turn = { turnId: 't', durationMs: 1, isAborted: false }
    await $.turn.complete({ ...turn, answer: 'all', reason: 'answer' })
    await $.turn.complete({ ...turn, answer: '', reason: 'error' })
    await $.turn.complete({ ...turn, answer: 'half', isAborted: true, reason: 'aborted' })
    await $.session.receive({ origin: { kind: 'scheduled-trigger' }, text: 'now' })
    await $.session.receive({ origin: { kind: 'peer', teammate: 'ada', isVerified: true }, text: 'look at the cart' })

    expect(told).toEqual([
      ['Stop', { hook_event_name: 'Stop', last_assistant_message: 'half' }],
      ['MessageReceived', { hook_event_name: 'MessageReceived', content: 'look at the cart', from: 'ada' }],
    ])
  })
})
