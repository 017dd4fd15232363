// The page: which view is shown, and when it is read again.
import { follow, get, open, post } from './api.js';
import { byId, el, toast, waiting } from './dom.js';
import { chosen, controls } from './filters.js';
import { List } from './list.js';
import * as views from './views.js';
import * as detail from './detail.js';

const LABELS = { timeline: 'Timeline', sessions: 'Sessions', threads: 'Threads', projects: 'Projects', numbers: 'Numbers', review: 'Review', sharing: 'Sharing', friction: 'Friction', search: 'Results' };
const [listPlace, detailPlace, filters, query, project] = ['list', 'detail', 'filters', 'query', 'project'].map(byId);
const state = { view: 'timeline', text: '', list: null, listing: null, reading: null, days: 30 };

/** The address after `#/`: a view with its words, or a detail beside the last view. */
function address() {
  const [, name = '', ...rest] = location.hash.split('/');
  return { name, text: decodeURIComponent(rest.join('/')) };
}

/** The sections of a list; null: the view is shown already. */
async function read(signal) {
  const of = { ...chosen, project: project.value };
  if (state.view === 'numbers') {
    const made = await views.numbers(of, signal, state.days, (days) => { state.days = days; showList(); });
    if (signal.aborted) return null;
    state.list = null;
    listPlace.replaceChildren(made);
    return null;
  }
  if (state.view === 'sharing' || state.view === 'friction') {
    const made = await views[state.view](of, signal, state.days, (days) => { state.days = days; showList(); });
    if (signal.aborted) return null;
    state.list = null;
    listPlace.replaceChildren(made);
    return null;
  }
  if (state.view === 'search') return views.search(state.text, of, signal);
  return views[state.view](of, signal, state.list?.view === state.view ? state.list.sections : null);
}

/** Whether nothing narrows what is shown. */
const isWhole = () => !project.value && !(state.view === 'timeline' && chosen.type);

async function nothing(signal) {
  if (state.view === 'review') return el('p', { class: 'quiet pad' }, 'Nothing waits for a review.');
  // Kinds that are not shown may be there.
  const { projects } = isWhole() ? await get('/api/projects', {}, signal) : { projects: [project.value] };
  return projects.length ? el('p', { class: 'quiet pad' }, 'Nothing here. Another filter may show more.') : views.empty();
}

async function showList() {
  state.listing?.abort();
  const { signal } = state.listing = new AbortController();
  for (const link of document.querySelectorAll('nav a')) {
    if (link.dataset.view === state.view) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
  }
  document.body.classList.toggle('wide', ['numbers', 'sharing', 'friction'].includes(state.view));
  if (!filters.contains(document.activeElement) || filters.dataset.view !== state.view) showFilters();
  try {
    const sections = await read(signal);
    if (!sections || signal.aborted) return;
    if (!sections.length) {
      const made = await nothing(signal);
      if (signal.aborted) return;
      state.list = null;
      listPlace.replaceChildren(made);
      return;
    }
    if (state.list?.view !== state.view) {
      state.list = new List(listPlace, LABELS[state.view], (error) => refused(error, listPlace));
      state.list.view = state.view;
      listPlace.scrollTop = 0;
    }
    state.list.show(sections);
  } catch (error) {
    if (error.name !== 'AbortError') refused(error, listPlace);
  }
}

function showFilters() {
  const focused = filters.contains(document.activeElement) ? document.activeElement.dataset : {};
  const made = controls(state.view, () => { listPlace.scrollTop = 0; showFilters(); showList(); });
  filters.replaceChildren(...made);
  filters.dataset.view = state.view;
  filters.hidden = !made.length;
  made.find((one) => (focused.kind && one.dataset.kind === focused.kind) || (focused.filter && one.dataset.filter === focused.filter))?.focus();
}

function choose(name) {
  project.value = name;
  sessionStorage.setItem('project', name);
  location.hash = '#/';
  showList();
}

/** What the address names beside the list; null: nothing. */
function opened(name, text, signal) {
  switch (name) {
    case 'item': return detail.item(text, after(location.hash), signal);
    case 'session': return detail.session(text, signal);
    case 'thread': return detail.thread(text, signal);
    case 'project': return detail.project(text, choose, signal);
    default: return null;
  }
}

/** The parts that can be opened and are not inside a closed one, in the order of the page. */
const inSight = (place) => [...place.querySelectorAll('details')].filter((part) => !part.parentElement.closest('details:not([open])'));

/** Opens and closes the parts in sight as `open` says. An opened part is filled before the next one: parts inside it count too. */
function reopen(place, open) {
  let parts = inSight(place);
  open.forEach((wanted, at) => {
    const part = parts[at];
    if (!part || part.open === wanted) return;
    part.open = wanted;
    // The browser sends its own event later, when the part is already filled.
    part.dispatchEvent(new Event('toggle'));
    parts = inSight(place);
  });
}

async function showDetail() {
  state.reading?.abort();
  const { signal } = state.reading = new AbortController();
  const { name, text } = address();
  const reading = opened(name, text, signal);
  document.body.classList.toggle('opened', Boolean(reading));
  state.list?.current();
  const back = el('button', { type: 'button', class: 'back', click: goBack }, '← Back');
  try {
    const made = await (reading ?? detail.overview(project.value, signal));
    if (signal.aborted) return;
    const same = detailPlace.dataset.shown === location.hash;
    // What was opened by hand stays open when the same is read again.
    const open = same ? inSight(detailPlace).map((part) => part.open) : [];
    const scrolled = detailPlace.scrollTop;
    detailPlace.dataset.shown = location.hash;
    detailPlace.replaceChildren(...(reading ? [back] : []), made);
    reopen(detailPlace, open);
    detailPlace.scrollTop = same ? scrolled : 0;
    document.title = reading ? `${made.querySelector('h1')?.textContent ?? 'recall'} · recall` : 'recall';
  } catch (error) {
    if (error.name === 'AbortError') return;
    if (reading) refused(error, detailPlace, back); else detailPlace.replaceChildren();
  }
}

function refused(error, place, ...before) {
  place.replaceChildren(...before, error.status === 401 ? locked() : el('div', { class: 'empty' },
    el('h1', {}, 'This failed'), el('p', {}, error.message), el('p', { class: 'quiet' }, error.hint ?? '')));
  if (place === listPlace) state.list = null;
}

/** Why nothing is shown, and how to get in. */
function locked() {
  const code = el('input', { type: 'password', id: 'code', autocomplete: 'off', required: true });
  const submit = (event) => {
    event.preventDefault();
    // A whole link will do.
    enter(code.value.trim().split('/open/').pop());
  };
  return el('div', { class: 'empty' }, el('h1', {}, 'This page is locked'),
    el('p', {}, state.refusal ?? 'A link opens one page. The daemon may also have started again since.'),
    el('p', {}, 'Run ', el('code', {}, 'recall ui --web'), ' for a new one, or enter the code that it prints.'),
    el('form', { class: 'actions', submit }, el('label', { class: 'hidden', for: 'code' }, 'Code'), code, el('button', { type: 'submit' }, 'Open')));
}

/** Lets this page in, and shows the project that the link names. */
async function enter(text) {
  const [key, name] = text.split('/');
  try {
    await open(key);
    sessionStorage.setItem('project', decodeURIComponent(name ?? ''));
    state.refusal = null;
  } catch (error) {
    state.refusal = `${error.message}.`;
    toast(state.refusal);
  }
  await begin();
}

function route() {
  const { name, text } = address();
  if (name === 'open') {
    // The key works once, and has no place in the browser's history.
    const key = location.hash.slice('#/open/'.length);
    history.replaceState(null, '', '#/');
    enter(key);
    return;
  }
  const view = { '': 'timeline', sessions: 'sessions', threads: 'threads', projects: 'projects', numbers: 'numbers', review: 'review', sharing: 'sharing', friction: 'friction', search: 'search' }[name];
  const changed = view && (view !== state.view || text !== state.text);
  if (changed || !state.shown) {
    state.view = view ?? state.view;
    state.text = view === 'search' ? text : '';
    if (document.activeElement !== query) query.value = state.text;
    state.shown = true;
    showList();
  }
  showDetail();
}

const viewHash = () => state.view === 'search' ? `#/search/${encodeURIComponent(state.text)}` : state.view === 'timeline' ? '#/' : `#/${state.view}`;
function goBack() { location.hash = viewHash(); }
function refresh() { showList(); showDetail(); }

/** What follows a change of an item: in a review the next one is shown in the place of what has left it. */
const after = (href) => (told) => {
  if (state.view !== 'review' || told.reviewed || location.hash !== href) { refresh(); return; }
  location.hash = state.list?.beside(href) ?? viewHash();
  showList();
};

async function readProjects() {
  const { projects } = await get('/api/projects');
  const chosen = sessionStorage.getItem('project') ?? '';
  const names = [...new Set(projects.map((one) => one.name))].sort();
  project.replaceChildren(el('option', { value: '' }, 'All projects'), ...names.map((name) => el('option', { value: name }, name)));
  project.value = names.includes(chosen) ? chosen : '';
}

/** Another project than before is shown. */
function remember() {
  sessionStorage.setItem('project', project.value);
  refresh();
}

/** Shows everything anew: this page was let in, or is locked. */
async function begin() {
  try {
    await readProjects();
    if (!state.connected) { state.connected = true; connect(); }
  } catch (error) {
    if (error.status !== 401) toast(error.message);
  }
  state.shown = false;
  route();
}

function connect() {
  let waiting = null;
  const told = (name) => {
    if (name === 'locked') { state.connected = false; refresh(); return; }
    if (name === 'session_started' || name === 'memory_changed' || name === 'lagged') readProjects().catch(() => {});
    // Many events come at once, and each reads everything in sight.
    waiting ??= setTimeout(() => { waiting = null; refresh(); }, 300);
  };
  follow(told, (open) => {
    const place = byId('live');
    place.classList.toggle('on', open);
    place.title = open ? 'Live' : 'Not connected';
    place.lastElementChild.textContent = place.title;
  });
}

const KEYS = [['/', 'search'], ['j k', 'next and previous entry'], ['Enter', 'open'], ['Esc', 'back'], ['y', 'keep: mark as reviewed'], ['x', 'reject'], ['r', 'resolve or reopen'], ['p', 'pin or unpin'], ['w', 'wrongly injected: not on that occasion again'], ['e', 'edit'], ['f', 'forget; y confirms'], ['u', 'undo'],
  ['1 2 3 4 5 6 7 8', 'timeline, sessions, threads, projects, numbers, review, sharing, friction'], ['t', 'light or dark'], ['?', 'these keys']];

function help() {
  const dialog = byId('dialog');
  dialog.replaceChildren(el('h2', {}, 'Keys'),
    el('dl', { class: 'keys' }, KEYS.map(([key, what]) => [el('dt', {}, key.split(' ').map((one) => el('kbd', {}, one))), el('dd', {}, what)])),
    el('p', { class: 'quiet' }, 'A search takes type:bugfix, kind:prompt, file:cart.rs, session:…, since:2d, "exact words" and -without.'),
    el('div', { class: 'actions' }, el('button', { type: 'button', click: () => dialog.close() }, 'Close')));
  dialog.showModal();
}

function switchTheme() {
  const dark = getComputedStyle(document.documentElement).getPropertyValue('--dark').trim() === '1';
  document.documentElement.dataset.theme = dark ? 'light' : 'dark';
  localStorage.setItem('theme', document.documentElement.dataset.theme);
}

async function undo() {
  if (waiting.stop) { waiting.stop(); return; }
  try {
    const { undone } = await post('/api/undo', {});
    toast(undone ? `Undone: ${undone.change} of “${undone.title}”` : 'There is nothing to undo.');
    refresh();
  } catch (error) { toast(error.message); }
}

/** Does something with the row that has the focus, else with what the detail shows. */
const act = (name) => () => {
  const href = listPlace.contains(document.activeElement) ? document.activeElement.getAttribute('href') ?? '' : location.hash;
  const [, kind, id] = href.match(/^#\/(item|session|thread)\/(.+)$/) ?? [];
  if (id) detail.act(name, kind, decodeURIComponent(id), after(href)).catch((error) => toast(error.message));
};

const ACTIONS = {
  '/': () => query.focus(), '?': help, j: () => state.list?.move(1), k: () => state.list?.move(-1), y: act('keep'), x: act('reject'), r: act('mark'), p: act('pin'), w: act('wrong'), e: act('edit'), f: act('forget'), u: undo, t: switchTheme,
  ArrowDown: () => state.list?.move(1), ArrowUp: () => state.list?.move(-1), Escape: goBack,
  1: () => { location.hash = '#/'; }, 2: () => { location.hash = '#/sessions'; }, 3: () => { location.hash = '#/threads'; }, 4: () => { location.hash = '#/projects'; }, 5: () => { location.hash = '#/numbers'; }, 6: () => { location.hash = '#/review'; }, 7: () => { location.hash = '#/sharing'; }, 8: () => { location.hash = '#/friction'; },
};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('#code')) return;
  if (byId('dialog').open) {
    if (!event.target.closest('form')) byId('dialog').querySelector(`[data-key="${CSS.escape(event.key)}"]`)?.click();
    return;
  }
  if (event.target === query) {
    if (event.key === 'Escape') query.blur();
    if (event.key === 'ArrowDown') { event.preventDefault(); query.blur(); state.list?.move(1); }
    return;
  }
  if (event.target.closest('select, summary') || (detailPlace.contains(event.target) && event.key.startsWith('Arrow'))) return;
  const action = ACTIONS[event.key];
  if (action) { event.preventDefault(); action(); }
});

let typing = null;
query.addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const text = query.value.trim();
    history.replaceState(null, '', text ? `#/search/${encodeURIComponent(text)}` : '#/');
    route();
  }, 120);
});
byId('searching').addEventListener('submit', (event) => { event.preventDefault(); state.list?.move(1); });
byId('skip').addEventListener('click', (event) => { event.preventDefault(); listPlace.focus(); });
byId('theme').addEventListener('click', switchTheme);
project.addEventListener('change', remember);
document.addEventListener('changed', refresh);
addEventListener('hashchange', route);
document.documentElement.dataset.theme = localStorage.getItem('theme') ?? '';

if (address().name === 'open') route(); else begin();
