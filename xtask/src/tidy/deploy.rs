//! Deployment files: named files exist, images are pinned, processes are not root and stop cleanly.

use super::Finding;
use super::tree::Tree;

const FOLDER: &str = "deploy/";
const IMAGE: &str = "deploy/Dockerfile";
const COMPOSE: &str = "deploy/compose.yaml";
/// Created by the operator; it must not be in the tree.
const SECRET: &str = "world.key";
/// Lines that every unit must have.
const UNIT: &[&str] = &["ExecStart=", "User=", "Restart=", "NoNewPrivileges=yes", "WantedBy="];
/// Lines that the image's last stage must have.
const STAGE: &[&str] = &["USER ", "ENTRYPOINT ", "STOPSIGNAL "];

/// Units, image and compose file follow the rules.
pub fn deployment_is_sound(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts().filter(|(file, _)| file.starts_with(FOLDER)) {
        if file.ends_with(".service") {
            findings.extend(missing(file, text, UNIT));
        }
        if file.ends_with(SECRET) {
            findings.push(Finding::new(file, 1, "a secret; remove it from the tree"));
        }
        for (line, words) in numbered(text) {
            let image = words.strip_prefix("FROM ").or(words.strip_prefix("image: "));
            let image = image.and_then(|rest| rest.split(' ').next());
            if image.is_some_and(|name| !name.contains(':') || name.ends_with(":latest")) {
                findings.push(Finding::new(file, line, "an image without a version; name one"));
            }
        }
    }
    if let Some(text) = tree.text(IMAGE) {
        let last = text.rfind("\nFROM ").map_or(text, |at| &text[at..]);
        findings.extend(missing(IMAGE, last, STAGE));
    }
    if let Some(text) = tree.text(COMPOSE) {
        findings.extend(compose(tree, text));
    }
    findings
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line.trim().trim_start_matches("- ")))
}

fn missing(file: &str, text: &str, wanted: &[&str]) -> Vec<Finding> {
    let has = |begin: &str| text.lines().any(|line| line.starts_with(begin));
    let gone = wanted.iter().filter(|begin| !has(begin));
    gone.map(|begin| Finding::new(file, 1, format!("no line `{begin}…`; add one"))).collect()
}

/// Files, volumes and secrets that are used exist; each port is published once.
fn compose(tree: &Tree, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let declared = |name: &str| text.lines().any(|line| line == format!("  {name}:"));
    let mut ports = Vec::new();
    for (line, words) in numbered(text) {
        if text.lines().nth(line - 1).is_some_and(|line| line.contains('\t')) {
            findings.push(Finding::new(COMPOSE, line, "a tab; YAML wants spaces"));
        }
        let file = words.strip_prefix("dockerfile: ").map(str::to_owned);
        let mounted = words.strip_prefix("./").and_then(|rest| rest.split(':').next());
        let mounted = mounted.map(|name| format!("{FOLDER}{name}"));
        if let Some(path) = file.or(mounted).filter(|path| !tree.has(path)) {
            findings.push(Finding::new(COMPOSE, line, format!("`{path}` is not there")));
        }
        let volume = words.split_once(":/").map(|(name, _)| name);
        let volume = volume.filter(|name| name.chars().all(|c| c.is_ascii_lowercase()));
        let used = words.strip_prefix("source: ").or(volume);
        if let Some(name) = used.filter(|name| !declared(name)) {
            findings.push(Finding::new(COMPOSE, line, format!("`{name}` is not declared")));
        }
        let port = words.strip_prefix('"').and_then(|rest| rest.split_once(':'));
        if let Some((outside, _)) = port {
            if ports.contains(&outside) {
                let what = format!("port {outside} is published twice");
                findings.push(Finding::new(COMPOSE, line, what));
            }
            ports.push(outside);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        deployment_is_sound(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_unit_states_its_program_and_user() {
        let unit = "[Service]\nExecStart=/x\nUser=y\nRestart=always\nNoNewPrivileges=yes\n\
                    [Install]\nWantedBy=z\n";
        assert!(found(&[("deploy/systemd/x.service", unit)]).is_empty());
        let root = unit.replace("User=y\n", "");
        let findings = found(&[("deploy/systemd/x.service", &root)]);
        assert_eq!(findings, ["deploy/systemd/x.service:1: no line `User=…`; add one"]);
    }

    #[test]
    fn an_image_is_pinned_and_not_root() {
        let image =
            "FROM a:1 AS build\nUSER x\n\nFROM b:2\nUSER y\nSTOPSIGNAL T\nENTRYPOINT [\"e\"]\n";
        assert!(found(&[("deploy/Dockerfile", image)]).is_empty());
        let root = image.replace("USER y\n", "").replace("b:2", "b:latest");
        let findings = found(&[("deploy/Dockerfile", &root)]);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("Dockerfile:4: an image without a version"), "{findings:?}");
        assert!(findings[1].contains("no line `USER …`"), "{findings:?}");
    }

    #[test]
    fn a_compose_file_names_existing_files() {
        let text = "services:\n  a:\n    image: n:1\n    volumes:\n      - ledger:/data\n      \
                    - ./r.toml:/r:ro\n    secrets:\n      - source: key\n    ports:\n      \
                    - \"1:2/udp\"\nsecrets:\n  key:\nvolumes:\n  ledger:\n";
        let files = [("deploy/r.toml", ""), (COMPOSE, text)];
        assert!(found(&files).is_empty(), "{:?}", found(&files));
        assert_eq!(found(&files[1..]).len(), 1, "the mounted file is gone");
        let wrong = text.replace("  ledger:\n", "").replace("  key:\n", "");
        assert_eq!(found(&[files[0], (COMPOSE, &wrong)]).len(), 2);
        let twice = text.replace("- \"1:2/udp\"", "- \"1:2/udp\"\n      - \"1:3/udp\"");
        assert_eq!(found(&[files[0], (COMPOSE, &twice)]).len(), 1);
        assert_eq!(found(&[("deploy/world.key", "secret")]).len(), 1);
    }
}
