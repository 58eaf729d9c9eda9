//! How often a share of a speed-up is misjudged: experiments with a known truth, in which every control has the same share.
//! `cargo test --release --workspace --test shares -- --nocapture` prints the table of `docs/evidence.md`.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_analysis::evidence::causes::{HALF, JudgedShare, ShareFinding, shares_of};
use semfocus_analysis::stats::{Share, TimeToTarget, Trio, log_rank_excess, normal_quantile, permuted_log_rank};

const EXPERIMENTS: usize = 400;
const CONTROLS: usize = 8;

/// A world in which trials are drawn.
struct World {
    name: &'static str,
    /// Epochs of full attention and of top-k attention, if nothing varies.
    epochs: [f64; 2],
    /// Standard deviation of the logarithm of the epochs of a trial.
    spread: f64,
    /// The same for what all trials of a seed have in common.
    of_seeds: f64,
    /// Whether the epochs are exponential instead of log-normal.
    is_exponential: bool,
    budget: f64,
}

const ROOMY: World = World {
    name: "spread of 20 %",
    epochs: [40.0, 8.0],
    spread: 0.2,
    of_seeds: 0.0,
    is_exponential: false,
    budget: 1e9,
};

const WORLDS: [World; 7] = [
    ROOMY,
    World { name: "spread of 50 %", epochs: [400.0, 40.0], spread: 0.5, ..ROOMY },
    World { name: "exponential", epochs: [4000.0, 40.0], is_exponential: true, ..ROOMY },
    World { name: "seeds differ more than trials", spread: 0.1, of_seeds: 1.0, ..ROOMY },
    World { name: "epochs 2 and 3 against 9", epochs: [8.6, 2.0], spread: 0.1, ..ROOMY },
    World { name: "full often over budget", budget: 42.0, ..ROOMY },
    World { name: "the slower half over budget", budget: 25.0, ..ROOMY },
];

struct Random(ChaCha8Rng);

impl Random {
    /// In 0..1, both ends excluded.
    fn uniform(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 0.5) / 2f64.powi(32)
    }

    fn normal(&mut self) -> f64 {
        normal_quantile(self.uniform())
    }
}

impl World {
    fn time(&self, random: &mut Random, epochs: f64, of_seed: f64) -> TimeToTarget {
        let varied = match self.is_exponential {
            true => -random.uniform().ln(),
            false => (self.spread * random.normal()).exp(),
        };
        let epochs = (epochs * of_seed.exp() * varied).ceil();
        if epochs <= self.budget { TimeToTarget::reached_at(epochs) } else { TimeToTarget::censored_at(self.budget) }
    }
}

/// Shares of the experiments with a statement about any control, and of the controls whose interval misses the true
/// share or which are judged.
#[derive(Default)]
struct Said {
    most: f64,
    less: f64,
    /// Most about one control, less about another, or one of both: an experiment counts once.
    either: f64,
    missed: f64,
    judged: f64,
}

fn simulate(world: &World, truth: f64, seeds: usize) -> Said {
    let mut random = Random(ChaCha8Rng::seed_from_u64(seeds as u64));
    let mut said = Said::default();
    let [slow, fast] = world.epochs;
    let of_control = slow * (fast / slow).powf(truth);
    for _ in 0..EXPERIMENTS {
        let of_seeds: Vec<f64> = (0..seeds).map(|_| world.of_seeds * random.normal()).collect();
        let mut times = |epochs: f64| -> Vec<TimeToTarget> {
            of_seeds.iter().map(|of_seed| world.time(&mut random, epochs, *of_seed)).collect()
        };
        let (full, reference) = (times(slow), times(fast));
        let shares: Vec<Option<Share>> =
            (0..CONTROLS)
                .map(|_| {
                    let sides = full.iter().zip(&reference).zip(times(of_control));
                    let trio = |((baseline, reference), control): ((&TimeToTarget, &TimeToTarget), TimeToTarget)| {
                        Trio { baseline: *baseline, reference: *reference, control }
                    };
                    Share::new(&sides.map(trio).collect::<Vec<Trio>>())
                })
                .collect();
        let is_faster =
            permuted_log_rank(&reference, &full, 1).p_value < 0.05 && log_rank_excess(&reference, &full) > 0.0;
        let judged = shares_of(&shares, is_faster);
        for one in &judged {
            let Some(interval) = one.interval else { continue };
            assert_eq!(one.kept == ShareFinding::Undecided, interval.contains(HALF), "words and intervals agree");
            assert_eq!(one.kept == ShareFinding::Undecided, one.adjusted >= 0.05, "and so do the p-values: {one:?}");
        }
        let any = |is_so: &dyn Fn(ShareFinding) -> bool| f64::from(u8::from(judged.iter().any(|one| is_so(one.kept))));
        said.most += any(&|kept| kept == ShareFinding::Most);
        said.less += any(&|kept| kept == ShareFinding::Less);
        said.either += any(&|kept| kept != ShareFinding::Undecided);
        let of_controls = |is_so: &dyn Fn(&JudgedShare) -> bool| {
            judged.iter().filter(|one| is_so(one)).count() as f64 / CONTROLS as f64
        };
        said.missed += of_controls(&|one| one.interval.is_some_and(|interval| !interval.contains(truth)));
        said.judged += of_controls(&|one| one.kept != ShareFinding::Undecided);
    }
    let Said { most, less, either, missed, judged } = said;
    let [most, less, either, missed, judged] = [most, less, either, missed, judged].map(|sum| sum / EXPERIMENTS as f64);
    Said { most, less, either, missed, judged }
}

#[test]
fn how_often_shares_are_misjudged() {
    // Up to 3.3 binomial standard errors.
    let limit = 0.05 + 3.3 * (0.05f64 * 0.95 / EXPERIMENTS as f64).sqrt();
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    println!(
        "| | seeds | half: most or less | half missed | none: most | none missed | whole: less | whole missed | none judged | whole judged |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut failures = Vec::new();
    for world in &WORLDS {
        for seeds in [5, 10] {
            let [none, half, whole] = [0.0, 0.5, 1.0].map(|truth| simulate(world, truth, seeds));
            let shares =
                [half.either, half.missed, none.most, none.missed, whole.less, whole.missed, none.judged, whole.judged];
            println!("| {} | {seeds} | {} |", world.name, shares.map(percent).join(" | "));
            for (share, what) in
                shares.into_iter().zip(["half", "half missed", "none", "none missed", "whole", "whole missed"])
            {
                if share > limit {
                    failures.push(format!("{}, {seeds} seeds, {what}: {}", world.name, percent(share)));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
