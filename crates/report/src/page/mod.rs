//! `report.html`: one file that holds everything, needs no network, and is good on a phone, in print, light and dark.

use std::fmt::Write;

use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::evidence::verdict::{GENERALISATION_RULE, Generalisation, LEARNING_RULE, Learning};
use semfocus_analysis::evidence::{BASELINE, Evidence, MechanismEvidence};
use semfocus_lab::TrialSettings;
use semfocus_lab::settings;
use semfocus_lab::store::Session;
use semfocus_nn::optimizer::Rule;

use crate::figure::{Background, TWO_COLUMNS};
use crate::pictures::Picture;
use crate::section::Section;
use crate::tables::{Cell, Table};

const CSS: &str = include_str!("page.css");

/// The page.
pub fn html(evidence: &Evidence, pictures: &[Picture], tables: &[Table], sections: &[Section]) -> String {
    let experiment = &evidence.experiment;
    let mut page = String::new();
    let out = &mut page;
    put(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    put(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    // No icon: a browser would ask for one over the network.
    put(out, "<link rel=\"icon\" href=\"data:,\">\n");
    put(
        out,
        &format!("<title>{} – semfocus</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n", escaped(&experiment.name)),
    );
    put(out, &format!("<header>\n<h1>{}</h1>\n", escaped(&experiment.name)));
    if let Some(figure) = &experiment.figure {
        put(out, &format!("<p class=\"faint\">Figure {} of the study</p>\n", escaped(figure)));
    }
    put(out, &format!("<p class=\"claim\">{}</p>\n</header>\n<main>\n", escaped(&experiment.claim)));
    missing(evidence, out);
    verdicts(evidence, out);
    if !pictures.is_empty() {
        put(out, "<h2 id=\"figures\">Figures</h2>\n");
        figures(pictures, out);
    }
    put(out, "<h2 id=\"tables\">Tables</h2>\n");
    for table in tables.iter().filter(|table| table.name != "trials") {
        put_table(table, out);
    }
    sections.iter().for_each(|section| put_section(section, out));
    settings_section(evidence, out);
    for table in tables.iter().filter(|table| table.name == "trials") {
        put(out, "<h2 id=\"trials\">Trials</h2>\n");
        put_table(table, out);
    }
    repeat(evidence, out);
    put(out, "</main>\n</body>\n</html>\n");
    page
}

fn put(out: &mut String, text: &str) {
    out.push_str(text);
}

/// Text that may stand between tags and in attributes.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn missing(evidence: &Evidence, out: &mut String) {
    let missing: Vec<String> = evidence
        .missing()
        .map(|trial| {
            let point = point_name(&trial.entry.point);
            let point = if point.is_empty() { point } else { format!(" at {point}") };
            let (epochs, planned) = (trial.records.len(), trial.entry.epochs);
            format!(
                "{}{point}, seed {}: {}, {epochs} of {planned} epochs",
                trial.entry.mechanism,
                trial.entry.seed,
                trial.state.name()
            )
        })
        .collect();
    if missing.is_empty() {
        return;
    }
    let all = evidence.trials().count();
    let _ = writeln!(
        out,
        "<div class=\"missing\"><b>{} of {all} trials are not finished.</b> What follows is what there is so far.",
        missing.len()
    );
    put(out, "<details><summary>Which</summary><ul>\n");
    for line in missing {
        let _ = writeln!(out, "<li>{}</li>", escaped(&line));
    }
    put(out, "</ul></details></div>\n");
}

fn verdicts(evidence: &Evidence, out: &mut String) {
    put(out, "<h2 id=\"verdict\">Verdict</h2>\n");
    for point in &evidence.points {
        if !point.point.is_empty() {
            let _ = writeln!(out, "<h3>{}</h3>", escaped(&point_name(&point.point)));
        }
        put(out, "<ul class=\"verdicts\">\n");
        for mechanism in point.mechanisms.iter().filter(|mechanism| mechanism.mechanism != BASELINE) {
            let _ =
                writeln!(out, "<li><b>{}</b> <span>{}</span></li>", escaped(&mechanism.mechanism), verdict(mechanism));
        }
        put(out, "</ul>\n");
    }
    if !evidence.experiment.reduced.is_empty() {
        let reduced = escaped(&evidence.experiment.reduced.join("; "));
        let _ = writeln!(out, "<p><b>Reduced against the published experiment:</b> {reduced}.</p>");
    }
    let _ = writeln!(
        out,
        "<details><summary>By which rule</summary><p>{}</p><p>{}</p></details>",
        escaped(LEARNING_RULE),
        escaped(GENERALISATION_RULE)
    );
}

fn verdict(mechanism: &MechanismEvidence) -> String {
    let Some(comparison) = &mechanism.versus_full else { return "nothing to compare yet".to_owned() };
    let learning = match comparison.learning.finding {
        Learning::Faster | Learning::FasterInAll => "good",
        Learning::Slower | Learning::SlowerInAll => "bad",
        Learning::NoEvidence => "",
    };
    let generalisation = match comparison.generalisation.finding {
        Generalisation::Better | Generalisation::BetterInAll => "good",
        Generalisation::Worse | Generalisation::WorseInAll => "bad",
        Generalisation::Same | Generalisation::NoEvidence => "",
    };
    let span = |class: &str, words: &str| format!("<span class=\"{class}\">{}</span>", escaped(words));
    format!(
        "{}; {}",
        span(learning, &comparison.learning.words),
        span(generalisation, &comparison.generalisation.words)
    )
}

fn put_section(section: &Section, out: &mut String) {
    let _ = writeln!(out, "<h2 id=\"{}\">{}</h2>\n{}", section.id, escaped(section.title), section.words);
    figures(&section.pictures, out);
    put(out, &section.after_pictures);
    section.tables.iter().for_each(|table| put_table(table, out));
}

fn figures(pictures: &[Picture], out: &mut String) {
    for Picture { name, figure } in pictures {
        let class = if figure.width < TWO_COLUMNS { " class=\"narrow\"" } else { "" };
        let links: Vec<String> = ["svg", "png", "pdf"]
            .map(|kind| format!("<a href=\"figures/{name}.{kind}\">{}</a>", kind.to_uppercase()))
            .to_vec();
        let _ = writeln!(
            out,
            "<figure id=\"figure-{name}\"{class}>\n<div class=\"scroll\">{}</div>\n<figcaption><b>{}.</b> {} {}</figcaption>\n</figure>",
            figure.svg(Background::Page),
            escaped(&figure.title),
            escaped(&figure.caption),
            links.join(" · "),
        );
    }
}

fn put_table(table: &Table, out: &mut String) {
    if table.name != "trials" {
        let _ = writeln!(out, "<h3 id=\"table-{}\">{}</h3>", table.name, escaped(table.title));
    }
    put(out, "<div class=\"scroll\"><table>\n");
    let name = table.name;
    put(out, "<thead><tr>");
    let class = |is_number: bool| if is_number { " class=\"number\"" } else { "" };
    for column in &table.columns {
        let _ = write!(out, "<th{}>{}</th>", class(column.is_number), escaped(&column.title));
    }
    put(out, "</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        put(out, "<tr>");
        for (cell, column) in row.iter().zip(&table.columns) {
            let shown = escaped(&cell.shown);
            // A trial's folder is beside the page.
            let shown = match column.name.as_str() {
                "trial" => trial_links(&shown, row),
                _ => shown,
            };
            let _ = write!(out, "<td{}>{shown}</td>", class(column.is_number));
        }
        put(out, "</tr>\n");
    }
    put(out, "</tbody>\n</table></div>\n");
    let _ = writeln!(
        out,
        "<p class=\"faint\">{} <a href=\"tables/{name}.csv\">CSV</a> · <a href=\"tables/{name}.md\">Markdown</a></p>",
        escaped(&table.caption)
    );
}

/// The short name of a trial, with links to its files if it has any.
fn trial_links(id: &str, row: &[Cell]) -> String {
    let short: String = id.chars().take(8).collect();
    if row.iter().any(|cell| cell.shown.starts_with("0 of ")) {
        return short;
    }
    let link = |file: &str, name: &str| format!("<a href=\"trials/{id}/{file}\">{name}</a>");
    format!("{short} {} {}", link("epochs.csv", "epochs"), link("trial.toml", "settings"))
}

/// The settings that the trials share, and the environment they ran in.
fn settings_section(evidence: &Evidence, out: &mut String) {
    put(out, "<h2 id=\"settings\">Settings</h2>\n");
    let all: Vec<&TrialSettings> = evidence.trials().filter_map(|observed| observed.trial.settings.as_ref()).collect();
    let Some(first) = all.first() else {
        put(out, "<p>No trial has begun.</p>\n");
        return;
    };
    let defaults = TrialSettings::default();
    put(out, "<dl>\n");
    for setting in settings::all().iter().filter(|setting| concerns(setting.path, &all)) {
        let value = setting.get(first);
        let shared = all.iter().all(|settings| setting.get(settings) == value);
        let mut text = match value {
            _ if !shared => "varies: see the tables".to_owned(),
            None => continue,
            // What is off and usually off goes without saying.
            Some(toml::Value::Boolean(false)) => continue,
            Some(value) => value.to_string().replace('"', ""),
        };
        if shared && setting.get(&defaults) != setting.get(first) && setting.path != "task" {
            text += " (not the default)";
        }
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", setting.path, escaped(&text));
    }
    put(out, "</dl>\n<h2 id=\"environment\">Environment</h2>\n");
    for session in sessions(evidence) {
        let Session { version, commit, cpu, cores, threads, jobs, system, host, instruction_set, .. } = session;
        let commit = commit.as_deref().unwrap_or("unknown");
        let text = format!(
            "semfocus {version}, commit {commit}; {cpu}, {cores} cores, {instruction_set}, {system}, host {host}; {threads} \
             threads, {jobs} trials at once"
        );
        let _ = writeln!(out, "<p>{}</p>", escaped(&text));
    }
}

/// Whether a setting says anything about these trials: not those of another task or another optimiser.
fn concerns(path: &str, all: &[&TrialSettings]) -> bool {
    let is_sgd = |settings: &&TrialSettings| settings.training.optimizer.rule == Rule::Sgd;
    match path {
        "mechanism" | "seed" => false,
        "training.momentum" => all.iter().any(is_sgd),
        "training.beta1" | "training.beta2" | "training.epsilon" => !all.iter().all(is_sgd),
        path => !path.starts_with("data.listops.") || all.iter().any(|settings| settings.task == "listops"),
    }
}

/// The environments of the trials, each once; times and process numbers aside.
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

fn repeat(evidence: &Evidence, out: &mut String) {
    put(out, "<h2 id=\"repeat\">How to repeat it</h2>\n");
    put(
        out,
        "<p>The folder of this page holds the experiment as a file; it gives the same trials with the same bits:</p>\n",
    );
    put(out, "<pre>semfocus run experiment.toml -o again</pre>\n");
    let command =
        evidence.trials().find_map(|observed| Some(observed.trial.environment.as_ref()?.last.command.join(" ")));
    if let Some(command) = command {
        let _ = writeln!(out, "<p>It was run with:</p>\n<pre>{}</pre>", escaped(&command));
    }
    put(
        out,
        "<p>Every epoch of every trial is in <code>trials/*/epochs.csv</code>; <code>trials.csv</code> says which is which.</p>\n",
    );
}
