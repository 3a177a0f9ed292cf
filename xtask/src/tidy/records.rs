//! The changelog and the decision records follow their format.

use super::Finding;
use super::tree::Tree;

const CHANGELOG: &str = "CHANGELOG.md";
const UNRELEASED: &str = "## [Unreleased]";
const DECISIONS: &str = "docs/adr/";
/// Headings that every decision record has.
const PARTS: &[&str] = &["## Context", "## Decision", "## Consequences"];

/// The changelog has a section for the next change.
pub fn changelog_is_open(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(CHANGELOG).unwrap_or_default();
    if text.lines().any(|line| line.trim_end() == UNRELEASED) {
        return Vec::new();
    }
    vec![Finding::new(CHANGELOG, 1, format!("no `{UNRELEASED}` heading; add one at the top"))]
}

/// Decision records are named `NNNN-title.md`, numbered from one without gaps, and have all headings.
pub fn decisions_are_in_order(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut expected = 1;
    for (file, text) in tree.texts() {
        let Some(name) = file.strip_prefix(DECISIONS) else { continue };
        let Some(number) = number(name) else {
            let what = "not a decision record's name; rename it to NNNN-title.md, in lower case";
            findings.push(Finding::new(file, 1, what));
            continue;
        };
        if number != expected {
            let what = format!("expected number {expected:04}; number records without gaps");
            findings.push(Finding::new(file, 1, what));
        }
        expected = number + 1;
        if !text.lines().next().is_some_and(|line| line.starts_with("# ") && line.len() > 2) {
            findings.push(Finding::new(file, 1, "no title; begin with `# ` and the decision"));
        }
        for part in PARTS {
            if !text.lines().any(|line| line.trim_end() == *part) {
                findings.push(Finding::new(file, 1, format!("no `{part}` heading; add the part")));
            }
        }
    }
    findings
}

/// The number of a record named `NNNN-title.md`.
fn number(name: &str) -> Option<u32> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let title_fits =
        title.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let fits = number.len() == 4 && !title.is_empty() && title_fits;
    fits.then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str =
        "# Time is an argument\n\n## Context\na\n## Decision\nb\n## Consequences\nc\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        decisions_are_in_order(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_changelog_needs_its_open_heading() {
        let open = Tree::of(&[(CHANGELOG, "# Changelog\n\n## [Unreleased]\n")]);
        assert_eq!(changelog_is_open(&open), []);
        for closed in ["# Changelog\n\n## [0.1.0]\n", "mentions ## [Unreleased] in passing", ""] {
            assert_eq!(changelog_is_open(&Tree::of(&[(CHANGELOG, closed)])).len(), 1, "{closed}");
        }
        assert_eq!(changelog_is_open(&Tree::of(&[])).len(), 1);
    }

    #[test]
    fn whole_records_in_a_row_pass() {
        let files = [("docs/adr/0001-time.md", WHOLE), ("docs/adr/0002-wire-2.md", WHOLE)];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn gaps_doubles_and_strange_names_are_found() {
        let gap = found(&[("docs/adr/0001-a.md", WHOLE), ("docs/adr/0003-b.md", WHOLE)]);
        assert_eq!(
            gap,
            ["docs/adr/0003-b.md:1: expected number 0002; number records without gaps"]
        );
        assert_eq!(found(&[("docs/adr/0001-a.md", WHOLE), ("docs/adr/0001-b.md", WHOLE)]).len(), 1);
        assert_eq!(found(&[("docs/adr/0002-a.md", WHOLE)]).len(), 1);
        for name in ["1-a.md", "0001.md", "0001-.md", "0001-A b.md", "0001-a.txt", "x001-a.md"] {
            assert_eq!(found(&[(&format!("docs/adr/{name}"), WHOLE)]).len(), 1, "{name}");
        }
    }

    #[test]
    fn every_missing_part_is_found() {
        for part in PARTS {
            let text = WHOLE.replace(part, "## Something else");
            let found = found(&[("docs/adr/0001-a.md", &text)]);
            assert_eq!(found.len(), 1, "{part}");
            assert!(found[0].contains(part), "{found:?}");
        }
        assert_eq!(found(&[("docs/adr/0001-a.md", &WHOLE.replace("# Time", "Time"))]).len(), 1);
    }
}
