//! Space around the data: legend, captions, tick labels, labels at line ends.

use super::prepare::{Layer, Prepared};
use super::{Kind, Plot};

/// Width of the drawing in its own units, which are pixels if the page is wide enough.
pub(super) const WIDTH: f64 = 780.0;
const PLOT_HEIGHT: f64 = 280.0;
const LEGEND_ROW: f64 = 22.0;
const LEGEND_SWATCH: f64 = 28.0;
const LEGEND_GAP: f64 = 18.0;
const END_LABEL_GAP: f64 = 15.0;
const END_LABEL_OFFSET: f64 = 14.0;
const MAX_END_LABEL: f64 = 190.0;
/// More lines than this cannot be told apart by labels at their ends.
const MAX_END_LABELS: usize = 8;
/// Lines that end left of this share of the axis would need leaders across others.
const END_LABEL_FROM: f64 = 0.93;
/// Height of a line of a category label.
pub(super) const CATEGORY_LINE: f64 = 15.0;
/// Most lines of a category label that is not slanted.
const MAX_CATEGORY_LINES: usize = 3;
/// Longest category label; the rest is cut off (the bar's tooltip has all of it).
const MAX_CATEGORY_CHARS: usize = 28;

/// A series in the legend.
#[derive(Debug, Clone)]
pub(super) struct LegendItem {
    pub layer: usize,
    pub at: [f64; 2],
    pub text: String,
}

/// A label at the end of a series' line.
#[derive(Debug, Clone)]
pub(super) struct EndLabel {
    pub layer: usize,
    /// Height at which the line ends.
    pub line_y: f64,
    /// Height of the label, adjusted so that labels do not overlap.
    pub y: f64,
}

/// The positions of everything.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub legend: Vec<LegendItem>,
    pub ends: Vec<EndLabel>,
    /// Each category's name in lines.
    pub categories: Vec<Vec<String>>,
    pub slanted: bool,
}

impl Layout {
    pub(super) fn new(plot: &Plot, prepared: &Prepared) -> Self {
        let ticks = prepared.y.ticks().iter().map(|(_, label)| text_width(label));
        let left = 14.0 + ticks.fold(16.0, f64::max);
        let named = named_at_ends(plot, prepared);
        let room = prepared.layers.iter().map(|layer| bold_width(&layer.name));
        let room = if named { END_LABEL_OFFSET + 6.0 + room.fold(0.0, f64::max) } else { 22.0 };
        let right = WIDTH - room;
        let legend = if named { Vec::new() } else { legend(&prepared.layers) };
        let rows = legend.last().map_or(0.0, |item| item.at[1] / LEGEND_ROW + 0.5);
        let caption = if plot.y.caption().is_empty() { 0.0 } else { 24.0 };
        let top = 8.0 + rows.ceil() * LEGEND_ROW + caption;
        let bottom = top + PLOT_HEIGHT;

        let slot = (right - left) / plot.categories.len().max(1) as f64;
        let wrapped: Option<Vec<Vec<String>>> =
            plot.categories.iter().map(|name| wrapped(name, slot - 8.0)).collect();
        let slanted = wrapped.is_none();
        let categories =
            wrapped.unwrap_or_else(|| plot.categories.iter().map(|name| vec![cut(name)]).collect());
        let widest = categories.iter().flatten().map(|line| text_width(line)).fold(0.0, f64::max);
        // Slanted by 30°, a label extends downwards by half its width and to the left by most of it.
        let left = if slanted { left.max(widest * 0.87 - slot * 0.4) } else { left };
        let lines = categories.iter().map(Vec::len).max().unwrap_or(1).max(1) as f64;
        let below = if slanted { widest * 0.5 + 14.0 } else { 6.0 + lines * CATEGORY_LINE };
        let caption = if plot.x.caption().is_empty() { 4.0 } else { 24.0 };
        let height = bottom + below + caption;
        let mut layout = Self {
            height,
            left,
            right,
            top,
            bottom,
            legend,
            ends: Vec::new(),
            categories,
            slanted,
        };
        if named {
            layout.ends = layout.end_labels(prepared);
        }
        layout
    }

    fn end_labels(&self, prepared: &Prepared) -> Vec<EndLabel> {
        let label = |(layer, drawn): (usize, &Layer)| {
            let place = prepared.y.place(drawn.drawn().last()?.y[1]);
            let line_y = self.bottom - place * (self.bottom - self.top);
            Some(EndLabel { layer, line_y, y: line_y })
        };
        let mut labels: Vec<EndLabel> =
            prepared.layers.iter().enumerate().filter_map(label).collect();
        labels.sort_by(|a, b| a.line_y.total_cmp(&b.line_y));
        // Push overlapping labels down, then push those below the bottom up.
        let mut free = self.top;
        for label in &mut labels {
            label.y = label.y.max(free);
            free = label.y + END_LABEL_GAP;
        }
        let mut free = self.bottom;
        for label in labels.iter_mut().rev() {
            label.y = label.y.min(free);
            free = label.y - END_LABEL_GAP;
        }
        labels
    }
}

/// Whether the series can be labelled at the ends of their lines, so that no legend is needed.
fn named_at_ends(plot: &Plot, prepared: &Prepared) -> bool {
    let layers = &prepared.layers;
    let at_the_edge = |layer: &Layer| {
        layer.drawn().last().is_some_and(|mark| prepared.x.place(mark.x) >= END_LABEL_FROM)
    };
    plot.kind == Kind::Lines
        && (2..=MAX_END_LABELS).contains(&layers.len())
        && layers.iter().all(|layer| bold_width(&layer.name) <= MAX_END_LABEL)
        && layers.iter().all(at_the_edge)
}

fn legend(layers: &[Layer]) -> Vec<LegendItem> {
    if layers.len() < 2 && layers.iter().all(|layer| !layer.reference) {
        return Vec::new();
    }
    let mut items: Vec<LegendItem> = Vec::new();
    let (mut x, mut row) = (0.0, 0.0);
    for (layer, drawn) in layers.iter().enumerate() {
        let text = fitted(drawn.name.clone(), WIDTH - LEGEND_SWATCH - 8.0);
        let width = LEGEND_SWATCH + text_width(&text);
        if x > 0.0 && x + width > WIDTH - 8.0 {
            (x, row) = (0.0, row + 1.0);
        }
        items.push(LegendItem { layer, at: [x, (row + 0.5) * LEGEND_ROW], text });
        x += width + LEGEND_GAP;
    }
    items
}

/// A name broken between words into lines that fit, if possible.
fn wrapped(name: &str, room: f64) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(word) + 4.0 <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let fits = lines.len() <= MAX_CATEGORY_LINES && lines.iter().all(|l| text_width(l) <= room);
    fits.then_some(lines)
}

fn cut(name: &str) -> String {
    if name.chars().count() <= MAX_CATEGORY_CHARS {
        return name.to_owned();
    }
    name.chars().take(MAX_CATEGORY_CHARS - 1).chain(['…']).collect()
}

fn fitted(mut text: String, room: f64) -> String {
    if text_width(&text) <= room {
        return text;
    }
    while text_width(&text) > room - 12.0 && text.pop().is_some() {}
    text + "…"
}

fn bold_width(text: &str) -> f64 {
    1.15 * text_width(text)
}

/// Estimated width of a text at 12 pixels, rather too large: the page has no font of its own, and too much space looks
/// better than an overlap.
pub(super) fn text_width(text: &str) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | 't' | 'f' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '(' | ')' => 4.4,
        '\u{202f}' => 2.6,
        ' ' => 3.8,
        'm' | 'w' | 'M' | 'W' | '%' | '…' => 11.0,
        'A'..='Z' => 8.8,
        '\u{2e80}'.. => 12.5,
        _ => 7.5,
    };
    text.chars().map(width).sum()
}
