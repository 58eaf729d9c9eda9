//! `semfocus status --watch`: the progress of a run until it ends.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use semfocus_analysis::overview::Overview;
use semfocus_store::{Follower, Store};

use super::{counts, print, time_left};
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
    let mut follower = Follower::new(Store::open(dir)?);
    let mut run = Overview::default();
    let is_terminal = io::stdout().is_terminal();
    let mut last_line: Option<Instant> = None;
    let mut idle = 0;
    loop {
        run.update(&mut follower)?;
        idle = if run.is_running() { 0 } else { idle + 1 };
        let is_over = time_left(&run).is_none();
        let is_last = is_over || idle >= LOOKS;
        if is_terminal {
            if last_line.replace(Instant::now()).is_none() {
                clear()?;
            }
            draw(&run, all)?;
        } else if is_last || last_line.is_none_or(|last| last.elapsed() >= INTERVAL) {
            last_line = Some(Instant::now());
            let time = time_left(&run).map_or(String::new(), |time| format!("; time left {time}"));
            writeln!(out, "trials {}; epochs {} of {}{time}", counts(&run), run.epochs_done, run.epochs)?;
            out.flush()?;
        }
        if is_last {
            if !is_over {
                say!("no process works on this run; `semfocus run {}` resumes it", dir.display());
            }
            return Ok(left_out(dir, &run.damage));
        }
        std::thread::sleep(REFRESH);
    }
}

fn clear() -> io::Result<()> {
    io::stdout().write_all("\u{1b}[2J".as_bytes())
}

/// Draws the report over the one before.
fn draw(run: &Overview, all: bool) -> Result<(), Error> {
    let mut text = Vec::new();
    // Lines that do not fit on the screen would scroll.
    print(run, if all { usize::MAX } else { 0 }, &mut text)?;
    let text = plain(&String::from_utf8_lossy(&text));
    // To the top left corner, then every line with the rest of the old one cleared, then everything below.
    let lines: String = text.lines().map(|line| format!("{line}\u{1b}[K\n")).collect();
    let mut screen = io::stdout();
    screen.write_all(format!("\u{1b}[H{lines}\u{1b}[J").as_bytes())?;
    Ok(screen.flush()?)
}
