//! `voxalign demo`: registers a real pair of brains that is part of the program.

use crate::args::{RunArgs, caller};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Talk;
use crate::tables;
use clap::Args;
use std::path::PathBuf;
use voxalign_jobs::affine::Job;
use voxalign_jobs::demo::{Pair, SHIFT, TURN};
use voxalign_jobs::machine::Auto;
use voxalign_jobs::options::OutputOptions;

/// Arguments of `voxalign demo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The fixed image is the ICBM 152 template, the moving image one person's brain (Colin 27), both at
2 mm. As both lie in the same space already, the header of the moving image is first turned by 25,
-40 and 60 degrees about x, y and z and shifted by 30, -20 and 25 mm, so that there is something
to find. The inputs are written to DIR/inputs, the results to DIR as by `voxalign affine`.")]
pub(crate) struct DemoArgs {
    /// Folder for inputs and results
    #[arg(short, long, value_name = "DIR", default_value = "voxalign-demo")]
    output: PathBuf,
    #[command(flatten)]
    written: OutputOptions,
    #[command(flatten)]
    run: RunArgs,
}

/// Writes the pair and registers it.
pub(crate) fn run(args: DemoArgs) -> Result<Outcome, Failure> {
    // Before anything is written, as the device may not be there.
    let (machine, printer) = (args.run.machine(Auto::Gpu)?, args.run.printer());
    let inputs = args.output.join("inputs");
    let is_new = [&inputs, &args.output].map(|folder| !folder.exists());
    let paths = Pair::load()?.write(&inputs, &printer)?;
    if args.run.talk() > Talk::Quiet {
        output::line("fixed:  the ICBM 152 template; moving: one person's brain, Colin 27 (2 mm)");
        output::line(&format!(
            "the header of the moving image is turned by {}, {} and {} degrees about x, y and z \
             and shifted by {}, {} and {} mm",
            TURN[0], TURN[1], TURN[2], SHIFT[0], SHIFT[1], SHIFT[2]
        ));
    }
    let output = args.output.clone();
    let job = Job { paths, written: args.written, output, ..Job::default() };
    let done = job.run(&machine, &caller("demo", None), &printer);
    printer.finish();
    if done.is_err() && is_new[0] {
        // Without a result the pair is of no use.
        let _ = std::fs::remove_dir_all(&inputs);
        if is_new[1] {
            // A folder that is not empty is not ours any more.
            let _ = std::fs::remove_dir(&args.output);
        }
    }
    tables::tell(&done?, (false, args.run.talk()), tables::affine)
}
