//! What commands print, compared with the texts in `tests/snapshots`.
//!
//! A test about words has no other assertion on them: when a sentence becomes better, its snapshot is accepted, and nothing else
//! changes. What a command does is asserted on exit codes, JSON and files.

use std::fmt::Write;

use regex::Regex;

use super::{Output, Scratch, semfocus_in};

/// What differs from machine to machine, from day to day or from build to build, and what stands for it.
const CHANGING: [(&str, &str); 14] = [
    // A line on the progress, every two seconds.
    (r"(?m)^[0-9:]+  [0-9]+/[0-9]+ steps, .*\n", ""),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z", "DATE"),
    (r"about [0-9.]+ (?:[kMG]?B|s|min|h|days?)(?-u:\b)", "about AMOUNT"),
    (r"just now|[0-9]+ (?:s|min) ago", "AGO"),
    (r"with [0-9]+ trials? at once", "with N trials at once"),
    (r"process [0-9]+( on [^ ,;]+)?", "process ID"),
    // The last columns of a dry run: seconds per epoch and time left.
    (r"(?m) +[0-9.]+ +[0-9]+ (?:s|min|h|days?)$", "  TIME"),
    (r"(?m)^time {7}[0-9:]+, [0-9.]+ s per epoch", "time       TIME"),
    (r"(?m)^(program|machine) .*", "$1 …"),
    // It is wrapped, depending on how long the path of the program is.
    (r"(?m)^command {4}(?:.*\n {11})*.*", "command …"),
    (r"took [0-9.]+ (?:ms|s|min|h) of core time, [0-9]+ %", "took TIME of core time, N %"),
    (r"[0-9]+ of 96000, loss", "STEP of 96000, loss"),
    (r"/slurm/[0-9][0-9TZ-]*", "/slurm/SUBMISSION"),
    // Marks below a path are as long as the path.
    (r"\^{2,}", "^^"),
];

/// A number that training or a measurement of a trained model gave, with the spaces that align it: another processor may round
/// otherwise.
const MEASURED: (&str, &str) = (r"( ?) *-?[0-9]+\.[0-9]+(?:e-?[0-9]+)?", "$1#");

/// A line without the spaces that align columns, which are as wide as the numbers that training gave. What stands to the left of
/// them is as wide as always.
fn without_alignment(line: &str) -> String {
    let start = line.char_indices().nth(11).map_or(line.len(), |(start, _)| start);
    let (left, columns) = line.split_at(start);
    left.to_owned() + &Regex::new(r"(\S) {3,}").expect("it is well formed").replace_all(columns, "$1  ")
}

/// Commands and what they print, in the folder of a test.
pub(crate) struct Transcript<'a> {
    scratch: &'a Scratch,
    text: String,
    hides_measured: bool,
}

impl<'a> Transcript<'a> {
    pub(crate) fn new(scratch: &'a Scratch) -> Self {
        Transcript { scratch, text: String::new(), hides_measured: false }
    }

    /// One about models that the test trains: numbers with a decimal point are left out.
    pub(crate) fn of_trained_models(scratch: &'a Scratch) -> Self {
        Transcript { hides_measured: true, ..Transcript::new(scratch) }
    }

    /// Runs `semfocus` in the folder of the test, so that paths are short and the same everywhere.
    pub(crate) fn run(&mut self, arguments: &[&str]) -> Output {
        self.run_with_input(arguments, "")
    }

    pub(crate) fn run_with_input(&mut self, arguments: &[&str], input: &str) -> Output {
        let output = semfocus_in(&self.scratch.path(""), arguments, input);
        self.add(&arguments.join(" "), &output);
        output
    }

    /// The same, without the results on standard output, which other snapshots have.
    pub(crate) fn run_without_results(&mut self, arguments: &[&str]) -> Output {
        let output = semfocus_in(&self.scratch.path(""), arguments, "");
        let talk = Output { code: output.code, stdout: String::new(), stderr: output.stderr.clone() };
        self.add(&arguments.join(" "), &talk);
        output
    }

    /// Runs commands that must fail with this exit code and print nothing but their message.
    pub(crate) fn refuse(&mut self, code: i32, commands: &[&[&str]]) {
        for arguments in commands {
            let output = self.run(arguments);
            assert_eq!((output.code, output.stdout.as_str()), (code, ""), "{arguments:?}: {}", output.stderr);
            assert!(!output.stderr.is_empty(), "{arguments:?}: it says why");
        }
    }

    /// Adds what a command gave that was run elsewhere.
    pub(crate) fn add(&mut self, title: &str, output: &Output) {
        writeln!(self.text, "$ semfocus {title}").expect("a text can be written to");
        self.text += &output.stdout;
        if !output.stderr.is_empty() {
            self.text += "--- on standard error:\n";
            self.text += &output.stderr;
        }
        writeln!(self.text, "--- exit code {}\n", output.code).expect("a text can be written to");
    }

    /// Adds only what a command said last, as the rest depends on how far it came.
    pub(crate) fn add_end(&mut self, title: &str, output: &Output) {
        let last = output.stderr.lines().last().map_or_else(String::new, |line| line.to_owned() + "\n");
        self.add(title, &Output { code: output.code, stdout: String::new(), stderr: last });
    }

    /// Compares all of it with the snapshot of this name.
    pub(crate) fn check(self, name: &str) {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        let text = self.lasting();
        settings.bind(|| insta::assert_snapshot!(name, text));
    }

    /// The text without what changes.
    fn lasting(&self) -> String {
        let folder = self.scratch.path("");
        let text = self.text.replace(&folder, "FOLDER/").replace(folder.trim_end_matches('/'), "FOLDER");
        let text = text.replace(env!("CARGO_BIN_EXE_semfocus"), "semfocus");
        let text = text.replace(concat!("semfocus ", env!("CARGO_PKG_VERSION")), "semfocus VERSION");
        let measured = self.hides_measured.then_some(MEASURED);
        let text = CHANGING.into_iter().chain(measured).fold(text, |text, (pattern, stands)| {
            Regex::new(pattern).expect("it is well formed").replace_all(&text, stands).into_owned()
        });
        let aligned = |line: &str| if self.hides_measured { without_alignment(line) } else { line.to_owned() };
        text.lines().map(|line| aligned(line).trim_end().to_owned() + "\n").collect()
    }
}
