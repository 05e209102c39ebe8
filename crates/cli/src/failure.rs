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
    #[error("{0}; `--device cpu` runs without the GPU")]
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
    #[error("stopped; the same command with --resume continues from the checkpoint in '{}'", .0.display())]
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

/// What helps against values that are not finite.
const REPLACE: &str = "replace them first: `voxalign convert IN OUT --replace-nan 0`";

/// What users call the parameters of the libraries, by the names that these have there.
const OPTIONS: [(&str, &str); 36] = [
    ("dof", "--dof"),
    ("bins", "--bins"),
    ("apodise", "--apodise"),
    ("levels", "--levels"),
    ("search angles", "--search-angles"),
    ("search steps", "--search-steps"),
    ("fixed weight", "--fixed-weight"),
    ("affine", "--affine"),
    ("model", "--model"),
    ("channel", "--channel"),
    ("channel weight", "the weight of --channel"),
    ("histogram match", "--histogram-match"),
    ("radius", "--radius"),
    ("schedule", "--schedule"),
    ("step", "--step"),
    ("convergence", "--convergence"),
    ("convergence window", "--convergence-window"),
    ("sigma", "--sigma"),
    ("total sigma", "--total-sigma"),
    ("lddmm sigma", "--lddmm-sigma"),
    ("time steps", "--time-steps"),
    ("path storage", "--path-storage"),
    ("solver", "--solver"),
    ("alpha", "--alpha"),
    ("beta", "--beta"),
    ("gamma", "--gamma"),
    ("solver iterations", "--solver-iterations"),
    ("solver tolerance", "--solver-tolerance"),
    ("covariate", "--at"),
    ("bandwidth", "--bandwidth"),
    ("cohort size", "--stability"),
    ("number of cohorts", "--cohorts"),
    ("weights", "--weights"),
    ("weight", "a number of --weights"),
    ("sum of the weights", "the sum of --weights"),
    ("range", "--range"),
];

/// What users call a parameter of the libraries.
fn named(parameter: &str) -> String {
    let found = OPTIONS.iter().find(|(name, _)| *name == parameter);
    found.map_or_else(|| format!("the {parameter}"), |(_, option)| (*option).to_owned())
}

impl From<IoError> for Failure {
    fn from(error: IoError) -> Self {
        match error {
            // The library knows no options.
            IoError::NotALabel { .. } => Failure::Input(format!(
                "{error}; `voxalign apply` keeps label maps intact with --interpolation label"
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
                Failure::Input(format!("{} is {value}; {remedy}", named(option)))
            }
            PopulationError::Exchange(_) => Failure::Internal(error.to_string()),
            PopulationError::Input { file, what } => {
                Failure::Input(format!("'{}': {what}", file.display()))
            }
            PopulationError::Subject { file, source } => {
                Failure::from(*source).at(&format!("'{}'", file.display()))
            }
            // The library knows no commands.
            PopulationError::NotFinite { .. } => Failure::Input(format!("{error}; {REPLACE}")),
            PopulationError::OtherGrid { .. } => Failure::Input(format!(
                "{error}; bring it onto that grid first: `voxalign apply -i IMAGE -r REFERENCE -o OUT` \
                 (masks and labels with --interpolation nearest)"
            )),
            PopulationError::Mirrored { .. } => {
                Failure::Input(format!("{error}, or leave it out, as `--exclude outlying` does"))
            }
            PopulationError::OtherDevice { ref made, .. } => Failure::Input(format!(
                "{error}; give --device {made} to go on, or start anew without --resume"
            )),
            PopulationError::Damaged { .. } => Failure::Input(format!(
                "{error}; start anew without --resume, or put back a copy of the checkpoint"
            )),
            PopulationError::OtherCheckpoint { .. } => Failure::Input(format!(
                "{error}; give the same images and options, or start anew without --resume"
            )),
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
                Failure::Input(format!("{} is {value}; {remedy}", named(option)))
            }
            RegisterError::Compare(error) => error.into(),
            RegisterError::Other(error) => match error.downcast::<PopulationError>() {
                Ok(error) => (*error).into(),
                Err(error) => Failure::Input(error.to_string()),
            },
            // The library knows no options.
            RegisterError::NotFinite { .. } => Failure::Input(format!("{error}; {REPLACE}")),
            RegisterError::MaskGrid { .. } => Failure::Input(format!(
                "{error}; bring it onto that grid first: `voxalign apply -i MASK -r IMAGE \
                 --interpolation nearest -o MASK_ON_IMAGE`"
            )),
            RegisterError::NoOverlap { .. } => {
                Failure::Input(format!("{error}; use --init centre or --init moments"))
            }
            RegisterError::Diverged { .. } => Failure::Input(format!(
                "{error}; use a smaller --step, or more smoothing (--sigma, --total-sigma, or --alpha)"
            )),
            _ => Failure::Input(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use clap::CommandFactory;
    use voxalign_image::Grid;
    use voxalign_register::diffeo::DeformOptions;

    /// The options of all commands.
    fn options() -> Vec<String> {
        let program = Cli::command();
        let mut commands: Vec<_> = program.get_subcommands().collect();
        let nested: Vec<_> = commands.iter().flat_map(|c| c.get_subcommands()).collect();
        commands.extend(nested);
        let arguments = commands.iter().flat_map(|c| c.get_arguments());
        arguments.filter_map(|a| a.get_long().map(|name| format!("--{name}"))).collect()
    }

    #[test]
    fn parameters_of_the_libraries_go_by_options_that_are_there() {
        let all = options();
        for (parameter, words) in OPTIONS {
            let option = words.split(' ').find(|word| word.starts_with("--")).unwrap();
            assert!(all.iter().any(|o| o == option), "{parameter}: {option}");
        }
        assert_eq!(named("memory that may be used"), "the memory that may be used");
    }

    #[test]
    fn the_program_words_what_the_libraries_found() {
        let wrong = DeformOptions { time_steps: 0, ..DeformOptions::default() };
        let error = wrong.check().unwrap_err();
        let of_library = error.to_string();
        assert_eq!(of_library, "time steps is 0; give a number from 1 to 1000");
        let said = Failure::from(error).to_string();
        assert_eq!(said, "--time-steps is 0; give a number from 1 to 1000");
        // An error within another keeps its remedy.
        let source = Box::new(RegisterError::NotFinite { role: "moving", count: 2 });
        let error = PopulationError::Subject { file: "a.nii".into(), source };
        assert!(!error.to_string().contains("--"), "{error}");
        let within = RegisterError::Other(Box::new(error));
        assert_eq!(
            Failure::from(within).to_string(),
            format!("'a.nii': the moving image has 2 voxels that are NaN or infinite; {REPLACE}")
        );
        let (made, here) = ("cpu".to_owned(), "cuda".to_owned());
        let said = Failure::from(PopulationError::OtherDevice { path: "a".into(), made, here });
        assert!(said.to_string().contains("give --device cpu to go on"), "{said}");
        let what = "this checkpoint is damaged".to_owned();
        let said = Failure::from(PopulationError::Damaged { path: "a".into(), what });
        assert!(said.to_string().contains("start anew without --resume"), "{said}");
        let grid = Grid::axis_aligned([2, 3, 4], [1.0; 3]).unwrap().to_string();
        let error = RegisterError::MaskGrid { role: "fixed mask", mask: grid.clone(), image: grid };
        assert!(!error.to_string().contains("--"), "{error}");
        assert!(Failure::from(error).to_string().contains("--interpolation nearest"));
    }

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
            "cuda:0 (a GPU): out of memory: 4.0 KiB were asked for, 1.0 KiB are free; use smaller \
             images, or free what else is in that memory; `--device cpu` runs without the GPU"
        );
    }
}
