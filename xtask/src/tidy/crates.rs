//! Crates have descriptions, and their dependencies have reasons.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::Finding;
use super::tree::Tree;

/// The page whose tables have each direct dependency, its name in backticks in the first column.
const REASONS: &str = "docs/DEPENDENCIES.md";
/// The tables of a Cargo manifest that name dependencies.
const CARGO_TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];
/// The tables of an npm manifest that name dependencies.
const NPM_TABLES: &[&str] =
    &["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"];

/// Every package has a description, and its `lib.rs` and `main.rs` start with module documentation.
pub fn crates_introduce_themselves(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text, manifest) in cargo_manifests(tree, &mut findings) {
        let Some(package) = manifest.get("package").and_then(Value::as_table) else { continue };
        let description = package.get("description").and_then(Value::as_str).unwrap_or_default();
        if description.trim().is_empty() {
            let what = "no description; say in one line what the package is for";
            findings.push(Finding::new(file, line_of(text, "description"), what));
        }
        let folder = file.strip_suffix("Cargo.toml").unwrap_or_default();
        for root in ["src/lib.rs", "src/main.rs"] {
            let path = format!("{folder}{root}");
            let Some(source) = tree.text(&path) else { continue };
            let opening = source.lines().next().and_then(|line| line.strip_prefix("//!"));
            if opening.is_none_or(|words| words.trim().is_empty()) {
                let what = "does not begin with `//!`; say what the crate is for";
                findings.push(Finding::new(&path, 1, what));
            }
        }
    }
    findings
}

/// Every direct external dependency has a reason, and every reason a dependency. Packages of the tree itself need none.
pub fn dependencies_are_explained(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let named = named_dependencies(tree, &mut findings);
    let explained = explained_dependencies(tree);
    for (name, (file, line)) in &named {
        if !explained.contains_key(name) {
            let what = format!("`{name}` is not in {REASONS}; add it with its reason, or drop it");
            findings.push(Finding::new(file, *line, what));
        }
    }
    for (name, line) in &explained {
        if !named.contains_key(name) {
            let what = format!("no manifest names `{name}`; drop the row");
            findings.push(Finding::new(REASONS, *line, what));
        }
    }
    findings
}

/// Every valid Cargo manifest; the others are findings.
fn cargo_manifests<'a>(
    tree: &'a Tree,
    findings: &mut Vec<Finding>,
) -> Vec<(&'a str, &'a str, Table)> {
    let mut manifests = Vec::new();
    for (file, text) in tree.texts().filter(|(file, _)| is_named(file, "Cargo.toml")) {
        match text.parse::<Table>() {
            Ok(manifest) => manifests.push((file, text, manifest)),
            Err(error) => findings.push(Finding::new(file, 1, broken(error.message()))),
        }
    }
    manifests
}

/// Each external dependency, with the place that first names it.
fn named_dependencies(
    tree: &Tree,
    findings: &mut Vec<Finding>,
) -> BTreeMap<String, (String, usize)> {
    let mut own = BTreeSet::new();
    let mut named = BTreeMap::new();
    // An invalid manifest is already a finding of the check above.
    for (file, text, manifest) in cargo_manifests(tree, &mut Vec::new()) {
        own.extend(
            manifest
                .get("package")
                .and_then(|package| package.get("name")?.as_str())
                .map(str::to_owned),
        );
        for (key, entry) in cargo_tables(&manifest).into_iter().flatten() {
            let name = entry.get("package").and_then(Value::as_str).unwrap_or(key);
            if entry.get("path").is_some() {
                own.insert(name.to_owned());
            }
            let place = (file.to_owned(), line_of(text, key));
            named.entry(name.to_owned()).or_insert(place);
        }
    }
    for (file, text) in tree.texts().filter(|(file, _)| is_named(file, "package.json")) {
        match serde_json::from_str::<serde_json::Value>(text) {
            Ok(manifest) => {
                own.extend(manifest.get("name").and_then(|name| name.as_str()).map(str::to_owned));
                for (key, _) in
                    NPM_TABLES.iter().filter_map(|table| manifest.get(table)?.as_object()).flatten()
                {
                    let place = (file.to_owned(), line_of(text, &format!("\"{key}\"")));
                    named.entry(key.clone()).or_insert(place);
                }
            }
            Err(error) => {
                findings.push(Finding::new(file, error.line(), broken(&error.to_string())))
            }
        }
    }
    named.retain(|name, _| !own.contains(name));
    named
}

/// The dependency tables of a manifest: its own, the workspace's and those of single platforms.
fn cargo_tables(manifest: &Table) -> Vec<&Table> {
    let mut holders = vec![manifest];
    holders.extend(manifest.get("workspace").and_then(Value::as_table));
    let platforms = manifest.get("target").and_then(Value::as_table);
    holders
        .extend(platforms.into_iter().flat_map(|table| table.values().filter_map(Value::as_table)));
    holders
        .into_iter()
        .flat_map(|holder| CARGO_TABLES.iter().filter_map(|name| holder.get(*name)?.as_table()))
        .collect()
}

/// The names in backticks in the first column of the tables, with their lines.
fn explained_dependencies(tree: &Tree) -> BTreeMap<String, usize> {
    let mut explained = BTreeMap::new();
    for (index, line) in tree.text(REASONS).unwrap_or_default().lines().enumerate() {
        let Some(row) = line.trim_start().strip_prefix('|') else { continue };
        let cell = row.split('|').next().unwrap_or_default();
        for name in cell.split('`').skip(1).step_by(2) {
            explained.entry(name.to_owned()).or_insert(index + 1);
        }
    }
    explained
}

fn is_named(file: &str, name: &str) -> bool {
    file.rsplit('/').next() == Some(name)
}

fn broken(error: &str) -> String {
    format!("cannot be read: {error}; fix the manifest")
}

/// The first line that starts with the key, from one; one if the key is written in an unusual way.
fn line_of(text: &str, key: &str) -> usize {
    let begins = |line: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with([' ', '=', '.', ':']))
    };
    text.lines().position(begins).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Dependencies\n\n| crate | why |\n| --- | --- |\n";

    /// The findings in one manifest with these rows of reasons.
    fn unexplained(manifest: &str, rows: &str) -> Vec<String> {
        let reasons = format!("{TABLE}{rows}");
        let tree = Tree::of(&[("crates/a/Cargo.toml", manifest), (REASONS, &reasons)]);
        dependencies_are_explained(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn explained_dependencies_pass() {
        let manifest =
            "[dependencies]\nserde = \"1\"\n[dev-dependencies]\nproptest.workspace = true\n";
        assert_eq!(unexplained(manifest, "| `serde` | a |\n| `proptest` | b |\n"), [""; 0]);
    }

    #[test]
    fn a_dependency_without_reason_is_found_where_it_is_named() {
        for table in [
            "dependencies",
            "dev-dependencies",
            "build-dependencies",
            "workspace.dependencies",
            "target.'cfg(unix)'.dependencies",
        ] {
            let manifest = format!("[{table}]\nserde = \"1\"\n");
            assert_eq!(
                unexplained(&manifest, "| other | mentions `serde` |\n"),
                [format!(
                    "crates/a/Cargo.toml:2: `serde` is not in {REASONS}; add it with its reason, or drop it"
                )],
                "{table}"
            );
        }
    }

    #[test]
    fn a_reason_without_dependency_is_found() {
        assert_eq!(
            unexplained("[dependencies]\n", "| `rand` | gone |\n"),
            [format!("{REASONS}:5: no manifest names `rand`; drop the row")]
        );
    }

    #[test]
    fn renamed_dependencies_are_known_by_their_real_name() {
        let manifest = "[dependencies]\nshort = { package = \"long-name\", version = \"1\" }\n";
        assert_eq!(unexplained(manifest, "| `long-name` | a |\n"), [""; 0]);
    }

    #[test]
    fn packages_of_the_tree_need_no_reason() {
        let tree = Tree::of(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\nwire = { path = \"wire\", version = \"1\" }\n",
            ),
            (
                "node/Cargo.toml",
                "[package]\nname = \"node\"\n[dependencies]\nwire.workspace = true\n",
            ),
            ("web/package.json", r#"{"name": "app", "dependencies": {"client": "*"}}"#),
            ("web/client/package.json", r#"{"name": "client"}"#),
            (REASONS, TABLE),
        ]);
        assert_eq!(dependencies_are_explained(&tree), []);
    }

    #[test]
    fn npm_packages_need_a_reason_too() {
        let tree = Tree::of(&[
            ("web/package.json", "{\n\"devDependencies\": {\n\"vite\": \"1\"}}"),
            (REASONS, TABLE),
        ]);
        let found = dependencies_are_explained(&tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("web/package.json:3: `vite` is not in"));
    }

    #[test]
    fn manifests_that_cannot_be_read_are_found_once() {
        let tree = Tree::of(&[("Cargo.toml", "[package"), ("package.json", "{\n")]);
        assert_eq!(crates_introduce_themselves(&tree).len(), 1);
        assert_eq!(dependencies_are_explained(&tree).len(), 1);
    }

    #[test]
    fn crates_start_with_documentation_and_have_a_description() {
        let whole = "[package]\nname = \"a\"\ndescription = \"does a\"\n";
        let found = |manifest: &str, source: &str| {
            let tree = Tree::of(&[("a/Cargo.toml", manifest), ("a/src/main.rs", source)]);
            crates_introduce_themselves(&tree).iter().map(|it| it.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found(whole, "//! What it is for.\nfn main() {}\n"), [""; 0]);
        for silent in ["fn main() {}\n", "//!\nfn main() {}\n", "\n//! Late.\n", ""] {
            let found = found(whole, silent);
            assert_eq!(found.len(), 1, "{silent}");
            assert!(found[0].starts_with("a/src/main.rs:1: "), "{found:?}");
        }
        let found = found("[package]\nname = \"a\"\ndescription = \"\"\n", "//! Fine.\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a/Cargo.toml:3: no description"), "{found:?}");
    }
}
