//! The example of a mechanism from outside: its forms agree, it trains, and the documentation shows its very code.

#[path = "../examples/own_mechanism.rs"]
mod own_mechanism;

use own_mechanism::{WITHIN, losses};
use semfocus_nn::Registry;
use semfocus_nn::conformance::{Case, Scores, check, specs};

#[test]
fn both_forms_agree() {
    let registry = Registry::standard().with(WITHIN);
    for length in [1, 2, 7, 40] {
        for spec in specs(&WITHIN, length) {
            for scores in [Scores::Ordinary, Scores::Equal, Scores::Ties, Scores::Huge] {
                let case = Case { batch: 3, length, d_model: 16, heads: 2, d_head: 8, dropout: 0.1, scores, seed: 3 };
                check(&registry, &spec, case).unwrap();
            }
        }
    }
}

#[test]
fn it_trains() {
    let losses = losses("within:2", 300);
    assert!(losses[0] > 0.4 && losses[9] < 0.1 * losses[0], "{losses:?}");
}

#[test]
fn the_documentation_shows_this_code() {
    let page = include_str!("../../../docs/adding-a-mechanism.md");
    let source = include_str!("../examples/own_mechanism.rs");
    for part in ["definition", "fast form"] {
        let (start, end) = (format!("// [{part}]\n"), format!("// [end of {part}]"));
        let code = source.split_once(&start).unwrap().1.split_once(&end).unwrap().0;
        assert!(page.contains(code), "docs/adding-a-mechanism.md does not show the {part} as it is:\n{code}");
    }
}
