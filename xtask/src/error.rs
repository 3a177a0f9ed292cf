//! Errors of a run, each with what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why a run stopped. It leaves nothing behind but build output.
#[derive(Debug)]
pub enum TaskError {
    /// The arguments are not a command.
    Usage(&'static str),
    /// A name given to `test` is not a step.
    UnknownStep { name: String, known: Vec<&'static str> },
    /// A step failed; later steps did not run.
    Step { name: &'static str, cause: Box<TaskError> },
    /// A program could not be started.
    Start { command: String, source: io::Error },
    /// A program ran and failed.
    Failed { command: String, status: ExitStatus },
    /// A file or folder could not be read or written.
    Read { path: PathBuf, source: io::Error },
    /// A lab command ran, but its result is not valid.
    Result { command: String, what: String },
    /// A required program is not installed.
    Missing { program: &'static str, install: &'static str },
    /// Measures cost clearly more than the committed figures; the table has been printed.
    Costlier { measures: Vec<String> },
    /// The tree violates the house style; the findings have been printed.
    Untidy { findings: usize },
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(usage) => write!(f, "no such command\n{usage}"),
            Self::UnknownStep { name, known } => {
                write!(f, "no step is called `{name}`; the steps are: {}", known.join(", "))
            }
            Self::Step { name, cause } => {
                write!(f, "step `{name}` failed: {cause}; rerun it alone: cargo xtask test {name}")
            }
            Self::Start { command, source } => write!(f, "cannot start `{command}`: {source}"),
            Self::Failed { command, status } => write!(f, "`{command}` ended with {status}"),
            Self::Read { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Result { command, what } => write!(f, "`{command}`: {what}"),
            Self::Missing { program, install } => {
                write!(f, "{program} is not installed; install it: {install}")
            }
            Self::Costlier { measures } => {
                let measures = measures.join(", ");
                write!(
                    f,
                    "costs more than committed: {measures}; if that is meant: cargo xtask bench core --write"
                )
            }
            Self::Untidy { findings: 1 } => write!(f, "1 finding, named above"),
            Self::Untidy { findings } => write!(f, "{findings} findings, named above"),
        }
    }
}

impl std::error::Error for TaskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Step { cause, .. } => Some(cause.as_ref()),
            Self::Start { source, .. } | Self::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}
