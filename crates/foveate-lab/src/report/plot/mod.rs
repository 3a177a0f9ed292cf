//! Plots as inline SVG: lines, scatter, bars, stacks, histograms and distributions.
//!
//! The path of a value: [`Series`] → marks (`prepare`, which also notes what cannot be drawn and why) → axes with round
//! ticks (`scale`) → space for labels (`layout`) → SVG (`draw`). Colours are CSS custom properties of the page, so that
//! one file serves light, dark and print.

mod draw;
mod layout;
pub(crate) mod number;
mod prepare;
mod scale;
mod svg;

#[cfg(test)]
mod tests;

/// An axis: its title, unit and scale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    title: String,
    unit: String,
    log: bool,
    from_zero: bool,
}

impl Axis {
    /// A linear axis. An empty unit is not shown.
    pub fn linear(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), log: false, from_zero: false }
    }

    /// A logarithmic axis. Values that are not positive are left out, and the plot says so.
    pub fn log(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { log: true, ..Self::linear(title, unit) }
    }

    /// Makes a linear axis start at zero, so that lengths can be compared by eye. Bars and stacks always do.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }

    fn caption(&self) -> String {
        match (self.title.as_str(), self.unit.as_str()) {
            (title, "") => title.to_owned(),
            ("", unit) => unit.to_owned(),
            (title, unit) => format!("{title} ({unit})"),
        }
    }
}

/// One series of a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    reference: bool,
}

impl Series {
    /// Points (x, y) in the order in which a line joins them.
    pub fn points(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().collect();
        Self { name: name.into(), points, reference: false }
    }

    /// One value for each category of a bar plot; NaN for none.
    pub fn values(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().enumerate();
        Self::points(name, values.map(|(index, value)| (index as f64, value)))
    }

    /// Marks the series as other people's figures, drawn dashed, hollow and muted beside ours.
    #[must_use]
    pub fn reference(mut self) -> Self {
        self.reference = true;
        self
    }
}

/// The kinds of plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lines,
    Bars,
    StackedBars,
    Distribution,
}

impl Kind {
    fn has_categories(self) -> bool {
        matches!(self, Self::Bars | Self::StackedBars)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Lines => "Line plot",
            Self::Bars => "Bar plot",
            Self::StackedBars => "Stacked bar plot",
            Self::Distribution => "Cumulative distribution",
        }
    }
}

/// A plot for a report.
///
/// ```
/// use foveate_lab::report::{Axis, Plot, Series};
/// let plot = Plot::lines("Traffic by number of players")
///     .x(Axis::linear("Players", ""))
///     .y(Axis::linear("To each client", "kB/s").from_zero())
///     .series(Series::points("vfc", [(10.0, 2.1), (20.0, 3.9)]))
///     .series(Series::points("published", [(10.0, 2.4), (20.0, 4.6)]).reference());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    kind: Kind,
    title: String,
    caption: Option<String>,
    x: Axis,
    y: Axis,
    categories: Vec<String>,
    series: Vec<Series>,
}

impl Plot {
    fn new(kind: Kind, title: impl Into<String>) -> Self {
        Self {
            kind,
            title: title.into(),
            caption: None,
            x: Axis::linear("", ""),
            y: Axis::linear("", ""),
            categories: Vec::new(),
            series: Vec::new(),
        }
    }

    /// Lines through points.
    pub fn lines(title: impl Into<String>) -> Self {
        Self::new(Kind::Lines, title)
    }

    /// Bars side by side, one group for each category.
    pub fn bars<S: Into<String>>(
        title: impl Into<String>,
        categories: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::new(Kind::Bars, title).with_categories(categories)
    }

    /// Bars on top of each other, one stack for each category.
    pub fn stacked_bars<S: Into<String>>(
        title: impl Into<String>,
        categories: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::new(Kind::StackedBars, title).with_categories(categories)
    }

    /// A plot of the share of samples at or below each value, in per cent. Its series are points of the distribution.
    pub fn distribution(title: impl Into<String>) -> Self {
        let share = Axis::linear("Share of samples at or below", "%").from_zero();
        Self::new(Kind::Distribution, title).y(share)
    }

    /// Sets the horizontal axis. Bar plots show its caption below the categories.
    #[must_use]
    pub fn x(mut self, axis: Axis) -> Self {
        self.x = axis;
        self
    }

    /// Sets the vertical axis.
    #[must_use]
    pub fn y(mut self, axis: Axis) -> Self {
        self.y = axis;
        self
    }

    /// Adds a series. The order is that of the legend, and of the stack from the bottom up.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a line of explanation below the plot.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = Some(caption.into());
        self
    }

    fn with_categories<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.categories = names.into_iter().map(Into::into).collect();
        self
    }

    /// The plot as an HTML `<figure>`.
    pub(crate) fn to_html(&self) -> String {
        draw::figure(self)
    }
}
