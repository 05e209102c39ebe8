//! Unbiased affine alignment of the subjects, and the grid of the atlas.

pub(super) mod aligned;
mod outline;

pub use aligned::{AlignOptions, Aligned};

use super::geometry::UNIT;
use super::subjects::prepare::{onto, prepared};
use super::subjects::source::{Images, Size, Source, Subject, check_subjects};
use super::subjects::weighted::Weighted;
use super::template::measures::correlation_with_others;
use super::verdict::outliers::outlying;
use crate::error::{PopulationError, Result};
use crate::exchange::all_told;
use outline::{first, grid_around, outlines};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use voxalign_compute::Device;
use voxalign_compute::comm::Team;
use voxalign_image::{Affine, Grid, ImageView, Matrix4, Vector3, Volume};
use voxalign_register::attachment::images::finest;
use voxalign_register::limits::ATLAS;
use voxalign_register::linear::{AffineOptions, AffineResult, Init, PreparedFixed, Search};
use voxalign_register::model::solver::SolverKind;
use voxalign_register::model::symmetric::square_root;
use voxalign_register::{Event, Progress, Verdict};

/// A source with other maps.
struct Placed<'a> {
    subjects: Vec<Subject>,
    from: &'a dyn Source,
}

impl Source for Placed<'_> {
    fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    fn load(&self, subject: usize) -> Result<Images> {
        self.from.load(subject)
    }

    fn size(&self, subject: usize) -> Result<Size> {
        self.from.size(subject)
    }

    fn label(&self, subject: usize) -> std::path::PathBuf {
        self.from.label(subject)
    }
}

/// Finds maps from a common space to all subjects, and a grid of it. The devices of all ranks share the
/// registrations; all ranks call it, and have the same afterwards.
///
/// In each round the subjects' mean is made, each subject is registered to it, and the mean of the
/// maps is taken back, so that the space has no position, orientation or size that any subject
/// prefers. The first mean is that of the subjects with their centres of mass together.
///
/// # Errors
/// Images that cannot be read or are constant; maps that no mean can be made of; memory that runs
/// out; ranks that fail; a stop asked for by the listener.
pub fn align<D: Device>(
    team: &Team<D>,
    source: &dyn Source,
    options: &AlignOptions,
    solver: &SolverKind,
    progress: &dyn Progress,
) -> Result<Aligned> {
    let mut kept: Vec<usize> = (0..source.subjects().len()).collect();
    loop {
        let mut weights = vec![0.0; source.subjects().len()];
        kept.iter().for_each(|&k| weights[k] = source.subjects()[k].weight);
        let some = Weighted::new(source, &weights)?;
        let unlike = match align_all(team, &some, options, solver, progress)? {
            Ended::Lost(lost) => lost,
            Ended::Aligned(mut aligned) => {
                let unlike = match options.exclude_outlying {
                    true => outlying(&likeness(team, &some, &aligned)?),
                    false => Vec::new(),
                };
                if !unlike.contains(&true) {
                    aligned.kept = kept;
                    return Ok(*aligned);
                }
                unlike
            }
        };
        let mut like = unlike.into_iter().map(|u| !u);
        kept.retain(|_| like.next().unwrap_or(true));
    }
}

/// The correlation of each subject's first channel with the mean of the others, after their affine alignment.
fn likeness<D: Device>(team: &Team<D>, source: &dyn Source, aligned: &Aligned) -> Result<Vec<f64>> {
    let mut placed = Placed { subjects: source.subjects().to_vec(), from: source };
    for (subject, affine) in placed.subjects.iter_mut().zip(&aligned.affines) {
        subject.affine = *affine;
    }
    let grid = &aligned.grid;
    let mean = affine_mean(team, grid, &placed)?;
    let parts = &super::cohort::parts(&placed.subjects);
    let shared = &placed;
    let rows = team.each(&mut vec![(); team.devices().len()], |own, ()| {
        let device = own.device;
        let mean = device.upload(mean.data())?;
        let zero = device.alloc::<f32>(3 * grid.len())?;
        let mut rows = Vec::new();
        for index in own.share(shared.subjects.len()) {
            let image = started(device, shared, index, grid, &zero)?;
            rows.push(correlation_with_others(device, &image, &mean, parts[index])?);
        }
        Ok::<_, PopulationError>(rows)
    });
    let own: Vec<f64> = team.ranks().agree(rows)?.into_iter().flatten().collect();
    Ok(team.ranks().all_gather(&own)?.into_iter().flatten().collect())
}

/// The first channel of a subject after its affine map.
fn started<D: Device>(
    device: &D,
    source: &dyn Source,
    index: usize,
    grid: &Grid,
    zero: &D::Buffer<f32>,
) -> Result<D::Buffer<f32>> {
    let mut loaded = source.load(index)?;
    loaded.channels.truncate(1);
    loaded.mask = None;
    let prepared = prepared(device, &loaded, &source.label(index))?;
    match prepared.images.first() {
        Some(image) => onto(device, image, grid, &source.subjects()[index].affine, zero),
        None => Err(super::shared::missing(&source.label(index))),
    }
}

/// How an attempt ended.
enum Ended {
    Aligned(Box<Aligned>),
    /// Which subjects have maps that no mean can be made of, where these may be left out.
    Lost(Vec<bool>),
}

fn align_all<D: Device>(
    team: &Team<D>,
    source: &dyn Source,
    options: &AlignOptions,
    solver: &SolverKind,
    progress: &dyn Progress,
) -> Result<Ended> {
    check_subjects(source.subjects())?;
    let outlines = outlines(team, source)?;
    if outlines.iter().any(|o| o.is_2d != outlines[0].is_2d) {
        return Err(PopulationError::Images {
            found: "some of the images are 2D and others are 3D".to_owned(),
            remedy: "give images that are all 2D or all 3D".to_owned(),
        });
    }
    let spacing = match options.spacing {
        Some(spacing) => spacing,
        None => median(outlines.iter().map(|o| o.spacing).collect()),
    };
    let mut placed = Placed { subjects: source.subjects().to_vec(), from: source };
    let mut verdicts = Vec::new();
    if let Some(affine) = &options.affine {
        let weights = super::cohort::parts(&placed.subjects);
        let mut centre = Vector3::zeros();
        for (weight, outline) in weights.iter().zip(&outlines) {
            centre += outline.centre * *weight;
        }
        for (subject, outline) in placed.subjects.iter_mut().zip(&outlines) {
            subject.affine = Affine::translation(outline.centre - centre);
        }
        let rounds = options.rounds.max(1);
        for round in 0..rounds {
            let grid = match &options.grid {
                Some(grid) => grid.clone(),
                None => grid_around(&outlines, &placed.subjects, spacing, solver)?,
            };
            let mean = affine_mean(team, &grid, &placed)?;
            verdicts = registered(team, &mean, &mut placed, affine, [round, rounds], progress)?;
            let lost: Vec<bool> =
                placed.subjects.iter().map(|s| logarithm(&s.affine).is_none()).collect();
            if options.exclude_outlying && lost.len() >= ATLAS.fewest && lost.contains(&true) {
                return Ok(Ended::Lost(lost));
            }
            take_mean_back(&mut placed.subjects, source)?;
        }
    }
    let grid = match &options.grid {
        Some(grid) => grid.clone(),
        None => match shared_grid(team, source, options, spacing)? {
            Some(grid) => grid,
            None => grid_around(&outlines, &placed.subjects, spacing, solver)?,
        },
    };
    let kept = (0..placed.subjects.len()).collect();
    let affines = placed.subjects.into_iter().map(|s| s.affine).collect();
    Ok(Ended::Aligned(Box::new(Aligned { grid, kept, affines, verdicts })))
}

/// The weighted mean of the subjects' first channels after their affine alignment.
fn affine_mean<D: Device>(team: &Team<D>, grid: &Grid, source: &dyn Source) -> Result<Volume<f32>> {
    let (n, weights) = (grid.len(), super::cohort::parts(source.subjects()));
    let sums = team.each(&mut vec![(); team.devices().len()], |own, ()| {
        let device = own.device;
        let zero = device.alloc::<f32>(3 * n)?;
        let mut sums = device.alloc::<i64>(n)?;
        for index in own.share(source.subjects().len()) {
            let warped = started(device, source, index, grid, &zero)?;
            device.add_fixed(&warped, weights[index] * UNIT, &mut sums)?;
        }
        Ok::<_, PopulationError>(sums)
    });
    let mut sums = team.ranks().agree(sums)?;
    team.all_reduce_sum(&mut sums)?;
    let own = || -> Result<Volume<f32>> {
        let (Some(device), Some(sums)) = (team.devices().first(), sums.first()) else {
            return Err(PopulationError::Stopped);
        };
        let mut mean = device.alloc::<f32>(n)?;
        device.fixed_to_float(sums, 1.0 / UNIT, &mut mean)?;
        Ok(Volume::new(grid.clone(), device.into_host(mean)?)?)
    };
    team.ranks().agree(own())
}

/// Registers every subject to a mean, in one of several rounds; returns the verdicts of the registrations.
fn registered<D: Device>(
    team: &Team<D>,
    mean: &Volume<f32>,
    placed: &mut Placed<'_>,
    affine: &AffineOptions,
    [round, rounds]: [usize; 2],
    progress: &dyn Progress,
) -> Result<Vec<Verdict>> {
    let (began, name) = (Instant::now(), format!("affine, round {}", round + 1));
    let (counts, value) = ("subjects", "mean cost");
    let (index, count, share) = (round, rounds, 1.0 / rounds as f64);
    progress.event(&Event::StageStart { index, count, name: &name, counts, value, share });
    let count = placed.subjects.len();
    let shared: &Placed<'_> = placed;
    let done = AtomicUsize::new(0);
    let own_count = team.images(count).len();
    let found = team.each(&mut vec![(); team.devices().len()], |own, ()| {
        let (mut all, mut fixed) = (Vec::new(), None);
        for i in own.share(count) {
            let fixed = match &fixed {
                Some(fixed) => fixed,
                None => fixed.insert(PreparedFixed::new(own.device, mean, None, None)?),
            };
            let found = onto_mean(fixed, shared, i, affine, round, progress)?;
            let ended = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress.event(&Event::Step {
                done: ended as f64 / own_count as f64,
                evaluations: ended,
                best: found.cost_after,
                what: &shared.subjects[i].name,
            });
            all.push(found);
        }
        Ok::<_, PopulationError>(all)
    });
    let found: Vec<_> = team.ranks().agree(found)?.into_iter().flatten().collect();
    let row = |f: &AffineResult| -> [f64; 14] {
        let rows = f.transform.rows();
        std::array::from_fn(|i| match i {
            12 => f.cost_start,
            13 => f.cost_after,
            i => rows[i / 4][i % 4],
        })
    };
    let flat: Vec<f64> = found.iter().flat_map(row).collect();
    let all: Vec<f64> = team.ranks().all_gather(&flat)?.into_iter().flatten().collect();
    let mut costs = [0.0; 2];
    for (subject, row) in placed.subjects.iter_mut().zip(all.chunks_exact(14)) {
        subject.affine =
            Affine::from_rows(std::array::from_fn(|r| std::array::from_fn(|c| row[4 * r + c])));
        costs[0] += row[12] / count as f64;
        costs[1] += row[13] / count as f64;
    }
    let own: Vec<Verdict> = found.into_iter().map(|f| f.verdict).collect();
    let all: Vec<Verdict> = all_told(team.ranks(), &own)?.into_iter().flatten().collect();
    progress.event(&Event::StageEnd {
        name: &name,
        evaluations: count,
        start: costs[0],
        best: costs[1],
        seconds: began.elapsed().as_secs_f64(),
    });
    Ok(all)
}

/// The grid of the subjects' images where they are aligned already: all on one grid with maps that
/// change nothing, and no other spacing asked for.
fn shared_grid<D: Device>(
    team: &Team<D>,
    source: &dyn Source,
    options: &AlignOptions,
    spacing: f64,
) -> Result<Option<Grid>> {
    let identity = source.subjects().iter().all(|s| s.affine == Affine::identity());
    if options.affine.is_some() || !identity {
        return Ok(None);
    }
    let own = || -> Result<(Grid, bool)> {
        let grid = first(source, 0)?.grid().clone();
        for i in team.images(source.subjects().len()) {
            if !first(source, i)?.grid().approx_eq(&grid, 1e-3) {
                return Ok((grid, false));
            }
        }
        Ok((grid, true))
    };
    let (grid, same) = team.ranks().agree(own())?;
    let mut all = [f64::from(u8::from(same))];
    team.ranks().all_reduce_min(&mut all)?;
    if all[0] < 1.0 {
        return Ok(None);
    }
    Ok(((finest(&grid) - spacing).abs() < 1e-3 * spacing).then_some(grid))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(1.0)
}

/// Listens to nothing but the wish to stop of the one that listens to all.
struct Within<'a>(&'a dyn Progress);

impl Progress for Within<'_> {
    fn event(&self, _: &Event<'_>) {}

    fn stop(&self) -> bool {
        self.0.stop()
    }
}

fn onto_mean<D: Device>(
    mean: &PreparedFixed<D>,
    placed: &Placed<'_>,
    i: usize,
    options: &AffineOptions,
    round: usize,
    progress: &dyn Progress,
) -> Result<AffineResult> {
    let loaded = placed.from.load(i)?;
    let image = first(placed.from, i)?;
    let mut options = options.clone();
    if round > 0 {
        // The last round is near.
        options.init = Init::Given(placed.subjects[i].affine);
        options.search = Search::Local;
    }
    let moving_mask = loaded.mask.as_deref().map(ImageView::from);
    mean.register(&*image, moving_mask, &options, &Within(progress))
        .map_err(|e| super::subjects::prepare::of_file(e, &placed.from.label(i)))
}

/// Takes the weighted mean of the subjects' maps back from all of them.
fn take_mean_back(subjects: &mut [Subject], source: &dyn Source) -> Result<()> {
    let weights = super::cohort::parts(subjects);
    for _ in 0..20 {
        let mut mean = Matrix4::zeros();
        for (index, (weight, subject)) in weights.iter().zip(subjects.iter()).enumerate() {
            let lost = || PopulationError::Mirrored { file: source.label(index) };
            mean += logarithm(&subject.affine).ok_or_else(lost)? * *weight;
        }
        let back = Affine::from_homogeneous(&(-mean).exp());
        for subject in subjects.iter_mut() {
            subject.affine = back.then(&subject.affine);
        }
        if mean.abs().max() < 1e-9 {
            break;
        }
    }
    Ok(())
}

/// The matrix logarithm of an affine map: square roots until it is near the identity, then a series. None
/// of a map that mirrors, or turns by 180 degrees.
fn logarithm(affine: &Affine) -> Option<Matrix4<f64>> {
    const ROOTS: i32 = 12;
    let mut root = *affine;
    for _ in 0..ROOTS {
        root = square_root(&root).ok()?;
    }
    let x = root.to_homogeneous() - Matrix4::identity();
    let series = x - x * x * 0.5 + x * x * x * (1.0 / 3.0) - x * x * x * x * 0.25;
    Some(series * f64::from(2.0f32.powi(ROOTS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::AffineParameters;

    /// A source of names.
    struct Nothing;

    impl Source for Nothing {
        fn subjects(&self) -> &[Subject] {
            &[]
        }

        fn load(&self, _: usize) -> Result<Images> {
            Err(PopulationError::Stopped)
        }

        fn size(&self, _: usize) -> Result<Size> {
            Err(PopulationError::Stopped)
        }

        fn label(&self, subject: usize) -> std::path::PathBuf {
            format!("image {subject}").into()
        }
    }

    fn subject(affine: Affine) -> Subject {
        Subject { name: String::new(), weight: 1.0, affine }
    }

    fn turned(angle: f64, shift: f64, scale: f64) -> Affine {
        AffineParameters {
            rotation: Vector3::new(0.0, 0.2 * angle, angle),
            translation: Vector3::new(shift, -20.0, 0.3 * shift),
            scale: Vector3::new(scale, 1.0, 1.0 / scale),
            ..AffineParameters::identity(Vector3::zeros())
        }
        .to_affine()
    }

    #[test]
    fn a_logarithm_is_taken_back_by_the_exponential() {
        let a = turned(1.2, 80.0, 1.3);
        let again: Affine = Affine::from_homogeneous(&logarithm(&a).unwrap().exp());
        for p in [Vector3::zeros(), Vector3::new(70.0, -80.0, 90.0)] {
            assert!((again.apply(p) - a.apply(p)).norm() < 1e-5, "{a:?} {again:?}");
        }
        let mirror =
            Affine::from_rows([[-1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]);
        assert!(logarithm(&mirror).is_none());
        let mut subjects = [subject(a), subject(mirror)];
        let all = Placed { subjects: subjects.to_vec(), from: &Nothing };
        let said = take_mean_back(&mut subjects, &all).unwrap_err().to_string();
        assert!(said.contains("image 1") && said.contains("mirrors it"), "{said}");
    }

    #[test]
    fn the_mean_of_maps_is_taken_back() {
        let mut subjects: Vec<Subject> = [(0.4, 30.0, 1.1), (-0.2, 50.0, 0.9), (0.3, -10.0, 1.2)]
            .map(|(a, s, c)| subject(turned(a, s, c)))
            .to_vec();
        let before = subjects.clone();
        take_mean_back(&mut subjects, &Nothing).unwrap();
        let mean: Matrix4<f64> =
            subjects.iter().map(|s| logarithm(&s.affine).unwrap()).sum::<Matrix4<f64>>();
        assert!(mean.abs().max() < 1e-6, "{mean}");
        // From subject to subject the way is the same.
        let between = |s: &[Subject]| s[0].affine.inverse().unwrap().then(&s[1].affine);
        let p = Vector3::new(10.0, 60.0, -40.0);
        assert!((between(&before).apply(p) - between(&subjects).apply(p)).norm() < 1e-8);
        // Maps that are each other's inverse have no mean.
        let a = turned(0.5, 20.0, 1.1);
        let mut pair = vec![subject(a), subject(a.inverse().unwrap())];
        take_mean_back(&mut pair, &Nothing).unwrap();
        assert!((pair[0].affine.apply(p) - a.apply(p)).norm() < 1e-5);
    }
}
