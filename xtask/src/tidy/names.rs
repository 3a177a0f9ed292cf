//! One name, one type: every public type has a unique name in the workspace.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::Tree;

/// Names that more than one type still has. The list may only shrink: a name that has become unique must be removed,
/// and none may be added.
const DOUBLED: &[&str] = &[];

/// Public structs, enums and traits of library and program code have different names.
pub fn public_types_have_one_name(tree: &Tree) -> Vec<Finding> {
    doubled_beside(tree, DOUBLED)
}

fn doubled_beside(tree: &Tree, known: &[&str]) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for (file, text) in tree.texts_with(&["rs"]) {
        let apart = ["tests/", "examples/", "benches/", "fuzz/", "bench/"];
        if apart
            .iter()
            .any(|folder| file.starts_with(folder) || file.contains(&format!("/{folder}")))
        {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if let Some(name) = public_type(line) {
                places.entry(name).or_default().push((file, index + 1));
            }
        }
    }
    let mut findings = Vec::new();
    for (name, places) in places.iter().filter(|(name, _)| !known.contains(name)) {
        if let [(first, _), .., (file, line)] = places.as_slice() {
            let what = format!("`{name}` is a public type in {first}, too; rename one of them");
            findings.push(Finding::new(file, *line, what));
        }
    }
    for name in known {
        if places.get(name).is_none_or(|places| places.len() < 2) {
            let what = format!("`{name}` is unique by now; take it off the list of doubled names");
            findings.push(Finding::new("xtask/src/tidy/names.rs", 1, what));
        }
    }
    findings
}

/// The name of the type that a top-level line defines.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree::of(files)
    }

    #[test]
    fn a_name_defined_twice_is_found_and_tests_do_not_count() {
        let tree = tree(&[
            ("a/src/lib.rs", "pub struct Row {\n}\npub enum Only {}\n"),
            ("b/src/lib.rs", "\npub trait Row {}\n"),
            ("b/tests/it.rs", "pub struct Only;\n"),
        ]);
        let findings = doubled_beside(&tree, &[]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!((findings[0].file.as_str(), findings[0].line), ("b/src/lib.rs", 2));
        assert_eq!(doubled_beside(&tree, &["Row"]), []);
    }

    #[test]
    fn a_name_that_is_unique_again_must_leave_the_list() {
        let tree = tree(&[("a/src/lib.rs", "pub struct Row<T>(T);\n")]);
        let findings = doubled_beside(&tree, &["Row"]);
        assert!(findings[0].what.contains("take it off"), "{findings:?}");
    }
}
