//! `cargo xtask tidy`: the house style as a test.
//!
//! A [`Tree`] is read once. Each check is a function from the tree to findings and reads nothing else, so that its
//! tests use a tree made of string literals. Checks judge text by simple means (lines, words, braces): they must be
//! right about our own code, not about every file that a compiler accepts.

mod book;
mod code;
mod crates;
mod deploy;
mod markdown;
mod names;
mod parameters;
mod records;
mod size;
mod source;
mod tree;
mod words;

use std::fmt;
use std::path::Path;

use crate::error::TaskError;
use tree::Tree;

/// All checks; to add one, add a line here.
const CHECKS: &[fn(&Tree) -> Vec<Finding>] = &[
    markdown::named_paths_exist,
    markdown::named_tests_exist,
    book::readme_is_short,
    book::chapters_are_listed,
    size::files_are_short,
    size::functions_are_short,
    names::public_types_have_one_name,
    parameters::parameters_have_names,
    words::nothing_is_left_undone,
    words::nothing_names_a_machine,
    words::comments_are_plain,
    crates::crates_introduce_themselves,
    crates::dependencies_are_explained,
    deploy::deployment_is_sound,
    records::changelog_is_open,
    records::decisions_are_in_order,
];

/// A violation of the style: where, what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    file: String,
    line: usize,
    what: String,
}

impl Finding {
    /// `line` counts from one.
    fn new(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// Checks the tree below `root`, and prints one line per finding.
pub fn run(root: &Path) -> Result<(), TaskError> {
    let tree = Tree::read(root)?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        findings => Err(TaskError::Untidy { findings }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_that_editors_can_follow() {
        let finding = Finding::new("docs/WIRE.md", 12, "too vague; name the unit");
        assert_eq!(finding.to_string(), "docs/WIRE.md:12: too vague; name the unit");
    }
}
