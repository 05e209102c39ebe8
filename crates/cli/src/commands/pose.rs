//! `voxalign pose`: finds the rigid pose of a CT from X-ray images of it.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::tables;
use voxalign_jobs::Job as _;
use voxalign_jobs::pose::Job;
use voxalign_report::track::FrameRecord;

/// What `voxalign pose --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign pose ct.nii.gz front.png side.png --geometry views.toml -o out
      from two images, whose views are the tables of views.toml in the same order
  voxalign pose ct.nii.gz sim -o out
      from the images in a folder written by voxalign drr
  voxalign pose ct.nii.gz xa1.dcm xa2.dcm -o out --pixels intensity
      from DICOM images whose headers contain the geometry
  voxalign pose bone.nii.gz cam1.tif cam2.tif -o out --units relative \\
      --geometry cam1.txt --geometry cam2.txt --init start.tfm --range 10,10
      a bone from two calibrated cameras (MayaCam, or OpenCV), near a start
  voxalign pose bone.nii.gz cam1.tif cam2.tif -o out --units relative --geometry views.toml \\
      --init points:bone.csv,seen.csv
      from points of bone.csv (label,x,y,z) and their positions in the images, seen.csv
      (label,view,column,row)
  voxalign pose bone.nii.gz cam1.tif -o out --units relative --geometry views.toml --search full
      all rotations, with the CT in the middle of what the views show: give a 'region' around a bone
  voxalign pose ct.nii.gz front.png --geometry views.toml -o out --similarity mi --sampling 0.05
      mutual information of 5 % of the pixels
  voxalign pose ct.nii.gz front.png side.png --geometry views.toml -o out --refine distance
      uncertain distances from source to detector: they are refined with the pose and written
      to out/views.toml
  voxalign pose ct.nii.gz --stream front/ --stream side/ --geometry views.toml -o out
      track the CT over the images of two folders, one pose per line
  grabber | voxalign pose ct.nii.gz --stream - --geometry views.toml -o out --json
      the same with raw 16-bit frames, one per view in turn; each line is the JSON of a pose
  voxalign pose --config job.toml -o out
      all options from a file: keys are the long option names, `ct` the CT and `xrays` the images;
      the command line takes precedence; paths are relative to the current folder

The search starts with the room of the views identical to the world of the CT, or at --init, evaluates
many poses within --range, and refines the best of them from coarse to fine pixels until the pose
converges. If the verdict would be bad, it searches all rotations, unless --search is given.
Pixels that show what the CT lacks (metal, markers, text) are detected and masked, and values that are a
nonlinear function of attenuation are linearised, with a remark; --metal keep and --response keep turn
this off.
Pose parameters are those of voxalign drr: rotation around --centre, then translation.

Written to DIR (older files with these names are replaced):
  affine.tfm       the pose: from the room (fixed) to the world of the CT (moving), for ITK and ANTs
  ct_to_room.tfm   its inverse: from the world of the CT to the room
  drr_NAME.nii.gz  the simulated image of each view at the pose
  views.toml       with --refine: the refined views, for --geometry of pose and drr
  result.json      verdict, pose, uncertainty, cost along each parameter, parameters, checksums
  report.html      X-ray and simulated images before and after, edges, costs; opens offline
With --stream, track.csv has the pose of each frame, affine.tfm the last good one, and there are no
simulated images. A lost track is reported at once, and a search for it begins; if the stream breaks
off, the results so far are written.

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
        Ok(lines.end::<FrameRecord>(&done))
    })
}
