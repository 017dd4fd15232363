// The gateway's calls. A token that only this page has says who asks: what browsers send by themselves (cookies) would go
// to every port of this machine.

export class Refused extends Error {
  constructor(status, error) {
    super(error.what);
    this.status = status;
    this.hint = error.hint;
  }
}

const token = () => sessionStorage.getItem('token');
const signed = (headers = {}) => token() ? { ...headers, Authorization: `Bearer ${token()}` } : headers;

async function call(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: signed(options.headers) });
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

/** Lets this page in by the key of a link. */
export async function open(key) {
  const answer = await post('/api/open', { key });
  sessionStorage.setItem('token', answer.token);
}

export const part = (id) => encodeURIComponent(id);

/** Calls `told(name, data)` for each event, and `state(open)` when the stream begins or breaks. */
export async function follow(told, state) {
  let last = null;
  const tell = (event) => {
    const fields = Object.fromEntries(event.split('\n').map((line) => line.split(/: (.*)/s)).filter(([name]) => name));
    last = fields.id ?? last;
    if (!fields.event) return;
    const data = JSON.parse(fields.data);
    if (fields.event !== 'connected') told(fields.event, data);
    else if (data.lost) told('lagged', {});
  };
  const listen = async () => {
    const answer = await fetch('/api/stream', { headers: signed(last ? { 'Last-Event-ID': last } : {}) });
    if (!answer.ok) return answer.status;
    state(true);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; ;) {
      const { value, done } = await reader.read();
      if (done) return answer.status;
      const events = (text + value).split('\n\n');
      text = events.pop();
      events.forEach(tell);
    }
  };
  for (;;) {
    const status = await listen().catch(() => 0);
    state(false);
    // The daemon is another one: this page is locked.
    if (status === 401) { told('locked', {}); return; }
    await new Promise((resolve) => { setTimeout(resolve, 2000); });
  }
}
