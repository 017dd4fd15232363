// What the list can show.
import { get } from './api.js';
import { badge, clock, day, el, moment, words } from './dom.js';
import { bars, curve, days } from './charts.js';
import { CHUNK, lazy, ready } from './list.js';

/** Entries of a list that are read at once. */
const PAGE = 100;
/** What a call answers at the most. */
const MOST = 1000;

export const itemLink = (id) => `#/item/${encodeURIComponent(id)}`;
export const sessionLink = (id) => `#/session/${encodeURIComponent(id)}`;
export const threadLink = (id) => `#/thread/${encodeURIComponent(id)}`;
export const projectLink = (name) => `#/project/${encodeURIComponent(name)}`;

export const counted = (count, name) => `${count.toLocaleString()} ${name}${count === 1 ? '' : 's'}`;

/** Rows under a heading for each day. */
function byDay(entries, at, make) {
  const sections = [];
  for (const entry of entries) {
    const heading = day(at(entry));
    if (sections.at(-1)?.heading !== heading) sections.push({ heading, items: [] });
    sections.at(-1).items.push(make(entry));
  }
  return sections.map(({ heading, items }) => ready(heading, items));
}

/** A row: a title with its time, and what it is. */
const row = (title, time, ...under) => [
  el('span', { class: 'top' }, el('span', { class: 'title' }, title), el('span', { class: 'time' }, time)),
  el('span', { class: 'under' }, under),
];

const isOver = (entry) => entry.status && entry.status !== 'active';

function entryRow(entry, time, ...more) {
  const kind = entry.type ?? entry.kind;
  return {
    href: itemLink(entry.id),
    row: () => el('span', { class: `entry of-${entry.kind}${isOver(entry) ? ' stale' : ''}` }, row(entry.title, time(entry.created_at),
      badge(kind), entry.pinned ? el('span', { class: 'status' }, 'pinned') : null,
      isOver(entry) ? el('span', { class: 'status' }, entry.status) : null, more)),
  };
}

const ofProject = (entry, project) => project ? null : el('span', { class: 'project' }, entry.project);

/** Every day's entries, each read when it comes in sight. `before`: the sections as they were. */
export async function timeline({ project, kinds, type }, signal, before) {
  const of = { project, kinds: type ? 'observation' : kinds.join(','), types: type };
  const told = await get('/api/days', of, signal);
  const old = new Map((before ?? []).map((section) => [section.day, section]));
  const sections = [];
  let block = null;
  for (const line of told.days) {
    const count = line.observations + line.prompts + line.summaries;
    if (!count) continue;
    // Quiet days are read together.
    if (!block || block.count >= CHUNK) block = readTogether(of, project, line.until);
    const [source, first, was] = [block, block.count, old.get(line.day)];
    source.count += count;
    source.since = line.since;
    sections.push({
      day: line.day, count, heading: `${day(`${line.day}T12:00:00`)} · ${count.toLocaleString()}`,
      at: (number) => source.at(first + number) ?? was?.at(number),
      want: (number) => source.want(first + number),
    });
  }
  return sections;
}

/** The entries of some days. */
function readTogether(of, project, until) {
  const source = Object.assign(lazy(async (skip, limit) => {
    const { entries } = await get('/api/entries', { ...of, since: source.since, until, skip, limit });
    return entries.map((entry) => entryRow(entry, clock, ofProject(entry, project)));
  }), { count: 0, since: null });
  return source;
}

export async function search(text, { project, kind, type, since }, signal) {
  const filters = [kind && `kind:${kind}`, type && `type:${type}`, since && `since:${since}`].filter(Boolean);
  const answer = await get('/api/search', { query: [text, ...filters].join(' '), project, limit: 200 }, signal);
  const shown = answer.total > answer.results.length ? `, the best ${answer.results.length} are shown` : '';
  const heading = `${answer.total.toLocaleString()} found in ${answer.took_ms} ms${shown}${answer.degraded ? ', word by word' : ''}`;
  const notes = [...(answer.read_as ?? []).map((word) => `“${word.typed}” read as “${word.read}”`),
    ...(answer.unknown ?? []).map((one) => `There is no ${one.key} “${one.value}”${one.meant ? `: is “${one.meant}” meant?` : ''}`)];
  const found = (result) => ({
    href: itemLink(result.id),
    row: () => el('span', { class: `entry of-${result.kind}${isOver(result) ? ' stale' : ''}` }, row(result.title, moment(result.created_at),
      badge(result.type ?? result.kind), ofProject(result, project), result.author ? el('small', {}, `by ${result.author}`) : null, isOver(result) ? el('span', { class: 'status' }, result.status) : null,
      el('span', { class: 'snippet' }, result.snippet))),
  });
  return [...notes.map((note) => ready(note, [])), ready(heading, answer.results.map(found))];
}

/** A list that is read page by page, each when the end of the one before comes in sight. `before`: the sections as they were. */
async function paged(read, make, before) {
  const entries = [];
  let total = 0;
  const readTo = async (wanted) => {
    do {
      const page = await read(entries.length, Math.min(wanted - entries.length, MOST));
      if (!page.entries.length) { total = entries.length; break; }
      entries.push(...page.entries);
      total = page.total;
    } while (entries.length < Math.min(wanted, total));
    const sections = make(entries);
    const rest = { heading: null, count: 1, at: () => undefined, want: () => rest.reading ??= readTo(entries.length + PAGE) };
    if (entries.length < total) sections.push(rest);
    return Object.assign(sections, { read: entries.length });
  };
  return readTo(Math.max(before?.read ?? 0, PAGE));
}

export function sessions({ project }, signal, before) {
  const read = async (skip, limit) => {
    const { sessions, total } = await get('/api/sessions', { project, skip, limit }, signal);
    return { entries: sessions, total };
  };
  return paged(read, (found) => byDay(found, (session) => session.started_at, (session) => ({
    href: sessionLink(session.session_id),
    row: () => el('span', { class: 'entry' }, row(session.title ?? `Session ${session.session_id.slice(0, 8)}`, clock(session.started_at),
      el('span', { class: `state state-${session.status.replace(/[^a-z]/g, '')}` }, words(session.status)),
      el('span', {}, words(session.agent)), ofProject(session, project),
      el('span', {}, `${counted(session.prompts, 'prompt')} · ${counted(session.activities, 'call')}`))),
  })), before);
}

/** What machines noted and nobody has looked at. */
export function review({ project }, signal, before) {
  const read = async (skip, limit) => {
    const { entries, waiting } = await get('/api/review', { project, skip, limit }, signal);
    return { entries, total: waiting };
  };
  return paged(read, (found) => byDay(found, (entry) => entry.created_at, (entry) => entryRow(entry, clock, ofProject(entry, project))), before);
}

/** Subjects with a history: what holds now, and how often it was said otherwise. */
export function threads({ project }, signal, before) {
  const read = async (skip, limit) => {
    const { threads, total } = await get('/api/threads', { project, skip, limit }, signal);
    return { entries: threads, total };
  };
  return paged(read, (found) => found.length ? byDay(found, ({ statements }) => statements[0].created_at, ({ statements }) => {
    const [now, ...earlier] = statements;
    return {
      href: threadLink(now.id),
      row: () => el('span', { class: isOver(now) ? 'entry stale' : 'entry' }, row(now.title, clock(now.created_at), badge(now.type),
        isOver(now) ? el('span', { class: 'status' }, now.status) : null,
        earlier.length ? el('span', {}, `${counted(earlier.length, 'earlier statement')}`) : null, ofProject(now, project))),
    };
  }) : [ready('Nothing was replaced or resolved yet', [])], before);
}

export async function projects(_, signal) {
  const answer = await get('/api/projects', {}, signal);
  if (!answer.projects.length) return [];
  return [ready(counted(answer.projects.length, 'project'), answer.projects.map((one) => ({
    href: projectLink(one.name),
    row: () => el('span', { class: 'entry' }, row(one.name, moment(one.last_at),
      el('span', {}, `${counted(one.sessions, 'session')} · ${counted(one.observations, 'observation')}`))),
  })))];
}

const RANGES = [[30, '30 days'], [90, '90 days'], [365, 'A year']];

export async function numbers({ project }, signal, count, chosen) {
  const [status, stats, told] = await Promise.all([
    get('/api/status', {}, signal), get('/api/stats', { days: count }, signal), get('/api/days', { project }, signal),
  ]);
  const by = (value) => new Map(told.days.map((line) => [line.day, value(line)]));
  const spent = (value) => {
    const sums = new Map();
    for (const line of stats.spending) sums.set(line.day, (sums.get(line.day) ?? 0) + value(line));
    return sums;
  };
  const sum = (value) => told.days.reduce((all, line) => all + value(line), 0);
  const bytes = Object.values(status.bytes).filter((value) => typeof value === 'number').reduce((all, value) => all + value, 0);
  const figure = (label, value) => el('div', { class: 'figure' }, el('dt', {}, label), el('dd', {}, value));
  const number = (value) => value.toLocaleString();
  const dollars = (value) => `$${value.toFixed(value < 1 ? 3 : 2)}`;
  const observations = days(count, by((line) => line.observations));
  // What was there before the first day shown.
  let all = sum((line) => line.observations) - observations.reduce((sum, point) => sum + point.value, 0);
  const growth = observations.map((point) => ({ day: point.day, value: all += point.value }));
  const range = el('select', { id: 'range', change: (event) => chosen(Number(event.target.value)) },
    RANGES.map(([value, name]) => el('option', { value, selected: value === count }, name)));
  return el('div', { class: 'numbers' },
    el('div', { class: 'headed' }, el('h1', {}, project ? `Numbers of ${project}` : 'Numbers'), el('label', {}, el('span', { class: 'hidden' }, 'Time'), range)),
    el('dl', { class: 'figures' }, figure('Sessions', number(sum((line) => line.sessions))), figure('Observations', number(sum((line) => line.observations))),
      figure('Prompts', number(sum((line) => line.prompts))), figure('Calls', number(sum((line) => line.calls))),
      figure('On disk', `${(bytes / 1048576).toFixed(1)} MiB`), figure('Spent today', dollars(status.compression.usd_today))),
    el('div', { class: 'charts' },
      curve('Observations in all', growth, number), bars('New observations', observations, number),
      bars('Prompts', days(count, by((line) => line.prompts)), number),
      bars('Calls, by the day of their session', days(count, by((line) => line.calls)), number),
      stats.spending.length ? [bars('Cost of models, all projects', days(count, spent((line) => line.usd)), dollars),
        bars('Tokens of models, all projects', days(count, spent((line) => line.tokens_in + line.tokens_out)), number)] : null),
    stats.spending.length ? null : el('p', { class: 'quiet' },
      `No model was asked in these ${count} days: what was kept was chosen on this machine, without cost.`));
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
