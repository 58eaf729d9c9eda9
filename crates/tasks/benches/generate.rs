//! Time to generate the data set of a trial: 5,000 + 2,000 examples, on one core.

use criterion::{Criterion, criterion_group, criterion_main};
use semfocus_tasks::{DataSettings, Dataset, Tasks};

fn data_sets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("7000 examples");
    group.sample_size(10);
    for task in Tasks::standard().examples() {
        group.bench_function(task.name(), |bencher| {
            bencher.iter(|| Dataset::generate(&task, &DataSettings::default(), 1).expect("the defaults are valid"));
        });
    }
    group.finish();
}

criterion_group!(benches, data_sets);
criterion_main!(benches);
