// Small charts of days. Each says its figures in a table for those who do not see it.
import { el, svg } from './dom.js';

const WIDTH = 480;
const HEIGHT = 132;
const TOP = 10;

/** A number that people read easily, not below this one. */
function round(most) {
  const size = 10 ** Math.floor(Math.log10(most || 1));
  return [1, 2, 2.5, 5, 10].map((step) => step * size).find((step) => step >= most) ?? most;
}

const short = (date) => new Date(`${date}T12:00:00`).toLocaleDateString([], { day: 'numeric', month: 'short' });

/** `points` are `{day, value}` by day, the earliest first; `draw` puts them into the drawing. */
function chart(title, points, format, draw) {
  const most = round(Math.max(...points.map((point) => point.value), 0));
  const drawing = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT + 22}`, class: 'chart', 'aria-hidden': 'true' });
  const y = (value) => HEIGHT - (most ? value / most : 0) * (HEIGHT - TOP);
  const last = points.at(-1)?.value ?? 0;
  if (points.some((point) => point.value)) {
    for (const share of [0, 0.5, 1]) {
      const height = y(most * share);
      drawing.append(svg('line', { x1: 0, x2: WIDTH, y1: height, y2: height, class: share ? 'grid' : 'axis' }));
      if (share) drawing.append(svg('text', { x: 0, y: height - 3 }, format(most * share)));
    }
    draw(drawing, y);
  } else {
    drawing.append(svg('line', { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT, class: 'axis' }),
      svg('text', { x: WIDTH / 2, y: HEIGHT / 2, 'text-anchor': 'middle' }, 'Nothing in this time'));
  }
  const label = (text, x, anchor) => svg('text', { x, y: HEIGHT + 16, 'text-anchor': anchor }, text);
  if (points.length) {
    drawing.append(label(short(points[0].day), 0, 'start'), label(short(points[points.length >> 1].day), WIDTH / 2, 'middle'),
      label('today', WIDTH, 'end'));
  }
  const rows = points.filter((point) => point.value).map(({ day, value }) =>
    el('tr', {}, el('th', { scope: 'row' }, day), el('td', {}, format(value))));
  return el('figure', {}, el('figcaption', {}, el('span', {}, title), el('b', {}, format(last), el('small', {}, ' today'))), drawing,
    el('details', {}, el('summary', {}, 'Figures'), el('table', {}, el('tbody', {}, rows))));
}

export function bars(title, points, format) {
  return chart(title, points, format, (drawing, y) => {
    const step = WIDTH / points.length;
    points.forEach(({ day, value }, at) => {
      const height = HEIGHT - y(value);
      // As high as the chart, so that the pointer finds a low one.
      drawing.append(svg('g', { class: 'bar' }, svg('title', {}, `${day}: ${format(value)}`),
        svg('rect', { class: 'reach', x: at * step, width: step, y: 0, height: HEIGHT }),
        svg('rect', { x: at * step + step * 0.15, width: step * 0.7, y: HEIGHT - Math.max(height, value ? 2 : 0), height: Math.max(height, value ? 2 : 0), rx: Math.min(3, step / 4) })));
    });
  });
}

export function curve(title, points, format) {
  return chart(title, points, format, (drawing, y) => {
    const step = WIDTH / Math.max(points.length - 1, 1);
    const line = points.map(({ value }, at) => `${at * step},${y(value)}`).join(' ');
    drawing.append(svg('polygon', { class: 'area', points: `0,${HEIGHT} ${line} ${WIDTH},${HEIGHT}` }), svg('polyline', { class: 'line', points: line }));
    points.forEach(({ day, value }, at) => drawing.append(svg('rect', { class: 'reach', x: (at - 0.5) * step, width: step, y: 0, height: HEIGHT },
      svg('title', {}, `${day}: ${format(value)}`))));
  });
}

/** Every day of the last `count`, with the values of `by` (a Map by day). */
export function days(count, by) {
  const today = new Date();
  return Array.from({ length: count }, (_, at) => {
    const date = new Date(today.getFullYear(), today.getMonth(), today.getDate() - (count - 1 - at));
    const pad = (number) => String(number).padStart(2, '0');
    const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
    return { day, value: by.get(day) ?? 0 };
  });
}
