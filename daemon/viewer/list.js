// A list of any length: only the rows in sight are in the page.
import { el } from './dom.js';

const HEIGHTS = { row: 68, heading: 40 };
const BEYOND = 400;

export class List {
  /** `items` are `{heading}` or `{href, row}`, where `row()` makes the content. */
  constructor(place, label) {
    this.place = place;
    this.canvas = el('ul', { class: 'rows', 'aria-label': label });
    this.rows = new Map();
    this.items = [];
    this.active = -1;
    place.replaceChildren(this.canvas);
    place.onscroll = () => this.draw();
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(place);
  }

  show(items) {
    const href = this.items[this.active]?.href;
    this.items = items;
    this.tops = new Float64Array(items.length + 1);
    items.forEach((item, at) => { this.tops[at + 1] = this.tops[at] + (item.heading ? HEIGHTS.heading : HEIGHTS.row); });
    this.canvas.style.height = `${this.tops[items.length]}px`;
    this.active = href ? items.findIndex((item) => item.href === href) : -1;
    this.rows.forEach((row) => row.remove());
    this.rows.clear();
    this.draw();
  }

  /** The first item that ends below a height. */
  at(height) {
    let [low, high] = [0, this.items.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] > height) high = middle; else low = middle + 1;
    }
    return low;
  }

  draw() {
    const { scrollTop, clientHeight } = this.place;
    const from = this.at(scrollTop - BEYOND);
    const to = Math.min(this.items.length, this.at(scrollTop + clientHeight + BEYOND) + 1);
    for (const [at, row] of this.rows) {
      if (at < from || at >= to) { row.remove(); this.rows.delete(at); }
    }
    for (let at = from; at < to; at += 1) {
      if (this.rows.has(at)) continue;
      const row = this.make(at);
      const after = [...this.rows.keys()].filter((other) => other > at);
      const next = after.length ? this.rows.get(Math.min(...after)) : null;
      this.canvas.insertBefore(row, next);
      this.rows.set(at, row);
    }
  }

  make(at) {
    const item = this.items[at];
    const row = el('li', { class: item.heading ? 'heading' : 'row', 'aria-setsize': this.items.length, 'aria-posinset': at + 1 });
    row.append(item.heading ? el('h2', {}, item.heading) : el('a', { href: item.href }, item.row()));
    row.style.transform = `translateY(${this.tops[at]}px)`;
    if (item.href) this.mark(row.firstChild, item.href);
    return row;
  }

  mark(link, href) {
    if (href === location.hash) link.setAttribute('aria-current', 'true'); else link.removeAttribute('aria-current');
  }

  /** Shows which item the detail is of. */
  current() {
    for (const [at, row] of this.rows) if (this.items[at].href) this.mark(row.firstChild, this.items[at].href);
  }

  /** Moves the focus by so many rows, past headings. */
  move(by) {
    let at = this.active < 0 ? (by > 0 ? -1 : this.items.length) : this.active;
    do { at += by; } while (this.items[at]?.heading);
    if (!this.items[at]) return;
    this.active = at;
    const { scrollTop, clientHeight } = this.place;
    if (this.tops[at] < scrollTop) this.place.scrollTop = this.tops[at] - HEIGHTS.heading;
    if (this.tops[at + 1] > scrollTop + clientHeight) this.place.scrollTop = this.tops[at + 1] - clientHeight;
    this.draw();
    this.rows.get(at)?.querySelector('a')?.focus({ preventScroll: true });
  }
}
