//! The steps shared by all commands that run a job.

use crate::args::{JobArgs, caller};
use crate::config::{self, Merged, Origin};
use crate::failure::{Failure, Outcome};
use crate::progress::Printer;
use crate::{ranks, tables};
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use voxalign_jobs::{Caller, Job, invoked};

/// The arguments with those of the configuration file, where one is given; which are from there, and what of it was left
/// out.
fn complete<J>(
    args: JobArgs<J>,
    name: &str,
    check: impl Fn(&J) -> Result<(), Failure>,
) -> Result<(JobArgs<J>, Origin, Vec<String>), Failure>
where
    J: Args + Default + Serialize + DeserializeOwned,
{
    let Some(path) = args.file.config.clone() else {
        return Ok((args, Origin::default(), Vec::new()));
    };
    let typed = invoked::arguments();
    let Merged { args, origin, notes } = config::merged(&path, name, (&args, &typed), check)?;
    Ok((args, origin, notes))
}

/// That something has to be given.
fn missing(what: &str, name: &str) -> Failure {
    Failure::input(format!("{what} is missing; see `voxalign {name} --help`"))
}

/// The arguments of a job: the job itself, or with what says how the program runs it.
pub(crate) trait Of: Args + Default + Serialize + DeserializeOwned {
    /// The job.
    type Job: Job;

    /// The job.
    fn job(&self) -> &Self::Job;

    /// Whether this process is to say what all of them would do.
    fn tells_plan(&self) -> Result<bool, Failure> {
        Ok(true)
    }

    /// What all processes agree on, where several do the job: a failure is told by one of them.
    fn agreed<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        result
    }
}

impl<J: Job + Args> Of for J {
    type Job = J;

    fn job(&self) -> &J {
        self
    }
}

/// Completes and checks the arguments, and does the work, unless only what it would be is asked for.
pub(crate) fn with<A: Of>(
    args: JobArgs<A>,
    work: impl FnOnce(&JobArgs<A>, &Caller, &Printer) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let name = A::Job::NAME;
    let (args, origin, notes) = complete(args, name, |args: &A| Ok(args.job().check_options()?))?;
    if ranks::is_first() {
        config::say(&notes, args.run.talk());
    }
    let all = || {
        let job = args.job.job();
        if let Some(what) = job.missing() {
            return Err(missing(what, name));
        }
        let (caller, printer) = (caller(name, args.file.config.as_ref()), args.run.printer());
        if args.dry.dry_run {
            let plan = args.job.agreed(job.plan(&caller, &printer).map_err(Failure::from))?;
            return match args.job.tells_plan()? {
                true => tables::plan(&plan, args.json),
                false => Ok(Outcome::Good),
            };
        }
        args.job.agreed(job.check(&caller, &printer).map_err(Failure::from))?;
        work(&args, &caller, &printer)
    };
    all().map_err(|e| origin.blame(e))
}

/// Reads while the device starts, and finds what is searched for.
pub(crate) fn find<A: Of>(
    args: &JobArgs<A>,
    (caller, printer): (&Caller, &Printer),
    print: impl FnOnce(&<A::Job as Job>::Record, &Path),
) -> Result<Outcome, Failure> {
    let job = args.job.job();
    let read = || Ok(job.read(caller, printer)?);
    let (machine, inputs) = args.run.machine_and(A::Job::AUTO, read)?;
    let done = job.find(&machine, inputs, caller, printer)?;
    printer.finish();
    tables::tell(&done, (args.json, args.run.talk()), print)
}

/// Does a job.
pub(crate) fn run<A: Of>(
    args: JobArgs<A>,
    print: impl FnOnce(&<A::Job as Job>::Record, &Path),
) -> Result<Outcome, Failure> {
    with(args, |args, caller, printer| find(args, (caller, printer), print))
}
