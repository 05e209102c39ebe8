//! `voxalign affine`: registers two images by a rigid, similarity or affine transform.

use super::job;
use crate::args::JobArgs;
use crate::failure::{Failure, Outcome};
use crate::{device, ranks, tables};
use clap::Args;
use serde::{Deserialize, Serialize};
use voxalign_jobs::Job as _;
use voxalign_jobs::affine::Job;
use voxalign_jobs::team;

/// What `voxalign affine --help` says at its end.
pub(crate) const EXAMPLES: &str = "\
Examples:
  voxalign affine t1_template.nii.gz t1_person.nii.gz -o out
      12 degrees of freedom, full search, normalised mutual information
  voxalign affine mr.nii.gz ct.nii.gz -o out --dof 6
      rigid, across modalities
  voxalign affine visit1.nii.gz visit2.nii.gz -o out --dof 6 --search local --init header
      small motion, no search over rotations
  voxalign affine a.nii.gz b.nii.gz -o out --search-angles 30,30,180
      full search, at most 30 degrees about x and y, any angle about z
  voxalign affine a.nii.gz b.nii.gz -o out --init landmarks:points_a.csv,points_b.csv --search local
      starting from corresponding points, for images that lie far apart
  voxalign affine slide1.ome.zarr slide2.ome.zarr -o out --distributed auto
      sections larger than memory, read in blocks, on all GPUs of this machine or on its CPU
  mpirun -np 4 --bind-to none voxalign affine a.tif b.tif -o out --distributed auto --dof 3
      the same by four processes with a device each (see docs/distributed.md)
  voxalign affine --config job.toml -o out
      all options from a file: keys are the long option names, `fixed` and `moving` the
      images; the command line takes precedence; paths are relative to the current folder

Written to DIR (older files with these names are replaced, or removed where none is written):
  affine.tfm      the transform, fixed to moving world, for ITK and ANTs
  affine.fsl.mat  the same for FSL
  warped.nii.gz   the moving image on the grid of the fixed one
  result.json     verdict, figures, parameters, versions, checksums of the inputs
  report.html     pictures and figures; opens offline in any browser
With --distributed warped.ome.zarr, tiled and with coarser levels, takes the place of warped.nii.gz,
unless the fixed image is NIfTI, NRRD, MetaImage or DICOM.

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error, 130 stopped by Ctrl-C.";

/// Arguments of `voxalign affine`.
pub(crate) type AffineArgs = JobArgs<OnRanks>;

/// The job, which several processes may do together.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OnRanks {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) job: Job,
}

impl job::Of for OnRanks {
    type Job = Job;

    fn job(&self) -> &Job {
        &self.job
    }

    fn tells_plan(&self) -> Result<bool, Failure> {
        Ok(!self.job.is_distributed() || ranks::world()?.is_first())
    }

    fn agreed<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        if self.job.is_distributed() { ranks::world()?.agree(result) } else { result }
    }
}

/// Does the job.
pub(crate) fn run(args: AffineArgs) -> Result<Outcome, Failure> {
    job::with(args, |args, caller, printer| {
        if !args.job.job.is_distributed() {
            return job::find(args, (caller, printer), tables::affine);
        }
        let (job, world) = (&args.job.job, ranks::world()?);
        let machine = team::start(args.run.running.machine, job.distributed.gpus, world, printer)?;
        device::start_threads(Some(machine.threads))?;
        device::keep(&machine);
        let given = job.read(caller, printer)?;
        let done = job.find(&machine, given, caller, printer)?;
        printer.finish();
        if !ranks::is_first() {
            return Ok(Outcome::Good);
        }
        tables::tell(&done, (args.json, args.run.talk()), tables::affine)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Cli, Command};
    use crate::config;
    use clap::Parser;
    use std::ffi::OsString;
    use std::path::Path;

    /// The arguments that were typed, with those of a file.
    fn with_config(file: &Path, typed: &[&str]) -> Result<AffineArgs, Failure> {
        told(file, typed).map(|(args, _)| args)
    }

    /// The same with what is said.
    fn told(file: &Path, typed: &[&str]) -> Result<(AffineArgs, Vec<String>), Failure> {
        let typed: Vec<_> = typed.iter().map(OsString::from).collect();
        let Command::Affine(args) = Cli::try_parse_from(&typed).unwrap().command else { panic!() };
        let check = |args: &OnRanks| Ok(voxalign_jobs::Job::check_options(&args.job)?);
        let merged = config::merged(file, "affine", (&args, &typed), check)?;
        Ok((merged.args, merged.notes))
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.toml");
        std::fs::write(
            &file,
            "fixed = 'f.nii'\nmoving = 'm.nii'\ndof = 6\nbins = 40\nreport = false\n",
        )
        .unwrap();
        let file = file.to_str().unwrap();
        let typed = ["voxalign", "affine", "--config", file, "--dof", "9", "--report", "other.nii"];
        let merged = with_config(Path::new(file), &typed).unwrap();
        let options = merged.job.job.method.usual(false).unwrap();
        assert_eq!((options.dof, options.first_similarity().bins()), (9, Some(40)));
        assert_eq!(merged.job.job.paths.fixed, Path::new("other.nii"));
        assert_eq!(merged.job.job.paths.moving, Path::new("m.nii"));
        assert!(merged.job.job.written.wants_report());
    }

    #[test]
    fn what_the_command_line_makes_meaningless_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.toml");
        let path = file.to_str().unwrap();
        std::fs::write(&file, "bins = 40\nsearch-angles = 30\nsearch-steps = [60, 18]\n").unwrap();
        let typed = ["voxalign", "affine", "--config", path, "--cost", "ncc", "--search", "local"];
        let (args, notes) = told(&file, &typed).unwrap();
        let method = &args.job.job.method;
        assert!(!method.cost.has("bins") && !method.search.has("search_angles"));
        assert!(!method.search.has("search_steps"));
        for (note, key) in notes.iter().zip(["'bins'", "'search-angles'", "'search-steps'"]) {
            assert!(note.contains("job.toml") && note.contains(key), "{note}");
        }
        assert_eq!(notes.len(), 3);
        // What was typed is never left out, and what is wrong with the file alone is no conflict.
        let typed = ["voxalign", "affine", "--config", path, "--cost", "ncc", "--bins", "9"];
        let said = told(&file, &typed).unwrap_err().to_string();
        assert!(said.contains("--bins is for") && !said.contains("job.toml"), "{said}");
        std::fs::write(&file, "cost = 'ncc'\nbins = 40\n").unwrap();
        let typed = ["voxalign", "affine", "--config", path];
        let said = told(&file, &typed).unwrap_err().to_string();
        assert!(said.contains("--bins is for") && said.contains("the key 'bins' of '"), "{said}");
        let typed = ["voxalign", "affine", "--config", path, "--cost", "nmi"];
        let (args, _) = told(&file, &typed).unwrap();
        assert_eq!(args.job.job.method.usual(false).unwrap().first_similarity().bins(), Some(40));
    }

    #[test]
    fn text_in_another_encoding_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.toml");
        std::fs::write(&file, b"dof = 6\n# M\xfcller\n").unwrap();
        let typed = ["voxalign", "affine", "--config", file.to_str().unwrap()];
        let said = told(&file, &typed).unwrap_err().to_string();
        assert!(said.contains("line 2") && said.contains("save it as UTF-8"), "{said}");
        assert!(said.contains("job.toml") && !said.contains("check the path"), "{said}");
    }

    #[test]
    fn a_bad_value_is_blamed_on_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.toml");
        std::fs::write(&file, "cost = 'xx'\n").unwrap();
        let typed = ["voxalign", "affine", "--config", file.to_str().unwrap()];
        let e = with_config(&file, &typed).unwrap_err();
        let text = e.to_string();
        assert!(text.contains("job.toml") && text.contains("--cost"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}
