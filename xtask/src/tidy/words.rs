//! Words that must not be in the tree: marks of unfinished work, and names of one machine.
//!
//! The patterns are joined from halves, so that this file does not find itself.

use super::Finding;
use super::tree::Tree;

/// Endings of files in which people write code or settings; JSON is mostly generated.
const SOURCES: &[&str] =
    &["css", "h", "html", "js", "mjs", "mts", "rs", "sh", "toml", "ts", "tsx", "wgsl", "yml"];

/// Marks of unfinished or silenced code, each with what to do.
const UNDONE: &[(&str, &str)] = &[
    (concat!("to", "do!("), "write the code or leave the item out"),
    (concat!("unimple", "mented!("), "write the code or leave the item out"),
    (concat!("db", "g!("), "drop it"),
    (concat!("TO", "DO"), "do it or open an issue"),
    (concat!("FIX", "ME"), "mend it or open an issue"),
    (concat!("X", "XX"), "mend it or open an issue"),
    (concat!("#[al", "low("), "satisfy the lint"),
    (concat!("#![al", "low("), "satisfy the lint"),
    (concat!("#[ig", "nore"), "let the test run or delete it"),
];

/// Folders that exist on one machine only.
const MACHINES: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/tm", "p/"),
    concat!("/Us", "ers/"),
];

/// Hosts that serve packages. Which one is used is a setting of the machine.
const REGISTRIES: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("registry.", "yarnpkg.com"),
    concat!("files.", "pythonhosted.org"),
    concat!("pypi.", "org"),
    concat!("arti", "factory"),
];

/// Lock files name their source by design.
const LOCK_FILES: &[&str] = &["Cargo.lock", "fuzz/Cargo.lock"];

/// Sources have no marks of unfinished work, and silence no lint or test.
pub fn nothing_is_left_undone(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts_with(SOURCES) {
        for (index, line) in text.lines().enumerate() {
            for (pattern, remedy) in UNDONE {
                if has_word(line, pattern) {
                    let what = format!("`{pattern}` in the sources; {remedy}");
                    findings.push(Finding::new(file, index + 1, what));
                }
            }
        }
    }
    findings
}

/// No text file names a folder of one machine or a host that serves packages.
pub fn nothing_names_a_machine(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts().filter(|(file, _)| !LOCK_FILES.contains(file)) {
        for (index, line) in text.lines().enumerate() {
            for folder in MACHINES.iter().filter(|folder| has_absolute(line, folder)) {
                let what = format!("`{folder}` is a folder of one machine; use a relative path");
                findings.push(Finding::new(file, index + 1, what));
            }
            let lower = line.to_lowercase();
            for host in REGISTRIES.iter().filter(|host| lower.contains(**host)) {
                let what = format!("`{host}` serves packages; leave the choice to the machine");
                findings.push(Finding::new(file, index + 1, what));
            }
        }
    }
    findings
}

/// Whether `pattern` occurs other than as part of a longer name.
fn has_word(line: &str, pattern: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(pattern).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + pattern.len()..].chars().next();
        let cut = |outer: Option<char>, inner: Option<char>| {
            inner.is_some_and(in_name) && outer.is_some_and(in_name)
        };
        !cut(before, pattern.chars().next()) && !cut(after, pattern.chars().next_back())
    })
}

/// Whether `folder` starts a path, rather than continuing a relative path or an address.
fn has_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-./~*}>)".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undone(line: &str) -> usize {
        nothing_is_left_undone(&Tree::of(&[("a.rs", line)])).len()
    }

    fn machine(file: &str, line: &str) -> usize {
        nothing_names_a_machine(&Tree::of(&[(file, line)])).len()
    }

    #[test]
    fn every_mark_of_unfinished_work_is_found_with_its_line() {
        for (pattern, _) in UNDONE {
            let text = format!("fn a() {{\n    {pattern}b)]\n}}");
            let text = if pattern.ends_with('(') { text } else { text.replace("b)]", ": b") };
            let found = nothing_is_left_undone(&Tree::of(&[("a.rs", &text)]));
            assert_eq!(found.len(), 1, "{pattern}");
            assert_eq!(found[0].line, 2, "{pattern}");
        }
    }

    #[test]
    fn longer_names_and_other_files_are_not_found() {
        assert_eq!(undone(concat!("let my_to", "do = METHO", "TO", "DOS;")), 0);
        assert_eq!(undone(concat!("\"XX", "XX\"")), 0);
        assert_eq!(undone(concat!("my_db", "g!(a)")), 0);
        let note = Tree::of(&[("a.md", concat!("no `TO", "DO` in sources"))]);
        assert_eq!(nothing_is_left_undone(&note), []);
    }

    #[test]
    fn folders_of_a_machine_are_found_in_any_text() {
        for folder in MACHINES {
            assert_eq!(machine("a.md", &format!("see {folder}me/x")), 1, "{folder}");
            assert_eq!(machine("run", &format!("\"{folder}x\"")), 1, "{folder}");
            assert_eq!(machine("a.md", &format!("https://example.org{folder}x")), 0, "{folder}");
            assert_eq!(machine("a.md", &format!("web{folder}x ./x{folder} ${{A}}{folder}")), 0);
        }
    }

    #[test]
    fn registries_are_found_except_in_lock_files() {
        for host in REGISTRIES {
            let line = format!("source = \"https://{}/x\"", host.to_uppercase());
            assert_eq!(machine("web/.npmrc", &line), 1, "{host}");
            assert_eq!(machine("Cargo.lock", &line), 0, "{host}");
        }
        assert_eq!(machine("README.md", "published on crates.io"), 0);
    }
}
