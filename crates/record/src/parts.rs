//! The generated parts of pages: tables, sentences and figures, each computed from the recorded data.

use std::collections::BTreeMap;

use semfocus_analysis::evidence::claim::Answer;
use semfocus_core::experiment::in_words;
use semfocus_core::{Goal, Metric, Quantity, Scale};
use semfocus_figure::Background;

use crate::data::RecordedRun;
use crate::findings::{Finding, STANDING_RULE, Standing, findings};
use crate::ledger::{ClaimEntry, Ledger, RunEntry};
use crate::results::RecordedResult;
use semfocus_report::export::Markdown;
use semfocus_report::{Contents, regions};

/// In place of the name of a run: figures that need no run.
const THEORY: &str = "theory";

/// The parts that a page can ask for, for messages.
const PARTS: &str =
    "claims, rule, runs, verdict CLAIM, findings CLAIM, provenance CLAIM, figure RUN NAME, table RUN NAME";

/// Makes parts, and remembers the figures that they show.
pub(crate) struct PageParts<'a> {
    ledger: &'a Ledger,
    runs: &'a BTreeMap<String, RecordedRun>,
    drawn: BTreeMap<String, Contents>,
    figures: BTreeMap<String, String>,
    /// What every run that was made says about each of its claims: ids of the claim and names of the run.
    findings: BTreeMap<(&'a str, &'a str), Vec<Finding>>,
}

impl<'a> PageParts<'a> {
    pub(crate) fn new(ledger: &'a Ledger, runs: &'a BTreeMap<String, RecordedRun>) -> Self {
        let mut found = BTreeMap::new();
        for entry in &ledger.runs {
            let Some(run) = runs.get(&entry.name) else { continue };
            for claim in ledger.claims.iter().filter(|claim| entry.claims.contains(&claim.id)) {
                found.insert((claim.id.as_str(), entry.name.as_str()), findings(claim, run));
            }
        }
        PageParts { ledger, runs, drawn: BTreeMap::new(), figures: BTreeMap::new(), findings: found }
    }

    /// What a run says about one of its claims; nothing if it was not made.
    fn said<'s>(&'s self, claim: &'s str, run: &'s str) -> &'s [Finding] {
        self.findings.get(&(claim, run)).map_or(&[], Vec::as_slice)
    }

    /// The figures that parts have shown: names of files and their contents.
    pub(crate) fn into_figures(self) -> BTreeMap<String, String> {
        self.figures
    }

    /// The part that these words ask for. `prefix` is the path from the page to the record.
    pub(crate) fn part(&mut self, words: &[&str], prefix: &str) -> Result<String, String> {
        match words {
            ["claims"] => Ok(self.claims(prefix)),
            ["rule"] => Ok(format!("*{STANDING_RULE}*")),
            ["runs"] => Ok(self.all_runs()),
            ["verdict", claim] => Ok(self.verdict(self.claim(claim)?)),
            ["findings", claim] => Ok(self.findings_table(self.claim(claim)?)),
            ["provenance", claim] => Ok(self.provenance(self.claim(claim)?)),
            ["figure", run, name] => self.figure(run, name, prefix),
            ["table", run, name] => self.table(run, name),
            _ => Err(format!("there is no part `{}`; there are {PARTS}", words.join(" "))),
        }
    }

    fn claim(&self, id: &str) -> Result<&'a ClaimEntry, String> {
        let found = self.ledger.claims.iter().find(|claim| claim.id == id);
        found.ok_or_else(|| format!("record.toml has no claim `{id}`"))
    }

    /// The runs of a claim, in the order of the list, with what they say about it.
    fn about<'s>(&'s self, claim: &'s ClaimEntry) -> Vec<(&'a RunEntry, Option<&'a RecordedRun>, &'s [Finding])> {
        let entries = self.ledger.runs.iter().filter(|run| run.claims.contains(&claim.id));
        entries.map(|entry| (entry, self.runs.get(&entry.name), self.said(&claim.id, &entry.name))).collect()
    }

    fn standing(&self, claim: &ClaimEntry) -> (Standing, String) {
        let about = self.about(claim);
        let all = about.iter().flat_map(|(_, _, findings)| *findings).filter(|finding| finding.counts);
        let all: Vec<&Finding> = all.collect();
        let count = |wanted: Answer| all.iter().filter(|finding| finding.answer == wanted).count();
        let made = about.iter().filter(|(_, run, _)| run.is_some()).count();
        let mut words: Vec<String> = [Answer::Supported, Answer::NotSupported, Answer::Undecided]
            .into_iter()
            .map(|answer| (count(answer), answer.name()))
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        if all.is_empty() {
            words.push("no finding yet".to_owned());
        }
        let missing = about.len() - made;
        let missing = if missing == 0 { String::new() } else { format!(", {missing} not run") };
        let runs = format!("{made} run{}{missing}", if made == 1 { "" } else { "s" });
        (Standing::new(&all), format!("{}; {runs}", words.join(", ")))
    }

    fn claims(&self, prefix: &str) -> String {
        let mut rows = vec![["claim of the study", "verdict", "by task", "findings"].map(str::to_owned).to_vec()];
        for claim in &self.ledger.claims {
            let (standing, counts) = self.standing(claim);
            let link = format!("[{}]({prefix}{}.md)", claim.title, claim.id);
            let verdict = format!("**{}**{}", standing.name(), self.scale_note(claim));
            rows.push(vec![link, verdict, self.by_task(claim), counts]);
        }
        markdown(&rows)
    }

    fn verdict(&self, claim: &ClaimEntry) -> String {
        let (standing, counts) = self.standing(claim);
        let note = self.scale_note(claim);
        let tasks = self.by_task(claim);
        let tasks = if tasks.is_empty() { String::new() } else { format!(" By task: {tasks}.") };
        format!("The study: {}\n\nVerdict: **{}**{note}.{tasks} Findings: {counts}.", claim.published, standing.name())
    }

    /// The verdict on each task that runs were made of.
    fn by_task(&self, claim: &ClaimEntry) -> String {
        let mut tasks: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
        for (_, run, findings) in self.about(claim) {
            let Some(task) = run.and_then(|run| run.evidence.trials().next()) else { continue };
            let counted = findings.iter().filter(|finding| finding.counts);
            tasks.entry(&task.trial.entry.task).or_default().extend(counted);
        }
        let names = |wanted: Standing| -> Vec<&str> {
            tasks.iter().filter(|(_, findings)| Standing::new(findings) == wanted).map(|(task, _)| *task).collect()
        };
        let groups = [Standing::Supported, Standing::Weakened, Standing::NotSupported, Standing::Undecided]
            .map(|standing| (standing.name(), names(standing)));
        let groups = groups.into_iter().filter(|(_, names)| !names.is_empty());
        groups.map(|(standing, names)| format!("{standing}: {}", names.join(", "))).collect::<Vec<_>>().join("; ")
    }

    /// What a reader has to know in addition to the verdict: whether it rests on reduced runs, on few findings, or on few of the runs.
    fn scale_note(&self, claim: &ClaimEntry) -> String {
        let about = self.about(claim);
        let made: Vec<&RecordedRun> =
            about.iter().filter(|(_, _, found)| !found.is_empty()).filter_map(|(_, run, _)| *run).collect();
        let counted = || {
            let all =
                about.iter().flat_map(|(entry, _, findings)| findings.iter().map(|finding| (entry.scale, finding)));
            all.filter(|(_, finding)| finding.counts).map(|(scale, finding)| (scale, finding.answer))
        };
        let small = |wanted: Answer| {
            let mut scales = counted().filter(|(_, answer)| *answer == wanted).map(|(scale, _)| scale).peekable();
            scales.peek().is_some() && scales.all(|scale| scale != Scale::Full)
        };
        let mut notes = Vec::new();
        if !made.is_empty() && made.iter().all(|run| !run.reduced.is_empty()) {
            notes.push("reduced runs only".to_owned());
        } else {
            let sides = [(Answer::Supported, "for it"), (Answer::NotSupported, "against it")];
            let small = sides.into_iter().filter(|(answer, _)| small(*answer));
            notes.extend(small.map(|(_, side)| format!("{side}: small runs only")));
        }
        let decided = counted().filter(|(_, answer)| *answer != Answer::Undecided).count();
        if decided > 0 && 2 * decided < counted().count() {
            notes.push(format!("decided by {decided} of {} findings", counted().count()));
        }
        if !made.is_empty() && 2 * made.len() < about.len() {
            notes.push(format!("{} of {} runs made", made.len(), about.len()));
        }
        if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) }
    }

    fn findings_table(&self, claim: &ClaimEntry) -> String {
        let mut rows = vec![["run", "expected", "answer", "what it shows"].map(str::to_owned).to_vec()];
        for (entry, run, findings) in self.about(claim) {
            let name = run.map_or_else(|| entry.name.clone(), |run| format!("{} ({})", entry.name, size(run)));
            match run {
                None => rows.push(vec![name, entry.asked.clone(), "not run".to_owned(), not_run(entry)]),
                Some(_) if findings.is_empty() => {
                    rows.push(vec![name, "–".to_owned(), "–".to_owned(), "nothing about this claim".to_owned()]);
                }
                Some(_) => rows.extend(findings.iter().map(|Finding { expected, answer, words, counts }| {
                    let answer = if *counts { answer.name().to_owned() } else { format!("({})", answer.name()) };
                    vec![name.clone(), format!("`{expected}`"), answer, words.clone()]
                })),
            }
        }
        markdown(&rows)
    }

    fn provenance(&self, claim: &ClaimEntry) -> String {
        let mut text = String::new();
        for (entry, run, _) in self.about(claim) {
            let Some(run) = run else { continue };
            let command = run.provenance.command.clone().unwrap_or_else(|| entry.command());
            text += &format!("- **{}**: {}. `{command}`; {}.", entry.name, entry.asked, facts(run));
            if !run.reduced.is_empty() {
                text += &format!(" Different from the full scale: {}.", in_words(&run.reduced));
            }
            if let Some(remark) = &entry.remark {
                text += &format!(" {remark}");
            }
            text.push('\n');
        }
        if text.is_empty() { "No run was made yet.".to_owned() } else { text }
    }

    /// A table of all runs, and their commands, which are too long for its cells.
    fn all_runs(&self) -> String {
        let head = ["asked for", "status", "trial-hours", "what it says about the claims"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for entry in &self.ledger.runs {
            let run = self.runs.get(&entry.name);
            let hours = match run {
                Some(run) => format!("{:.1}", run.provenance.trial_hours),
                None => format!("about {} estimated", hours(entry.estimated_core_hours)),
            };
            let answer = match run {
                Some(_) => said(&self.findings_of(entry)),
                None => entry.remark.clone().unwrap_or_default(),
            };
            rows.push(vec![entry.asked.clone(), status(entry, run), hours, answer]);
        }
        let commands: String = self.ledger.runs.iter().map(|entry| entry.command() + "\n").collect();
        let summary = "<details>\n<summary>Their commands, in the same order</summary>";
        format!("{}\n{summary}\n\n```sh\n{commands}```\n\n</details>", markdown(&rows))
    }

    /// One line for each run that was asked for.
    pub(crate) fn results(&self) -> Vec<RecordedResult> {
        let result_of = |entry: &RunEntry| {
            let run = self.runs.get(&entry.name);
            let findings = entry.claims.first().map_or(&[][..], |claim| self.said(claim, &entry.name));
            RecordedResult {
                experiment: entry.experiment.clone(),
                scale: entry.scale.to_string(),
                run: entry.name.clone(),
                status: status(entry, run),
                answer: match Standing::new(&findings.iter().collect::<Vec<_>>()) {
                    Standing::NotTested => String::new(),
                    standing => standing.name().to_owned(),
                },
                finding: run.map_or_else(String::new, |_| said(&self.findings_of(entry))),
                result: run.and_then(|run| self.result(entry, run)).unwrap_or_default(),
                published: entry.published.clone().unwrap_or_default(),
                hours: run.map_or(entry.estimated_core_hours, |run| run.provenance.trial_hours),
            }
        };
        self.ledger.runs.iter().map(result_of).collect()
    }

    /// The speed-up, if the run is about mechanisms that are compared.
    fn result(&self, entry: &RunEntry, run: &RecordedRun) -> Option<String> {
        self.claims_of(entry).any(|claim| claim.test.is_none()).then(|| result(run)).flatten()
    }

    fn claims_of(&self, entry: &'a RunEntry) -> impl Iterator<Item = &'a ClaimEntry> {
        self.ledger.claims.iter().filter(|claim| entry.claims.contains(&claim.id))
    }

    /// What a run says about all its claims.
    fn findings_of(&self, entry: &'a RunEntry) -> Vec<&Finding> {
        self.claims_of(entry).flat_map(|claim| self.said(&claim.id, &entry.name)).collect()
    }

    fn figure(&mut self, run: &str, name: &str, prefix: &str) -> Result<String, String> {
        if let Some(missing) = self.missing(run)? {
            return Ok(missing);
        }
        let drawn = self.drawn(run);
        let picture = drawn.all_pictures().find(|picture| picture.name == name).ok_or_else(|| {
            let names: Vec<&str> = drawn.all_pictures().map(|picture| picture.name.as_str()).collect();
            format!("`{run}` has no figure `{name}`; it has {}", names.join(", "))
        })?;
        let file = format!("{run}-{name}.svg");
        let (title, caption) = (&picture.figure.title, &picture.figure.caption);
        let text = format!("![{title}]({prefix}figures/{file})\n\n*{caption}*");
        let svg = picture.figure.svg(Background::White);
        self.figures.insert(file, svg);
        Ok(text)
    }

    fn table(&mut self, run: &str, name: &str) -> Result<String, String> {
        if let Some(missing) = self.missing(run)? {
            return Ok(missing);
        }
        let drawn = self.drawn(run);
        let table = drawn.all_tables().find(|table| table.name == name).ok_or_else(|| {
            let names: Vec<&str> = drawn.all_tables().map(|table| table.name).collect();
            format!("`{run}` has no table `{name}`; it has {}", names.join(", "))
        })?;
        Ok(format!("{}\n*{}*", Markdown::rows(table), table.caption))
    }

    /// What stands in place of a figure or table of a run that was not made.
    fn missing(&self, run: &str) -> Result<Option<String>, String> {
        if run == THEORY || self.runs.contains_key(run) {
            return Ok(None);
        }
        let entry = self.ledger.runs.iter().find(|entry| entry.name == run);
        let entry = entry.ok_or_else(|| format!("record.toml has no run `{run}`"))?;
        Ok(Some(format!("*Not run: {}. `{}`, {}*", entry.asked, entry.command(), not_run(entry))))
    }

    fn drawn(&mut self, run: &str) -> &Contents {
        let runs = self.runs;
        self.drawn.entry(run.to_owned()).or_insert_with(|| match runs.get(run) {
            Some(run) => Contents::new(&run.evidence),
            None => Contents {
                pictures: Vec::new(),
                tables: Vec::new(),
                sections: Vec::new(),
                regions: regions::pictures(),
            },
        })
    }
}

/// Seeds, epochs, and the target if it is not the usual one.
fn size(run: &RecordedRun) -> String {
    let evidence = &run.evidence;
    let of_all = || evidence.points.iter().flat_map(|point| &point.mechanisms);
    let (min, max) = (of_all().map(|m| m.seeds).min().unwrap_or(0), of_all().map(|m| m.seeds).max().unwrap_or(0));
    let seeds = if min == max { max.to_string() } else { format!("{min} to {max}") };
    let planned = evidence.trials().map(|observed| observed.trial.entry.epochs).max().unwrap_or(0);
    let target = run.provenance.target.as_ref().map_or(String::new(), |target| format!(", {target}"));
    format!("{seeds} seed{}, {planned} epochs{target}", if max == 1 { "" } else { "s" })
}

fn status(entry: &RunEntry, run: Option<&RecordedRun>) -> String {
    let Some(run) = run else { return "not run".to_owned() };
    let provenance = &run.provenance;
    let size = match (run.reduced.is_empty(), &entry.published) {
        (false, _) => "reduced",
        (true, Some(_)) => "as published",
        (true, None) => "full scale",
    };
    if provenance.finished == provenance.planned {
        return size.to_owned();
    }
    format!("{size}, {} of {} trials finished", provenance.finished, provenance.planned)
}

/// What findings say, in one line.
fn said(findings: &[&Finding]) -> String {
    let mut lines: Vec<String> =
        findings.iter().map(|finding| format!("{}: {}", finding.expected, finding.answer.name())).collect();
    // Claims that expect the same of a mechanism say it once.
    lines.dedup();
    lines.join("; ")
}

/// The speed-up of top-k attention in a few characters, over all points of a grid.
fn result(run: &RecordedRun) -> Option<String> {
    let at = run.evidence.points.iter().filter_map(|point| {
        let of = point.mechanisms.iter().find(|mechanism| mechanism.mechanism.starts_with("topk:"))?;
        Some((of.mechanism.clone(), point.speedup(&of.mechanism)?.ratio))
    });
    let mut all: Vec<_> = at.collect();
    all.sort_by(|(_, one), (_, other)| one.value().total_cmp(&other.value()));
    let speedup = match &all[..] {
        [] => return None,
        [(mechanism, ratio)] => format!("{mechanism} {ratio}"),
        [(mechanism, low), .., (_, high)] => format!("{mechanism} {low} to {high}"),
    };
    match (&run.provenance.target, run.evidence.goal) {
        (None, _) => Some(speedup),
        (Some(_), Goal { quantity: Quantity::Recorded(Metric::TrainAccuracy), value }) => {
            Some(format!("{speedup} to {:.0} %", 100.0 * value))
        }
        (Some(target), _) => Some(format!("{speedup} to {target}")),
    }
}

fn facts(run: &RecordedRun) -> String {
    let provenance = &run.provenance;
    let days = if provenance.began == provenance.last {
        provenance.began.clone()
    } else {
        format!("{} to {}", provenance.began, provenance.last)
    };
    let (versions, processors) = (provenance.versions.join(", "), provenance.processors.join(", "));
    let finished = match provenance.planned - provenance.finished {
        0 => format!("{} trials", provenance.planned),
        _ => format!("{} of {} trials finished", provenance.finished, provenance.planned),
    };
    format!("{finished}, {:.1} trial-hours, semfocus {versions}, {processors}, {days}", provenance.trial_hours)
}

fn not_run(entry: &RunEntry) -> String {
    let remark = entry.remark.as_ref().map_or(String::new(), |remark| format!(" {remark}"));
    format!("about {} core-hours.{remark}", hours(entry.estimated_core_hours))
}

fn hours(hours: f64) -> String {
    if hours < 10.0 { format!("{hours:.1}") } else { format!("{hours:.0}") }
}

/// A table of Markdown, the first row being the head.
fn markdown(rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", escaped.join(" | "))
    };
    let (head, rest) = rows.split_first().expect("tables have a head");
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    line(head) + &rule + &rest.iter().map(|row| line(row)).collect::<String>()
}
