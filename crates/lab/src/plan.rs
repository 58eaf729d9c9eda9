//! From an experiment to its trials.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use semfocus_core::data::Sizes;
use semfocus_core::{BASELINE, Experiment, ExperimentError, Point, PositionKind, TrialId, TrialSettings, Visibility};
use semfocus_store::{Checkpoint, IndexEntry, StoredTokenizer};
use semfocus_tasks::text::Form;
use semfocus_tasks::{OwnData, Source, TextData, TextSettings};

use crate::model::new_model;
use crate::relevance::refusal;
use crate::schedule::Schedule;
use crate::training::{TrainingError, with_stored_weights};
use crate::trial::Trial;
use crate::{Device, Lab, Tokenizers, TrialAttention, texts};

/// The trials of an experiment, in the order in which they are run: all mechanisms with the first seed, then all with the
/// second, so that whatever is finished can be compared.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The trials.
    pub trials: Vec<Trial>,
}

impl Plan {
    /// Epochs of all trials together.
    pub fn epochs(&self) -> usize {
        self.trials.iter().map(|trial| trial.settings.training.epochs).sum()
    }

    /// Steps of an epoch, if they are the same in all trials and an epoch is something else than a pass over a fixed set of
    /// training examples.
    pub fn steps_per_epoch(&self) -> Option<usize> {
        let is_usual = self.trials.iter().all(|trial| trial.settings.is_epoch_a_pass());
        let mut steps = self.trials.iter().map(Trial::steps_per_epoch);
        let first = steps.next().filter(|_| !is_usual)?;
        steps.all(|other| other == first).then_some(first)
    }

    /// What a user should know about how data files were read.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for note in self.trials.iter().flat_map(|trial| trial.source.notes()) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        notes
    }

    /// The tokenizers that a run with these trials keeps.
    pub fn tokenizers(&self) -> Vec<StoredTokenizer> {
        let mut all: Vec<StoredTokenizer> = Vec::new();
        for trial in &self.trials {
            let Source::Text(data) = trial.source.as_ref() else { continue };
            let given = trial.settings.data.tokenizer_file.as_deref();
            let key = texts::key(&data.settings, given, data.text.train_checksum());
            if all.iter().all(|other| other.key != key) {
                let tokenizer = &data.text.tokenizer;
                let extension = tokenizer.format().extension();
                all.push(StoredTokenizer::new(key, extension, tokenizer.contents().to_vec()));
            }
        }
        all
    }

    /// The index of the run.
    pub fn index(&self) -> Vec<IndexEntry> {
        self.trials.iter().map(Trial::entry).collect()
    }
}

impl Lab {
    /// What has to be known before the trials are compared: mechanisms that act as full attention at the length of the data.
    pub fn notes(&self, plan: &Plan) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for trial in &plan.trials {
            let (length, epochs) = (trial.source.length(&trial.settings.data), trial.settings.training.epochs);
            let attention = &trial.attention;
            if !seen.insert((Arc::as_ptr(attention), length, epochs)) {
                continue;
            }
            let mut note = |note: String| {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            };
            for one in attention.all().flat_map(|attention| attention.attentions()) {
                let name = one.spec.to_string();
                if name != BASELINE && one.acts_as_full(length, trial.settings.model.visibility) {
                    note(format!(
                        "{name} keeps all keys of sequences of {length} tokens: it acts as full attention there"
                    ));
                }
            }
            for (after, stage) in attention.stages().iter().filter(|(after, _)| *after >= epochs) {
                let mechanism = &trial.settings.mechanism;
                note(format!(
                    "{mechanism} never reaches {stage}: the trial has {epochs} epochs and the switch is after epoch {after}"
                ));
            }
        }
        notes.extend(plan.trials.first().and_then(copies));
        notes
    }

    /// All trials of an experiment: mechanisms × points of the grid × seeds.
    pub fn plan(&self, experiment: &Experiment) -> Result<Plan, ExperimentError> {
        Planner::new(self).plan(experiment)
    }

    /// Whether stored weights fit the trials that start with them, before any of them begins.
    pub fn check_origin(&self, trials: &[Trial], stored: &Checkpoint) -> Result<(), TrainingError> {
        let mut seen = HashSet::new();
        for trial in trials {
            let TrialSettings { mechanism, model, seed, training, .. } = &trial.settings;
            let Some(origin) = training.from.filter(|_| seen.insert(format!("{mechanism} {model:?}"))) else {
                continue;
            };
            let attention = trial.attention.stage(0).clone();
            let model = new_model(model, attention, *seed, None, &Device::cpu().plain())?;
            with_stored_weights(model.as_ref(), origin, stored.clone(), self)?;
        }
        Ok(())
    }

    /// The trial with these settings, such as those of a stored one; what follows from its task is filled in.
    pub fn trial(&self, mut settings: TrialSettings, tokenizers: &Tokenizers) -> Result<Trial, String> {
        let source = self.source(&settings, tokenizers).map_err(|error| error.to_string())?;
        fit_to(&mut settings, &source);
        if settings.data_checksum != checksum(&source) {
            return Err(format!("{} has changed since the trial was trained", data_words(&settings)));
        }
        // The run may be that of a program with other mechanisms.
        let attention = Arc::new(self.trial_attention(&settings).map_err(|error| error.to_string())?);
        let sizes = match &source {
            Source::Task(_) => settings.data.sizes,
            Source::Own(own) => own.sizes(&settings.data, settings.seed),
            Source::Text(text) => text.sizes(&settings.data.sizes),
        };
        let (point, source) = (Vec::new(), Arc::new(source));
        let (id, own_code) = (TrialId::new(&settings), self.own_code(&settings));
        Ok(Trial { id, settings, point, source, attention, sizes, own_code })
    }
}

/// How many sequences of a trial are different, if many are copies of others.
fn copies(trial: &Trial) -> Option<String> {
    /// Data sets with more examples are not looked through before anything is trained.
    const MAX_EXAMPLES: usize = 50_000;
    let TrialSettings { data, seed, .. } = &trial.settings;
    if data.sizes.train.max(data.sizes.held_out) > MAX_EXAMPLES {
        return None;
    }
    // What is wrong with the data is said when the trial begins.
    let dataset = trial.source.dataset(data, *seed).ok()?;
    let shares = [("training", &dataset.train), ("held-out", &dataset.held_out)]
        .map(|(name, split)| (name, split.distinct(), split.len()))
        .into_iter()
        .filter(|(_, distinct, examples)| distinct * 20 < examples * 19)
        .map(|(name, distinct, examples)| format!("{distinct} of {examples} {name} sequences are different"));
    let shares: Vec<String> = shares.collect();
    let seed = if data.seed.is_some() { "" } else { " (with the first seed)" };
    (!shares.is_empty())
        .then(|| format!("{}{seed}; standard errors count each of the held-out ones once", shares.join(" and ")))
}

/// Fills in what follows from where the examples come from.
fn fit_to(settings: &mut TrialSettings, source: &Source) {
    match source {
        Source::Task(task) => settings.task = task.spec.to_string(),
        Source::Text(text) => settings.task = text.settings.spec.to_string(),
        Source::Own(_) => {}
    }
    settings.model.vocabulary = source.vocabulary();
    settings.model.classes = source.classes();
    if settings.model.positions == PositionKind::Learned {
        settings.model.length = source.length(&settings.data);
    }
    settings.model.pad_token = Some(usize::from(source.pad()));
}

/// The checksum of data files as it is written; none for a task.
fn checksum(source: &Source) -> Option<String> {
    source.checksum().map(|checksum| format!("{checksum:016x}"))
}

/// What the examples of a trial come from, in words.
fn data_words(settings: &TrialSettings) -> String {
    match &settings.data.files.train {
        Some(file) if TextSettings::is_named(&settings.task) => format!("the text of {file}"),
        _ => settings.task.clone(),
    }
}

/// Plans experiments. It parses each mechanism and reads each data file once, also if it plans several experiments.
pub struct Planner<'a> {
    lab: &'a Lab,
    tokenizers: Tokenizers,
    sources: HashMap<String, PlannedSource>,
    attentions: HashMap<String, Arc<TrialAttention>>,
    /// How many examples the splits of data files have.
    sizes: HashMap<String, Sizes>,
}

/// Where examples come from.
#[derive(Clone)]
struct PlannedSource {
    source: Arc<Source>,
    checksum: Option<String>,
}

impl<'a> Planner<'a> {
    /// A planner that has read nothing yet.
    pub fn new(lab: &'a Lab) -> Self {
        Planner {
            lab,
            tokenizers: Tokenizers::New,
            sources: HashMap::new(),
            attentions: HashMap::new(),
            sizes: HashMap::new(),
        }
    }

    /// The same with tokenizers from there.
    pub fn with_tokenizers(self, tokenizers: Tokenizers) -> Self {
        Planner { tokenizers, ..self }
    }

    /// All trials of an experiment: mechanisms × points of the grid × seeds.
    pub fn plan(&mut self, experiment: &Experiment) -> Result<Plan, ExperimentError> {
        let (mut trials, mut ids) = (Vec::new(), HashSet::new());
        for &seed in &experiment.seeds {
            for point in experiment.points() {
                for mechanism in &experiment.mechanisms {
                    let settings = experiment.settings_at(&point, mechanism, seed)?;
                    let written = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    let point = point.iter().map(|(path, value)| ((*path).to_owned(), written(value))).collect();
                    let trial = self.trial(experiment, settings, point)?;
                    if !ids.insert(trial.id) {
                        let message = format!("two points of the grid are the same trial: {}", trial.title());
                        return Err(ExperimentError::new(message));
                    }
                    trials.push(trial);
                }
            }
        }
        Ok(Plan { trials })
    }

    /// A trial; what follows from its task is filled in, and its settings are checked against the task.
    fn trial(
        &mut self,
        experiment: &Experiment,
        mut settings: TrialSettings,
        point: Point,
    ) -> Result<Trial, ExperimentError> {
        let PlannedSource { source, checksum } = self.source(experiment, &settings)?;
        fit_to(&mut settings, &source);
        let attention = self.attention(experiment, &settings)?;
        if let Some(text) = &mut settings.training.evaluate_as {
            // The usual spelling, so that two spellings are one trial.
            *text = attention.evaluation(0).to_string();
        }
        let sizes = match source.as_ref() {
            Source::Task(task) => {
                task.check(&settings.data).map_err(|wrong| experiment.error("data.length", wrong.to_string()))?;
                settings.data.sizes
            }
            Source::Own(own) => self.file_examples(experiment, &mut settings, own, checksum)?,
            Source::Text(text) => {
                check_text(experiment, &mut settings, text)?;
                fill_in_files(experiment, &mut settings, checksum, text.all_sizes())?;
                text.sizes(&settings.data.sizes)
            }
        };
        if let Some(steps) = settings.training.steps {
            let per_epoch = Schedule::new(&settings, sizes.train).steps_per_epoch;
            settings.training.epochs =
                whole_epochs(steps, per_epoch).map_err(|wrong| experiment.error("training.steps", wrong))?;
        }
        if settings.training.rate.depends_on_length() {
            // From here on it is part of what determines the results.
            let per_epoch = Schedule::new(&settings, sizes.train).steps_per_epoch;
            settings.training.rate.steps = Some(settings.training.epochs * per_epoch);
            settings.check().map_err(|(path, wrong)| experiment.error(path, wrong))?;
        }
        if let Some(goal) = settings.training.stop_when {
            let known = goal.check(|fact| source.has(fact));
            known.map_err(|unknown| experiment.error("training.stop_when", unknown.to_string()))?;
        }
        settings.model.validate().map_err(|wrong| ExperimentError::new(format!("the model: {wrong}")))?;
        if let Some(reason) = refusal(&source, &attention) {
            return Err(experiment.error("task", reason));
        }
        let (id, own_code) = (TrialId::new(&settings), self.lab.own_code(&settings));
        Ok(Trial { id, settings, point, source, attention, sizes, own_code })
    }

    fn source(&mut self, experiment: &Experiment, settings: &TrialSettings) -> Result<PlannedSource, ExperimentError> {
        let key = source_key(settings);
        if let Some(known) = self.sources.get(&key) {
            return Ok(known.clone());
        }
        let source = self.lab.source(settings, &self.tokenizers);
        let source = source.map_err(|wrong| experiment.error("task", wrong.to_string()))?;
        let planned = PlannedSource { checksum: checksum(&source), source: Arc::new(source) };
        Ok(self.sources.entry(key).or_insert(planned).clone())
    }

    fn attention(
        &mut self,
        experiment: &Experiment,
        settings: &TrialSettings,
    ) -> Result<Arc<TrialAttention>, ExperimentError> {
        let TrialSettings { mechanism, model, training, .. } = settings;
        let key = format!("{mechanism} {:?} {model:?}", training.evaluate_as);
        if let Some(known) = self.attentions.get(&key) {
            return Ok(known.clone());
        }
        let attention = self.lab.trial_attention(settings).map_err(|wrong| {
            let path = if training.evaluate_as.is_some() { "training.evaluate_as" } else { "mechanism" };
            experiment.error(path, wrong.to_string())
        })?;
        Ok(self.attentions.entry(key).or_insert(Arc::new(attention)).clone())
    }

    /// How many examples data files have; what follows from them is filled in.
    fn file_examples(
        &mut self,
        experiment: &Experiment,
        settings: &mut TrialSettings,
        own: &OwnData,
        checksum: Option<String>,
    ) -> Result<Sizes, ExperimentError> {
        if let Some(header) = own.suspected_headers().first().filter(|_| !settings.data.no_header) {
            let message = format!("{header}; if it is an example, say so with -s data.no_header=true");
            return Err(experiment.error("task", message));
        }
        // A file for each split gives the sizes that nobody asked for.
        fill_in_files(experiment, settings, checksum, own.file_sizes().unwrap_or_default())?;
        let key = format!("{} {:?} {}", source_key(settings), settings.data, settings.data.seed_for(settings.seed));
        let sizes = *self.sizes.entry(key).or_insert_with(|| own.sizes(&settings.data, settings.seed));
        if sizes.train == 0 || sizes.held_out == 0 {
            let message = format!("{} has too few different sequences for two splits", settings.task);
            return Err(experiment.error("task", message));
        }
        Ok(sizes)
    }
}

/// Fills in the checksum of data files, and the sizes that nobody asked for.
fn fill_in_files(
    experiment: &Experiment,
    settings: &mut TrialSettings,
    checksum: Option<String>,
    all: Sizes,
) -> Result<(), ExperimentError> {
    let data = data_words(settings);
    if settings.data.online {
        let message = format!(
            "{data} comes from a file, which has a fixed set of examples; new ones for every step can only be drawn from a task"
        );
        return Err(experiment.error("data.online", message));
    }
    if settings.data_checksum.is_some() && settings.data_checksum != checksum {
        let found = checksum.unwrap_or_default();
        let message = format!("{data} has the checksum {found}: it is another file");
        return Err(experiment.error("data.checksum", message));
    }
    settings.data_checksum = checksum;
    let sizes = &mut settings.data.sizes;
    for (path, size, all) in [
        ("data.train", &mut sizes.train, all.train),
        ("data.held_out", &mut sizes.held_out, all.held_out),
        ("data.test", &mut sizes.test, all.test),
    ] {
        if !experiment.is_given(path) {
            *size = all;
        }
    }
    Ok(())
}

/// Checks the settings of a trial of the task `text`, and fills in the checksum of its tokenizer.
fn check_text(experiment: &Experiment, settings: &mut TrialSettings, text: &TextData) -> Result<(), ExperimentError> {
    if settings.data.length.is_some() {
        let message = "the task `text` has sequences of `window` pieces; write `text:window=32` in place of the length";
        return Err(experiment.error("data.length", message.to_owned()));
    }
    if text.settings.form == Form::Causal && settings.model.visibility != Visibility::Causal {
        let message = "`form=causal` asks at every piece for the next one, which the model would see; add \
                       `model.visibility = \"causal\"`, or take `form=window`";
        return Err(experiment.error("task", message.to_owned()));
    }
    let found = format!("{:016x}", text.text.tokenizer.checksum());
    if settings.tokenizer_checksum.as_ref().is_some_and(|given| *given != found) {
        let message = format!("the tokenizer has the checksum {found}: it is another one");
        return Err(experiment.error("data.tokenizer_checksum", message));
    }
    settings.tokenizer_checksum = Some(found);
    Ok(())
}

/// What a source is known by.
fn source_key(settings: &TrialSettings) -> String {
    let TrialSettings { task, data, .. } = settings;
    match TextSettings::is_named(task) {
        // The seed says which documents are in train.
        true => format!("{task} {:?} {:?} {:?}", data.files, data.tokenizer_file, data.seed),
        false => format!("{task} {:?}", data.files),
    }
}

/// How many epochs some steps are. There is no record, and no checkpoint to grow from, in the middle of an epoch.
fn whole_epochs(steps: usize, per_epoch: usize) -> Result<usize, String> {
    let (epochs, rest) = (steps / per_epoch, steps % per_epoch);
    if rest == 0 {
        return Ok(epochs);
    }
    let (below, above) = (epochs * per_epoch, (epochs + 1) * per_epoch);
    let fitting = if below == 0 { above.to_string() } else { format!("{below} or {above}") };
    Err(format!(
        "{steps} steps are not a whole number of epochs, which have {per_epoch} steps here; write {fitting}, or change \
         `training.evaluate_every`"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use semfocus_core::experiment::presets;
    use semfocus_core::{Experiment, Request, Scale, study};

    use semfocus_tasks::Source;

    use crate::Lab;

    #[test]
    fn every_preset_makes_a_plan_at_every_scale() {
        let names: Vec<String> = presets().iter().map(|preset| preset.name.clone()).collect();
        assert_eq!(names.len(), 9 + 11 + 1 + 3 + 3 + 6 + 5 + 3 + 4 + 4 + 10 * 4 + 2 + 4 + 3 + 5 * 4 + 4, "{names:?}");
        let (lab, text) = (Lab::standard(), text("presets", 12_000));
        for name in &names {
            let mut epochs = Vec::new();
            for scale in Scale::ALL {
                let mut request = Request { experiment: name.clone(), scale: Some(scale), ..Request::default() };
                let resolve = |request: &Request| {
                    Experiment::resolve(request, &lab).unwrap_or_else(|error| panic!("{name}: {error}"))
                };
                let mut experiment = resolve(&request);
                if experiment.lacks_text() {
                    let error = lab.plan(&experiment).unwrap_err().to_string();
                    assert!(error.contains("needs a text of yours"), "{name}: {error}");
                    request.overrides = text.clone();
                    experiment = resolve(&request);
                }
                let plan = lab.plan(&experiment).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(!experiment.claim.is_empty(), "{name} says what it tests");
                let follows = experiment.after.regions || !experiment.after.measurements.is_empty();
                if experiment.mechanisms.is_empty() {
                    assert!(follows && plan.trials.is_empty(), "{name} follows from the theory");
                    continue;
                }
                assert_eq!(experiment.reduced.is_empty(), scale == Scale::Full, "{name} at {scale}");
                assert_eq!(experiment.mechanisms[0], "full", "{name} compares with full attention");
                if follows {
                    assert!(!experiment.after.shows.is_empty(), "{name} ends in a figure or table");
                } else {
                    epochs.push(plan.epochs());
                }
                if scale == Scale::Full {
                    let one_model = [140_439_608];
                    assert_eq!(experiment.seeds, if follows { &one_model[..] } else { &study::SEEDS[..] }, "{name}");
                    assert!(plan.trials.iter().all(|trial| trial.settings.training.stop_when.is_none()));
                }
                if name.starts_with("figure") {
                    assert!(experiment.figure.is_some());
                    assert!(plan.trials.iter().all(|trial| trial.settings.training.stop_when.is_none()));
                }
            }
            assert!(epochs.is_sorted_by(|one, next| one < next), "{name}: {epochs:?}");
        }
    }

    /// Settings that name a text of invented words, of which this many are different.
    fn text(name: &str, words: u32) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!("semfocus-plan-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut state = 1u32;
        let mut word = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (state >> 8) % words;
            (0..4)
                .map(|place| ["ka", "ro", "mi", "ten", "sul", "der", "ing", "th"][(number >> (3 * place)) as usize % 8])
                .chain((number >= 4096).then_some("x"))
                .chain((number >= 8192).then_some("y"))
                .collect::<String>()
        };
        let mut file = |name: &str, lines: usize| {
            let line = |line: usize| (0..8 + line % 5).map(|_| word()).collect::<Vec<_>>().join(" ") + ".\n";
            let path = folder.join(name);
            std::fs::write(&path, (0..lines).map(line).collect::<String>()).unwrap();
            path.display().to_string()
        };
        vec![
            format!("data.train_file={}", file("train.txt", 4000)),
            format!("data.held_out_file={}", file("held-out.txt", 400)),
        ]
    }

    #[test]
    fn trials_share_a_text_that_is_read_once() {
        let lab = Lab::standard();
        let mut overrides = text("share", 300);
        overrides.push("task=text:window=4,vocabulary=200,text:window=8,vocabulary=200,text:vocabulary=100".to_owned());
        let mechanisms = Some(["full", "topk:5", "banded:5", "block:5"].map(str::to_owned).to_vec());
        // At this scale the preset does not say how long sequences are.
        let (experiment, scale) = ("parity".to_owned(), Some(Scale::Full));
        let request = Request { experiment, scale, mechanisms, seeds: Some(9), overrides, ..Request::default() };
        let plan = lab.plan(&Experiment::resolve(&request, &lab).unwrap()).unwrap();
        assert_eq!(plan.trials.len(), 3 * 9 * 4);
        let texts = plan.trials.iter().map(|trial| match trial.source.as_ref() {
            Source::Text(data) => Arc::as_ptr(&data.text),
            _ => unreachable!("the task is `text`"),
        });
        assert_eq!(texts.collect::<HashSet<_>>().len(), 2, "one for each tokenizer");
        assert_eq!(plan.tokenizers().len(), 2);
        // Its contents and its tokenizer make the identity of a trial, wherever the files are.
        let first = &plan.trials[0].settings;
        let mut moved = first.clone();
        moved.data.files.train = Some("elsewhere.txt".to_owned());
        assert_eq!(moved.identity(), first.identity());
        assert!(first.identity().contains("task = \"text:vocabulary=200,window=4\"\n"), "{}", first.identity());
        moved.tokenizer_checksum = Some("0".repeat(16));
        assert_ne!(moved.identity(), first.identity());
    }

    #[test]
    fn models_get_what_follows_from_the_task() {
        let plan = |overrides: &[&str]| {
            let overrides = overrides.iter().map(|&text| text.to_owned()).collect();
            let request = Request { experiment: "parity".to_owned(), overrides, ..Request::default() };
            let lab = Lab::standard();
            lab.plan(&Experiment::resolve(&request, &lab).unwrap()).map_err(|error| error.to_string())
        };
        let learned = plan(&["model.positions=learned", "data.length=8..14"]).unwrap();
        assert_eq!(learned.trials[0].settings.model.length, 14);
        let refused = |overrides: &[&str]| plan(overrides).unwrap_err();
        let padded = refused(&["model.positions=learned", "quirks.pad_to_mask_multiple=true"]);
        assert!(padded.contains("does not go with `positions = \"learned\"`"), "{padded}");
        assert!(plan(&["model.tied=true"]).is_ok());
        let tied = refused(&["model.tied=true", "task=cycle-navigation"]);
        assert!(tied.contains("leave `tied` out"), "{tied}");
    }

    #[test]
    fn steps_become_epochs() {
        assert_eq!(super::whole_epochs(1200, 300), Ok(4));
        let wrong = |steps| super::whole_epochs(steps, 300).unwrap_err();
        assert!(wrong(1000).contains("which have 300 steps here; write 900 or 1200, or"), "{}", wrong(1000));
        assert!(wrong(299).contains("write 300, or"), "{}", wrong(299));
        let plan = |overrides: &[&str]| {
            let overrides = overrides.iter().map(|&text| text.to_owned()).collect();
            let request = Request { experiment: "parity".to_owned(), overrides, ..Request::default() };
            let lab = Lab::standard();
            lab.plan(&Experiment::resolve(&request, &lab).unwrap()).map_err(|error| error.to_string())
        };
        let size = |overrides: &[&str]| {
            let plan = plan(overrides).unwrap();
            (plan.trials[0].settings.training.epochs, plan.steps_per_epoch())
        };
        assert_eq!(size(&["data.train=1000", "training.steps=400"]), (10, None));
        assert_eq!(size(&["data.train=1000", "training.steps=400", "data.online=true"]), (10, Some(40)));
        assert_eq!(size(&["training.evaluate_every=50", "training.steps=400"]), (8, Some(50)));
        let wrong = plan(&["training.evaluate_every=50", "training.steps=420"]).unwrap_err();
        assert!(wrong.contains("`-s training.steps=420`: 420 steps are not a whole number of epochs"), "{wrong}");
    }

    #[test]
    fn every_task_of_the_study_is_there_and_the_others_are_none_of_them() {
        let lab = Lab::standard();
        let is_of_the_study = |name: &&str| study::TASKS.iter().any(|(task, ..)| task == name);
        let (of_the_study, others): (Vec<&str>, Vec<&str>) =
            lab.tasks.iter().map(|task| task.name).partition(is_of_the_study);
        assert_eq!(of_the_study.len(), study::TASKS.len());
        assert!(others.contains(&"flip-flop") && others.contains(&"mqar"), "{others:?}");
    }
}
