// Markdown as elements. Every text is a text node, and only addresses of the web become links.
import { el } from './dom.js';

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}#{1,6}[ \t]+/;
const ITEM = /^([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+/;
const QUOTE = /^ {0,3}> ?/;
const RULE = /^ {0,3}(?:[-*_][ \t]*){3,40}$/;
const COLUMNS = /^[ \t]*\|?[ \t]*:?-{1,40}:?[ \t]*(?:\|[ \t]*:?-{1,40}:?[ \t]*){1,40}\|?[ \t]*$/;
/** Code, bold, italic, a link. None goes over a line, and none is long: a text made to be slow is not. */
const SPAN = /(`{1,3})(?!`)([^\n]{1,400}?)(?<!`)\1(?!`)|\*\*(?=\S)([^\n]{1,400}?)(?<=\S)\*\*|(?<![\w*])\*(?=[^\s*])([^*\n]{1,400}?)(?<=\S)\*(?![\w*])|\[([^[\]\n]{1,300})\]\((https?:\/\/[^\s()<>]{1,1000})\)/g;
/** Deeper quotations and lists stay as they are written. */
const DEEPEST = 6;
/** A longer text is shown as it is written. */
const LONGEST = 400_000;

/** The text as elements. */
export function markdown(text) {
  const whole = String(text ?? '');
  return el('div', { class: 'md' }, whole.length > LONGEST ? el('pre', {}, whole) : blocks(whole.split(/\r?\n/), 0));
}

/** A line of it: without paragraphs and lists. */
export function inline(text, deep = 0) {
  const made = [];
  let done = 0;
  for (const found of text.matchAll(SPAN)) {
    const [whole, , code, bold, italic, label, address] = found;
    made.push(text.slice(done, found.index));
    done = found.index + whole.length;
    const inner = (part) => deep < DEEPEST ? inline(part, deep + 1) : part;
    if (code !== undefined) made.push(el('code', {}, code));
    else if (bold !== undefined) made.push(el('strong', {}, inner(bold)));
    else if (italic !== undefined) made.push(el('i', {}, inner(italic)));
    else made.push(el('a', { href: address, title: address, target: '_blank', rel: 'noopener noreferrer' }, label));
  }
  made.push(text.slice(done));
  return made.filter((part) => part !== '');
}

const isColumns = (line) => line.length < 1000 && COLUMNS.test(line);

function blocks(lines, deep) {
  const made = [];
  let at = 0;
  /** Takes lines as long as they fit. */
  const take = (fits) => {
    const from = at;
    while (at < lines.length && fits(lines[at], at - from)) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = line.match(FENCE)?.[1];
    if (!line.trim()) at += 1;
    else if (fence) {
      at += 1;
      const inside = take((next) => !next.trim().startsWith(fence));
      at += 1;
      made.push(el('pre', {}, el('code', {}, inside.join('\n'))));
    } else if (HEADING.test(line)) {
      at += 1;
      made.push(el('p', { class: 'head' }, inline(line.replace(HEADING, ''))));
    } else if (RULE.test(line)) {
      at += 1;
      made.push(el('hr'));
    } else if (QUOTE.test(line) && deep < DEEPEST) {
      made.push(el('blockquote', {}, blocks(take((next) => QUOTE.test(next)).map((next) => next.replace(QUOTE, '')), deep + 1)));
    } else if (ITEM.test(line) && deep < DEEPEST) made.push(list(take, line, deep));
    else if (line.includes('|') && isColumns(lines[at + 1] ?? '')) made.push(table(take((next) => next.includes('|'))));
    else {
      const starts = (next) => FENCE.test(next) || HEADING.test(next) || (deep < DEEPEST && (QUOTE.test(next) || ITEM.test(next)));
      made.push(el('p', {}, inline(take((next, number) => next.trim() && (number === 0 || !starts(next))).join('\n'))));
    }
  }
  return made;
}

/** The entries of a list. What is written further in belongs to the entry above. */
function list(take, first, deep) {
  const [, indent, mark] = first.match(ITEM);
  const isNumbered = /\d/.test(mark);
  const begins = (line) => {
    const found = line.match(ITEM);
    return found && found[1].length <= indent.length && /\d/.test(found[2]) === isNumbered;
  };
  const isInside = (line) => /^[ \t]/.test(line) && line.search(/\S/) > indent.length;
  const entries = [];
  for (const line of take((line, number) => number === 0 || begins(line) || isInside(line))) {
    if (begins(line)) entries.push([line.replace(ITEM, '')]); else entries.at(-1).push(line.slice(indent.length + 2));
  }
  return el(isNumbered ? 'ol' : 'ul', isNumbered ? { start: Number.parseInt(mark, 10) } : {},
    entries.map((lines) => el('li', {}, lines.length === 1 ? inline(lines[0]) : blocks(lines, deep + 1))));
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\|/, '').replace(/\|$/, '').split('|').map((cell) => cell.trim());
  const [head, , ...rows] = lines;
  return el('table', {}, el('thead', {}, el('tr', {}, cells(head).map((cell) => el('th', {}, inline(cell))))),
    el('tbody', {}, rows.map((row) => el('tr', {}, cells(row).map((cell) => el('td', {}, inline(cell)))))));
}
