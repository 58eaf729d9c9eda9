//! The relevant positions of a task's sequences, for mechanisms that choose by them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use semfocus_nn::{Attention, Relevance, RelevantKeys};
use semfocus_tasks::{BuiltTask, Source, Token};

use crate::TrialAttention;

/// Tokens and keys that are remembered at most, 64 to 128 MiB: most training sets have fewer, and new sequences never end.
const MAX_REMEMBERED: usize = 1 << 25;

/// Asks a task, and remembers the answers: the same examples come again in every epoch.
#[derive(Debug)]
struct TaskRelevance {
    task: Arc<BuiltTask>,
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    keys: HashMap<Vec<Token>, Arc<RelevantKeys>>,
    /// Tokens and keys so far.
    size: usize,
}

impl Relevance for TaskRelevance {
    /// # Panics
    /// If the task is wrongly defined.
    fn keys(&self, tokens: &[usize]) -> Arc<RelevantKeys> {
        let tokens: Vec<Token> = tokens.iter().map(|&token| token as Token).collect();
        let remembered = || self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = remembered().keys.get(&tokens) {
            return keys.clone();
        }
        let keys = Arc::new(self.task.relevant_keys(&tokens).unwrap_or_else(|error| panic!("{error}")));
        let mut remembered = remembered();
        let size = remembered.size + tokens.len() + keys.size();
        if size <= MAX_REMEMBERED {
            remembered.size = size;
            remembered.keys.insert(tokens, keys.clone());
        }
        keys
    }
}

/// What finds the relevant positions in the examples of a source, if the mechanism asks for it.
pub fn relevance(source: &Source, attention: &TrialAttention) -> Option<Arc<dyn Relevance>> {
    match source {
        Source::Task(task) if asking(attention).is_some() => {
            Some(Arc::new(TaskRelevance { task: task.clone(), remembered: Mutex::default() }))
        }
        _ => None,
    }
}

/// Why a mechanism cannot be used with the examples of a source.
pub fn refusal(source: &Source, attention: &TrialAttention) -> Option<String> {
    let asking = asking(attention).filter(|_| !matches!(source, Source::Task(_)))?;
    Some(format!("`{}` needs to know which positions decide the label; tasks tell, but data files do not", asking.spec))
}

/// A mechanism of the trial that asks for relevant positions.
fn asking(attention: &TrialAttention) -> Option<&Attention> {
    attention.all().flat_map(|blocks| blocks.attentions()).find(|attention| attention.mechanism.needs_relevance())
}
