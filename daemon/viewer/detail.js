// One session, or one item with what it rests on.
import { get, part, post } from './api.js';
import { badge, byId, el, moment, toast, words } from './dom.js';
import { itemLink, sessionLink } from './views.js';

const paragraphs = (text) => el('div', { class: 'prose' }, String(text ?? ''));

function section(title, ...children) {
  const kept = children.flat(Infinity).filter(Boolean);
  return kept.length ? el('section', {}, el('h2', {}, title), kept) : null;
}

const facts = (...pairs) => el('dl', { class: 'facts' },
  pairs.filter(([, value]) => value).map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));

const list = (entries, make) => entries?.length ? el('ul', {}, entries.map((entry) => el('li', {}, make(entry)))) : null;

function json(value) {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

/** What a call was about, in a few words. */
function gist(input) {
  if (!input || typeof input !== 'object') return typeof input === 'string' ? input.slice(0, 120) : '';
  const named = ['file_path', 'path', 'command', 'pattern', 'query', 'url', 'description'].map((name) => input[name]);
  return String(named.find((value) => typeof value === 'string') ?? '').slice(0, 160);
}

function call(activity) {
  const name = activity.tool_name || words(activity.kind);
  return el('details', { class: activity.failed ? 'call failed' : 'call' },
    el('summary', {}, el('b', {}, name), el('span', {}, gist(activity.input)),
      activity.failed ? el('em', {}, 'failed') : null, activity.subagent ? el('em', {}, 'subagent') : null),
    activity.input !== null ? el('pre', {}, json(activity.input)) : null,
    activity.response !== null ? el('pre', {}, json(activity.response)) : null);
}

const observationLine = (observation) => el('a', { class: 'card', href: itemLink(observation.id) },
  badge(observation.type), el('span', { class: 'title' }, observation.title));

function injection(given) {
  return el('div', { class: 'given' },
    el('p', {}, el('b', {}, words(given.moment)), ` · ${given.tokens} tokens · `, moment(given.at), given.file ? ` · ${given.file}` : ''),
    list(given.items, (item) => [item.id === null ? item.title : el('a', { href: itemLink(item.id) }, item.title),
      el('small', {}, item.reason)]));
}

function batch(entry, session) {
  const kept = session.observations.filter((observation) => observation.prompt_number === entry.prompt_number);
  return el('section', { class: 'batch' },
    el('h2', {}, `Prompt ${entry.prompt_number}`, entry.source !== 'user' ? el('small', {}, ` ${words(entry.source)}`) : null),
    el('div', { class: 'said user' }, entry.prompt ?? 'Not kept'),
    entry.activities.length ? el('details', { class: 'calls', open: entry.activities.length < 6 },
      el('summary', {}, `${entry.activities.length} calls`), entry.activities.map(call)) : null,
    entry.response ? el('div', { class: 'said agent' }, entry.response) : null,
    kept.length ? el('div', { class: 'kept' }, el('h3', {}, 'Kept of it'), kept.map(observationLine)) : null);
}

export async function session(id, signal) {
  const told = await get(`/api/sessions/${part(id)}`, {}, signal);
  const summary = told.summary;
  const parts = ['request', 'investigated', 'learned', 'completed', 'next_steps', 'notes'];
  return el('div', {}, el('p', { class: 'above' }, 'Session'),
    el('h1', {}, told.title ?? `Session ${told.session_id.slice(0, 8)}`),
    facts(['Project', told.project], ['Agent', words(told.agent)], ['State', words(told.status)],
      ['Began', moment(told.started_at)], ['Ended', moment(told.ended_at)], ['Id', el('code', {}, told.session_id)]),
    el('div', { class: 'actions' }, el('button', { type: 'button', class: 'danger', click: () => forget({ session: told.session_id }, 'this session') }, 'Forget…')),
    summary ? section('Summary', el('dl', { class: 'summary' }, parts.filter((name) => summary[name])
      .map((name) => [el('dt', {}, words(name)), el('dd', {}, summary[name])]))) : null,
    section('What it was given', told.injections.map(injection)),
    told.batches.map((entry) => batch(entry, told)),
    section('Plans', list(told.plans, (plan) => el('a', { href: itemLink(plan.id) }, plan.title))),
    section('Subagents', list(told.subagents, (agent) => [el('b', {}, agent.agent_type ?? agent.agent_id), paragraphs(agent.response)])));
}

async function evidence(observation, signal) {
  if (!observation.session_id || !observation.evidence.length) return null;
  const told = await get(`/api/sessions/${part(observation.session_id)}`, {}, signal).catch(() => null);
  if (!told) return null;
  const named = new Set(observation.evidence);
  const shown = told.batches.flatMap((entry) => [
    named.has(entry.prompt_event_id) && entry.prompt ? el('div', { class: 'said user' }, entry.prompt) : null,
    ...entry.activities.filter((activity) => named.has(activity.event_id)).map(call),
    named.has(entry.response_event_id) && entry.response ? el('div', { class: 'said agent' }, entry.response) : null,
  ]).filter(Boolean);
  return section('Evidence', shown);
}

export async function item(id, reload, signal) {
  const answer = await get(`/api/items/${part(id)}`, {}, signal);
  const told = answer.items[0];
  if (!told) return el('p', {}, 'It is not there any more.');
  const isObservation = told.importance !== undefined;
  const why = await get(`/api/why/${part(id)}`, {}, signal).catch(() => ({}));
  const given = section('Given to', list(why.given, (entry) => [
    el('a', { href: sessionLink(entry.session_id) }, `Session ${entry.session_id.slice(0, 8)}`), ' ', moment(entry.at), el('small', {}, entry.reason)]));
  const from = told.session_id ? el('a', { href: sessionLink(told.session_id) }, `Session ${told.session_id.slice(0, 8)}`) : null;
  if (!isObservation) {
    const parts = ['request', 'investigated', 'learned', 'completed', 'next_steps', 'notes'].filter((name) => told[name]);
    return el('div', {}, el('p', { class: 'above' }, words(told.kind ?? 'summary')), el('h1', {}, told.title),
      facts(['Project', told.project], ['From', from], ['When', moment(told.created_at)], ['Branch', told.branch]),
      el('div', { class: 'actions' }, forgetButton(id)),
      told.text !== undefined ? paragraphs(told.text) : el('dl', { class: 'summary' }, parts.map((name) => [el('dt', {}, words(name)), el('dd', {}, told[name])])), given);
  }
  const resolved = told.status !== 'active';
  const mark = async () => {
    await post('/api/mark', { ids: [told.id], validity: resolved ? 'active' : 'resolved' });
    changed(resolved ? 'It holds again.' : 'Resolved: it is still found, and not given any more.', reload);
  };
  const pin = async () => {
    await post('/api/pin', { ids: [told.id], pin: told.pinned ? 'off' : 'on' });
    changed(told.pinned ? 'It stands in line again.' : 'Pinned: it stands first when a session starts.', reload);
  };
  const files = [...told.files_modified, ...told.files_read.filter((file) => !told.files_modified.includes(file))];
  return el('div', {}, el('p', { class: 'above' }, badge(told.type), ` #${told.id}`, resolved ? el('span', { class: 'status' }, told.status) : null, told.pinned ? el('span', { class: 'status' }, 'pinned') : null),
    el('h1', {}, told.title), told.subtitle ? el('p', { class: 'subtitle' }, told.subtitle) : null,
    el('div', { class: 'actions' },
      el('button', { type: 'button', id: 'mark', click: () => mark().catch((error) => toast(error.message)) }, resolved ? 'Reopen' : 'Resolve'),
      el('button', { type: 'button', id: 'pin', click: () => pin().catch((error) => toast(error.message)) }, told.pinned ? 'Unpin' : 'Pin'),
      el('button', { type: 'button', id: 'edit', click: () => edit(told, reload) }, 'Edit…'), forgetButton(told.id)),
    told.narrative ? paragraphs(told.narrative) : null,
    list(told.facts, (fact) => fact),
    facts(['From', from], ['When', moment(told.created_at)], ['By', words(told.origin)], ['Importance', `${told.importance} of 10`],
      ['Branch', told.branch], ['Concepts', told.concepts.join(', ')]),
    section('History of this subject', list(told.lineage, (step) => [el('a', { href: itemLink(step.id) }, step.title ?? `#${step.id}`),
      el('small', {}, [step.relation, step.how, step.reason].filter(Boolean).map(words).join(' · '))])),
    section('Files', list(files, (file) => el('a', { href: `#/search/${encodeURIComponent(`file:"${file.replaceAll('"', '')}"`)}` }, el('code', {}, file)))),
    await evidence(told, signal), given);
}

/** Says what was done, and offers to take it back. */
function changed(text, reload) {
  reload();
  const undo = async () => { await post('/api/undo', {}); toast('Taken back.'); reload(); };
  toast(text, el('button', { type: 'button', id: 'undo', click: () => undo().catch((error) => toast(error.message)) }, 'Undo'));
}

const TYPES = ['bugfix', 'feature', 'refactor', 'change', 'discovery', 'decision', 'gotcha', 'trade_off', 'security', 'preference',
  'correction', 'next_step', 'contact'];

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
    changed('Saved.', reload);
  };
  dialog.replaceChildren(el('h2', {}, `Edit #${told.id}`),
    el('form', { submit: (event) => save(event).catch((error) => toast(error.message)) }, field('Type', type), field('Title', title), field('Text', narrative),
      field('Facts, one a line', facts), field('Files, one a line', files),
      el('div', { class: 'actions' }, el('button', { type: 'button', click: () => dialog.close() }, 'Cancel'), el('button', { type: 'submit', id: 'save' }, 'Save'))));
  dialog.showModal();
}

const forgetButton = (id) => el('button', { type: 'button', class: 'danger', click: () => forget({ ids: [id] }, 'this') }, 'Forget…');

/** Says what would go, and asks. */
async function forget(what, name) {
  try {
    const seen = await post('/api/forget', what);
    const dialog = byId('dialog');
    const close = () => dialog.close();
    const counts = Object.entries(seen).filter(([, value]) => typeof value === 'number' && value > 0);
    const confirm = async () => {
      close();
      await post('/api/forget', { ...what, step: 'forget' });
      toast('Forgotten, in backups too.');
      location.hash = '#/';
      document.dispatchEvent(new Event('changed'));
    };
    dialog.replaceChildren(el('h2', {}, `Forget ${name} for good?`),
      list(counts, ([key, value]) => `${value} ${words(key)}`) ?? el('p', {}, 'Nothing else goes with it.'),
      list((seen.items ?? []).slice(0, 8), (entry) => entry.title),
      el('p', { class: 'quiet' }, 'It is removed everywhere, backups included, and not stored again.'),
      el('div', { class: 'actions' }, el('button', { type: 'button', autofocus: true, click: close }, 'Keep it'),
        el('button', { type: 'button', class: 'danger', click: () => confirm().catch((error) => toast(error.message)) }, 'Forget')));
    dialog.showModal();
  } catch (error) {
    toast(error.message);
  }
}
