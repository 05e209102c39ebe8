//! Detection of an MPI launcher from the environment.

/// What a launcher declares about this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The environment variable that declares it.
    pub variable: &'static str,
    /// The number of processes, where that is declared.
    pub size: Option<usize>,
}

impl Launch {
    /// How this process was started; nothing, if it was started on its own.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| get(name)?.trim().parse::<usize>().ok();
        // Open MPI; MPICH and its kin, and srun with PMI.
        for variable in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"] {
            if let Some(size) = number(variable) {
                return Some(Self { variable, size: Some(size) });
            }
        }
        // srun with PMIx.
        let variable = "PMIX_RANK";
        get(variable).map(|_| Self { variable, size: number("SLURM_STEP_NUM_TASKS") })
    }

    /// The message where MPI is needed and the program was built without it.
    #[cfg_attr(feature = "mpi", allow(dead_code))]
    pub(super) fn needs_mpi(&self) -> String {
        let several = self.size.map_or_else(|| "several".into(), |n| n.to_string());
        format!(
            "this process was started as one of {several} ({} is set), but the program was built \
             without MPI; build it with `--features mpi`, or start it without mpirun or srun",
            self.variable
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_their_variables() {
        let of = |pairs: &'static [(&str, &str)]| {
            Launch::from_variables(|name| {
                pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
            })
        };
        let found = |variable, size| Some(Launch { variable, size });
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]), None);
        assert_eq!(of(&[("OMPI_COMM_WORLD_SIZE", "4")]), found("OMPI_COMM_WORLD_SIZE", Some(4)));
        assert_eq!(of(&[("PMI_SIZE", "2"), ("PMI_RANK", "1")]), found("PMI_SIZE", Some(2)));
        assert_eq!(of(&[("PMI_SIZE", "many")]), None);
        let step = &[("PMIX_RANK", "3"), ("SLURM_STEP_NUM_TASKS", "8")];
        assert_eq!(of(step), found("PMIX_RANK", Some(8)));
        assert_eq!(of(&[("PMIX_RANK", "0")]), found("PMIX_RANK", None));
    }

    #[test]
    fn what_is_missing_is_said() {
        let launch = Launch { variable: "PMI_SIZE", size: Some(4) };
        let said = launch.needs_mpi();
        for part in ["one of 4", "PMI_SIZE", "--features mpi"] {
            assert!(said.contains(part), "{said}");
        }
        assert!(Launch { size: None, ..launch }.needs_mpi().contains("one of several"));
    }
}
