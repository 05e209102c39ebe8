//! `voxalign drr`: simulates X-ray images of a CT.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::tables;
use voxalign_jobs::drr::Job;

/// What `voxalign drr --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign drr ct.nii.gz -o out --view ap,lateral
      from the front and from the right, on detectors that show the whole CT
  voxalign drr dicom_folder -o out --primary 30 --secondary -15 --size 1024,1024 --pixel 0.3
      a C-arm 30 degrees to the left (LAO) and 15 to the feet (caudal)
  voxalign drr ct.nii.gz -o out --gantry 90 --source-to-detector 1540 --format dicom --energy 1500
      a treatment machine with its source at the patient's left, and its megavolts
  voxalign drr ct.nii.gz -o out --geometry views.toml --pose found/affine.tfm
      the views of a file, of the CT as `voxalign pose` found it
  voxalign drr ct.nii.gz -o out --labels bones.nii.gz --only 3,4 --values intensity --photons 1e5
      some bones alone, as a detector counts 100000 photons, with noise
  voxalign drr --config job.toml -o out
      all options from a file: keys are the long option names, `ct` the CT; the command line takes
      precedence; paths are relative to the current folder

The room of the views is the world of the CT, RAS mm, in which --rotation and --translation move the
CT. Rays run from the source to the centres of pixels; the value of a pixel is the line integral of
attenuation, 1/mm, which follows from Hounsfield units and the energy of the photons.

Written to DIR (older files with these names are replaced):
  NAME.png, NAME.nii.gz, ...   an image of each view; NAME_0000, NAME_0001, ... of a sequence
  views.toml                   the views, for --geometry here and of `voxalign pose`
  result.json                  parameters, geometry, versions, checksums of the inputs
  report.html                  the images, and the positions of sources and detectors; opens offline

Exit codes: 0 done, 2 bad input or options (nothing is written), 3 internal error, 130 stopped.";

/// Arguments of `voxalign drr`.
pub(crate) type DrrArgs = JobArgs<Job>;

/// Does the job.
pub(crate) fn run(args: DrrArgs) -> Result<Outcome, Failure> {
    job::run(args, tables::drr)
}
