//! Writes SVG: elements with short numbers and escaped text.

use std::fmt::Write;

use crate::report::html::escape;

/// SVG elements, one after another.
#[derive(Debug, Default)]
pub(super) struct Svg {
    text: String,
}

impl Svg {
    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn open_group(&mut self, class: &str) {
        let _ = write!(self.text, "<g class=\"{class}\">");
    }

    pub(super) fn close_group(&mut self) {
        self.text.push_str("</g>\n");
    }

    pub(super) fn line(&mut self, class: &str, from: [f64; 2], to: [f64; 2]) {
        let ([x1, y1], [x2, y2]) = (from.map(short), to.map(short));
        let _ = write!(
            self.text,
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        );
    }

    /// Text at a place; `attributes` are SVG attributes such as the anchor.
    pub(super) fn label(&mut self, class: &str, [x, y]: [f64; 2], attributes: &str, text: &str) {
        let (x, y, text) = (short(x), short(y), escape(text));
        let _ = write!(
            self.text,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{attributes}>{text}</text>"
        );
    }

    /// A shape with a tooltip, if the tip is not empty.
    pub(super) fn path(&mut self, class: &str, data: &str, tip: &str) {
        let _ = write!(self.text, "<path class=\"{class}\" d=\"{data}\"");
        self.end_with_tip("path", tip);
    }

    pub(super) fn rect(&mut self, class: &str, [x, y]: [f64; 2], size: [f64; 2], tip: &str) {
        let ([width, height], x, y) = (size.map(|side| short(side.max(0.0))), short(x), short(y));
        let _ = write!(
            self.text,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\""
        );
        self.end_with_tip("rect", tip);
    }

    pub(super) fn circle(&mut self, class: &str, [x, y]: [f64; 2], radius: f64, tip: &str) {
        let (x, y, radius) = (short(x), short(y), short(radius));
        let _ = write!(self.text, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"");
        self.end_with_tip("circle", tip);
    }

    fn end_with_tip(&mut self, element: &str, tip: &str) {
        if tip.is_empty() {
            self.text.push_str("/>");
        } else {
            let _ = write!(self.text, "><title>{}</title></{element}>", escape(tip));
        }
    }
}

/// A coordinate to a tenth of a pixel, without a needless `.0`.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Path data that joins points; a gap starts a new stroke.
#[derive(Debug, Default)]
pub(super) struct PathData {
    text: String,
    pen_down: bool,
}

impl PathData {
    pub(super) fn to(&mut self, [x, y]: [f64; 2]) {
        let command = if self.pen_down { 'L' } else { 'M' };
        let _ = write!(self.text, "{command}{} {}", short(x), short(y));
        self.pen_down = true;
    }

    pub(super) fn lift(&mut self) {
        self.pen_down = false;
    }

    pub(super) fn close(&mut self) {
        if self.pen_down {
            self.text.push('Z');
            self.pen_down = false;
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}
