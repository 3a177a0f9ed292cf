//! A disk with little room: a file system in memory, if this user may mount one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub struct SmallDisk {
    folder: PathBuf,
}

/// Whether a command succeeded. What it says is not shown.
fn run(program: &str, arguments: &[&str], folder: &Path) -> bool {
    let mut command = Command::new(program);
    let quiet = command.args(arguments).arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

impl SmallDisk {
    /// A disk of this size, such as `2m`; `None`, with a message, if it cannot be mounted.
    pub fn mount(name: &str, size: &str) -> Option<SmallDisk> {
        let folder =
            std::env::temp_dir().join(format!("foveate-disk-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let size = format!("size={size}");
        if !run("mount", &["-t", "tmpfs", "-o", &size, "none"], &folder) {
            println!("skipped: a small disk cannot be mounted here; it takes root");
            std::fs::remove_dir(&folder).expect("it is empty");
            return None;
        }
        Some(SmallDisk { folder })
    }

    /// Where it is mounted.
    pub fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    /// Makes it larger, as an operator would.
    pub fn grow(&self, size: &str) {
        let size = format!("remount,size={size}");
        assert!(run("mount", &["-o", &size], &self.folder), "it was mounted here");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &[], &self.folder);
        std::fs::remove_dir(&self.folder).unwrap_or(());
    }
}
