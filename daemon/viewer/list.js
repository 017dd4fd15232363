// A list of any length: only the rows in sight are in the page, and only what was in sight once is read.
import { el } from './dom.js';

const HEIGHTS = { row: 60, heading: 44 };
const BEYOND = 400;
export const CHUNK = 100;
/** While somebody scrolls, what comes in sight is read so often. */
const PAUSE = 120;

/** Rows that are there already. */
export const ready = (heading, items) => ({ heading, count: items.length, at: (number) => items[number], want: () => null });

/** Items that `read(skip, limit)` brings, so many at once, when one of them is looked at. */
export function lazy(read) {
  const chunks = new Map();
  return {
    at(number) {
      const chunk = chunks.get(Math.floor(number / CHUNK));
      return Array.isArray(chunk) ? chunk[number % CHUNK] : undefined;
    },
    /** Resolves when the item is there; null: it is. */
    want(number) {
      const at = Math.floor(number / CHUNK);
      const chunk = chunks.get(at);
      if (chunk) return Array.isArray(chunk) ? null : chunk;
      const reading = read(at * CHUNK, CHUNK).then((items) => { chunks.set(at, items); }, (error) => {
        chunks.delete(at);
        throw error;
      });
      chunks.set(at, reading);
      return reading;
    },
  };
}

export class List {
  constructor(place, label, failed) {
    this.place = place;
    this.failed = failed;
    this.canvas = el('ul', { class: 'rows', 'aria-label': label });
    this.rows = new Map();
    this.sections = [];
    this.active = -1;
    // Says which section the rows in sight are of when its heading is not.
    this.sticky = el('div', { class: 'sticky', 'aria-hidden': 'true', hidden: true });
    place.replaceChildren(this.sticky, this.canvas);
    place.onscroll = () => this.scrolled();
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(place);
  }

  scrolled() {
    this.scrolling ??= setTimeout(() => { this.scrolling = null; this.draw(); }, PAUSE);
    this.draw();
  }

  /** Sections as `ready` makes them; what `want` resolves with, if anything, is shown in their place. The row that was chosen stays so where it is found again. */
  show(sections) {
    this.sections = sections;
    this.firsts = [0];
    this.tops = [0];
    for (const { heading, count } of sections) {
      this.firsts.push(this.firsts.at(-1) + count + (heading === null ? 0 : 1));
      this.tops.push(this.tops.at(-1) + count * HEIGHTS.row + (heading === null ? 0 : HEIGHTS.heading));
    }
    this.total = this.firsts.at(-1);
    this.canvas.style.height = `${this.tops.at(-1)}px`;
    if (this.active >= this.total) this.active = -1;
    this.fresh = true;
    this.draw();
  }

  /** The last of these that is not above `value`. */
  static before(values, value) {
    let [low, high] = [0, values.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (values[middle] <= value) low = middle; else high = middle - 1;
    }
    return low;
  }

  /** Section, place in it (-1: its heading), and top of a row. */
  where(row) {
    const number = Math.min(List.before(this.firsts, row), this.sections.length - 1);
    const section = this.sections[number];
    const heading = section.heading === null ? 0 : 1;
    const at = row - this.firsts[number] - heading;
    return { section, at, top: this.tops[number] + (at < 0 ? 0 : heading * HEIGHTS.heading + at * HEIGHTS.row) };
  }

  /** The row at a height. */
  rowAt(height) {
    const number = Math.min(List.before(this.tops, Math.max(0, height)), this.sections.length - 1);
    const heading = this.sections[number].heading === null ? 0 : 1;
    const inside = height - this.tops[number] - heading * HEIGHTS.heading;
    const row = this.firsts[number] + (inside < 0 ? 0 : heading + Math.floor(inside / HEIGHTS.row));
    return Math.max(0, Math.min(row, this.total - 1));
  }

  draw() {
    if (!this.total) return;
    const { scrollTop, clientHeight } = this.place;
    const [from, to] = [this.rowAt(scrollTop - BEYOND), this.rowAt(scrollTop + clientHeight + BEYOND) + 1];
    for (const [row, node] of this.rows) {
      if (row < from || row >= to) { node.remove(); this.rows.delete(row); }
    }
    const first = Math.min(List.before(this.tops, scrollTop), this.sections.length - 1);
    this.sticky.hidden = this.sections[first].heading === null || scrollTop < this.tops[first] + 12;
    this.sticky.textContent = this.sections[first].heading ?? '';
    const waited = new Set();
    let next = null;
    for (let row = to - 1; row >= from; row -= 1) {
      const { section, at, top } = this.where(row);
      const item = at < 0 ? { heading: section.heading } : section.at(at);
      const waiting = at < 0 || this.scrolling ? null : section.want(at);
      if (waiting) waited.add(waiting);
      let node = this.rows.get(row);
      if (!node || this.fresh || node.item !== item) {
        const made = this.make(item, row, top);
        // A row that the keys have gone to and that is not read yet goes before the one that has the focus still.
        if (node?.contains(document.activeElement)) this.focusing ??= row;
        node?.remove();
        node = made;
        this.rows.set(row, node);
        this.canvas.insertBefore(node, next);
      }
      next = node;
    }
    this.fresh = false;
    for (const waiting of waited) waiting.then((sections) => sections ? this.show(sections) : this.draw(), (error) => { if (error.name !== 'AbortError') this.failed?.(error); });
    if (this.focusing !== undefined) this.focus(this.focusing);
  }

  make(item, row, top) {
    const node = el('li', { class: item?.heading !== undefined ? 'heading' : 'row', 'aria-setsize': this.total, 'aria-posinset': row + 1 });
    node.item = item;
    if (!item) node.append(el('span', { class: 'waiting', 'aria-hidden': 'true' }));
    else if (item.heading !== undefined) node.append(el('h2', {}, item.heading));
    else node.append(el('a', { href: item.href }, item.row()));
    node.style.transform = `translateY(${top}px)`;
    if (item?.href) this.mark(node.firstChild, item.href);
    return node;
  }

  mark(link, href) {
    if (href === location.hash) link.setAttribute('aria-current', 'true'); else link.removeAttribute('aria-current');
  }

  /** Shows which item the detail is of. */
  current() {
    for (const [row, node] of this.rows) {
      if (!node.item?.href) continue;
      this.mark(node.firstChild, node.item.href);
      if (node.item.href === location.hash) this.active = row;
    }
  }

  /** The address of the item that follows one, else of the one before it; of one that has gone, of what has its place. */
  beside(href) {
    const items = this.sections.flatMap(({ count, at }) => Array.from({ length: count }, (_, number) => at(number)?.href)).filter(Boolean);
    const place = items.indexOf(href);
    if (place >= 0) return items[place + 1] ?? items[place - 1];
    const before = this.sections.slice(0, this.active < 0 ? 0 : List.before(this.firsts, this.active) + 1).filter(({ heading }) => heading !== null).length;
    return items[Math.min(Math.max(0, this.active - before), items.length - 1)];
  }

  focus(row) {
    const link = this.rows.get(row)?.querySelector('a');
    if (!link) return;
    this.focusing = undefined;
    link.focus({ preventScroll: true });
  }

  /** Moves the focus by so many rows, past headings. */
  move(by) {
    if (!this.total) return;
    let row = this.active < 0 ? (by > 0 ? -1 : this.total) : this.active;
    do { row += by; } while (row >= 0 && row < this.total && this.where(row).at < 0);
    if (row < 0 || row >= this.total) return;
    this.active = row;
    const { top } = this.where(row);
    const { scrollTop, clientHeight } = this.place;
    if (top < scrollTop) this.place.scrollTop = top - HEIGHTS.heading;
    if (top + HEIGHTS.row > scrollTop + clientHeight) this.place.scrollTop = top + HEIGHTS.row - clientHeight;
    this.focusing = row;
    this.draw();
  }
}
