//! Files and functions are small enough to read at once.

use super::Finding;
use super::source::{Language, blank};
use super::tree::Tree;

/// A longer file has more than one idea.
const FILE_LINES: usize = 800;
/// The limit for files with only tests, which are lists and may be longer.
const TEST_FILE_LINES: usize = 1_200;
/// The aim is about 70; from here on it is not a matter of taste.
const FUNCTION_LINES: usize = 100;

/// Rust and TypeScript files are within their limit.
pub fn files_are_short(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts().filter(|(file, _)| Language::of(file).is_some()) {
        let name = file.rsplit('/').next().unwrap_or(file);
        let limit = if name == "tests.rs" { TEST_FILE_LINES } else { FILE_LINES };
        let lines = text.lines().count();
        if lines > limit {
            let what = format!("{lines} lines, the limit is {limit}; split the file by idea");
            findings.push(Finding::new(file, limit + 1, what));
        }
    }
    findings
}

/// Functions are within their limit, from the line of their name to the closing brace.
pub fn functions_are_short(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts() {
        let Some(language) = Language::of(file) else { continue };
        for function in functions(text, language) {
            if function.lines > FUNCTION_LINES {
                let Function { name, line, lines } = function;
                let what = format!(
                    "`{name}` has {lines} lines, the limit is {FUNCTION_LINES}; give its parts names of their own"
                );
                findings.push(Finding::new(file, line, what));
            }
        }
    }
    findings
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// The line of its name, from one.
    line: usize,
    /// Lines from there to the closing brace.
    lines: usize,
}

fn functions(text: &str, language: Language) -> Vec<Function> {
    let code = Code(blank(text, language));
    let mut found = Vec::new();
    for at in 0..code.0.len() {
        let head = match language {
            Language::Rust => code.rust_function(at),
            Language::TypeScript => code.typescript_function(at),
        };
        let Some((name, open)) = head else { continue };
        let close = code.closing(open);
        let line = code.line(at);
        found.push(Function { name, line, lines: code.line(close) - line + 1 });
    }
    found
}

/// Source text without comments and literals. All positions count characters.
struct Code(Vec<char>);

impl Code {
    fn at(&self, at: usize) -> Option<char> {
        self.0.get(at).copied()
    }

    fn line(&self, at: usize) -> usize {
        self.0[..at.min(self.0.len())].iter().filter(|c| **c == '\n').count() + 1
    }

    /// The name that starts at `at`, unless `at` is within one.
    fn word(&self, at: usize) -> Option<String> {
        let part = |c: &char| c.is_alphanumeric() || *c == '_' || *c == '$';
        let inside = at > 0 && part(&self.0[at - 1]);
        let word: String = self.0.get(at..)?.iter().take_while(|c| part(c)).collect();
        (!inside && !word.is_empty()).then_some(word)
    }

    /// The next position from `at` on that is not white space.
    fn skip_space(&self, mut at: usize) -> usize {
        while self.at(at).is_some_and(char::is_whitespace) {
            at += 1;
        }
        at
    }

    /// The bracket that closes the one at `open`, or the end of the text.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (at, c) in self.0.iter().enumerate().skip(open) {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.0.len()
    }

    /// `fn name … {` at `at`: the name and the position of the brace. `None` for a declaration without a body.
    fn rust_function(&self, at: usize) -> Option<(String, usize)> {
        if self.word(at)? != "fn" {
            return None;
        }
        let name_at = self.skip_space(at + "fn".len());
        let name = self.word(name_at)?;
        let mut at = name_at;
        loop {
            match self.at(at)? {
                '{' => return Some((name, at)),
                ';' => return None,
                '(' | '[' => at = self.closing(at) + 1,
                _ => at += 1,
            }
        }
    }

    /// `name(…) {`, with or without `function` or a result type, or `name = … => {`.
    fn typescript_function(&self, at: usize) -> Option<(String, usize)> {
        let name = self.word(at)?;
        let no_name = ["if", "for", "while", "switch", "catch", "with", "function", "return"];
        if no_name.contains(&name.as_str()) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let mut next = self.skip_space(at + name.chars().count());
        if self.at(next)? == '<' {
            next = self.skip_space(self.closing_angle(next) + 1);
        }
        if self.at(next)? == '(' {
            let brace = self.body_after_parameters(next)?;
            return (self.at(brace) == Some('{')).then_some((name, brace));
        }
        let assigned =
            self.at(next)? == '=' && self.at(next + 1).is_some_and(|c| c != '=' && c != '>');
        if !assigned {
            return None;
        }
        next = self.skip_space(next + 1);
        if self.word(next).as_deref() == Some("async") {
            next = self.skip_space(next + "async".len());
        }
        let arrow = match self.at(next)? {
            '(' => self.body_after_parameters(next)?,
            _ => self.skip_space(next + self.word(next)?.chars().count()),
        };
        let brace = self.skip_space(arrow + 2);
        let is_body = self.at(arrow) == Some('=') && self.at(arrow + 1) == Some('>');
        (is_body && self.at(brace) == Some('{')).then_some((name, brace))
    }

    /// What follows `(…)` and an optional `: type`: the brace of a body, an arrow, or something else.
    fn body_after_parameters(&self, open: usize) -> Option<usize> {
        let mut at = self.skip_space(self.closing(open) + 1);
        if self.at(at)? != ':' {
            return Some(at);
        }
        at = self.skip_space(at + 1);
        // A type ends before the first brace that does not start it; object types are skipped as a whole.
        let mut type_wanted = true;
        loop {
            match self.at(at)? {
                '{' if !type_wanted => return Some(at),
                '=' if self.at(at + 1) == Some('>') => return Some(at),
                ';' | ',' | ')' | '=' => return None,
                '{' | '(' | '[' => {
                    at = self.closing(at);
                    type_wanted = false;
                }
                '<' => {
                    at = self.closing_angle(at);
                    type_wanted = false;
                }
                '|' | '&' => type_wanted = true,
                c if c.is_whitespace() => {}
                _ => type_wanted = false,
            }
            at += 1;
        }
    }

    /// The angle bracket that closes the one at `open`; arrows inside do not count.
    fn closing_angle(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for at in open..self.0.len() {
            match self.0[at] {
                '<' => depth += 1,
                '>' if self.0[at - 1] != '=' => depth = depth.saturating_sub(1),
                ';' => return at,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, language: Language) -> Vec<(String, usize, usize)> {
        let all = functions(text, language).into_iter();
        all.map(|function| (function.name, function.line, function.lines)).collect()
    }

    fn one(name: &str, line: usize, lines: usize) -> (String, usize, usize) {
        (name.to_owned(), line, lines)
    }

    #[test]
    fn long_files_are_found_and_test_files_may_be_longer() {
        let lines = |count: usize| "\n".repeat(count);
        let tree = Tree::of(&[
            ("a/full.rs", &lines(800)),
            ("a/over.rs", &lines(801)),
            ("a/over.ts", &lines(801)),
            ("a/tests.rs", &lines(1_200)),
            ("b/tests.rs", &lines(1_201)),
            ("c/data.csv", &lines(5_000)),
        ]);
        let found: Vec<String> = files_are_short(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "a/over.rs:801: 801 lines, the limit is 800; split the file by idea",
                "a/over.ts:801: 801 lines, the limit is 800; split the file by idea",
                "b/tests.rs:1201: 1201 lines, the limit is 1200; split the file by idea",
            ]
        );
    }

    #[test]
    fn long_functions_are_found_by_name() {
        let body = |lines: usize| format!("\n\nfn long() {{{}}}\n", "\n".repeat(lines - 1));
        assert_eq!(functions_are_short(&Tree::of(&[("a.rs", &body(100))])), []);
        let found = functions_are_short(&Tree::of(&[("a.rs", &body(101))]));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("a.rs:3: `long` has 101 lines, the limit is 100"));
    }

    #[test]
    fn rust_functions_end_at_their_own_brace() {
        let text = "fn a() { if x { \"}\" } }\nfn b()\nwhere\n    A: B,\n{\n}\nimpl C { const fn d(&self) -> [u8; 4] {\n} }\n";
        assert_eq!(names(text, Language::Rust), [one("a", 1, 1), one("b", 2, 5), one("d", 7, 2)]);
    }

    #[test]
    fn rust_declarations_and_pointers_are_no_functions() {
        let text = "trait A { fn a(&self, b: [u8; 2]); }\ntype B = fn(u8) -> u8;\nlet fnord = C { fn_: 1 };";
        assert_eq!(names(text, Language::Rust), []);
    }

    #[test]
    fn typescript_functions_are_found_in_every_shape() {
        for (text, name) in [
            ("export async function load<T>(a: T): Promise<T> {\n}", "load"),
            ("const step = (a: number) => {\n}", "step"),
            ("const step = async (a: () => void): Promise<void> => {\n}", "step"),
            ("let f = x => {\n}", "f"),
            ("  private apply(a = {}, b: { c: number }): { d: number } | E {\n}", "apply"),
            ("  constructor() {\n}", "constructor"),
        ] {
            assert_eq!(names(text, Language::TypeScript), [one(name, 1, 2)], "{text}");
        }
    }

    #[test]
    fn typescript_blocks_and_calls_are_no_functions() {
        let text = "if (a) {\n}\nfor (;;) {\n}\ncall(a);\nconst x = (a + b);\nconst o = {\n};\n\
                    describe('all', () => {\n});\ntype F = (a: number) => void;\nlet y = c ? d(e) : f;";
        assert_eq!(names(text, Language::TypeScript), []);
    }
}
