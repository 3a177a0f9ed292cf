//! Functions take named values, not tuples: a pair that saves an argument hides what its parts mean.

use std::collections::BTreeMap;

use super::Finding;
use super::code::{Code, split_by_commas};
use super::source::Language;
use super::tree::Tree;

/// How many tuple parameters a file still has. The list may only shrink: lower a number, or remove a line, when
/// parameters have become structs, and never add one.
const KNOWN: &[(&str, usize)] = &[
    ("crates/foveate-io/src/region/direct.rs", 1),
    ("crates/foveate-io/src/region/local_ledger.rs", 2),
    ("crates/foveate-lab/src/chaos/actors.rs", 1),
    ("crates/foveate-lab/src/mesh/faults.rs", 1),
    ("crates/foveate-lab/src/mesh/parts/crowd.rs", 1),
    ("crates/foveate-lab/src/mesh/parts/mod.rs", 3),
    ("crates/foveate-node/src/peer/claims.rs", 1),
    ("crates/foveate-node/src/peer/members.rs", 2),
    ("crates/foveate-node/src/peer/membership.rs", 1),
    ("crates/foveate-node/src/peer/neighbour.rs", 1),
    ("crates/foveate-node/src/peer/ownership.rs", 1),
    ("crates/foveate-node/src/peer/receive.rs", 2),
    ("crates/foveate-node/src/peer/sightings.rs", 2),
    ("crates/foveate-node/src/region/balance.rs", 1),
    ("crates/foveate-node/src/region/border.rs", 1),
    ("crates/foveate-node/src/region/crossing.rs", 5),
    ("crates/foveate-node/src/region/handoff.rs", 1),
    ("crates/foveate-node/src/region/joining.rs", 4),
    ("crates/foveate-node/src/region/leaving.rs", 1),
    ("crates/foveate-node/src/region/ledger.rs", 1),
    ("crates/foveate-node/src/region/log.rs", 1),
    ("crates/foveate-node/src/region/overlay.rs", 1),
    ("crates/foveate-node/src/region/owner.rs", 2),
    ("crates/foveate-node/src/region/receive.rs", 1),
    ("crates/foveate-node/src/region/servers.rs", 1),
    ("crates/foveate-node/src/region/sessions.rs", 4),
    ("crates/foveate-node/src/region/takeover.rs", 2),
];

/// No function takes a tuple, by value or by reference, or takes one apart in its signature.
///
/// Tuples are honest where there is no signature to read: as parameters of closures and of `Fn` types, as items of
/// slices, collections and iterators (`&[(ObjectId, Tick)]` is a table with two columns), and as results.
pub fn parameters_have_names(tree: &Tree) -> Vec<Finding> {
    beside(tree, KNOWN)
}

fn beside(tree: &Tree, known: &[(&str, usize)]) -> Vec<Finding> {
    let known: BTreeMap<&str, usize> = known.iter().copied().collect();
    let mut findings = Vec::new();
    for (file, text) in tree.texts_with(&["rs"]) {
        let found = tuple_parameters(file, text);
        let allowed = known.get(file).copied().unwrap_or(0);
        if found.len() > allowed {
            findings.extend(found);
        } else if found.len() < allowed {
            findings.push(shrunk(file, found.len()));
        }
    }
    let gone = known.keys().filter(|file| tree.texts().all(|(path, _)| path != **file));
    findings.extend(gone.map(|file| shrunk(file, 0)));
    findings
}

fn shrunk(file: &str, left: usize) -> Finding {
    let what = format!("{file} has {left} tuple parameters by now; lower its number in the list");
    Finding::new("xtask/src/tidy/parameters.rs", 1, what)
}

fn tuple_parameters(file: &str, text: &str) -> Vec<Finding> {
    let code = Code::of(text, Language::Rust);
    let mut findings = Vec::new();
    for at in code.positions() {
        let Some((name, parameters)) = code.rust_parameters(at) else { continue };
        for parameter in parameters.iter().filter(|parameter| is_tuple(parameter)) {
            let parameter = parameter.split_whitespace().collect::<Vec<_>>().join(" ");
            let what =
                format!("`{name}` takes `{parameter}`; give the values a struct with named fields");
            findings.push(Finding::new(file, code.line(at), what));
        }
    }
    findings
}

/// Whether a parameter, `pattern: type`, is a tuple. A receiver is none.
fn is_tuple(parameter: &str) -> bool {
    let Some((pattern, kind)) = parameter.split_once(": ") else { return false };
    let mut kind = kind.trim();
    while let Some(inner) = kind.strip_prefix('&') {
        let inner = inner.trim_start();
        let lifetime = inner.strip_prefix('\'').and_then(|rest| rest.split_once(' '));
        let inner = lifetime.map_or(inner, |(_, rest)| rest);
        kind = inner.strip_prefix("mut ").unwrap_or(inner).trim_start();
    }
    // `(impl Fn())` is a type in brackets, and `()` has no part to name.
    let parts = |text: &str| -> usize {
        let inside = text.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        inside.map_or(0, |inside| split_by_commas(inside).len())
    };
    parts(kind) > 1 || parts(pattern) > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let found = tuple_parameters("a.rs", text);
        found.iter().map(|it| it.what.split('`').nth(3).unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn tuple_parameters_are_found_in_every_shape() {
        for (text, found) in [
            ("fn a((b, c): (B, C)) {}", "(b, c): (B, C)"),
            ("fn a(&self, pair: &mut (B, C));", "pair: &mut (B, C)"),
            ("fn a<'x, F: Fn(B) -> C>(f: F, pair: &'x (B, C)) {}", "pair: &'x (B, C)"),
            (
                "fn a(\n    b: B, // (c, d): (C, D)\n    (\n        c,\n        d,\n    ): Pair,\n) {}",
                "( c, d, ): Pair",
            ),
            ("fn a(((b, c), d): ((B, C), D)) {}", "((b, c), d): ((B, C), D)"),
        ] {
            assert_eq!(names(text), [found], "{text}");
        }
    }

    #[test]
    fn tuples_without_a_signature_are_honest() {
        for text in [
            "fn a(self, rows: &[(B, C)], more: impl Iterator<Item = (B, C)>) -> (B, C) {}",
            "fn a(f: impl Fn((B, C)), g: &(impl Fn(B, C) + Sync), (): (), Wrap(b): Wrap<B, C>) {}",
            "let f = |(b, c): (B, C)| b;\ntype F = fn((B, C));",
        ] {
            assert_eq!(names(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn the_list_of_known_ones_may_only_shrink() {
        let tree = Tree::of(&[("a.rs", "fn a((b, c): (B, C), d: (B, C)) {}\n")]);
        let lines = |known| beside(&tree, known).iter().map(|it| it.line).collect::<Vec<_>>();
        assert_eq!(lines(&[]), [1, 1]);
        assert_eq!(lines(&[("a.rs", 1)]), [1, 1]);
        assert_eq!(lines(&[("a.rs", 2)]), Vec::<usize>::new());
        let findings = beside(&tree, &[("a.rs", 3), ("gone.rs", 1)]);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].what.contains("a.rs has 2"), "{findings:?}");
        assert!(findings[1].what.contains("gone.rs has 0"), "{findings:?}");
    }
}
