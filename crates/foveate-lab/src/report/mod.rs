//! Reports for people: one self-contained HTML page per experiment, and an index of them.
//!
//! A page needs no network, no scripts and no fonts of its own; it follows the reader's light or
//! dark setting and prints. The same report gives the same bytes: no time of day, no machine name.
//!
//! ```no_run
//! use foveate_lab::output::{Align, Table};
//! use foveate_lab::report::{Axis, Plot, Report, Series, Mark};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut table = Table::new([("policy", Align::Left), ("kB/s", Align::Right)]);
//! table.row(["broadcast", "12.3"]).row(["vfc", "4.1"]);
//! Report::new("vfc", "Bounded divergence, measured")
//!     .summary("Three views on a recorded match of 60 players.")
//!     .command("foveate lab vfc --seed 7 --report reports")
//!     .finding(Mark::Holds, "Traffic falls by the published factor", "3.0×")
//!     .section("Traffic", "Bytes to each client, by policy.")
//!     .table(&table)
//!     .plot(Plot::bars("Traffic", ["broadcast", "vfc"])
//!         .y(Axis::linear("To each client", "kB/s"))
//!         .series(Series::values("ours", [12.3, 4.1])))
//!     .write("reports".as_ref())?;
//! # Ok(())
//! # }
//! ```

mod html;
mod index;
mod plot;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use plot::{Axis, Plot, Series};

use crate::output::{Align, OutputError, Table, Verdict, write_atomically};
use html::{Head, escape, inline, page, prose};

/// Longest name of an experiment; file systems accept no more than 255 bytes in all.
const MAX_NAME_BYTES: usize = 100;

/// What a finding says about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The claim holds in this run.
    Holds,
    /// The claim does not hold in this run.
    FallsShort,
    /// Information without a claim.
    Info,
}

impl Mark {
    fn class(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::FallsShort => "short",
            Self::Info => "info",
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Holds => "✓",
            Self::FallsShort => "✗",
            Self::Info => "•",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Holds => "Holds",
            Self::FallsShort => "Falls short",
            Self::Info => "For information",
        }
    }
}

/// A report could not be written. Earlier files are unchanged.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The experiment's name cannot be used as a file name.
    #[error(
        "the experiment name {found:?} cannot name a file, expected letters, digits, - and _, \
         at most {MAX_NAME_BYTES}, and not \"index\""
    )]
    BadName {
        /// The name.
        found: String,
    },
    /// The folder cannot be created or listed.
    #[error("cannot use the folder {}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] OutputError),
}

#[derive(Debug, Clone)]
struct Finding {
    mark: Mark,
    text: String,
    figure: String,
}

/// A report on one experiment, built from top to bottom.
///
/// Findings are collected below the summary, wherever they are added; sections, tables and plots keep their order.
#[derive(Debug, Clone)]
pub struct Report {
    experiment: String,
    title: String,
    summary: String,
    command: Option<String>,
    findings: Vec<Finding>,
    /// Finished HTML of sections, tables and plots.
    body: String,
}

impl Report {
    /// An empty report. The experiment's name becomes the file name.
    pub fn new(experiment: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            experiment: experiment.into(),
            title: title.into(),
            summary: String::new(),
            command: None,
            findings: Vec::new(),
            body: String::new(),
        }
    }

    /// Sets the summary: what was tried and the result, in a sentence or two. The index shows it too.
    #[must_use]
    pub fn summary(mut self, text: impl Into<String>) -> Self {
        self.summary = text.into();
        self
    }

    /// Sets the command line that makes this report again.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Marks the report as one of a quick run.
    #[must_use]
    pub fn short(mut self) -> Self {
        self.summary = format!("A quick run: its figures are not for quoting. {}", self.summary);
        self
    }

    /// Starts a section. In prose a blank line divides paragraphs and backticks set code.
    #[must_use]
    pub fn section(mut self, heading: impl AsRef<str>, text: impl AsRef<str>) -> Self {
        self.body.push_str(&format!("<h2>{}</h2>\n", inline(heading.as_ref())));
        self.body.push_str(&prose(text.as_ref()));
        self
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, table: &Table) -> Self {
        self.body.push_str(&table_html(table));
        self
    }

    /// Adds a plot.
    #[must_use]
    pub fn plot(mut self, plot: Plot) -> Self {
        self.body.push_str(&plot.to_html());
        self
    }

    /// Adds a finding with the figure that supports it.
    #[must_use]
    pub fn finding(
        mut self,
        mark: Mark,
        text: impl Into<String>,
        figure: impl Into<String>,
    ) -> Self {
        self.findings.push(Finding { mark, text: text.into(), figure: figure.into() });
        self
    }

    /// Adds verdicts, each with its aim and value.
    #[must_use]
    pub fn verdicts(mut self, verdicts: &[Verdict]) -> Self {
        for verdict in verdicts {
            let mark = if verdict.holds { Mark::Holds } else { Mark::FallsShort };
            let text = format!("{} ({})", verdict.name, verdict.aim);
            self = self.finding(mark, text, verdict.figure());
        }
        self
    }

    /// The whole page.
    pub fn to_html(&self) -> String {
        let mut body = format!(
            "<header><p class=\"eyebrow\">Foveate lab · {}</p>\n<h1>{}</h1>\n",
            escape(&self.experiment),
            escape(&self.title)
        );
        if !self.summary.is_empty() {
            body.push_str(&format!("<p class=\"lead\">{}</p>\n", inline(&self.summary)));
        }
        body.push_str("</header>\n");
        body.push_str(&self.findings_html());
        body.push_str(&self.body);
        if let Some(command) = &self.command {
            let command = escape(command);
            body.push_str(&format!("<footer>Made by<pre>{command}</pre></footer>\n"));
        }
        let count = |mark| self.findings.iter().filter(|f| f.mark == mark).count();
        let findings = [Mark::Holds, Mark::FallsShort, Mark::Info].map(count);
        page(&Head { title: &self.title, summary: &self.summary, findings }, &body)
    }

    /// Writes the page as `<experiment>.html` into a folder, which is created if necessary, and updates the folder's
    /// `index.html`. Returns the page's path.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, ReportError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let name = self.experiment.as_str();
        let fits = (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(plain);
        if !fits || name.eq_ignore_ascii_case("index") {
            return Err(ReportError::BadName { found: name.to_owned() });
        }
        let fail = |source| ReportError::Folder { path: folder.to_path_buf(), source };
        std::fs::create_dir_all(folder).map_err(fail)?;
        let path = folder.join(format!("{name}.html"));
        write_atomically(&path, self.to_html().as_bytes())?;
        let index = index::render(folder).map_err(fail)?;
        write_atomically(&folder.join(index::INDEX), index.as_bytes())?;
        Ok(path)
    }

    fn findings_html(&self) -> String {
        if self.findings.is_empty() {
            return String::new();
        }
        let mut html = String::from("<ul class=\"findings\">\n");
        for Finding { mark, text, figure } in &self.findings {
            html.push_str(&format!(
                "<li class=\"{}\"><span class=\"mark\" aria-hidden=\"true\">{}</span>\
                 <span><span class=\"hidden\">{}: </span>{}</span>\
                 <span class=\"figure\">{}</span></li>\n",
                mark.class(),
                mark.symbol(),
                mark.words(),
                inline(text),
                escape(figure),
            ));
        }
        html + "</ul>\n"
    }
}

fn table_html(table: &Table) -> String {
    let class = |column: usize| match table.columns()[column].1 {
        Align::Left => "",
        Align::Right => " class=\"right\"",
    };
    let mut html = String::from(
        "<div class=\"table\" role=\"region\" aria-label=\"Table\" tabindex=\"0\"><table>\n",
    );
    if let Some(caption) = table.caption_text() {
        html.push_str(&format!("<caption>{}</caption>\n", escape(caption)));
    }
    html.push_str("<thead><tr>");
    for (column, (name, _)) in table.columns().iter().enumerate() {
        html.push_str(&format!("<th scope=\"col\"{}>{}</th>", class(column), escape(name)));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in table.rows() {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            html.push_str(&format!("<td{}>{}</td>", class(column), escape(cell)));
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table></div>\n"
}
