//! `voxalign stack`: operators over many images, streamed through bounded memory.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::progress::Talk;
use crate::tables;
use voxalign_jobs::stack::Job;

/// What `voxalign stack --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign stack mean warped/*.nii.gz -o mean.nii.gz
  voxalign stack mean --list subjects.csv -o mean.nii.gz
  voxalign stack normalise raw/*.nii.gz -o normalised --range 0,1
  voxalign stack smooth raw/*.nii.gz -o smooth --sigma 2
  voxalign stack energy warped/*.nii.gz --reference mean.nii.gz -o energy.csv

All images must be on one grid; `voxalign apply` resamples them onto one. Reading, computing and
writing go on at the same time, and memory does not grow with the number of images. Results do not
depend on the order of the images (except for window-mean) nor on the number of threads. A list has
a line for each image, as for `voxalign atlas`: the column `path`, relative to the folder of the
list, and optionally `weight`. A folder of results has files with the names of the images, with
.nii.gz instead of formats of two files; they appear together when all are complete.

Beside an image or a table OUT there is its record OUT.json, such as mean.nii.gz.json; in a folder
it is result.json. It has the version, the command, all parameters, the checksums of the images
(taken while they are read), times and the memory that was used.";

/// Arguments of `voxalign stack`.
pub(crate) type StackArgs = JobArgs<Job>;

/// Makes the result.
pub(crate) fn run(args: StackArgs) -> Result<Outcome, Failure> {
    let times = args.run.talk() == Talk::Verbose;
    job::run(args, |record, output| tables::stack(record, output, times))
}
