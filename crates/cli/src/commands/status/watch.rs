//! `semfocus status --watch`: the progress of a run until it ends.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use semfocus_store::Store;

use super::Report;
use crate::damage::left_out;
use crate::talk::{plain, say};
use crate::{Error, Exit};

/// How often the screen is drawn again.
const REFRESH: Duration = Duration::from_secs(2);

/// Without a terminal, a line is written this often at most.
const INTERVAL: Duration = Duration::from_secs(10);

/// Between two trials no process holds one for a moment, so it takes several looks to say that a run has ended.
const LOOKS: usize = 3;

pub(super) fn run(dir: &Path, all: bool, out: &mut dyn Write) -> Result<Exit, Error> {
    let store = Store::open(dir)?;
    let is_terminal = io::stdout().is_terminal();
    let mut last_line: Option<Instant> = None;
    let mut idle = 0;
    loop {
        let report = Report::read(&store)?;
        idle = if report.is_running() { 0 } else { idle + 1 };
        let is_over = report.time_left().is_none();
        let is_last = is_over || idle >= LOOKS;
        if is_terminal {
            if last_line.replace(Instant::now()).is_none() {
                clear()?;
            }
            draw(&report, all)?;
        } else if is_last || last_line.is_none_or(|last| last.elapsed() >= INTERVAL) {
            last_line = Some(Instant::now());
            let time = report.time_left().map_or(String::new(), |time| format!("; time left {time}"));
            writeln!(out, "trials {}; epochs {} of {}{time}", report.counts(), report.epochs_done, report.epochs)?;
            out.flush()?;
        }
        if is_last {
            if !is_over {
                say!("no process works on this run; `semfocus run {}` resumes it", dir.display());
            }
            return Ok(left_out(dir, &report.damage));
        }
        std::thread::sleep(REFRESH);
    }
}

fn clear() -> io::Result<()> {
    io::stdout().write_all("\u{1b}[2J".as_bytes())
}

/// Draws the report over the one before.
fn draw(report: &Report, all: bool) -> Result<(), Error> {
    let mut text = Vec::new();
    // Lines that do not fit on the screen would scroll.
    report.print(if all { usize::MAX } else { 0 }, &mut text)?;
    let text = plain(&String::from_utf8_lossy(&text));
    // To the top left corner, then every line with the rest of the old one cleared, then everything below.
    let lines: String = text.lines().map(|line| format!("{line}\u{1b}[K\n")).collect();
    let mut screen = io::stdout();
    screen.write_all(format!("\u{1b}[H{lines}\u{1b}[J").as_bytes())?;
    Ok(screen.flush()?)
}
