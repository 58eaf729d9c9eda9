//! Reports of invented runs on tasks that ask at tokens: losses with their floor, and questions by position and distance.

use std::f64::consts::LN_2;

use semfocus_analysis::evidence::{Evidence, GOAL};
use semfocus_core::study::SEEDS;
use semfocus_core::{AnyName, DataFacts, EpochRecord, Experiment, Metric, Request, SplitFacts, TrialSettings};
use semfocus_figure::{Background, Mark, Scale};
use semfocus_fixture::{self as fixture, Fixture, Questions, Scratch};
use semfocus_report::{Contents, pictures::Picture};
use semfocus_store::{SliceRecord, State, Store};

const EPOCHS: usize = 24;
const POSITIONS: u32 = 32;
const FLOOR: f64 = 0.8;
const UNIGRAM: f64 = 2.0;

fn experiment(mechanisms: &[&str], seeds: usize) -> Experiment {
    let request = Request {
        experiment: "even-pairs".to_owned(),
        scale: Some(semfocus_core::Scale::Full),
        mechanisms: Some(mechanisms.iter().map(|&mechanism| mechanism.to_owned()).collect()),
        seeds: Some(seeds),
        epochs: Some(EPOCHS),
        ..Request::default()
    };
    Experiment::resolve(&request, &AnyName).unwrap()
}

/// How much of the way to the best possible prediction a trial has gone: top-k attention goes it twice as fast.
fn learned(trial: &TrialSettings, epoch: usize) -> f64 {
    let seed = SEEDS.iter().position(|seed| *seed == trial.seed).unwrap() as f64;
    let epochs = if trial.mechanism == "topk:5" { 3.0 } else { 6.0 } + 0.3 * seed;
    1.0 - (-(epoch as f64) / epochs).exp()
}

/// The loss at a position: at first nothing is known, and the context helps more the longer it is.
fn loss_at(trial: &TrialSettings, epoch: usize, position: u32) -> f64 {
    let context = f64::from(position) / (f64::from(position) + 4.0);
    UNIGRAM - learned(trial, epoch) * context * (UNIGRAM - FLOOR)
}

fn losses(trial: &TrialSettings) -> Option<Fixture> {
    let record = |epoch: usize| {
        let positions = (0..POSITIONS).map(|position| loss_at(trial, epoch, position));
        let loss = positions.sum::<f64>() / f64::from(POSITIONS);
        let mut record = fixture::jump(epoch, None, 0.5);
        record.metrics[Metric::TrainLoss] = loss + 0.02;
        record.metrics[Metric::HeldoutLoss] = loss;
        for metric in [Metric::TrainAccuracy, Metric::HeldoutAccuracy] {
            record.metrics[metric] = (-loss).exp();
        }
        record
    };
    let records: Vec<EpochRecord> = (1..=EPOCHS).map(record).collect();
    Some(Fixture { records, state: State::Finished, probes: Vec::new() })
}

fn facts(characters: Option<f64>) -> DataFacts {
    let split = SplitFacts { floor: Some(FLOOR), unigram: Some(UNIGRAM), characters };
    DataFacts { train: split, held_out: split, test: SplitFacts::default() }
}

/// Positions, and distances of some of the questions.
fn questions(trial: &TrialSettings) -> Option<Questions> {
    let mut slices = Vec::new();
    for epoch in 0..=EPOCHS {
        let group = |slice: &str, value: u32, questions: usize, loss: f64| SliceRecord {
            epoch,
            slice: slice.into(),
            value,
            questions,
            loss,
            accuracy: (-loss).exp(),
        };
        slices.extend((0..POSITIONS).map(|at| group("position", at, 2000, loss_at(trial, epoch, at))));
        let distances = [1, 2, 4, 8, 16].map(|at| group("distance", at, 900, loss_at(trial, epoch, 20 - at)));
        slices.extend(distances);
    }
    Some(Questions { facts: facts(None), slices })
}

fn store(scratch: &Scratch, experiment: &Experiment) -> Store {
    let store = fixture::store(&scratch.path().join("run"), experiment, losses).unwrap();
    fixture::add_questions(&store, questions).unwrap();
    store
}

fn contents(store: &Store) -> Contents {
    Contents::new(&Evidence::read_all(store, GOAL).unwrap())
}

fn picture<'a>(contents: &'a Contents, name: &str) -> &'a Picture {
    let names: Vec<&str> = contents.all_pictures().map(|picture| picture.name.as_str()).collect();
    contents.all_pictures().find(|picture| picture.name == name).unwrap_or_else(|| panic!("no {name} in {names:?}"))
}

fn labels(picture: &Picture) -> Vec<&str> {
    picture.figure.panels.iter().map(|panel| panel.y.label.as_str()).collect()
}

#[test]
fn losses_are_shown_with_their_floor_and_questions_by_position() {
    let scratch = Scratch::new("sequences");
    let store = store(&scratch, &experiment(&["full", "topk:5", "banded:5"], 5));
    let written = semfocus_report::write(&store, &Evidence::read_all(&store, GOAL).unwrap()).unwrap();
    assert_eq!(
        written.figures,
        ["curves", "losses", "by-position", "by-position-training", "by-distance"],
        "nothing reached the target"
    );
    assert_eq!(written.tables, ["mechanisms", "against-baseline", "trials", "losses", "questions"]);
    let page = std::fs::read_to_string(&written.page).unwrap();
    for words in [
        "has a held-out loss of 2.000 nats (unigram).",
        "The best possible prediction has a held-out loss of 0.800 nats (floor).",
        "Dashed: unigram, floor.",
        "accuracy by position from 13.5 % at 0 to ",
        ", by distance from ",
        "Questions by position during training",
        "The largest difference to full attention is at position ",
        "<a href=\"#loss\">Loss</a>",
        "<a href=\"#questions\">By question</a>",
        "href=\"figures/by-distance.png\"",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let contents = contents(&store);
    let losses = picture(&contents, "losses");
    assert_eq!(labels(losses), ["held-out loss", "held-out excess loss"]);
    assert_eq!(losses.figure.panels[1].y.scale, Scale::Log);
    let lines: Vec<usize> = losses
        .figure
        .panels
        .iter()
        .map(|panel| panel.marks.iter().filter(|mark| matches!(mark, Mark::Rule(_))).count())
        .collect();
    assert_eq!(lines, [2, 0]);
    // The training loss of the learning curves has the lines of its own split.
    let curves = picture(&contents, "curves").figure.svg(Background::White);
    assert!(curves.contains(">unigram</text>") && curves.contains(">floor</text>"), "{curves}");
    let by_position = picture(&contents, "by-position");
    assert_eq!(labels(by_position), ["held-out accuracy (%)", "held-out loss"]);
    assert_eq!(by_position.figure.panels[0].x.limits, Some((0.0, 31.0)));
    let titles: Vec<&str> =
        picture(&contents, "by-position-training").figure.panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["epoch 1", "epoch 8", "epoch 16", "epoch 24"]);
}

#[test]
fn the_table_has_every_group() {
    let scratch = Scratch::new("groups");
    let store = store(&scratch, &experiment(&["full", "topk:5"], 3));
    semfocus_report::write(&store, &Evidence::read_all(&store, GOAL).unwrap()).unwrap();
    let csv = std::fs::read_to_string(store.dir().join("tables/questions.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "slice,value,mechanism,questions,heldout_accuracy,heldout_loss");
    assert_eq!(lines.len(), 1 + 2 * (32 + 5));
    // Nothing is known at the first position.
    assert_eq!(lines[1], format!("position,0,full,2000,{},2", (-2f64).exp()));
    // The second of three seeds is the median: six epochs and 0.3 for full attention, at half of the way of the context.
    let loss = 2.0 - (1.0 - (-24f64 / 6.3).exp()) * 0.5 * 1.2;
    let line = lines.iter().find(|line| line.starts_with("position,4,full,2000,")).unwrap();
    let found: f64 = line.rsplit(',').next().unwrap().parse().unwrap();
    assert!((found - loss).abs() < 1e-12, "{line}");
    let losses = std::fs::read_to_string(store.dir().join("tables/losses.csv")).unwrap();
    assert!(
        losses.starts_with("mechanism,heldout_loss,heldout_excess,heldout_learned,heldout_perplexity\nfull,"),
        "{losses}"
    );
    let row: Vec<f64> = losses.lines().nth(1).unwrap().split(',').skip(1).map(|value| value.parse().unwrap()).collect();
    assert!((row[0] - row[1] - FLOOR).abs() < 1e-12, "{row:?}");
    assert!((row[2] - (UNIGRAM - row[0]) / (UNIGRAM - FLOOR)).abs() < 1e-12, "{row:?}");
    assert!((row[3] - row[0].exp()).abs() < 1e-9, "{row:?}");
}

#[test]
fn a_target_on_a_loss_shows_the_loss_first() {
    let scratch = Scratch::new("loss-first");
    let store = store(&scratch, &experiment(&["full", "topk:5"], 3));
    let evidence = Evidence::read_all(&store, "heldout_excess <= 0.3".parse::<semfocus_core::Goal>().unwrap()).unwrap();
    let contents = Contents::new(&evidence);
    assert_eq!(labels(picture(&contents, "curves"))[0], "held-out excess loss");
    assert_eq!(labels(picture(&contents, "losses")), ["held-out loss"], "one fact once");
    assert_eq!(labels(picture(&contents, "by-position")), ["held-out loss", "held-out accuracy (%)"]);
}

#[test]
fn text_has_perplexity_and_bits_per_character() {
    let scratch = Scratch::new("text");
    let store = fixture::store(&scratch.path().join("run"), &experiment(&["full", "topk:5"], 3), losses).unwrap();
    let invent = |_: &TrialSettings| {
        let split = SplitFacts { floor: None, ..facts(Some(4.0)).held_out };
        Some(Questions { facts: DataFacts { train: split, held_out: split, test: split }, slices: Vec::new() })
    };
    fixture::add_questions(&store, invent).unwrap();
    let contents = contents(&store);
    assert_eq!(
        labels(picture(&contents, "losses")),
        ["held-out loss", "held-out perplexity", "held-out loss in bits per character"]
    );
    assert!(contents.sections.iter().all(|section| section.id != "questions"));
    let table = contents.all_tables().find(|table| table.name == "losses").unwrap();
    let column = |name: &str| {
        let column = table.columns.iter().find(|column| column.name == name).unwrap();
        column.shown[0].parse::<f64>().unwrap()
    };
    let (loss, bits) = (column("heldout_loss"), column("heldout_bits_per_character"));
    assert!((bits - loss / LN_2 / 4.0).abs() < 1e-3, "{loss} {bits}");
    assert!(table.columns.iter().all(|column| column.name != "heldout_excess"), "nobody knows the floor");
}

#[test]
fn many_mechanisms_get_a_panel_each() {
    let scratch = Scratch::new("many");
    let mechanisms =
        ["full", "topk:3", "topk:5", "topk:9", "banded:3", "banded:5", "block:3", "block:5", "sparsemax", "sigmoid"];
    let store = store(&scratch, &experiment(&mechanisms, 2));
    let contents = contents(&store);
    for name in
        ["by-position", "by-position-heldout-loss", "by-position-training-1", "by-position-training-16", "losses"]
    {
        let titles: Vec<&str> =
            picture(&contents, name).figure.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, mechanisms[1..], "{name}");
    }
    let is_last = |picture: &Picture| picture.name == "by-position-training-24";
    assert!(!contents.all_pictures().any(is_last), "that is the figure of the last epoch");
}

#[test]
fn a_grid_has_a_panel_for_each_point() {
    let scratch = Scratch::new("sequences-grid");
    let file = scratch.path().join("grid.toml");
    let text = "claim = \"\"\nbase = \"even-pairs\"\n[grid]\nmodel.activation = [\"relu\", \"gelu\", \"mish\"]\n";
    std::fs::write(&file, text).unwrap();
    let experiment = experiment_of(file.to_str().unwrap());
    let store = store(&scratch, &experiment);
    let contents = contents(&store);
    for name in ["grid-losses", "by-position", "by-distance"] {
        let titles: Vec<&str> =
            picture(&contents, name).figure.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["activation = relu", "activation = gelu", "activation = mish"], "{name}");
    }
    assert_eq!(labels(picture(&contents, "grid-losses"))[0], "held-out excess loss");
    let table = contents.all_tables().find(|table| table.name == "questions").unwrap();
    assert_eq!((table.columns[0].title.as_str(), table.len()), ("activation", 3 * 2 * (32 + 5)));
}

fn experiment_of(file: &str) -> Experiment {
    let request = Request {
        experiment: file.to_owned(),
        mechanisms: Some(vec!["full".to_owned(), "topk:5".to_owned()]),
        seeds: Some(2),
        epochs: Some(EPOCHS),
        ..Request::default()
    };
    Experiment::resolve(&request, &AnyName).unwrap()
}
