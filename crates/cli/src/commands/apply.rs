//! `voxalign apply`: applies transforms to an image, a label map, points or a mesh.

use crate::args::RunArgs;
use crate::device::start_threads;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::{Printer, Talk};
use clap::Args;
use voxalign_jobs::apply::{Applied, Inputs, Job, Side};
use voxalign_jobs::machine::Auto;
use voxalign_jobs::options::refuse;

/// Arguments of `voxalign apply`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign apply -i moving.nii.gz -r fixed.nii.gz -t out/affine.tfm -o warped.nii.gz
  voxalign apply -i labels.nii.gz -r fixed.nii.gz -t out/affine.tfm -o warped_labels.nii.gz \\
      --interpolation label
  voxalign apply -i atlas.nii.gz -r person.nii.gz -t inverse:out/affine.tfm \\
      -o atlas_on_person.nii.gz
  voxalign apply -i section.ome.zarr -r slide.svs -t in_plane.tfm -o warped.ome.zarr
  voxalign apply -i moving_points.csv -t out/affine.tfm -o fixed_points.csv
  voxalign apply -i markups.mrk.json -t out/warp.nii.gz -t out/affine.tfm \\
      -o markups_on_fixed.mrk.json
  voxalign apply -i lh.pial.gii -t out/warp.nii.gz -t out/affine.tfm -o lh.pial_on_fixed.gii
  voxalign apply -i template_bundle.trk --points-from fixed -t out/warp.nii.gz -t out/affine.tfm \\
      -o bundle_on_scan.trk

Several -t are composed first, so that the image is interpolated once. A fixed point goes through
the first -t, then the next: the order of ANTs' command line (`-t warp -t affine`).
Points that belong to the moving image are mapped to the fixed one, by the inverse; with
`--points-from fixed` they are mapped the other way, as in antsApplyTransformsToPoints. Surfaces,
curves and streamlines go as points do; normals turn along, and where the map mirrors the faces
keep their outside. The names of the files set the formats (docs/landmarks.md, docs/meshes.md).
Images of any size (OME-Zarr, TIFF, PNG, JPEG) are resampled block by block, with all channels
where the result is OME-Zarr or TIFF (docs/pyramids.md). An existing output file is replaced.

Exit codes: 0 done, 1 done but nothing of the image lies on the grid of the reference, or no point
where the transform is known, 2 bad input or options (nothing is written), 3 internal error, 130
stopped by Ctrl-C.")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    run: RunArgs,
}

/// Carries the input.
pub(crate) fn run(args: ApplyArgs) -> Result<Outcome, Failure> {
    let ApplyArgs { job, run } = &args;
    let (talk, printer) = (run.talk(), Printer::lines(run.talk()));
    let headers = match job.read(&printer)? {
        Inputs::Image(headers) => *headers,
        Inputs::Points => {
            start(run, "a list of points")?;
            return Ok(mapped(job, talk, "points", job.points(&printer)?));
        }
        Inputs::Mesh => {
            start(run, "a mesh")?;
            return Ok(mapped(job, talk, "vertices", job.mesh(&printer)?));
        }
    };
    let machine = run.machine(Auto::Cpu)?;
    let reference = headers.reference.to_string();
    let done = job.image(&machine, headers, &printer)?;
    if talk > Talk::Quiet {
        output::line(&format!("resampled on {}", machine.name()));
    }
    if talk == Talk::Verbose {
        output::line(&format!("result: {reference}"));
    }
    if !done.met {
        output::warning(&format!(
            "no voxel of '{}' shows anything of '{}' under the transform, so the result is the value for \
             outside everywhere; check the reference, the order of the transforms, and whether one of \
             them has to be inverted (-t inverse:FILE)",
            job.reference.as_deref().unwrap_or(&job.input).display(),
            job.input.display()
        ));
    }
    Ok(Outcome::of(done.met))
}

/// Starts the threads for points or a mesh, for which there is no choice of device.
fn start(run: &RunArgs, input: &str) -> Result<(), Failure> {
    let given = run.running.machine.device.is_some();
    refuse(given, "device", format!("images, but the input is {input}"))?;
    start_threads(run.running.machine.threads)
}

/// Says how many points went where.
fn mapped(job: &Job, talk: Talk, noun: &str, done: Applied) -> Outcome {
    if talk > Talk::Quiet {
        let way = match job.side() {
            Side::Fixed => "from the fixed to the moving image",
            Side::Moving => "from the moving to the fixed image (by the inverse)",
        };
        output::line(&format!("{} {noun} mapped {way}", done.count));
    }
    if !done.met {
        output::warning(&format!(
            "nothing of '{}' lies where the transform is known, so the result means nothing; check which image it \
             belongs to (--points-from), its coordinates (--point-convention), and the order of the transforms",
            job.input.display()
        ));
    }
    Outcome::of(done.met)
}
