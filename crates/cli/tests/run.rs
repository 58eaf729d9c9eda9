//! `semfocus run`, `status` and `show`, as a user and a script see them.

mod common;

use std::path::Path;

use common::{SMALL, Scratch, assert_refused, assert_same_bits, epochs, semfocus, trials};

#[test]
fn the_default_experiment_runs_once_tiny() {
    let scratch = Scratch::new("smoke");
    let dir = scratch.path("run");
    let output = semfocus(&["run", "even-pairs", "--smoke", "-o", &dir]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for mechanism in ["full", "topk:5", "banded:5", "block:5"] {
        assert!(output.stdout.lines().any(|line| line.starts_with(mechanism)), "{}", output.stdout);
    }
    for line in [
        "reduced    compared with the published experiment: 5 seeds instead of 10",
        "changed    1 seed instead of 5; ",
        "trials     4 = 4 mechanisms × 1 seed, 1 epoch each (4 in all)",
        "time       at most about ",
        "memory     about ",
        "disk       about ",
    ] {
        assert!(output.stderr.contains(line), "{line} in {}", output.stderr);
    }
    let wide =
        |text: &str| text.lines().filter(|line| line.chars().count() > 80).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(wide(&output.stdout), Vec::<String>::new());
    for trial in trials(&dir) {
        for file in ["trial.toml", "epochs.csv", "status.json", "env.json", "last.safetensors", "best.safetensors"] {
            assert!(trial.join(file).is_file(), "{file}");
        }
    }
    let trial = trials(&dir)[0].clone();
    let record = std::fs::read_to_string(trial.join("epochs.csv")).unwrap();
    let header =
        "epoch,lr,train_loss,train_accuracy,heldout_loss,heldout_accuracy,grad_norm,seconds,steps,check,format";
    assert_eq!(record.lines().next(), Some(header));
    // The untrained model comes first: it has taken no step and knows nothing of the two classes.
    let shown = semfocus(&["show", trial.to_str().unwrap(), "--json"]).stdout;
    let untrained = &serde_json::from_str::<serde_json::Value>(&shown).unwrap()["untrained"];
    assert!(record.lines().nth(1).unwrap().starts_with("0,0,"), "{record}");
    assert_eq!((&untrained["steps"], &untrained["lr"]), (&0.into(), &0.0.into()));
    let loss = untrained["heldout_loss"].as_f64().unwrap();
    assert!((loss - 2f64.ln()).abs() < 0.1, "{loss}");
}

#[test]
fn results_do_not_depend_on_how_many_trials_run_at_once() {
    let scratch = Scratch::new("jobs");
    let file = scratch.file("small.toml", SMALL);
    let runs = ["1", "2", "4"].map(|jobs| {
        let dir = scratch.path(jobs);
        let output = semfocus(&["run", &file, "-o", &dir, "-j", jobs, "--quiet"]);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""));
        let table = output.stdout.strip_suffix(&format!("\nresults    {dir}\n")).expect("it ends with the folder");
        (dir, table.to_owned())
    });
    for (dir, table) in &runs[1..] {
        assert_same_bits(&runs[0].0, dir);
        assert_eq!(*table, runs[0].1);
    }
}

#[test]
fn training_is_as_pinned() {
    // Numbers that this very code gave once: they guard data, order, schedule, clipping, momentum and evaluation.
    let scratch = Scratch::new("pinned");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "--epochs", "3", "--seeds", "1"]).code, 0);
    let mut last: Vec<Vec<f64>> = trials(&dir)
        .iter()
        .map(|trial| epochs(trial)[3].split(',').map(|number| number.parse().unwrap()).collect())
        .collect();
    last.sort_by(|a, b| a[2].total_cmp(&b[2]));
    for (numbers, pinned) in last.iter().zip(PINNED) {
        for (number, pinned) in numbers.iter().zip(pinned) {
            // Rounding on another processor may move an example across a boundary.
            assert!((number - pinned).abs() < 0.01 * pinned, "{last:?}, pinned {PINNED:?}");
        }
    }
}

/// epoch, lr, train_loss, train_accuracy, heldout_loss, heldout_accuracy, grad_norm of the third epoch.
const PINNED: [[f64; 7]; 2] = [
    [3.0, 0.099_900_025, 0.694_300, 0.505, 0.709_898, 0.51, 0.321_082],
    [3.0, 0.099_900_025, 0.696_775, 0.5025, 0.704_974, 0.48, 0.338_585],
];

#[test]
fn finished_trials_are_not_touched_and_experiments_can_grow() {
    let scratch = Scratch::new("grow");
    let file = scratch.file("small.toml", SMALL);
    let (small, grown, whole) = (scratch.path("small"), scratch.path("grown"), scratch.path("whole"));
    let run = |dir: &str, more: &[&str]| {
        let output = semfocus(&[&["run", &file, "-o", dir], more].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        output
    };
    run(&whole, &[]);
    run(&small, &["--epochs", "4", "--seeds", "1", "--mechanisms", "full"]);
    let before = std::fs::metadata(trials(&small)[0].join("last.safetensors")).unwrap().modified().unwrap();
    let again = run(&small, &["--epochs", "4", "--seeds", "1", "--mechanisms", "full"]);
    assert!(
        again.stderr.contains("done       1 of 1 trial (resumed)") && !again.stderr.contains("finished after"),
        "{}",
        again.stderr
    );
    let after = std::fs::metadata(trials(&small)[0].join("last.safetensors")).unwrap().modified().unwrap();
    assert_eq!(before, after, "a finished trial is not written again");
    run(&grown, &["--epochs", "4", "--seeds", "1", "--mechanisms", "full"]);
    let more = run(&grown, &["--epochs", "12"]);
    assert!(more.stderr.contains("done       0 of 4 trials (3 added)"), "{}", more.stderr);
    assert_same_bits(&whole, &grown);
}

#[test]
fn another_experiment_does_not_mix_with_the_first() {
    let scratch = Scratch::new("other");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    let first = semfocus(&["run", &file, "-o", &dir, "--epochs", "2"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let index = std::fs::read(Path::new(&dir).join("trials.csv")).unwrap();
    for (change, words) in
        [("model.blocks=1", "model.blocks 1 instead of 2"), ("data.length=11", "data.length 11 instead of 10")]
    {
        let output = semfocus(&["run", &file, "-o", &dir, "--epochs", "2", "-s", change]);
        assert_eq!(output.code, 1, "{}", output.stderr);
        assert!(output.stderr.contains("holds another experiment"), "{}", output.stderr);
        assert!(output.stderr.contains(words) && output.stderr.contains("with -o"), "{}", output.stderr);
    }
    assert_eq!(index, std::fs::read(Path::new(&dir).join("trials.csv")).unwrap(), "nothing was changed");
    let foreign = scratch.path("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(Path::new(&foreign).join("thesis.tex"), "all of it").unwrap();
    let output = semfocus(&["run", &file, "-o", &foreign]);
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("it has other files, such as thesis.tex"), "{}", output.stderr);
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1);
}

#[test]
fn a_diverged_trial_is_a_result() {
    let scratch = Scratch::new("diverged");
    let text = SMALL.replace("momentum = 0.9", "clip = inf") + "\n[grid]\ntraining.learning_rate = [0.1, 1e30]\n";
    let file = scratch.file("small.toml", &text);
    let dir = scratch.path("run");
    let output = semfocus(&["run", &file, "-o", &dir, "--json"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["diverged"].as_array().unwrap().len(), 4, "{report}");
    assert_eq!(report["finished"], 4);
    assert!(output.stderr.contains("4 of 8 trials done, 4 diverged; all files are in"), "{}", output.stderr);
    assert_eq!(report["comparison"].as_array().unwrap().len(), 4, "two mechanisms at two points");
    assert!(output.stderr.contains("diverged in epoch 1"), "{}", output.stderr);
    let status = semfocus(&["status", &dir]);
    assert!(status.stdout.contains("4 done, 0 running, 4 diverged, 0 failed, 0 left"), "{}", status.stdout);
    let table = semfocus(&["compare", &dir]).stdout;
    assert!(table.contains("0 of 2") && !table.contains("0 of 0"), "{table}");
    // A result stays one.
    let again = semfocus(&["run", &file, "-o", &dir]);
    assert_eq!(again.code, 3);
    assert!(!again.stderr.contains("diverged in epoch"), "{}", again.stderr);
}

#[test]
fn a_goal_ends_a_trial_early_and_can_be_lifted() {
    let scratch = Scratch::new("goal");
    let file = scratch.file("small.toml", SMALL);
    let (dir, whole) = (scratch.path("run"), scratch.path("whole"));
    let goal = ["-s", "training.stop_when=train_accuracy >= 0.5"];
    let output = semfocus(&[&["run", &file, "-o", &dir], &goal[..]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("reached its target in epoch"), "{}", output.stderr);
    let status = semfocus(&["status", &dir, "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert!(status["list"].as_array().unwrap().iter().any(|trial| trial["state"] == "stopped"), "{status}");
    // A process that died after the epoch that reached the goal and before saying so: no epoch is added.
    let before: Vec<Vec<String>> = trials(&dir).iter().map(|trial| epochs(trial)).collect();
    for trial in trials(&dir) {
        let path = trial.join("status.json");
        let text = std::fs::read_to_string(&path).unwrap().replace("\"stopped\"", "\"running\"");
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(semfocus(&[&["run", &file, "-o", &dir], &goal[..]].concat()).code, 0);
    assert_eq!(before, trials(&dir).iter().map(|trial| epochs(trial)).collect::<Vec<_>>());
    assert_eq!(semfocus(&["run", &file, "-o", &dir]).code, 0);
    assert_eq!(semfocus(&["run", &file, "-o", &whole]).code, 0);
    assert_same_bits(&whole, &dir);
}

#[test]
fn own_data_can_be_trained_on() {
    let scratch = Scratch::new("own");
    let generated = semfocus(&["data", "generate", "parity", "-n", "600", "--length", "6..8", "--seed", "3"]);
    let data = scratch.file("mine.txt", &generated.stdout);
    let file = scratch.file("own.toml", &SMALL.replace("even-pairs", &data).replace("length = 10\n", ""));
    let dir = scratch.path("run");
    let output = semfocus(&["run", &file, "-o", &dir, "--epochs", "2"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let settings = std::fs::read_to_string(trials(&dir)[0].join("trial.toml")).unwrap();
    assert!(settings.contains("checksum = "), "{settings}");
    // Another file under the same name is another experiment.
    let lines: Vec<&str> = generated.stdout.lines().rev().collect();
    std::fs::write(&data, lines.join("\n") + "\n").unwrap();
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "--epochs", "2"]).code, 1);
}

#[test]
fn a_dry_run_tells_and_does_nothing() {
    let scratch = Scratch::new("dry");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    let output = semfocus(&["run", &file, "-o", &dir, "-n"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("4 = 2 mechanisms × 2 seeds, 12 epochs each (48 in all)"), "{}", output.stdout);
    for line in ["time       about", "memory     about", "disk       about", "topk:3          2     0      12"] {
        assert!(output.stdout.contains(line), "{line} in {}", output.stdout);
    }
    assert!(!Path::new(&dir).exists());
    let output = semfocus(&["run", &file, "-o", &dir, "-n", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["list"].as_array().unwrap().len(), 4);
    assert!(report["core_seconds"].as_f64().unwrap() > 0.0 && report["disk_bytes"].as_u64().unwrap() > 10_000);
}

#[test]
fn mistakes_in_experiment_files_are_shown_where_they_are() {
    let scratch = Scratch::new("mistakes");
    let cases = [
        ("blocks = 2", "block = 2", ":13:1", "unknown setting `model.block`\n"),
        ("blocks = 2", "block = 2", "", "help: did you mean `model.blocks`?"),
        (
            "blocks = 2",
            "blocks = \"two\"",
            ":13:10",
            "`model.blocks`: expected a whole number from 0 to 1000, got \"two\"",
        ),
        ("blocks = 2", "blocks = \"two\"", "", "13 | blocks = \"two\"\n   |          ^^^^^"),
        ("dropout = 0.1", "dropout = 1.5", ":16:11", "expected a number of at least 0 and below 1, got 1.5"),
        ("\"topk:3\"", "\"topk:0\"", ":4:14", "at least 1"),
        ("\"topk:3\"", "\"tokp:3\"", ":4:14", "did you mean `topk:3`?"),
        ("\"topk:3\"", "\"full\"", ":4:14", "`full` is in the list twice"),
        ("seeds = 2", "seeds = [1, 2, 1]", ":5:9", "the seed 1 is in the list twice"),
        ("seeds = 2", "seed = 2", ":5:1", "write `seeds = 3`"),
        ("\"even-pairs\"", "\"even-pears\"", ":3:8", "did you mean `even-pairs`?"),
        ("length = 10", "length = 0", ":8:10", "needs sequences of at least 1 token"),
        ("momentum = 0.9", "momentum = 0.9\noptimizer = \"adam\"", ":20:12", "momentum belongs to `sgd`"),
        ("[model]", "[modle]", ":12:2", "unknown setting `modle`"),
        ("claim = \"Nothing: it is small.\"", "claim = Nothing", ":2:9", "this is not TOML"),
        ("[training]", "[grid]\ntraining.epochs = [1, 2]\n[training]", ":19:1", "cannot be in a grid"),
        (
            "[training]",
            "[grid]\nmodel.heads = [1, 0]\n[training]",
            ":19:19",
            "expected a whole number from 1 to 1000, got 0",
        ),
        ("[training]", "[grid]\nmodel.heads = 2\n[training]", ":19:15", "is a list of values"),
        ("seeds = 2", "seeds = 2\nbase = \"evenpairs\"", ":6:8", "did you mean `even-pairs`?"),
        ("task = \"even-pairs\"\n", "", "", "names no task"),
    ];
    assert_refused(&scratch, SMALL, &cases);
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    for (arguments, message) in [
        (&["run", "even-pair"][..], "did you mean `even-pairs`?"),
        (&["run", "figure-9"], "it has panels: figure-9a, figure-9b"),
        (&["run", "no-such-file.toml"], "cannot read no-such-file.toml"),
        (&["run", "even-pairs", "-s", "lr=1"], "did you mean `training.learning_rate`?"),
        (&["run", "even-pairs", "-s", "model.heads=0"], "`-s model.heads=0`: `model.heads`: expected a whole number"),
        (&["run", "even-pairs", "-s", "model.heads"], "an override is written key=value"),
        (&["run", "even-pairs", "--mechanisms", "full,tpok:5"], "did you mean `topk:5`?"),
        (&["run", "even-pairs", "--scale", "huge"], "there are quick, medium and full"),
        (&["run", "even-pairs", "--seeds", "0"], "expected a number of seeds from 1 to 100000, or a list"),
        (&["run", "even-pairs", "--seed", "3"], "a similar argument exists: '--seeds'"),
        (&["run", "even-pairs", "-s", "scale=quick"], "use --scale quick"),
    ] {
        let output = semfocus(arguments);
        assert_eq!(output.code, 2, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(message), "{arguments:?}: {}", output.stderr);
        assert_eq!(output.stdout, "");
    }
    let none = semfocus(&["status", "no-such-run"]);
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("no-such-run is not a run: there is no such folder"), "{}", none.stderr);
    let none = semfocus(&["show", "no-such-run/a1"]);
    assert!(
        none.code == 1 && none.stderr.contains("no-such-run/a1 is not a trial: there is no such folder"),
        "{}",
        none.stderr
    );
}

#[test]
fn global_tokens_in_causal_models_are_refused_before_anything_is_trained() {
    let scratch = Scratch::new("causal-globals");
    let dir = scratch.path("run");
    let message = "`banded:5+g1`: global tokens are the last of a sequence and see all of it, so `visibility = \"causal\"` \
                   does not allow them; leave `+gN` out";
    let text = SMALL.replace("topk:3", "banded:5+g1");
    let file = scratch.file("small.toml", &text);
    let causal = scratch.file("causal.toml", &text.replace("[model]", "[model]\nvisibility = \"causal\""));
    let grid = scratch.file("grid.toml", &(text + "\n[grid]\nmodel.visibility = [\"all\", \"causal\"]\n"));
    for (arguments, place) in [
        (&[causal.as_str()][..], "causal.toml:13:14: "),
        (&[grid.as_str()], "grid.toml:23:20: "),
        (&[file.as_str(), "-s", "model.visibility=causal"], "`-s model.visibility=causal`: "),
    ] {
        let output = semfocus(&[&["run", "-o", &dir], arguments].concat());
        assert_eq!(output.code, 2, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(&format!("{place}{message}")), "{arguments:?}: {}", output.stderr);
        assert!(!Path::new(&dir).exists(), "nothing was begun");
    }
}

#[test]
fn overrides_reach_the_trials() {
    let scratch = Scratch::new("overrides");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    let overrides = ["-s", "model.activation=gelu", "-s", "training.optimizer=\"adam\"", "-s", "training.momentum=0"];
    let output = semfocus(&[&["run", &file, "-o", &dir, "--smoke"], &overrides[..]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let settings = std::fs::read_to_string(trials(&dir)[0].join("trial.toml")).unwrap();
    for line in ["activation = \"gelu\"", "optimizer = \"adam\"", "epochs = 1", "train = 50"] {
        assert!(settings.lines().any(|present| present == line), "{line} in {settings}");
    }
}

#[test]
fn the_stored_experiment_gives_the_same_trials_again() {
    let scratch = Scratch::new("again");
    let text = SMALL.to_owned() + "\n[grid]\nmodel.activation = [\"relu\", \"mish\"]\n";
    let file = scratch.file("small.toml", &text);
    let (first, second) = (scratch.path("first"), scratch.path("second"));
    assert_eq!(semfocus(&["run", &file, "-o", &first, "--epochs", "1"]).code, 0);
    let stored = Path::new(&first).join("experiment.toml");
    let output = semfocus(&["run", stored.to_str().unwrap(), "-o", &second]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_same_bits(&first, &second);
    let read = |dir: &str| std::fs::read_to_string(Path::new(dir).join("experiment.toml")).unwrap();
    assert_eq!(read(&first), read(&second));
}

#[test]
fn a_trial_can_be_shown() {
    let scratch = Scratch::new("show");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "--epochs", "2"]).code, 0);
    let trial = &trials(&dir)[0];
    let id = trial.file_name().unwrap().to_str().unwrap().to_owned();
    let short = format!("{dir}/{}", &id[..6]);
    let output = semfocus(&["show", &short]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for part in [
        id.as_str(),
        "finished, 2 of 2 epochs",
        "model.d_model = 16",
        concat!("semfocus ", env!("CARGO_PKG_VERSION")),
        "last.safetensors",
    ] {
        assert!(output.stdout.contains(part), "{part} in {}", output.stdout);
    }
    let output = semfocus(&["show", trial.to_str().unwrap(), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["epochs"].as_array().unwrap().len(), 2);
    assert_eq!(report["settings"]["model"]["d_model"], 16);
    for field in ["version", "cpu", "threads", "command", "host", "started"] {
        assert!(!report["environment"][field].is_null(), "{field}");
    }
}

#[test]
fn lists_and_scripts_are_generated() {
    let experiments = semfocus(&["list", "experiments", "--json"]);
    let experiments: serde_json::Value = serde_json::from_str(&experiments.stdout).unwrap();
    let experiments = experiments["list"].as_array().unwrap();
    assert_eq!(experiments.len(), 103);
    let panel = experiments.iter().find(|entry| entry["name"] == "figure-3a").unwrap();
    assert_eq!((panel["task"].as_str(), panel["scales"][2]["trials"].as_u64()), (Some("listops"), Some(80)));
    assert!(panel["scales"][2]["seconds"].is_null(), "times are only estimated if they are asked for");
    let table = semfocus(&["list", "experiments"]);
    assert!(!table.stdout.contains("figure-"), "{}", table.stdout);
    let all = semfocus(&["list", "experiments", "--all", "--times"]);
    assert!(all.stdout.contains("figure-9c") && all.stdout.contains(" days"), "{}", all.stdout);
    for text in [&table.stdout, &all.stdout] {
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let settings = semfocus(&["list", "settings"]);
    assert!(settings.stdout.contains("training.learning_rate [0.1]"), "{}", settings.stdout);
    for shell in ["bash", "zsh", "fish"] {
        assert!(semfocus(&["completions", shell]).stdout.contains("dry-run"), "{shell}");
    }
    assert!(semfocus(&["man"]).stdout.contains(".TH semfocus 1"));
    let scratch = Scratch::new("man");
    assert_eq!(semfocus(&["man", "-o", &scratch.path("man1")]).code, 0);
    assert!(Path::new(&scratch.path("man1")).join("semfocus-run.1").is_file());
}
