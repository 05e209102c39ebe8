//! How a command ends.

use std::io::ErrorKind;
use std::path::PathBuf;
use thiserror::Error;
use voxalign_compute::ComputeError;
use voxalign_compute::comm::CommError;
use voxalign_image::ImageError;
use voxalign_image::memory::OutOfMemory;
use voxalign_io::IoError;
use voxalign_population::PopulationError;
use voxalign_register::RegisterError;
use voxalign_register::compare::CompareError;
use voxalign_report::ReportError;

/// A command that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The result is good, or there was nothing to judge.
    Good,
    /// The result is written, but its verdict is bad.
    Bad,
}

impl Outcome {
    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Outcome::Good => 0,
            Outcome::Bad => 1,
        }
    }
}

/// A command that did not do its work.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// Bad input or options.
    #[error("{0}")]
    Input(String),
    /// Memory that could not be had: it says nothing of the input.
    #[error("{0}")]
    Memory(String),
    /// Options that do not parse; clap has said why.
    #[error("the options are not valid")]
    Usage,
    /// A defect of the program or of the machine.
    #[error("internal error: {0}; please report this, with the command that led to it")]
    Internal(String),
    /// A GPU or its driver failed.
    #[error("{0}; `--device cpu` does without the GPU")]
    Gpu(String),
    /// Another process of the run failed, and says why itself.
    #[error("{0}")]
    Peer(String),
    /// The processes of the run could not work together.
    #[error("{0}")]
    Ranks(String),
    /// Standard output took no more.
    #[error("cannot write to standard output: {0}")]
    Output(String),
    /// The user stopped it.
    #[error("stopped; nothing was written")]
    Stopped,
    /// The user stopped it, and it can go on from a checkpoint in a folder.
    #[error("stopped; the same command with --resume goes on from the checkpoint in '{}'", .0.display())]
    Saved(PathBuf),
}

impl Failure {
    /// Bad input, with what is wrong and what helps.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Failure::Input(message.into())
    }

    /// The exit code; 130 is the custom for an interrupt.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Input(_) | Failure::Memory(_) | Failure::Usage => 2,
            Failure::Internal(_)
            | Failure::Gpu(_)
            | Failure::Peer(_)
            | Failure::Ranks(_)
            | Failure::Output(_) => 3,
            Failure::Stopped | Failure::Saved(_) => 130,
        }
    }

    /// The same with a prefix that says where, such as an option's name.
    pub(crate) fn at(self, place: &str) -> Self {
        match self {
            Failure::Input(message) => Failure::Input(format!("{place}: {message}")),
            Failure::Memory(message) => Failure::Memory(format!("{place}: {message}")),
            other => other,
        }
    }
}

impl From<IoError> for Failure {
    fn from(error: IoError) -> Self {
        match error {
            // The library knows no options.
            IoError::NotALabel { .. } => Failure::Input(format!(
                "{error}; a label map stays one under `voxalign apply` by --interpolation label"
            )),
            IoError::GeometryNeeded { .. } => {
                Failure::Input(format!("{error}; give --fixed-geometry and --moving-geometry"))
            }
            IoError::OutOfMemory { .. } => Failure::Memory(error.to_string()),
            IoError::System { ref source, .. } if source.kind() == ErrorKind::OutOfMemory => {
                Failure::Memory(error.to_string())
            }
            IoError::Image { ref source, .. } if matches!(**source, ImageError::OutOfMemory(_)) => {
                Failure::Memory(error.to_string())
            }
            _ => Failure::Input(error.to_string()),
        }
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::OutOfMemory(_) => Failure::Memory(error.to_string()),
            _ => Failure::Input(error.to_string()),
        }
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        Failure::Input(error.to_string())
    }
}

impl From<ComputeError> for Failure {
    fn from(error: ComputeError) -> Self {
        match error {
            ComputeError::Backend { ref device, .. }
            | ComputeError::OutOfMemory { ref device, .. }
                if device.starts_with("cuda") =>
            {
                Failure::Gpu(error.to_string())
            }
            ComputeError::OutOfMemory { .. } => Failure::Memory(error.to_string()),
            ComputeError::Length { .. } | ComputeError::Backend { .. } => {
                Failure::Internal(error.to_string())
            }
            _ => Failure::Input(error.to_string()),
        }
    }
}

impl From<OutOfMemory> for Failure {
    fn from(refused: OutOfMemory) -> Self {
        ImageError::from(refused).into()
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::OutOfMemory(_) => Failure::Memory(format!("{error}, by --no-report")),
            _ => Failure::Internal(error.to_string()),
        }
    }
}

impl From<PopulationError> for Failure {
    fn from(error: PopulationError) -> Self {
        match error {
            PopulationError::Stopped => Failure::Stopped,
            PopulationError::Register(error) => error.into(),
            PopulationError::Compute(error) => error.into(),
            PopulationError::Ranks(error) => error.into(),
            PopulationError::File(error) => error.into(),
            PopulationError::Image(error) => error.into(),
            PopulationError::Option { option, value, remedy } => {
                Failure::Input(format!("--{option} cannot be {value}: {remedy}"))
            }
            PopulationError::Input { file, what } => {
                Failure::Input(format!("'{}': {what}", file.display()))
            }
            _ => Failure::Input(error.to_string()),
        }
    }
}

impl From<CommError> for Failure {
    fn from(error: CommError) -> Self {
        match error {
            CommError::Device(error) => error.into(),
            CommError::Unavailable(message) => Failure::Input(message),
            CommError::Peer { .. } => Failure::Peer(error.to_string()),
            CommError::Mismatch { .. } | CommError::Argument { .. } => {
                Failure::Internal(error.to_string())
            }
            _ => Failure::Ranks(error.to_string()),
        }
    }
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Stopped => Failure::Stopped,
            RegisterError::Compute(error) => error.into(),
            RegisterError::Image(error) => error.into(),
            RegisterError::Option { option, value, remedy } => {
                Failure::Input(format!("--{option} cannot be {value}: {remedy}"))
            }
            _ => Failure::Input(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_runs_out_is_no_fault_of_the_input() {
        let refused = OutOfMemory { bytes: 5 << 20, free: Some(1 << 20) };
        let file = PathBuf::from("a.nii");
        let all = [
            Failure::from(refused),
            Failure::from(ComputeError::from(refused)),
            Failure::from(RegisterError::from(refused)),
            Failure::from(PopulationError::from(refused)),
            Failure::from(ReportError::from(refused)),
            Failure::from(IoError::OutOfMemory { path: file.clone(), bytes: 5 << 20 }),
            Failure::from(IoError::Image { path: file, source: Box::new(refused.into()) }),
        ];
        for failure in all {
            assert!(matches!(failure, Failure::Memory(_)), "{failure:?}");
            assert_eq!(failure.code(), 2);
            let said = failure.to_string();
            assert!(said.contains("memory") && said.contains('5'), "{said}");
        }
    }

    #[test]
    fn a_gpu_without_memory_is_told_with_what_helps() {
        let device = "cuda:0 (a GPU)".to_owned();
        let error = ComputeError::OutOfMemory { device, bytes: 4096, free: Some(1024) };
        let failure = Failure::from(RegisterError::Compute(error));
        assert_eq!(failure.code(), 3);
        assert_eq!(
            failure.to_string(),
            "cuda:0 (a GPU): out of memory: 4096 bytes were asked for, 1024 are free; use smaller \
             images, or free what else is in that memory; `--device cpu` does without the GPU"
        );
    }
}
