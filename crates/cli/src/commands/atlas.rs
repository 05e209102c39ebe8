//! `voxalign atlas`: builds the unbiased mean of many images.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::progress::Talk;
use crate::{device, ranks, tables};
use clap::Args;
use serde::{Deserialize, Serialize};
use voxalign_jobs::Job as _;
use voxalign_jobs::atlas::Job;
use voxalign_jobs::team::{self, TeamOptions};

/// What `voxalign atlas --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign atlas t1/*.nii.gz -o atlas
      an affine registration of all subjects to their mean, then the template and the
      deformations of all subjects to it, from coarse to fine
  voxalign atlas --list subjects.csv -o atlas --spacing 2
      a list with a line for each subject; an atlas with 2 mm voxels
  voxalign atlas aligned/*.nii.gz -o atlas --align none --model lddmm --similarity ssd
      images that are already aligned
  voxalign atlas t1/*.nii.gz -o atlas --align rigid --schedule 4x50,2x30
      differences in size are left to the deformations
  voxalign atlas --list subjects.csv -o atlas --regress age --at 65,70,75,80 --bandwidth 5
      the atlas at each of these ages, and the volumes of labels over them
  voxalign atlas t1/*.nii.gz -o test --stability 2..14 --cohorts 100
      how many subjects an atlas needs: 100 atlases of randomly chosen subjects, for each
      number of subjects from 2 to 14
  mpirun -np 4 --bind-to none voxalign atlas --list subjects.csv -o atlas
      four processes share the subjects (or start them by srun; see docs/cluster.md)
  voxalign atlas --list subjects.csv -o atlas --resume
      continues an atlas that was stopped, was killed, or ran out of memory or disk space
  voxalign atlas t1/*.nii.gz -o atlas --device-memory 20GiB --scratch /local/scratch
      20 GiB of each GPU; subjects that do not fit are kept in host memory, and then on disk
  voxalign atlas --config job.toml -o atlas
      all options from a file: keys are the long option names, `images` the images; the
      command line takes precedence; paths are relative to the current folder
  voxalign atlas people/*.toml -o atlas
      anatomies instead of images: tissue probabilities, surfaces, curves, points and landmarks
      together; the template has each of them, and each subject is mapped to it by one
      deformation (see `voxalign anatomy --help` for the files)
  voxalign atlas raw/*.nii.gz -o atlas --exclude unreadable,outlying
      leaves out files that cannot be read and images that are unlike all others

The list is a CSV file with a header line: the column path, and any of name, weight, mask (voxels above 0
count), labels (a label map, to report the overlap), channel2, channel3, ... (further images of the
same subject, on any grid), and numeric columns of any other name. Instead of an image the path may be
that of the file of an anatomy. Paths are relative to the folder of the list.

The result does not depend on the order of the images, on the number of threads, GPUs or processes,
on memory, or on interruptions.

Written to DIR (older files with these names are replaced):
  atlas.nii.gz                        the template: the mean of the subjects in their mean shape
  atlas_affine.nii.gz                 their mean after affine alignment only, for comparison
  variance.nii.gz                     the variance over the subjects, calibrated units squared
  entropy.nii.gz                      the entropy over the subjects at each voxel, bits
  log_jacobian.nii.gz                 the mean logarithm of the subjects' changes of volume
  labels.nii.gz                       the most frequent label, if there are label maps
  subjects/NAME/warp.nii.gz           displacements on the grid of the atlas (ANTs: 1Warp)
  subjects/NAME/inverse_warp.nii.gz   their inverse (ANTs: 1InverseWarp)
  subjects/NAME/affine.tfm            the affine part, atlas to subject (ANTs: 0GenericAffine)
  subjects/NAME/warped.nii.gz         the subject on the grid of the atlas, calibrated
  subjects/NAME/jacobian.nii.gz       Jacobian determinant of the warp
  shapes/NAME.*                       of anatomies: the surfaces (.surf.gii), curves and points (.vtk)
                                      and landmarks (.csv) of the template, with the
                                      variability of each point over the subjects (variation_mm)
  subjects/NAME/shapes/NAME.*         the same mapped to the subject, vertex by vertex
  report.html                         everything on one page: pictures, curves, subjects, verdict
  result.json                         verdict, subjects, energies, parameters, checksums
With --regress: at_VALUE/ with the images above for each value, volumes.csv, report.html,
result.json.
With --stability: cohorts.csv (a row per atlas), sizes.csv (a row per size), report.html,
result.json.
To resample a subject onto the atlas: voxalign apply -i SUBJECT -r atlas.nii.gz
-t subjects/NAME/warp.nii.gz -t subjects/NAME/affine.tfm -o w.nii.gz

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options, or no space left (no result is written), 3 internal error, 130 stopped by
Ctrl-C. A run that was stopped, killed, or had no space leaves DIR/checkpoint for --resume.";

/// Arguments of `voxalign atlas`.
pub(crate) type AtlasArgs = JobArgs<OnTeam>;

/// The job, and how many GPUs it has.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OnTeam {
    #[command(flatten)]
    #[serde(flatten)]
    job: Job,
    #[command(flatten)]
    #[serde(flatten)]
    team: TeamOptions,
}

impl job::Of for OnTeam {
    type Job = Job;

    fn job(&self) -> &Job {
        &self.job
    }

    fn tells_plan(&self) -> Result<bool, Failure> {
        Ok(ranks::world()?.is_first())
    }
}

/// Builds the atlas.
pub(crate) fn run(args: AtlasArgs) -> Result<Outcome, Failure> {
    job::with(args, |args, caller, printer| {
        let OnTeam { job, team: TeamOptions { gpus } } = &args.job;
        let machine = team::start(args.run.running.machine, *gpus, ranks::world()?, printer)?;
        device::start_threads(Some(machine.threads))?;
        device::keep(&machine);
        let done = job.find(&machine, (), caller, printer)?;
        printer.finish();
        let talk = if ranks::is_first() { args.run.talk() } else { Talk::Quiet };
        tables::tell(&done, (args.json, talk), tables::built)
    })
}
