//! Source text without comments and literals, so that braces and words can be counted; and its comments
//! alone, so that their words can be checked.

use std::ops::Range;

/// The supported languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Rust,
    TypeScript,
}

impl Language {
    /// The language for a file's ending.
    pub fn of(path: &str) -> Option<Self> {
        match path.rsplit_once('.')?.1 {
            "rs" => Some(Self::Rust),
            "ts" | "tsx" | "mts" => Some(Self::TypeScript),
            _ => None,
        }
    }
}

/// Replaces every character of comments and within literals by a space. Line breaks and the number of characters stay
/// the same.
pub fn blank(text: &str, language: Language) -> Vec<char> {
    Scan::of(text, language).output
}

/// A comment as it is written, with its markers. Consecutive line comments are separate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The line of its first character, from one.
    pub line: usize,
    pub text: String,
}

/// All comments of `text`, in order.
pub fn comments(text: &str, language: Language) -> Vec<Comment> {
    let scan = Scan::of(text, language);
    let (mut line, mut at) = (1, 0);
    let mut found = Vec::new();
    for range in &scan.comments {
        line += scan.input[at..range.start].iter().filter(|c| **c == '\n').count();
        at = range.start;
        found.push(Comment { line, text: scan.input[range.clone()].iter().collect() });
    }
    found
}

struct Scan {
    input: Vec<char>,
    /// As long as the part of `input` that has been read.
    output: Vec<char>,
    /// The characters of each comment.
    comments: Vec<Range<usize>>,
    language: Language,
}

impl Scan {
    /// Reads a whole text.
    fn of(text: &str, language: Language) -> Scan {
        let input = text.chars().collect();
        let mut scan = Scan { input, output: Vec::new(), comments: Vec::new(), language };
        scan.code(false);
        scan
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.input.get(self.output.len() + ahead).copied()
    }

    fn starts_with(&self, prefix: &str) -> bool {
        prefix.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn keep(&mut self) {
        self.output.extend(self.peek(0));
    }

    fn drop(&mut self, count: usize) {
        for _ in 0..count {
            let blanked = self.peek(0).map(|c| if c == '\n' { c } else { ' ' });
            self.output.extend(blanked);
        }
    }

    /// Copies code. Within a template's `${…}` it stops after the closing brace.
    fn code(&mut self, inside_template: bool) {
        let mut depth = 0_usize;
        while let Some(next) = self.peek(0) {
            if self.comment() || self.literal(next) {
                continue;
            }
            match next {
                '{' => depth += 1,
                '}' if inside_template && depth == 0 => return self.drop(1),
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.keep();
        }
    }

    /// Blanks and notes a comment that begins here.
    fn comment(&mut self) -> bool {
        let start = self.output.len();
        if self.starts_with("//") {
            while self.peek(0).is_some_and(|c| c != '\n') {
                self.drop(1);
            }
        } else if self.starts_with("/*") {
            self.block_comment();
        } else {
            return false;
        }
        self.comments.push(start..self.output.len());
        true
    }

    /// Rust's block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.peek(0).is_some() {
            if self.starts_with("/*") && (depth == 0 || self.language == Language::Rust) {
                depth += 1;
                self.drop(2);
            } else if self.starts_with("*/") {
                depth -= 1;
                self.drop(2);
                if depth == 0 {
                    break;
                }
            } else {
                self.drop(1);
            }
        }
    }

    /// Blanks a literal that starts here.
    fn literal(&mut self, next: char) -> bool {
        match (self.language, next) {
            (_, '"') | (Language::TypeScript, '\'') => self.quoted(next),
            (Language::Rust, 'r') => return self.raw_string(),
            (Language::Rust, '\'') => return self.character(),
            (Language::TypeScript, '`') => self.template(),
            (Language::TypeScript, '/') if self.operand_may_follow() => self.regular_expression(),
            _ => return false,
        }
        true
    }

    /// The quotes stay, so that a slash after them is recognised as a division.
    fn quoted(&mut self, quote: char) {
        self.keep();
        while let Some(next) = self.peek(0) {
            if next == quote {
                return self.keep();
            }
            self.drop(if next == '\\' { 2 } else { 1 });
        }
    }

    /// `r"…"`, `r#"…"#` and so on; `r#name` and names that end in r are code.
    fn raw_string(&mut self) -> bool {
        let inside_name = |c: &char| c.is_alphanumeric() && *c != 'b' && *c != 'c' || *c == '_';
        if self.output.last().is_some_and(inside_name) {
            return false;
        }
        let hashes = (1..).take_while(|ahead| self.peek(*ahead) == Some('#')).count();
        if self.peek(1 + hashes) != Some('"') {
            return false;
        }
        self.drop(2 + hashes);
        let end = format!("\"{}", "#".repeat(hashes));
        while self.peek(0).is_some() && !self.starts_with(&end) {
            self.drop(1);
        }
        self.drop(end.len());
        true
    }

    /// `'x'` and `'\n'` are literals; `'a` alone is a lifetime.
    fn character(&mut self) -> bool {
        if self.peek(1) == Some('\\') {
            self.drop(3);
            while self.peek(0).is_some_and(|c| c != '\'') {
                self.drop(1);
            }
            self.drop(1);
            return true;
        }
        let literal = self.peek(2) == Some('\'');
        if literal {
            self.drop(3);
        }
        literal
    }

    fn template(&mut self) {
        self.keep();
        while let Some(next) = self.peek(0) {
            if self.starts_with("${") {
                self.drop(2);
                self.code(true);
            } else if next == '`' {
                return self.keep();
            } else {
                self.drop(if next == '\\' { 2 } else { 1 });
            }
        }
    }

    /// Whether a slash here starts a regular expression, since a value is expected, rather than a division.
    fn operand_may_follow(&self) -> bool {
        let before = self.output.iter().rev().find(|c| !c.is_whitespace());
        before.is_none_or(|c| "(,=:[!&|?{;+>".contains(*c))
    }

    fn regular_expression(&mut self) {
        self.drop(1);
        let mut in_class = false;
        while let Some(next) = self.peek(0).filter(|c| *c != '\n') {
            self.drop(if next == '\\' { 2 } else { 1 });
            match next {
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => break,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The remaining braces, which is all that counting needs.
    fn braces(text: &str, language: Language) -> String {
        let blanked = blank(text, language);
        assert_eq!(blanked.len(), text.chars().count(), "positions have shifted: {text}");
        blanked.into_iter().filter(|c| "{}".contains(*c)).collect()
    }

    #[test]
    fn braces_in_rust_comments_and_literals_are_ignored() {
        for (text, left) in [
            ("fn a() { // {\n}", "{}"),
            ("/* { /* { */ { */ {}", "{}"),
            (r#"{ "{ \" {" }"#, "{}"),
            (r###"{ r#"{ " {"# br"{" }"###, "{}"),
            (r"{ '{' '\'' '\u{7b}' b'{' }", "{}"),
            ("fn a<'x>(x: &'x str) { 'outer: loop {} }", "{{}}"),
            ("{ for_r\"{\" }", "{}"),
            ("{ r#type {} }", "{{}}"),
        ] {
            assert_eq!(braces(text, Language::Rust), left, "{text}");
        }
    }

    #[test]
    fn braces_in_typescript_comments_and_literals_are_ignored() {
        for (text, left) in [
            ("{ /* { /* */ }", "{}"),
            (r#"{ '{' "{" '\'{' }"#, "{}"),
            ("{ `{ ${a({b: `{`})} {` }", "{{}}"),
            (r"{ x = /[/{]\/{/; y = a / b; z = {} / 2 }", "{{}}"),
            (r#"{ <img src="a" /> {b} }"#, "{{}}"),
        ] {
            assert_eq!(braces(text, Language::TypeScript), left, "{text}");
        }
    }

    #[test]
    fn comments_are_found_with_their_lines_and_literals_are_not() {
        let found = |text, language| -> Vec<(usize, String)> {
            comments(text, language).into_iter().map(|it| (it.line, it.text)).collect()
        };
        let rust = "/// a,\nfn a() { \"// no\" } // b\n/* c\n/* d */ */ x /* e */";
        let expected = [(1, "/// a,"), (2, "// b"), (3, "/* c\n/* d */ */"), (4, "/* e */")];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(found(rust, Language::Rust), expected);
        let script = "`// no ${/* a */ 1}`; // b";
        let expected = [(1, "/* a */".to_owned()), (1, "// b".to_owned())];
        assert_eq!(found(script, Language::TypeScript), expected);
    }

    #[test]
    fn lines_stay_where_they_are() {
        let blanked: String = blank("a\n\"b\nc\"\nd", Language::Rust).into_iter().collect();
        assert_eq!(blanked, "a\n\" \n \"\nd");
    }

    #[test]
    fn unfinished_text_ends_the_scan() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'\\", "`${", "x = /[abc", "\"\\"] {
            for language in [Language::Rust, Language::TypeScript] {
                assert_eq!(blank(text, language).len(), text.len(), "{text}");
            }
        }
    }
}
