//! `voxalign demo`: registers a real pair of brains that is part of the program.

use crate::args::{RunArgs, caller};
use crate::failure::{Failure, Outcome};
use crate::progress::Talk;
use crate::{device, output, tables};
use clap::Args;
use std::path::{Path, PathBuf};
use voxalign_compute::comm::Communicator;
use voxalign_jobs::Job as _;
use voxalign_jobs::affine::Job;
use voxalign_jobs::demo::{Pair, SHIFT, TURN, anatomy, elastic, sections, segment, xray};
use voxalign_jobs::machine::{Auto, Machine};
use voxalign_jobs::options::{OutputOptions, refuse};
use voxalign_jobs::team;

/// Arguments of `voxalign demo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The fixed image is the ICBM 152 template, the moving image one person's brain (Colin 27), both at
2 mm. As both lie in the same space already, the header of the moving image is first turned by 25,
-40 and 60 degrees about x, y and z and shifted by 30, -20 and 25 mm, so that there is something
to find. The inputs are written to DIR/inputs, the results to DIR as by `voxalign affine`.

`voxalign demo drr` makes a CT of a head of ellipsoids, turns it by 6, -4 and 9 degrees and moves it
by 8, -6 and 11 mm, simulates two X-ray images of it with the noise of 100000 photons per pixel, and
finds the pose again by them: inputs in DIR/inputs, results in DIR as by `voxalign pose`.

`voxalign demo anatomy` takes the pair of brains as two anatomies: the tissues as probabilities and the
hulls of the brains as surfaces, one of them turned and shifted as above. It registers them without any
image, by an affine part and a deformation: inputs in DIR/inputs, with the two files that list them,
results in DIR as by `voxalign anatomy`.

`voxalign demo elastic` makes a breast of fat, gland, a lesion and muscle, and the same breast pressed
between two pads: by finite elements, with a stiffness of each tissue, and with noise of
its own in both images. It registers them by a coarser mesh of one soft tissue whose muscle is held,
and prints how far the breast is from where it belongs, before and after: inputs in DIR/inputs, with
the true displacement, results in DIR as by `voxalign elastic`.

`voxalign demo sections` makes two sections of the same tissue in different stains, of --size pixels a
side, one of them turned by 14 degrees, stretched and shifted. It registers them in blocks, as
`voxalign affine` does with --distributed auto, on all GPUs of this machine or on its CPU, and prints
how far the corners are from where they belong: inputs in DIR/inputs as OME-Zarr, for other strategies
and for mpirun, too.

`voxalign demo segment` finds the white matter of the template by the preset for brains without skull, and
prints how well it agrees with the template's own map of tissues: the T1 image and that map in DIR/inputs,
results in DIR as by `voxalign segment`.")]
pub(crate) struct DemoArgs {
    /// What to show [default: the pair of brains]
    #[arg(value_enum, value_name = "WHAT")]
    what: Option<What>,
    /// Folder for inputs and results [default: voxalign-demo, voxalign-demo-drr, voxalign-demo-anatomy,
    /// voxalign-demo-elastic, voxalign-demo-sections or voxalign-demo-segment]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Pixels of a side of sections; 65536 takes some 12 GB of disk space [default: 4096]
    #[arg(long, value_name = "PIXELS")]
    size: Option<usize>,
    #[command(flatten)]
    written: OutputOptions,
    #[command(flatten)]
    run: RunArgs,
}

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// The pose of a CT by X-ray images of it
    Drr,
    /// Two anatomies of tissues and surfaces
    Anatomy,
    /// A breast that is pressed between two pads
    Elastic,
    /// Two sections that may be larger than memory
    Sections,
    /// The white matter of a brain
    Segment,
}

/// Writes the inputs and registers them.
pub(crate) fn run(args: DemoArgs) -> Result<Outcome, Failure> {
    if matches!(args.what, Some(What::Drr | What::Segment)) {
        let is_for = "the pairs of brains";
        refuse(args.written.interpolation.is_some(), "interpolation", is_for)?;
        refuse(args.written.outside.is_some(), "outside", is_for)?;
    }
    let sections = args.what == Some(What::Sections);
    refuse(args.size.is_some() && !sections, "size", "`voxalign demo sections`")?;
    // Before anything is written, as the device may not be there.
    let machine = match sections {
        false => args.run.machine(Auto::Gpu)?,
        true => {
            let printer = args.run.printer();
            let alone = Communicator::single();
            let machine = team::start(args.run.running.machine, None, &alone, &printer)?;
            device::start_threads(Some(machine.threads))?;
            device::keep(&machine);
            machine
        }
    };
    let usual = match args.what {
        None => "voxalign-demo",
        Some(What::Drr) => "voxalign-demo-drr",
        Some(What::Anatomy) => "voxalign-demo-anatomy",
        Some(What::Elastic) => "voxalign-demo-elastic",
        Some(What::Sections) => "voxalign-demo-sections",
        Some(What::Segment) => "voxalign-demo-segment",
    };
    let folder = args.output.clone().unwrap_or_else(|| usual.into());
    let inputs = folder.join("inputs");
    let is_new = [&inputs, &folder].map(|folder| !folder.exists());
    let done = match args.what {
        Some(What::Drr) => head(args, &machine, &folder, &inputs),
        Some(What::Anatomy) => anatomies(args, &machine, &folder, &inputs),
        Some(What::Elastic) => breast(args, &machine, &folder, &inputs),
        Some(What::Sections) => two_sections(args, &machine, &folder, &inputs),
        Some(What::Segment) => white_matter(args, &machine, &folder, &inputs),
        None => brains(args, &machine, &folder, &inputs),
    };
    if done.is_err() && is_new[0] {
        // Without a result the inputs are of no use.
        let _ = std::fs::remove_dir_all(&inputs);
        if is_new[1] {
            // A folder that is not empty is not ours any more.
            let _ = std::fs::remove_dir(&folder);
        }
    }
    done
}

/// The pose of a head by X-ray images.
fn head(
    args: DemoArgs,
    machine: &Machine,
    folder: &Path,
    inputs: &Path,
) -> Result<Outcome, Failure> {
    let (printer, talk) = (args.run.printer(), args.run.talk());
    let mut job = xray::write(inputs, folder, machine, &printer)?;
    job.report = args.written.report;
    if talk > Talk::Quiet {
        let [x, y, z] = xray::TURN;
        let [dx, dy, dz] = xray::SHIFT;
        output::line(
            "a CT of a head of ellipsoids, and X-ray images of it from the front and the right",
        );
        output::line(&format!(
            "in them it is turned by {x}, {y} and {z} degrees about x, y and z through its middle and moved by \
             {dx}, {dy} and {dz} mm"
        ));
    }
    let done = job.run(machine, &caller("demo", None), &printer);
    printer.finish();
    let done = done?;
    let error = xray::error(done.record.pose)?;
    tables::tell(&done, (false, talk), |record, folder| {
        tables::pose(record, folder);
        output::line(&format!("error: {error:.3} mm at the corner of the CT where it is largest"));
    })
}

/// The pair of brains as tissues and surfaces.
fn anatomies(
    args: DemoArgs,
    machine: &Machine,
    folder: &Path,
    inputs: &Path,
) -> Result<Outcome, Failure> {
    let (printer, talk) = (args.run.printer(), args.run.talk());
    let mut job = anatomy::write(inputs, folder, &printer)?;
    job.written = args.written;
    if talk > Talk::Quiet {
        let [x, y, z] = TURN;
        let [dx, dy, dz] = SHIFT;
        output::line(
            "grey and white matter as probabilities, and the hulls of two brains as surfaces",
        );
        output::line(&format!(
            "the moving ones are turned by {x}, {y} and {z} degrees about x, y and z and shifted by {dx}, {dy} and \
             {dz} mm"
        ));
    }
    let done = job.run(machine, &caller("demo", None), &printer);
    printer.finish();
    tables::tell(&done?, (false, talk), tables::anatomy)
}

/// A breast between two pads.
fn breast(
    args: DemoArgs,
    machine: &Machine,
    folder: &Path,
    inputs: &Path,
) -> Result<Outcome, Failure> {
    let (printer, talk) = (args.run.printer(), args.run.talk());
    let pair = elastic::Pair::new()?;
    let mut job = pair.write(inputs, folder, &printer)?;
    job.written = args.written;
    if talk > Talk::Quiet {
        output::line(
            "a breast of fat, gland, a lesion and muscle; fixed: between two pads, moving: at rest",
        );
        output::line(&format!(
            "the pads press it by {} mm; the mesh has cells of {} mm and one soft tissue, with the muscle held",
            elastic::COMPRESSION_MM,
            elastic::SPACING_MM
        ));
    }
    let done = job.run(machine, &caller("demo", None), &printer);
    printer.finish();
    let done = done?;
    let [before, after] = pair.errors(folder)?;
    tables::tell(&done, (false, talk), |record, folder| {
        tables::elastic(record, folder);
        for (when, error) in [("before", before), ("after", after)] {
            output::line(&format!(
                "error over the breast {when}: {:.3} mm on average, {:.3} mm at 95 %",
                error.mean, error.most
            ));
        }
    })
}

/// The white matter of the template.
fn white_matter(
    args: DemoArgs,
    machine: &Machine,
    folder: &Path,
    inputs: &Path,
) -> Result<Outcome, Failure> {
    let (printer, talk) = (args.run.printer(), args.run.talk());
    let mut job = segment::write(inputs, folder, &printer)?;
    job.options.report = args.written.report;
    if talk > Talk::Quiet {
        output::line("the T1 template of the ICBM, and the map of its tissues");
    }
    let done = job.run(machine, &caller("demo", None), &printer);
    printer.finish();
    let done = done?;
    let dice = segment::agreement(folder)?;
    tables::tell(&done, (false, talk), |record, folder| {
        tables::segment(record, folder);
        output::line(&format!("Dice with the white matter of the map of tissues: {dice:.3}"));
    })
}

/// Sections of any size.
fn two_sections(
    args: DemoArgs,
    machine: &Machine,
    folder: &Path,
    inputs: &Path,
) -> Result<Outcome, Failure> {
    let (printer, talk) = (args.run.printer(), args.run.talk());
    let size = args.size.unwrap_or(4096);
    let pair = sections::Sections::new(size)?;
    if talk > Talk::Quiet {
        output::line(&format!(
            "two sections of the same tissue in different stains, {size} pixels a side"
        ));
        let ([sx, sy], [dx, dy]) = (sections::SCALE, sections::SHIFT);
        output::line(&format!(
            "the moving one is turned by {} degrees, stretched by {sx} and {sy}, and shifted by {dx} and {dy} mm",
            sections::TURN
        ));
    }
    std::fs::create_dir_all(inputs).map_err(|e| {
        Failure::input(format!("cannot write '{}': {e}; check the folder", inputs.display()))
    })?;
    let mut job = pair.write(inputs, folder, &printer)?;
    job.written = args.written;
    let done = job.run(machine, &caller("demo", None), &printer);
    printer.finish();
    let done = done?;
    let error = pair.error(folder)?;
    tables::tell(&done, (false, talk), |record, folder| {
        tables::affine(record, folder);
        output::line(&format!("error: {error:.3} pixels at the corner where it is largest"));
    })
}

/// The pair of brains.
fn brains(
    args: DemoArgs,
    machine: &Machine,
    folder: &Path,
    inputs: &Path,
) -> Result<Outcome, Failure> {
    let printer = args.run.printer();
    let paths = Pair::load()?.write(inputs, &printer)?;
    if args.run.talk() > Talk::Quiet {
        output::line("fixed:  the ICBM 152 template; moving: one person's brain, Colin 27 (2 mm)");
        output::line(&format!(
            "the header of the moving image is turned by {}, {} and {} degrees about x, y and z \
             and shifted by {}, {} and {} mm",
            TURN[0], TURN[1], TURN[2], SHIFT[0], SHIFT[1], SHIFT[2]
        ));
    }
    let output = folder.to_owned();
    let job = Job { paths, written: args.written, output, ..Job::default() };
    let done = job.run(machine, &caller("demo", None), &printer);
    printer.finish();
    tables::tell(&done?, (false, args.run.talk()), tables::affine)
}
