//! The errors of jobs.

use std::io::ErrorKind;
use std::path::PathBuf;
use thiserror::Error;
use voxalign_compute::ComputeError;
use voxalign_compute::comm::CommError;
use voxalign_image::ImageError;
use voxalign_image::memory::OutOfMemory;
use voxalign_io::IoError;
use voxalign_io::text::listed;
use voxalign_population::PopulationError;
use voxalign_register::RegisterError;
use voxalign_register::compare::CompareError;
use voxalign_report::ReportError;

/// A job that did not do its work. Options are named in backticks.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Bad input or options.
    #[error("{0}")]
    Input(String),
    /// Memory that could not be had: it says nothing of the input.
    #[error("{0}")]
    Memory(String),
    /// A defect of the program or of the machine.
    #[error("internal error: {0}; please report this, with what led to it")]
    Internal(String),
    /// A GPU or its driver failed.
    #[error("{0}; `device = cpu` runs without the GPU")]
    Gpu(String),
    /// Another process of the run failed, and says why itself.
    #[error("{0}")]
    Peer(String),
    /// The processes of the run could not work together.
    #[error("{0}")]
    Ranks(String),
    /// The listener asked for it.
    #[error("stopped; nothing was written")]
    Stopped,
    /// As [`Stopped`](Self::Stopped); the job can go on from a checkpoint in this folder.
    #[error("stopped; the same job with `resume` continues from the checkpoint in '{}'", .0.display())]
    Saved(PathBuf),
    /// The listener asked for it, and what was found before is written in this folder.
    #[error("stopped; what was found before is in '{}'", .0.display())]
    Ended(PathBuf),
}

/// Result with [`Error`](enum@Error).
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Bad input, with what is wrong and what helps.
    pub fn input(message: impl Into<String>) -> Self {
        Error::Input(message.into())
    }

    /// The same of an image of which one of several can be chosen by options of this role; those of a CT are for it alone.
    pub(crate) fn choosing(self, role: &str) -> Self {
        let take = "take one out first";
        match self {
            Error::Input(message)
                if message.contains(take) && ["fixed", "moving", "ct"].contains(&role) =>
            {
                let option = if message.contains("--volume") { "volume" } else { "series" };
                let of = if role == "ct" { String::new() } else { format!("{role}_") };
                let choose = format!("choose one by `{of}{option}`, or take it out first");
                Error::Input(message.replacen(take, &choose, 1))
            }
            other => other,
        }
    }

    /// The same of a sequence of which so many frames were written before.
    pub(crate) fn after(self, frames: usize, folder: &std::path::Path) -> Self {
        let written = match frames {
            1 => "the pose of the frame before is".to_owned(),
            n => format!("the poses of the {n} frames before are"),
        };
        let add = |message: String| format!("{message}; {written} in '{}'", folder.display());
        match self {
            Error::Input(message) => Error::Input(add(message)),
            Error::Memory(message) => Error::Memory(add(message)),
            other => other,
        }
    }

    /// The same with a prefix that says where, such as an option's name.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        match self {
            Error::Input(message) => Error::Input(format!("{place}: {message}")),
            Error::Memory(message) => Error::Memory(format!("{place}: {message}")),
            other => other,
        }
    }
}

/// What helps against values that are not finite.
const REPLACE: &str = "replace them first: `voxalign convert IN OUT --replace-nan 0`";

/// Parameters of the libraries that are options of jobs.
pub(crate) const PARAMETERS: [&str; 35] = [
    "landmark_weight",
    "energy",
    "water",
    "sampling",
    "dof",
    "bins",
    "apodise",
    "levels",
    "search_angles",
    "search_steps",
    "fixed_weight",
    "affine",
    "model",
    "channel",
    "histogram_match",
    "radius",
    "schedule",
    "step",
    "convergence",
    "convergence_window",
    "sigma",
    "total_sigma",
    "lddmm_sigma",
    "time_steps",
    "path_storage",
    "solver",
    "alpha",
    "beta",
    "gamma",
    "solver_iterations",
    "solver_tolerance",
    "bandwidth",
    "weights",
    "range",
    "similarity",
];

/// What other parameters of the libraries are called.
const OTHERWISE: [(&str, &str); 12] = [
    ("start", "`init`"),
    ("range of a frame", "`frame_range`"),
    ("range of the search", "`range`"),
    ("number of starts", "`starts`"),
    ("number of restarts", "`restarts`"),
    ("level", "a number of `levels`"),
    ("channel weight", "the weight of `channel`"),
    ("covariate", "`at`"),
    ("cohort size", "`stability`"),
    ("number of cohorts", "`cohorts`"),
    ("weight", "a number of `weights`"),
    ("sum of the weights", "the sum of `weights`"),
];

/// What users call a parameter of the libraries.
fn named(parameter: &str) -> String {
    let option = parameter.replace(' ', "_");
    if PARAMETERS.contains(&option.as_str()) {
        return format!("`{option}`");
    }
    let found = OTHERWISE.iter().find(|(name, _)| *name == parameter);
    found.map_or_else(|| format!("the {parameter}"), |(_, is)| (*is).to_owned())
}

impl From<IoError> for Error {
    fn from(error: IoError) -> Self {
        match error {
            // The library knows no options.
            IoError::NotALabel { .. } => Error::Input(format!(
                "{error}; `voxalign apply` keeps label maps intact with `interpolation = label`"
            )),
            IoError::SeveralVolumes { ref path, ref dims, volumes } => Error::Input(format!(
                "'{}': one 3D volume is needed, the file has sizes {dims:?} ({volumes} volumes); take one out \
                 first, for example by `voxalign convert IN OUT --volume 0`",
                path.display()
            )),
            IoError::SeveralSeries { ref path, ref problem, ref series } => {
                let list = listed(series.iter().map(ToString::to_string), "\n  ");
                Error::Input(format!(
                    "'{}': {problem}; take one out first, by its number or UID, for example by `voxalign convert \
                     IN OUT --series 1`:\n  {list}",
                    path.display()
                ))
            }
            IoError::GeometryNeeded { .. } => Error::Input(format!(
                "{error}; in the program, by `--fixed-geometry IMAGE` and `--moving-geometry IMAGE`"
            )),
            IoError::Busy { .. } => Error::Input(format!("{error} as `output`")),
            IoError::OutOfMemory { .. } => Error::Memory(error.to_string()),
            IoError::System { ref source, .. } if source.kind() == ErrorKind::OutOfMemory => {
                Error::Memory(error.to_string())
            }
            IoError::Image { ref source, .. } if matches!(**source, ImageError::OutOfMemory(_)) => {
                Error::Memory(error.to_string())
            }
            _ => Error::Input(error.to_string()),
        }
    }
}

impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::OutOfMemory(_) => Error::Memory(error.to_string()),
            _ => Error::Input(error.to_string()),
        }
    }
}

impl From<CompareError> for Error {
    fn from(error: CompareError) -> Self {
        Error::Input(error.to_string())
    }
}

impl From<ComputeError> for Error {
    fn from(error: ComputeError) -> Self {
        match error {
            ComputeError::Backend { ref device, .. }
            | ComputeError::OutOfMemory { ref device, .. }
                if device.starts_with("cuda") =>
            {
                Error::Gpu(error.to_string())
            }
            ComputeError::OutOfMemory { .. } => Error::Memory(error.to_string()),
            ComputeError::Length { .. } | ComputeError::Backend { .. } => {
                Error::Internal(error.to_string())
            }
            _ => Error::Input(error.to_string()),
        }
    }
}

impl From<OutOfMemory> for Error {
    fn from(refused: OutOfMemory) -> Self {
        ImageError::from(refused).into()
    }
}

impl From<ReportError> for Error {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::OutOfMemory(_) => Error::Memory(format!("{error}, by `report = false`")),
            _ => Error::Internal(error.to_string()),
        }
    }
}

impl From<PopulationError> for Error {
    fn from(error: PopulationError) -> Self {
        match error {
            PopulationError::Stopped => Error::Stopped,
            PopulationError::Register(error) => error.into(),
            PopulationError::Compute(error) => error.into(),
            PopulationError::Ranks(error) => error.into(),
            PopulationError::File(error) => error.into(),
            PopulationError::Image(error) => error.into(),
            PopulationError::Option { option, value, remedy } => {
                Error::Input(format!("{} is {value}; {remedy}", named(option)))
            }
            PopulationError::Exchange(_) => Error::Internal(error.to_string()),
            PopulationError::Input { file, what } => {
                Error::Input(format!("'{}': {what}", file.display()))
            }
            PopulationError::Subject { file, source } => {
                Error::from(*source).at(&format!("'{}'", file.display()))
            }
            // The library knows no commands.
            PopulationError::NotFinite { .. } => Error::Input(format!("{error}; {REPLACE}")),
            PopulationError::OtherGrid { .. } => Error::Input(format!(
                "{error}; bring it onto that grid first: `voxalign apply -i IMAGE -r REFERENCE -o OUT` \
                 (masks and labels with `interpolation` nearest)"
            )),
            PopulationError::Mirrored { .. } => {
                Error::Input(format!("{error}, or leave it out, as `exclude = outlying` does"))
            }
            PopulationError::OtherDevice { ref made, .. } => Error::Input(format!(
                "{error}; give `device = {made}` to go on, or start anew without `resume`"
            )),
            PopulationError::Damaged { .. } => Error::Input(format!(
                "{error}; start anew without `resume`, or put back a copy of the checkpoint"
            )),
            PopulationError::OtherCheckpoint { .. } => Error::Input(format!(
                "{error}; give the same images and options, or start anew without `resume`"
            )),
            _ => Error::Input(error.to_string()),
        }
    }
}

impl From<CommError> for Error {
    fn from(error: CommError) -> Self {
        match error {
            CommError::Device(error) => error.into(),
            CommError::Unavailable(message) => Error::Input(message),
            CommError::Peer { .. } => Error::Peer(error.to_string()),
            CommError::Mismatch { .. } | CommError::Argument { .. } => {
                Error::Internal(error.to_string())
            }
            _ => Error::Ranks(error.to_string()),
        }
    }
}

impl From<RegisterError> for Error {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Stopped => Error::Stopped,
            RegisterError::Compute(error) => error.into(),
            RegisterError::Image(error) => error.into(),
            RegisterError::Option { option, value, remedy } => {
                Error::Input(format!("{} is {value}; {remedy}", named(option)))
            }
            RegisterError::Compare(error) => error.into(),
            RegisterError::Other(error) => match error.downcast::<PopulationError>() {
                Ok(error) => (*error).into(),
                Err(error) => Error::Input(error.to_string()),
            },
            // The library knows no options.
            RegisterError::NotFinite { .. } => Error::Input(format!("{error}; {REPLACE}")),
            RegisterError::MaskGrid { .. } => Error::Input(format!(
                "{error}; bring it onto that grid first: `voxalign apply -i MASK -r IMAGE \
                 --interpolation nearest -o MASK_ON_IMAGE`"
            )),
            RegisterError::NoOverlap { .. } => {
                Error::Input(format!("{error}; use `init = centre` or `init = moments`"))
            }
            RegisterError::Diverged { .. } => Error::Input(format!(
                "{error}; use a smaller `step`, or more smoothing (`sigma`, `total_sigma`, or `alpha`)"
            )),
            _ => Error::Input(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;
    use voxalign_register::diffeo::DeformOptions;

    #[test]
    fn what_the_libraries_found_is_said_with_options() {
        let wrong = DeformOptions { time_steps: 0, ..DeformOptions::default() };
        let error = wrong.check().unwrap_err();
        let of_library = error.to_string();
        assert_eq!(of_library, "time steps is 0; give a number from 1 to 1000");
        let said = Error::from(error).to_string();
        assert_eq!(said, "`time_steps` is 0; give a number from 1 to 1000");
        // An error within another keeps its remedy.
        let source = Box::new(RegisterError::NotFinite { role: "moving", count: 2 });
        let error = PopulationError::Subject { file: "a.nii".into(), source };
        assert!(!error.to_string().contains("--"), "{error}");
        let within = RegisterError::Other(Box::new(error));
        assert_eq!(
            Error::from(within).to_string(),
            format!("'a.nii': the moving image has 2 voxels that are NaN or infinite; {REPLACE}")
        );
        let (made, here) = ("cpu".to_owned(), "cuda".to_owned());
        let said = Error::from(PopulationError::OtherDevice { path: "a".into(), made, here });
        assert!(said.to_string().contains("give `device = cpu` to go on"), "{said}");
        let what = "this checkpoint is damaged".to_owned();
        let said = Error::from(PopulationError::Damaged { path: "a".into(), what });
        assert!(said.to_string().contains("start anew without `resume`"), "{said}");
        let grid = Grid::axis_aligned([2, 3, 4], [1.0; 3]).unwrap().to_string();
        let error = RegisterError::MaskGrid { role: "fixed mask", mask: grid.clone(), image: grid };
        assert!(!error.to_string().contains("--"), "{error}");
        assert!(Error::from(error).to_string().contains("--interpolation nearest"));
    }

    #[test]
    fn memory_that_runs_out_is_no_fault_of_the_input() {
        let refused = OutOfMemory { bytes: 5 << 20, free: Some(1 << 20) };
        let file = PathBuf::from("a.nii");
        let all = [
            Error::from(refused),
            Error::from(ComputeError::from(refused)),
            Error::from(RegisterError::from(refused)),
            Error::from(PopulationError::from(refused)),
            Error::from(ReportError::from(refused)),
            Error::from(IoError::OutOfMemory { path: file.clone(), bytes: 5 << 20 }),
            Error::from(IoError::Image { path: file, source: Box::new(refused.into()) }),
        ];
        for failure in all {
            assert!(matches!(failure, Error::Memory(_)), "{failure:?}");
            let said = failure.to_string();
            assert!(said.contains("memory") && said.contains('5'), "{said}");
        }
    }

    #[test]
    fn a_gpu_without_memory_is_told_with_what_helps() {
        let device = "cuda:0 (a GPU)".to_owned();
        let error = ComputeError::OutOfMemory { device, bytes: 4096, free: Some(1024) };
        let failure = Error::from(RegisterError::Compute(error));
        assert!(matches!(failure, Error::Gpu(_)));
        assert_eq!(
            failure.to_string(),
            "cuda:0 (a GPU): out of memory: 4.0 KiB were asked for, 1.0 KiB are free; use smaller \
             images, or free what else is in that memory; `device = cpu` runs without the GPU"
        );
    }
}
