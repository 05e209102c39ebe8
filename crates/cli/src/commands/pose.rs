//! `voxalign pose`: the rigid pose of a CT by X-ray images of it.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::tables;
use voxalign_jobs::Job as _;
use voxalign_jobs::pose::Job;

/// What `voxalign pose --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign pose ct.nii.gz front.png side.png --geometry views.toml -o out
      by two images, whose views are the tables of views.toml in the same order
  voxalign pose ct.nii.gz sim -o out
      by the images in a folder that voxalign drr wrote, as it is
  voxalign pose ct.nii.gz xa1.dcm xa2.dcm -o out --pixels intensity
      by DICOM images whose headers say where they were taken from
  voxalign pose bone.nii.gz cam1.tif cam2.tif -o out --units relative \\
      --geometry cam1.txt --geometry cam2.txt --init start.tfm --range 10,10
      a bone by two calibrated cameras (MayaCam; those of OpenCV alike), near a start
  voxalign pose bone.nii.gz cam1.tif cam2.tif -o out --units relative --geometry views.toml \\
      --init points:bone.csv,seen.csv
      from where points of bone.csv (label,x,y,z) are in the images: seen.csv (label,view,column,row)
  voxalign pose bone.nii.gz cam1.tif -o out --units relative --geometry views.toml --search full
      all rotations, with the CT in the middle of what the views show: give a 'region' around a bone
  voxalign pose ct.nii.gz front.png --geometry views.toml -o out --similarity mi --sampling 0.05
      mutual information of a twentieth of the pixels
  voxalign pose ct.nii.gz front.png side.png --geometry views.toml -o out --refine distance
      distances from source to detector are not sure: they are refined with the pose, and out/views.toml has them
  voxalign pose ct.nii.gz --stream front/ --stream side/ --geometry views.toml -o out
      follow the CT over the images of two folders, one pose a line
  grabber | voxalign pose ct.nii.gz --stream - --geometry views.toml -o out --json
      over raw frames of 16 bits, one of each view in turn; each line is the JSON of a pose
  voxalign pose --config job.toml -o out
      all options from a file: keys are the long option names, `ct` the CT and `xrays` the images;
      the command line takes precedence; paths are relative to the current folder

The search begins with the CT in the room of the views as in its own world, or where --init puts it,
looks at many poses within --range, and refines the best of them from coarse to fine pixels, until the
pose stands still. Where the verdict would be bad, it looks at all rotations, unless --search says how far.
What an image shows and the CT does not (metal, markers, text) is found by its values and left out, and values
that are a bent function of attenuations are straightened, which a remark says: --metal keep and --response keep
leave them alone.
The numbers of a pose are those of voxalign drr: turned through --centre, then moved.

Written to DIR (older files with these names are replaced):
  affine.tfm       the pose: from the room (fixed) to the world of the CT (moving), for ITK and ANTs
  ct_to_room.tfm   its inverse: where in the room a point of the CT is
  drr_NAME.nii.gz  the simulated image of each view at the pose
  views.toml       with --refine the views as they were refined, for --geometry of pose and drr
  result.json      verdict, pose, uncertainty, cost along each parameter, parameters, checksums
  report.html      X-ray and simulated images before and after, edges, costs; opens offline
With --stream track.csv has the pose of each frame, affine.tfm the last one that is good, and there are no
simulated images. A lost track is said at once, and searched for from then on; where the stream breaks off,
what was found before is written.

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error, 130 stopped by Ctrl-C.";

/// Arguments of `voxalign pose`.
pub(crate) type PoseArgs = JobArgs<Job>;

/// Finds the pose, or those of a sequence.
pub(crate) fn run(args: PoseArgs) -> Result<Outcome, Failure> {
    job::with(args, |args, caller, printer| {
        if !args.job.is_sequence() {
            return job::find(args, (caller, printer), tables::pose);
        }
        let machine = args.run.machine(Job::AUTO)?;
        let mut lines = tables::Frames::new(args.json, args.run.talk());
        let done = args.job.track(&machine, caller, printer, &mut |frame| {
            printer.finish();
            lines.line(frame);
            Ok(())
        })?;
        Ok(lines.end(&done))
    })
}
