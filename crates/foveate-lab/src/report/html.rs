//! The page around the contents: escaping, style, layout.

/// Escapes text for an element or a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // HTML cannot represent control characters.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Reverses [`escape`] for our own pages.
pub(super) fn unescape(text: &str) -> String {
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    // The ampersand is replaced last: its result must not be taken for another escape.
    pairs.iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// Prose: blank lines divide paragraphs, backticks set code.
pub(super) fn prose(text: &str) -> String {
    let mut html = String::new();
    for paragraph in text.split("\n\n").map(str::trim).filter(|text| !text.is_empty()) {
        html.push_str("<p>");
        html.push_str(&inline(paragraph));
        html.push_str("</p>\n");
    }
    html
}

/// Text in which backticks set code. An unpaired backtick stays as it is.
pub(super) fn inline(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let unpaired = parts.len().is_multiple_of(2);
    let mut html = String::new();
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        match (index % 2 == 1, is_last && unpaired) {
            (true, true) => html.push_str(&format!("`{}", escape(part))),
            (true, false) => html.push_str(&format!("<code>{}</code>", escape(part))),
            (false, _) => html.push_str(&escape(part)),
        }
    }
    html
}

/// The data in a page's head, which `index` reads back.
pub(super) struct Head<'a> {
    pub title: &'a str,
    pub summary: &'a str,
    /// Numbers of findings that hold, fall short, and inform.
    pub findings: [usize; 3],
}

/// Marks a page as ours, so that the index lists no others.
pub(super) const GENERATOR: &str = "<meta name=\"generator\" content=\"foveate-lab\">";
pub(super) const SUMMARY_OPENS: &str = "<meta name=\"description\" content=\"";
pub(super) const FINDINGS_OPEN: &str = "<meta name=\"foveate-findings\" content=\"";

/// A whole page.
pub(super) fn page(head: &Head<'_>, body: &str) -> String {
    let (title, summary) = (escape(head.title), escape(head.summary));
    let [holds, short, info] = head.findings;
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n{GENERATOR}\n{SUMMARY_OPENS}{summary}\">\n\
         {FINDINGS_OPEN}{holds} {short} {info}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// One style for reports and index. Series colours can be told apart with any of the common colour deficiencies (after
/// Okabe and Ito), with enough contrast on a light and on a dark background.
const STYLE: &str = include_str!("style.css");
