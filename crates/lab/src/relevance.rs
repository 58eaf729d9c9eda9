//! The relevant positions of a task's sequences, for mechanisms that choose by them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use semfocus_nn::{Attention, Relevance};
use semfocus_tasks::{BuiltTask, Source, Token};

use crate::TrialAttention;

/// Sequences whose positions are remembered at most: training sets are smaller, and new sequences never end.
const MAX_REMEMBERED: usize = 100_000;

/// Asks a task, and remembers the answers: the same examples come again in every epoch.
#[derive(Debug)]
struct TaskRelevance {
    task: Arc<BuiltTask>,
    remembered: Mutex<HashMap<Vec<Token>, Vec<u32>>>,
}

impl Relevance for TaskRelevance {
    fn positions(&self, tokens: &[usize]) -> Vec<u32> {
        let tokens: Vec<Token> = tokens.iter().map(|&token| token as Token).collect();
        let remembered = || self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(positions) = remembered().get(&tokens) {
            return positions.clone();
        }
        let positions: Vec<u32> = self.task.relevant_positions(&tokens).iter().map(|&place| place as u32).collect();
        let mut remembered = remembered();
        if remembered.len() < MAX_REMEMBERED {
            remembered.insert(tokens, positions.clone());
        }
        positions
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
    let asking = asking(attention).filter(|_| matches!(source, Source::Own(_)))?;
    Some(format!("`{}` needs to know which positions decide the label; tasks tell, but data files do not", asking.spec))
}

/// A mechanism of the trial that asks for relevant positions.
fn asking(attention: &TrialAttention) -> Option<&Attention> {
    attention.all().flat_map(|blocks| blocks.attentions()).find(|attention| attention.mechanism.needs_relevance())
}
