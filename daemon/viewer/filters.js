// What of a view is shown: kinds and types of entries, and for a search also the time.
import { el, words } from './dom.js';
import { TYPES } from './types.js';

const KINDS = [['observation', 'Observations'], ['prompt', 'Prompts'], ['summary', 'Summaries']];
const SEARCHED = [['', 'Everything'], ['observation', 'Observations'], ['prompt', 'Prompts'], ['response', 'Answers'], ['activity', 'Calls'],
  ['summary', 'Summaries'], ['plan', 'Plans']];
const TIMES = [['', 'Any time'], ['today', 'Today'], ['7d', '7 days'], ['30d', '30 days'], ['365d', 'A year']];

const kept = () => {
  const known = KINDS.map(([kind]) => kind);
  const kinds = (localStorage.getItem('kinds') ?? '').split(',').filter((kind) => known.includes(kind));
  return kinds.length ? kinds : ['observation', 'prompt'];
};

/** What is chosen now. `kinds` is of the timeline, `kind` and `since` of a search, `type` of both. */
export const chosen = { kinds: kept(), type: '', kind: '', since: '' };

function choice(name, label, options, changed) {
  const select = el('select', { 'aria-label': label, 'data-filter': name, class: chosen[name] ? 'set' : null, change: (event) => { chosen[name] = event.target.value; changed(); } },
    options.map(([value, text]) => el('option', { value, selected: value === chosen[name] }, text)));
  return select;
}

const types = () => [['', 'All types'], ...TYPES.map((type) => [type, words(type)])];

/** The controls of a view; none where there is nothing to choose. */
export function controls(view, changed) {
  if (view === 'timeline') {
    const toggle = (kind) => {
      const others = chosen.kinds.filter((one) => one !== kind);
      chosen.kinds = chosen.kinds.includes(kind) ? others : [...others, kind];
      if (!chosen.kinds.length) chosen.kinds = [kind];
      if (kind !== 'observation' || !chosen.kinds.includes('observation')) chosen.type = '';
      localStorage.setItem('kinds', chosen.kinds.join(','));
      changed();
    };
    return [...KINDS.map(([kind, name]) => el('button', { type: 'button', class: 'chip', 'data-kind': kind, 'aria-pressed': String(chosen.kinds.includes(kind) && (!chosen.type || kind === 'observation')), click: () => toggle(kind) }, name)),
      choice('type', 'Type of observation', types(), changed)];
  }
  if (view === 'search') {
    return [choice('kind', 'Kind', SEARCHED, changed), choice('type', 'Type of observation', types(), changed), choice('since', 'Time', TIMES, changed)];
  }
  return [];
}
