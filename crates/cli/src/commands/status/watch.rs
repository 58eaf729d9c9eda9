//! `semfocus status --watch`: the progress of a run, or of all runs in a folder, until nothing happens any more.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use semfocus_analysis::overview::Overview;
use semfocus_store::{Follower, Store};

use super::runs::folders;
use super::{counts, print, time_left};
use crate::damage::left_out;
use crate::table::Table;
use crate::talk::{plain, say};
use crate::text::command_on;
use crate::{Error, Exit};

/// How often the screen is drawn again.
const REFRESH: Duration = Duration::from_secs(2);

/// Without a terminal, a line is written this often at most.
const INTERVAL: Duration = Duration::from_secs(10);

/// Between two trials no process holds one for a moment, so it takes several looks to say that a run has ended.
const LOOKS: usize = 3;

/// What a look at runs has found.
struct Look {
    is_running: bool,
    is_over: bool,
    /// What a terminal shows.
    screen: Vec<u8>,
    /// What a file or a pipe gets.
    line: String,
}

/// Watches one run.
pub(super) fn run(dir: &Path, all: bool, out: &mut dyn Write) -> Result<Exit, Error> {
    let mut follower = Follower::new(Store::open(dir)?);
    let mut run = Overview::default();
    let is_over = repeat(out, || {
        run.update(&mut follower)?;
        let time = time_left(&run);
        let mut screen = Vec::new();
        // Lines that do not fit on the screen would scroll.
        print(&run, if all { usize::MAX } else { 0 }, &mut screen)?;
        let left = time.as_ref().map_or(String::new(), |time| format!("; time left {time}"));
        let line = format!("trials {}; epochs {} of {}{left}", counts(&run), run.epochs_done, run.epochs);
        Ok(Look { is_running: run.is_running(), is_over: time.is_none(), screen, line })
    })?;
    if !is_over {
        say!("No process works on this run. To resume:\n  {}", command_on("run", dir));
    }
    Ok(left_out(dir, &run.damage))
}

/// Watches all runs in a folder, also those that begin later, as long as one of them is running.
pub(super) fn all(folder: &Path, out: &mut dyn Write) -> Result<Exit, Error> {
    let mut runs: BTreeMap<PathBuf, (Follower, Overview)> = BTreeMap::new();
    repeat(out, || {
        let mut table = Table::new(["run", ">trials", ">running", ">epochs", ">time left"]);
        for dir in folders(folder) {
            let new = || (Follower::new(Store::at(&dir)), Overview::default());
            let (follower, run) = runs.entry(dir.clone()).or_insert_with(new);
            let name = dir.display().to_string();
            let cells = match run.update(follower) {
                Ok(()) => [
                    format!("{} of {}", run.done + run.diverged, run.trials),
                    run.running.to_string(),
                    format!("{} of {}", run.epochs_done, run.epochs),
                    time_left(run).filter(|_| run.is_running()).unwrap_or_else(|| "–".to_owned()),
                ],
                Err(_) => ["unreadable", "–", "–", "–"].map(str::to_owned),
            };
            let [trials, running, epochs, time] = cells;
            table.row([name, trials, running, epochs, time]);
        }
        let mut screen = Vec::new();
        table.print(&mut screen)?;
        let (is_running, is_over) = runs.values().fold((false, true), |(running, over), (_, run)| {
            (running || run.is_running(), over && time_left(run).is_none())
        });
        let line = String::from_utf8_lossy(&screen).trim_end().to_owned();
        Ok(Look { is_running, is_over, screen, line })
    })?;
    Ok(Exit::Done)
}

/// Looks again and again, until everything is over or several looks have found nothing that runs. Returns whether it is over.
fn repeat(out: &mut dyn Write, mut look: impl FnMut() -> Result<Look, Error>) -> Result<bool, Error> {
    let is_terminal = io::stdout().is_terminal();
    let (mut last, mut idle) = (None::<Instant>, 0);
    loop {
        let Look { is_running, is_over, screen, line } = look()?;
        idle = if is_running { 0 } else { idle + 1 };
        let is_last = is_over || idle >= LOOKS;
        if is_terminal {
            draw(&screen, last.is_none())?;
        } else if is_last || last.is_none_or(|last| last.elapsed() >= INTERVAL) {
            writeln!(out, "{line}")?;
            out.flush()?;
        } else {
            std::thread::sleep(REFRESH);
            continue;
        }
        last = Some(Instant::now());
        if is_last {
            return Ok(is_over);
        }
        std::thread::sleep(REFRESH);
    }
}

/// Draws text over that of the look before, or on an empty screen.
fn draw(text: &[u8], is_first: bool) -> io::Result<()> {
    let clear = if is_first { "\u{1b}[2J" } else { "" };
    let text = plain(&String::from_utf8_lossy(text));
    // To the top left corner, then every line with the rest of the old one cleared, then everything below.
    let lines: String = text.lines().map(|line| format!("{line}\u{1b}[K\n")).collect();
    let mut screen = io::stdout();
    screen.write_all(format!("{clear}\u{1b}[H{lines}\u{1b}[J").as_bytes())?;
    screen.flush()
}
