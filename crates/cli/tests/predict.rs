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
    let rows: Vec<Vec<&str>> = lines.stdout.lines().map(|line| line.split('\t').collect()).collect();
    let correct = rows.iter().zip(&labels).filter(|(row, label)| row[0] == **label).count();
    let recorded = epochs(trial.as_ref())[2].split(',').nth(5).unwrap().parse::<f64>().unwrap();
    assert_eq!((rows.len(), correct as f64 / 100.0), (100, recorded), "held-out accuracy in epochs.csv");
    // The task knows the label of each, and says what the classes mean.
    assert_eq!(rows.iter().filter(|row| row[2] == "right").count(), correct);
    let meanings = ["an even number of unequal neighbours", "an odd number of unequal neighbours"];
    for (row, label) in rows.iter().zip(&labels) {
        assert_eq!(row[1], meanings[row[0].parse::<usize>().unwrap()]);
        let wrong = format!("wrong, it is {label}: {}", meanings[label.parse::<usize>().unwrap()]);
        assert!(row[2] == if row[0] == *label { "right" } else { &wrong }, "{row:?}");
    }

    // JSON has the same numbers, and so has standard input.
    let output = semfocus_with_input(&["predict", &trial, "--json"], &(sequences.join("\n") + "\n"));
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    for (row, entry) in rows.iter().zip(report["list"].as_array().unwrap()) {
        assert_eq!((entry["class"].to_string().as_str(), entry["meaning"].as_str()), (row[0], Some(row[1])));
        assert_eq!(entry["right"].as_bool(), Some(row[2] == "right"));
        let logits: Vec<f32> = row[3].split(' ').map(|logit| logit.parse().unwrap()).collect();
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

#[test]
fn sequences_are_read_as_the_data_is_written_and_padded_as_in_training() {
    let scratch = Scratch::new("predict-own");
    let words = ["it", "was", "very", "good", "bad"];
    // One to five words; those with `good` are positive.
    let line = |n: usize| {
        let chosen: Vec<&str> = (0..n % 4).map(|at| words[(n / (at + 1) + at) % 3]).collect();
        let (last, label) = if n.is_multiple_of(2) { ("good", "positive") } else { ("bad", "negative") };
        format!("{} {last} {}\t{label}\n", chosen.join(" "), words[n / 7 % 3])
    };
    let data = scratch.file("films.txt", &(0..200).map(line).collect::<String>());
    let experiment = SMALL.replace("task = \"even-pairs\"", &format!("task = {data:?}")).replace("length = 10\n", "");
    let (file, dir) = (scratch.file("films.toml", &experiment.replace("seeds = 2", "seeds = 1")), scratch.path("run"));
    let output = semfocus(&["run", &file, "-o", &dir, "--mechanisms", "full", "--quiet"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let trial = trials(&dir)[0].to_str().unwrap().to_owned();
    let predict = |input: &str| {
        let output = semfocus_with_input(&["predict", &trial, "--json"], input);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        (report["list"].as_array().unwrap().clone(), output.stderr)
    };
    // In ascending order: bad good it very was, then the pad token; sequences have up to five words.
    let (found, said) = predict("it was good\nit was bad\tpositive\n");
    let (same, _) = predict("2 4 1\n2 4 0\n");
    let (padded, _) = predict("2 4 1 5 5\n2 4 0 5 5\n");
    for other in [&same, &padded] {
        assert_eq!(
            found.iter().map(|e| &e["logits"]).collect::<Vec<_>>(),
            other.iter().map(|e| &e["logits"]).collect::<Vec<_>>()
        );
    }
    assert_eq!((found[0]["meaning"].as_str(), said.as_str()), (Some("positive"), ""), "it learned the word");
    assert_eq!((&found[0]["label"], &found[0]["right"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    assert_eq!(
        (found[1]["label"].as_u64(), found[1]["right"].as_bool()),
        (Some(1), Some(false)),
        "the line has its label"
    );
    // A length that never occurred is announced, and a word that never occurred is refused.
    let (_, said) = predict("it was very very very very good\nit was good\n");
    assert!(said.starts_with("note: line 1 has 7 tokens; the model was trained on sequences of 2 to 5"), "{said}");
    let mut messages = Transcript::new(&scratch);
    let refused = format!("run/{}", trial.rsplit('/').next().unwrap());
    for input in ["it was great\n", "it 4\n"] {
        let output = messages.run_with_input(&["predict", &refused], input);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""));
    }
    messages.check("predict-own-refused");
}

#[test]
fn symbols_of_a_task_are_tokens_and_ids_stay_ids() {
    let scratch = Scratch::new("predict-symbols");
    let file =
        scratch.file("small.toml", &SMALL.replace("even-pairs", "cycle-navigation").replace("seeds = 2", "seeds = 1"));
    let dir = scratch.path("run");
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "--epochs", "1", "--mechanisms", "full", "--quiet"]).code, 0);
    let trial = trials(&dir)[0].to_str().unwrap().to_owned();
    let logits = |input: &str| {
        let output = semfocus_with_input(&["predict", &trial, "--json"], input);
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        (report["list"][0]["logits"].clone(), report["list"][0]["label"].as_u64())
    };
    let ids = "2 2 2 1 0 1 1 1 1 1\n";
    assert_eq!(logits("+1 +1 +1 0 -1 0 0 0 0 0\n"), logits(ids));
    assert_eq!(logits(ids).1, Some(2), "three steps forward, one back");
    assert_ne!(logits("0 0 0 0 0 0 0 0 0 0\n").0, logits("1 1 1 1 1 1 1 1 1 1\n").0, "what can be ids is ids");
}
