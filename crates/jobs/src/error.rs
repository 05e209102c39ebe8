//! The errors of jobs.

use crate::role::Role;
use std::io::ErrorKind;
use std::path::PathBuf;
use thiserror::Error;
use voxalign_compute::ComputeError;
use voxalign_compute::comm::CommError;
use voxalign_elasticity::ElasticityError;
use voxalign_image::ImageError;
use voxalign_image::memory::OutOfMemory;
use voxalign_io::IoError;
use voxalign_io::text::listed;
use voxalign_options::{OptionError, Text, text};
use voxalign_population::PopulationError;
use voxalign_register::RegisterError;
use voxalign_register::compare::CompareError;
use voxalign_report::ReportError;
use voxalign_segment::SegmentError;

/// A job that did not do its work. What is said of options is data: [`text`](Self::text) has them as parts.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Bad input or options.
    #[error("{0}")]
    Input(Text),
    /// An option that cannot be used as it is given.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// An option that would be ignored, such as `bins` or `clip = false`, and what it is for.
    #[error("{}", self.text())]
    Ignored(&'static str, Text),
    /// A file or folder that holds several images, of which one is needed.
    #[error("{}", self.text())]
    Several {
        /// Where, and what there is.
        found: String,
        /// What chooses one: `volume` or `series`.
        by: Choosing,
        /// The option that does, where the job has one.
        option: Option<String>,
    },
    /// Memory that could not be had: it says nothing of the input.
    #[error("{0}")]
    Memory(Text),
    /// A defect of the program or of the machine.
    #[error("internal error: {0}; please report this, with the steps that led to it")]
    Internal(String),
    /// A GPU or its driver failed.
    #[error("{}", self.text())]
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
    #[error("{}", self.text())]
    Saved(PathBuf),
    /// The listener asked for it, and what was found before is written in this folder.
    #[error("stopped; the results so far are in '{}'", .0.display())]
    Ended(PathBuf),
}

/// How one of several images is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choosing {
    /// By the number of a volume.
    Volume,
    /// By the number or UID of a series, of which this is the list.
    Series(String),
}

/// Result with [`Error`](enum@Error).
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Bad input, with what is wrong and what helps.
    pub fn input(message: impl Into<Text>) -> Self {
        Error::Input(message.into())
    }

    /// What is said of it, with options as parts.
    #[must_use]
    pub fn text(&self) -> Text {
        match self {
            Error::Input(text) | Error::Memory(text) => text.clone(),
            Error::Option(error) => error.clone().into(),
            Error::Ignored(option, is_for) => {
                Text::option(option).and(" is for ").and(is_for.clone()).and("; leave it out")
            }
            Error::Several { found, by, option } => several(found, by, option.as_deref()),
            Error::Gpu(failure) => text!("{failure}; `device = cpu` runs without the GPU"),
            Error::Saved(folder) => text!(
                "stopped; the same job with `resume` continues from the checkpoint in '{}'",
                folder.display()
            ),
            other => other.to_string().into(),
        }
    }

    /// The same of an image of which one of several can be chosen by options of this role; those of a CT are for it alone.
    pub(crate) fn choosing(self, role: Role) -> Self {
        let before = match role {
            Role::Fixed | Role::Frame => "fixed_",
            Role::Moving => "moving_",
            Role::Ct => "",
            _ => return self,
        };
        match self {
            Error::Several { found, by, .. } => {
                let option = Some(format!("{before}{}", by.option()));
                Error::Several { found, by, option }
            }
            Error::Input(text) => {
                let of_image = |name: &str| matches!(name, "channel" | "window");
                Error::Input(text.renamed(|name| of_image(name).then(|| format!("{before}{name}"))))
            }
            other => other,
        }
    }

    /// The same of a sequence of which this was `written` before, such as `the result of the previous frame is`.
    pub(crate) fn after(self, written: &str, folder: &std::path::Path) -> Self {
        let end = format!("; {written} in '{}'", folder.display());
        match self {
            Error::Memory(text) => Error::Memory(text.and(end)),
            error if error.is_of_input() => Error::Input(error.text().and(end)),
            other => other,
        }
    }

    /// The same with a prefix that says where, such as an option's name.
    #[must_use]
    pub fn at(self, place: impl Into<Text>) -> Self {
        let at = |text: Text| place.into().and(": ").and(text);
        match self {
            Error::Memory(text) => Error::Memory(at(text)),
            error if error.is_of_input() => Error::Input(at(error.text())),
            other => other,
        }
    }

    /// The same where what are options elsewhere are keys of a file.
    #[must_use]
    pub(crate) fn of_keys(self) -> Self {
        match self.is_of_input() {
            true => Error::Input(self.text().said(&|name, _| format!("'{name}'")).into()),
            false => self,
        }
    }

    /// Whether input or options are to blame.
    #[must_use]
    pub fn is_of_input(&self) -> bool {
        matches!(
            self,
            Error::Input(_) | Error::Option(_) | Error::Ignored(..) | Error::Several { .. }
        )
    }
}

impl Choosing {
    fn option(&self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Series(_) => "series",
        }
    }
}

/// That there are several images where one is needed.
fn several(found: &str, by: &Choosing, option: Option<&str>) -> Text {
    let choose = match option {
        Some(option) => text!("choose one with `{option}`, or extract it first"),
        None => "take one out first".into(),
    };
    let text = Text::from(format!("{found}; ")).and(choose);
    match by {
        Choosing::Volume => text.and(", for example by `voxalign convert IN OUT --volume 0`"),
        Choosing::Series(list) => text.and(format!(
            ", by its number or UID, for example by `voxalign convert IN OUT --series 1`:\n  {list}"
        )),
    }
}

/// What helps against values that are not finite.
const REPLACE: &str = "replace them first: `voxalign convert IN OUT --replace-nan 0`";

impl From<IoError> for Error {
    fn from(error: IoError) -> Self {
        match error {
            // The library knows no options.
            IoError::NotALabel { .. } => Error::Input(text!(
                "{error}; `voxalign apply` keeps label maps intact with `interpolation = label`"
            )),
            IoError::SeveralVolumes { ref path, ref dims, volumes } => Error::Several {
                found: format!(
                    "'{}': one 3D volume is needed, the file has sizes {dims:?} ({volumes} volumes)",
                    path.display()
                ),
                by: Choosing::Volume,
                option: None,
            },
            IoError::SeveralSeries { ref path, ref problem, ref series } => Error::Several {
                found: format!("'{}': {problem}", path.display()),
                by: Choosing::Series(listed(series.iter().map(ToString::to_string), "\n  ")),
                option: None,
            },
            IoError::GeometryNeeded { .. } => Error::Input(text!(
                "{error}; in the program, by `--fixed-geometry IMAGE` and `--moving-geometry IMAGE`"
            )),
            IoError::Busy { .. } => Error::Input(text!("{error} as `output`")),
            IoError::OutOfMemory { .. } => Error::Memory(error.to_string().into()),
            IoError::System { ref source, .. } if source.kind() == ErrorKind::OutOfMemory => {
                Error::Memory(error.to_string().into())
            }
            IoError::Image { ref source, .. } if matches!(**source, ImageError::OutOfMemory(_)) => {
                Error::Memory(error.to_string().into())
            }
            _ => {
                let said = error.to_string();
                let remedy = error.remedy().unwrap_or_default();
                let before = said.strip_suffix(remedy).unwrap_or(&said);
                Error::Input(Text::from(before).and(Text::quoted(remedy)))
            }
        }
    }
}

impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::OutOfMemory(_) => Error::Memory(error.to_string().into()),
            ImageError::Elsewhere(_) => Error::Gpu(error.to_string()),
            _ => Error::Input(error.to_string().into()),
        }
    }
}

impl From<CompareError> for Error {
    fn from(error: CompareError) -> Self {
        Error::Input(error.to_string().into())
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
            ComputeError::OutOfMemory { .. } => Error::Memory(error.to_string().into()),
            ComputeError::Length { .. } | ComputeError::Backend { .. } => {
                Error::Internal(error.to_string())
            }
            _ => Error::Input(error.to_string().into()),
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
            ReportError::OutOfMemory(_) => Error::Memory(text!("{error}, by `report = false`")),
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
            PopulationError::Option(error) => error.into(),
            PopulationError::Exchange(_) => Error::Internal(error.to_string()),
            PopulationError::Input { file, what } => {
                Error::Input(text!("'{}': {what}", file.display()))
            }
            PopulationError::Unreadable { file, what } => Error::Input(text!(
                "'{}': {what}; `exclude = unreadable` leaves such subjects out",
                file.display()
            )),
            PopulationError::Subject { file, source } => {
                Error::from(*source).at(format!("'{}'", file.display()))
            }
            // The library knows no commands.
            PopulationError::NotFinite { .. } => Error::Input(text!("{error}; {REPLACE}")),
            PopulationError::OtherGrid { .. } => Error::Input(text!(
                "{error}; bring it onto that grid first: `voxalign apply -i IMAGE -r REFERENCE -o OUT` \
                 (masks and labels with `interpolation` nearest)"
            )),
            PopulationError::Mirrored { .. } => {
                Error::Input(text!("{error}, or leave it out, as `exclude = outlying` does"))
            }
            PopulationError::OtherDevice { ref made, .. } => Error::Input(text!(
                "{error}; give `device = {made}` to go on, or start anew without `resume`"
            )),
            PopulationError::Damaged { .. } => Error::Input(text!(
                "{error}; start anew without `resume`, or put back a copy of the checkpoint"
            )),
            PopulationError::OtherCheckpoint { .. } => Error::Input(text!(
                "{error}; give the same images and options, or start anew without `resume`"
            )),
            _ => Error::Input(error.to_string().into()),
        }
    }
}

impl From<CommError> for Error {
    fn from(error: CommError) -> Self {
        match error {
            CommError::Device(error) => error.into(),
            CommError::Unavailable(message) => Error::Input(message.into()),
            CommError::Peer { .. } => Error::Peer(error.to_string()),
            CommError::Mismatch { .. } | CommError::Argument { .. } => {
                Error::Internal(error.to_string())
            }
            _ => Error::Ranks(error.to_string()),
        }
    }
}

impl From<ElasticityError> for Error {
    fn from(error: ElasticityError) -> Self {
        match error {
            ElasticityError::OutOfMemory(refused) => refused.into(),
            ElasticityError::Image(error) => error.into(),
            _ => Error::Input(error.to_string().into()),
        }
    }
}

impl From<SegmentError> for Error {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::Stopped => Error::Stopped,
            SegmentError::OutOfMemory(refused) => refused.into(),
            SegmentError::Length { .. } => Error::Internal(error.to_string()),
            _ => Error::Input(error.to_string().into()),
        }
    }
}

impl From<RegisterError> for Error {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Stopped => Error::Stopped,
            RegisterError::Compute(error) => error.into(),
            RegisterError::Image(error) => error.into(),
            RegisterError::Option(error) => error.into(),
            RegisterError::Compare(error) => error.into(),
            RegisterError::Elasticity(error) => error.into(),
            // The library knows no options.
            RegisterError::NotFinite { .. } => Error::Input(text!("{error}; {REPLACE}")),
            RegisterError::MaskGrid { .. } => Error::Input(text!(
                "{error}; bring it onto that grid first: `voxalign apply -i MASK -r IMAGE \
                 --interpolation nearest -o MASK_ON_IMAGE`"
            )),
            RegisterError::NoOverlap { .. } => {
                Error::Input(text!("{error}; use `init = centre` or `init = moments`"))
            }
            RegisterError::Unreadable(error) => match error.downcast::<IoError>() {
                Ok(error) => Error::from(*error),
                Err(error) => Error::Input(error.to_string().into()),
            },
            RegisterError::Diverged { .. } => Error::Input(text!(
                "{error}; use a smaller `step` (`time_step` of an elastic body), or more smoothing (`sigma`, `total_sigma`, or `alpha`)"
            )),
            _ => Error::Input(error.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;
    use voxalign_register::diffeo::{Lddmm, Matching};

    #[test]
    fn what_the_libraries_found_is_said_with_options() {
        let lddmm = Lddmm { time_steps: 0, ..Lddmm::default() };
        let error = Matching::of(lddmm.into()).check().unwrap_err();
        let of_library = error.to_string();
        assert_eq!(of_library, "`time_steps` is 0; give a number from 1 to 1000");
        let said = Error::from(error).to_string();
        assert_eq!(said, "`time_steps` is 0; give a number from 1 to 1000");
        // An error within another keeps its remedy.
        let source =
            Box::new(RegisterError::NotFinite { role: voxalign_register::Role::Moving, count: 2 });
        let error = PopulationError::Subject { file: "a.nii".into(), source };
        assert!(!error.to_string().contains("--"), "{error}");
        assert_eq!(
            Error::from(error).to_string(),
            format!("'a.nii': the moving image has 2 voxels that are NaN or infinite; {REPLACE}")
        );
        let (made, here) = ("cpu".to_owned(), "cuda".to_owned());
        let said = Error::from(PopulationError::OtherDevice { path: "a".into(), made, here });
        assert!(said.to_string().contains("give `device = cpu` to go on"), "{said}");
        let what = "this checkpoint is damaged".to_owned();
        let said = Error::from(PopulationError::Damaged { path: "a".into(), what });
        assert!(said.to_string().contains("start anew without `resume`"), "{said}");
        let grid = Grid::axis_aligned([2, 3, 4], [1.0; 3]).unwrap().to_string();
        let error = RegisterError::MaskGrid {
            role: voxalign_register::Role::FixedMask,
            mask: grid.clone(),
            image: grid,
        };
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
            "cuda:0 (a GPU): out of memory: 4.0 KiB were requested, 1.0 KiB are free; use smaller images, or \
             free some of that memory; `device = cpu` runs without the GPU"
        );
    }
}
