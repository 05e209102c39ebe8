//! `voxalign surface`: extracts surfaces of labels, or an isosurface of an image.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::tables;
use voxalign_jobs::Job as _;
use voxalign_jobs::surface::Job;

/// What `voxalign surface --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign surface labels.nii.gz --label 47 -o hippocampus.gii
  voxalign surface labels.nii.gz --label 47,48 -o both.vtk --report
      one surface of two labels together, and both.vtk.html to look at it
  voxalign surface labels.nii.gz --label 4 -o v.ply --largest-component --fill-holes --keep 0.25
      without small fragments and cavities, and a quarter of the triangles
  voxalign surface ct.nii.gz --level 300 -o skull.stl --sigma 0.7 --triangles 200000
      isosurface of an image at 300 HU
  voxalign surface white_matter.nii.gz --level 0.5 -o white.surf.gii
      of probabilities
  voxalign surface labels.nii.gz --each -o surfaces --label-names names.csv --report
      one mesh of every label, such as surfaces/label_17_Left-Hippocampus.gii
  voxalign surface labels.nii.gz --each --label 17,53 -o surfaces --format vtp --keep 0.5
  voxalign surface slice.nii.gz --label 3 -o outline.vtk
      outlines in a 2D image
  voxalign surface --config job.toml labels.nii.gz -o out.gii
      options from a file: keys are the long option names, `image` the image

The surface is in world millimetres (RAS), its triangles counterclockwise from outside, closed also
where the object reaches the border of the image, and a manifold. Between centres of voxels it is
linear; voxels that touch only diagonally are not connected. For labels, the staircase of the voxels
is smoothed by --smoothing, which does not shrink; --smoothing 0 keeps it.

In a 2D image, the result is the outlines: closed lines with the inside on their left, around holes the
other way.

The format is that of the name: .gii, .surf.gii, .vtk, .vtp, .stl, .ply, or FreeSurfer's, such as
lh.white; for outlines .vtk, .vtp or .ply.

Written (older files with these names are replaced):
  MESH         the surface
  MESH.json    figures (area, volume, parts, handles, ...), the distance of the surface from that of
               the original voxels, parameters, versions, checksums
  MESH.html    with --report: the surface on slices and in 3D; opens offline
and with --each:
  DIR/label_N.gii, or label_N_NAME.gii    the surface of each label
  DIR/result.json                         the figures and the verdict of each, and of all
  DIR/report.html                         with --report

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad (open or folded, volume or
place not that of the voxels), 2 bad input or options (nothing is written), 3 internal error,
130 stopped.";

/// Arguments of `voxalign surface`.
pub(crate) type SurfaceArgs = JobArgs<Job>;

/// Makes the surface, or one of each label.
pub(crate) fn run(args: SurfaceArgs) -> Result<Outcome, Failure> {
    job::with(args, |args, caller, printer| {
        if !args.job.options.each {
            return job::find(args, (caller, printer), tables::surface);
        }
        let made = args.job.run_each(&args.run.machine(Job::AUTO)?, caller, printer)?;
        printer.finish();
        tables::tell(&made, (args.json, args.run.talk()), tables::surfaces)
    })
}
