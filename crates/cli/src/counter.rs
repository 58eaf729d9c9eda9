//! How far a long count is, for a person: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::text::clock;

/// Without a terminal, a line is written this often.
const INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct Counter {
    bar: Option<ProgressBar>,
    what: &'static str,
    total: usize,
    done: usize,
    /// What was there before, which says nothing about the time that is left.
    before: usize,
    began: Instant,
    last_line: Instant,
}

impl Counter {
    /// A count of `total` things, of which `done` are there already.
    pub(crate) fn new(what: &'static str, total: usize, done: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr_with_hz(5));
            let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len}  {msg}");
            bar.set_style(style.expect("the template is a constant").progress_chars("━╸─"));
            bar.set_prefix(what);
            bar
        });
        let now = Instant::now();
        Counter { bar, what, total, done, before: done, began: now, last_line: now }
    }

    pub(crate) fn add(&mut self, count: usize) {
        self.done += count;
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.done as u64);
                bar.set_message(self.left());
            }
            None if self.last_line.elapsed() >= INTERVAL => {
                self.last_line = Instant::now();
                eprintln!("{} {}/{}  {}", self.what, self.done, self.total, self.left());
            }
            None => {}
        }
    }

    fn left(&self) -> String {
        let here = (self.done - self.before).max(1) as f64;
        let left = self.began.elapsed().as_secs_f64() / here * (self.total - self.done) as f64;
        format!("{} left", clock(left))
    }

    /// Takes the bar away; gives the seconds.
    pub(crate) fn finish(self) -> f64 {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.began.elapsed().as_secs_f64()
    }
}
