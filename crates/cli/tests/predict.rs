//! `semfocus predict`, on models that were just trained. `tests/independent/predict.py` compares the logits with another
//! implementation.

mod common;

use common::transcript::Transcript;
use common::{SMALL, Scratch, epochs, semfocus, semfocus_with_input, trials};

/// A run of one trial of two epochs, and the folder of the trial.
fn trained(scratch: &Scratch) -> String {
    let file = scratch.file("small.toml", &SMALL.replace("seeds = 2", "seeds = 1"));
    let dir = scratch.path("run");
    let output = semfocus(&["run", &file, "-o", &dir, "--epochs", "2", "--mechanisms", "topk:3", "--quiet"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    trials(&dir)[0].to_str().unwrap().to_owned()
}

#[test]
fn predictions_on_the_held_out_split_have_the_recorded_accuracy() {
    let scratch = Scratch::new("predict");
    let trial = trained(&scratch);
    let seed = "153476998";
    let generate = ["data", "generate", "even-pairs", "--seed", seed, "--length", "10", "--split", "held-out"];
    let examples = semfocus(&[&generate[..], &["-n", "100"]].concat()).stdout;
    let (sequences, labels): (Vec<&str>, Vec<&str>) =
        examples.lines().map(|line| line.split_once('\t').unwrap()).unzip();
    let file = scratch.file("sequences.txt", &(sequences.join("\n") + "\n"));
    let lines = semfocus(&["predict", &trial, &file]);
    assert_eq!((lines.code, lines.stderr.as_str()), (0, ""));
    let classes: Vec<&str> = lines.stdout.lines().map(|line| line.split_once('\t').unwrap().0).collect();
    let correct = classes.iter().zip(&labels).filter(|(class, label)| class == label).count();
    let recorded = epochs(trial.as_ref())[2].split(',').nth(5).unwrap().parse::<f64>().unwrap();
    assert_eq!(correct as f64 / 100.0, recorded, "held-out accuracy in epochs.csv");

    // JSON has the same numbers, and so has standard input.
    let output = semfocus_with_input(&["predict", &trial, "--json"], &(sequences.join("\n") + "\n"));
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    for (line, entry) in lines.stdout.lines().zip(report["list"].as_array().unwrap()) {
        let (class, logits) = line.split_once('\t').unwrap();
        assert_eq!(entry["class"].to_string(), class);
        let logits: Vec<f32> = logits.split(' ').map(|logit| logit.parse().unwrap()).collect();
        let expected: Vec<f32> =
            entry["logits"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
        assert_eq!(logits, expected);
    }
    assert_eq!(semfocus_with_input(&["predict", &trial, "--best"], "0 1 1\n").stdout.lines().count(), 1);

    // The head is linear, so the logits of the mean are the mean of the logits at the tokens.
    let logits = |arguments: &[&str]| -> Vec<Vec<f64>> {
        let output = semfocus_with_input(&[&["predict", &trial, "--json"], arguments].concat(), "0 1 1\n");
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let entries = report["list"].as_array().unwrap().iter().enumerate().map(|(number, entry)| {
            assert_eq!(entry["token"].as_u64(), (!arguments.is_empty()).then_some(number as u64));
            entry["logits"].as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap()).collect()
        });
        entries.collect()
    };
    let (whole, tokens) = (logits(&[]), logits(&["--per-token"]));
    assert_eq!((whole.len(), tokens.len()), (1, 3));
    for (class, logit) in whole[0].iter().enumerate() {
        let mean = tokens.iter().map(|logits| logits[class]).sum::<f64>() / 3.0;
        assert!((mean - logit).abs() < 1e-5, "{tokens:?} {whole:?}");
    }
}

#[test]
fn bad_input_is_explained() {
    let scratch = Scratch::new("predict-bad");
    let trial = trained(&scratch);
    let id = trial.rsplit('/').next().unwrap();
    let trial = format!("run/{id}");
    let mut messages = Transcript::new(&scratch);
    // Trial ids are those of the settings, and the same everywhere.
    for (input, line) in [("0 1\n0 7 1\n", 2), ("0 -1\n", 1), ("0 one\n", 1), ("0 1\n\n1\n", 2)] {
        let output = messages.run_with_input(&["predict", &trial], input);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{}", output.stderr);
        assert!(output.stderr.contains(&format!("line {line}: ")), "{}", output.stderr);
    }
    scratch.file("sequences.txt", "0 1\n3\n");
    std::fs::remove_file(scratch.path(&format!("run/trials/{id}/best.safetensors"))).unwrap();
    messages.refuse(
        1,
        &[
            &["predict", &trial, "sequences.txt"],
            &["predict", &trial, "nowhere.txt"],
            &["predict", "run/ffffffff"],
            &["predict", &trial, "--best"],
        ],
    );
    let nothing = messages.run(&["predict", &trial]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""), "no sequences, no predictions");
    messages.check("predict-refused");
}
