// One tool call, as people read it: a command with its output, an edit as what went and what came, else its JSON. The JSON is there in every case.
import { el } from './dom.js';

/** Lines of a text that are shown; the JSON has all. */
const LINES = 400;
/** Lines beside a change that are shown. */
const AROUND = 3;

/** The first of these fields that is a text. */
function text(value, names) {
  if (!value || typeof value !== 'object') return null;
  return names.map((name) => value[name]).find((found) => typeof found === 'string') ?? null;
}

const BEFORE = ['old_string', 'oldString', 'old_str', 'oldText'];
const AFTER = ['new_string', 'newString', 'new_str', 'newText'];
const WHOLE = ['content', 'file_text'];
const COMMAND = ['command', 'command_line', 'cmd'];
const PATCH = ['patch', 'input', 'command'];
const OUTPUT = ['stdout', 'output', 'returnDisplay', 'llmContent', 'textResultForLlm', 'text_result_for_llm', 'result', 'content', 'text', 'error'];

/** What a call was about, in a few words; a file of the workspace by its place in it. */
export function gist(input, workspace) {
  if (!input || typeof input !== 'object') return typeof input === 'string' ? input.slice(0, 120) : '';
  const said = text(input, ['file_path', 'filePath', 'path', ...COMMAND, 'pattern', 'query', 'url', 'description']) ?? '';
  return (workspace && said.startsWith(`${workspace}/`) ? said.slice(workspace.length + 1) : said).slice(0, 160);
}

/** Can be scrolled by keys, too. */
const block = (label, kind, ...children) => el('pre', { tabindex: 0, role: 'group', 'aria-label': label, class: kind }, children);

const json = (value) => typeof value === 'string' ? value : JSON.stringify(value, null, 2);

function lines(whole) {
  const all = whole.replace(/\n$/, '').split('\n');
  return all.length > LINES ? [...all.slice(0, LINES), `… ${(all.length - LINES).toLocaleString()} more lines`] : all;
}

const marked = (sign, rows) => rows.map((row) => el('span', { class: { '-': 'gone', '+': 'new' }[sign] }, `${sign} ${row}\n`));

/** Without the lines that both begin and end with, but for a few. */
function change(before, after) {
  const [old, now] = [lines(before), lines(after)];
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  return [...marked(' ', old.slice(Math.max(0, head - AROUND), head)), ...marked('-', old.slice(head, old.length - tail)),
    ...marked('+', now.slice(head, now.length - tail)), ...marked(' ', old.slice(old.length - tail, old.length - tail + AROUND))];
}

function edited(input) {
  const edits = Array.isArray(input?.edits) ? input.edits : Array.isArray(input?.replacements) ? input.replacements : [input];
  const pairs = edits.map((one) => [text(one, BEFORE), text(one, AFTER)]);
  if (pairs.every(([before, after]) => before !== null && after !== null)) {
    return pairs.map(([before, after]) => block('Changes', 'change', change(before, after)));
  }
  const patch = text(input, PATCH) ?? (typeof input === 'string' ? input : null);
  if (patch?.startsWith('*** Begin Patch')) {
    return [block('Changes', 'change', lines(patch).map((line) => el('span', { class: { '-': 'gone', '+': 'new' }[line[0]] }, `${line}\n`)))];
  }
  const [path, whole] = [text(input, ['file_path', 'filePath', 'path']), text(input, WHOLE)];
  return path !== null && whole !== null ? [block('Written content', 'change', marked('+', lines(whole)))] : null;
}

function ran(input) {
  const command = Array.isArray(input?.command) ? input.command.filter((word) => typeof word === 'string').join(' ') : text(input, COMMAND);
  return command === null ? null : [block('The command', null, `$ ${command}`)];
}

/** What came back, if it is a text; parts of it if it is a list of them. */
function output(response) {
  if (typeof response === 'string') return response;
  if (Array.isArray(response)) {
    const parts = response.map((one) => text(one, ['text']));
    return parts.every((one) => one !== null) ? parts.join('\n') : null;
  }
  const said = text(response, OUTPUT);
  const wrong = text(response, ['stderr']);
  if (said === null && wrong === null) return text(response?.file, ['content']);
  return [said, wrong].filter(Boolean).join('\n');
}

/** `folded` makes a part that is opened. */
export function body({ input, response }, folded) {
  const whole = [input, response].filter((value) => value !== null && value !== undefined).map((value) => block('JSON', null, json(value)));
  const change = edited(input);
  const asked = change ?? ran(input);
  const came = change ? null : output(response);
  if (!asked && came === null) return whole;
  return [asked ?? (input === null || input === undefined ? null : block('Input', null, json(input))),
    came === null ? null : came.trim() ? block('Output', null, lines(came).join('\n')) : el('p', { class: 'quiet' }, 'No output.'),
    folded('raw', 'As JSON', () => whole)];
}
