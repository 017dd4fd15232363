// What the list can show.
import { get } from './api.js';
import { badge, clock, day, el, moment, words } from './dom.js';
import { bars, days } from './charts.js';

const MOST = 1000;

export const itemLink = (id) => `#/item/${encodeURIComponent(id)}`;
export const sessionLink = (id) => `#/session/${encodeURIComponent(id)}`;

const counted = (count, name) => `${count} ${name}${count === 1 ? '' : 's'}`;

const time = (value) => new Date(value).getTime();

/** Rows under a heading for each day. */
function byDay(entries, at, make) {
  const items = [];
  let last = null;
  for (const entry of entries) {
    const heading = day(at(entry));
    if (heading !== last) items.push({ heading });
    last = heading;
    items.push(make(entry));
  }
  return items;
}

const line = (title, ...under) => [el('span', { class: 'title' }, title), el('span', { class: 'under' }, under)];

function found(result) {
  const stale = result.status && result.status !== 'active';
  return {
    href: itemLink(result.id),
    row: () => el('span', { class: stale ? 'entry stale' : 'entry' }, line(result.title,
      badge(result.type ?? result.kind), stale ? el('span', { class: 'status' }, result.status) : null,
      el('span', { class: 'project' }, result.project), el('span', {}, clock(result.created_at)))),
  };
}

export async function timeline(project, signal) {
  const ask = (kind) => get('/api/search', { query: `kind:${kind}`, project, limit: MOST }, signal);
  const answers = await Promise.all(['observation', 'prompt', 'summary'].map(ask));
  const all = answers.flatMap((answer) => answer.results).sort((a, b) => time(b.created_at) - time(a.created_at));
  return byDay(all, (result) => result.created_at, found);
}

export async function search(query, project, signal) {
  const answer = await get('/api/search', { query, project, limit: 200 }, signal);
  const heading = `${answer.total} found in ${answer.took_ms} ms${answer.degraded ? ', word by word' : ''}`;
  const read = (answer.read_as ?? []).map((word) => ({ heading: `“${word.typed}” read as “${word.read}”` }));
  return [{ heading }, ...read, ...answer.results.map((result) => ({
    href: itemLink(result.id),
    row: () => el('span', { class: result.status && result.status !== 'active' ? 'entry stale' : 'entry' }, line(result.title,
      badge(result.type ?? result.kind), el('span', { class: 'snippet' }, result.snippet), moment(result.created_at))),
  }))];
}

export async function sessions(project, signal) {
  const answer = await get('/api/sessions', { project, limit: MOST }, signal);
  return byDay(answer.sessions, (session) => session.started_at, (session) => ({
    href: sessionLink(session.session_id),
    row: () => el('span', { class: 'entry' }, line(session.title ?? `Session ${session.session_id.slice(0, 8)}`,
      el('span', { class: `state state-${session.status.replace(/[^a-z]/g, '')}` }, words(session.status)),
      el('span', {}, words(session.agent)), el('span', { class: 'project' }, session.project),
      el('span', {}, `${counted(session.prompts, 'prompt')} · ${counted(session.activities, 'call')}`), el('span', {}, clock(session.started_at)))),
  }));
}

/** Subjects with a history: what was replaced or solved, each leads to what holds now. */
export async function threads(project, signal) {
  const answer = await get('/api/search/observations', { query: '', project, limit: MOST }, signal);
  const old = answer.results.filter((result) => result.status && result.status !== 'active');
  const items = byDay(old, (result) => result.created_at, found);
  return items.length ? items : [{ heading: 'Nothing was replaced or resolved yet' }];
}

export async function numbers(project, signal) {
  const count = 30;
  const [status, stats, list] = await Promise.all([
    get('/api/status', {}, signal), get('/api/stats', { days: count }, signal), get('/api/sessions', { project, limit: MOST }, signal),
  ]);
  const sum = (rows, key, value) => {
    const by = new Map();
    for (const row of rows) by.set(key(row), (by.get(key(row)) ?? 0) + value(row));
    return by;
  };
  const local = (value) => new Date(value).toLocaleDateString('sv');
  const usd = sum(stats.spending, (row) => row.day, (row) => row.usd);
  const tokens = sum(stats.spending, (row) => row.day, (row) => row.tokens_in + row.tokens_out);
  const prompts = sum(list.sessions, (row) => local(row.started_at), (row) => row.prompts);
  const calls = sum(list.sessions, (row) => local(row.started_at), (row) => row.activities);
  const bytes = Object.values(status.bytes).filter((value) => typeof value === 'number').reduce((all, value) => all + value, 0);
  const figure = (label, value) => el('div', { class: 'figure' }, el('dt', {}, label), el('dd', {}, value));
  const number = (value) => value.toLocaleString();
  return el('div', { class: 'numbers' }, el('h1', {}, 'Numbers'),
    el('dl', { class: 'figures' }, figure('Sessions', number(status.sessions.total)), figure('Observations', number(status.observations)),
      figure('Events', number(status.events.stored)), figure('On disk', `${(bytes / 1048576).toFixed(1)} MiB`),
      figure('Spent today', `$${status.compression.usd_today.toFixed(2)}`), figure('Compressed by', status.compression.backend)),
    bars('Prompts, by the day of their session', days(count, prompts), 'prompts'),
    bars('Calls kept, by the day of their session', days(count, calls), 'calls'),
    stats.spending.length ? [bars('Cost of models', days(count, usd), 'USD', (value) => value.toFixed(3)),
      bars('Tokens of models', days(count, tokens), 'tokens', number)]
      : el('p', { class: 'quiet' }, 'No model was asked in the last 30 days: what was kept was chosen on this machine, without cost.'));
}

/** For a memory with nothing in it. */
export function empty() {
  const step = (command, what) => el('li', {}, el('code', {}, command), el('span', {}, what));
  return el('div', { class: 'empty' }, el('h1', {}, 'Nothing is remembered yet'),
    el('p', {}, 'recall remembers what you and your coding agents find out, and gives it back when it helps. It begins with your next session.'),
    el('ol', {}, step('recall install', 'Connects the agents on this machine.'),
      step('recall import', 'Reads the sessions that your agents have recorded before.'),
      step('recall doctor', 'Checks that everything is in place.')),
    el('p', { class: 'quiet' }, 'This page stays open: what happens appears by itself.'));
}
