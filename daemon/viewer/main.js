// The page: which view is shown, and when it is read again.
import { follow, get, post } from './api.js';
import { byId, el, toast } from './dom.js';
import { List } from './list.js';
import * as views from './views.js';
import * as detail from './detail.js';

const LABELS = { timeline: 'Timeline', sessions: 'Sessions', threads: 'Threads', numbers: 'Numbers', search: 'Results' };
const [listPlace, detailPlace, query, project] = ['list', 'detail', 'query', 'project'].map(byId);
const state = { view: 'timeline', text: '', list: null, listing: null, reading: null };

/** The address after `#/`: a view with its words, or a detail beside the last view. */
function address() {
  const [, name = '', ...rest] = location.hash.split('/');
  return { name, text: decodeURIComponent(rest.join('/')) };
}

async function showList() {
  state.listing?.abort();
  const { signal } = state.listing = new AbortController();
  for (const link of document.querySelectorAll('nav a')) {
    if (link.dataset.view === state.view) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
  }
  document.body.classList.toggle('wide', state.view === 'numbers');
  try {
    if (state.view === 'numbers') {
      const made = await views.numbers(project.value, signal);
      state.list = null;
      listPlace.replaceChildren(made);
      return;
    }
    const items = state.view === 'search' ? await views.search(state.text, project.value, signal)
      : await views[state.view](project.value, signal);
    if (signal.aborted) return;
    if (!items.length) {
      state.list = null;
      listPlace.replaceChildren(project.value ? el('p', { class: 'quiet pad' }, 'Nothing here.') : views.empty());
      return;
    }
    if (state.list?.view !== state.view) {
      state.list = new List(listPlace, LABELS[state.view]);
      state.list.view = state.view;
      listPlace.scrollTop = 0;
    }
    state.list.show(items);
  } catch (error) {
    if (error.name !== 'AbortError') refused(error, listPlace);
  }
}

async function showDetail() {
  state.reading?.abort();
  const { signal } = state.reading = new AbortController();
  const { name, text } = address();
  const opened = name === 'item' || name === 'session';
  document.body.classList.toggle('opened', opened);
  state.list?.current();
  if (!opened) {
    detailPlace.replaceChildren(el('p', { class: 'hint' }, 'Choose an entry. ', el('kbd', {}, '?'), ' shows the keys.'));
    return;
  }
  const back = el('button', { type: 'button', class: 'back', click: goBack }, '← Back');
  try {
    const made = name === 'item' ? await detail.item(text, refresh, signal) : await detail.session(text, signal);
    if (signal.aborted) return;
    const same = detailPlace.dataset.shown === location.hash;
    const scrolled = detailPlace.scrollTop;
    detailPlace.dataset.shown = location.hash;
    detailPlace.replaceChildren(back, made);
    detailPlace.scrollTop = same ? scrolled : 0;
    document.title = `${made.querySelector('h1')?.textContent ?? 'recall'} · recall`;
  } catch (error) {
    if (error.name !== 'AbortError') refused(error, detailPlace, back);
  }
}

function refused(error, place, ...before) {
  const locked = error.status === 401;
  place.replaceChildren(...before, el('div', { class: 'empty' },
    el('h1', {}, locked ? 'This page is locked' : 'That did not work'),
    el('p', {}, locked ? 'Its link was used already, or the daemon has started anew. For a new link run:' : error.message),
    locked ? el('p', {}, el('code', {}, 'recall ui --web')) : el('p', { class: 'quiet' }, error.hint ?? '')));
  if (place === listPlace) state.list = null;
}

function route() {
  const { name, text } = address();
  const view = { '': 'timeline', sessions: 'sessions', threads: 'threads', numbers: 'numbers', search: 'search' }[name];
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

async function readProjects() {
  const { sessions } = await get('/api/sessions', { limit: 1000 });
  const chosen = project.value;
  const names = [...new Set(sessions.map((session) => session.project))].sort();
  project.replaceChildren(el('option', { value: '' }, 'All projects'), ...names.map((name) => el('option', { value: name }, name)));
  project.value = names.includes(chosen) ? chosen : '';
}

function connect() {
  let waiting = null;
  const told = (name) => {
    if (name === 'session_started' || name === 'lagged') readProjects().catch(() => {});
    // Many events come at once, and each reads everything in sight.
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 250);
  };
  follow(told, (open) => {
    const place = byId('live');
    place.classList.toggle('on', open);
    place.title = open ? 'Live' : 'Not connected';
    place.lastElementChild.textContent = place.title;
  });
}

const KEYS = [['/', 'search'], ['j k', 'next and previous entry'], ['Enter', 'open'], ['Esc', 'back'], ['r', 'resolve or reopen'], ['p', 'pin or unpin'], ['e', 'edit'], ['u', 'undo the last change'],
  ['1 2 3 4', 'timeline, sessions, threads, numbers'], ['t', 'light or dark'], ['?', 'these keys']];

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
  try {
    const { undone } = await post('/api/undo', {});
    toast(undone ? `Taken back: ${undone.change} of “${undone.title}”` : 'There is nothing to take back.');
    refresh();
  } catch (error) { toast(error.message); }
}

const ACTIONS = {
  '/': () => query.focus(), '?': help, j: () => state.list?.move(1), k: () => state.list?.move(-1), r: () => byId('mark')?.click(), p: () => byId('pin')?.click(), e: () => byId('edit')?.click(), u: undo, t: switchTheme,
  ArrowDown: () => state.list?.move(1), ArrowUp: () => state.list?.move(-1), Escape: goBack,
  1: () => { location.hash = '#/'; }, 2: () => { location.hash = '#/sessions'; }, 3: () => { location.hash = '#/threads'; }, 4: () => { location.hash = '#/numbers'; },
};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId('dialog').open) return;
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
project.addEventListener('change', showList);
document.addEventListener('changed', refresh);
addEventListener('hashchange', route);
document.documentElement.dataset.theme = localStorage.getItem('theme') ?? '';

route();
readProjects().then(connect, (error) => { if (error.status !== 401) toast(error.message); });
