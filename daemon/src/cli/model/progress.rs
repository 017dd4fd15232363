//! Shows the progress of a download: a bar on a terminal, or else a line now and then.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::terminal::{bytes, span};

/// The number of lines written without a terminal.
const LINES: u64 = 4;

pub(super) struct DownloadProgress<'a> {
    out: &'a mut dyn Write,
    bar: Option<ProgressBar>,
    /// 0 if unknown.
    total: u64,
    /// The bytes so far, including earlier downloads.
    done: u64,
    /// The bytes received over the network.
    came: u64,
    begun: Instant,
    /// The number of lines written so far.
    lines_written: u64,
}

impl<'a> DownloadProgress<'a> {
    /// `total` is in bytes, or 0 if unknown.
    pub(super) fn new(total: u64, out: &'a mut dyn Write) -> Self {
        let template = match total {
            0 => "  {spinner} {bytes}, {bytes_per_sec}",
            _ => "  {bar:32.cyan/dim} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        };
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        Self { out, bar, total, done: 0, came: 0, begun: Instant::now(), lines_written: 0 }
    }

    /// Records that this many bytes were downloaded earlier.
    pub(super) fn has(&mut self, count: u64) {
        self.done += count;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
            // The rate must include only new bytes.
            bar.reset_eta();
        }
    }

    /// Records that this many bytes must be downloaded again.
    pub(super) fn lost(&mut self, count: u64) {
        self.done = self.done.saturating_sub(count);
    }

    pub(super) fn came(&mut self, count: u64) {
        self.done += count;
        self.came += count;
        match &self.bar {
            Some(bar) => bar.set_position(self.done),
            None => self.print(),
        }
    }

    fn print(&mut self) {
        let quarter = (self.done * LINES).checked_div(self.total).unwrap_or(0);
        if quarter <= self.lines_written {
            return;
        }
        self.lines_written = quarter;
        // A closed pipe must not stop the download.
        let _ = writeln!(self.out, "  {}", line(self.done, self.total, self.came, self.begun.elapsed()));
        let _ = self.out.flush();
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(done: u64, total: u64, came: u64, took: Duration) -> String {
    let rate = came as f64 / took.as_secs_f64().max(0.001);
    let left = total.saturating_sub(done);
    let mut line = format!("{} of {}, {}/s", bytes(done), bytes(total), bytes(rate as u64));
    if left > 0 {
        line.push_str(&format!(", {} left", span((left as f64 / rate.max(1.0)) as u64)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_line_shows_amount_speed_and_remaining_time() {
        let second = Duration::from_secs(1);
        assert_eq!(line(3 << 20, 9 << 20, 2 << 20, second), "3.0 MiB of 9.0 MiB, 2.0 MiB/s, 3 s left");
        assert_eq!(line(9 << 20, 9 << 20, 9 << 20, second), "9.0 MiB of 9.0 MiB, 9.0 MiB/s");
    }

    #[test]
    fn progress_without_a_terminal_is_printed_at_each_quarter() {
        let mut out = Vec::new();
        let mut progress = DownloadProgress { bar: None, ..DownloadProgress::new(100, &mut out) };
        progress.has(20);
        (0..80).for_each(|_| progress.came(1));
        progress.end();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 4);
    }
}
