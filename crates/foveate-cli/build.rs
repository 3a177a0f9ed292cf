//! Embeds the built page in the program, if it has been built.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let app =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web/app");
    println!("cargo:rerun-if-changed=build.rs");
    // Watch the whole folder, to notice the page's first build too.
    if app.is_dir() {
        println!("cargo:rerun-if-changed={}", app.display());
    }
    let (built, mut found) = (app.join("dist"), Vec::new());
    if built.is_dir() {
        collect(&built, &built, &mut found)?;
    }
    found.sort();
    let rows: String = found
        .iter()
        .map(|(path, file)| format!("    ({path:?}, include_bytes!({file:?})),\n"))
        .collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("page.rs"), format!("pub static FILES: &[(&str, &[u8])] = &[\n{rows}];\n"))
}

fn collect(base: &Path, folder: &Path, found: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(base, &path, found)?;
        } else if let Ok(relative) = path.strip_prefix(base) {
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            found.push((format!("/{}", parts.join("/")), path.canonicalize()?));
        }
    }
    Ok(())
}
