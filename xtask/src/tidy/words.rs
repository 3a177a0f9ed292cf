//! Words that have no place in the tree: marks of unfinished work, names of one machine, and in comments
//! those that make a reader guess.
//!
//! The patterns are joined from halves, so that this file does not find itself.

use super::Finding;
use super::source::{Language, comments};
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

/// Words that stand in place of a noun, each with what to write.
const VAGUE: &[(&str, &str)] = &[
    ("whoever", "name the player, client, peer or caller"),
    ("whosoever", "name the player, client, peer or caller"),
    ("somebody", "name the player, client, peer or caller"),
    ("anybody", "name the player, client, peer or caller"),
    ("nobody", "write `no player`, `no client` or `none`"),
];

/// Files whose comments are not plain yet. The list may only shrink: a file that has become plain must leave it, and
/// none may be added.
const EXEMPT: &[&str] = &[];

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

/// Comments of Rust and TypeScript stand on their own and name their subject.
pub fn comments_are_plain(tree: &Tree) -> Vec<Finding> {
    plain_except(tree, EXEMPT)
}

fn plain_except(tree: &Tree, exempt: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut due: Vec<&str> = exempt.to_vec();
    for (file, text) in tree.texts() {
        let Some(language) = Language::of(file) else { continue };
        let found = puzzling(file, text, language);
        match exempt.contains(&file) {
            false => findings.extend(found),
            true if found.is_empty() => {}
            true => due.retain(|known| *known != file),
        }
    }
    findings.extend(due.into_iter().map(|file| {
        let what = format!("comments of {file} are plain by now; take it off `EXEMPT`");
        Finding::new("xtask/src/tidy/words.rs", 1, what)
    }));
    findings
}

/// Comments that chain over several items, or leave open what they are about.
fn puzzling(file: &str, text: &str, language: Language) -> Vec<Finding> {
    let mut findings = Vec::new();
    let found = comments(text, language);
    let lines: Vec<&str> = text.lines().collect();
    for comment in &found {
        for (index, line) in comment.text.to_lowercase().lines().enumerate() {
            for (word, remedy) in VAGUE.iter().filter(|(word, _)| has_word(line, word)) {
                let what = format!("`{word}` in a comment; {remedy}");
                findings.push(Finding::new(file, comment.line + index, what));
            }
        }
        let last = comment.line + comment.text.matches('\n').count();
        let next = lines.get(last).map_or("", |line| line.trim_start());
        if ends_with_comma(&comment.text) && !next.starts_with("//") && !next.is_empty() {
            let what = "a doc comment ends with a comma before its item; end the sentence, and begin a \
                        new one at the next item";
            findings.push(Finding::new(file, last, what));
        }
    }
    findings
}

/// Whether a documentation comment of an item ends in the middle of a sentence.
fn ends_with_comma(comment: &str) -> bool {
    let is_line = comment.starts_with("///") && !comment.starts_with("////");
    let text = match comment.strip_prefix("/**") {
        Some(block) => block.trim_end_matches('/').trim_end_matches('*'),
        None if is_line => comment,
        None => return false,
    };
    text.trim_end().ends_with(',')
}

/// Does `pattern` occur, not as a part of a longer name?
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
    fn words_that_stand_for_a_noun_are_found_in_comments_only() {
        for (word, _) in VAGUE {
            let text = format!("//! a\n\nfn a() {{\n    x(); // b {}: c\n}}", word.to_uppercase());
            let found = plain_except(&Tree::of(&[("a.rs", &text)]), &[]);
            assert_eq!(found.len(), 1, "{word}: {found:?}");
            assert_eq!(found[0].line, 4, "{word}");
            let block = format!("/**\n * a {word}\n */\nlet a;");
            assert_eq!(plain_except(&Tree::of(&[("a.ts", &block)]), &[])[0].line, 2, "{word}");
            let code = format!("fn {word}() {{ \"a {word} b\" }} // of {word}_there");
            assert_eq!(plain_except(&Tree::of(&[("a.rs", &code)]), &[]), [], "{word}");
            let note = format!("// {word}");
            assert_eq!(plain_except(&Tree::of(&[("a.md", &note)]), &[]), [], "{word}");
        }
    }

    #[test]
    fn doc_comments_that_end_with_a_comma_before_an_item_are_found() {
        let line = |file, text| -> Vec<usize> {
            plain_except(&Tree::of(&[(file, text)]), &[]).iter().map(|it| it.line).collect()
        };
        assert_eq!(
            line("a.rs", "/// A player,\npub player: u32,\n/// with a name.\nname: u8,"),
            [1]
        );
        assert_eq!(line("a.rs", "/// One,\n/// two,\n#[serde(skip)]\npub a: u32,"), [2]);
        assert_eq!(line("a.rs", "/// One,\n/// two.\npub a: u32,"), [0; 0]);
        assert_eq!(line("a.rs", "//! One,\n\n// two,\nfn a() {} /// three,\n"), [0; 0]);
        assert_eq!(line("a.ts", "/** One, */\nlet a;\n/**\n * Two,\n */\nlet b;"), [1, 5]);
        assert_eq!(line("a.ts", "/** One. */\nlet a; /* two, */\nlet b;"), [0; 0]);
    }

    #[test]
    fn exempt_files_must_have_findings() {
        let tree = Tree::of(&[("a.rs", "// whoever"), ("b.rs", "// a player")]);
        assert_eq!(plain_except(&tree, &["a.rs"]), []);
        for (file, what) in [("b.rs", "plain"), ("c.rs", "gone")] {
            let found = plain_except(&tree, &["a.rs", file]);
            assert_eq!(found.len(), 1, "{what}");
            assert!(found[0].what.contains(file), "{what}: {found:?}");
        }
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
