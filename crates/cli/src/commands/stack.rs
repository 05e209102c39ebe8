//! `voxalign stack`: operators over many images, streamed through bounded memory.

use crate::args::{JobArgs, caller};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Talk;
use crate::tables;
use voxalign_jobs::machine::Auto;

use voxalign_jobs::stack::{Job, Made};
use voxalign_register::Choice;
use voxalign_report::Figure;

/// What `voxalign stack --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign stack mean warped/*.nii.gz -o mean.nii.gz
  voxalign stack mean --list subjects.csv -o mean.nii.gz
  voxalign stack normalise raw/*.nii.gz -o normalised --range 0,1
  voxalign stack smooth raw/*.nii.gz -o smooth --sigma 2
  voxalign stack energy warped/*.nii.gz --reference mean.nii.gz -o energy.csv

All images must be on one grid; `voxalign apply` resamples them onto one. Reading, computing and
writing go on at the same time, and memory does not grow with the number of images. Results do not
depend on the order of the images (except for window-mean) nor on the number of threads. A list has
a line for each image, as for `voxalign atlas`: the column `path`, relative to the folder of the
list, and optionally `weight`. A folder of results has files with the names of the images, with
.nii.gz instead of formats of two files; they appear together when all are complete.

Beside an image or a table OUT there is its record OUT.json, such as mean.nii.gz.json; in a folder
it is result.json. It has the version, the command, all parameters, the checksums of the images
(taken while they are read), times and the memory that was used.";

/// Arguments of `voxalign stack`.
pub(crate) type StackArgs = JobArgs<Job>;

/// Makes the result.
pub(crate) fn run(args: StackArgs) -> Result<Outcome, Failure> {
    let (talk, json, job) = (args.run.talk(), args.json, &args.job);
    let (caller, printer) = (caller("stack", None), args.run.printer());
    let ready = job.ready(&caller, &printer)?;
    if args.dry_run {
        return tables::plan(&ready.plan()?, json);
    }
    let machine = args.run.machine(Auto::Cpu)?;
    let Made { done, trace } = ready.run(&machine)?;
    printer.finish();
    let record = &done.record;
    if json {
        output::text(record.to_json().as_bytes());
        return Ok(Outcome::Good);
    }
    if talk > Talk::Quiet {
        if let Some(total) = record.figures.get(Figure::TotalEnergy) {
            output::line(&format!("total energy: {total}"));
        }
        let count = record.figures.get(Figure::Images).unwrap_or_default();
        let name = job.operation.name();
        output::line(&format!("{name} of {count} images on {}", machine.name()));
    }
    if talk == Talk::Verbose {
        let bound = trace.bound();
        output::line(&format!("{:.3} s; the slowest stage took {bound:.3} s", trace.wall()));
        for (i, stage) in trace.stages.iter().enumerate() {
            output::line(&format!("  {}: {:.3} s", stage.name, trace.busy(i)));
        }
    }
    Ok(Outcome::Good)
}
