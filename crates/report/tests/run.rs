//! Reports of fixture runs: the files, their content, and what happens with unfinished or damaged runs.

use std::path::{Path, PathBuf};

use semfocus_analysis::evidence::{Evidence, GOAL};
use semfocus_analysis::stats::permutation_tests;
use semfocus_core::{AnyName, Experiment, Request, TrialSettings};
use semfocus_figure::{Background, Interval, Line, Mark, Style};
use semfocus_fixture::{self as fixture, Fixture};
use semfocus_report::export::{Csv, Export, JsonLines, Markdown};
use semfocus_report::frame::{Frame, Value};
use semfocus_report::{Contents, Written, pictures, tables};
use semfocus_store::{State, Store};

/// A folder that is removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn scratch(name: &str) -> Scratch {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    Scratch(path)
}

const EPOCHS: usize = 20;

fn experiment(name: &str, mechanisms: &[&str], seeds: usize) -> Experiment {
    Experiment::resolve(
        &Request {
            experiment: name.to_owned(),
            scale: Some(semfocus_core::Scale::Full),
            mechanisms: Some(mechanisms.iter().map(|&mechanism| mechanism.to_owned()).collect()),
            seeds: Some(seeds),
            epochs: Some(EPOCHS),
            ..Request::default()
        },
        &AnyName,
    )
    .unwrap()
}

fn jump(at: Option<usize>) -> Fixture {
    let records = (1..=EPOCHS).map(|epoch| fixture::jump(epoch, at, 0.99)).collect();
    Fixture { records, state: State::Finished, probes: Vec::new() }
}

/// Full attention learns late, top-k early, the band never.
fn usual(trial: &TrialSettings) -> Option<Fixture> {
    let seed = semfocus_core::study::SEEDS.iter().position(|seed| *seed == trial.seed).unwrap();
    Some(jump(match trial.mechanism.as_str() {
        "full" => Some(10 + seed),
        "banded:5" => None,
        _ => Some(2 + seed % 2),
    }))
}

fn finished(dir: &Path) -> Store {
    fixture::store(dir, &experiment("even-pairs", &["full", "topk:5", "banded:5"], 5), usual).unwrap()
}

fn write(store: &Store) -> Written {
    semfocus_report::write(store, &Evidence::read_all(store, GOAL).unwrap()).unwrap()
}

#[test]
fn everything_is_written_beside_the_run() {
    let scratch = scratch("whole");
    let written = write(&finished(&scratch.0));
    assert_eq!(written.figures, ["curves", "survival", "speedup", "seeds"]);
    assert_eq!(written.tables, ["mechanisms", "against-baseline", "trials"]);
    assert_eq!(written.missing, 0);
    for name in &written.figures {
        let read = |kind: &str| std::fs::read(scratch.0.join(format!("figures/{name}.{kind}"))).unwrap();
        assert!(read("svg").starts_with(b"<svg "), "{name}");
        assert!(read("png").starts_with(b"\x89PNG"), "{name}");
        assert!(read("pdf").starts_with(b"%PDF"), "{name}");
    }
    for name in &written.tables {
        let latex = std::fs::read_to_string(scratch.0.join(format!("tables/{name}.tex"))).unwrap();
        assert!(latex.contains("\\toprule") && latex.ends_with("\\end{table}\n"), "{latex}");
    }
    let page = std::fs::read_to_string(&written.page).unwrap();
    for words in [
        "learns in 5.0× fewer epochs (95 % interval ",
        "5 seeds are too few for a test, which needs 7",
        "topk:5 learns in 5.0× fewer epochs than full attention (",
        "banded:5 never reaches the target.</p>",
        "This claim was not checked: the claim was written for other settings",
        "Expected: faster – <span class=\"good\">supported</span>",
        "less accurate with all 5 seeds",
        "Different from the experiment as written",
        "href=\"figures/curves.png\"",
        "n = 5 seeds",
        "after Holm's correction",
        "semfocus run experiment.toml",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches("<figure ").count(), 4);
    assert!(!page.contains("are not finished"));
    for forbidden in ["http://", "https://", "<script", "NaN", "inf%"] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn the_quantity_of_the_target_is_drawn_first_with_its_line() {
    let scratch = scratch("target");
    let store = finished(&scratch.0);
    let first_labels = |goal: &str| {
        let evidence = Evidence::read(&store, goal.parse().unwrap()).unwrap();
        let picture = pictures::pictures(&evidence).remove(0);
        let svg = picture.figure.svg(Background::White);
        let rule = svg.split(">target ").nth(1).map(|rest| rest.split('<').next().unwrap().to_owned());
        (picture.figure.panels[0].y.label.clone(), picture.figure.panels.len(), rule)
    };
    let (label, panels, rule) = first_labels("train_accuracy >= 0.95");
    assert_eq!((label.as_str(), panels, rule.as_deref()), ("training accuracy (%)", 3, Some("95 %")));
    let (label, panels, rule) = first_labels("heldout_loss <= 0.25");
    assert_eq!((label.as_str(), panels, rule.as_deref()), ("held-out loss", 4, Some("0.25")));
}

#[test]
fn curves_begin_at_the_untrained_model_if_it_was_recorded() {
    let scratch = scratch("untrained");
    let mut evidence = Evidence::read(&finished(&scratch.0), GOAL).unwrap();
    let first_tick = |evidence: &Evidence| pictures::pictures(evidence)[0].figure.panels[0].x.limits;
    assert_eq!(first_tick(&evidence), Some((0.0, 20.0)));
    // Trials in the record may begin with the first epoch, and their curves with them.
    evidence.points[0].trials[0].trial.untrained = None;
    assert_eq!(first_tick(&evidence), Some((0.0, 20.0)), "the other mechanisms begin at epoch 0");
    evidence.points[0].trials.iter_mut().for_each(|observed| observed.trial.untrained = None);
    assert_eq!(first_tick(&evidence), Some((1.0, 20.0)));
}

#[test]
fn bands_need_five_seeds() {
    let scratch = scratch("seeds");
    for (seeds, band, words) in [
        (1, false, "Each line is one trial."),
        (2, false, "Each line is one trial."),
        (4, false, "pale lines are the single seeds."),
        (5, true, "bands extend from the lower to the upper quartile."),
    ] {
        let dir = scratch.0.join(seeds.to_string());
        let store = fixture::store(&dir, &experiment("even-pairs", &["full", "topk:5"], seeds), usual).unwrap();
        let curves = &pictures::pictures(&Evidence::read(&store, GOAL).unwrap())[0].figure;
        let marks = &curves.panels[0].marks;
        assert_eq!(marks.iter().any(|mark| matches!(mark, Mark::Band(_))), band, "{seeds}");
        let pale = marks.iter().filter(|mark| matches!(mark, Mark::Line(line) if line.pale)).count();
        assert_eq!(pale, if seeds == 4 { 8 } else { 0 }, "one for each seed of two mechanisms");
        assert!(curves.caption.contains(words), "{}", curves.caption);
        let lines = marks.iter().filter(|mark| matches!(mark, Mark::Line(_))).count();
        assert_eq!(lines, [2, 4, 0, 10, 2][seeds - 1], "two seeds have no third line between them");
    }
}

#[test]
fn lines_end_where_trials_stopped() {
    let scratch = scratch("stopped");
    let stopped = |trial: &TrialSettings| {
        let mut fixture = usual(trial)?;
        let reached =
            fixture.records.iter().position(|record| record.metrics[semfocus_core::Metric::TrainAccuracy] >= 0.95);
        if let Some(last) = reached {
            fixture.records.truncate(last + 1);
            fixture.state = State::Stopped;
        }
        Some(fixture)
    };
    let store = fixture::store(&scratch.0, &experiment("even-pairs", &["full", "banded:5"], 5), stopped).unwrap();
    let curves = &pictures::pictures(&Evidence::read(&store, GOAL).unwrap())[0].figure;
    let of_full = |mark: &&Mark| match mark {
        Mark::Line(line) => line.series.name == "full",
        Mark::Points(points) => points.series.name == "full",
        _ => false,
    };
    let marks: Vec<&Mark> = curves.panels[0].marks.iter().filter(of_full).collect();
    let last = |points: &[(f64, f64)]| {
        points.iter().filter(|point| point.1.is_finite()).map(|point| point.0).fold(0.0, f64::max)
    };
    let mut ends: Vec<f64> = Vec::new();
    let mut median = 0.0;
    for mark in marks {
        match mark {
            Mark::Line(line) if line.pale => ends.push(last(&line.points)),
            Mark::Line(line) => median = last(&line.points),
            Mark::Points(points) => assert_eq!(points.points.iter().map(|point| point.0).collect::<Vec<_>>(), ends),
            _ => {}
        }
    }
    assert_eq!((ends, median), (vec![10.0, 11.0, 12.0, 13.0, 14.0], 10.0), "nothing is carried forward");
    assert!(
        curves.caption.contains("Where trials stopped at the target, the lines of the single seeds end in a dot"),
        "{}",
        curves.caption
    );
}

#[test]
fn figures_without_content_are_a_sentence() {
    let scratch = scratch("unreached");
    let never = |_: &TrialSettings| Some(jump(None));
    let store = fixture::store(&scratch.0, &experiment("even-pairs", &["full", "topk:5"], 3), never).unwrap();
    let written = write(&store);
    assert_eq!(written.figures, ["curves"]);
    let page = std::fs::read_to_string(&written.page).unwrap();
    let words = "No trial reached a training accuracy of 95 %, so there are no figures of the epochs to the target";
    assert!(page.contains(words));
}

#[test]
fn the_page_begins_with_where_it_comes_from_and_what_it_contains() {
    let scratch = scratch("contents");
    let page = std::fs::read_to_string(write(&finished(&scratch.0)).page).unwrap();
    let place = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words} is missing"));
    // One sentence, and the figures that show it, come first.
    assert!(place("<nav") < place("id=\"headline\"") && place("id=\"headline\"") < place("id=\"figure-speedup\""));
    assert!(place("id=\"figure-curves\"") < place("id=\"verdict\""));
    assert!(place("<h1>even-pairs<span class=\"size\">, ") < place("<nav"));
    for id in ["verdict", "figures", "tables", "settings", "trials", "repeat"] {
        assert!(page.contains(&format!("href=\"#{id}\"")) && page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    for broken in ["href=\"tables/", "href=\"trials/"] {
        assert!(!page.contains(broken), "{broken} would not survive when the page is sent somewhere");
    }
    assert!(page.contains("href=\"data:text/csv;charset=utf-8,mechanism,seeds,reached,median_epochs_to_target,"));
    assert!(page.contains("10 of 15 trials reached the target."));
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let (one, other) = (scratch("one"), scratch("other"));
    for scratch in [&one, &other] {
        write(&finished(&scratch.0));
    }
    for file in [
        "figures/curves.svg",
        "figures/seeds.png",
        "figures/survival.pdf",
        "tables/against-baseline.csv",
        "tables/mechanisms.md",
    ] {
        let read = |scratch: &Scratch| std::fs::read(scratch.0.join(file)).unwrap();
        assert!(read(&one) == read(&other), "{file}");
    }
}

#[test]
fn tables_are_as_pinned() {
    let scratch = scratch("tables");
    let evidence = Evidence::read(&finished(&scratch.0), GOAL).unwrap();
    for table in tables::tables(&evidence).iter().filter(|table| table.name != "trials") {
        insta::assert_snapshot!(format!("{}-md", table.name), Markdown.text(table));
        insta::assert_snapshot!(format!("{}-csv", table.name), Csv.text(table));
    }
}

#[test]
fn all_epochs_are_exported_in_long_form() {
    let scratch = scratch("export");
    let store = finished(&scratch.0);
    let frame = Frame::epochs(&store.read().unwrap().into());
    // The untrained model is epoch 0.
    const ROWS: usize = EPOCHS + 1;
    assert_eq!(frame.len(), 3 * 5 * ROWS);
    let column = |wanted: &str| &frame.columns.iter().find(|(name, _)| name == wanted).unwrap().1;
    assert_eq!(column("mechanism").get(ROWS * 5), Value::Text("banded:5"));
    assert_eq!(column("seed").get(0), Value::Integer(semfocus_core::study::SEEDS[0]));
    assert_eq!([column("epoch").get(0), column("epoch").get(EPOCHS)], [0, EPOCHS as u64].map(Value::Integer));
    // The first epoch at the target, as the curve says.
    let Value::Number(before) = column("train_accuracy").get(9) else { panic!("no number") };
    let Value::Number(after) = column("train_accuracy").get(10) else { panic!("no number") };
    assert!(before < 0.95 && after >= 0.95, "{before} {after}");
    // Both formats have the same values.
    let rows: Vec<serde_json::Map<String, serde_json::Value>> =
        JsonLines.text(&frame).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), frame.len());
    let text = Csv.text(&frame);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heads = reader.headers().unwrap().clone();
    for (record, row) in reader.records().zip(&rows) {
        for (head, cell) in heads.iter().zip(&record.unwrap()) {
            let expected = match &row[head] {
                serde_json::Value::String(text) => text.clone(),
                // What is not known, such as the floor here.
                serde_json::Value::Null => String::new(),
                serde_json::Value::Number(number) if number.is_f64() => number.as_f64().unwrap().to_string(),
                other => other.to_string(),
            };
            assert_eq!(cell, expected, "{head}");
        }
    }
}

#[test]
fn figures_of_a_run_are_as_pinned() {
    let scratch = scratch("figures");
    let evidence = Evidence::read(&finished(&scratch.0), GOAL).unwrap();
    for picture in pictures::pictures(&evidence) {
        assert!(picture.figure.caption.contains("n = 5 seeds"), "{}", picture.figure.caption);
        if picture.name == "speedup" {
            insta::assert_snapshot!(picture.figure.svg(Background::White));
        }
    }
}

#[test]
fn an_unfinished_run_says_what_is_missing() {
    let scratch = scratch("unfinished");
    let store =
        fixture::store(&scratch.0, &experiment("even-pairs", &["full", "topk:5", "banded:5"], 2), |trial| match trial
            .mechanism
            .as_str()
        {
            "banded:5" => None,
            "full" => Some(Fixture {
                records: (1..=6).map(|epoch| fixture::jump(epoch, None, 0.5)).collect(),
                state: State::Interrupted,
                probes: Vec::new(),
            }),
            _ => Some(jump(Some(3))),
        })
        .unwrap();
    let written = write(&store);
    assert_eq!(written.missing, 4);
    let page = std::fs::read_to_string(&written.page).unwrap();
    assert!(page.contains("4 of 6 trials are not finished"));
    assert!(page.contains("full, seed 1: interrupted, 6 of 20 epochs"));
    assert!(page.contains("banded:5, seed 2: waiting, 0 of 20 epochs"));
    assert!(page.contains("&gt;2.0×"), "full attention has not reached the goal: a bound");
}

#[test]
fn a_run_without_an_epoch_has_a_page_without_figures() {
    let scratch = scratch("nothing");
    let store = fixture::store(&scratch.0, &experiment("even-pairs", &["full", "topk:5"], 1), |_| None).unwrap();
    let written = write(&store);
    assert!(written.figures.is_empty());
    assert!(std::fs::read_to_string(&written.page).unwrap().contains("2 of 2 trials are not finished"));
}

#[test]
fn a_grid_gets_small_multiples() {
    let scratch = scratch("grid");
    std::fs::create_dir_all(&scratch.0).unwrap();
    let file = scratch.0.join("grid.toml");
    let text = "claim = \"<b>&\"\nbase = \"even-pairs\"\n[grid]\nmodel.activation = [\"relu\", \"gelu\", \"mish\"]\n";
    std::fs::write(&file, text).unwrap();
    let dir = scratch.0.join("run");
    let experiment = experiment(file.to_str().unwrap(), &["full", "topk:5"], 3);
    let written = write(&fixture::store(&dir, &experiment, usual).unwrap());
    assert_eq!(
        written.figures,
        ["grid-training-accuracy", "grid-training-loss", "grid-heldout-accuracy", "grid-map", "grid-speedup"]
    );
    assert_eq!(written.tables, ["mechanisms", "against-baseline", "best-of-grid", "robustness", "trials"]);
    let page = std::fs::read_to_string(&written.page).unwrap();
    assert!(page.contains("&lt;b&gt;&amp;") && !page.contains("<b>&"), "text is text");
    assert!(page.contains("activation = gelu"));
    assert!(
        page.contains("Each mechanism at its best point") && page.contains("faster at 3 and slower at 0 of 3 points")
    );
    assert!(
        page.contains("This claim was not checked: the claim was written for other settings"),
        "mechanisms changed"
    );
    let speedups = std::fs::read_to_string(dir.join("figures/grid-speedup.svg")).unwrap();
    assert!(speedups.contains(">topk:5, activation = gelu</text>"), "rows bear the point, in the words of the panels");
    let map = std::fs::read_to_string(dir.join("figures/grid-map.svg")).unwrap();
    assert!(
        map.contains(">2</text>") && map.contains(">11</text>") && map.contains("a training accuracy of 95 %"),
        "cells have numbers: {map}"
    );
}

#[test]
fn damage_costs_a_trial_and_is_said() {
    let scratch = scratch("damaged");
    let store = finished(&scratch.0);
    let folder = store.read().unwrap().trials[1].folder.clone();
    let damage = || {
        let damage = Evidence::read(&store, GOAL).unwrap().damage;
        damage.into_iter().map(String::from).collect::<Vec<_>>().join("\n")
    };
    let record = folder.path().join("epochs.csv");
    let good = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, good.replace("\n7,", "\n9,")).unwrap();
    assert!(damage().contains("epochs.csv is damaged: line 9: "), "{}", damage());
    let evidence = Evidence::read(&store, GOAL).unwrap();
    assert_eq!(evidence.trials().filter(|observed| observed.measures.is_none()).count(), 1, "the others are there");
    let written = semfocus_report::write(&store, &evidence).unwrap();
    assert!(std::fs::read_to_string(written.page).unwrap().contains("unreadable"), "the page says so");
    std::fs::write(&record, good).unwrap();
    std::fs::write(folder.path().join("status.json"), "{").unwrap();
    assert!(damage().contains("status.json is damaged"), "{}", damage());
    std::fs::remove_file(folder.path().join("status.json")).unwrap();
    std::fs::write(folder.path().join("trial.toml"), "model.blocks = \"x\"").unwrap();
    assert!(damage().contains("trial.toml is damaged: `model.blocks`: expected a whole number"), "{}", damage());
    std::fs::remove_file(folder.path().join("trial.toml")).unwrap();
    std::fs::write(scratch.0.join("trials.csv"), "something,else\n").unwrap();
    assert!(damage().contains("trials.csv is damaged: line 1: expected the header"), "{}", damage());
    std::fs::write(scratch.0.join("experiment.toml"), "seeds = true").unwrap();
    assert!(damage().contains("experiment.toml is damaged: its checksum is missing"), "{}", damage());
    // Without the copy nothing is left to read.
    std::fs::remove_file(scratch.0.join("trials/experiment.toml")).unwrap();
    let error = Evidence::read(&store, GOAL).unwrap_err().to_string();
    assert!(error.contains("experiment.toml has no checksum, and no copy"), "{error}");
    let empty = scratch.0.join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(Store::open(&empty).unwrap_err().to_string().contains("is not a run: it has no experiment.toml"));
}

/// Probes after epochs 0, 10 and 20: the conditions begin to hold for top-k attention when full attention's scores spread.
fn probed(trial: &TrialSettings) -> Option<Fixture> {
    let probe = |epoch: usize| match trial.mechanism.as_str() {
        "full" => fixture::probe(epoch, 40, 1.0 + epoch as f64, None, 40.0),
        "topk:5" => fixture::probe(epoch, 5, 2.0, Some(0.02), 6.0),
        _ => fixture::probe(epoch, 5, 2.0, Some(-0.5), 5.0),
    };
    Some(Fixture { probes: [0, 10, 20].map(probe).to_vec(), ..usual(trial)? })
}

#[test]
fn probes_get_a_section_with_a_verdict_for_each_condition() {
    let scratch = scratch("probed");
    let experiment = experiment("even-pairs", &["full", "topk:5", "banded:5"], 2);
    let store = fixture::store(&scratch.0, &experiment, probed).unwrap();
    let written = write(&store);
    for figure in ["theory-curves", "prediction"] {
        assert!(written.figures.iter().any(|name| name == figure), "{:?}", written.figures);
    }
    let page = std::fs::read_to_string(&written.page).unwrap();
    // δh/δs + ln(2 · 51)/δs is 0.60 at δs = 11 and 0.32 at 21.
    assert!(page.contains(
        "(W) holds at the last probe (left-hand side 0.32 to 0.32), and in 67 % of all probes, from epoch 10 to 20"
    ));
    assert!(page.contains("the conditions do not apply: they are about the softmax over the highest scores"));
    let conditions = std::fs::read_to_string(scratch.0.join("tables/conditions.csv")).unwrap();
    assert_eq!(conditions.lines().count(), 1 + 2 * 4, "two seeds, four quantiles");
    assert!(conditions.contains("topk:5,153476998,20,75,21,2,0.02,6,0.315"), "{conditions}");
    let relevance = std::fs::read_to_string(scratch.0.join("tables/relevance.csv")).unwrap();
    assert!(relevance.contains("topk:5,0,0.3,0.1,0.6,0.125,0.4,"), "{relevance}");
}

#[test]
fn a_grid_shows_the_conditions_at_each_of_its_points() {
    let scratch = scratch("probed-grid");
    std::fs::create_dir_all(&scratch.0).unwrap();
    let file = scratch.0.join("grid.toml");
    std::fs::write(&file, "claim = \"\"\nbase = \"even-pairs\"\n[grid]\nmodel.activation = [\"relu\", \"gelu\"]\n")
        .unwrap();
    let dir = scratch.0.join("run");
    let experiment = experiment(file.to_str().unwrap(), &["full", "topk:5"], 2);
    let written = write(&fixture::store(&dir, &experiment, probed).unwrap());
    for figure in ["theory-curves-w", "theory-curves-x", "prediction"] {
        assert!(written.figures.iter().any(|name| name == figure), "{:?}", written.figures);
    }
    let w = std::fs::read_to_string(dir.join("figures/theory-curves-w.svg")).unwrap();
    assert!(w.contains(">activation = relu</text>") && w.contains(">activation = gelu</text>"));
    let prediction = std::fs::read_to_string(dir.join("figures/prediction.svg")).unwrap();
    assert!(prediction.contains(", seed 1</text>"), "points bear their names");
    let page = std::fs::read_to_string(&written.page).unwrap();
    assert!(page.contains("<b>topk:5, activation = relu</b>") && page.contains("<b>topk:5, activation = gelu</b>"));
}

#[test]
fn a_run_without_probes_and_surfaces_has_no_such_sections() {
    let scratch = scratch("unprobed");
    let written = write(&finished(&scratch.0));
    let page = std::fs::read_to_string(&written.page).unwrap();
    assert!(!page.contains("id=\"theory\"") && !page.contains("id=\"surface\"") && !page.contains("<canvas"));
}

/// Full attention learns late, top-k and `oracle` early, half of the controls in between or never.
fn with_controls(trial: &TrialSettings) -> Option<Fixture> {
    let seed = semfocus_core::study::SEEDS.iter().position(|seed| *seed == trial.seed).unwrap();
    let early = 2 + seed % 2;
    Some(jump(match trial.mechanism.as_str() {
        "full" => Some(16 + seed % 3),
        "topk:5" | "oracle:5" | "stk:5" | "maskedk:5" => Some(early),
        "antioracle:5" | "banded:5" => None,
        "frozenk:5" => Some(5 + 3 * (seed % 2)),
        "gradk:5" => Some(if seed == 0 { 20 } else { 15 }),
        _ => Some(15 + (seed + 1) % 4),
    }))
}

#[test]
fn controls_get_a_section_with_a_figure() {
    let scratch = scratch("causes");
    let mechanisms = [
        "full",
        "topk:5",
        "oracle:5",
        "antioracle:5",
        "fixedk:5",
        "banded:5",
        "shuffledk:5",
        "hashk:5",
        "frozenk:5",
        "stk:5",
        "gradk:5",
        "maskedk:5",
        "temperature:entropy=5",
        "matchedgrad:5",
        "sparsemax",
    ];
    let store = fixture::store(&scratch.0, &experiment("even-pairs", &mechanisms, 8), with_controls).unwrap();
    let before = permutation_tests();
    let evidence = Evidence::read(&store, GOAL).unwrap();
    assert_eq!((evidence.causes().len(), permutation_tests() - before), (1, 1), "`explain` compares nothing else");
    let written = semfocus_report::write(&store, &evidence).unwrap();
    assert_eq!(permutation_tests() - before, 1 + 14, "one more for each mechanism but full attention");
    assert!(written.figures.contains(&"causes".to_owned()) && written.tables.contains(&"causes".to_owned()));
    let page = std::fs::read_to_string(&written.page).unwrap();
    for words in [
        "top-k attention learns faster because it focuses on semantically relevant keys",
        "knowing where to look</b> <span><span class=\"good\">supported</span>: enough by itself (oracle:5)",
        "sparsity of any kind</b> <span><span class=\"bad\">excluded</span>: not enough by itself (fixedk:5, hashk:5)",
        "renormalisation</b> <span><span class=\"bad\">excluded</span>: the speed-up remains without it (maskedk:5)",
        "keeps k keys that are drawn once for each layer, head and query",
        "told which keys matter",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // More mechanisms than one panel can show: one panel for each, with full attention in grey.
    assert!(
        written.figures.contains(&"curves".to_owned())
            && written.figures.contains(&"curves-heldout-accuracy".to_owned())
    );
    let contents = Contents::new(&evidence);
    let picture = |name: &str| &contents.all_pictures().find(|picture| picture.name == name).unwrap().figure;
    for name in ["curves", "survival"] {
        let titles: Vec<&str> = picture(name).panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, mechanisms[1..], "{name}");
    }
    // Every mechanism has a style of its own, the same in all figures.
    let mut styles: Vec<(String, Style)> = Vec::new();
    for mark in contents.all_pictures().flat_map(|picture| &picture.figure.panels).flat_map(|panel| &panel.marks) {
        let (Mark::Line(Line { series, .. }) | Mark::Interval(Interval { series, .. })) = mark else { continue };
        let look = (series.style.paint, series.style.marker, series.style.dash);
        for (name, other) in styles.iter().filter(|(name, _)| !name.is_empty() && !series.name.is_empty()) {
            let is_alike = look == (other.paint, other.marker, other.dash);
            assert_eq!(is_alike, *name == series.name, "{name} and {}", series.name);
        }
        if !styles.iter().any(|(name, _)| *name == series.name) {
            styles.push((series.name.clone(), series.style));
        }
    }
    assert!(styles.len() >= mechanisms.len(), "{styles:?}");
    let csv = std::fs::read_to_string(scratch.0.join("tables/causes.csv")).unwrap();
    let oracle = csv.lines().find(|line| line.starts_with("oracle:5,8,8,")).unwrap();
    assert!(oracle.contains(",1,") && oracle.contains(",most,topk:5,"), "{oracle}");
    // Without controls there is no such section.
    let other = self::scratch("no-causes");
    assert!(!write(&finished(&other.0)).figures.contains(&"causes".to_owned()));
}
