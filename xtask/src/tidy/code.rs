//! Finds functions, names and matching brackets in source text.

use std::ops::Range;

use super::source::{Language, blank};

/// Source text without comments and literals. All positions count characters.
pub struct Code(Vec<char>);

impl Code {
    pub fn of(text: &str, language: Language) -> Self {
        Self(blank(text, language))
    }

    pub fn positions(&self) -> Range<usize> {
        0..self.0.len()
    }

    pub fn at(&self, at: usize) -> Option<char> {
        self.0.get(at).copied()
    }

    pub fn line(&self, at: usize) -> usize {
        self.0[..at.min(self.0.len())].iter().filter(|c| **c == '\n').count() + 1
    }

    /// The name that starts at `at`, unless `at` is within one.
    pub fn word(&self, at: usize) -> Option<String> {
        let part = |c: &char| c.is_alphanumeric() || *c == '_' || *c == '$';
        let inside = at > 0 && part(&self.0[at - 1]);
        let word: String = self.0.get(at..)?.iter().take_while(|c| part(c)).collect();
        (!inside && !word.is_empty()).then_some(word)
    }

    /// The next position from `at` on that is not white space.
    pub fn skip_space(&self, mut at: usize) -> usize {
        while self.at(at).is_some_and(char::is_whitespace) {
            at += 1;
        }
        at
    }

    /// The bracket that closes the one at `open`, or the end of the text.
    pub fn closing(&self, open: usize) -> usize {
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
    pub fn rust_function(&self, at: usize) -> Option<(String, usize)> {
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

    /// `fn name(…)` at `at`, with a body or without: the name and the parameters as they are written, each without
    /// comments.
    pub fn rust_parameters(&self, at: usize) -> Option<(String, Vec<String>)> {
        if self.word(at)? != "fn" {
            return None;
        }
        let name_at = self.skip_space(at + "fn".len());
        let name = self.word(name_at)?;
        let mut open = name_at + name.chars().count();
        if self.at(open)? == '<' {
            open = self.closing_angle(open) + 1;
        }
        let inside = self.0.get(open + 1..self.closing(open))?.iter().collect::<String>();
        (self.at(open)? == '(').then(|| (name, split_by_commas(&inside)))
    }

    /// `name(…) {`, with or without `function` or a result type, or `name = … => {`.
    pub fn typescript_function(&self, at: usize) -> Option<(String, usize)> {
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
    pub fn closing_angle(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for at in open..self.0.len() {
            match self.0[at] {
                '<' => depth += 1,
                '>' if !"-=".contains(self.0[at - 1]) => depth = depth.saturating_sub(1),
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

/// The parts between commas that are outside all brackets; the arrow of a function type is no bracket.
pub fn split_by_commas(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut before) = (0_i32, ' ');
    for c in text.chars() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if before == '-' || before == '=' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        match parts.last_mut() {
            Some(last) if c != ',' || depth > 0 => last.push(c),
            _ => parts.push(String::new()),
        }
        before = c;
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}
