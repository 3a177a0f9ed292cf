//! Draws a prepared plot.

use super::layout::{CATEGORY_LINE, EndLabel, Layout, LegendItem, WIDTH, text_width};
use super::number;
use super::prepare::{Layer, Mark, Prepared, prepare};
use super::svg::{PathData, Svg, short};
use super::{Axis, Kind, Plot};
use crate::report::html::escape;

/// Colours of the page; further series repeat the colours with another dash.
const COLOURS: usize = 8;
const REFERENCE_DASHES: usize = 3;
/// A line with at most this many points shows them.
const MAX_VISIBLE_POINTS: usize = 40;
/// A line with at most this many points has a tooltip on each.
const MAX_TIPS: usize = 300;
const MARKER: f64 = 3.6;
/// Share of a category's width that its bars take.
const BAR_SHARE: f64 = 0.76;
const MAX_BAR: f64 = 58.0;

pub(super) fn figure(plot: &Plot) -> String {
    let prepared = prepare(plot);
    let layout = Layout::new(plot, &prepared);
    let height = short(layout.height);
    let mut painter = Painter { plot, prepared: &prepared, layout: &layout, svg: Svg::default() };
    painter.paint();
    let drawing = painter.svg.into_text();
    let mut notes = String::new();
    for note in plot.caption.iter().chain(&prepared.notes) {
        notes.push_str(&format!("<p class=\"note\">{}</p>\n", escape(note)));
    }
    format!(
        "<figure>\n<figcaption>{}</figcaption>\n<div class=\"plot\"><svg role=\"img\" \
         aria-label=\"{}\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\">\n{drawing}</svg></div>\n{notes}</figure>\n",
        escape(&plot.title),
        escape(&description(plot)),
    )
}

/// The plot in a sentence, for screen readers.
fn description(plot: &Plot) -> String {
    let mut text = format!("{}: {}.", plot.kind.name(), plot.title);
    for (axis, name) in [(&plot.x, "Horizontal"), (&plot.y, "Vertical")] {
        let caption = axis.caption();
        if !caption.is_empty() {
            let log = if axis.log { ", logarithmic" } else { "" };
            text.push_str(&format!(" {name}: {caption}{log}."));
        }
    }
    let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
    if !names.is_empty() {
        text.push_str(&format!(" Series: {}.", names.join(", ")));
    }
    text
}

/// A value with its axis' name and unit, for a tooltip.
fn labelled(axis: &Axis, value: f64) -> String {
    let value = number::with_unit(value, &axis.unit);
    if axis.title.is_empty() { value } else { format!("{}: {value}", axis.title) }
}

struct Painter<'a> {
    plot: &'a Plot,
    prepared: &'a Prepared,
    layout: &'a Layout,
    svg: Svg,
}

impl Painter<'_> {
    fn paint(&mut self) {
        self.grid();
        let is_empty = self.prepared.layers.iter().all(|layer| layer.drawn().next().is_none());
        if is_empty {
            let Layout { left, right, top, bottom, .. } = *self.layout;
            let middle = [(left + right) / 2.0, (top + bottom) / 2.0];
            self.svg.label("empty", middle, " text-anchor=\"middle\"", "No data");
        }
        match self.plot.kind {
            Kind::Lines | Kind::Distribution => self.lines(),
            Kind::Bars | Kind::StackedBars => self.bars(),
        }
        self.axes();
        for item in &self.layout.legend {
            self.legend_item(item);
        }
        for label in &self.layout.ends {
            self.end_label(label);
        }
    }

    fn x(&self, value: f64) -> f64 {
        self.layout.left + self.prepared.x.place(value) * (self.layout.right - self.layout.left)
    }

    /// The height of a value. On a logarithmic axis zero is at the bottom.
    fn y(&self, value: f64) -> f64 {
        let place = self.prepared.y.place(value).clamp(0.0, 1.0);
        self.layout.bottom - place * (self.layout.bottom - self.layout.top)
    }

    fn at(&self, mark: &Mark) -> [f64; 2] {
        [self.x(mark.x), self.y(mark.y[1])]
    }

    fn grid(&mut self) {
        let (layout, prepared) = (self.layout, self.prepared);
        self.svg.open_group("grid");
        for (tick, label) in prepared.y.ticks() {
            let y = self.y(*tick);
            self.svg.line("rule", [layout.left, y], [layout.right, y]);
            let end = " text-anchor=\"end\"";
            self.svg.label("tick", [layout.left - 8.0, y + 4.0], end, label);
        }
        for (tick, label) in prepared.x.ticks() {
            let x = self.x(*tick);
            if prepared.x.is_log() {
                self.svg.line("rule", [x, layout.top], [x, layout.bottom]);
            }
            self.svg.line("notch", [x, layout.bottom], [x, layout.bottom + 4.0]);
            let middle = " text-anchor=\"middle\"";
            self.svg.label("tick", [x, layout.bottom + 18.0], middle, label);
        }
        self.svg.close_group();
    }

    fn axes(&mut self) {
        let layout = self.layout;
        // The axis is drawn at zero, which is above the bottom if some values are negative.
        let base = if self.prepared.y.is_log() { self.prepared.y.low() } else { 0.0 };
        let base = self.y(base.max(self.prepared.y.low()));
        self.svg.open_group("axes");
        self.svg.line("axis", [layout.left, base], [layout.right, base]);
        self.categories();
        let y_caption = self.plot.y.caption();
        if !y_caption.is_empty() {
            self.svg.label("title", [2.0, layout.top - 12.0], "", &y_caption);
        }
        let x_caption = self.plot.x.caption();
        if !x_caption.is_empty() {
            let at = [(layout.left + layout.right) / 2.0, layout.height - 5.0];
            self.svg.label("title", at, " text-anchor=\"middle\"", &x_caption);
        }
        self.svg.close_group();
    }

    fn categories(&mut self) {
        let layout = self.layout;
        for (index, lines) in layout.categories.iter().enumerate() {
            let (x, y) = (self.x(index as f64), layout.bottom + 18.0);
            for (row, line) in lines.iter().enumerate() {
                if layout.slanted {
                    let [x, y] = [x + 4.0, y - 4.0];
                    let turn = format!("rotate(-30 {} {})", short(x), short(y));
                    let turn = format!(" text-anchor=\"end\" transform=\"{turn}\"");
                    self.svg.label("category", [x, y], &turn, line);
                } else {
                    let y = y + row as f64 * CATEGORY_LINE;
                    self.svg.label("category", [x, y], " text-anchor=\"middle\"", line);
                }
            }
        }
    }

    fn tip(&self, layer: &Layer, mark: &Mark) -> String {
        let x = match self.plot.kind {
            Kind::Bars | Kind::StackedBars => {
                let index = mark.x.max(0.0) as usize;
                self.plot.categories.get(index).cloned().unwrap_or_default()
            }
            Kind::Lines | Kind::Distribution => labelled(&self.plot.x, mark.x),
        };
        format!("{}\n{x}\n{}", layer.name, labelled(&self.plot.y, mark.value))
    }

    fn lines(&mut self) {
        let prepared = self.prepared;
        // References are drawn first, so that they never hide our measurements.
        let (references, ours): (Vec<&Layer>, Vec<&Layer>) =
            prepared.layers.iter().partition(|layer| layer.reference);
        for layer in references.into_iter().chain(ours) {
            self.svg.open_group(&class(layer));
            self.line(layer);
            self.line_points(layer);
            self.svg.close_group();
        }
    }

    fn line(&mut self, layer: &Layer) {
        let mut data = PathData::default();
        for mark in &layer.marks {
            match mark {
                Some(mark) => data.to(self.at(mark)),
                None => data.lift(),
            }
        }
        self.svg.path("line", data.as_str(), &layer.name);
    }

    fn line_points(&mut self, layer: &Layer) {
        let count = layer.drawn().count();
        if count > MAX_TIPS {
            return;
        }
        for mark in layer.drawn() {
            let (at, tip) = (self.at(mark), self.tip(layer, mark));
            // A point without neighbours has no line: only its marker shows it.
            if count <= MAX_VISIBLE_POINTS {
                self.marker(layer, at, &tip);
            } else {
                self.svg.circle("hit", at, 5.0, &tip);
            }
        }
    }

    /// Series also differ by shape, since colour alone may be hard to see or print.
    fn marker(&mut self, layer: &Layer, [x, y]: [f64; 2], tip: &str) {
        let r = MARKER;
        match layer.slot % 4 {
            0 => self.svg.circle("dot", [x, y], r, tip),
            1 => self.svg.rect("dot", [x - r * 0.9, y - r * 0.9], [r * 1.8, r * 1.8], tip),
            2 => {
                let corners =
                    [[x, y - r * 1.3], [x + r * 1.2, y + r * 0.9], [x - r * 1.2, y + r * 0.9]];
                self.svg.path("dot", &polygon(&corners), tip);
            }
            _ => {
                let r = r * 1.3;
                let corners = [[x, y - r], [x + r, y], [x, y + r], [x - r, y]];
                self.svg.path("dot", &polygon(&corners), tip);
            }
        }
    }

    fn bars(&mut self) {
        let prepared = self.prepared;
        let stacked = self.plot.kind == Kind::StackedBars;
        let abreast = if stacked { 1.0 } else { prepared.layers.len().max(1) as f64 };
        let slot = self.x(1.0) - self.x(0.0);
        let width = (slot * BAR_SHARE / abreast).min(MAX_BAR);
        let gap = if stacked { 0.0 } else { (width * 0.12).min(3.0) };
        for (index, layer) in prepared.layers.iter().enumerate() {
            self.svg.open_group(&class(layer));
            for mark in layer.drawn() {
                let group = self.x(mark.x) - width * abreast / 2.0;
                let x = if stacked { group } else { group + width * index as f64 };
                self.bar(layer, mark, [x + gap / 2.0, width - gap]);
            }
            self.svg.close_group();
        }
        if stacked {
            self.totals();
        }
    }

    fn bar(&mut self, layer: &Layer, mark: &Mark, [x, width]: [f64; 2]) {
        let [base, reach] = mark.y.map(|value| self.y(value));
        let tip = self.tip(layer, mark);
        self.svg.rect("bar", [x, base.min(reach)], [width, (base - reach).abs()], &tip);
        let centre = x + width / 2.0;
        let label_y = if mark.value < 0.0 { reach + 14.0 } else { reach - 5.0 };
        let text = number::figure(mark.value);
        let fits = text_width(&text) <= width + 4.0;
        if self.plot.kind == Kind::Bars && fits {
            self.svg.label("value", [centre, label_y], " text-anchor=\"middle\"", &text);
        }
    }

    /// Writes the height of each stack above it.
    fn totals(&mut self) {
        let Some(top) = self.prepared.layers.last() else { return };
        let slot = self.x(1.0) - self.x(0.0);
        for mark in top.drawn() {
            let text = number::figure(mark.y[1]);
            if text_width(&text) <= slot {
                let at = [self.x(mark.x), self.y(mark.y[1]) - 5.0];
                self.svg.label("value", at, " text-anchor=\"middle\"", &text);
            }
        }
    }

    fn legend_item(&mut self, item: &LegendItem) {
        let layer = &self.prepared.layers[item.layer];
        let [x, y] = item.at;
        self.svg.open_group(&class(layer));
        match self.plot.kind {
            Kind::Lines | Kind::Distribution => {
                self.svg.path("line", &format!("M{} {}h20", short(x + 2.0), short(y)), "");
                self.marker(layer, [x + 12.0, y], "");
            }
            Kind::Bars | Kind::StackedBars => {
                self.svg.rect("bar", [x + 8.0, y - 6.0], [12.0, 12.0], "")
            }
        }
        self.svg.label("legend", [x + 27.0, y + 4.0], "", &item.text);
        self.svg.close_group();
    }

    fn end_label(&mut self, label: &EndLabel) {
        let layer = &self.prepared.layers[label.layer];
        let right = self.layout.right;
        let end = layer.drawn().last().map_or(right, |mark| self.x(mark.x));
        self.svg.open_group(&class(layer));
        let from = [end.max(right - 1.0).min(right) + 5.0, label.line_y];
        self.svg.line("leader", from, [right + 11.0, label.y]);
        self.svg.label("end", [right + 14.0, label.y + 4.0], "", &layer.name);
        self.svg.close_group();
    }
}

fn polygon(corners: &[[f64; 2]]) -> String {
    let mut data = PathData::default();
    for &corner in corners {
        data.to(corner);
    }
    data.close();
    data.as_str().to_owned()
}

fn class(layer: &Layer) -> String {
    if layer.reference {
        return format!("ref r{}", layer.slot % REFERENCE_DASHES + 1);
    }
    let again = if layer.slot >= COLOURS { " again" } else { "" };
    format!("s{}{again}", layer.slot % COLOURS + 1)
}
