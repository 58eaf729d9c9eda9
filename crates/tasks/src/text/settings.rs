//! The values of the task `text`: what is made of a text.

use semfocus_core::data::TEXT_TASK;
use semfocus_core::spec::{Literal, Named, Parameter, Parts, Spec, SpecError, Table};
use semfocus_text::error::MAX_PIECES;
use semfocus_text::{Division, Kind};

/// What a model is asked about a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One question for each window of pieces: which piece follows it?
    Window,
    /// A question at every piece: which piece follows?
    Causal,
}

/// The values of the task.
#[derive(Clone, Debug, PartialEq)]
pub struct TextSettings {
    /// What was written, in its usual spelling.
    pub spec: Spec,
    /// What is asked.
    pub form: Form,
    /// Which parts of the text sequences never cross.
    pub division: Division,
    /// The tokenizer that is trained, unless one is given.
    pub kind: Kind,
    /// Pieces of the trained tokenizer; none for the usual number of its kind.
    pub vocabulary: Option<usize>,
    /// Pieces that the model sees; none if they follow from the text.
    pub window: Option<usize>,
}

/// The entry of the task, which needs files and so is not among the [tasks](crate::Tasks) that generate their examples.
#[derive(Clone, Copy, Debug)]
pub struct TextInfo;

impl TextInfo {
    /// What the answer is, in one line.
    pub const SUMMARY: &'static str = "the piece of a text that follows those before it";
}

impl Named for TextInfo {
    const KIND: &'static str = "task";

    fn name(&self) -> &'static str {
        TEXT_TASK
    }

    fn parameters(&self) -> &'static [Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter::word("form", "one question after each window, or at every piece", &["window", "causal"])
                .default(Literal::Word("window")),
            Parameter::word("split", "what sequences never cross; with none, documents", &["line", "sentence", "none"])
                .default(Literal::Word("line")),
            Parameter::word("tokenizer", "what cuts the text into pieces", &["bpe", "unigram", "char", "word"])
                .default(Literal::Word("bpe")),
            Parameter::whole("vocabulary", "pieces of the tokenizer", 2, MAX_PIECES, 4096).optional().keyed(),
            Parameter::whole("window", "pieces that the model sees", 1, 10_000, 32).optional().keyed(),
        ];
        PARAMETERS
    }
}

impl TextSettings {
    /// Whether a text names this task, whatever values it gives.
    pub fn is_named(text: &str) -> bool {
        Parts::new(text).name == TEXT_TASK
    }

    /// The values that a text such as `text:form=causal,split=sentence` gives.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let table = Table::new(vec![TextInfo]);
        let (_, spec, values) = table.read(text)?;
        let whole = |key: &str| values.get(key).and_then(|value| value.whole());
        Ok(TextSettings {
            form: if values.is("form", "causal") { Form::Causal } else { Form::Window },
            division: choice(Division::NAMES, |word| values.is("split", word)),
            kind: choice(Kind::NAMES, |word| values.is("tokenizer", word)),
            vocabulary: whole("vocabulary"),
            window: whole("window"),
            spec,
        })
    }
}

/// What the chosen word stands for.
fn choice<T: Copy>(names: &[(&str, T)], is_chosen: impl Fn(&str) -> bool) -> T {
    names.iter().find(|(word, _)| is_chosen(word)).unwrap_or(&names[0]).1
}
