// What the list can show.
import { get, post } from './api.js';
import { badge, clock, day, el, moment, toast, words } from './dom.js';
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
      `No model was called in these ${count} days: the notes were made on this machine, without cost.`));
}

const KINDS = [['failure', 'The same failure in several sessions'], ['correction', 'What you corrected'], ['stop', 'Turns that ended without an answer'],
  ['denial', 'Calls that you denied repeatedly'], ['workaround', 'Workarounds']];
const SPANS = [[7, '7 days'], ...RANGES];
/** How many sessions of a finding are named. */
const NAMED = 6;

/** What goes wrong again and again, with its evidence and what may be worth remembering. */
export async function friction({ project }, signal, count, chosen) {
  const { items } = await get('/api/friction', { project, since: `${count}d` }, signal);
  const range = el('select', { id: 'range', change: (event) => chosen(Number(event.target.value)) },
    SPANS.map(([value, name]) => el('option', { value, selected: value === count }, name)));
  const sections = KINDS.map(([kind, heading]) => [heading, items.filter((one) => one.kind === kind)]).filter(([, found]) => found.length);
  return el('div', { class: 'numbers sharing friction' },
    el('div', { class: 'headed' }, el('h1', {}, project ? `Friction in ${project}` : 'Friction'), el('label', {}, el('span', { class: 'hidden' }, 'Time'), range)),
    sections.length ? sections.map(([heading, found]) => el('section', {}, el('h2', {}, heading), found.map((one) => finding(one, project))))
      : el('p', { class: 'quiet' }, `No recurring problems in these ${count} days.`));
}

function finding(one, project) {
  const named = one.met.slice(0, NAMED).flatMap((met, at) => [at ? ', ' : '', el('a', { href: sessionLink(met.session_id) }, met.session_id.slice(0, 8)), ' ', moment(met.at)]);
  const more = one.met.length - NAMED;
  const keep = async (event) => {
    event.target.disabled = true;
    try {
      await post('/api/remember', { text: one.remember.text, type: one.remember.type, project });
      toast('Stored as a note.');
      document.dispatchEvent(new Event('changed'));
    } catch (error) { event.target.disabled = false; toast(error.message); }
  };
  // A suggestion with dots is for a person to complete.
  const isWhole = one.remember && !one.remember.text.includes('...') && !one.remember.text.includes('…');
  return el('article', {}, el('h3', {}, one.what),
    el('p', { class: 'quiet' }, `${counted(one.times, 'time')} in ${counted(one.met.length, 'session')}: `, named, more > 0 ? ` and ${more} more` : null),
    one.example ? el('div', { class: 'said' }, el('div', {}, one.example)) : null,
    one.note ? el('p', {}, 'Noted as ', el('a', { href: itemLink(one.note) }, `note ${one.note}`)) : null,
    !one.note && one.remember ? el('p', {}, 'Worth remembering? ', el('code', {}, one.remember.text)) : null,
    !one.note && isWhole && project ? el('div', { class: 'actions' }, el('button', { type: 'button', click: keep }, 'Remember')) : null);
}

/** What is shared with other machines, and how far every one of them is. */
export async function sharing({ project }, signal) {
  const [told, { quarantined }] = await Promise.all([get('/api/sync', {}, signal), get('/api/review', { project }, signal)]);
  const shares = told.shares.filter((share) => !project || share.project === project);
  const who = told.device ? el('p', { class: 'quiet' }, `This machine is ${told.author}, ${told.device_name} (${told.device.slice(0, 8)}).`) : null;
  return el('div', { class: 'numbers sharing' }, el('div', { class: 'headed' }, el('h1', {}, 'Sharing')), who,
    told.notices.map((notice) => el('p', { class: 'status' }, notice)),
    shares.length ? shares.map(share) : el('p', { class: 'quiet' }, 'Nothing is shared. In a project’s folder: ', el('code', {}, 'recall share --with REMOTE')),
    quarantined.map(apart));
}

/** What others sent that reads like instructions to a model. Nobody else is shown it until it is kept. */
function apart(item) {
  const decide = (verdict, done) => post('/api/review', { ids: [item.id], verdict })
    .then(() => { toast(done); document.dispatchEvent(new Event('changed')); }, (error) => toast(error.message));
  const button = (text, ...decided) => el('button', { type: 'button', click: () => decide(...decided) }, text);
  return el('section', { class: 'apart' }, el('h2', {}, `Reads like instructions to a model: ${item.id}`),
    el('p', { class: 'quiet' }, `${words(item.kind)} of ${item.project}, by ${item.author}, ${item.device}, `, moment(item.noticed_at), ': ', el('em', {}, item.why)),
    el('div', { class: 'said' }, el('div', {}, item.text)),
    el('div', { class: 'actions' }, button('Keep', 'kept', 'Kept: searches find it now.'), button('Reject', 'rejected', 'Rejected: it will not be stored.')));
}

/** A project with one remote. */
function share(one) {
  const figure = (label, value) => el('div', { class: 'figure' }, el('dt', {}, label), el('dd', {}, value.toLocaleString()));
  const heads = ['Machine', 'Read', 'To come', 'Last', 'Error'];
  return el('section', {}, el('h2', {}, `${one.project} through ${one.remote}`),
    el('p', { class: 'quiet' }, el('code', {}, one.url), one.encrypted ? '' : ', not encrypted', one.synced_at && !one.error ? [', in sync ', moment(one.synced_at)] : null),
    one.error ? el('p', {}, el('em', {}, one.error), one.next_try ? [', next try at ', clock(one.next_try)] : null) : null,
    el('dl', { class: 'figures' }, figure('Changes from here', one.logged), figure('Not sent yet', Math.max(one.logged - one.sent, 0)), figure('From others', one.received),
      figure('Held back', one.held.length), figure('For a newer recall', one.parked), figure('For your review', one.quarantined)),
    one.devices.length ? el('div', { class: 'across', tabindex: '0', role: 'region', 'aria-label': `Machines of ${one.project} through ${one.remote}` }, el('table', {},
      el('thead', {}, el('tr', {}, heads.map((head) => el('th', { scope: 'col' }, head)))), el('tbody', {}, one.devices.map(machine)))) : null,
    one.forgotten.total ? el('p', { class: 'quiet' }, forgotten(one.forgotten)) : null,
    one.held.length ? el('ul', {}, one.held.map((held) => el('li', {}, held.id ? el('a', { href: itemLink(held.id) }, held.title ?? `Item ${held.id}`) : 'Something that is gone', `: ${held.why}`))) : null);
}

function machine(device) {
  const hours = Math.max(1, Math.floor(Math.abs(device.clock_ahead_ms ?? 0) / 36e5));
  const wrong = [device.error, device.clock_ahead_ms ? `its clock is ${counted(hours, 'hour')} or more ${device.clock_ahead_ms > 0 ? 'ahead' : 'behind'}` : null,
    device.refused ? `${counted(device.refused, 'change')} could not be used` : null].filter(Boolean);
  const cells = [device.seq.toLocaleString(), Math.max((device.available ?? device.seq) - device.seq, 0).toLocaleString(), moment(device.at), el('em', {}, wrong.join('; '))];
  return el('tr', {}, el('th', { scope: 'row' }, device.author ? `${device.author}, ${device.name}` : device.device.slice(0, 8)), cells.map((cell) => el('td', {}, cell)));
}

function forgotten({ total, everywhere, machines, waiting }) {
  const what = `Forgotten: ${counted(total, 'item')}`;
  if (!machines) return `${what}; no other machine has confirmed it.`;
  if (everywhere === total) return `${what}, confirmed by ${counted(machines, 'machine')}.`;
  return `${what}, the last confirmed by ${waiting[0].confirmed} of ${counted(machines, 'machine')}, not yet by ${waiting[0].missing.join('; ')}.`;
}

/** For a memory with nothing in it. */
export function empty() {
  const step = (command, what) => el('li', {}, el('code', {}, command), el('span', {}, what));
  return el('div', { class: 'empty' }, el('h1', {}, 'Nothing is stored here yet'),
    el('p', {}, 'recall remembers what you and your coding agents find out, and gives it to later sessions when it helps. It starts with your next session.'),
    el('ol', {}, step('recall install', 'Connects the agents on this machine.'),
      step('recall import', 'Imports the sessions that your agents recorded earlier.'),
      step('recall doctor', 'Checks that everything works.')),
    el('p', { class: 'quiet' }, 'Leave this page open: it updates by itself.'));
}
