//! The key `layers` of experiment files: the mechanisms of the blocks as a list.

use semfocus_core::{AnyName, Experiment, Request};

fn mechanisms(name: &str, text: &str) -> Result<Vec<String>, String> {
    let file = std::env::temp_dir().join(format!("semfocus-layers-{}-{name}.toml", std::process::id()));
    std::fs::write(&file, format!("task = \"parity\"\n{text}\n")).unwrap();
    let request = Request { experiment: file.to_str().unwrap().to_owned(), ..Request::default() };
    let found = Experiment::resolve(&request, &AnyName).map_err(|error| error.to_string());
    std::fs::remove_file(&file).unwrap();
    let found = found?;
    let again = Experiment::from_toml("again", &found.to_toml()).unwrap();
    assert_eq!(again.mechanisms, found.mechanisms, "the store has them as mechanisms");
    Ok(found.mechanisms)
}

#[test]
fn layers_are_a_mechanism_for_each_block() {
    let one = mechanisms("one", "layers = [\"topk:5\", \"full\"]").unwrap();
    assert_eq!(one, mechanisms("written", "mechanisms = [\"full\", \"topk:5/full\"]").unwrap());
    let beside = mechanisms("beside", "mechanisms = [\"topk:5\"]\nlayers = [\"topk:5\", \"full\"]").unwrap();
    assert_eq!(beside, ["topk:5", "topk:5/full"]);
    let two = mechanisms("two", "layers = [[\"topk:5\", \"full\"], [\"full\", \"topk:5\"]]").unwrap();
    assert_eq!(two, ["full", "topk:5/full", "full/topk:5"]);
}

#[test]
fn mistakes_are_explained() {
    let wrong = |name, text| mechanisms(name, text).unwrap_err();
    assert!(wrong("text", "layers = \"topk:5\"").contains("expected one mechanism for each block"));
    assert!(wrong("empty", "layers = []").contains("expected one mechanism for each block"));
    assert!(
        wrong("slash", "layers = [\"topk:5/full\", \"full\"]")
            .contains("`topk:5/full` is not the mechanism of one block")
    );
    assert!(wrong("same", "layers = [\"full\", \"full\"]").contains("all have the same attention"));
}
