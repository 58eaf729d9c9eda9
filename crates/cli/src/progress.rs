//! What a person sees while trials are trained: bars on a terminal, a line now and then elsewhere.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use semfocus_lab::executor::{Observe, Sharing, TrialEnd};
use semfocus_lab::store::{EpochRecord, Holder, State};
use semfocus_lab::training::Watch;
use semfocus_lab::{Plan, Trial, TrialId};

use crate::text::{clock, shortened};

/// Without a terminal, a line is written this often.
const INTERVAL: Duration = Duration::from_secs(10);

/// Columns for the name of a trial.
const TITLE: usize = 24;

/// Watches a run.
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

/// How all trials stand.
struct Board {
    began: Instant,
    at_once: usize,
    trials: HashMap<TrialId, Entry>,
    /// Seconds and number of the epochs that this run completed, by mechanism.
    times: HashMap<String, (f64, usize)>,
    finished: usize,
    said_waiting: bool,
    said_stopping: bool,
    last_line: Instant,
    is_over: bool,
}

struct Entry {
    mechanism: String,
    title: String,
    epochs: usize,
    done: usize,
    is_over: bool,
    running: Option<Running>,
}

struct Running {
    steps_per_epoch: usize,
    step: usize,
    last: Option<EpochRecord>,
    /// Seconds of an epoch, smoothed: the share of the cores may change.
    epoch_seconds: Option<f64>,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(plan: &Plan, sharing: Sharing, quiet: bool, stop: Arc<AtomicBool>) -> Self {
        let view = if quiet {
            View::Quiet
        } else if std::io::stderr().is_terminal() {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            let whole = all.add(ProgressBar::new(plan.epochs() as u64));
            whole.set_style(style("{prefix:24} {bar:14} {msg}"));
            whole.set_prefix("all trials");
            View::Bars { all, whole }
        } else {
            View::Lines
        };
        let entry = |trial: &Trial| Entry {
            mechanism: trial.settings.mechanism.clone(),
            title: shortened(&trial.title().replace(" seed ", " "), TITLE),
            epochs: trial.settings.training.epochs,
            done: 0,
            is_over: false,
            running: None,
        };
        let now = Instant::now();
        let board = Board {
            began: now,
            at_once: sharing.jobs.min(sharing.threads),
            trials: plan.trials.iter().map(|trial| (trial.id, entry(trial))).collect(),
            times: HashMap::new(),
            finished: 0,
            said_waiting: false,
            said_stopping: false,
            last_line: now,
            is_over: false,
        };
        let shared = Arc::new(Shared { board: Mutex::new(board), over: Condvar::new(), view, stop });
        let ticker = std::thread::spawn({
            let shared = shared.clone();
            move || shared.tick()
        });
        Progress { shared, ticker: Some(ticker) }
    }

    /// Takes the bars away.
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

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is tested by every run").progress_chars("━╸─")
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something without disturbing the bars.
    fn say(&self, text: &str) {
        match &self.view {
            View::Bars { all, .. } => {
                let _ = all.println(text); // a terminal that is gone needs no lines
            }
            View::Lines => eprintln!("{text}"),
            View::Quiet => {}
        }
    }

    /// Keeps the time running, notices the wish to stop, and writes the lines.
    fn tick(&self) {
        let mut board = self.board();
        while !board.is_over {
            if self.stop.load(Ordering::Relaxed) && !board.said_stopping {
                board.said_stopping = true;
                self.say("stopping: the steps under way are finished and saved; once more stops at once");
            }
            match &self.view {
                View::Bars { whole, .. } => {
                    whole.set_position(board.epochs_done() as u64);
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
    fn epochs_done(&self) -> usize {
        self.trials.values().map(|entry| if entry.is_over { entry.epochs } else { entry.done }).sum()
    }

    /// Seconds until everything is done, from the epochs seen so far.
    fn time_left(&self) -> Option<f64> {
        let (seconds, epochs) = self.times.values().fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let mean = if epochs == 0 { return None } else { seconds / epochs as f64 };
        let left = self.trials.values().filter(|entry| !entry.is_over).map(|entry| {
            let mean = self.times.get(&entry.mechanism).map_or(mean, |(seconds, epochs)| seconds / *epochs as f64);
            let begun = entry.running.as_ref().map_or(0.0, |r| r.step as f64 / r.steps_per_epoch.max(1) as f64);
            (entry.epochs.saturating_sub(entry.done) as f64 - begun).max(0.0) * mean
        });
        let left: Vec<f64> = left.collect();
        let longest = left.iter().copied().fold(0.0, f64::max);
        // No sooner than the longest trial: it is one after the other within a trial.
        Some((left.iter().sum::<f64>() / self.at_once as f64).max(longest))
    }

    fn whole(&self) -> String {
        let left = self.time_left().map_or_else(|| "…".to_owned(), |seconds| format!("{} left", clock(seconds)));
        format!("{} of {} done, {left}", self.finished, self.trials.len())
    }

    fn line(&self) -> String {
        let epochs: usize = self.trials.values().map(|entry| entry.epochs).sum();
        let mut running: Vec<String> = self
            .trials
            .values()
            .filter_map(|entry| {
                let last = entry.running.as_ref()?.last;
                let accuracy = last.map_or(String::new(), |r| format!(" {:.1} %", 100.0 * r.train_accuracy));
                Some(format!("{} {}/{}{accuracy}", entry.title, entry.done, entry.epochs))
            })
            .collect();
        running.sort();
        let elapsed = clock(self.began.elapsed().as_secs_f64());
        let (done, whole) = (self.epochs_done(), self.whole());
        format!("{elapsed}  {done}/{epochs} epochs, {whole}; {}", running.join("; "))
    }
}

impl Entry {
    fn message(&self, running: &Running) -> String {
        let (loss, accuracy) = match running.last {
            Some(record) => (format!("{:.3}", record.train_loss), format!("{:.1}", 100.0 * record.train_accuracy)),
            None => ("–".to_owned(), "–".to_owned()),
        };
        let left = running
            .epoch_seconds
            .map_or_else(|| "…".to_owned(), |seconds| clock(self.epochs.saturating_sub(self.done) as f64 * seconds));
        format!("{:>3}/{} loss {loss} acc {accuracy} % {left}", self.done, self.epochs)
    }
}

impl Watch for Progress {
    fn begins(&self, trial: &Trial, epochs_done: usize, steps_per_epoch: usize) {
        let mut board = self.shared.board();
        let Some(entry) = board.trials.get_mut(&trial.id) else { return };
        entry.done = epochs_done;
        let bar = match &self.shared.view {
            View::Bars { all, whole } => {
                let bar = all.insert_before(whole, ProgressBar::new((entry.epochs * steps_per_epoch) as u64));
                bar.set_style(style("{prefix:24} {bar:14} {msg}"));
                bar.set_prefix(entry.title.clone());
                Some(bar)
            }
            _ => None,
        };
        let running = Running { steps_per_epoch, step: 0, last: None, epoch_seconds: None, bar };
        if let Some(bar) = &running.bar {
            bar.set_message(entry.message(&running));
            bar.set_position((epochs_done * steps_per_epoch) as u64);
        }
        entry.running = Some(running);
    }

    fn step(&self, trial: &Trial, step: usize) {
        let mut board = self.shared.board();
        let Some(entry) = board.trials.get_mut(&trial.id) else { return };
        let done = entry.done;
        if let Some(running) = &mut entry.running {
            running.step = step;
            if let Some(bar) = &running.bar {
                bar.set_position((done * running.steps_per_epoch + step) as u64);
            }
        }
    }

    fn epoch(&self, trial: &Trial, record: &EpochRecord) {
        let mut board = self.shared.board();
        let times = board.times.entry(trial.settings.mechanism.clone()).or_default();
        *times = (times.0 + record.seconds, times.1 + 1);
        let Some(entry) = board.trials.get_mut(&trial.id) else { return };
        entry.done = record.epoch;
        if let Some(mut running) = entry.running.take() {
            running.step = 0;
            running.last = Some(*record);
            let before = running.epoch_seconds.unwrap_or(record.seconds);
            running.epoch_seconds = Some(0.7 * before + 0.3 * record.seconds);
            if let Some(bar) = &running.bar {
                bar.set_message(entry.message(&running));
            }
            entry.running = Some(running);
        }
    }

    fn warning(&self, _trial: &Trial, text: &str) {
        match &self.shared.view {
            View::Quiet => eprintln!("warning: {text}"),
            _ => self.shared.say(&format!("warning: {text}")),
        }
    }
}

impl Observe for Progress {
    fn ends(&self, trial: &Trial, end: &TrialEnd) {
        let mut board = self.shared.board();
        let Some(entry) = board.trials.get_mut(&trial.id) else { return };
        let running = entry.running.take();
        if let Some(bar) = running.as_ref().and_then(|running| running.bar.as_ref()) {
            bar.finish_and_clear();
        }
        let last = running.and_then(|running| running.last);
        let accuracy = last.map_or(String::new(), |record| {
            let EpochRecord { train_accuracy, heldout_accuracy, .. } = record;
            format!(", train {:.1} %, held-out {:.1} %", 100.0 * train_accuracy, 100.0 * heldout_accuracy)
        });
        let (title, done) = (trial.title(), entry.done);
        let text = match end {
            TrialEnd::Over { already: true, .. } => None,
            TrialEnd::Over { state: State::Diverged, .. } => Some(format!("{title}: diverged in epoch {}", done + 1)),
            TrialEnd::Over { state, .. } => Some(format!("{title}: {} at {done}{accuracy}", state.name())),
            TrialEnd::Interrupted => Some(format!("{title}: saved at {done}{accuracy}")),
            TrialEnd::Failed(message) => Some(format!("{title}: failed: {message}")),
        };
        if matches!(end, TrialEnd::Over { .. }) {
            entry.is_over = true;
            board.finished += 1;
        }
        drop(board);
        if let Some(text) = text {
            self.shared.say(&text);
        }
    }

    fn waits(&self, trials: usize, holder: Option<&Holder>) {
        let mut board = self.shared.board();
        if std::mem::replace(&mut board.said_waiting, true) {
            return;
        }
        drop(board);
        let holder = holder.map_or_else(|| "another process".to_owned(), Holder::to_string);
        let noun = if trials == 1 { "trial is" } else { "trials are" };
        self.shared.say(&format!("{trials} {noun} held by {holder}; waiting for it"));
    }
}
