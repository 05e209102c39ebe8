//! The `Job` trait.

use crate::error::Result;
use crate::listener::Listener;
use crate::machine::{Auto, Machine};
use crate::pair::{Pair, PairPaths};
use crate::plan::Plan;
use crate::run::{Caller, Done};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use voxalign_report::Judged;

/// A whole task, from files to a judged and recorded result: a value with all its options.
///
/// [`run`](Self::run) does all of it. A program that has more to do meanwhile takes the steps one by one: options are
/// checked by themselves, then with the files that they name; files are read while a device starts; and what is searched
/// for is found on that device, judged, recorded and written.
pub trait Job: Clone + Default + Serialize + DeserializeOwned {
    /// What is found, as it is written.
    type Record: Judged;
    /// What is read before a device is needed.
    type Inputs;
    /// Its name, which is that of its command.
    const NAME: &'static str;
    /// The device that `device = auto` stands for.
    const AUTO: Auto;

    /// What has to be given and is not, such as `the fixed image FIXED`.
    fn missing(&self) -> Option<&'static str>;

    /// Checks the options alone.
    ///
    /// # Errors
    /// What is out of range, and options that others make meaningless.
    fn check_options(&self) -> Result<()>;

    /// Checks what can be checked before a device is started.
    ///
    /// # Errors
    /// As of [`check_options`](Self::check_options); files that are not there, outputs that are inputs.
    fn check(&self, caller: &Caller, listener: &dyn Listener) -> Result<()>;

    /// What it would read and write, and how much memory it would need.
    ///
    /// # Errors
    /// As of [`check`](Self::check); headers that cannot be read.
    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan>;

    /// Reads what can be read before a device is there.
    ///
    /// # Errors
    /// What is wrong with a file.
    fn read(&self, caller: &Caller, listener: &dyn Listener) -> Result<Self::Inputs>;

    /// Finds what is searched for and writes it.
    ///
    /// # Errors
    /// Inputs by which nothing can be found, files that cannot be written, what fails on the device,
    /// [`Stopped`](crate::Error::Stopped).
    fn find(
        &self,
        machine: &Machine,
        inputs: Self::Inputs,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<Self::Record>>;

    /// Does it all: checks, reads, finds and writes.
    ///
    /// # Errors
    /// As of the steps.
    fn run(
        &self,
        machine: &Machine,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<Self::Record>> {
        self.check(caller, listener)?;
        let inputs = self.read(caller, listener)?;
        self.find(machine, inputs, caller, listener)
    }
}

/// A job of two images, which may be in memory: their paths are empty then.
pub trait OfPair: Job {
    /// The files of the two images, and of what goes with them.
    fn paths(&self) -> &PairPaths;

    /// What else has to be read for these images.
    ///
    /// # Errors
    /// Options that these images do not have; what is wrong with a file.
    fn given(&self, pair: Pair, caller: &Caller, listener: &dyn Listener) -> Result<Self::Inputs>;
}

/// The first of some paths that is not given, with what is said of it.
pub(crate) fn missing(all: &[(&PathBuf, &'static str)]) -> Option<&'static str> {
    all.iter().find(|(path, _)| path.as_os_str().is_empty()).map(|(_, what)| *what)
}
