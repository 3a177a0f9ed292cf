//! The README stays short, and the book in `docs/` lists all of its chapters.

use super::Finding;
use super::tree::Tree;

const README: &str = "README.md";
/// Most words of the README as `wc -w` counts them, including code and tables.
const MAX_README_WORDS: usize = 700;
const FOLDER: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";

/// The README has at most [`MAX_README_WORDS`] words.
pub fn readme_is_short(tree: &Tree) -> Vec<Finding> {
    let words = tree.text(README).unwrap_or_default().split_whitespace().count();
    if words <= MAX_README_WORDS {
        return Vec::new();
    }
    let what = format!(
        "{words} words, at most {MAX_README_WORDS} are allowed; move details to a chapter in docs"
    );
    vec![Finding::new(README, 1, what)]
}

/// Every Markdown file in `docs/` is a chapter: a link in the summary leads to it.
pub fn chapters_are_listed(tree: &Tree) -> Vec<Finding> {
    let summary = tree.text(SUMMARY).unwrap_or_default();
    let mut findings = Vec::new();
    for (file, _) in tree.texts_with(&["md"]) {
        let Some(name) = file.strip_prefix(FOLDER) else { continue };
        if file != SUMMARY && !summary.contains(&format!("]({name})")) {
            findings.push(Finding::new(file, 1, format!("not listed in {SUMMARY}; add a link")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readme_of_more_words_than_allowed_is_found() {
        for (words, findings) in [(0, 0), (MAX_README_WORDS, 0), (MAX_README_WORDS + 1, 1)] {
            let text = "word\n".repeat(words);
            assert_eq!(readme_is_short(&Tree::of(&[(README, &text)])).len(), findings, "{words}");
        }
    }

    #[test]
    fn words_in_code_and_tables_count() {
        let text = format!("```sh\n{}```\n| a | b |\n", "cargo run\n".repeat(350));
        assert_eq!(readme_is_short(&Tree::of(&[(README, &text)])).len(), 1);
    }

    /// The chapters that are missing from a summary.
    fn unlisted(summary: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (SUMMARY, summary),
            ("docs/WIRE.md", ""),
            ("docs/LAB.md", ""),
            ("docs/adr/0001-time.md", ""),
            ("docs/images/lab.png", ""),
            ("README.md", ""),
        ]);
        chapters_are_listed(&tree).into_iter().map(|finding| finding.file).collect()
    }

    #[test]
    fn chapters_without_a_link_in_the_summary_are_found() {
        let all = "- [Wire](WIRE.md)\n- [Lab](LAB.md)\n  - [Time](adr/0001-time.md)\n";
        assert_eq!(unlisted(all), [""; 0]);
        assert_eq!(unlisted(&all.replace("[Lab](LAB.md)", "Lab, see LAB.md")), ["docs/LAB.md"]);
        assert_eq!(unlisted("").len(), 3);
    }
}
