//! `report.html`: a single file that needs no network and works on a phone, in print, light and dark.

mod provenance;
mod table;
pub(crate) mod verdict;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use semfocus_analysis::evidence::Evidence;
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_core::experiment::{Difference, Subject, in_words, presets};
use semfocus_core::settings::{self, Setting};
use semfocus_core::study::seed_name;
use semfocus_core::{Experiment, Origin, TrialSettings};
use semfocus_figure::{Background, TWO_COLUMNS};
use semfocus_store::Session;

use crate::export::{FIGURES, Format};
use crate::pictures::{self, Picture};
use crate::section::Section;
use crate::table::Table;

use table::{download, table_html};

const CSS: &str = include_str!("page.css");

/// The page loads nothing: whatever a run folder from elsewhere may have put into it stays text.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

pub fn html(evidence: &Evidence, pictures: &[Picture], tables: &[Table], sections: &[Section]) -> String {
    let experiment = &evidence.experiment;
    let (trials, results): (Vec<&Table>, Vec<&Table>) = tables.iter().partition(|table| table.name == "trials");
    let (lead, others): (Vec<&Picture>, Vec<&Picture>) = pictures.iter().partition(|picture| is_lead(picture));
    let size = size(experiment);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                // An empty icon: otherwise a browser would ask for one over the network.
                link rel="icon" href="data:,";
                title { (experiment.name) (size) " – semfocus" }
                style { (PreEscaped(CSS)) }
            }
            body {
                header {
                    h1 { (experiment.name) span class="size" { (size) } }
                    @if let Some(figure) = &experiment.figure { p class="faint" { "Figure " (figure) " of the study" } }
                    (navigation(!others.is_empty(), sections, evidence))
                }
                main {
                    (missing(evidence))
                    @for warning in evidence.notes() { p class="missing" { (with_code(&warning)) } }
                    @if let Some(headline) = evidence.headline() { p id="headline" { (headline) } }
                    div class="lead" { (figures(lead.into_iter().rev())) }
                    @if let Some(left_out) = pictures::left_out(evidence) { p { (left_out) } }
                    (verdict::html(evidence))
                    @if !others.is_empty() { h2 id="figures" { "Figures" } (figures(others.into_iter())) }
                    h2 id="tables" { "Tables" }
                    @for table in results { (titled(table)) }
                    @for section in sections { (section_html(section)) }
                    h2 id="settings" { "Settings" }
                    (settings_html(evidence))
                    (environment(evidence))
                    @for table in trials { h2 id="trials" { (table.title) } (table_html(table)) }
                    (reproduction(evidence))
                }
            }
        }
    };
    page.into_string()
}

/// The figures next to the headline.
fn is_lead(picture: &Picture) -> bool {
    matches!(picture.name.as_str(), "curves" | "speedup" | "grid-speedup")
}

/// Whether it is the full scale, and what is smaller than in the published experiment, in a few words: `, reduced (fewer epochs)`. The
/// folder of a run does not say which of the smaller scales it has. An experiment that is not a preset has no scale.
fn size(experiment: &Experiment) -> String {
    const SMALLER: [(Subject, &str); 4] = [
        (Subject::Setting("data.length"), "shorter sequences"),
        (Subject::Setting("training.epochs"), "fewer epochs"),
        (Subject::Setting("data.train"), "fewer examples"),
        (Subject::SeedCount, "fewer seeds"),
    ];
    let Experiment { name, reduced, changed, .. } = experiment;
    let is_smaller = |Difference { here, there, .. }: &&Difference| {
        let number = |text: &str| text.parse::<f64>().ok();
        number(here).zip(number(there)).is_some_and(|(here, there)| here < there)
    };
    let differences = || reduced.iter().chain(changed);
    let is_found = |subject: &Subject| differences().filter(is_smaller).any(|found| found.subject == *subject);
    let mut words: Vec<&str> =
        SMALLER.iter().filter(|(subject, _)| is_found(subject)).map(|(_, words)| *words).collect();
    if words.is_empty() && differences().next().is_some() {
        words.push("changed settings");
    }
    let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    let scale = if reduced.is_empty() { "full scale" } else { "reduced" };
    if presets().iter().any(|preset| preset.name == *name) { format!(", {scale}{words}") } else { words }
}

/// Text with what stands between backticks as code.
pub(crate) fn with_code(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() { @if index % 2 == 1 { code { (part) } } @else { (part) } }
    }
}

fn missing(evidence: &Evidence) -> Markup {
    let missing: Vec<_> = evidence.missing().collect();
    html! {
        @if !missing.is_empty() {
            div class="missing" {
                b { (missing.len()) " of " (evidence.trials().count()) " trials are not finished." }
                " This page shows the results so far."
                details {
                    summary { "Which trials?" }
                    ul {
                        @for trial in missing {
                            li {
                                (trial.entry.mechanism)
                                @if !trial.entry.point.is_empty() { " at " (point_name(&trial.entry.point)) }
                                ", seed " (seed_name(trial.entry.seed)) ": " (trial.state.name()) ", " (trial.curve.len()) " of "
                                (trial.entry.epochs) " epochs"
                            }
                        }
                    }
                }
            }
        }
    }
}

/// One finding per line, each with the mechanism it is about.
pub(crate) fn finding_list(findings: &[(impl AsRef<str>, String)]) -> Markup {
    html! {
        ul class="verdicts" {
            @for (mechanism, finding) in findings { li { b { (mechanism.as_ref()) } " " span { (finding) "." } } }
        }
    }
}

fn section_html(section: &Section) -> Markup {
    html! {
        h2 id=(section.id) { (section.title) }
        (section.findings)
        (figures(section.pictures.iter()))
        (section.after_pictures)
        @for table in &section.tables { (titled(table)) }
    }
}

fn titled(table: &Table) -> Markup {
    html! { h3 id={ "table-" (table.name) } { (table.title) } (table_html(table)) }
}

/// Links to the parts of the page.
fn navigation(has_figures: bool, sections: &[Section], evidence: &Evidence) -> Markup {
    let mut parts = vec![("verdict", "Verdict")];
    parts.extend(has_figures.then_some(("figures", "Figures")));
    parts.push(("tables", "Tables"));
    parts.extend(sections.iter().map(|section| (section.id, section.title)));
    parts.push(("settings", "Settings"));
    parts.extend((!sessions(evidence).is_empty()).then_some(("environment", "Environment")));
    parts.extend([("trials", "Trials"), ("repeat", "How to repeat it")]);
    html! {
        nav aria-label="Contents" { ul { @for (id, title) in parts { li { a href={ "#" (id) } { (title) } } } } }
    }
}

/// Each figure twice: for a wide page and for a phone. The style sheet shows one of them. Next to the page are its files.
fn figures<'a>(pictures: impl Iterator<Item = &'a Picture>) -> Markup {
    html! {
        @for Picture { name, figure } in pictures {
            @let wide = if name == "curves" || name == "speedup" { figure.clone() } else { figure.wide() };
            figure id={ "figure-" (name) } class=[(wide.width < TWO_COLUMNS).then_some("narrow")] {
                div class="for-desktop" { (PreEscaped(wide.svg(Background::Page))) }
                div class="for-phone" { (PreEscaped(figure.narrow().svg(Background::Page))) }
                figcaption {
                    b { (figure.title) "." } " " (figure.caption)
                    @for (index, export) in FIGURES.iter().enumerate() {
                        @let Format { name: format, extension, media_type } = export.format();
                        (if index == 0 { " " } else { " · " })
                        // Text is part of the page, so that it survives when the page is sent somewhere.
                        @if extension == "svg" { (download(&format!("{name}.svg"), media_type, format, &export.text(figure))) }
                        @else { a href={ "figures/" (name) "." (extension) } { (format) } }
                    }
                }
            }
        }
    }
}

/// The settings that the trials share: those that are not the default, and the others folded away.
fn settings_html(evidence: &Evidence) -> Markup {
    let all: Vec<&TrialSettings> = evidence.trials().filter_map(|observed| observed.trial.settings.as_ref()).collect();
    let shown = settings::all().iter().filter_map(|setting| Some((setting.path, shown_value(setting, &all)?)));
    let (usual, special): (Vec<Shown>, Vec<Shown>) = shown.partition(|(_, (_, is_default))| *is_default);
    let list =
        |settings: &[Shown]| html! { dl { @for (path, (value, _)) in settings { dt { (path) } dd { (value) } } } };
    let differences = [
        ("Different from the published experiment", &evidence.experiment.reduced),
        ("Different from the experiment as written", &evidence.experiment.changed),
    ];
    html! {
        @for (title, differences) in differences {
            @if !differences.is_empty() { p { b { (title) ":" } " " (with_code(&in_words(differences))) "." } }
        }
        @if all.is_empty() { p { "No trial has begun." } }
        @if !special.is_empty() { p { "Not the default:" } (list(&special)) }
        @if !usual.is_empty() { details { summary { "Settings with their default values" } (list(&usual)) } }
    }
}

/// A setting and its value, and whether that is the default.
type Shown = (&'static str, (String, bool));

/// What the trials were trained with and on, and how long they took.
fn environment(evidence: &Evidence) -> Markup {
    let sessions = sessions(evidence);
    html! {
        @if !sessions.is_empty() {
            h2 id="environment" { "Environment" }
            (provenance::line(evidence))
            @for Session { version, commit, cpu, cores, device, threads, jobs, system, host, instruction_set, .. } in sessions {
                p {
                    "semfocus " (version) ", commit " (commit.as_deref().unwrap_or("unknown")) "; " (cpu) ", " (cores) " cores, "
                    (instruction_set) ", " (system) ", host " (host) "; device " (device) ", " (threads) " threads, " (jobs) " trials at once"
                }
            }
        }
    }
}

/// The value of a setting; None if it has no effect on these trials or is the usual one.
fn shown_value(setting: &Setting, all: &[&TrialSettings]) -> Option<(String, bool)> {
    if !has_effect(setting.path, all) {
        return None;
    }
    let value = setting.get(all.first()?);
    let default = TrialSettings::default();
    if !all.iter().any(|settings| setting.is_stored(settings, &default)) {
        return None;
    }
    if all.iter().any(|settings| setting.get(settings) != value) {
        return Some(("varies: see the tables".to_owned(), false));
    }
    let is_default = setting.get(&default) == value || setting.path == "task";
    match value? {
        toml::Value::Boolean(false) => None,
        value => Some((value.to_string().replace('"', ""), is_default)),
    }
}

/// Whether a setting can influence these trials. Settings of other tasks (`data.TASK.…`) and other optimisers cannot, and
/// those that every comparison varies are in the tables.
fn has_effect(path: &str, all: &[&TrialSettings]) -> bool {
    let any_optimizer = |is_wanted: fn(&str) -> bool| {
        let optimizer = settings::all().iter().find(|setting| setting.path == "training.optimizer");
        let name = |settings: &&TrialSettings| optimizer?.get(settings)?.as_str().map(is_wanted);
        all.iter().filter_map(name).any(|wanted| wanted)
    };
    match path {
        "mechanism" | "seed" => false,
        "training.momentum" => any_optimizer(|name| name == "sgd"),
        "training.beta1" | "training.beta2" | "training.epsilon" => any_optimizer(|name| name != "sgd"),
        path => match path.strip_prefix("data.").and_then(|rest| rest.split_once('.')) {
            Some((task, _)) => all.iter().any(|settings| settings.task == task),
            None => true,
        },
    }
}

/// The different environments of the trials, regardless of times and process ids.
fn sessions(evidence: &Evidence) -> Vec<&Session> {
    let mut different: Vec<&Session> = Vec::new();
    for observed in evidence.trials() {
        let Some(environment) = &observed.trial.environment else { continue };
        for session in environment.earlier.iter().chain([&environment.last]) {
            let same = |other: &&Session| {
                (&other.version, &other.commit, &other.cpu, &other.host, other.threads, other.jobs)
                    == (&session.version, &session.commit, &session.cpu, &session.host, session.threads, session.jobs)
            };
            if !different.iter().any(same) {
                different.push(session);
            }
        }
    }
    different
}

/// The stored weights that trials started with.
fn origins(evidence: &Evidence) -> Vec<Origin> {
    let mut origins: Vec<Origin> = Vec::new();
    for origin in evidence.trials().filter_map(|observed| observed.trial.settings.as_ref()?.training.from) {
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    origins
}

fn reproduction(evidence: &Evidence) -> Markup {
    let command =
        evidence.trials().find_map(|observed| Some(observed.trial.environment.as_ref()?.last.command.join(" ")));
    html! {
        h2 id="repeat" { "How to repeat it" }
        p { "The folder of this page contains the experiment as a file. Running it gives the same trials, bit for bit:" }
        pre { "semfocus run experiment.toml -o again" }
        @if let Some(command) = command {
            p { "It was run with:" }
            pre { (command) }
        }
        @for origin in origins(evidence) {
            p {
                "Trials started with the weights of trial " code { (origin.trial) } " after epoch " (origin.epoch)
                " (checksum " code { (format!("{:016x}", origin.weights)) } "), of which the folder " code { "origins" }
                " has a copy."
            }
        }
        p {
            "Every epoch of every trial is in " code { "trials/*/epochs.csv" } "; " code { "trials.csv" }
            " says which trial is which."
        }
    }
}
