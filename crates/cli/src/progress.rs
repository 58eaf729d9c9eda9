//! Progress of running jobs: bars on a terminal, otherwise a line every few seconds.

mod layout;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use semfocus_core::{EpochRecord, Metric};
use semfocus_lab::jobs::{Job, Observer, Sharing};
use semfocus_store::{End, Event, Holder, JobId, JobKind, State};

use crate::screen::{Screen, can_redraw};
use crate::talk::{Colour, plain, say};
use crate::text::{clock, counted};
use layout::{Fact, Line, fit};

/// How often bars are drawn.
const FRAME: Duration = Duration::from_millis(200);

/// Without a terminal, a line is written this often: soon at first, so that it is seen to run, and rarely in long runs.
fn interval(elapsed: Duration) -> Duration {
    Duration::from_secs(match elapsed.as_secs() {
        0..5 => 2,
        5..60 => 10,
        _ => 30,
    })
}

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
    Bars(Mutex<Screen>),
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
    kind: JobKind,
    title: String,
    /// Jobs of one group take about the same time: those of one mechanism.
    group: String,
    done: usize,
    total: usize,
    /// Epochs that the units make, if it is training.
    epochs: usize,
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
}

impl Running {
    /// Training and held-out accuracy after the last epoch, in per cent.
    fn accuracies(&self) -> Option<[f64; 2]> {
        let metrics = self.last?.metrics;
        Some([Metric::TrainAccuracy, Metric::HeldoutAccuracy].map(|metric| 100.0 * metrics[metric]))
    }
}

impl Progress {
    /// Starts to show the progress of these jobs, which are of one kind.
    pub(crate) fn new(jobs: &[&dyn Job], sharing: Sharing, quiet: bool, stop: Arc<AtomicBool>) -> Self {
        let view = if quiet {
            View::Quiet
        } else if can_redraw() {
            View::Bars(Mutex::default())
        } else {
            View::Lines
        };
        let entry = |job: &&dyn Job| {
            let title = plain(&job.title());
            let entry = Entry {
                kind: job.id().kind,
                group: title.split(" seed ").next().unwrap_or_default().to_owned(),
                title,
                done: 0,
                total: job.units(),
                epochs: job.epochs(),
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
            unit: jobs.first().map_or("", |job| job.unit()),
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
        if let View::Bars(screen) = &self.shared.view {
            locked(screen).draw(Vec::new());
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        locked(&self.board)
    }

    /// Writes a line without disturbing the bars.
    fn say(&self, text: &str) {
        match &self.view {
            View::Bars(screen) => locked(screen).say(text),
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
                View::Bars(screen) => {
                    let (columns, rows) = Screen::size();
                    locked(screen).draw(fit(&board.lines(rows), columns));
                }
                View::Lines if board.last_line.elapsed() >= interval(board.began.elapsed()) => {
                    board.last_line = Instant::now();
                    self.say(&board.log_line());
                }
                View::Lines | View::Quiet => {}
            }
            let (next, _) = self.over.wait_timeout(board, FRAME).unwrap_or_else(PoisonError::into_inner);
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

    /// One line for each running job, as many as there is room for, and one for all jobs.
    fn lines(&self, rows: usize) -> Vec<Line> {
        let mut running: Vec<&Entry> = self.jobs.values().filter(|entry| entry.running.is_some()).collect();
        running.sort_by(|a, b| a.title.cmp(&b.title));
        let shown = running.len().min(rows.saturating_sub(3));
        let mut lines: Vec<Line> = running[..shown].iter().map(|entry| entry.line()).collect();
        let (done, total) = (self.units_done(), self.jobs.values().map(|entry| entry.total).sum::<usize>());
        let mut facts = vec![
            Fact::new(3, format!("{done}/{total} {}", self.unit)),
            Fact::new(1, format!("{} of {} done", self.finished, self.jobs.len())),
        ];
        if shown < running.len() {
            facts.push(Fact::new(2, format!("{} running", running.len())));
        }
        facts.push(Fact::new(0, left(self.time_left())));
        lines.push(Line { label: "all".to_owned(), share: done as f64 / total.max(1) as f64, facts });
        lines
    }

    /// The same lines as a single one for a log.
    fn log_line(&self) -> String {
        let facts = |line: &Line| line.facts.iter().map(|fact| fact.text.as_str()).collect::<Vec<_>>().join(", ");
        let lines = self.lines(usize::MAX);
        let (all, running) = lines.split_last().expect("there is a line for all jobs");
        let running: String = running.iter().map(|line| format!("; {}: {}", line.label, facts(line))).collect();
        format!("{}  {}{running}", clock(self.began.elapsed().as_secs_f64()), facts(all))
    }
}

/// The time left in words.
fn left(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "estimating".to_owned(), |seconds| format!("{} left", clock(seconds)))
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

    fn line(&self) -> Line {
        let mut facts = self.facts();
        let (units, seconds) = self.pace();
        let seconds = (units > 0).then(|| seconds / units as f64 * self.total.saturating_sub(self.done) as f64);
        facts.push(Fact::new(0, left(seconds)));
        Line { label: self.title.clone(), share: self.done as f64 / self.total.max(1) as f64, facts }
    }

    /// How far the job is, and what it has reached.
    fn facts(&self) -> Vec<Fact> {
        let Some(running) = self.running.as_ref().filter(|_| self.kind == JobKind::Train) else {
            return vec![Fact::new(1, format!("{}/{}", self.done, self.total))];
        };
        // The epoch that is under way.
        let current = self.done * self.epochs / self.total.max(1) + 1;
        let mut facts = vec![Fact::new(1, format!("epoch {}/{}", current.min(self.epochs), self.epochs))];
        if let Some(loss) = running.loss {
            facts.push(Fact::new(4, format!("loss {loss:.3}")));
        }
        if let Some([train, held_out]) = running.accuracies() {
            facts.push(Fact::new(3, format!("train {train:.1} %")));
            facts.push(Fact::new(2, format!("held-out {held_out:.1} %")));
        }
        facts
    }

    /// A line that says how the job ended; none if it was over before it started.
    fn ending(&self, job: &JobId, end: &End) -> Option<String> {
        let title = &self.title;
        if let End::Failed(message) = end {
            return Some(format!("{title}: {}: {message}", Colour::Red.on_stderr("failed")));
        }
        let running = self.running.as_ref()?;
        let epochs = running.epochs;
        let accuracy = running
            .accuracies()
            .map_or(String::new(), |[train, held_out]| format!(", train {train:.1} %, held-out {held_out:.1} %"));
        Some(match (job.kind, end) {
            (JobKind::Train, End::Over(State::Diverged)) => {
                format!("{title}: {} in epoch {}", Colour::Red.on_stderr("diverged"), epochs + 1)
            }
            (JobKind::Train, End::Over(State::Stopped)) => {
                let reached = Colour::Green.on_stderr("reached its target");
                format!("{title}: {reached} in epoch {epochs}{accuracy}")
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
                let since = Instant::now();
                entry.running = Some(Running { since, done_before: *done, epochs: *epoch, loss: None, last: None });
            }
            Event::Progress { done, total, loss } => {
                (entry.done, entry.total) = (*done, *total);
                if let Some(running) = &mut entry.running {
                    running.loss = loss.or(running.loss);
                }
            }
            Event::Epoch(record) => {
                if let Some(running) = &mut entry.running {
                    (running.epochs, running.last) = (record.epoch, Some(*record));
                }
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
                    _ => self.shared.say(&format!("{}: {text}", Colour::Yellow.on_stderr("warning"))),
                }
            }
            Event::JobEnded { end } => {
                let text = entry.ending(job, end);
                entry.pace = entry.pace();
                entry.running = None;
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
