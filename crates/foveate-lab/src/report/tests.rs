use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::html::unescape;
use super::*;

const NASTY: &str = "<script>alert('x')</script> & \"quoted\"\u{7}";

/// A temporary folder, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("foveate-lab-report-{test}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn full_report(text: &str) -> Report {
    let mut table = Table::new([(text, Align::Left), (text, Align::Right)]).caption(text);
    table.row([text, text]);
    let axis = || Axis::linear(text, text);
    let points = || Series::points(text, [(0.0, 1.0), (1.0, 2.0)]);
    let values = || Series::values(text, [3.0, 4.0]);
    let both = |plot: Plot, series: &dyn Fn() -> Series| {
        plot.x(axis()).y(axis()).caption(text).series(series()).series(series().reference())
    };
    Report::new("all", text)
        .summary(text)
        .command(text)
        .finding(Mark::Holds, text, text)
        .finding(Mark::FallsShort, text, text)
        .finding(Mark::Info, text, text)
        .section(text, text)
        .table(&table)
        .plot(both(Plot::lines(text), &points))
        .plot(both(Plot::bars(text, [text, text]), &values))
        .plot(both(Plot::stacked_bars(text, [text, text]), &values))
        .plot(both(Plot::distribution(text), &points))
}

/// Checks that tags nest and attributes are quoted, as XML requires, except for elements that HTML never closes.
fn assert_well_formed(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = html.strip_prefix("<!doctype html>\n").expect("a doctype");
    for (index, part) in body.split('<').enumerate().skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("tag {index} never ends"));
        assert!(!text.contains('>') || open.last() == Some(&"style"), "stray > in {text:?}");
        assert!(tag.matches('"').count().is_multiple_of(2), "quotes in <{tag}>");
        let name = tag.split([' ', '/', '\n']).next().unwrap_or_default();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "at tag {index}");
        } else if !tag.ends_with('/') && name != "meta" {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn all_text_is_escaped_everywhere() {
    let html = full_report(NASTY).to_html();
    assert!(!html.contains("<script"), "markup got through");
    assert!(!html.contains("\"quoted\""), "a quote got through");
    assert!(!html.contains('\u{7}'), "a control character got through");
    assert_well_formed(&html);
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let html = full_report("plain").to_html();
    assert_well_formed(&html);
    for outside in ["http:", "https:", "src=", "url(", "@import", "<script", "<link"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("prefers-color-scheme: dark"));
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    assert_eq!(full_report("same").to_html(), full_report("same").to_html());
    let folder = Folder::new("same");
    let path = full_report("same").write(&folder.0).unwrap();
    let (page, index) = (folder.read("all.html"), folder.read("index.html"));
    full_report("same").write(&folder.0).unwrap();
    assert_eq!(path, folder.0.join("all.html"));
    assert_eq!((folder.read("all.html"), folder.read("index.html")), (page, index));
}

#[test]
fn prose_has_paragraphs_and_code() {
    assert_eq!(prose("a `b<c`\nd\n\ne ` f"), "<p>a <code>b&lt;c</code>\nd</p>\n<p>e ` f</p>\n");
    assert_eq!(prose(""), "");
}

#[test]
fn index_lists_our_reports_and_no_other_pages() {
    let folder = Folder::new("index");
    Report::new("b-second", "Second & last").summary(NASTY).write(&folder.0).unwrap();
    fs::write(folder.0.join("stranger.html"), "<title>Not ours</title>").unwrap();
    fs::write(folder.0.join("notes.txt"), "x").unwrap();
    Report::new("a_first", "First")
        .finding(Mark::Holds, "x", "1")
        .finding(Mark::FallsShort, "y", "2")
        .write(&folder.0)
        .unwrap();
    let index = folder.read("index.html");
    assert_well_formed(&index);
    assert!(index.contains("2 reports in this folder."));
    assert!(!index.contains("stranger") && !index.contains("<script"));
    let first = index.find("<a href=\"a_first.html\">First</a>").expect("the first report");
    let second = index.find("<a href=\"b-second.html\">Second &amp; last</a>").expect("the second");
    assert!(first < second);
    assert!(index.contains("✓ 1 finding holds") && index.contains("✗ 1 falls short"));
    assert!(index.contains("&lt;script&gt;alert(&#39;x&#39;)"), "the summary, escaped once");
    fs::remove_file(folder.0.join("a_first.html")).unwrap();
    Report::new("c", "Third").write(&folder.0).unwrap();
    assert!(!folder.read("index.html").contains("a_first"), "made anew each time");
}

#[test]
fn names_that_cannot_name_a_file_are_refused() {
    let folder = Folder::new("names");
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    for name in ["", "index", "Index", "../up", "a/b", "a b", "a.b", "\u{e9}", &long] {
        let error = Report::new(name, "t").write(&folder.0).unwrap_err();
        assert!(matches!(error, ReportError::BadName { .. }), "{name:?}: {error}");
    }
    assert!(!folder.0.exists(), "nothing was written");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = Folder::new("taken");
    fs::write(&folder.0, "a file").unwrap();
    let error = Report::new("x", "t").write(&folder.0).unwrap_err();
    assert!(matches!(error, ReportError::Folder { .. }), "{error}");
    fs::remove_file(&folder.0).unwrap();
}

proptest! {
    #[test]
    fn escaping_can_be_undone_and_leaves_no_markup(text in "[ -~\n\u{a0}-\u{2fff}]*") {
        let escaped = escape(&text);
        prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
        let printable = !text.chars().any(|c| c.is_control() && c != '\n');
        prop_assert!(!printable || unescape(&escaped) == text);
    }
}

#[test]
fn a_short_run_says_so_on_its_page() {
    let page = Report::new("a3", "A³").summary("What it saves.").short().to_html();
    assert!(page.contains("not for quoting. What it saves."));
}
