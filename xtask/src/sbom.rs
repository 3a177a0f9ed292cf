//! `cargo xtask sbom`: the components of the program, as a CycloneDX document.
//!
//! Made from `cargo metadata` and `Cargo.lock`, which the build uses, too: normal and build dependencies that the
//! features of the shipped program need, on every platform, without those of tests. It has no time and no random
//! number, so the same lock file gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::error::TaskError;
use crate::process;

/// The package that is shipped.
const PROGRAM: &str = "foveate-cli";
const METADATA: &[&str] = &["metadata", "--format-version", "1", "--locked"];

/// Writes the document to a file, or prints it.
pub fn run(root: &Path, file: Option<&str>) -> Result<(), TaskError> {
    let said = process::capture(&mut process::cargo(root, METADATA))?;
    let wrong = |what: &str| TaskError::Result {
        command: "cargo metadata".to_owned(),
        what: what.to_owned(),
    };
    let metadata: Value =
        serde_json::from_slice(&said).map_err(|error| wrong(&error.to_string()))?;
    let path = root.join("Cargo.lock");
    let lock = std::fs::read_to_string(&path).map_err(|source| TaskError::Read { path, source })?;
    let lock: toml::Table = lock.parse().map_err(|_| wrong("Cargo.lock cannot be read"))?;
    let bill = bill(&metadata, &checksums(&lock)).ok_or_else(|| wrong("it lacks the program"))?;
    let text = format!("{bill:#}\n");
    let Some(file) = file else {
        print!("{text}");
        return Ok(());
    };
    let path = root.join(file);
    std::fs::write(&path, text).map_err(|source| TaskError::Read { path, source })?;
    let count = bill["components"].as_array().map_or(0, Vec::len);
    println!("{file}: {count} components");
    Ok(())
}

/// SHA-256 of each package, by name and version.
fn checksums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    packages
        .into_iter()
        .flatten()
        .filter_map(|it| Some(((text(it, "name")?, text(it, "version")?), text(it, "checksum")?)))
        .collect()
}

/// Ids of the packages that a package is built from.
fn needs<'a>(metadata: &'a Value, id: &str) -> BTreeSet<&'a str> {
    let nodes = metadata["resolve"]["nodes"].as_array();
    let node = nodes.into_iter().flatten().find(|node| node["id"] == id);
    let all = node.and_then(|node| node["deps"].as_array()).into_iter().flatten();
    all.filter(|it| {
        let kinds = it["dep_kinds"].as_array();
        kinds.into_iter().flatten().any(|kind| kind["kind"] != "dev")
    })
    .filter_map(|it| it["pkg"].as_str())
    .collect()
}

fn bill(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Option<Value> {
    let packages = metadata["packages"].as_array()?;
    let package = |id: &str| packages.iter().find(|it| it["id"] == id);
    let program = packages.iter().find(|it| it["name"] == PROGRAM)?;
    let root = program["id"].as_str()?;
    let (mut found, mut open) = (BTreeMap::new(), vec![root]);
    while let Some(id) = open.pop() {
        if !found.contains_key(id) {
            let needs = needs(metadata, id);
            open.extend(&needs);
            found.insert(id, needs);
        }
    }
    let purl = |id: &str| {
        let it = package(id)?;
        Some(format!("pkg:cargo/{}@{}", it["name"].as_str()?, it["version"].as_str()?))
    };
    let component = |id: &str, kind: &str| {
        let it = package(id)?;
        let (name, version) = (it["name"].as_str()?, it["version"].as_str()?);
        let mut component = json!({
            "type": kind,
            "bom-ref": purl(id)?,
            "purl": purl(id)?,
            "name": name,
            "version": version,
        });
        if let Some(license) = it["license"].as_str() {
            // Old manifests separate alternatives by a slash.
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        if let Some(sum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        Some(component)
    };
    let others = found.keys().filter(|id| **id != root);
    let components: Option<Vec<Value>> = others.map(|id| component(id, "library")).collect();
    let dependencies: Option<Vec<Value>> = found
        .iter()
        .map(|(id, needs)| {
            let needs: Option<Vec<String>> = needs.iter().map(|id| purl(id)).collect();
            Some(json!({ "ref": purl(id)?, "dependsOn": needs? }))
        })
        .collect();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(root, "application")? },
        "components": components?,
        "dependencies": dependencies?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        let package = |name: &str, license: &str| json!({ "id": format!("id of {name}"), "name": name, "version": "1.2.3", "license": license });
        let dep = |name: &str, kind: Value| json!({ "pkg": format!("id of {name}"), "dep_kinds": [{ "kind": kind }] });
        let node =
            |name: &str, deps: Vec<Value>| json!({ "id": format!("id of {name}"), "deps": deps });
        json!({
            "packages": [
                package(PROGRAM, "MIT"), package("needed", "MIT/Apache-2.0"), package("builds", "ISC"),
                package("tests", "GPL-3.0"), package("stray", "MIT"),
            ],
            "resolve": { "nodes": [
                node(PROGRAM, vec![dep("needed", Value::Null), dep("tests", json!("dev"))]),
                node("needed", vec![dep("builds", json!("build")), dep("needed", Value::Null)]),
                node("builds", vec![]), node("tests", vec![]), node("stray", vec![]),
            ] },
        })
    }

    #[test]
    fn what_the_program_is_built_from_is_listed_and_nothing_else() {
        let sum = ("needed".to_owned(), "1.2.3".to_owned());
        let bill = bill(&sample(), &[(sum, "ab12".to_owned())].into()).unwrap();
        let names: Vec<_> =
            bill["components"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
        assert_eq!(names, ["builds", "needed"]);
        assert_eq!(bill["metadata"]["component"]["name"], PROGRAM);
        let needed = &bill["components"][1];
        assert_eq!(needed["purl"], "pkg:cargo/needed@1.2.3");
        assert_eq!(needed["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(needed["hashes"][0]["content"], "ab12");
        assert_eq!(bill["dependencies"].as_array().unwrap().len(), 3);
        assert_eq!(super::bill(&json!({ "packages": [] }), &BTreeMap::new()), None);
    }

    #[test]
    fn checksums_are_found_in_a_lock_file() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ff\"\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let found = checksums(&lock.parse().unwrap());
        assert_eq!(found, [(("a".to_owned(), "1.0.0".to_owned()), "ff".to_owned())].into());
    }
}
