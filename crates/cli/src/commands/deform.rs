//! `voxalign deform`: registers two images by an invertible deformation.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::tables;
use voxalign_jobs::deform::Job;

/// What `voxalign deform --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign deform template.nii.gz scan.nii.gz -o out
      an affine registration first, then a deformation driven by local correlation, or by
      neighbourhood descriptors where the images are of two kinds
  voxalign deform template.nii.gz scan.nii.gz -o out --affine affine/affine.tfm --model greedy
      from an existing transform; the moving image alone flows, in two thirds of the time
  voxalign deform mr.nii.gz pet.nii.gz -o out --similarity mi --schedule 4x100,2x50
      across modalities, not down to the finest scale
  voxalign deform t1a.nii.gz t1b.nii.gz -o out --channel t2a.nii.gz t2b.nii.gz lncc 0.5
      two pairs of images at once
  voxalign deform template.nii.gz patient.nii.gz -o out --moving-mask without_lesion.nii.gz
      voxels outside the mask, such as a lesion, do not drive the deformation
  voxalign deform a.nii.gz b.nii.gz -o out --landmarks points_a.csv points_b.csv
      corresponding points drive the deformation together with the images; their weight is
      --landmark-weight
  voxalign deform a.nii.gz b.nii.gz -o out --model lddmm --similarity ssd --time-steps 8
      a geodesic path of deformations
  voxalign deform a.nii.gz b.nii.gz -o out --outputs warp,affine,warped
      only these files, besides result.json and report.html; `all` for all of them
  voxalign deform tpl-MNI152Lin_T1w.nii.gz sub-01_T1w.nii.gz -o out --bids derivatives \\
      --bids-skull-stripped no
      into a data set of BIDS derivatives as well, under the names of BIDS
  voxalign deform --config job.toml -o out
      all options from a file: keys are the long option names, `fixed` and `moving` the
      images; the command line takes precedence

Using the result (a chain is listed from the fixed image: first the warp, then the affine):
  voxalign apply -i moving.nii.gz -r fixed.nii.gz -t out/warp.nii.gz -t out/affine.tfm -o w.nii.gz
      an image in moving space, resampled onto the fixed grid; --interpolation label for labels
  voxalign apply -i fixed_labels.nii.gz -r moving.nii.gz -t inverse:out/affine.tfm \\
      -t out/inverse_warp.nii.gz --interpolation label -o w.nii.gz
      the other direction
  voxalign apply -i points.csv -t out/warp.nii.gz -t out/affine.tfm -o p.csv
      points of the moving image to the fixed one; --points-from fixed for the other direction
  voxalign apply -i moving.nii.gz -r fixed.nii.gz -t out/composite.nii.gz -o w.nii.gz
      the same with one file, where --outputs asks for it; inverse_composite.nii.gz for the
      other direction
  antsApplyTransforms -d 3 -i moving.nii.gz -r fixed.nii.gz -t out/warp.nii.gz -t out/affine.tfm
      -o w.nii.gz
      the same with ANTs, in the same order
  antsApplyTransforms -d 3 -i fixed.nii.gz -r moving.nii.gz -t [out/affine.tfm,1]
      -t out/inverse_warp.nii.gz -o w.nii.gz
      the other direction with ANTs

Written to DIR (older files with these names are replaced, or removed where none is written):
  warp.nii.gz               displacements before the affine (ANTs: 1Warp), on the fixed grid; the
                            symmetric model divides thick slices in two or three
  inverse_warp.nii.gz       their inverse, on the same grid (ANTs: 1InverseWarp)
  affine.tfm                the affine part, fixed to moving world (ANTs: 0GenericAffine)
  affine.fsl.mat            the same for FSL
  warped.nii.gz             the moving image on the grid of the fixed one
  result.json               verdict, measures, energies, parameters, checksums of the inputs
  report.html               pictures and figures; opens offline in any browser
and where --outputs names them:
  composite.nii.gz          warp and affine as one field on the grid of the warp
  inverse_composite.nii.gz  the inverse, moving to fixed, as one field on the moving grid, with
                            thick slices divided as well
  jacobian.nii.gz           Jacobian determinant of the warp in each fixed voxel, without the
                            affine part
If the affine part fails so badly that no deformation can start from it, only result.json and
report.html are written.
Fields are NIfTI images of vectors (intent 1007), LPS millimetres, as ITK and ANTs have them.

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error, 130 stopped by Ctrl-C.";

/// Arguments of `voxalign deform`.
pub(crate) type DeformArgs = JobArgs<Job>;

/// Does the job.
pub(crate) fn run(args: DeformArgs) -> Result<Outcome, Failure> {
    job::run(args, tables::deform)
}
