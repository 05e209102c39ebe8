//! `voxalign anatomy`: registers two anatomies of tissue probabilities, images, surfaces, curves and points.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::tables;
use voxalign_jobs::anatomy::Job;

/// What `voxalign anatomy --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign anatomy template.toml patient.toml -o out
      all data listed in the two files: an affine registration first, then a deformation
  voxalign anatomy template.toml patient.toml -o out --model symmetric --schedule 4x100,2x50
      exchanging the files inverts the result, if both have the same weights and widths
  voxalign anatomy template.toml patient.toml -o out --init landmarks
      the search of the affine part starts at the landmarks of the anatomies
  voxalign anatomy left.toml right.toml -o out --affine none --spacing 1
      surfaces only, already aligned, on a grid of 1 mm around them
  voxalign anatomy a.toml b.toml -o out --fixed-labels la.nii.gz --moving-labels lb.nii.gz
      with the overlap, before and after, of labels not used for the registration
  voxalign anatomy template.toml patient.toml -o out --dry-run
      which files would be read and written, and how much memory is needed
  voxalign demo anatomy
      the same with files that the program makes

An anatomy is a TOML file that lists its data, each item under a name by which the two files are
matched. Paths are relative to the file. For example:

  [[probability]]              # of a class of tissue, 0 to 1; compared by squared differences
  name = \"white\"
  image = [\"wm_myelinated.nii.gz\", \"wm_other.nii.gz\"]   # several are added to one class
  # volume = 2                 # of a 4D file, from 0; a list for several

  [[probability]]
  name = \"cerebellum\"
  labels = \"labels.nii.gz\"     # labels as a probability
  label = [38, 39]
  sigma = 1.0                  # smoothed by a Gaussian, mm

  [[image]]                    # an ordinary image
  name = \"t1\"
  image = \"t1.nii.gz\"
  similarity = \"lncc\"          # ssd, lncc, mi, nmi; radius and bins as of `voxalign deform`

  [[surface]]                  # a mesh, without correspondence
  name = \"hippocampus_left\"
  mesh = \"hippocampus_left.surf.gii\"
  oriented = true              # false where triangles go round in any direction (varifold)
  weight = 0.01
  width = 5.0                  # of the kernel, mm
  kernel = \"gaussian\"          # or cauchy

  [[surface]]                  # made of labels, as by `voxalign surface`
  name = \"thalamus_left\"
  labels = \"labels.nii.gz\"
  label = 10                   # a number, or a list that is one structure; or names:
  # label = \"Left-Thalamus\"    # as the table label_names = \"names.csv\" has them
  smoothing = 15               # also triangles or keep, largest_component, fill_holes

  [[surface]]                  # made of an image
  name = \"white_matter\"
  image = \"wm.nii.gz\"
  level = 0.5                  # below = true for values at or below it

  [[curve]]                    # lines, as for surfaces; outlines of labels in 2D
  name = \"central_sulcus_left\"
  mesh = \"central_sulcus_left.vtk\"

  [[points]]                   # without correspondence
  name = \"cloud\"
  points = \"cloud.csv\"         # or mesh, whose vertices are used

  [[landmarks]]                # corresponding points, in the same order in both files
  name = \"commissures\"
  points = \"commissures.csv\"

Weights, widths, kernels, orientation and similarities are those of the fixed file; the moving one may
repeat them. The source of a surface, and how it is made, are set in each file separately. space = \"lps\"
is for meshes and points whose files do not state their coordinates.

Written to DIR (older files with these names are replaced, or removed where none is written):
  warp.nii.gz, inverse_warp.nii.gz, affine.tfm, affine.fsl.mat
                            the transforms, as by `voxalign deform`
  warped/NAME.nii.gz        moving images and probabilities on the grid of the fixed ones
  moving_on_fixed/NAME.*    moving surfaces, curves and points in the fixed world
  fixed_on_moving/NAME.*    fixed ones in the moving world
  result.json               verdict, overlaps, distances, measures, parameters, checksums
  report.html               pictures and figures; opens offline in any browser
and where --outputs names them: composite.nii.gz, inverse_composite.nii.gz, jacobian.nii.gz.

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error, 130 stopped by Ctrl-C.";

/// Arguments of `voxalign anatomy`.
pub(crate) type AnatomyArgs = JobArgs<Job>;

/// Does the job.
pub(crate) fn run(args: AnatomyArgs) -> Result<Outcome, Failure> {
    job::run(args, tables::anatomy)
}
