// The gateway's calls. The browser's cookie says who asks.

export class Refused extends Error {
  constructor(status, error) {
    super(error.what);
    this.status = status;
    this.hint = error.hint;
  }
}

async function call(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refused(0, { what: 'The daemon does not answer', hint: 'Run `recall ui --web` again.' });
  }
  const json = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, json.error ?? { what: `The gateway answered ${answer.status}`, hint: '' });
  return json;
}

/** Reads; `parameters` that are empty are left out. */
export function get(path, parameters = {}, signal) {
  const given = Object.entries(parameters).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return call(query ? `${path}?${query}` : path, { signal });
}

export function post(path, body, options = {}) {
  return call(path, { ...options, method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
}

export const part = (id) => encodeURIComponent(id);

const NAMES = ['session_started', 'session_resumed', 'session_suspended', 'session_ended', 'prompt', 'observation',
  'summary', 'batch_closed', 'after_compaction', 'job_dead', 'processing_status', 'memory_changed', 'lagged'];

/** Calls `told(name, data)` for each event, and `state(open)` when the stream begins or breaks. */
export function follow(told, state) {
  const stream = new EventSource('/api/stream');
  stream.addEventListener('connected', (event) => {
    state(true);
    if (JSON.parse(event.data).lost) told('lagged', {});
  });
  stream.onerror = () => state(false);
  for (const name of NAMES) stream.addEventListener(name, (event) => told(name, JSON.parse(event.data)));
}
