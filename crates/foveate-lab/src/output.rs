//! The output of experiments: tables for people, JSON for programs, a progress bar.

mod verdict;

pub use verdict::Verdict;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

/// Spaces between two columns.
const COLUMN_GAP: usize = 2;

/// The side on which a column's cells are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// A table with one row for each item, to which columns are added.
pub struct TableOf<T> {
    items: Vec<T>,
    table: Table,
}

impl<T> TableOf<T> {
    /// Adds a column of words.
    pub fn left(self, header: &str, cell: impl Fn(&T) -> String) -> Self {
        self.column(header, Align::Left, cell)
    }

    /// Adds a column of numbers.
    pub fn right(self, header: &str, cell: impl Fn(&T) -> String) -> Self {
        self.column(header, Align::Right, cell)
    }

    fn column(mut self, header: &str, align: Align, cell: impl Fn(&T) -> String) -> Self {
        self.table.columns.push((header.to_owned(), align));
        for (row, item) in self.table.rows.iter_mut().zip(&self.items) {
            row.push(cell(item));
        }
        self
    }

    /// Completes the table with the line above it.
    pub fn caption(self, caption: impl Into<String>) -> Table {
        self.table.caption(caption)
    }
}

/// A table for people: a header, a thin rule, rows.
///
/// ```
/// use foveate_lab::output::Table;
/// let table = Table::of([("broadcast", 12.3), ("vfc", 4.1)])
///     .left("policy", |row| row.0.to_owned())
///     .right("kB/s", |row| row.1.to_string())
///     .caption("Traffic to each client");
/// assert_eq!(
///     table.to_string(),
///     "Traffic to each client\n\npolicy     kB/s\n─────────  ────\nbroadcast  12.3\nvfc         4.1\n"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    caption: Option<String>,
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these headers.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        let columns = columns.into_iter().map(|(name, align)| (name.into(), align)).collect();
        Self { caption: None, columns, rows: Vec::new() }
    }

    /// Begins a table with one row for each item; its columns follow.
    pub fn of<T>(items: impl IntoIterator<Item = T>) -> TableOf<T> {
        let items: Vec<T> = items.into_iter().collect();
        let rows = vec![Vec::new(); items.len()];
        TableOf { items, table: Self { caption: None, columns: Vec::new(), rows } }
    }

    /// Sets the line above the table.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = Some(caption.into());
        self
    }

    /// Adds a row. Missing cells stay empty.
    ///
    /// # Panics
    /// If there are more cells than columns.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        let (found, expected) = (cells.len(), self.columns.len());
        assert!(found <= expected, "{found} cells for {expected} columns");
        cells.resize(expected, String::new());
        self.rows.push(cells);
        self
    }

    /// The line above the table.
    pub fn caption_text(&self) -> Option<&str> {
        self.caption.as_deref()
    }

    /// Headers with their alignment.
    pub fn columns(&self) -> &[(String, Align)] {
        &self.columns
    }

    /// Rows, each with as many cells as there are columns.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Prints the table.
    pub fn print(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(self.to_string().as_bytes())
    }

    fn widths(&self) -> Vec<usize> {
        let width_of = |column: usize| {
            let cells = self.rows.iter().map(|row| width(&row[column]));
            cells.chain([width(&self.columns[column].0)]).max().unwrap_or(0)
        };
        (0..self.columns.len()).map(width_of).collect()
    }

    fn push_line<'a>(
        &self,
        text: &mut String,
        cells: impl Iterator<Item = &'a str>,
        widths: &[usize],
    ) {
        let mut line = String::new();
        for (column, cell) in cells.enumerate() {
            if column > 0 {
                line.extend(std::iter::repeat_n(' ', COLUMN_GAP));
            }
            let padding = std::iter::repeat_n(' ', widths[column] - width(cell));
            match self.columns[column].1 {
                Align::Left => {
                    line.push_str(cell);
                    line.extend(padding);
                }
                Align::Right => {
                    line.extend(padding);
                    line.push_str(cell);
                }
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        if let Some(caption) = &self.caption {
            let _ = writeln!(text, "{caption}\n");
        }
        let widths = self.widths();
        let rules: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        self.push_line(&mut text, self.columns.iter().map(|(name, _)| name.as_str()), &widths);
        self.push_line(&mut text, rules.iter().map(String::as_str), &widths);
        for row in &self.rows {
            self.push_line(&mut text, row.iter().map(String::as_str), &widths);
        }
        formatter.write_str(&text)
    }
}

/// Columns that a text takes on a terminal. Combining marks take none (the ′ of θ′ is not one); nothing that we print
/// is double-width.
fn width(text: &str) -> usize {
    text.chars().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).count()
}

/// An experiment's results for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentResult {
    /// Name of the experiment.
    pub experiment: String,
    /// The seed that reproduces these rows.
    pub seed: u64,
    /// Claims about the rows, and whether they hold.
    pub verdicts: Vec<Verdict>,
    /// One object per measured case.
    pub rows: Vec<Value>,
}

/// A result or report could not be written. An earlier file at the path is unchanged.
#[derive(Debug, Error)]
pub enum OutputError {
    /// A row that JSON cannot represent.
    #[error("a row of {experiment} cannot be written as JSON: {source}")]
    Row {
        /// Name of the experiment.
        experiment: String,
        source: serde_json::Error,
    },
    /// An operation of the file system failed.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file to write.
        path: PathBuf,
        source: io::Error,
    },
}

impl ExperimentResult {
    /// A result without rows.
    pub fn new(experiment: impl Into<String>, seed: u64) -> Self {
        Self { experiment: experiment.into(), seed, verdicts: Vec::new(), rows: Vec::new() }
    }

    /// Adds a claim. The command prints it, the report shows it, and the tests fail if it is required and does not
    /// hold.
    pub fn judge(&mut self, verdict: Verdict) {
        self.verdicts.push(verdict);
    }

    /// The claims as a table for people; `None` if there are none.
    pub fn verdict_table(&self) -> Option<Table> {
        if self.verdicts.is_empty() {
            return None;
        }
        let columns = ["claim", "value", "aim", "holds"];
        let mut table = Table::new(columns.map(|name| {
            (name, if name == "value" || name == "aim" { Align::Right } else { Align::Left })
        }));
        for verdict in &self.verdicts {
            let holds = if verdict.holds { "yes" } else { "NO" };
            table.row([verdict.name.as_str(), &verdict.figure(), &verdict.aim, holds]);
        }
        Some(table.caption("Verdicts"))
    }

    /// Adds a row: a [`Value`], or anything else that serialises.
    pub fn push(&mut self, row: impl Serialize) -> Result<(), OutputError> {
        let row = serde_json::to_value(row)
            .map_err(|source| OutputError::Row { experiment: self.experiment.clone(), source })?;
        self.rows.push(row);
        Ok(())
    }

    /// `{"experiment":…,"seed":…,"verdicts":[…],"rows":[…]}`, one verdict or row per line.
    pub fn to_json(&self) -> String {
        let name = Value::from(self.experiment.as_str());
        let mut text = format!("{{\"experiment\":{name},\"seed\":{},\"verdicts\":", self.seed);
        let verdicts = self.verdicts.iter().map(|verdict| {
            serde_json::to_value(verdict).expect("a verdict has only texts, numbers and booleans")
        });
        push_lines(&mut text, verdicts);
        text.push_str(",\"rows\":");
        push_lines(&mut text, self.rows.iter());
        text.push_str("}\n");
        text
    }

    /// Writes the result to a file, either all of it or nothing.
    pub fn write_json(&self, path: &Path) -> Result<(), OutputError> {
        write_atomically(path, self.to_json().as_bytes())
    }
}

/// A JSON array with one item per line.
fn push_lines(text: &mut String, items: impl ExactSizeIterator<Item = impl std::fmt::Display>) {
    let empty = items.len() == 0;
    text.push('[');
    for (index, item) in items.enumerate() {
        let separator = if index == 0 { "\n" } else { ",\n" };
        let _ = write!(text, "{separator}{item}");
    }
    text.push_str(if empty { "]" } else { "\n]" });
}

/// Writes a file through a temporary one beside it, so that a reader never sees part of it.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    let fail = |source| OutputError::Io { path: path.to_path_buf(), source };
    let Some(name) = path.file_name() else {
        return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "this is not a file name")));
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    // Two runs that write the same file at once must not share a temporary file.
    hidden.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(hidden);
    let written = write_and_sync(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| {
        // The first error is the one to return.
        let _ = fs::remove_file(&temporary);
        fail(source)
    })
}

fn write_and_sync(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A bar on the terminal with the time left. It is silent if stderr is not a terminal, so that logs have no control
/// characters.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts a bar of `total` steps.
    pub fn new(label: impl Into<String>, total: u64) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        Self::on(target, label.into(), total)
    }

    fn on(target: ProgressDrawTarget, label: String, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), target).with_message(label);
        let template = "{msg}  {bar:30.cyan/dim}  {percent:>3} %  {eta} left";
        // A template that does not parse would be a bug in the line above; the default bar is used then.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self { bar }
    }

    /// Advances by `count` steps.
    pub fn tick(&self, count: u64) {
        self.bar.inc(count);
    }

    /// Steps done so far.
    pub fn done(&self) -> u64 {
        self.bar.position()
    }

    /// Removes the bar before results are printed.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    /// A run that ends early leaves no partial bar behind.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests;
