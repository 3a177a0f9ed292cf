//! Files and functions are small enough to read at once.

use super::Finding;
use super::code::Code;
use super::source::Language;
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
    let code = Code::of(text, language);
    let mut found = Vec::new();
    for at in code.positions() {
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
