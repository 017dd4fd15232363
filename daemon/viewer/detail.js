// One session, one item with what it rests on, one thread, one project.
import { get, part, post } from './api.js';
import { body, gist } from './call.js';
import { badge, byId, el, later, moment, toast, words } from './dom.js';
import { inline, markdown } from './markdown.js';
import { TYPES } from './types.js';
import { counted, itemLink, projectLink, sessionLink, threadLink } from './views.js';

const plain = (text) => el('div', { class: 'prose' }, String(text ?? ''));
const paragraphs = (text) => el('div', { class: 'prose' }, markdown(text));
/** Kinds of items whose text is written to be read. The others are shown to the letter. */
const WRITTEN = ['response', 'said', 'plan', 'compaction', 'summary'];

function section(title, ...children) {
  const kept = children.flat(Infinity).filter(Boolean);
  return kept.length ? el('section', {}, el('h2', {}, title), kept) : null;
}

const facts = (...pairs) => el('dl', { class: 'facts' },
  pairs.filter(([, value]) => value).map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));

/** Characters of a text that are shown at once. */
const AT_ONCE = 3000;

/** What somebody said; the rest of a long text when it is asked for. */
function said(who, text) {
  // What a person typed stands as it was typed.
  const shown = (part) => who === 'agent' ? markdown(part) : el('div', {}, part);
  const made = el('div', { class: `said ${who}` }, shown(text.length > AT_ONCE * 1.5 ? `${text.slice(0, AT_ONCE)}…` : text));
  if (text.length > AT_ONCE * 1.5) {
    made.append(el('button', { type: 'button', class: 'more', click: () => made.replaceChildren(shown(text)) }, `Show all ${text.length.toLocaleString()} characters`));
  }
  return made;
}

const list = (entries, make) => entries?.length ? el('ul', {}, entries.map((entry) => el('li', {}, make(entry)))) : null;

const button = (id, text, click, kind) => el('button', { type: 'button', id, class: kind, click: () => Promise.resolve(click()).catch((error) => toast(error.message)) }, text);

/** A part that is made when it is opened: a session can have thousands of calls. */
function folded(kind, summary, make, open) {
  const made = el('details', { class: kind }, el('summary', {}, summary));
  const fill = () => { if (made.open && made.children.length === 1) made.append(...[make()].flat(Infinity).filter(Boolean)); };
  made.addEventListener('toggle', fill);
  made.open = Boolean(open);
  fill();
  return made;
}

const length = (ms) => ms === null || ms === undefined ? null : ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;

function call(activity, workspace) {
  const name = activity.tool_name || words(activity.kind);
  return folded(activity.failed ? 'call failed' : 'call',
    [el('b', {}, name), el('span', {}, gist(activity.input, workspace)), activity.failed ? el('em', {}, activity.refused_by ? `refused by the guard ${activity.refused_by}` : 'failed') : null,
      activity.subagent ? el('small', {}, 'subagent') : null, el('small', {}, length(activity.duration_ms))],
    () => body(activity, folded));
}

const observationLine = (observation) => el('a', { class: 'card', href: itemLink(observation.id) },
  badge(observation.type), el('span', { class: 'title' }, observation.title));

const MOMENTS = { start: 'At the start', prompt: 'With this prompt', file: 'With a file', subagent: 'To a subagent', compact: 'After a compaction', resume: 'When resumed', command: 'Before a command', failure: 'After a failed command' };

function injection(given) {
  const items = list(given.items, (item) => [item.id === null ? item.title : el('a', { href: itemLink(item.id) }, item.title),
    el('small', {}, item.reason)]);
  return folded('given', [el('b', {}, `${MOMENTS[given.moment] ?? words(given.moment)}: received ${counted(given.items.length, 'note')}`),
    el('small', {}, `${given.tokens} tokens`), given.file ? el('small', {}, given.file) : null], () => items, given.items.length < 6);
}

/** Injections by the prompt that they went with; those before the first prompt are of `-1`. */
function byPrompt(told) {
  const groups = new Map();
  for (const given of told.injections) {
    let at = told.batches.findLastIndex((batch) => batch.opened_at <= given.at);
    if (given.moment === 'start' && at <= 0) at = -1;
    groups.set(at, [...(groups.get(at) ?? []), given]);
  }
  return groups;
}

function batch(entry, kept, given, workspace) {
  const calls = entry.activities;
  const failed = calls.filter((activity) => activity.failed).length;
  return el('section', { class: 'batch' },
    el('h2', {}, `Prompt ${entry.prompt_number}`, el('small', {}, [entry.source === 'user' ? null : words(entry.source), moment(entry.opened_at)])),
    said('user', entry.prompt ?? 'Not kept'),
    given.map(injection),
    calls.length ? folded('calls', [counted(calls.length, 'call'), failed ? el('em', {}, `${failed} failed`) : null], () => calls.map((activity) => call(activity, workspace)), calls.length < 8) : null,
    entry.response ? said('agent', entry.response) : null,
    kept.length ? el('div', { class: 'kept' }, el('h3', {}, 'Kept of it'), kept.map(observationLine)) : null);
}

const PARTS = ['request', 'investigated', 'learned', 'completed', 'next_steps', 'notes'];

const parts = (summary) => el('dl', { class: 'summary' }, PARTS.filter((name) => summary[name])
  .map((name) => [el('dt', {}, words(name)), el('dd', {}, markdown(summary[name]))]));

export async function session(id, signal) {
  const told = await get(`/api/sessions/${part(id)}`, {}, signal);
  const given = byPrompt(told);
  const kept = (entry) => told.observations.filter((observation) => observation.prompt_number === entry.prompt_number);
  const calls = told.batches.reduce((all, entry) => all + entry.activities.length, 0);
  return el('div', {}, el('p', { class: 'above' }, 'Session'),
    el('h1', {}, told.title ?? `Session ${told.session_id.slice(0, 8)}`),
    facts(['Project', el('a', { href: projectLink(told.project) }, told.project)], ['Agent', words(told.agent)], ['State', words(told.status)],
      ['Began', moment(told.started_at)], ['Ended', moment(told.ended_at)],
      ['Did', `${counted(told.batches.length, 'prompt')}, ${counted(calls, 'call')}`], ['Id', el('code', {}, told.session_id)]),
    el('div', { class: 'actions' }, button(null, 'Forget…', () => forget({ session: told.session_id }, 'this session'), 'danger')),
    told.summary ? section('Summary', parts(told.summary)) : null,
    (given.get(-1) ?? []).map(injection),
    told.batches.map((entry, at) => batch(entry, kept(entry), given.get(at) ?? [], told.workspace)),
    section('Plans', list(told.plans, (plan) => el('a', { href: itemLink(plan.id) }, plan.title))),
    section('Subagents', list(told.subagents, (agent) => [el('b', {}, agent.agent_type ?? agent.agent_id), paragraphs(agent.response)])));
}

async function evidence(observation, signal) {
  if (!observation.session_id || !observation.evidence.length) return null;
  const told = await get(`/api/sessions/${part(observation.session_id)}`, {}, signal).catch(() => null);
  if (!told) return null;
  const named = new Set(observation.evidence);
  const shown = told.batches.flatMap((entry) => [
    named.has(entry.prompt_event_id) && entry.prompt ? said('user', entry.prompt) : null,
    ...entry.activities.filter((activity) => named.has(activity.event_id)).map((activity) => call(activity, told.workspace)),
    named.has(entry.response_event_id) && entry.response ? said('agent', entry.response) : null,
  ]).filter(Boolean);
  return section('Evidence', shown);
}

/** What was said about a subject, the newest first. */
function history(statements, here) {
  return el('ol', { class: 'history' }, statements.map((statement, at) => el('li', { class: statement.status === 'active' ? 'holds' : null },
    el('p', { class: 'above' }, badge(statement.type), statement.status === 'active' ? el('span', { class: 'good' }, 'holds') : el('span', { class: 'status' }, statement.status),
      moment(statement.created_at), statement.session_id ? el('a', { href: sessionLink(statement.session_id) }, `Session ${statement.session_id.slice(0, 8)}`) : null),
    statement.id === here ? el('b', {}, statement.title) : el('a', { class: 'title', href: itemLink(statement.id) }, statement.title),
    here === null && statement.narrative ? paragraphs(statement.narrative) : null,
    statement.reason ? el('p', { class: 'why' }, statement.reason === 'manually' ? 'You resolved it.' : statement.reason === 'rejected' ? 'It was rejected in a review.' : `No longer true: ${statement.reason}.`) : null)));
}

export async function thread(id, signal) {
  const { threads } = await get('/api/threads', { of: id }, signal);
  if (!threads.length) return el('p', {}, 'This subject no longer has a history.');
  const { statements } = threads[0];
  return el('div', {}, el('p', { class: 'above' }, `Thread · ${counted(statements.length, 'statement')}`), el('h1', {}, statements[0].title),
    facts(['Project', el('a', { href: projectLink(statements[0].project) }, statements[0].project)], ['Since', moment(statements.at(-1).created_at)],
      ['Last said', moment(statements[0].created_at)]),
    history(statements, null));
}

export async function project(name, choose, signal) {
  const of = { project: name, limit: 8 };
  const [{ projects }, told, steps, decisions] = await Promise.all([get('/api/projects', {}, signal), get('/api/sessions', of, signal),
    get('/api/search/by-type', { ...of, type: 'next_step' }, signal), get('/api/search/by-type', { ...of, type: 'decision' }, signal)]);
  const mine = projects.filter((one) => one.name === name);
  const sum = (field) => mine.reduce((all, one) => all + one[field], 0);
  const holding = (answer) => answer.results.filter((result) => result.status === 'active').map(observationLine);
  return el('div', {}, el('p', { class: 'above' }, 'Project'), el('h1', {}, name),
    facts(['Sessions', String(sum('sessions'))], ['Observations', String(sum('observations'))], ['Last', moment(mine[0]?.last_at)],
      ['Known as', el('code', {}, mine.map((one) => one.project_id).join(', '))]),
    el('div', { class: 'actions' }, button(null, 'Show only this project', () => choose(name))),
    section('Next steps', holding(steps)), section('Decisions', holding(decisions)),
    section('Latest sessions', told.sessions.map((one) => el('a', { class: 'card', href: sessionLink(one.session_id) },
      el('span', { class: 'title' }, one.title ?? `Session ${one.session_id.slice(0, 8)}`), el('small', {}, moment(one.started_at))))));
}

/** Beside a list, when nothing is chosen: what is open, and what is pinned or was decided last. */
export async function overview(name, signal) {
  const of = { project: name, limit: 6 };
  const [told, steps, decisions] = await Promise.all([get('/api/sessions', of, signal),
    get('/api/search/by-type', { ...of, type: 'next_step' }, signal), get('/api/search/by-type', { ...of, type: 'decision' }, signal)]);
  if (!told.sessions.length && !steps.results.length) return el('p', { class: 'hint' }, el('kbd', {}, '?'), ' shows the keys.');
  const holding = (answer) => answer.results.filter((result) => result.status === 'active').map(observationLine);
  return el('div', { class: 'overview' }, el('p', { class: 'above' }, name ? 'Project' : 'All projects'), el('h1', {}, name || 'At a glance'),
    section('Open next steps', holding(steps)), section('Decided', holding(decisions)),
    section('Latest sessions', told.sessions.map((one) => el('a', { class: 'card', href: sessionLink(one.session_id) },
      el('span', { class: 'title' }, one.title ?? `Session ${one.session_id.slice(0, 8)}`), el('small', {}, [one.project, ' · ', moment(one.started_at)])))),
    el('p', { class: 'quiet' }, el('kbd', {}, 'j'), ' ', el('kbd', {}, 'k'), ' move, ', el('kbd', {}, 'Enter'), ' opens, ', el('kbd', {}, '?'), ' shows all keys.'));
}

export async function item(id, reload, signal) {
  const answer = await get(`/api/items/${part(id)}`, {}, signal);
  const told = answer.items[0];
  if (!told) return el('p', {}, 'This item no longer exists.');
  const isObservation = told.importance !== undefined;
  const [why, { threads }] = await Promise.all([get(`/api/why/${part(id)}`, {}, signal).catch(() => ({})),
    isObservation && told.lineage?.length ? get('/api/threads', { of: id }, signal).catch(() => ({ threads: [] })) : { threads: [] }]);
  const given = section('Given to', list(why.given, (entry) => [
    el('a', { href: sessionLink(entry.session_id) }, `Session ${entry.session_id.slice(0, 8)}`), ' ', moment(entry.at), el('small', {}, entry.reason)]));
  const from = told.session_id ? el('a', { href: sessionLink(told.session_id) }, `Session ${told.session_id.slice(0, 8)}`) : null;
  const by = ['By', told.author ? `${told.author}, ${told.device}` : null];
  if (!isObservation) {
    return el('div', {}, el('p', { class: 'above' }, badge(told.kind ?? 'summary')), el('h1', {}, told.title),
      facts(['Project', told.project ? el('a', { href: projectLink(told.project) }, told.project) : null], ['From', from], by, ['When', moment(told.created_at)], ['Branch', told.branch]),
      el('div', { class: 'actions' }, forgetButton(id)),
      told.text === undefined ? parts(told) : WRITTEN.includes(told.kind) ? paragraphs(told.text) : plain(told.text), given);
  }
  const resolved = told.status !== 'active';
  const files = [...told.files_modified, ...told.files_read.filter((file) => !told.files_modified.includes(file))];
  return el('div', {}, el('p', { class: 'above' }, badge(told.type), `#${told.id}`, resolved ? el('span', { class: 'status' }, told.rejected ? 'rejected' : told.status) : null, told.pinned ? el('span', { class: 'status' }, 'pinned') : null,
    told.reviewed ? null : el('span', { class: 'status' }, 'not reviewed')),
    el('h1', {}, told.title), told.subtitle ? el('p', { class: 'subtitle' }, told.subtitle) : null,
    el('div', { class: 'actions' }, told.reviewed && !told.rejected ? null : button('keep', 'Keep', () => keep(told, reload)), told.rejected ? null : button('reject', 'Reject', () => reject(told, reload)),
      button('mark', resolved ? 'Reopen' : 'Resolve', () => mark(told, reload)), button('pin', told.pinned ? 'Unpin' : 'Pin', () => pin(told, reload)),
      button('edit', 'Edit…', () => edit(told, reload)), button('wrong', 'Wrongly injected', () => wrong(told)), forgetButton(told.id)),
    told.narrative ? paragraphs(told.narrative) : null,
    list(told.facts, (fact) => inline(fact)),
    facts(['From', from], by, ['When', moment(told.created_at)], ['Last changed by', changedBy(told, reload)], ['Kept by', told.origin === 'extractive' ? 'the built-in rules' : told.origin === 'user' ? 'you' : told.origin === 'agent' ? 'an agent' : told.origin], ['Said by', saidBy(told.said_by)],
      ['Importance', `${told.importance} of 10`], ['Branch', told.branch], ['Concepts', told.concepts.join(', ')]),
    threads.length ? section('History of this subject', history(threads[0].statements, told.id))
      : section('History of this subject', list(told.lineage, (step) => [step.title ? el('a', { href: itemLink(step.id) }, step.title) : words(step.relation), el('small', {}, step.reason)])),
    section('Files', list(files, (file) => el('a', { href: `#/search/${encodeURIComponent(`file:"${file.replaceAll('"', '')}"`)}` }, el('code', {}, file)))),
    await evidence(told, signal), given);
}

/** Who changed it last on another machine, and how to take that back. */
function changedBy({ id, changed_elsewhere: change }, reload) {
  if (!change) return null;
  const undo = async () => { await post('/api/undo', { id }); toast('Undone, for everybody.'); reload({ id }); };
  return [`${change.author}, ${change.device} (${words(change.change)}), `, moment(change.at), ' ', button('undo-theirs', 'Undo', undo)];
}

/** Whose words a wish or a correction is. */
function saidBy(said) {
  if (!said) return null;
  if (said.who === 'member') return 'another person who shares the project';
  if (said.who === 'agent') return ['an agent, ', moment(said.at)];
  if (said.who !== 'you') return 'an imported file, which anybody may have written';
  return ['you, ', moment(said.at), said.prompt ? [' in ', el('a', { href: itemLink(said.prompt) }, said.prompt)] : null];
}

async function mark(told, reload) {
  const resolved = told.status !== 'active';
  await post('/api/mark', { ids: [told.id], validity: resolved ? 'active' : 'resolved' });
  changed(resolved ? 'Active again.' : 'Resolved: searches still find it, sessions no longer receive it.', () => reload(told));
}

async function pin(told, reload) {
  await post('/api/pin', { ids: [told.id], pin: told.pinned ? 'off' : 'on' });
  changed(told.pinned ? 'Unpinned.' : 'Pinned: each session receives it first.', () => reload(told));
}

async function keep(told, reload) {
  await post('/api/review', { ids: [told.id], verdict: 'kept' });
  changed(told.rejected ? 'Active again.' : 'Kept: marked as reviewed.', () => reload(told));
}

async function reject(told, reload) {
  await post('/api/review', { ids: [told.id], verdict: 'rejected' });
  changed('Rejected: sessions no longer receive it.', () => reload(told));
}

async function wrong(told) {
  const { items: [item] } = await post('/api/wrong', { ids: [told.id] });
  toast(`No longer injected at ${item.told.moment}.`);
  again();
}

/** Does by a key what the buttons of a detail do. A thread stands for its newest statement. */
export async function act(name, kind, id, reload) {
  if (name === 'forget') {
    await forget(kind === 'session' ? { session: id } : { ids: [id] }, kind === 'session' ? 'this session' : 'this');
    return;
  }
  if (kind === 'session') return;
  const { items: [told] } = await get(`/api/items/${part(id)}`);
  // Only an observation is marked, pinned and edited.
  if (told?.importance !== undefined) await { keep, reject, mark, pin, edit, wrong }[name](told, reload);
}

/** Reads what is shown again. */
const again = () => document.dispatchEvent(new Event('changed'));

/** Says what was done, and offers to take it back. */
function changed(text, reload) {
  reload();
  const undo = async () => { await post('/api/undo', {}); toast('Undone.'); again(); };
  toast(text, button('undo', 'Undo', undo));
}

function edit(told, reload) {
  const dialog = byId('dialog');
  const field = (label, input) => el('label', { class: 'field' }, el('span', {}, label), input);
  const area = (lines, rows) => { const made = el('textarea', { rows }); made.value = lines; return made; };
  const type = el('select', {}, TYPES.map((name) => el('option', { value: name, selected: name === told.type }, words(name))));
  const title = el('input', { type: 'text', required: true });
  title.value = told.title;
  const narrative = area(told.narrative, 6);
  const facts = area(told.facts.join('\n'), 3);
  const files = area([...new Set([...told.files_modified, ...told.files_read])].join('\n'), 2);
  const lines = (input) => input.value.split('\n').map((line) => line.trim()).filter(Boolean);
  const save = async (event) => {
    event.preventDefault();
    await post('/api/edit', { id: told.id, type: type.value, title: title.value, narrative: narrative.value, facts: lines(facts), files: lines(files) });
    dialog.close();
    changed('Saved.', () => reload(told));
  };
  dialog.replaceChildren(el('h2', {}, `Edit #${told.id}`),
    el('form', { submit: (event) => save(event).catch((error) => toast(error.message)) }, field('Type', type), field('Title', title), field('Text', narrative),
      field('Facts, one per line', facts), field('Files, one per line', files),
      el('div', { class: 'actions' }, el('button', { type: 'button', click: () => dialog.close() }, 'Cancel'), el('button', { type: 'submit', id: 'save' }, 'Save'))));
  dialog.showModal();
}

const forgetButton = (id) => button('forget', 'Forget…', () => forget({ ids: [id] }, 'this'), 'danger');

/** Says what would go, and asks. What goes is gone for good: it waits a moment for an undo. */
async function forget(what, name) {
  const seen = await post('/api/forget', what);
  const dialog = byId('dialog');
  const close = () => dialog.close();
  const counts = Object.entries(seen).filter(([, value]) => typeof value === 'number' && value > 0);
  const gone = () => { toast('Forgotten, in backups too.'); again(); };
  const confirm = () => {
    close();
    // What goes is no longer shown.
    if (location.hash.endsWith(`/${part(what.session ?? what.ids[0])}`)) location.hash = '#/';
    later('Forgetting', (options) => post('/api/forget', { ...what, step: 'forget' }, options), gone);
  };
  dialog.replaceChildren(el('h2', {}, `Forget ${name} permanently?`),
    list(counts, ([key, value]) => `${value.toLocaleString()} ${value === 1 ? words(key).replace(/ies$/, 'y').replace(/s$/, '') : words(key)}`) ?? el('p', {}, 'Nothing else is deleted with it.'),
    list((seen.items ?? []).slice(0, 8), (entry) => entry.title),
    el('p', { class: 'quiet' }, 'recall deletes it everywhere, also from backups, and never stores it again. You have eight seconds to undo this.'),
    el('div', { class: 'actions' }, el('button', { type: 'button', autofocus: true, 'data-key': 'n', click: close }, 'Keep it'),
      el('button', { type: 'button', class: 'danger', 'data-key': 'y', click: confirm }, 'Forget')));
  dialog.showModal();
}
