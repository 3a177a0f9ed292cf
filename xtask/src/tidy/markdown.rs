//! Paths and tests named in documentation exist.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::Tree;

/// Endings by which a name with a slash counts as a path even if its first folder is unknown.
const ENDINGS: &[&str] = &[
    ".css", ".csv", ".gz", ".h", ".html", ".js", ".json", ".lock", ".md", ".rs", ".sh", ".toml",
    ".ts", ".tsx", ".yml",
];

/// Every relative path in code spans and links of Markdown files exists. Fenced blocks are left out: they are input or
/// output of programs.
pub fn named_paths_exist(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts_with(&["md"]) {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, content) in prose(text) {
            for span in code_spans(content) {
                if let Some(path) = as_path(tree, span)
                    && !resolves(tree, &[folder, ""], &path)
                {
                    let what =
                        format!("`{span}` names no file in the tree; correct the path or drop it");
                    findings.push(Finding::new(file, line, what));
                }
            }
            for target in links(content) {
                let path = target.split(['#', '?']).next().unwrap_or_default();
                let (base, path) = match path.strip_prefix('/') {
                    Some(rest) => ("", rest),
                    None => (folder, path),
                };
                if !resolves(tree, &[base], &path.replace("%20", " ")) {
                    let what = format!(
                        "the link to {target} leads nowhere; correct it relative to this file"
                    );
                    findings.push(Finding::new(file, line, what));
                }
            }
        }
    }
    findings
}

/// Every long name in code spans of Markdown files, such as a test's, is in a source file: tests are renamed, and
/// documents that promise one must follow. Names of metrics are left out, which programs put together.
pub fn named_tests_exist(tree: &Tree) -> Vec<Finding> {
    let sources: BTreeSet<&str> = tree
        .texts_with(&["rs", "ts", "toml", "py"])
        .flat_map(|(_, text)| text.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .filter(|word| is_long_name(word))
        .collect();
    let mut findings = Vec::new();
    for (file, text) in tree.texts_with(&["md"]) {
        for (line, content) in prose(text) {
            for span in code_spans(content).into_iter().filter(|span| is_long_name(span)) {
                if !sources.contains(span) {
                    let what = format!("`{span}` is in no source file; was it renamed?");
                    findings.push(Finding::new(file, line, what));
                }
            }
        }
    }
    findings
}

/// Whether a word is four or more words joined by underscores, and not the name of a metric.
fn is_long_name(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    word.matches('_').count() >= 3 && word.bytes().all(plain) && !word.starts_with("foveate_")
}

/// The lines outside fenced blocks, numbered from one.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, None) => return Some((index + 1, line)),
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
        }
        None
    })
}

/// The text between equally long runs of backticks.
fn code_spans(line: &str) -> Vec<&str> {
    let mut spans = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].bytes().take_while(|byte| *byte == b'`').count();
        let (mark, body) = rest[start..].split_at(ticks);
        let Some(end) = body.find(mark) else { break };
        spans.push(body[..end].trim());
        rest = &body[end + ticks..];
    }
    spans
}

/// The relative targets of links, images, link definitions and HTML attributes, outside code spans.
fn links(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (before, after) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        for (start, _) in line.match_indices(before) {
            let body = &line[start + before.len()..];
            if line[..start].matches('`').count().is_multiple_of(2)
                && let Some(end) = body.find(after)
            {
                targets.push(&body[..end]);
            }
        }
    }
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        targets.push(target);
    }
    targets
        .into_iter()
        .filter_map(|target| target.split_whitespace().next())
        .map(|target| target.trim_start_matches('<').trim_end_matches('>'))
        .filter(|target| !target.starts_with('#') && !target.contains(':'))
        .collect()
}

/// The path that a code span names, if it looks like one in the tree: with a slash and either a known first folder or a
/// known ending, or a Markdown file without a folder. A placeholder such as `docs/adr/NNNN-title.md` names the folder
/// above it; `path:line` and `path::item` name the file.
fn as_path(tree: &Tree, span: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./@*<>{}:,#".contains(c);
    if span.is_empty() || !span.chars().all(plain) || span.starts_with(['/', '-', '@', '*', '#']) {
        return None;
    }
    if span.contains("://") {
        return None;
    }
    let path = span.split([':', '#']).next().unwrap_or_default();
    let Some((first, _)) = path.split_once('/') else {
        let missing = path.ends_with(".md") && !tree.has_name(path);
        return missing.then(|| path.to_owned());
    };
    let known = tree.has(first) || [".", ".."].contains(&first);
    let ending = path.ends_with('/') || ENDINGS.iter().any(|ending| path.ends_with(ending));
    if !known && !ending || tree.ignores(path.trim_end_matches('/')) {
        return None;
    }
    let held = |part: &&str| part.contains(['*', '<', '{']) || part.contains("NNNN");
    let whole: Vec<&str> = path.split('/').take_while(|part| !held(part)).collect();
    Some(whole.join("/"))
}

/// Whether the path exists below one of the folders.
fn resolves(tree: &Tree, folders: &[&str], path: &str) -> bool {
    folders.iter().any(|folder| {
        let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    if parts.pop().is_none() {
                        return false;
                    }
                }
                part => parts.push(part),
            }
        }
        let joined = parts.join("/");
        tree.has(&joined) || tree.ignores(&joined)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No lines.
    const NONE: [usize; 0] = [];

    /// The lines of `docs/GUIDE.md` with findings, in a small tree.
    fn faults(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[
            ("docs/GUIDE.md", text),
            ("docs/WIRE.md", ""),
            ("docs/adr/0001-time.md", ""),
            ("crates/wire/src/lib.rs", ""),
            ("README.md", ""),
            (".ci/run", ""),
            (".gitignore", "/target\n/reports\n"),
        ]);
        named_paths_exist(&tree).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_test_that_a_document_names_must_exist() {
        let tree = Tree::of(&[
            ("a.rs", "fn a_flood_closes_the_link() {}"),
            ("SECURITY.md", "`a_flood_closes_the_link`, `a_flood_ended_the_link`, `max_links`\n"),
            (
                "docs/METRICS.md",
                "`foveate_region_handoffs_total`\n```\n`not_read_at_all_here`\n```\n",
            ),
        ]);
        let found = named_tests_exist(&tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("SECURITY.md:1: `a_flood_ended_the_link`"));
    }

    #[test]
    fn code_spans_that_name_existing_paths_pass() {
        let text = "`crates/wire/src/lib.rs` `crates/wire/` `.ci/run` `WIRE.md` `adr/0001-time.md`\n\
                    `crates/wire/src/lib.rs:12` `crates/wire/src/lib.rs::decode` `../README.md`\n";
        assert_eq!(faults(text), NONE);
    }

    #[test]
    fn code_spans_that_name_missing_paths_are_found() {
        for missing in [
            "crates/wire/src/gone.rs",
            "crates/gone",
            "gone/",
            "gone/main.rs",
            ".ci/walk",
            "GONE.md",
            "../GONE.md",
            "../../README.md",
            "crates/gone/*.rs",
        ] {
            assert_eq!(faults(&format!("fine\nsee `{missing}` there")), [2], "{missing}");
        }
    }

    #[test]
    fn placeholders_name_the_folder_above() {
        assert_eq!(
            faults("`docs/adr/NNNN-title.md` `crates/*/src` `crates/<name>/src/lib.rs`"),
            NONE
        );
        assert_eq!(faults("`docs/decisions/NNNN-title.md`"), [1]);
    }

    #[test]
    fn code_spans_that_are_no_paths_pass() {
        let text = "`bytes/s` `a / b` `std::time` `lib.rs` `/metrics` `application/json` `--json` `N/A`\n\
                    `https://example.org/gone.md` `target/release/foveate` `reports/a3.html` ``a`b``\n";
        assert_eq!(faults(text), NONE);
    }

    #[test]
    fn links_are_relative_to_their_file() {
        assert_eq!(faults("[a](WIRE.md) [b](../README.md#top) [c](/README.md) [d](#here)"), NONE);
        assert_eq!(faults("[a](https://example.org/x.md) [b](mailto:a@example.org)"), NONE);
        assert_eq!(faults("[a](README.md)\n\n![b](../shot.png \"title\")"), [1, 3]);
        assert_eq!(faults("[a]: ../GONE\n<img src=\"gone.svg\">\n[b]: ../README.md"), [1, 2]);
    }

    #[test]
    fn fenced_blocks_and_code_are_no_links() {
        assert_eq!(faults("```sh\ncat `docs/gone.md` [a](gone)\n```\n`[a](gone)`"), NONE);
        assert_eq!(faults("```\n~~~\n```\n`docs/gone.md`"), [4]);
    }
}
