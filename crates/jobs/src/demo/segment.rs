//! The white matter of the template, which its maps of tissues say as well.

use super::{FIXED, FIXED_LABELS};
use crate::error::Result;
use crate::files;
use crate::listener::Listener;
use crate::segment::{Job, Preset};
use crate::staged::Staged;
use std::path::Path;
use voxalign_image::{LabelMap, memory};
use voxalign_io::image::{self, DataType};
use voxalign_options::Chosen;
use voxalign_segment::dice;

/// The label of white matter in the map of tissues.
const WHITE: i32 = 3;

/// Writes the template and its tissues into a folder; gives the job that finds white matter.
///
/// # Errors
/// What the system says, memory that runs out.
pub fn write(inputs: &Path, folder: &Path, listener: &dyn Listener) -> Result<Job> {
    let (template, _) = image::read_volume_from_bytes("icbm152_t1.nii.gz", FIXED)?;
    let mut staged = Staged::new(inputs, listener)?;
    let bytes = files::write_options(DataType::U8, 3);
    image::write_volume(staged.path("t1.nii.gz")?, &template, &bytes)?;
    image::write_labels(staged.path("tissues.nii.gz")?, &tissues()?, &bytes)?;
    staged.commit()?;
    let mut job = Job::new(inputs.join("t1.nii.gz"), folder);
    job.options.preset = Chosen::of(Preset::WhiteMatter);
    Ok(job)
}

/// The tissues of the template.
fn tissues() -> Result<LabelMap> {
    Ok(image::read_labels_from_bytes("icbm152_tissues.nii.gz", FIXED_LABELS)?)
}

/// Dice of what was found in a folder and the white matter of the map of tissues.
///
/// # Errors
/// A file that cannot be read, memory that runs out.
pub fn agreement(folder: &Path) -> Result<f64> {
    let found = image::read_labels(folder.join("labels.nii.gz"))?;
    let of = |map: &LabelMap, label: i32| memory::collected(map.data().iter().map(|l| *l == label));
    Ok(dice(&of(&found, 1)?, &of(&tissues()?, WHITE)?)?)
}
