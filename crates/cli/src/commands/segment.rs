//! `voxalign segment`: divides an image into regions by fronts that move.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::tables;
use voxalign_jobs::segment::Job;

/// What `voxalign segment --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign segment ct.nii.gz -o out
      what is brighter than the rest, from small cubes all over the image; labels, surface and report
  voxalign segment --preset white-matter t1_brain.nii.gz -o out
      white matter of a T1-weighted brain without skull (--preset white-matter-head: with skull)
  voxalign segment --preset bone ct.nii.gz -o out --smallest-island 100
      bone of a CT in Hounsfield units, without specks below 100 mm³
  voxalign segment t1.nii.gz -o out --regions 4
      four regions, each of one intensity: labels 1 to 3 by rising mean, 0 the darkest
  voxalign segment t1.nii.gz -o out --force geodesic-regions --classes 4 --object-classes 3,4
      the two brightest of four classes, each with a mean and a spread of its own
  voxalign segment t1.nii.gz -o out --prior-mask brain_mask.nii.gz --largest-component --fill-holes
      start within a mask only, and tidy the result
  voxalign segment scan.nii.gz -o out --init circle --init-centre 10,-25,40 --init-size 20 \\
      --force edge --pressure 0.3
      a ball of 20 mm that grows until edges hold it
  voxalign segment scan.nii.gz -o out --init mask --initial-mask mask.nii.gz \\
      --force mean-curvature --iterations 20
      smooth the outline of a mask
  voxalign segment scan.nii.gz -o out --force speed --speed field.nii.gz
      any force: out where the field is above 0, in where it is below
  voxalign segment slice.nii.gz -o out --object darker --smallest-island 20
      the darker region of a 2D image, without parts below 20 mm²
  voxalign segment --config job.toml scan.nii.gz -o out
      options from a file: keys are the long option names, `image` the image

Two sides of a front exchange voxels along it, in whole steps: in each iteration those voxels outside that
the force draws in, then those inside that it draws out. It ends where no voxel moves.

Presets, each with a force, a start and checks of its own:
  white-matter       of a T1-weighted brain with zeros around it, or within --prior-mask: four tissues of one
                     spread are fitted to its intensities; checked are their distances, the part of the brain
                     that is white matter, its rim, and that it hangs together
  white-matter-head  of a whole head: slice by slice, from the vertex down, without what hangs on skull
                     and scalp; checked are the distances of tissues, and the size of the result
  bone               of a CT: what is likelier bone than soft tissue about --bone-threshold; the noisier
                     the image is, the less single voxels count; checked is that intensities are HU

Forces, and what they are for:
  chan-vese          regions of nearly one intensity each (CT, phantoms, stained sections); noise is
                     smoothed by --curvature. There is no object in it: --object says which side it is.
  geodesic-regions   regions that overlap in intensity (MR): a mixture of Gaussians is fitted to the whole
                     image, and edges attract the front
  edge               an object with a clear border and any intensities: from a shape inside with
                     --pressure above 0, or from one around it with --pressure below 0
  mean-curvature     nothing but smoothing, of a mask; everything vanishes in the end
  speed              a field that another program made

Starts: --init dense begins with small shapes all over the image and finds every part of the object, in few
iterations: under a force that does not change, no more than the largest connected part of either side has
voxels at the start. That is a good bound for a checkerboard alone (64 by default), with --connectivity 4 or
6: what is between balls, or squares that touch at corners with 8, 18 or 26, is one part of the image.
--init circle, box and mask find what is connected with them, and take as many iterations as that is long.

The same voxels for any number of threads. Labels are on the grid of the image, whatever its orientation.

Written (older files with these names are replaced):
  DIR/labels.nii.gz      the label of each voxel: 1 for the object, of --regions N those from 0 to N - 1
  DIR/labels.txt         names and colours of the labels, for ITK-SNAP
  DIR/labels.seg.nrrd    the regions as a segmentation of 3D Slicer
  DIR/evolution.png      the front as it moves, on slices (an animated PNG)
  DIR/surface.gii        the surface of the object, or surface_N.gii of each region but 0
  DIR/outline.vtk        of a 2D image, its outlines, or outline_N.vtk
  DIR/result.json        volumes, means, parts, the course of the front, the evidence, parameters, checksums
  DIR/report.html        the regions on slices, the evolution, its curves, histograms, 3D; opens offline

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad (the front vanished, did not come
to rest, is on no edge, or another start led elsewhere), 2 bad input or options (nothing is written),
3 internal error, 130 stopped.";

/// Arguments of `voxalign segment`.
pub(crate) type SegmentArgs = JobArgs<Job>;

/// Segments an image.
pub(crate) fn run(args: SegmentArgs) -> Result<Outcome, Failure> {
    job::run(args, tables::segment)
}
