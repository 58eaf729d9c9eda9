//! The commands on a page of documentation.

use super::{Output, semfocus_in};

/// A command as a page shows it.
#[derive(Clone)]
pub(crate) struct PageCommand {
    /// As it stands on the page.
    pub(crate) text: String,
    /// What `printf` gives it.
    input: String,
    pub(crate) arguments: Vec<String>,
}

/// The commands of the program on a page: indented lines. `printf '…\n' |` before one is its input; a comment or a redirection after it
/// is left out.
pub(crate) fn commands(page: &str) -> Vec<PageCommand> {
    page.lines().filter_map(|line| line.strip_prefix("    ")).filter_map(command).collect()
}

/// The commands in the cells of its tables.
pub(crate) fn commands_in_tables(page: &str) -> Vec<PageCommand> {
    let rows = page.lines().filter_map(|line| line.strip_prefix('|'));
    let code = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    code.filter_map(|cell| command(&cell.replace("\\|", "|"))).collect()
}

fn command(text: &str) -> Option<PageCommand> {
    let (before, call) = match text.split_once("' | ") {
        Some((printed, call)) => (printed.strip_prefix("printf '")?, call),
        None => ("", text),
    };
    let call = call.strip_prefix("semfocus ").or_else(|| call.strip_prefix("cargo run --release -- "))?;
    let call = call.split(" > ").next()?.split(" #").next()?;
    let arguments = shlex::split(call).unwrap_or_else(|| panic!("`{text}` is quoted wrongly"));
    Some(PageCommand { text: text.to_owned(), input: before.replace("\\n", "\n"), arguments })
}

impl PageCommand {
    /// Runs it in a folder, with options that make it shorter.
    pub(crate) fn run(&self, folder: &str, more: &[&str]) -> Output {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let output = semfocus_in(folder, &arguments, &self.input);
        assert_eq!(output.code, 0, "{}: {}", self.text, output.stderr);
        output
    }

    /// Whether it begins with these words.
    pub(crate) fn is(&self, words: &[&str]) -> bool {
        words.len() <= self.arguments.len() && self.arguments.iter().zip(words).all(|(argument, word)| argument == word)
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.arguments.iter().any(|argument| argument == word)
    }
}
