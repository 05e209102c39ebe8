//! The subjects of an atlas that are processed on one device.

use super::geometry::Shared as Geometries;
use super::member::Member;
use super::shared::{Core, Template, missing};
use super::subjects::away::{Away, Chest, DevicePack, HostPack, own_folder};
use super::subjects::memory::{Level, MemoryPlan, SLOTS};
use super::subjects::source::{Images, Source};
use crate::error::{PopulationError, Result};
use crate::stream::{self, Engine, Listener, Pipeline, Ring, Stage, Trace, Turn};
use rayon::prelude::*;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use voxalign_compute::{Device, Queue};
use voxalign_image::Grid;
use voxalign_io::hidden::HiddenFolder;
use voxalign_register::attachment::Attachments;
use voxalign_register::attachment::images::finest;
use voxalign_register::model::CohortModel;
use voxalign_register::multiscale::Scale;

/// Threads that read images.
const READERS: usize = 2;

/// A pass over the subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Visit {
    /// Whether its images are read for it.
    pub(super) load: bool,
    pub(super) changes: Changes,
}

/// The parts of subjects that a pass changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changes {
    Nothing,
    /// Buffers that steps change.
    Usual,
    All,
}

/// A device and its subjects.
pub(super) struct Crew<'a, D: Device, M: CohortModel<D>> {
    pub(super) core: Core<D, M>,
    pub(super) members: Vec<Member<D, M::State>>,
    /// For each subject that is not on the device where it is.
    away: Vec<Option<Mutex<Away>>>,
    /// The folder of those on disk, which goes after them.
    _folder: Option<HiddenFolder>,
    source: &'a dyn Source,
    base: D,
    streams: Option<Streams<D>>,
    /// The timeline of the last step of streamed subjects.
    pub(super) trace: Option<Trace>,
}

/// The task and the equipment of a crew.
pub(super) struct Post<'p, 'a, D: Device, M> {
    pub(super) model: M,
    pub(super) attachments: Attachments<D>,
    pub(super) geometry: Geometries<D>,
    /// The grid of the atlas.
    pub(super) grid: &'p Grid,
    pub(super) source: &'a dyn Source,
    /// Its subjects.
    pub(super) range: std::ops::Range<usize>,
    /// The parts of all subjects of the sum of all weights.
    pub(super) weights: &'p [f64],
    pub(super) channels: usize,
    pub(super) plan: MemoryPlan,
    /// The folder for subjects on disk.
    pub(super) scratch: &'p Path,
}

/// Queues of work of their own, where subjects are streamed.
struct Streams<D: Device> {
    steps: Arc<Queue<D>>,
    upload: Queue<D>,
    download: Queue<D>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, D: Device, M: CohortModel<D>> Crew<'a, D, M> {
    /// Subjects of which nothing is read yet.
    pub(super) fn new(device: &D, post: Post<'_, 'a, D, M>) -> Result<Self> {
        let Post {
            model,
            attachments,
            geometry,
            grid,
            source,
            range,
            weights,
            channels,
            plan,
            scratch,
        } = post;
        let member = |index: usize| Member {
            index,
            weight: weights[index],
            affine: source.subjects()[index].affine,
            file: source.label(index),
            state: None,
            whole: None,
            mask: None,
            warped: Vec::new(),
            weights: None,
            pulls: None,
            done: Vec::new(),
        };
        let members: Vec<_> = range.map(member).collect();
        let on_disk = !plan.in_core() && plan.level == Level::Disk;
        let folder = on_disk.then(|| own_folder(scratch)).transpose()?;
        let chests = folder.as_ref().map_or(scratch, HiddenFolder::path);
        let away = |(place, member): (usize, &Member<D, M::State>)| {
            (place >= plan.resident).then(|| {
                Mutex::new(match plan.level {
                    Level::Host => Away::Host(HostPack::default()),
                    Level::Disk => Away::Disk(Chest::new(chests, member.index)),
                })
            })
        };
        let away = members.iter().enumerate().map(away).collect();
        let streams = match plan.in_core() {
            true => None,
            false => Some(Streams {
                steps: Arc::new(device.lasting_queue()?),
                upload: device.queue()?,
                download: device.queue()?,
            }),
        };
        let own = match &streams {
            Some(streams) => streams.steps.run(|d| Ok::<_, PopulationError>(d.clone()))?,
            None => device.clone(),
        };
        let core = Core {
            device: own,
            grid: grid.clone(),
            model,
            attachments,
            geometry,
            template: Template { grid: grid.clone(), channels: Vec::new() },
            channels,
            plan,
            target: finest(grid),
            spare: Vec::new(),
            sums: Vec::new(),
            counted: Vec::new(),
            everywhere: 0,
            affine_mean: Vec::new(),
        };
        let (base, trace) = (device.clone(), None);
        Ok(Self { core, members, away, _folder: folder, source, base, streams, trace })
    }

    /// Tells a subject the parts of its energy before its last step.
    pub(super) fn tell(&mut self, index: usize, parts: &[f64]) {
        let member = self.members.iter_mut().find(|m| m.index == index);
        if let Some(state) = member.and_then(|m| m.state.as_mut()) {
            self.core.model.told(state, parts);
        }
    }

    /// Does some work with what the subjects share.
    pub(super) fn turn<R>(&mut self, work: impl FnOnce(&mut Core<D, M>) -> Result<R>) -> Result<R> {
        match self.streams.as_ref().map(|s| Arc::clone(&s.steps)) {
            Some(queue) => queue.run(|_| work(&mut self.core)),
            None => work(&mut self.core),
        }
    }

    /// Does some work with each subject: those on the device, and those that are streamed through it one after the
    /// other, while the next ones are uploaded and the last ones downloaded. Returns the timeline where subjects
    /// are streamed.
    pub(super) fn visit(
        &mut self,
        visit: Visit,
        listener: &dyn Listener,
        mut work: impl FnMut(&mut Core<D, M>, &mut Member<D, M::State>, Option<Images>) -> Result<()>
        + Send,
    ) -> Result<Option<Trace>> {
        let comes = |crew: &Self, m: usize| {
            crew.away[m].is_some() || (visit.load && crew.members[m].whole.is_none())
        };
        let (items, here): (Vec<usize>, Vec<usize>) =
            (0..self.members.len()).partition(|&m| comes(self, m));
        if !items.is_empty() {
            return self.stream(visit, &items, &here, listener, work);
        }
        let queue = self.streams.as_ref().map(|s| Arc::clone(&s.steps));
        let mut all = || {
            for &m in &here {
                if listener.stop() {
                    return Err(PopulationError::Stopped);
                }
                work(&mut self.core, &mut self.members[m], None)?;
            }
            Ok(())
        };
        match queue {
            Some(queue) => queue.run(|_| all())?,
            None => all()?,
        }
        Ok(None)
    }

    /// Streams subjects through the device one after the other. Those that are `here` are processed in between,
    /// while copies are in progress.
    fn stream(
        &mut self,
        visit: Visit,
        items: &[usize],
        here: &[usize],
        listener: &dyn Listener,
        work: impl FnMut(&mut Core<D, M>, &mut Member<D, M::State>, Option<Images>) -> Result<()> + Send,
    ) -> Result<Option<Trace>> {
        let (base, source, away, streams) = (&self.base, self.source, &self.away, &self.streams);
        let subjects: Vec<usize> = self.members.iter().map(|m| m.index).collect();
        let kept: Vec<bool> = self.members.iter().map(|m| m.whole.is_some()).collect();
        let (all, any) = (visit.changes == Changes::All, visit.changes != Changes::Nothing);
        let arrivals = READERS + 1;
        let loaded: Vec<Mutex<Option<Images>>> = (0..arrivals).map(|_| Mutex::default()).collect();
        let arriving: Vec<Mutex<HostPack>> = (0..arrivals).map(|_| Mutex::default()).collect();
        let slots: Vec<Mutex<DevicePack<D>>> = (0..SLOTS).map(|_| Mutex::default()).collect();
        let leaving: Vec<Mutex<HostPack>> = (0..2).map(|_| Mutex::default()).collect();
        let state = Mutex::new((&mut self.core, &mut self.members, work));
        let on = |queue: fn(&Streams<D>) -> &Queue<D>, work: &mut dyn FnMut(&D) -> Result<()>| {
            match streams {
                Some(streams) => queue(streams).run(|d| work(d)),
                None => work(base),
            }
        };

        let read = |t: Turn| {
            let m = items[t.item];
            if visit.load && !kept[m] {
                *lock(&loaded[t.item % arrivals]) = Some(source.load(subjects[m])?);
            }
            if let Some(away) = &away[m]
                && let Away::Disk(chest) = &*lock(away)
            {
                chest.read(base, &mut lock(&arriving[t.item % arrivals]))?;
            }
            Ok(())
        };
        let upload = |t: Turn| {
            let Some(away) = &away[items[t.item]] else { return Ok(()) };
            let mut to = lock(&slots[t.item % SLOTS]);
            match &*lock(away) {
                Away::Host(from) => {
                    from.room(base, &mut to)?;
                    on(|s| &s.upload, &mut |d| from.upload(d, &mut to))
                }
                Away::Disk(_) => {
                    let mut from = lock(&arriving[t.item % arrivals]);
                    from.room(base, &mut to)?;
                    on(|s| &s.upload, &mut |d| from.hand_over(d, &mut to))
                }
            }
        };
        let execute = |t: Turn| {
            let m = items[t.item];
            let mut images = lock(&loaded[t.item % arrivals]).take();
            let mut slot = lock(&slots[t.item % SLOTS]);
            let (core, members, work) = &mut *lock(&state);
            let mut all = || {
                let member = &mut members[m];
                if away[m].is_some() {
                    member.exchange(&core.model, &mut slot);
                }
                work(core, member, images.take())?;
                if away[m].is_some() {
                    member.leave(&core.device, &core.model, &mut slot)?;
                }
                let turn = |t: usize| t * here.len() / items.len();
                for &m in &here[turn(t.item)..turn(t.item + 1)] {
                    work(core, &mut members[m], None)?;
                }
                Ok(())
            };
            match streams {
                Some(streams) => streams.steps.run(|_| all()),
                None => all(),
            }
        };
        let download = |t: Turn| {
            let Some(away) = away[items[t.item]].as_ref().filter(|_| any) else { return Ok(()) };
            let mut from = lock(&slots[t.item % SLOTS]);
            let mut place = lock(away);
            let mut buffers = lock(&leaving[t.item % leaving.len()]);
            let to = match &mut *place {
                Away::Host(to) => to,
                Away::Disk(_) => &mut *buffers,
            };
            to.fit_to(base, &from, all)?;
            on(|s| &s.download, &mut |d| to.hand_back(d, &mut from, all))
        };
        let write = |t: Turn| {
            let Some(away) = away[items[t.item]].as_ref().filter(|_| any) else { return Ok(()) };
            match &mut *lock(away) {
                Away::Host(_) => Ok(()),
                Away::Disk(chest) => chest.write(&lock(&leaving[t.item % leaving.len()]), all),
            }
        };
        let ring = |first, last, size| Ring { first, last, size, keep: 0 };
        let stages = vec![
            Stage::new("read", Engine::Reader, read).with_workers(READERS),
            Stage::new("upload", Engine::Upload, upload),
            Stage::new("execute", Engine::Compute, execute),
            Stage::new("download", Engine::Download, download),
            Stage::new("write", Engine::Writer, write),
        ];
        let rings = vec![ring(0, 2, arrivals), ring(1, 3, SLOTS), ring(3, 4, leaving.len())];
        let pipeline = Pipeline::new(stages, rings)?;
        let trace = pipeline.run(0..items.len(), stream::Model::default(), listener)?;
        Ok(streams.is_some().then_some(trace))
    }

    /// Brings everything to a scale.
    pub(super) fn bring(&mut self, scale: &Scale, listener: &dyn Listener) -> Result<()> {
        self.turn(|core| core.go_to_scale(scale))?;
        // Of a subject that is streamed the buffers at the scale before are needed once more.
        let visit = Visit { load: true, changes: Changes::All };
        let resident = self.core.plan.resident;
        let first = self.members.first().map_or(0, |m| m.index);
        self.visit(visit, listener, |core, member, images| {
            let prepared = match (member.whole.take(), images) {
                (Some(prepared), _) => prepared,
                (None, Some(images)) => core.prepare(&images, &member.file)?,
                (None, None) => return Err(missing(&member.file)),
            };
            core.refine(&prepared, member)?;
            let keeps = core.plan.keeps_warped && member.index - first < resident;
            member.warped =
                if keeps && core.model.needs_warped() { core.images()? } else { Vec::new() };
            if core.plan.keeps_images {
                member.whole = Some(prepared);
            }
            Ok(())
        })
        .map(drop)
    }

    /// Reads the images that stay on the device, and makes room on the host for subjects that do not.
    pub(super) fn load(&mut self, listener: &dyn Listener) -> Result<()> {
        // Page-locked memory is slow to come by, so that it is asked for once, for the finest scale.
        let changing = self.core.model.changing_lengths(&self.core.grid);
        let (base, source) = (&self.base, self.source);
        let indices: Vec<usize> = self.members.iter().map(|m| m.index).collect();
        self.away.par_iter().zip(indices).try_for_each(|(away, index)| {
            let Some(away) = away else { return Ok(()) };
            let mut away = lock(away);
            if let Away::Host(pack) = &mut *away {
                let size = source.size(index)?;
                let each = (size.voxels as usize).div_ceil(size.channels.max(1));
                *pack = HostPack::with_room(base, &changing, &vec![each; size.channels])?;
            }
            Ok::<_, PopulationError>(())
        })?;
        if !self.core.plan.keeps_images {
            return Ok(());
        }
        let visit = Visit { load: true, changes: Changes::Nothing };
        self.visit(visit, listener, |core, member, images| {
            if let Some(images) = images {
                member.whole = Some(core.prepare(&images, &member.file)?);
            }
            Ok(())
        })
        .map(drop)
    }

    /// Where the subjects are.
    pub(super) fn plan(&self) -> MemoryPlan {
        self.core.plan
    }

    /// Where their images come from.
    pub(super) fn source(&self) -> &'a dyn Source {
        self.source
    }

    /// Whether any subject has voxels that do not count.
    pub(super) fn is_masked(&self) -> bool {
        self.members.iter().any(|m| m.mask.is_some())
    }
}
