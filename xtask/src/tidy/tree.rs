//! The files that git tracks or would track, read into memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::TaskError;
use crate::process;

/// The files that checks read. Paths are relative to the root, with `/` as separator.
#[derive(Debug, Default)]
pub struct Tree {
    /// Text files with their content.
    texts: BTreeMap<String, String>,
    /// Every file, and every folder with a file in it.
    paths: BTreeSet<String>,
    /// Paths that git ignores: documentation may name what a build or a run leaves there, but it need not exist.
    ignored: Vec<String>,
}

impl Tree {
    /// Reads what git tracks or would track below `root`.
    pub fn read(root: &Path) -> Result<Self, TaskError> {
        let mut list = Command::new("git");
        list.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
        let listed = process::capture(list.current_dir(root))?;
        let mut tree = Self::default();
        for path in String::from_utf8_lossy(&listed).split_terminator('\0') {
            let full = root.join(path);
            // Git still lists a file whose deletion is not staged.
            if !full.is_file() {
                continue;
            }
            let bytes = fs::read(&full).map_err(|source| TaskError::Read { path: full, source })?;
            tree.add(path, &bytes);
        }
        Ok(tree)
    }

    /// Adds a file; only valid UTF-8 without zero bytes counts as text.
    fn add(&mut self, path: &str, bytes: &[u8]) {
        let mut parents = path;
        while let Some((parent, _)) = parents.rsplit_once('/') {
            self.paths.insert(parent.to_owned());
            parents = parent;
        }
        self.paths.insert(path.to_owned());
        let Ok(text) = str::from_utf8(bytes) else { return };
        if text.contains('\0') {
            return;
        }
        if path == ".gitignore" {
            self.ignored = text.lines().map(|line| line.trim_matches('/').to_owned()).collect();
        }
        self.texts.insert(path.to_owned(), text.to_owned());
    }

    /// All text files, in the order of their paths.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text files whose name ends in one of the extensions.
    pub fn texts_with<'a>(
        &'a self,
        extensions: &'a [&str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter(|(path, _)| {
            path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
        })
    }

    /// The content of one text file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Whether there is such a file, or a folder with a file in it.
    pub fn has(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }

    /// Every path that ends in this file name.
    pub fn has_name(&self, name: &str) -> bool {
        self.paths.iter().any(|path| path.rsplit('/').next() == Some(name))
    }

    /// Whether git ignores the path, or a folder above it.
    pub fn ignores(&self, path: &str) -> bool {
        self.ignored.iter().filter(|ignored| !ignored.is_empty()).any(|ignored| {
            path.strip_prefix(ignored.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// A tree made of literals.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add(path, text.as_bytes());
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_by_the_files_in_them() {
        let tree = Tree::of(&[("crates/wire/src/lib.rs", "")]);
        for path in ["crates", "crates/wire", "crates/wire/src", "crates/wire/src/lib.rs", ""] {
            assert!(tree.has(path), "{path}");
        }
        assert!(!tree.has("crates/wir"));
        assert!(tree.has_name("lib.rs"));
        assert!(!tree.has_name("ib.rs"));
    }

    #[test]
    fn binary_files_exist_but_have_no_text() {
        let mut tree = Tree::default();
        tree.add("traces/a.gz", &[0x1f, 0x8b, 0xff]);
        tree.add("vectors/b.bin", &[1, 0, 2]);
        assert!(tree.has("traces/a.gz") && tree.has("vectors/b.bin"));
        assert_eq!(tree.texts().count(), 0);
    }

    #[test]
    fn ignored_folders_cover_what_lies_below_them() {
        let tree = Tree::of(&[(".gitignore", "/target\n\n/fuzz/corpus\n")]);
        assert!(tree.ignores("target/release/foveate"));
        assert!(tree.ignores("fuzz/corpus"));
        assert!(!tree.ignores("targets"));
        assert!(!tree.ignores("fuzz/README.md"));
    }

    #[test]
    fn files_are_chosen_by_extension() {
        let tree = Tree::of(&[("a.rs", ""), ("b.ts", ""), ("c.md", ""), ("rs", "")]);
        let chosen: Vec<_> = tree.texts_with(&["rs", "ts"]).map(|(path, _)| path).collect();
        assert_eq!(chosen, ["a.rs", "b.ts"]);
    }
}
