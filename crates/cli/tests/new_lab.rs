//! `semfocus new-lab`. `.ci/run` builds what it makes.

mod common;

use common::{Scratch, semfocus};

#[test]
fn a_crate_of_ones_own_has_the_example_and_the_profile_of_the_program() {
    let scratch = Scratch::new("new-lab");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let dir = scratch.path("My lab");
    let output = semfocus(&["new-lab", &dir, "--path", root]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let read = |name: &str| std::fs::read_to_string(format!("{dir}/{name}")).unwrap();
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    assert_eq!(manifest["package"]["name"].as_str(), Some("my-lab"));
    let path = manifest["dependencies"]["semfocus"]["path"].as_str().unwrap();
    assert_eq!(path, std::fs::canonicalize(env!("CARGO_MANIFEST_DIR")).unwrap().to_str().unwrap());
    let workspace: toml::Table = std::fs::read_to_string(format!("{root}/Cargo.toml")).unwrap().parse().unwrap();
    assert_eq!(manifest["profile"], workspace["profile"], "or the build takes longer than the pages promise");
    assert!(manifest["workspace"].as_table().unwrap().is_empty(), "it also builds inside another workspace");
    // The example is compiled and tested with the program.
    let example = |name: &str| std::fs::read_to_string(format!("{root}/examples/own-lab/src/{name}")).unwrap();
    assert_eq!(read("src/main.rs"), example("main.rs"));
    for name in ["within.rs", "majority.rs"] {
        let (ours, original) = (read(&format!("src/{name}")), example(name));
        assert!(ours.lines().all(|line| !line.trim_start().starts_with("// [") && original.contains(line)), "{ours}");
    }
    assert!(read("README.md").lines().count() >= 10 && read(".gitignore").contains("/target"));
    // Nothing that is there is touched.
    let again = semfocus(&["new-lab", &dir, "--path", root]);
    assert_eq!((again.code, again.stderr), (1, format!("error: {dir} is not empty; name a new folder\n")));
    let file = scratch.file("notes", "mine");
    assert_eq!(semfocus(&["new-lab", &file, "--path", root]).code, 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    for (name, path, reason) in [
        ("1st", root, "cannot be the name of a crate"),
        ("semfocus", root, "cannot be the name of a crate"),
        ("other", "/", "is not a checkout of semfocus"),
    ] {
        let refused = semfocus(&["new-lab", &scratch.path(name), "--path", path]);
        assert!(refused.code == 1 && refused.stderr.contains(reason), "{}", refused.stderr);
        assert!(!std::path::Path::new(&scratch.path(name)).exists(), "{name}: nothing is written");
    }
}
