//! Progress of running jobs: bars on a terminal, otherwise a line every few seconds.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use semfocus_core::EpochRecord;
use semfocus_lab::jobs::{Job, Observer, Sharing};
use semfocus_store::{End, Event, Holder, JobId, JobKind, State};

use crate::talk::{plain, say};
use crate::text::{clock, counted, shortened};

/// Without a terminal, a line is written this often.
const INTERVAL: Duration = Duration::from_secs(10);

/// Columns for the label of a bar.
const LABEL: usize = 24;

/// Shows the progress of jobs.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    board: Mutex<Board>,
    /// Wakes the ticker at the end.
    over: Condvar,
    view: View,
    stop: Arc<AtomicBool>,
}

enum View {
    Bars { all: MultiProgress, whole: ProgressBar },
    Lines,
    Quiet,
}

/// The state of all jobs.
struct Board {
    began: Instant,
    at_once: usize,
    unit: &'static str,
    jobs: HashMap<JobId, Entry>,
    finished: usize,
    said_waiting: bool,
    said_stopping: bool,
    last_line: Instant,
    is_over: bool,
}

/// The state of one job.
struct Entry {
    title: String,
    /// The title, shortened for a bar.
    label: String,
    /// Jobs of one group take about the same time: those of one mechanism.
    group: String,
    done: usize,
    total: usize,
    is_over: bool,
    running: Option<Running>,
    /// Units that this process did, and the seconds it took for them.
    pace: (usize, f64),
}

struct Running {
    since: Instant,
    done_before: usize,
    epochs: usize,
    loss: Option<f64>,
    last: Option<EpochRecord>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts to show the progress of these jobs, whose units of work are called `unit`.
    pub(crate) fn new(
        jobs: &[&dyn Job],
        unit: &'static str,
        sharing: Sharing,
        quiet: bool,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let view = if quiet {
            View::Quiet
        } else if std::io::stderr().is_terminal() {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            let whole = all.add(ProgressBar::new(jobs.iter().map(|job| job.units() as u64).sum()));
            whole.set_style(style());
            whole.set_prefix("all");
            View::Bars { all, whole }
        } else {
            View::Lines
        };
        let entry = |job: &&dyn Job| {
            let title = plain(&job.title());
            let entry = Entry {
                group: title.split(" seed ").next().unwrap_or_default().to_owned(),
                label: shortened(&title.replace(" seed ", " "), LABEL),
                title,
                done: 0,
                total: job.units(),
                is_over: false,
                running: None,
                pace: (0, 0.0),
            };
            (job.id(), entry)
        };
        let now = Instant::now();
        let board = Board {
            began: now,
            at_once: sharing.jobs.min(sharing.threads),
            unit,
            jobs: jobs.iter().map(entry).collect(),
            finished: 0,
            said_waiting: false,
            said_stopping: false,
            last_line: now,
            is_over: false,
        };
        let shared = Arc::new(Shared { board: Mutex::new(board), over: Condvar::new(), view, stop });
        // Without a thread, only the time left is not shown.
        let ticker = std::thread::Builder::new().spawn({
            let shared = shared.clone();
            move || shared.tick()
        });
        Progress { shared, ticker: ticker.ok() }
    }

    /// Removes the bars.
    pub(crate) fn finish(mut self) {
        self.shared.board().is_over = true;
        self.shared.over.notify_all();
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join(); // a ticker that failed has nothing more to say
        }
        if let View::Bars { all, .. } = &self.shared.view {
            let _ = all.clear(); // a terminal that is gone needs no clearing
        }
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{prefix:24} {bar:14} {msg}");
    style.expect("the template is a constant").progress_chars("━╸─")
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line without disturbing the bars.
    fn say(&self, text: &str) {
        match &self.view {
            View::Bars { all, .. } => {
                let _ = all.println(plain(text)); // a terminal that is gone needs no lines
            }
            View::Lines => say!("{text}"),
            View::Quiet => {}
        }
    }

    /// Updates the time left, notices a request to stop, and writes the lines.
    fn tick(&self) {
        let mut board = self.board();
        while !board.is_over {
            if self.stop.load(Ordering::Relaxed) && !board.said_stopping {
                board.said_stopping = true;
                self.say("Stopping after the current step; progress will be saved. Press Ctrl-C again to stop now.");
            }
            match &self.view {
                View::Bars { whole, .. } => {
                    whole.set_length(board.jobs.values().map(|entry| entry.total as u64).sum());
                    whole.set_position(board.units_done() as u64);
                    whole.set_message(board.whole());
                }
                View::Lines if board.last_line.elapsed() >= INTERVAL => {
                    board.last_line = Instant::now();
                    self.say(&board.line());
                }
                View::Lines | View::Quiet => {}
            }
            let (next, _) =
                self.over.wait_timeout(board, Duration::from_millis(200)).unwrap_or_else(PoisonError::into_inner);
            board = next;
        }
    }
}

impl Board {
    fn units_done(&self) -> usize {
        self.jobs.values().map(|entry| if entry.is_over { entry.total } else { entry.done }).sum()
    }

    /// Seconds per unit in a group of jobs, or in all of them, as measured by this process.
    fn unit_seconds(&self, group: Option<&str>) -> Option<f64> {
        let seen = self.jobs.values().filter(|entry| group.is_none_or(|group| entry.group == group)).map(Entry::pace);
        let (units, seconds) = seen.fold((0, 0.0), |sum, pace| (sum.0 + pace.0, sum.1 + pace.1));
        (units > 0).then(|| seconds / units as f64)
    }

    /// Seconds until everything is done.
    fn time_left(&self) -> Option<f64> {
        let mean = self.unit_seconds(None)?;
        let left = self.jobs.values().filter(|entry| !entry.is_over).map(|entry| {
            let seconds = self.unit_seconds(Some(&entry.group)).unwrap_or(mean);
            entry.total.saturating_sub(entry.done) as f64 * seconds
        });
        let left: Vec<f64> = left.collect();
        let longest = left.iter().copied().fold(0.0, f64::max);
        // At least the time of the longest job, which is not divided.
        Some((left.iter().sum::<f64>() / self.at_once as f64).max(longest))
    }

    fn whole(&self) -> String {
        let left = self.time_left().map_or_else(|| "…".to_owned(), |seconds| format!("{} left", clock(seconds)));
        format!("{} of {} done, {left}", self.finished, self.jobs.len())
    }

    fn line(&self) -> String {
        let total: usize = self.jobs.values().map(|entry| entry.total).sum();
        let mut running: Vec<String> = self
            .jobs
            .values()
            .filter_map(|entry| {
                let Running { last, epochs, .. } = entry.running.as_ref()?;
                let accuracy = last.map_or(String::new(), |record| {
                    format!(" epoch {epochs}, train {:.1} %", 100.0 * record.train_accuracy)
                });
                Some(format!("{} {}/{}{accuracy}", entry.title, entry.done, entry.total))
            })
            .collect();
        running.sort();
        let elapsed = clock(self.began.elapsed().as_secs_f64());
        let (done, unit, whole) = (self.units_done(), self.unit, self.whole());
        format!("{elapsed}  {done}/{total} {unit}, {whole}; {}", running.join("; "))
    }
}

impl Entry {
    /// Units that this process did, and the seconds it took for them.
    fn pace(&self) -> (usize, f64) {
        match &self.running {
            Some(running) if self.done > running.done_before => {
                (self.pace.0 + self.done - running.done_before, self.pace.1 + running.since.elapsed().as_secs_f64())
            }
            _ => self.pace,
        }
    }

    fn message(&self, running: &Running, kind: JobKind) -> String {
        let (units, seconds) = self.pace();
        let left = (units > 0).then(|| seconds / units as f64 * self.total.saturating_sub(self.done) as f64);
        let left = left.map_or_else(|| "…".to_owned(), clock);
        match (kind, running.last) {
            (JobKind::Train, Some(record)) => {
                let accuracy = 100.0 * record.train_accuracy;
                format!("epoch {} loss {:.3} train {accuracy:.1} % {left}", running.epochs, record.train_loss)
            }
            (JobKind::Train, None) => {
                let loss = running.loss.map_or_else(|| "–".to_owned(), |loss| format!("{loss:.3}"));
                format!("epoch {} loss {loss} {left}", running.epochs)
            }
            _ => format!("{}/{} {left}", self.done, self.total),
        }
    }

    /// A line that says how the job ended; none if it was over before it started.
    fn ending(&self, job: &JobId, end: &End) -> Option<String> {
        let title = &self.title;
        if let End::Failed(message) = end {
            return Some(format!("{title}: failed: {message}"));
        }
        let running = self.running.as_ref()?;
        let epochs = running.epochs;
        let accuracy = running.last.map_or(String::new(), |record| {
            let EpochRecord { train_accuracy, heldout_accuracy, .. } = record;
            format!(", train {:.1} %, held-out {:.1} %", 100.0 * train_accuracy, 100.0 * heldout_accuracy)
        });
        Some(match (job.kind, end) {
            (JobKind::Train, End::Over(State::Diverged)) => format!("{title}: diverged in epoch {}", epochs + 1),
            (JobKind::Train, End::Over(State::Stopped)) => {
                format!("{title}: reached its target in epoch {epochs}{accuracy}")
            }
            (JobKind::Train, End::Over(_)) => {
                format!("{title}: finished after {}{accuracy}", counted(epochs, "epoch"))
            }
            (JobKind::Train, End::Interrupted) => format!("{title}: saved after epoch {epochs}{accuracy}"),
            _ => return None,
        })
    }
}

impl Observer for Progress {
    fn event(&self, job: &JobId, event: &Event) {
        let mut board = self.shared.board();
        let Some(entry) = board.jobs.get_mut(job) else { return };
        match event {
            Event::JobStarted { done, total, epoch } => {
                (entry.done, entry.total) = (*done, *total);
                let bar = match &self.shared.view {
                    View::Bars { all, whole } => {
                        let bar = all.insert_before(whole, ProgressBar::new(*total as u64));
                        bar.set_style(style());
                        bar.set_prefix(entry.label.clone());
                        Some(bar)
                    }
                    _ => None,
                };
                let since = Instant::now();
                entry.running =
                    Some(Running { since, done_before: *done, epochs: *epoch, loss: None, last: None, bar });
                entry.show(job.kind);
            }
            Event::Progress { done, total, loss } => {
                (entry.done, entry.total) = (*done, *total);
                if let Some(running) = &mut entry.running {
                    running.loss = loss.or(running.loss);
                }
                entry.show(job.kind);
            }
            Event::Epoch(record) => {
                if let Some(running) = &mut entry.running {
                    (running.epochs, running.last) = (record.epoch, Some(*record));
                }
                entry.show(job.kind);
            }
            Event::Probe { .. } => {
                if job.kind == JobKind::Probe {
                    entry.done = entry.total;
                }
            }
            Event::Warning { text } => {
                drop(board);
                match &self.shared.view {
                    View::Quiet => say!("warning: {text}"),
                    _ => self.shared.say(&format!("warning: {text}")),
                }
            }
            Event::JobEnded { end } => {
                let text = entry.ending(job, end);
                entry.pace = entry.pace();
                if let Some(bar) = entry.running.take().and_then(|running| running.bar) {
                    bar.finish_and_clear();
                }
                if matches!(end, End::Over(_)) {
                    entry.is_over = true;
                    board.finished += 1;
                }
                drop(board);
                if let Some(text) = text {
                    self.shared.say(&text);
                }
            }
        }
    }

    fn waiting(&self, jobs: usize, holder: Option<&Holder>) {
        if std::mem::replace(&mut self.shared.board().said_waiting, true) {
            return;
        }
        let holder = holder.map_or_else(|| "another process".to_owned(), Holder::to_string);
        let (noun, them) = if jobs == 1 { ("job is", "it") } else { ("jobs are", "them") };
        self.shared.say(&format!("{jobs} {noun} held by {holder}; waiting for {them}"));
    }
}

impl Entry {
    /// Updates the bar.
    fn show(&self, kind: JobKind) {
        let Some(running) = &self.running else { return };
        if let Some(bar) = &running.bar {
            bar.set_length(self.total as u64);
            bar.set_position(self.done as u64);
            bar.set_message(self.message(running, kind));
        }
    }
}
