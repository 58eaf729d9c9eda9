//! Progress of running jobs: bars on a terminal, otherwise a line every few seconds.

mod layout;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use semfocus_core::time_left::{probable_end, time_side_by_side};
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
    /// The same of units that were on record before.
    recorded: (usize, f64),
}

struct Running {
    since: Instant,
    done_before: usize,
    epochs: usize,
    last: Option<EpochRecord>,
}

impl Running {
    /// Training and held-out accuracy after the last epoch, in per cent.
    fn accuracies(&self) -> Option<[f64; 2]> {
        let metrics = self.last?.metrics;
        Some([Metric::TrainAccuracy, Metric::HeldoutAccuracy].map(|metric| 100.0 * metrics[metric]))
    }
}

/// What is known of the jobs of a group.
#[derive(Default)]
struct Group {
    pace: (usize, f64),
    recorded: (usize, f64),
    /// Jobs that are over, and the units that they did: fewer than planned if they reached their target.
    over: (usize, usize),
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
            let (title, total, recorded) = (plain(&job.title()), job.units(), job.units_recorded());
            let entry = Entry {
                kind: job.id().kind,
                group: title.split(" seed ").next().unwrap_or_default().to_owned(),
                title,
                done: recorded.0.min(total),
                total,
                epochs: job.epochs(),
                is_over: job.seems_over().is_some(),
                running: None,
                pace: (0, 0.0),
                recorded,
            };
            (job.id(), entry)
        };
        let now = Instant::now();
        let board = Board {
            began: now,
            at_once: sharing.jobs.min(sharing.threads),
            unit: jobs.first().map_or("", |job| job.unit()),
            jobs: jobs.iter().map(entry).collect(),
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

    fn finished(&self) -> usize {
        self.jobs.values().filter(|entry| entry.is_over).count()
    }

    /// What is known of each group, and of all jobs.
    fn groups(&self) -> (HashMap<&str, Group>, Group) {
        let (mut groups, mut all) = (HashMap::<&str, Group>::new(), Group::default());
        for entry in self.jobs.values() {
            groups.entry(&entry.group).or_default().add(entry);
            all.add(entry);
        }
        (groups, all)
    }

    /// Seconds until everything is done.
    fn time_left(&self) -> Option<f64> {
        let (groups, all) = self.groups();
        let mean = all.unit_seconds()?;
        let open = self.jobs.values().filter(|entry| !entry.is_over);
        Some(time_side_by_side(open.map(|entry| groups[entry.group.as_str()].time_left(entry, mean)), self.at_once))
    }

    /// One line for each running job, as many as there is room for, and one for all jobs.
    fn lines(&self, rows: usize) -> Vec<Line> {
        let mut running: Vec<&Entry> = self.jobs.values().filter(|entry| entry.running.is_some()).collect();
        running.sort_by(|a, b| a.title.cmp(&b.title));
        let shown = running.len().min(rows.saturating_sub(3));
        let (groups, all) = self.groups();
        let time_left = |entry: &Entry| Some(groups[entry.group.as_str()].time_left(entry, all.unit_seconds()?));
        let mut lines: Vec<Line> = running[..shown].iter().map(|entry| entry.line(time_left(entry))).collect();
        let (done, total) = (self.units_done(), self.jobs.values().map(|entry| entry.total).sum::<usize>());
        let mut facts = vec![
            Fact::new(3, format!("{done}/{total} {}", self.unit)),
            Fact::new(1, format!("{} of {} done", self.finished(), self.jobs.len())),
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

impl Group {
    fn add(&mut self, entry: &Entry) {
        let pace = entry.pace();
        self.pace = (self.pace.0 + pace.0, self.pace.1 + pace.1);
        self.recorded = (self.recorded.0 + entry.recorded.0, self.recorded.1 + entry.recorded.1);
        if entry.is_over {
            self.over = (self.over.0 + 1, self.over.1 + entry.done);
        }
    }

    /// Seconds of a unit: as measured by this process, or as they were recorded before.
    fn unit_seconds(&self) -> Option<f64> {
        let (units, seconds) = if self.pace.0 > 0 { self.pace } else { self.recorded };
        (units > 0 && seconds > 0.0).then(|| seconds / units as f64)
    }

    /// Seconds that a job has left: to where those of its group ended that are over, if that is ahead. `mean` is what a unit takes
    /// if none of the group was done.
    fn time_left(&self, entry: &Entry, mean: f64) -> f64 {
        let end = probable_end(self.over, entry.done, entry.total);
        end.saturating_sub(entry.done) as f64 * self.unit_seconds().unwrap_or(mean)
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

    fn line(&self, time_left: Option<f64>) -> Line {
        let mut facts = self.facts();
        facts.push(Fact::new(0, left(time_left)));
        Line { label: self.title.clone(), share: self.done as f64 / self.total.max(1) as f64, facts }
    }

    /// How far the job is, and what it has reached: loss and accuracies are those of the last complete epoch.
    fn facts(&self) -> Vec<Fact> {
        let Some(running) = self.running.as_ref().filter(|_| self.kind == JobKind::Train) else {
            return vec![Fact::new(1, format!("{}/{}", self.done, self.total))];
        };
        let width = self.epochs.to_string().len();
        let mut facts = vec![Fact::new(1, format!("epoch {:width$}/{}", running.epochs, self.epochs))];
        if let (Some(record), Some([train, held_out])) = (running.last, running.accuracies()) {
            facts.push(Fact::new(4, format!("loss {:.3}", record.metrics[Metric::TrainLoss])));
            facts.push(Fact::new(3, format!("train {train:5.1} %")));
            facts.push(Fact::new(2, format!("held-out {held_out:5.1} %")));
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
                entry.running = Some(Running { since, done_before: *done, epochs: *epoch, last: None });
                entry.is_over = false; // it seemed to be, but has to be repaired
            }
            Event::Progress { done, total, .. } => (entry.done, entry.total) = (*done, *total),
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
                entry.is_over |= matches!(end, End::Over(_));
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use semfocus_core::{Metrics, TrialId};
    use semfocus_lab::jobs::{Context, JobError};

    use super::*;

    /// A trial of 10 epochs of 100 steps, of which some epochs are on record.
    struct Recorded {
        mechanism: &'static str,
        seed: u64,
        epochs: usize,
        over: Option<State>,
    }

    impl Job for Recorded {
        fn id(&self) -> JobId {
            let trial: TrialId = format!("{:x}", 100 * self.mechanism.len() as u64 + self.seed).parse().unwrap();
            JobId { kind: JobKind::Train, trial, part: String::new() }
        }
        fn title(&self) -> String {
            format!("{} seed {}", self.mechanism, self.seed)
        }
        fn folder(&self) -> &Path {
            Path::new("")
        }
        fn units(&self) -> usize {
            1000
        }
        fn unit(&self) -> &'static str {
            "steps"
        }
        fn epochs(&self) -> usize {
            10
        }
        fn units_recorded(&self) -> (usize, f64) {
            (100 * self.epochs, 2.0 * self.epochs as f64)
        }
        fn seems_over(&self) -> Option<State> {
            self.over
        }
        fn state_if_over(&self) -> Result<Option<State>, JobError> {
            Ok(self.over)
        }
        fn run(&self, _: &Context<'_>) -> Result<End, JobError> {
            unreachable!("it is only shown")
        }
    }

    fn progress(jobs: &[Recorded]) -> Progress {
        let jobs: Vec<&dyn Job> = jobs.iter().map(|job| job as &dyn Job).collect();
        Progress::new(&jobs, Sharing { threads: 2, jobs: 2 }, true, Arc::default())
    }

    fn record(epoch: usize) -> EpochRecord {
        let metrics = Metrics::new(|_| 0.1 * epoch as f64);
        EpochRecord { epoch, metrics, seconds: 1.0, steps: 100 * epoch as u64 }
    }

    #[test]
    fn what_was_done_before_counts_as_done() {
        let over = |seed| Recorded { mechanism: "full", seed, epochs: 10, over: Some(State::Finished) };
        let begun = Recorded { mechanism: "full", seed: 3, epochs: 5, over: None };
        let new = Recorded { mechanism: "topk:5", seed: 1, epochs: 0, over: None };
        let jobs = [over(1), over(2), begun, new];
        let progress = progress(&jobs);
        // 5 epochs of 2 s, and 10 of a mechanism of which nothing is known, on two cores.
        assert!(progress.shared.board().log_line().ends_with("2500/4000 steps, 2 of 4 done, 0:20 left"));
        // It is found to be over, which it was before: nothing changes.
        progress.event(&jobs[0].id(), &Event::JobEnded { end: End::Over(State::Finished) });
        assert!(progress.shared.board().log_line().contains("2500/4000 steps, 2 of 4 done"));
        // A damaged trial starts again.
        progress.event(&jobs[1].id(), &Event::JobStarted { done: 0, total: 1000, epoch: 0 });
        assert!(progress.shared.board().log_line().contains("1500/4000 steps, 1 of 4 done"));
        progress.finish();
    }

    #[test]
    fn trials_probably_end_where_others_of_their_mechanism_ended() {
        let stopped = |seed, epochs| Recorded { mechanism: "full", seed, epochs, over: Some(State::Stopped) };
        let begun = |epochs| Recorded { mechanism: "full", seed: 3, epochs, over: None };
        let left = |epochs| {
            let progress = progress(&[stopped(1, 3), stopped(2, 5), begun(epochs)]);
            let left = progress.shared.board().time_left();
            progress.finish();
            left
        };
        let is_close = |found: Option<f64>, seconds: f64| found.is_some_and(|found| (found - seconds).abs() < 1e-9);
        assert!(is_close(left(1), 6.0), "to epoch 4");
        assert!(is_close(left(5), 10.0), "it needs longer than the others: perhaps to the end");
    }

    #[test]
    fn a_line_is_about_one_epoch_and_keeps_its_columns() {
        let jobs = [Recorded { mechanism: "full", seed: 1, epochs: 0, over: None }];
        let progress = progress(&jobs);
        progress.event(&jobs[0].id(), &Event::JobStarted { done: 0, total: 1000, epoch: 0 });
        let bar = |event: Event| {
            progress.event(&jobs[0].id(), &event);
            fit(&progress.shared.board().lines(24), 100)[0].clone()
        };
        let step = |done| Event::Progress { done, total: 1000, loss: Some(7.0) };
        assert!(bar(step(30)).starts_with("full seed 1  "));
        assert!(bar(step(30)).contains("epoch  0/10  "), "no epoch is complete");
        let nine = bar(Event::Epoch(record(9)));
        assert!(nine.contains("epoch  9/10  loss 0.900  train  90.0 %  held-out  90.0 %"), "{nine}");
        assert!(bar(step(930)).contains("epoch  9/10  loss 0.900"), "the loss is not that of a batch");
        let ten = bar(Event::Epoch(record(10)));
        assert!(ten.contains("epoch 10/10  loss 1.000  train 100.0 %  held-out 100.0 %"), "{ten}");
        progress.finish();
    }
}
