// Small charts: bars for days. Each says its figures in a table for those who do not see it.
import { el, svg } from './dom.js';

const WIDTH = 640;
const HEIGHT = 120;

/** `points` are `{day, value}` by day, the earliest first. */
export function bars(title, points, unit, format = String) {
  const most = Math.max(...points.map((point) => point.value), 0);
  const step = WIDTH / Math.max(points.length, 1);
  const drawing = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT + 22}`, class: 'chart', 'aria-hidden': 'true' });
  for (const share of [0, 0.5, 1]) {
    const y = HEIGHT - share * (HEIGHT - 14);
    drawing.append(svg('line', { x1: 0, x2: WIDTH, y1: y, y2: y, class: share ? 'grid' : 'axis' }));
  }
  points.forEach(({ day, value }, at) => {
    const height = most ? (value / most) * (HEIGHT - 14) : 0;
    drawing.append(svg('rect', {
      x: at * step + step * 0.14, width: step * 0.72, y: HEIGHT - height, height: Math.max(height, value ? 2 : 0), rx: Math.min(3, step / 4),
    }, svg('title', {}, `${day}: ${format(value)} ${unit}`)));
  });
  const label = (text, x, anchor) => svg('text', { x, y: HEIGHT + 17, 'text-anchor': anchor }, text);
  if (points.length) drawing.append(label(points[0].day, 0, 'start'), label(points.at(-1).day, WIDTH, 'end'));
  if (most) drawing.append(svg('text', { x: WIDTH, y: 10, 'text-anchor': 'end' }, `${format(most)} ${unit}`));
  const rows = points.filter((point) => point.value).map(({ day, value }) =>
    el('tr', {}, el('th', { scope: 'row' }, day), el('td', {}, `${format(value)} ${unit}`)));
  return el('figure', {}, el('figcaption', {}, title), drawing,
    el('details', {}, el('summary', {}, 'Figures'), el('table', {}, el('tbody', {}, rows))));
}

/** Every day of the last `count`, with the values of `by` (a Map by day). */
export function days(count, by) {
  return Array.from({ length: count }, (_, at) => {
    const date = new Date(Date.now() - (count - 1 - at) * 864e5);
    const pad = (number) => String(number).padStart(2, '0');
    const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
    return { day, value: by.get(day) ?? 0 };
  });
}
