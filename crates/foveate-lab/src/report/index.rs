//! The list of the reports in a folder, made from the files that it has.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::html::{FINDINGS_OPEN, GENERATOR, Head, SUMMARY_OPENS, escape, inline, page, unescape};

pub(super) const INDEX: &str = "index.html";
/// Most bytes that are read of a page's head, which is shorter without its style.
const HEAD_BYTES: u64 = 64 * 1024;
/// Most reports listed.
const MAX_REPORTS: usize = 1_000;

/// What the index shows of one report.
struct Entry {
    file: String,
    title: String,
    summary: String,
    findings: [usize; 3],
}

/// The index page of a folder. Pages that are not ours are not listed.
pub(super) fn render(folder: &Path) -> io::Result<String> {
    let mut names: Vec<String> = Vec::new();
    for item in fs::read_dir(folder)? {
        // A name that is not Unicode is not one of ours.
        let Ok(name) = item?.file_name().into_string() else { continue };
        if name.ends_with(".html") && name != INDEX && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    let entries = names.into_iter().filter_map(|name| entry(folder, name)).take(MAX_REPORTS);
    let entries: Vec<Entry> = entries.collect();
    let count = match entries.len() {
        1 => "1 report".to_owned(),
        count => format!("{count} reports"),
    };
    let mut body = format!(
        "<header><p class=\"eyebrow\">Foveate lab</p>\n<h1>Reports</h1>\n\
         <p class=\"lead\">{count} in this folder.</p></header>\n<ul class=\"reports\">\n"
    );
    for entry in &entries {
        body.push_str(&item(entry));
    }
    body.push_str("</ul>\n");
    Ok(page(&Head { title: "Reports", summary: &count, findings: [0; 3] }, &body))
}

/// Reads a report's head; `None` if the file is not ours or cannot be read.
fn entry(folder: &Path, file: String) -> Option<Entry> {
    let mut head = Vec::new();
    File::open(folder.join(&file)).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let head = String::from_utf8_lossy(&head);
    if !head.contains(GENERATOR) {
        return None;
    }
    let mut counts = between(&head, FINDINGS_OPEN, "\"").unwrap_or_default().split(' ');
    let mut count = || counts.next().and_then(|count| count.parse().ok()).unwrap_or(0);
    Some(Entry {
        title: unescape(between(&head, "<title>", "</title>")?),
        summary: unescape(between(&head, SUMMARY_OPENS, "\"").unwrap_or_default()),
        findings: [count(), count(), count()],
        file,
    })
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(found, _)| found)
}

fn item(entry: &Entry) -> String {
    let (link, title) = (link(&entry.file), escape(&entry.title));
    let mut html = format!("<li><a href=\"{link}\">{title}</a>");
    if !entry.summary.is_empty() {
        html.push_str(&format!("<p>{}</p>", inline(&entry.summary)));
    }
    let [holds, short, _] = entry.findings;
    let counts = [
        (holds, "holds", if holds == 1 { "✓ 1 finding holds" } else { "✓ {} findings hold" }),
        (short, "short", if short == 1 { "✗ 1 falls short" } else { "✗ {} fall short" }),
    ];
    let listed: Vec<String> = counts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, class, words)| {
            format!("<span class=\"{class}\">{}</span>", words.replace("{}", &count.to_string()))
        })
        .collect();
    if !listed.is_empty() {
        html.push_str(&format!("<p class=\"counts\">{}</p>", listed.join(" · ")));
    }
    html.push_str("</li>\n");
    html
}

/// A file name as a relative link, with all but the plainest bytes encoded.
fn link(file: &str) -> String {
    let mut link = String::new();
    for byte in file.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            link.push(char::from(byte));
        } else {
            link.push_str(&format!("%{byte:02X}"));
        }
    }
    link
}
