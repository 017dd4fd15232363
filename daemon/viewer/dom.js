// Elements of the page. Stored text is only ever a text node: nothing here makes markup of a string.

/** Makes an element. `attributes` with a function are listeners; null and false are left out. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for a drawing. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
}

/** Controls, and marks that turn the direction of what is read: a name with one reads as another. */
const MISLEADING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const readable = (part) => typeof part === 'string' ? part.replace(MISLEADING, '') : part;

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name, value);
    else if (name === 'text') node.textContent = readable(value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map(readable));
  return node;
}

export const byId = (id) => document.getElementById(id);

export function toast(text, ...more) {
  const place = byId('toast');
  place.replaceChildren(text, ...more);
  place.classList.add('shown');
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => place.classList.remove('shown'), more.length ? 9000 : 4000);
}

/** Seconds in which something can be taken back before it is done. */
const TO_UNDO = 8;

/** What waits to be done: `now` does it at once, `stop` takes it back. */
export const waiting = { now: null, stop: null };

/**
 * Does something for good after a while, unless it is taken back. Whoever leaves the page has not taken it back: what is
 * waiting is then done at once.
 */
export function later(what, act, done) {
  waiting.now?.();
  let timer = null;
  const stop = () => {
    clearTimeout(timer);
    removeEventListener('pagehide', leave);
    Object.assign(waiting, { now: null, stop: null });
  };
  const now = () => {
    stop();
    act({}).then(done, (error) => toast(error.message));
  };
  const leave = () => { stop(); act({ keepalive: true }); };
  timer = setTimeout(now, TO_UNDO * 1000);
  Object.assign(waiting, { now, stop: () => { stop(); toast('It stays.'); } });
  addEventListener('pagehide', leave);
  toast(`${what} in ${TO_UNDO} s (press u to undo).`, el('button', { type: 'button', id: 'undo', click: () => waiting.stop?.() }, 'Undo'));
}

const units = [['year', 31536e6], ['month', 2592e6], ['week', 6048e5], ['day', 864e5], ['hour', 36e5], ['minute', 6e4]];
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

export function ago(time) {
  const passed = new Date(time) - Date.now();
  const unit = units.find(([, length]) => Math.abs(passed) >= length);
  return unit ? relative.format(Math.round(passed / unit[1]), unit[0]) : 'just now';
}

/** A moment, told by its distance; in full where the pointer rests. */
export const moment = (time) => time ? el('time', { datetime: time, title: new Date(time).toLocaleString() }, ago(time)) : '';

export const clock = (time) => new Date(time).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });

export function day(time) {
  const date = new Date(time);
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(date).setHours(0, 0, 0, 0)) / 864e5);
  if (days === 0) return 'Today';
  if (days === 1) return 'Yesterday';
  return date.toLocaleDateString([], { weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' });
}

export const words = (name) => String(name ?? '').replaceAll('_', ' ');

export function badge(kind) {
  return el('span', { class: `badge kind-${String(kind).replace(/[^a-z_]/g, '')}` }, words(kind));
}
