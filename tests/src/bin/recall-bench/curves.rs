//! Draws the 99th percentiles by size. Both scales are logarithmic.

use std::fmt::Write;

use super::AtSize;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 56.0;
/// Milliseconds at the bottom and at the top.
const LEAST: f64 = 0.1;
const MOST: f64 = 1_000.0;

type Line = (&'static str, &'static str, fn(&AtSize) -> f64);

const LINES: [Line; 5] = [
    ("search p99", "#1b6ca8", |at| at.search[1]),
    ("start p99", "#2e8b57", |at| at.start[1]),
    ("prompt p99", "#c2571a", |at| at.prompt[1]),
    ("event p99", "#7a3fa0", |at| at.event[1]),
    ("cold start", "#777777", |at| at.cold_start),
];

pub(super) fn svg(measured: &[AtSize]) -> String {
    let sizes = || measured.iter().map(|at| at.documents as f64);
    let (least, most) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
    let share = |value: f64, from: f64, to: f64| (value / from).ln() / (to / from).ln().max(f64::EPSILON);
    let x = |documents: f64| MARGIN + share(documents, least, most) * (WIDTH - 2.0 * MARGIN);
    let y = |ms: f64| HEIGHT - MARGIN - share(ms.clamp(LEAST, MOST), LEAST, MOST) * (HEIGHT - 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for ms in [0.1, 1.0, 10.0, 100.0, 1_000.0] {
        let (at, right) = (y(ms), WIDTH - MARGIN);
        writeln!(svg, "<path d=\"M{MARGIN} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{ms} ms</text>", MARGIN - 6.0, at + 4.0).unwrap();
    }
    for at in measured {
        let documents = at.documents;
        let (at, below) = (x(documents as f64), HEIGHT - MARGIN + 16.0);
        writeln!(svg, "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{documents}</text>").unwrap();
    }
    for (place, (name, colour, value)) in LINES.iter().enumerate() {
        let points: Vec<String> =
            measured.iter().map(|at| format!("{:.1},{:.1}", x(at.documents as f64), y(value(at)))).collect();
        let (points, left) = (points.join(" "), MARGIN + 110.0 * place as f64);
        writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"{left}\" y=\"20\" fill=\"{colour}\">{name}</text>").unwrap();
    }
    writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">documents</text>\n</svg>",
        WIDTH / 2.0,
        HEIGHT - 16.0
    )
    .unwrap();
    svg
}
