//! Growing experiments: what a folder has already is joined with what is asked for, and only changed settings make another
//! folder.

use toml::Value;

use super::error::ExperimentError;
use super::source::{Located, Place};
use super::{Experiment, Names};
use crate::random::fnv_1a;
use crate::settings::{self, Role, TrialSettings};

/// Longest name of a folder; longer ones end in a hash.
const MAX_NAME: usize = 100;

impl Experiment {
    /// This experiment and another one of the same settings together: the mechanisms, seeds, values in the grid and epochs
    /// of both. What the other one has comes first, so that joining the same experiment again changes nothing.
    ///
    /// Where settings differ, they are those of this experiment.
    pub fn joined(&self, other: &Experiment, names: &dyn Names) -> Result<Self, ExperimentError> {
        let mut joined = self.clone();
        joined.mechanisms = union(&other.mechanisms, &self.mechanisms, |one, two| one == two);
        joined.seeds = union(&other.seeds, &self.seeds, |one, two| one == two);
        for (path, values) in &mut joined.grid {
            if let Some((_, others)) = other.grid.iter().find(|(axis, _)| axis == path) {
                values.value = union(&others.value, &values.value, |one, two| is_same(path, &one.value, &two.value));
            }
        }
        let (mine, theirs) = (self.settings_at(&[], "full", 0)?.training, other.settings_at(&[], "full", 0)?.training);
        let longer = match (mine.steps, theirs.steps) {
            // Trials of another length are other trials.
            _ if mine.rate.depends_on_length() => None,
            (None, None) if theirs.epochs > mine.epochs => Some(("training.epochs", theirs.epochs)),
            (Some(here), Some(there)) if there > here => Some(("training.steps", there)),
            _ => None,
        };
        if let Some((path, length)) = longer {
            let place = Place::Option("what the folder has".to_owned());
            joined.set(path, Located { value: Value::Integer(length as i64), place });
        }
        joined.check_size()?;
        joined.note_changes(names)?;
        Ok(joined)
    }

    /// Whether more epochs or steps make its trials longer. Where the learning rate of every step depends on their number, they make
    /// other trials.
    pub fn can_be_longer(&self) -> Result<bool, ExperimentError> {
        Ok(!self.settings_at(&[], "full", 0)?.training.rate.depends_on_length())
    }

    /// What is asked for beyond the name of the experiment, as the end of a folder's name: empty, or such as
    /// `-learning_rate=0.01`. Mechanisms, seeds, epochs and values of the file's own grid are left out: with more of them
    /// the experiment grows where it is.
    pub fn folder_suffix(&self) -> String {
        let suffix: String = self.name_parts.iter().map(|part| format!("-{part}")).collect();
        if self.name.len() + suffix.len() <= MAX_NAME {
            return suffix;
        }
        let hash = fnv_1a(suffix.bytes()) & 0xff_ffff;
        let room = MAX_NAME.saturating_sub(self.name.len()).max(20);
        let start: String = suffix.chars().take(room).collect();
        format!("{start}-{hash:06x}")
    }

    /// Notes in words what is different from the experiment as it is written.
    pub(super) fn note_changes(&mut self, names: &dyn Names) -> Result<(), ExperimentError> {
        if let Some(written) = &self.written {
            let differences = self.differences(written, names)?;
            self.changed = written.changed.iter().cloned().chain(differences).collect();
        }
        Ok(())
    }

    /// The settings that make trials other than those of `before`, as parts of a name.
    pub(super) fn name_parts(&self, before: &Experiment, names: &dyn Names) -> Result<Vec<String>, ExperimentError> {
        let (mine, theirs) = (self.settings_at(&[], "full", 0)?, before.settings_at(&[], "full", 0)?);
        let is_axis = |experiment: &Experiment, path| experiment.grid.iter().any(|(axis, _)| *axis == path);
        let mut parts = Vec::new();
        // Probes are made during training, so trials that are finished would have none.
        let is_length = |path| ["training.epochs", "training.steps"].contains(&path);
        let is_result = |setting: &&settings::Setting| {
            setting.role != Role::Duration || is_length(setting.path) && mine.training.rate.depends_on_length()
        };
        for setting in settings::all().iter().filter(is_result) {
            let short = short_name(setting.path);
            match (is_axis(self, setting.path), is_axis(before, setting.path)) {
                (true, true) => {}
                (true, false) => parts.push(format!("by-{short}")),
                (false, _) => {
                    let shown = |experiment: &Experiment, first| experiment.shown(setting, first, names);
                    let (here, there) = (shown(self, &mine), shown(before, &theirs));
                    if here != there {
                        parts.push(format!("{short}={}", plain(&here)));
                    }
                }
            }
        }
        Ok(parts)
    }
}

/// What is in the first list, then what only the second has.
fn union<T: Clone>(first: &[T], second: &[T], is_same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let is_new = |value: &&T| !first.iter().any(|other| is_same(other, value));
    first.iter().chain(second.iter().filter(is_new)).cloned().collect()
}

/// Whether two values of a setting are the same, however they are written.
fn is_same(path: &str, one: &Value, two: &Value) -> bool {
    let Some(setting) = settings::find(path) else { return one == two };
    let value = |value: &Value| {
        let mut settings = TrialSettings::default();
        setting.set(&mut settings, value).ok().and_then(|()| setting.get(&settings))
    };
    one == two || value(one) == value(two)
}

/// The last part of a setting's name, if no other setting has the same.
fn short_name(path: &str) -> &str {
    let last = |path: &'static str| path.rsplit('.').next().unwrap_or(path);
    let short = path.rsplit('.').next().unwrap_or(path);
    let same = settings::all().iter().filter(|setting| last(setting.path) == short).count();
    if same == 1 { short } else { path }
}

/// A value as a part of a file's name; of a path, the last part.
fn plain(value: &str) -> String {
    let last = value.rsplit(['/', '\\']).next().unwrap_or(value);
    let is_plain = |letter: char| letter.is_alphanumeric() || "._-+".contains(letter);
    last.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{AnyName, Request};
    use super::*;

    fn experiment(overrides: &[&str], change: impl FnOnce(&mut Request)) -> Experiment {
        let overrides = overrides.iter().map(|&text| text.to_owned()).collect();
        let mut request = Request { experiment: "even-pairs".to_owned(), overrides, ..Request::default() };
        change(&mut request);
        Experiment::resolve(&request, &AnyName).unwrap()
    }

    fn suffix(overrides: &[&str]) -> String {
        experiment(overrides, |_| {}).folder_suffix()
    }

    #[test]
    fn names_tell_what_is_changed() {
        assert_eq!(suffix(&["training.learning_rate=1e-2"]), "-learning_rate=0.01");
        assert_eq!(suffix(&["training.learning_rate=0.1", "data.length=24"]), "", "nothing is changed");
        assert_eq!(suffix(&["seeds=9", "training.epochs=3", "mechanisms=full,topk:3"]), "", "it only grows");
        assert_eq!(suffix(&["training.learning_rate=0.1,0.2"]), "-by-learning_rate");
        assert_eq!(suffix(&["training.lr_factor.query=2", "task=a/b c.tsv"]), "-task=b_c.tsv-query=2.0");
        assert_eq!(suffix(&["probe_every=4"]), "-probe_every=4", "trials that are finished have no probes");
        let long: Vec<String> = settings::all()
            .iter()
            .filter(|setting| setting.path.starts_with("training.lr_factor."))
            .map(|setting| format!("{}=0.123456789", setting.path))
            .collect();
        let long = suffix(&long.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(long.len() < 120 && long.starts_with("-embedding=0.123456789-"), "{long}");
    }

    #[test]
    fn trials_whose_learning_rate_falls_to_their_end_do_not_grow() {
        let cosine = |epochs: &str, further: &[&str]| {
            let overrides = [&["training.schedule=cosine", epochs][..], further].concat();
            experiment(&overrides, |_| {})
        };
        let (short, long) = (cosine("training.epochs=5", &[]), cosine("training.epochs=9", &["seeds=9"]));
        assert_eq!(long.folder_suffix(), "-epochs=9-schedule=cosine");
        assert!(!short.can_be_longer().unwrap());
        let epochs = |experiment: &Experiment| experiment.settings_at(&[], "full", 0).unwrap().training.epochs;
        let joined = short.joined(&long, &AnyName).unwrap();
        assert_eq!((epochs(&joined), joined.seeds.len()), (5, 9), "only the length is fixed");
        // With a length of its own, the schedule leaves that of the trials open.
        let [short, long] =
            ["training.epochs=5", "training.epochs=9"].map(|epochs| cosine(epochs, &["training.schedule_steps=700"]));
        assert_eq!(long.folder_suffix(), "-schedule=cosine-schedule_steps=700");
        assert!(short.can_be_longer().unwrap());
        assert_eq!(epochs(&short.joined(&long, &AnyName).unwrap()), 9);
    }

    #[test]
    fn smoke_leaves_alone_what_is_given() {
        let smoke = experiment(&["data.train=75", "seeds=3"], |request| request.smoke = true);
        let settings = smoke.settings_at(&[], "full", 0).unwrap();
        assert_eq!((settings.data.sizes.train, settings.data.sizes.held_out, smoke.seeds.len()), (75, 25, 3));
        assert_eq!((settings.training.epochs, smoke.folder_suffix().as_str()), (1, "-train=75"));
    }

    #[test]
    fn joining_adds_and_never_takes_away() {
        let small = experiment(&["seeds=2", "training.learning_rate=0.1,0.2", "training.epochs=9"], |_| {});
        let other = experiment(&["seeds=[1]", "training.learning_rate=1e-1,0.3", "mechanisms=full,topk:3"], |_| {});
        let joined = other.joined(&small, &AnyName).unwrap();
        assert_eq!(joined.mechanisms, ["full", "topk:5", "banded:5", "block:5", "topk:3"]);
        assert_eq!(joined.seeds.len(), 3);
        assert_eq!(joined.axes()[0].1, [0.1, 0.2, 0.3].map(Value::Float));
        assert_eq!(joined.settings_at(&[], "full", 0).unwrap().training.epochs, 16, "the longer of both");
        let again = other.joined(&joined, &AnyName).unwrap();
        assert_eq!(again.to_toml(), joined.to_toml(), "joining again changes nothing");
        assert!(
            joined.changed.iter().any(|change| change.to_string().contains("mechanisms full topk:5")),
            "{:?}",
            joined.changed
        );
    }
}
