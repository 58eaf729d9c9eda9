//! Every operation of every instruction set of this machine against the portable form.

use super::*;
use crate::{Dropout, Key};

type Row = [f32; LANES];

/// Values that instruction sets are known to treat differently.
const AWKWARD: [f32; 20] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    0.0,
    -0.0,
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    0.499_999_97,
    8_388_609.0,
    -3e9,
    1e-40,
    -1e-45,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    1.0,
    -1.0,
];

/// Sixteen values between -4 and 4, some of them replaced by awkward ones if `awkward`.
fn row(key: Key, awkward: bool) -> Row {
    std::array::from_fn(|i| {
        let (bits, choice) = (key.bits_at(2 * i as u32), key.bits_at(2 * i as u32 + 1) as usize);
        match awkward && choice % 2 == 0 {
            true => AWKWARD[choice / 2 % AWKWARD.len()],
            false => bits as f32 / 2f32.powi(29) - 4.0,
        }
    })
}

/// Which of the NaNs comes out is not defined.
fn bits(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }
}

struct Case {
    rows: [Row; LANES],
    lanes: u32,
    columns: [u32; LANES],
    key_words: (u32, u32),
    dropout: Dropout,
}

impl Case {
    fn new(key: Key) -> Self {
        // Sums are compared on ordinary values too: the awkward ones soon make them infinite or NaN.
        let awkward = !key.bits_at(0).is_multiple_of(3);
        let columns = std::array::from_fn(|i| key.bits_at(2 + i as u32));
        let row_key = key.child(100);
        Case {
            rows: std::array::from_fn(|i| row(key.child(i as u64), awkward)),
            lanes: key.bits_at(1) % (1 << LANES),
            columns,
            key_words: row_key.words(),
            // The first lane is exactly at the threshold.
            dropout: Dropout { threshold: row_key.bits_at(columns[0]), scale: 1.3 },
        }
    }
}

dispatched! {
    /// The results of all operations as bits, with their names.
    fn all_operations(simd; case: &Case) -> Vec<(String, Vec<u32>)> {
        let mut rows = [simd.splat(0.0); LANES];
        for (row, values) in rows.iter_mut().zip(&case.rows) {
            *row = simd.load(values);
        }
        let [a, b, c, ..] = rows;
        let exponent = simd.round(simd.min(simd.max(simd.mul(a, simd.splat(40.0)), simd.splat(-126.0)), simd.splat(127.0)));
        let mut vectors = vec![
            ("splat".to_owned(), simd.splat(case.rows[0][0])),
            ("add".to_owned(), simd.add(a, b)),
            ("sub".to_owned(), simd.sub(a, b)),
            ("mul".to_owned(), simd.mul(a, b)),
            ("div".to_owned(), simd.div(a, b)),
            ("fma".to_owned(), simd.fma(a, b, c)),
            ("max".to_owned(), simd.max(a, b)),
            ("min".to_owned(), simd.min(a, b)),
            ("round".to_owned(), simd.round(a)),
            ("pow2".to_owned(), simd.pow2(exponent)),
            ("where_positive".to_owned(), simd.where_positive(a, b, c)),
            ("below_or".to_owned(), simd.below_or(a, b, c)),
            ("replace".to_owned(), simd.replace(a, case.lanes, b)),
            ("dropout".to_owned(), simd.dropout(a, case.key_words, case.columns[0], &case.dropout)),
            ("dropout_at".to_owned(), simd.dropout_at(a, case.key_words, &case.columns, &case.dropout)),
        ];
        for n in 0..=LANES {
            vectors.push((format!("first_or {n}"), simd.first_or(n, a, b)));
            vectors.push((format!("load_some {n}"), simd.load_some(&case.rows[0][..n])));
            let mut some = case.rows[1];
            simd.store_some(&mut some[..n], a);
            vectors.push((format!("store_some {n}"), simd.load(&some)));
        }
        for (column, values) in simd.transpose(rows).into_iter().enumerate() {
            vectors.push((format!("transpose, column {column}"), values));
        }

        let mut results = vec![
            ("greater".to_owned(), vec![simd.greater(a, b)]),
            ("sum".to_owned(), vec![bits(simd.sum(a))]),
            ("max_lane".to_owned(), vec![bits(simd.max_lane(a))]),
        ];
        for (name, vector) in vectors {
            let mut values = [0.0; LANES];
            simd.store(&mut values, vector);
            results.push((name, values.iter().map(|value| bits(*value)).collect()));
        }
        results
    }
}

#[test]
fn all_instruction_sets_give_the_bits_of_the_portable_form() {
    let best = InstructionSet::current();
    for number in 0..2000 {
        let case = Case::new(Key::new(number));
        InstructionSet::Portable.force();
        let expected = all_operations(&case);
        for set in InstructionSet::available() {
            set.force();
            for ((name, actual), (_, expected)) in all_operations(&case).iter().zip(&expected) {
                assert_eq!(actual, expected, "{set:?}: {name} of {:?}", &case.rows[..3]);
            }
        }
    }
    best.force();
}

#[test]
fn instruction_sets_are_found_by_index_and_by_name() {
    for (index, set) in InstructionSet::ALL.into_iter().enumerate() {
        assert_eq!(set as usize, index);
        assert_eq!(InstructionSet::from_name(set.name()).is_ok(), set.is_available());
    }
    let error = InstructionSet::from_name("sse9").unwrap_err();
    assert!(error.starts_with("this machine has no instruction set `sse9`; it has portable"), "{error}");
}
