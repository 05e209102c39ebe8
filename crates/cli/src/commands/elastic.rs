//! `voxalign elastic`: registers two images by an elastic body that they move.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::tables;
use voxalign_jobs::Job as _;
use voxalign_jobs::elastic::Job;
use voxalign_report::StreamFrameRecord;

/// What `voxalign elastic --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign elastic fixed.nii.gz moving.nii.gz -o out
      the first time: an affine registration, then a body of cells of 10 mm over the fixed image,
      of one soft tissue, that the differences of the images move until its stress balances them
  voxalign elastic fixed.nii.gz moving.nii.gz -o out --affine none --histogram-match
      images of one patient that lie on each other already, with other scales of intensity
  voxalign elastic fixed.nii.gz moving.nii.gz -o out --force-scale 10 --young 3000
      images that pull more, and a body that resists more
  voxalign elastic mr.nii.gz ct.nii.gz -o out --similarity mi
      kinds of image that differ
  voxalign elastic fixed.nii.gz moving.nii.gz -o out --mesh breast.msh
      a mesh of one's own: tetrahedra in the world of the fixed image, mm
  voxalign elastic fixed.nii.gz moving.nii.gz -o out --mesh-mask breast_mask.nii.gz --mesh-spacing 5
      a mesh that is fitted to a mask, in cells of 5 mm
  voxalign elastic fixed.nii.gz moving.nii.gz -o out --mesh-labels tissue_labels.nii.gz \\
      --materials materials.csv --fix-label 0
      two materials, and what is outside of both is held; materials.csv has a line for each label:
        label,young,poisson,density
        0,1000,0.4,1000
        1,3000,0.45,1000
        2,12000,0.45,1050
  voxalign elastic fixed.nii.gz moving.nii.gz -o out --samples 40x40x30
      forces at a lattice of points, not at all voxels: faster steps
  voxalign elastic fixed.nii.gz moving.nii.gz -o out2 --state out/mesh.vtu --schedule 1x50
      goes on from where an earlier run with the same mesh ended
  voxalign elastic axial.nii.gz before.nii.gz --slice coronal.nii.gz --slice sagittal.nii.gz -o out
      2D-3D: a few slices taken during an intervention, each at its place in the world, and the
      volume from before it, which a body of cells of 10 mm brings to them; a slice has exactly one
      dimension of 1; slices and volume lie on each other already, or --affine FILE says how
  voxalign elastic us.nii.gz mr.nii.gz --slice us2.nii.gz -o out --similarity mi \\
      --mesh-mask organ.nii.gz
      slices of another kind; the body is fitted to a mask in the world of the volume
  voxalign elastic frame1.nii.gz moving.nii.gz -o out --stream frame2.nii.gz frame3.nii.gz
      a sequence of fixed images, on one grid and in the order of time: the body goes on from
      frame to frame with its displacement, velocity and acceleration, without the coarse scales
  voxalign elastic frame1.nii.gz moving.nii.gz -o out --stream-schedule 1x10 --stream frame2.nii.gz
      the same with 10 iterations at most for each frame after the first: faster where little moves
  voxalign elastic --config job.toml -o out
      all options from a file: keys are the long option names, `fixed` and `moving` the
      images; the command line takes precedence

Using the result (a chain is listed from the fixed image: first the warp, then the affine):
  voxalign apply -i moving.nii.gz -r fixed.nii.gz -t out/warp.nii.gz -t out/affine.tfm -o w.nii.gz
      an image in moving space, resampled onto the fixed grid; --interpolation label for labels
  voxalign apply -i points.csv -t out/warp.nii.gz -t out/affine.tfm -o p.csv
      points of the moving image to the fixed one; --points-from fixed for the other direction
  ParaView opens out/mesh.vtu: colour it by strain, von_mises, volume_ratio or label; in Python
      import pyvista; pyvista.read('out/mesh.vtu').plot(scalars='von_mises')

Written to DIR (older files with these names are replaced, or removed where none is written):
  warp.nii.gz               displacements on the fixed grid, before the affine (ANTs: 1Warp)
  inverse_warp.nii.gz       their inverse, on the fixed grid (ANTs: 1InverseWarp)
  affine.tfm                the affine part, fixed to moving world (ANTs: 0GenericAffine)
  affine.fsl.mat            the same for FSL
  warped.nii.gz             the moving image on the grid of the fixed one
  mesh.vtu                  the body as it ended, in the fixed world before the affine part (RAS mm);
                            at vertices displacement (mm), velocity (mm/s), acceleration (mm/s²);
                            in tetrahedra strain (xx yy zz yz zx xy, engineering shears),
                            von_mises (kPa), volume_ratio, label
  result.json               verdict, measures, energies, motion, parameters, checksums of the inputs
  report.html               pictures and figures; opens offline in any browser
  warped_slice_1.nii.gz ... what the volume shows at the pixels of each slice, of 2D-3D alone; warps
                            and warped.nii.gz are then on the grid of the volume, brought into the
                            world of the slices, and mesh.vtu is in the world of the volume
and where --outputs names them:
  composite.nii.gz          warp and affine as one field on the fixed grid
  inverse_composite.nii.gz  the inverse, moving to fixed, as one field on the moving grid
  jacobian.nii.gz           Jacobian determinant of the warp, without the affine part
Fields are NIfTI images of vectors (intent 1007), LPS millimetres, as ITK and ANTs have them.
With --stream, DIR/frame_001, frame_002, ... have these files for each fixed image, and DIR has
  stream.csv                a line for each frame: iterations, seconds, energy, displacements,
                            motion since the frame before, smallest volume, at rest, verdict
  stream.json               the same with the verdict on all, parameters, checksums of the inputs
  report.html               curves over the frames, with links to their reports
The affine part and the mesh are those of the first frame, and a --fixed-mask counts for all. A frame
with a bad verdict is registered once more from rest, the better result is kept, and the next frame
goes on from the last good one. The verdict is good if all frames are. Where a frame fails, the
results of those before it stay.

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error, 130 stopped by Ctrl-C.";

/// Arguments of `voxalign elastic`.
pub(crate) type ElasticArgs = JobArgs<Job>;

/// Registers an image, or those of a sequence.
pub(crate) fn run(args: ElasticArgs) -> Result<Outcome, Failure> {
    job::with(args, |args, caller, printer| {
        if !args.job.is_sequence() {
            return job::find(args, (caller, printer), tables::elastic);
        }
        let machine = args.run.machine(Job::AUTO)?;
        let mut lines = tables::Frames::new(args.json, args.run.talk());
        let done = args.job.track(&machine, caller, printer, &mut |frame| {
            printer.finish();
            lines.line(frame);
            Ok(())
        })?;
        Ok(lines.end::<StreamFrameRecord>(&done))
    })
}
