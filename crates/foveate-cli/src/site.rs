//! What browsers are served: the built page, the game's documents, the laboratory's reports.

use foveate_io::web::{Page, Pages};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

mod built {
    include!(concat!(env!("OUT_DIR"), "/page.rs"));
}

/// Paths of the page, which shows different contents for each.
const ROUTES: [&str; 4] = ["/", "/play", "/observatory", "/lab"];
/// Served in place of a page that was not built.
const NO_PAGE: &str = "<!doctype html><meta charset=utf-8><title>Foveate</title>\
    <p>This program was built without its page. <code>cargo xtask play</code> builds both; or run \
    <code>npm ci &amp;&amp; npm run build</code> in <code>web/</code> and build the program again.";
/// Most reports that are listed.
const MAX_REPORTS: usize = 256;

/// The pages of one server.
#[derive(Default)]
pub struct Site {
    documents: BTreeMap<&'static str, Page>,
    reports: Option<PathBuf>,
}

impl Site {
    /// A site with the reports of a folder, as `foveate lab --report` writes them.
    pub fn new(reports: Option<PathBuf>) -> Site {
        Site { documents: BTreeMap::new(), reports }
    }

    /// Adds a document.
    pub fn with(mut self, path: &'static str, kind: &'static str, text: String) -> Site {
        self.documents.insert(path, Page::fresh(kind, text));
        self
    }

    /// Whether the page is embedded in the program.
    pub fn is_built() -> bool {
        !built::FILES.is_empty()
    }
}

impl Pages for Site {
    fn page(&self, path: &str) -> Option<Page> {
        if let Some(document) = self.documents.get(path) {
            return Some(document.clone());
        }
        if let (Some(folder), Some(name)) = (&self.reports, path.strip_prefix("/reports/")) {
            return report(folder, name);
        }
        if !Site::is_built() {
            return ROUTES
                .contains(&path)
                .then(|| Page::fresh("text/html; charset=utf-8", NO_PAGE));
        }
        let path = if ROUTES.contains(&path) { "/index.html" } else { path };
        let (_, bytes) = built::FILES.iter().find(|(name, _)| *name == path)?;
        let page = match path.starts_with("/assets/") {
            // Their names contain a hash.
            true => Page::forever(content_type(path), *bytes),
            false => Page::fresh(content_type(path), *bytes),
        };
        Some(page)
    }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("webp") => "image/webp",
        Some("woff2") => "font/woff2",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    }
}

/// A report, or the list of them. Names are compared with those of existing files, so that none leads out of the
/// folder.
fn report(folder: &Path, name: &str) -> Option<Page> {
    let found = reports(folder);
    if name == "index.json" {
        let row = |report: &Report| {
            let Report { name, experiment, title, made, .. } = report;
            json!({ "experiment": experiment, "title": title, "path": name, "made": made })
        };
        let rows: Vec<_> = found.iter().map(row).collect();
        return Some(Page::fresh("application/json", json!(rows).to_string()));
    }
    let report = found.into_iter().find(|report| report.name == name)?;
    Some(Page::fresh(content_type(name), report.text))
}

struct Report {
    name: String,
    experiment: String,
    title: String,
    /// Seconds since 1970.
    made: u64,
    text: String,
}

/// The reports in a folder, newest first.
fn reports(folder: &Path) -> Vec<Report> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<Report> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let experiment = name.strip_suffix(".html").filter(|name| *name != "index")?.to_owned();
            let made = entry.metadata().and_then(|data| data.modified()).ok();
            let text = std::fs::read_to_string(entry.path()).ok()?;
            let title = text.split_once("<title>")?.1.split_once("</title>")?.0.to_owned();
            let made = made.unwrap_or(SystemTime::UNIX_EPOCH).duration_since(UNIX_EPOCH);
            let made = made.map_or(0, |since| since.as_secs());
            Some(Report { name, experiment, title, made, text })
        })
        .take(MAX_REPORTS)
        .collect();
    found.sort_by(|a, b| b.made.cmp(&a.made).then(a.name.cmp(&b.name)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_listed_and_nothing_else_in_or_outside_the_folder_is_served() {
        let folder = std::env::temp_dir().join(format!("foveate-site-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        std::fs::write(folder.join("a3.html"), "<title>A³</title>").unwrap();
        std::fs::write(folder.join("index.html"), "<title>all</title>").unwrap();
        std::fs::write(folder.join("secret.txt"), "no").unwrap();
        std::fs::write(folder.join("inner/vfc.html"), "<title>no</title>").unwrap();
        let site = Site::new(Some(folder.join("inner")));
        for path in ["/reports/../a3.html", "/reports/..%2fa3.html", "/reports//etc/passwd"] {
            assert_eq!(site.page(path), None, "{path}");
        }
        let site = Site::new(Some(folder.clone()));
        let list = site.page("/reports/index.json").unwrap();
        let list: serde_json::Value = serde_json::from_slice(&list.bytes).unwrap();
        assert_eq!(list.as_array().unwrap().len(), 1);
        assert_eq!((&list[0]["path"], &list[0]["title"]), (&"a3.html".into(), &"A³".into()));
        assert!(site.page("/reports/a3.html").is_some());
        assert_eq!(site.page("/reports/secret.txt"), None);
        assert!(Site::new(None).page("/reports/index.json").is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn without_a_built_page_a_hint_is_served() {
        let page = Site::default().page("/").unwrap();
        let text = String::from_utf8_lossy(&page.bytes).into_owned();
        assert!(Site::is_built() || text.contains("cargo xtask play"));
        assert!(Site::default().page("/no/such/thing").is_none());
    }
}
