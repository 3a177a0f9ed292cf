//! Draws a prepared plot.

use super::layout::{CATEGORY_LINE, EndLabel, Layout, LegendItem, WIDTH, text_width};
use super::number;
use super::prepare::{Layer, Mark, Prepared, prepare};
use super::svg::{PathData, Svg, short};
use super::{Axis, Kind, Plot};
use crate::report::html::escape;

/// Colours of the page; with more series than that, colours come again with another dash.
const COLOURS: usize = 8;
const REFERENCE_DASHES: usize = 3;
/// Up to this many points a line shows them.
const MAX_VISIBLE_POINTS: usize = 40;
/// Up to this many points a line tells them when pointed at.
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

/// The plot in a sentence, for those who do not see it.
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
fn told(axis: &Axis, value: f64) -> String {
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
            Kind::Scatter => self.scatter(),
            Kind::Bars | Kind::StackedBars => self.bars(),
            Kind::StackedAreas => self.areas(),
            Kind::Histogram => self.histograms(),
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

    /// Height of a value. What stands on the zero of a logarithmic axis stands on its bottom.
    fn y(&self, value: f64) -> f64 {
        let place = self.prepared.y.place(value).clamp(0.0, 1.0);
        self.layout.bottom - place * (self.layout.bottom - self.layout.top)
    }

    fn at(&self, mark: &Mark) -> [f64; 2] {
        [self.x(mark.x[1]), self.y(mark.y[1])]
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
            if matches!(self.plot.kind, Kind::Scatter) || prepared.x.is_log() {
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
        // Where values are negative too, the line to compare with is zero.
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
                let index = mark.x[0].max(0.0) as usize;
                self.plot.categories.get(index).cloned().unwrap_or_default()
            }
            Kind::Histogram => {
                let low = told(&self.plot.x, mark.x[0]);
                format!("{low} to {}", number::with_unit(mark.x[1], &self.plot.x.unit))
            }
            _ => told(&self.plot.x, mark.x[0]),
        };
        let mut tip = format!("{}\n{x}\n{}", layer.name, told(&self.plot.y, mark.value));
        if let Some(band) = mark.band {
            let [low, high] = band.map(number::figure);
            tip.push_str(&format!("\nfrom {low} to {high}"));
        }
        tip
    }

    fn lines(&mut self) {
        let prepared = self.prepared;
        for layer in &prepared.layers {
            self.svg.open_group(&class(layer));
            self.band(layer);
            self.percentile_area(layer);
            self.svg.close_group();
        }
        // References lie below, so that they never hide what was measured.
        let (references, ours): (Vec<&Layer>, Vec<&Layer>) =
            prepared.layers.iter().partition(|layer| layer.reference);
        for layer in references.into_iter().chain(ours) {
            self.svg.open_group(&class(layer));
            self.line(layer);
            self.line_points(layer);
            self.svg.close_group();
        }
    }

    fn band(&mut self, layer: &Layer) {
        let mut data = PathData::default();
        for run in layer.marks.split(|mark| mark.is_none_or(|mark| mark.band.is_none())) {
            let banded = || run.iter().flatten().filter_map(|mark| Some((mark.x[1], mark.band?)));
            for (x, [_, high]) in banded() {
                data.to([self.x(x), self.y(high)]);
            }
            for (x, [low, _]) in banded().rev() {
                data.to([self.x(x), self.y(low)]);
            }
            data.close();
        }
        if !data.as_str().is_empty() {
            self.svg.path("band", data.as_str(), "");
        }
    }

    /// The part of a distribution between its 5th and 95th percentile.
    fn percentile_area(&mut self, layer: &Layer) {
        let Some([low, high]) = layer.percentiles else { return };
        let mut data = PathData::default();
        let mut before: Option<f64> = None;
        for mark in layer.drawn().filter(|mark| mark.x[1] >= low && mark.x[1] <= high) {
            let [x, y] = self.at(mark);
            data.to([x, before.unwrap_or(self.layout.bottom)]);
            data.to([x, y]);
            before = Some(y);
        }
        data.to([self.x(high), before.unwrap_or(self.layout.bottom)]);
        data.to([self.x(high), self.layout.bottom]);
        data.close();
        self.svg.path("band", data.as_str(), "");
    }

    fn line(&mut self, layer: &Layer) {
        let mut data = PathData::default();
        let mut before = layer.stepped.then_some(self.layout.bottom);
        for mark in &layer.marks {
            let Some(mark) = mark else {
                data.lift();
                continue;
            };
            let at = self.at(mark);
            if let Some(before) = &mut before {
                data.to([at[0], *before]);
                *before = at[1];
            }
            data.to(at);
        }
        if let Some(before) = before
            && layer.drawn().next().is_some()
        {
            data.to([self.layout.right, before]);
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
            // A point whose neighbours are both missing has no line: only its marker shows it.
            if count <= MAX_VISIBLE_POINTS && !layer.stepped || count == 1 {
                self.marker(layer, at, &tip);
            } else {
                self.svg.circle("hit", at, 5.0, &tip);
            }
        }
    }

    /// Shapes differ by series too: colour alone tells nothing to some eyes and printers.
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

    fn scatter(&mut self) {
        // Clouds below, then what is sparse, then the references, which a cloud would swallow.
        let mut layers: Vec<&Layer> = self.prepared.layers.iter().collect();
        layers.sort_by_key(|layer| {
            (layer.reference, std::cmp::Reverse(layer.drawn().count() > MAX_TIPS))
        });
        for layer in layers {
            let crowded = layer.drawn().count() > MAX_TIPS;
            let crowd = if crowded { " crowd" } else { "" };
            self.svg.open_group(&format!("{}{crowd}", class(layer)));
            for mark in layer.drawn() {
                let (at, tip) = (self.at(mark), self.tip(layer, mark));
                if let Some(band) = mark.band {
                    self.whisker(at[0], band);
                }
                self.marker(layer, at, &tip);
            }
            self.svg.close_group();
        }
    }

    fn whisker(&mut self, x: f64, band: [f64; 2]) {
        let [low, high] = band.map(|value| self.y(value));
        self.svg.line("whisker", [x, low], [x, high]);
        for y in [low, high] {
            self.svg.line("whisker", [x - 3.5, y], [x + 3.5, y]);
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
                let group = self.x(mark.x[0]) - width * abreast / 2.0;
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
        let mut label_y = if mark.value < 0.0 { reach + 14.0 } else { reach - 5.0 };
        if let Some(band) = mark.band {
            self.whisker(centre, band);
            let [low, high] = band.map(|value| self.y(value));
            label_y = if mark.value < 0.0 { low + 14.0 } else { high - 5.0 };
        }
        let text = number::figure(mark.value);
        let fits = text_width(&text) <= width + 4.0;
        if self.plot.kind == Kind::Bars && fits {
            self.svg.label("value", [centre, label_y], " text-anchor=\"middle\"", &text);
        }
    }

    /// How high each stack is, written above it.
    fn totals(&mut self) {
        let Some(top) = self.prepared.layers.last() else { return };
        let slot = self.x(1.0) - self.x(0.0);
        for mark in top.drawn() {
            let text = number::figure(mark.y[1]);
            if text_width(&text) <= slot {
                let at = [self.x(mark.x[0]), self.y(mark.y[1]) - 5.0];
                self.svg.label("value", at, " text-anchor=\"middle\"", &text);
            }
        }
    }

    fn areas(&mut self) {
        let prepared = self.prepared;
        for layer in &prepared.layers {
            let mut data = PathData::default();
            for mark in layer.drawn() {
                data.to([self.x(mark.x[0]), self.y(mark.y[1])]);
            }
            for mark in layer.drawn().collect::<Vec<_>>().into_iter().rev() {
                data.to([self.x(mark.x[0]), self.y(mark.y[0])]);
            }
            data.close();
            self.svg.open_group(&class(layer));
            self.svg.path("area", data.as_str(), &layer.name);
            if layer.drawn().count() <= MAX_TIPS {
                for mark in layer.drawn().filter(|mark| mark.value > 0.0) {
                    let tip = self.tip(layer, mark);
                    self.svg.circle("hit", self.at(mark), 5.0, &tip);
                }
            }
            self.svg.close_group();
        }
    }

    fn histograms(&mut self) {
        let prepared = self.prepared;
        for layer in &prepared.layers {
            self.svg.open_group(&class(layer));
            let mut outline = PathData::default();
            let mut height = self.layout.bottom;
            for mark in layer.drawn() {
                let [left, right] = mark.x.map(|x| self.x(x));
                outline.to([left, height]);
                height = self.y(mark.y[1]);
                outline.to([left, height]);
                outline.to([right, height]);
                let tip = self.tip(layer, mark);
                let size = [right - left, self.layout.bottom - height];
                self.svg.rect("bin", [left, height], size, &tip);
                if let Some([low, high]) = layer.percentiles {
                    let (from, to) = (left.max(self.x(low)), right.min(self.x(high)));
                    let size = [to - from, self.layout.bottom - height];
                    if to > from {
                        self.svg.rect("bin inner", [from, height], size, &tip);
                    }
                }
            }
            if let Some(last) = layer.drawn().last() {
                outline.to([self.x(last.x[1]), self.layout.bottom]);
            }
            self.svg.path("line", outline.as_str(), "");
            self.svg.close_group();
        }
    }

    fn legend_item(&mut self, item: &LegendItem) {
        let layer = &self.prepared.layers[item.layer];
        let [x, y] = item.at;
        self.svg.open_group(&class(layer));
        match self.plot.kind {
            Kind::Lines | Kind::Distribution => {
                self.svg.path("line", &format!("M{} {}h20", short(x + 2.0), short(y)), "");
                if !layer.stepped {
                    self.marker(layer, [x + 12.0, y], "");
                }
            }
            Kind::Scatter => self.marker(layer, [x + 14.0, y], ""),
            Kind::StackedAreas => self.svg.rect("area", [x + 8.0, y - 6.0], [12.0, 12.0], ""),
            _ => self.svg.rect("bar", [x + 8.0, y - 6.0], [12.0, 12.0], ""),
        }
        self.svg.label("legend", [x + 27.0, y + 4.0], "", &item.text);
        self.svg.close_group();
    }

    fn end_label(&mut self, label: &EndLabel) {
        let layer = &self.prepared.layers[label.layer];
        let right = self.layout.right;
        let end = layer.drawn().last().map_or(right, |mark| self.x(mark.x[1]));
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
