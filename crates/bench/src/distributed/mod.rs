//! `voxalign bench distributed`: joint histograms of images that are spread over ranks, by every strategy (A. Adinetz, J. Kraus, M. Axer,
//! M. Huysegoms, S. Köhnen, D. Pleiter, *Computation of mutual information metric for image registration on multiple GPUs*).

mod args;
mod crew;
mod figures;
mod files;
mod measure;
mod needs;
mod results;
mod scene;
mod sectors;
mod sheets;
mod supply;
#[cfg(test)]
mod tests;
mod texture;
mod variants;

pub(crate) use args::DistributedArgs;

use crate::Host;
use crate::files::{check, write};
use args::Settings;
use crew::Crew;
use measure::{Expected, Found, Job, at_rank};
use needs::needs;
use results::{MemoryRow, Results};
use scene::Scene;
use std::sync::Arc;
use std::time::Instant;
use texture::Depth;
use variants::{Extent, Group, Strategy, Wanted, words};
use voxalign_compute::comm::Launch;
use voxalign_compute::{HostBuffer, Transfer};
use voxalign_image::memory::amount;
use voxalign_jobs::machine::{Auto, Machine};
use voxalign_jobs::{Error, Level, Result, check as stopped};
use voxalign_register::search::distributed::StrategyKind;

/// Measures and prints.
pub(super) fn run(args: &DistributedArgs, host: &dyn Host) -> Result<()> {
    check(args.csv.as_deref(), args.html.as_deref(), None)?;
    check(args.trace.as_deref(), None, None)?;
    if args.trace.is_some() && [&args.csv, &args.html].contains(&&args.trace) {
        return Err(Error::input("--trace names a file of another option; give each its own"));
    }
    let processes = Launch::of_this_process().is_some_and(|l| l.size != Some(1));
    let machine = if processes {
        host.team(args.running.machine, None)?
    } else {
        host.machine(args.running.machine, Auto::Cpu)?
    };
    let world = machine.team.as_ref().filter(|_| processes).map(|team| team.ranks().clone());
    let settings = args.settings(machine.gpu().is_some(), world.as_ref().map(|w| w.size()))?;
    let crew = match world {
        Some(world) => Crew::Processes(world, Box::new(machine.device.clone())),
        None => {
            let most = settings.ranks.iter().copied().max().unwrap_or(1);
            Crew::threads(&machine, most, args.names_a_device())?
        }
    };
    let results = match settings.bits {
        8 => measured::<u8>(&settings, &crew, &machine, host)?,
        _ => measured::<u16>(&settings, &crew, &machine, host)?,
    };
    if !crew.is_first() {
        return Ok(());
    }
    let sheets = sheets::all(&results);
    if let Some(path) = &args.csv {
        write(path, &files::csv(&results))?;
    }
    if let Some(path) = &args.trace {
        write(path, &files::trace(&results))?;
    }
    if let Some(path) = &args.html {
        write(path, &files::html(&results, &sheets))?;
    }
    if args.json {
        return crate::json(host, &results);
    }
    host.line(&format!("voxalign {}: {}", results.version, results.about()));
    sheets.iter().for_each(|sheet| sheet.print(host));
    Ok(())
}

/// Measures everything.
fn measured<P: Depth>(
    settings: &Settings,
    crew: &Crew,
    machine: &Machine,
    host: &dyn Host,
) -> Result<Results> {
    let mut results = Results::new(settings, crew, machine);
    let bench = Bench::<P> { settings, crew, host, whole: None };
    bench.all(&mut results)?;
    host.finish();
    if results.rows.is_empty() && crew.is_first() {
        let why: Vec<_> = results
            .memory
            .iter()
            .filter_map(|m| m.left_out.as_ref().map(|why| format!("{}: {why}", m.strategy)))
            .collect();
        return Err(Error::input(format!("nothing was measured; {}", why.join("; "))));
    }
    Ok(results)
}

/// What measures with pixels of one kind.
struct Bench<'a, P: Depth> {
    settings: &'a Settings,
    crew: &'a Crew,
    host: &'a dyn Host,
    /// The whole image on the host, once it was needed.
    whole: Option<Arc<HostBuffer<P>>>,
}

impl<P: Depth> Bench<'_, P> {
    fn all(mut self, results: &mut Results) -> Result<()> {
        let mut expected = Expected::default();
        if !self.settings.once {
            self.reference(&mut expected)?;
        }
        for &ranks in &self.settings.ranks {
            for group in self.settings.wanted.groups(ranks) {
                stopped(self.host)?;
                let found = match self.measure(&group, ranks, self.settings.repeats, &expected) {
                    Ok((found, memory)) => {
                        results.memory.push(memory);
                        found
                    }
                    Err(LeftOut::Here(memory)) => {
                        results.memory.push(memory);
                        continue;
                    }
                    Err(LeftOut::Failed(error)) => return Err(error),
                };
                let Some(found) = found else { continue };
                if expected.of.is_empty() {
                    expected.by = format!("'{}' on {ranks} ranks", group.name());
                    expected.of.clone_from(&found.counts);
                }
                results.add(&group, ranks, &found);
            }
        }
        results.compared_with = expected.by;
        Ok(())
    }

    /// The histograms of whole images on one rank, where they fit.
    fn reference(&mut self, expected: &mut Expected) -> Result<()> {
        let wanted = Wanted {
            strategies: vec![Strategy::Replicate],
            extent: Extent::Usual,
            pixels_per_thread: self.settings.wanted.pixels_per_thread[..1].to_vec(),
            ..self.settings.wanted.clone()
        };
        for group in wanted.groups(1) {
            match self.measure(&group, 1, 0, &Expected::default()) {
                Ok((found, _)) => expected.of = found.map(|f| f.counts).unwrap_or_default(),
                Err(LeftOut::Here(_)) => return Ok(()),
                Err(LeftOut::Failed(error)) => return Err(error),
            }
        }
        expected.by = "whole images on one rank".into();
        self.share(expected)
    }

    /// Gives the histograms of the first process to all.
    fn share(&self, expected: &mut Expected) -> Result<()> {
        let Crew::Processes(world, _) = self.crew else { return Ok(()) };
        let settings = self.settings;
        for (k, &window) in settings.wanted.windows.iter().enumerate() {
            let columns = self.settings.bins + if window.name() == "cubic" { 3 } else { 0 };
            if !world.is_first() {
                let none = vec![vec![0; settings.bins * columns]; settings.angles.len()];
                expected.of.push((window, none));
            }
            for counts in &mut expected.of[k].1 {
                world.broadcast(counts, 0)?;
            }
        }
        Ok(())
    }

    /// Measures a group; nothing where this process has no part in it.
    fn measure(
        &mut self,
        group: &Group,
        ranks: usize,
        repeats: usize,
        expected: &Expected,
    ) -> Result<(Option<Found>, MemoryRow), LeftOut> {
        let (settings, crew) = (self.settings, self.crew);
        let scene = settings.scene();
        let needs = needs::<P>(&scene, group, ranks, settings.device_memory)?;
        let mut memory = MemoryRow::new(group, ranks, &needs);
        // A whole image that is here already is not needed again.
        let mut beside = needs.clone();
        if self.whole.is_some() {
            beside.host = 0;
        }
        if let Err(why) = crew.fits(&beside, settings.device_memory) {
            self.say(format!("{}, ranks: {ranks}, is left out: {why}", group.name()));
            memory.left_out = Some(why);
            return Err(LeftOut::Here(memory));
        }
        let devices: Vec<_> = needs.devices.iter().map(|&b| amount(b)).collect();
        let devices = devices.join(", ");
        let what = if repeats == 0 { "the histograms to compare with" } else { &group.name() };
        self.say(format!("{what}, ranks: {ranks}, memory of each: {devices}"));
        let whole = matches!(group.kind, StrategyKind::Halo(_));
        let job = Job {
            scene,
            group: group.clone(),
            angles: &settings.angles,
            traced: settings.nearest(90.0),
            repeats,
            whole: if whole { Some(self.whole(&scene)?) } else { None },
            device_memory: settings.device_memory,
            expected,
            host: self.host,
        };
        match crew.run(ranks, |ranks, device| at_rank(ranks, device, &job)) {
            Ok(found) => Ok((found, memory)),
            // Devices that do not reach each other, and processes, have no such reads.
            Err(error @ Error::Input(_)) if group.strategy() == Strategy::Peer => {
                let why = error.to_string();
                self.say(format!("{}, ranks: {ranks}, is left out: {why}", group.name()));
                memory.left_out = Some(why);
                Err(LeftOut::Here(memory))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The whole image in memory of the host that all ranks of this process reach.
    fn whole(&mut self, scene: &Scene) -> Result<Arc<HostBuffer<P>>> {
        if let Some(whole) = &self.whole {
            return Ok(Arc::clone(whole));
        }
        let start = Instant::now();
        let mut whole = self.crew.device()?.host_alloc::<P>(scene.dims().iter().product())?;
        let reserved = Instant::now();
        scene.whole(&mut whole)?;
        let (memory, making) = (reserved - start, reserved.elapsed());
        let text = format!(
            "the whole moving image on the host: memory in {:.3} s, made in {:.3} s",
            memory.as_secs_f64(),
            making.as_secs_f64()
        );
        self.tell(Level::Verbose, text);
        let whole = Arc::new(whole);
        self.whole = Some(Arc::clone(&whole));
        Ok(whole)
    }

    fn say(&self, text: String) {
        self.tell(Level::Normal, text);
    }

    fn tell(&self, level: Level, text: String) {
        if self.crew.is_first() {
            self.host.tell(level, &text.into());
        }
    }
}

/// Why a group has no times.
enum LeftOut {
    /// There is no room for it, or the ranks cannot do it.
    Here(MemoryRow),
    /// What ends the measurement.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for LeftOut {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The name of a strategy, for rows.
fn named(group: &Group) -> &'static str {
    words(group.strategy())
}
