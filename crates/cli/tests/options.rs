//! Models with the options of language and in-context tasks, from the run to predictions, probes, surfaces and other data.

mod common;

use common::{SMALL, Scratch, epochs, semfocus, semfocus_with_input, trials};

const OPTIONS: [&str; 11] = [
    "model.visibility=causal",
    "model.head=last",
    "model.positions=learned",
    "model.scale_embedding=false",
    "model.d_mlp=0",
    "model.final_norm=true",
    "model.affine_norms=true",
    "model.tied=true",
    "model.initialisation=gpt2",
    "training.weight_decay=0.1",
    "training.weight_decay_of=matrices",
];

#[test]
fn a_model_with_all_options_goes_through_every_command() {
    let scratch = Scratch::new("options");
    let file = scratch.file("small.toml", &SMALL.replace("seeds = 2", "seeds = 1").replace("momentum = 0.9", ""));
    let run = |name: &str, epochs: &str, more: &[&str]| {
        let dir = scratch.path(name);
        let mut arguments =
            vec!["run", &file, "-o", &dir, "--epochs", epochs, "--mechanisms", "full,topk:3", "--quiet"];
        OPTIONS.iter().chain(more).for_each(|option| arguments.extend(["-s", option]));
        let output = semfocus(&arguments);
        assert_eq!(output.code, 0, "{}", output.stderr);
        dir
    };
    let adamw = ["training.optimizer=adamw", "training.learning_rate=0.003", "probe_every=1"];
    let dir = run("run", "3", &adamw);
    // Interrupted after two epochs: the same bytes.
    let resumed = run("resumed", "2", &adamw);
    assert_eq!(run("resumed", "3", &adamw), resumed);
    let (folders, again) = (trials(&dir), trials(&resumed));
    assert_eq!(folders.len(), 2);
    for (one, other) in folders.iter().zip(&again) {
        let weights = |folder: &std::path::Path| std::fs::read(folder.join("last.safetensors")).unwrap();
        assert!(weights(one) == weights(other), "{one:?}");
    }

    // The recorded accuracy is that of the predictions, which read the last token.
    let seed = "153476998";
    let generate =
        ["data", "generate", "even-pairs", "--seed", seed, "--length", "10", "--split", "held-out", "-n", "100"];
    let examples = semfocus(&generate).stdout;
    let (sequences, labels): (Vec<&str>, Vec<&str>) =
        examples.lines().map(|line| line.split_once('\t').unwrap()).unzip();
    for folder in &folders {
        let trial = folder.to_str().unwrap();
        let predicted = semfocus_with_input(&["predict", trial], &(sequences.join("\n") + "\n"));
        assert_eq!(predicted.code, 0, "{}", predicted.stderr);
        let right = predicted.stdout.lines().zip(&labels).filter(|(line, label)| line.starts_with(**label)).count();
        let recorded = epochs(folder)[3].split(',').nth(5).unwrap().parse::<f64>().unwrap();
        assert_eq!(right as f64 / 100.0, recorded, "held-out accuracy in epochs.csv");
        // In a causal model the answer at the last token is that of the whole sequence.
        let rows =
            |arguments: &[&str]| semfocus_with_input(&[&["predict", trial], arguments].concat(), "0 1 1 0\n").stdout;
        assert_eq!(
            rows(&["--per-token"]).lines().last().unwrap().split('\t').nth(3),
            rows(&[]).trim_end().split('\t').nth(3)
        );
        let long = semfocus_with_input(&["predict", trial], "0 1 0 1 0 1 0 1 0 1 1\n");
        assert_eq!(long.code, 1);
        assert!(long.stderr.contains("learned positions for 10 tokens, and a sequence has 11"), "{}", long.stderr);
        let other = semfocus(&["evaluate", trial, "data.length=12", "--samples", "20"]);
        assert!(other.code != 0 && other.stderr.contains("learned positions for 10 tokens"), "{}", other.stderr);
        let shorter = semfocus(&["evaluate", trial, "data.length=8", "--samples", "20"]);
        assert_eq!(shorter.code, 0, "{}", shorter.stderr);
    }

    let probed = semfocus(&["probe", &dir, "--samples", "20", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&probed.stdout).unwrap();
    for probe in report["probes"].as_array().unwrap() {
        assert!(probe["norms"].is_null() && probe["lipschitz"].is_null(), "nothing is proved for such models");
    }
    let table = semfocus(&["probe", folders[0].to_str().unwrap(), "--samples", "5"]);
    assert!(table.stdout.contains("There are no norms"), "{}", table.stdout);
    let surface = semfocus(&["landscape", &dir, "--grid", "3", "--samples", "20"]);
    assert_eq!(surface.code, 0, "{}", surface.stderr);
    let report = semfocus(&["report", &dir]);
    assert_eq!(report.code, 0, "{}", report.stderr);
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let scratch = Scratch::new("options-refused");
    let file = scratch.file("small.toml", SMALL);
    let refused = |options: &[&str]| {
        let dir = scratch.path("run");
        let mut arguments = vec!["run", &file, "-o", &dir];
        options.iter().for_each(|option| arguments.extend(["-s", option]));
        let output = semfocus(&arguments);
        assert_eq!(output.code, 2, "{}", output.stderr);
        output.stderr
    };
    let tied = refused(&["task=cycle-navigation", "model.tied=true"]);
    assert!(tied.contains("there are 5 classes but 4 tokens; leave `tied` out"), "{tied}");
    let padded = refused(&["model.positions=learned", "quirks.pad_to_mask_multiple=true"]);
    assert!(padded.contains("does not go with `positions = \"learned\"`"), "{padded}");
    let unknown = refused(&["model.positions=learnt"]);
    assert!(unknown.contains("did you mean \"learned\"?"), "{unknown}");
}
