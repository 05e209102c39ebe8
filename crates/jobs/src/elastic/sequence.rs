//! A body that follows a sequence of fixed images: each from where it was in the last good one (Mousazadeh 2011, section 3.3).

use super::{Registered, register};
use crate::deform;
use crate::error::{Error, Result};
use crate::listener::Listener;
use crate::options::{OutputOptions, refuse};
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use voxalign_compute::select::AnyDevice;
use voxalign_elasticity::State;
use voxalign_image::{Affine, Vector3, Volume, memory};
use voxalign_options::text;
use voxalign_register::Verdict;
use voxalign_register::compare::same_grid;
use voxalign_register::diffeo::ElasticSetting;
use voxalign_register::multiscale::{ScaleRecord, Schedule};
use voxalign_register::similarity::Similarity;

/// Where a body begins in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At rest, through all scales.
    Rest,
    /// Where [`ElasticSetting::start`] says, through all scales.
    State,
    /// With the displacements, velocities and accelerations at the end of this frame, counted from 1, without the coarse scales.
    Frame(usize),
}

impl Display for Begin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rest => f.write_str("rest"),
            Self::State => f.write_str("state"),
            Self::Frame(frame) => write!(f, "frame {frame}"),
        }
    }
}

/// How good a result is among those of one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rank {
    /// Checks that failed.
    failed: usize,
    /// The last energy.
    energy: f64,
}

impl Rank {
    pub(super) fn of(verdict: &Verdict, scales: &[ScaleRecord]) -> Self {
        let failed = verdict.checks.iter().filter(|c| !c.passed).count();
        // One that is bad without a check was not accepted.
        let failed = failed.max(usize::from(!verdict.good));
        let energy = scales.last().and_then(|s| s.energies.last().copied());
        Self { failed, energy: energy.unwrap_or(f64::NAN) }
    }

    /// Whether it is better: fewer checks failed, or as many at a lower energy.
    pub(super) fn beats(&self, other: &Self) -> bool {
        match self.failed.cmp(&other.failed) {
            std::cmp::Ordering::Equal => self.energy < other.energy,
            order => order.is_lt(),
        }
    }

    fn is_good(&self) -> bool {
        self.failed == 0
    }
}

/// A registration of a frame that is to be tried.
pub(super) struct Attempt {
    pub(super) begin: Begin,
    pub(super) setting: ElasticSetting,
    /// The affine part, where it is known already.
    pub(super) affine: Option<Affine>,
    /// Where the frame began the first time, of one that is tried again.
    pub(super) again: Option<Begin>,
    /// The result that it has to be better than, where there is one.
    pub(super) beat: Option<Rank>,
}

impl Attempt {
    /// Whether a result is to be kept.
    pub(super) fn keeps(&self, rank: &Rank) -> bool {
        self.beat.is_none_or(|beat| rank.beats(&beat))
    }
}

/// What came of it.
pub(super) struct Ended<T> {
    pub(super) result: T,
    pub(super) rank: Rank,
    /// The affine part and where the body ended; none where the affine part failed so far that nothing was deformed.
    pub(super) end: Option<(Affine, State)>,
}

/// A frame that is done.
pub(super) struct Step<T> {
    pub(super) frame: usize,
    pub(super) begin: Begin,
    pub(super) restarted: bool,
    pub(super) largest_change: Option<f64>,
    pub(super) result: T,
}

/// The body between frames.
#[derive(Debug)]
pub(super) struct Following {
    /// That of a frame from the beginning.
    setting: ElasticSetting,
    /// The scales of a frame that goes on from another one.
    schedule: Schedule,
    /// Frames so far.
    frame: usize,
    /// The last good frame, with its affine part, which is that of the first good one, and the body at its end.
    good: Option<(usize, Affine, State)>,
    /// Where the vertices were at the end of the last frame.
    last: Option<Vec<Vector3<f64>>>,
}

impl Following {
    /// The scales of frames that go on from another one are those of `then`, or the last one of the setting.
    pub(super) fn new(setting: ElasticSetting, then: Option<Schedule>) -> Self {
        let last = || Schedule(setting.multiscale.schedule.0.last().copied().into_iter().collect());
        let schedule = then.unwrap_or_else(last);
        Self { setting, schedule, frame: 0, good: None, last: None }
    }

    /// The scales of a frame that goes on from another one.
    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The number of the frame that comes next.
    pub(super) fn next_frame(&self) -> usize {
        self.frame + 1
    }

    /// From the last good frame, without the coarse scales.
    fn warm(&self) -> Option<Attempt> {
        let (frame, affine, state) = self.good.as_ref()?;
        let mut setting = self.setting.clone();
        setting.multiscale.schedule = self.schedule.clone();
        setting.start = Some(state.clone());
        let begin = Begin::Frame(*frame);
        Some(Attempt { begin, setting, affine: Some(*affine), again: None, beat: None })
    }

    /// From the beginning.
    fn cold(&self, again: Option<Begin>, beat: Option<Rank>) -> Attempt {
        let mut setting = self.setting.clone();
        let affine = self.good.as_ref().map(|(_, affine, _)| *affine);
        if affine.is_some() {
            setting.start = None;
        }
        let begin = if setting.start.is_some() { Begin::State } else { Begin::Rest };
        Attempt { begin, setting, affine, again, beat }
    }

    /// Registers the next frame by `attempt`, which gives nothing where the result is not [kept](Attempt::keeps): from where the
    /// last good frame ended, and where that is bad or fails once more from rest, of which the better one counts.
    pub(super) fn next<T>(
        &mut self,
        mut attempt: impl FnMut(Attempt) -> Result<Option<Ended<T>>>,
    ) -> Result<Step<T>> {
        self.frame += 1;
        let lost = || Error::Internal("a frame without a result".into());
        let Some(warm) = self.warm() else {
            let cold = self.cold(None, None);
            let begin = cold.begin;
            let ended = attempt(cold)?.ok_or_else(lost)?;
            return self.took(begin, false, ended);
        };
        let begin = warm.begin;
        let first = match attempt(warm) {
            Ok(Some(ended)) if ended.rank.is_good() => return self.took(begin, false, ended),
            Ok(ended) => ended,
            Err(error) if error.is_of_input() => None,
            Err(error) => return Err(error),
        };
        let cold = self.cold(Some(begin), first.as_ref().map(|ended| ended.rank));
        match (attempt(cold), first) {
            (Ok(Some(better)), _) => self.took(Begin::Rest, true, better),
            (Ok(None), Some(first)) => self.took(begin, true, first),
            (Err(error), Some(first)) if error.is_of_input() => self.took(begin, true, first),
            (Ok(None), None) => Err(lost()),
            (Err(error), _) => Err(error),
        }
    }

    /// Goes on from a result.
    fn took<T>(&mut self, begin: Begin, restarted: bool, ended: Ended<T>) -> Result<Step<T>> {
        let Ended { result, rank, end } = ended;
        let mut largest_change = None;
        if let Some((affine, state)) = end {
            let now = &state.displacements;
            largest_change = self
                .last
                .as_ref()
                .map(|last| now.iter().zip(last).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max));
            self.last = Some(memory::copied(now)?);
            if rank.is_good() {
                self.good = Some((self.frame, affine, state));
            }
        }
        Ok(Step { frame: self.frame, begin, restarted, largest_change, result })
    }
}

/// A body that follows a sequence of fixed images in memory, all of which are on one grid.
///
/// The first frame is registered through all scales, with its affine part. Each later one has the affine part of the first good frame
/// and begins where the last good one ended, with the velocities and accelerations there, at the last scale of the
/// schedule alone or by a [schedule](Self::with_schedule) of its own.
/// Where its verdict is bad or it fails, it is registered once more from rest through all scales, and the better result counts; a bad
/// frame has no influence on later ones.
///
/// ```
/// use voxalign_compute::select::DeviceChoice;
/// use voxalign_image::{Affine, Grid, Volume};
/// use voxalign_jobs::{Silent, deform, elastic};
/// use voxalign_register::diffeo::ElasticSetting;
/// use voxalign_register::multiscale::Schedule;
/// use voxalign_register::similarity::Similarity;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ball = |centre: f64| {
///     let grid = Grid::axis_aligned([24, 24, 24], [2.0; 3])?;
///     let of = |i: usize, j: usize, k: usize| {
///         let [x, y, z] = [i, j, k].map(|v| 2.0 * v as f64 - 23.0);
///         let away = ((x - centre).powi(2) + y * y + z * z).sqrt();
///         (100.0 / (1.0 + ((away - 12.0) / 2.0).exp())) as f32
///     };
///     Ok::<_, voxalign_image::ImageError>(Volume::from_fn(grid, of))
/// };
/// let (first, moving) = (ball(0.0)?, ball(3.0)?);
/// let body = elastic::of_image(first.grid(), 12.0, Default::default())?;
/// let mut setting = ElasticSetting::new(body);
/// setting.multiscale.schedule = Schedule::of(&[(2, 20), (1, 20)]);
/// let mut inputs = deform::Inputs::new(first, moving);
/// inputs.start = Some(Affine::identity());
/// let device = DeviceChoice::Cpu.open(Some(2))?;
/// let mut tracker = elastic::Tracker::new(inputs, Similarity::SSD, setting, Default::default())?;
/// for centre in [0.0, -1.0] {
///     let frame = tracker.next(&device, ball(centre)?, &Silent)?;
///     println!("frame {} from {}: {}", frame.frame, frame.begin, frame.registered.images.verdict.summary());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Tracker {
    inputs: deform::Inputs,
    start: Option<Affine>,
    with_rival: bool,
    similarity: Similarity,
    written: OutputOptions,
    following: Following,
}

/// A frame that a [`Tracker`] has registered.
#[derive(Debug)]
pub struct Tracked {
    /// Its number, from 1.
    pub frame: usize,
    /// Where the body began.
    pub begin: Begin,
    /// Whether it was registered a second time.
    pub restarted: bool,
    /// How far a vertex is at most from where it was at the end of the frame before, mm; none in the first one.
    pub largest_change: Option<f64>,
    /// The result.
    pub registered: Registered,
}

impl Tracker {
    /// Of the first frame, the moving image and what goes with them. A fixed mask is that of all frames. Of `written` the
    /// interpolation and the value outside are looked at.
    ///
    /// # Errors
    /// What [`ElasticSetting::check`] refuses; labels, which are of one frame.
    pub fn new(
        inputs: deform::Inputs,
        similarity: Similarity,
        setting: ElasticSetting,
        written: OutputOptions,
    ) -> Result<Self> {
        refuse(inputs.pair.fixed_labels.is_some(), "fixed_labels", text!("one fixed image"))?;
        setting.check(&inputs.as_input(similarity, Affine::identity()))?;
        let (start, with_rival) = (inputs.start, inputs.with_rival);
        let following = Following::new(setting, None);
        Ok(Self { inputs, start, with_rival, similarity, written, following })
    }

    /// The same with these scales for frames that go on from another one.
    #[must_use]
    pub fn with_schedule(mut self, schedule: Schedule) -> Self {
        self.following.schedule = schedule;
        self
    }

    /// Registers the next frame, of which the first one is the fixed image that was given at the beginning or another one in its place.
    ///
    /// # Errors
    /// As of [`register`]; an image on another grid. The next frame can be given all the same.
    pub fn next(
        &mut self,
        device: &AnyDevice,
        fixed: impl Into<Arc<Volume<f32>>>,
        listener: &dyn Listener,
    ) -> Result<Tracked> {
        let Self { inputs, start, with_rival, similarity, written, following } = self;
        let fixed = fixed.into();
        same_grid(inputs.pair.fixed.grid(), fixed.grid())?;
        inputs.pair.set_fixed(fixed, Vec::new());
        let step = following.next(|attempt| {
            inputs.start = attempt.affine.or(*start);
            inputs.with_rival = *with_rival && attempt.affine.is_none();
            let found = register(device, inputs, *similarity, &attempt.setting, written, listener)?;
            let deformation = &found.images.deformation;
            let rank = Rank::of(&found.images.verdict, &deformation.scales);
            if !attempt.keeps(&rank) {
                return Ok(None);
            }
            let end = Some((deformation.affine, found.body.state.clone()));
            Ok(Some(Ended { result: found, rank, end }))
        })?;
        let Step { frame, begin, restarted, largest_change, result: registered } = step;
        Ok(Tracked { frame, begin, restarted, largest_change, registered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elastic::of_image;
    use voxalign_compute::select::DeviceChoice;
    use voxalign_image::Grid;

    fn following() -> Following {
        let grid = Grid::axis_aligned([10, 12, 9], [2.0; 3]).unwrap();
        let body = of_image(&grid, 6.0, Default::default()).unwrap();
        Following::new(ElasticSetting::new(body), None)
    }

    /// A result by how many checks failed, its energy, and how far its one vertex went.
    fn ended(failed: usize, energy: f64, went: f64) -> Ended<&'static str> {
        let state = State { displacements: vec![Vector3::new(went, 0.0, 0.0)], ..State::default() };
        let rank = Rank { failed, energy };
        Ended { result: "", rank, end: Some((Affine::identity(), state)) }
    }

    #[test]
    fn frames_begin_where_the_last_good_one_ended() {
        let mut body = following();
        let first = body.next(|a| {
            assert!(a.begin == Begin::Rest && a.affine.is_none() && a.setting.start.is_none());
            assert_eq!(a.setting.multiscale.schedule, Schedule::usual());
            Ok(Some(ended(0, 1.0, 2.0)))
        });
        let first = first.unwrap();
        assert_eq!((first.frame, first.restarted, first.largest_change), (1, false, None));
        let second = body.next(|a| {
            assert!(a.begin == Begin::Frame(1) && a.affine.is_some());
            assert_eq!(a.setting.multiscale.schedule, Schedule::of(&[(1, 50)]));
            assert_eq!(a.setting.start.unwrap().displacements[0].x, 2.0);
            Ok(Some(ended(0, 1.0, 3.5)))
        });
        assert_eq!(second.unwrap().largest_change, Some(1.5));
        // A frame that is bad twice counts by the better one, and the next one does not begin there.
        let mut tries = Vec::new();
        let third = body.next(|a| {
            tries.push((a.begin, a.setting.multiscale.schedule.0.len(), a.beat.is_some()));
            let result = ended(2, if tries.len() == 1 { 1.0 } else { 1.5 }, 9.0);
            Ok(a.keeps(&result.rank).then_some(result))
        });
        let third = third.unwrap();
        assert_eq!(tries, [(Begin::Frame(2), 1, false), (Begin::Rest, 3, true)]);
        assert_eq!((third.begin, third.restarted), (Begin::Frame(2), true));
        let fourth = body.next(|a| {
            assert_eq!(a.begin, Begin::Frame(2));
            assert_eq!(a.setting.start.unwrap().displacements[0].x, 3.5);
            Ok(Some(ended(0, 1.0, 4.0)))
        });
        assert_eq!(fourth.unwrap().largest_change, Some(5.0));
    }

    /// Three frames of a ball with a texture that is pushed, on a GPU within a hundredth of a voxel of the CPU.
    #[test]
    fn a_gpu_follows_as_the_cpu_does() {
        if !std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|d| d.starts_with("cuda")) {
            eprintln!(
                "skipped: a_gpu_follows_as_the_cpu_does needs a GPU; set VOXALIGN_TEST_DEVICE to cuda"
            );
            return;
        }
        let grid = Grid::axis_aligned([40, 36, 32], [2.0; 3]).unwrap();
        let pushed = |by: f64| {
            Volume::from_fn(grid.clone(), |i, j, k| {
                let [x, y, z] =
                    [2.0 * i as f64 - 39.0, 2.0 * j as f64 - 35.0, 2.0 * k as f64 - 31.0];
                let x = x + by * (-(x * x + y * y + z * z) / 800.0).exp();
                let away = (x * x + y * y + z * z).sqrt();
                let texture = 10.0 * ((0.3 * x).sin() + (0.35 * y).cos() + (0.4 * z).sin());
                ((100.0 + texture) / (1.0 + ((away - 22.0) / 2.0).exp())) as f32
            })
        };
        let frames = [1.0, 2.0, 3.0].map(|by| Arc::new(pushed(by)));
        let follow = |device: DeviceChoice| {
            let device = device.open(Some(2)).unwrap();
            let body = of_image(&grid, 8.0, Default::default()).unwrap();
            let mut setting = ElasticSetting::new(body);
            setting.multiscale.schedule = Schedule::of(&[(2, 40), (1, 40)]);
            let mut inputs = deform::Inputs::new(Arc::clone(&frames[0]), pushed(0.0));
            inputs.start = Some(Affine::identity());
            let mut tracker =
                Tracker::new(inputs, Similarity::SSD, setting, Default::default()).unwrap();
            frames.clone().map(|frame| tracker.next(&device, frame, &crate::Silent).unwrap())
        };
        let [on_cpu, on_gpu] = [DeviceChoice::Cpu, DeviceChoice::Cuda(None)].map(follow);
        for (a, b) in on_cpu.iter().zip(&on_gpu) {
            assert_eq!((a.begin, a.restarted), (b.begin, b.restarted));
            let data = |t: &Tracked| t.registered.images.deformation.forward.data().to_vec();
            let apart = data(a).iter().zip(data(b)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let most = data(a).iter().fold(0.0f32, |m, v| m.max(v.abs()));
            println!("frame {}: {apart:.1e} mm apart of {most:.2} mm", a.frame);
            assert!(apart < 0.02 && most > 0.5 * a.frame as f32, "{apart} {most}");
        }
    }

    #[test]
    fn a_frame_that_fails_or_is_bad_gets_a_second_try() {
        let good =
            |body: &mut Following| body.next(|_| Ok(Some(ended(0, 1.0, 0.0)))).map(|_| ()).unwrap();
        let mut body = following();
        good(&mut body);
        let better = body.next(|a| match a.again {
            None => Ok(Some(ended(1, 1.0, 1.0))),
            Some(Begin::Frame(1)) => Ok(Some(ended(0, 1.2, 1.0))),
            other => panic!("{other:?}"),
        });
        assert_eq!(better.map(|s| (s.begin, s.restarted)).unwrap(), (Begin::Rest, true));
        let fails = || Err(Error::input("collapsed"));
        let after =
            body.next(|a| if a.again.is_none() { fails() } else { Ok(Some(ended(0, 1.0, 1.0))) });
        assert_eq!(after.unwrap().begin, Begin::Rest);
        // The first result stands where the second try fails.
        let stands =
            body.next(|a| if a.again.is_some() { fails() } else { Ok(Some(ended(1, 1.0, 1.0))) });
        assert_eq!(stands.unwrap().begin, Begin::Frame(3));
        let nothing = body.next(|_| Err::<Option<Ended<()>>, _>(Error::input("collapsed")));
        assert!(nothing.is_err_and(|e| e.to_string().contains("collapsed")));
        // One that is to stop stops at once.
        let mut tries = 0;
        let stopped = body.next(|_| {
            tries += 1;
            Err::<Option<Ended<()>>, _>(Error::Stopped)
        });
        assert!(matches!(stopped, Err(Error::Stopped)) && tries == 1);
    }

    #[test]
    fn until_a_frame_is_good_each_begins_anew() {
        let mut body = Following::new(following().setting, Some(Schedule::of(&[(2, 9)])));
        assert_eq!(body.schedule(), &Schedule::of(&[(2, 9)]));
        body.setting.start = Some(State::default());
        for _ in 0..2 {
            let step = body.next(|a| {
                assert!(a.begin == Begin::State && a.affine.is_none());
                Ok(Some(ended(1, 1.0, 1.0)))
            });
            assert!(!step.unwrap().restarted);
        }
        let rank = |failed, energy| Rank { failed, energy };
        assert!(!Rank::of(&Verdict::default(), &[]).is_good());
        assert!(Rank::of(&Verdict::new(Vec::new(), Vec::new()), &[]).is_good());
        assert!(rank(0, 9.0).beats(&rank(1, 1.0)) && rank(1, 1.0).beats(&rank(1, 2.0)));
        assert!(!rank(1, f64::NAN).beats(&rank(1, 2.0)) && !rank(1, 2.0).beats(&rank(1, 2.0)));
    }
}
