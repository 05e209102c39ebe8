//! The results of an atlas after the last iteration.

use super::measures::{correlation_with_others, entropy, gradient_energy, information_of_others};
use crate::atlas::cohort::{Cohort, Stop};
use crate::atlas::construction::{Atlas, ENTROPY_BINS, Found, Sink, Times};
use crate::atlas::crew::{Changes, Visit};
use crate::atlas::geometry::{CarriedGeometry, TemplateGeometry, UNIT};
use crate::atlas::member::Member;
use crate::atlas::options::Sharpness;
use crate::atlas::shared::{Core, missing};
use crate::atlas::subjects::prepare::{onto, whole};
use crate::atlas::subjects::source::Images;
use crate::error::{PopulationError, Result};
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::flow::Step;
use voxalign_image::{Vector3, Volume};
use voxalign_register::attachment::images::Moved;
use voxalign_register::attachment::images::finest;
use voxalign_register::diffeo::{Conclusion, TISSUE, field_checks, to_world};
use voxalign_register::model::CohortModel;
use voxalign_register::{Progress, Verdict};

/// Sums over the subjects of a device.
struct Sums<D: Device> {
    /// Of the logarithm of the changes of volume.
    log: D::Buffer<i64>,
    /// Of the images after the affine alignment alone, one a channel.
    starts: Vec<D::Buffer<i64>>,
}

/// Settles the fields, hands on what was found for each subject, and makes the template of that.
pub(in crate::atlas) fn conclude<D: Device, M: CohortModel<D>>(
    mut cohort: Cohort<'_, D, M>,
    times: Times,
    centre: bool,
    progress: &dyn Progress,
    sink: &dyn Sink,
) -> Result<Atlas> {
    let team = cohort.team;
    let back = if centre { cohort.back_to_mean()? } else { Vec::new() };
    cohort.shift_template(&back)?;
    let geometry = cohort.template_geometry();
    cohort.clear()?;
    let stop = Stop(progress);
    let sums = team.each(&mut cohort.crews, |own, crew| {
        let mut sums = crew.turn(|core| {
            let (device, n) = (&core.device, core.grid.len());
            let starts = core.sums.iter().map(|_| Ok(device.alloc(n)?));
            Ok(Sums { log: device.alloc(n)?, starts: starts.collect::<Result<_>>()? })
        })?;
        let visit = Visit { load: true, changes: Changes::All };
        let back = back.get(own.place).map(|shift| &shift.there);
        crew.visit(visit, &stop, |core, member, images| {
            subject(core, member, images, back, &mut sums, (sink, &geometry))
        })?;
        Ok::<_, PopulationError>(sums)
    });
    let sums = team.ranks().agree(sums)?;
    drop(back);
    cohort.average()?;
    let (mut logs, mut starts) = (Vec::new(), Vec::new());
    for own in sums {
        logs.push(own.log);
        starts.push(own.starts);
    }
    let logs = cohort.all_reduced(logs)?;
    // By channels, each with a sum of every device.
    let channels = starts.first().map_or(0, Vec::len);
    let mut by_channel: Vec<Vec<D::Buffer<i64>>> = (0..channels).map(|_| Vec::new()).collect();
    for own in starts {
        for (channel, sums) in by_channel.iter_mut().zip(own) {
            channel.push(sums);
        }
    }
    for channel in by_channel {
        let sums = cohort.all_reduced(channel)?;
        for (crew, sums) in cohort.crews.iter_mut().zip(sums) {
            crew.turn(|core| {
                let mean = mean(core, &sums)?;
                core.affine_mean.push(mean);
                Ok(())
            })?;
        }
    }
    let spread = spread(&mut cohort, &stop)?;
    let Some(crew) = cohort.crews.first_mut() else { return Err(no_device()) };
    let grid = cohort.grid.clone();
    crew.turn(|core| {
        let host = |b: &D::Buffer<f32>| -> Result<Volume<f32>> {
            Ok(Volume::new(grid.clone(), core.device.download(b)?)?)
        };
        let log = mean(core, &logs[0])?;
        let (template, before) = (&core.template.channels, &core.affine_mean);
        Ok(Atlas {
            template: template.iter().map(host).collect::<Result<Vec<_>>>()?,
            affine_mean: before.iter().map(host).collect::<Result<Vec<_>>>()?,
            variance: host(&spread.variance)?,
            entropy: host(&spread.entropy)?,
            log_jacobian: host(&log)?,
            geometry: geometry.to_vec(),
            correlations: spread.correlations,
            information: spread.information,
            ends: [sharpness(core, &before[0])?, sharpness(core, &template[0])?],
            sharpness: cohort.sharpness,
            snapshots: cohort.snapshots,
            scales: times.scales,
            plans: times.plans,
            trace: times.trace,
        })
    })
}

fn no_device() -> PopulationError {
    PopulationError::option("devices", "none", "give at least one")
}

/// The mean of which sums are the weighted sums over all subjects.
fn mean<D: Device, M: CohortModel<D>>(
    core: &Core<D, M>,
    sums: &D::Buffer<i64>,
) -> Result<D::Buffer<f32>> {
    let mut mean = core.device.alloc::<f32>(core.grid.len())?;
    core.device.fixed_to_float(sums, 1.0 / UNIT, &mut mean)?;
    Ok(mean)
}

/// How sharp an image of the full grid is.
fn sharpness<D: Device, M: CohortModel<D>>(
    core: &Core<D, M>,
    image: &D::Buffer<f32>,
) -> Result<Sharpness> {
    Ok(Sharpness {
        factor: 1,
        iteration: 0,
        entropy: entropy(&core.device, image)?,
        gradient_energy: gradient_energy(&core.device, image, &core.grid)?,
    })
}

/// Settles the field of a subject, adds what it gives to the sums, and keeps its first image after the
/// deformation and after the affine map alone.
fn subject<D: Device, M: CohortModel<D>>(
    core: &mut Core<D, M>,
    member: &mut Member<D, M::State>,
    images: Option<Images>,
    back: Option<&D::Buffer<f32>>,
    sums: &mut Sums<D>,
    (sink, geometry): (&dyn Sink, &[TemplateGeometry]),
) -> Result<()> {
    let prepared = match (member.take_whole(), images) {
        (Some(prepared), _) => prepared,
        (None, Some(images)) => core.prepare(&images, &member.file)?,
        (None, None) => return Err(missing(&member.file)),
    };
    let (device, grid) = (core.device.clone(), core.grid.clone());
    let n = grid.len();
    let Some(state) = &mut member.state else { return Err(missing(&member.file)) };
    let mut field = device.alloc::<f32>(3 * n)?;
    core.model.lend_displacement(&device, state, &mut |displacement, _| match back {
        None => Ok(device.copy(displacement, &mut field)?),
        Some(back) => {
            let step = Step { scale: [1.0; 3], limit: None };
            Ok(device.advance(displacement, back, &step, grid.dims(), &mut field)?)
        }
    })?;
    let mut inverse = device.alloc::<f32>(3 * n)?;
    device.eval(&(-x(0)), &[&field], &[], None, &mut inverse)?;
    let end = Conclusion::new(&device, &grid, [field, inverse], false)?;
    let mut log = device.alloc::<f32>(n)?;
    device.eval(&x(0).max(1e-3).log(), &[&end.jacobian], &[], None, &mut log)?;
    device.add_fixed(&log, member.weight * UNIT, &mut sums.log)?;
    drop(log);

    let zero = device.alloc::<f32>(3 * n)?;
    let (mut warped, mut first) = (Vec::new(), None);
    for (image, sums) in prepared.images.iter().zip(&mut sums.starts) {
        warped.push(onto(&device, image, &grid, &member.affine, &end.fields[0])?);
        let start = onto(&device, image, &grid, &member.affine, &zero)?;
        device.add_fixed(&start, member.weight * UNIT, sums)?;
        first.get_or_insert(start);
    }
    drop(zero);
    let weights = match &prepared.mask {
        Some(mask) => {
            let mask = mask.at(&device, finest(&grid))?;
            let moved = Moved::new(mask, &grid, &member.affine);
            let mut weights = device.alloc::<f32>(n)?;
            moved.warp_to(&device, &end.fields[0], grid.dims(), &mut weights)?;
            whole(&device, &mut weights)?;
            Some(weights)
        }
        None => None,
    };
    // What is measured of is the tissue that the subject shows on the template, or what counts of it.
    let counts = weights.as_ref().map(|w| (w, 0.0));
    let object = match counts.or_else(|| warped.first().map(|image| (image, TISSUE))) {
        Some((shown, above)) => {
            let mut object = device.alloc::<f32>(n)?;
            device.eval(&x(0).gt(param(0)), &[shown], &[above], None, &mut object)?;
            Some(object)
        }
        None => None,
    };
    let measures = end.measures(&device, &grid, object.as_ref())?;
    drop(object);
    core.add(&warped, weights.as_ref(), member.weight)?;
    let host = |b: &D::Buffer<f32>| -> Result<Volume<f32>> {
        Ok(Volume::new(grid.clone(), device.download(b)?)?)
    };
    let checks = field_checks(&measures, finest(&grid));
    let [forward, inverse] = end.fields;
    let forward = to_world(&grid, device.into_host(forward)?)?;
    let carried = |t: &TemplateGeometry| {
        let before = t.vertices.iter().map(|v| member.affine.apply(*v));
        let to = |v: &Vector3<f64>| member.affine.apply(v + forward.sample_clamped(*v));
        let after = t.vertices.iter().map(to).collect();
        CarriedGeometry { from: t.from, before: before.collect(), after }
    };
    let geometry = geometry.iter().map(carried).collect();
    sink.subject(Found {
        subject: member.index,
        geometry,
        forward,
        inverse: to_world(&grid, device.into_host(inverse)?)?,
        jacobian: Volume::new(grid.clone(), device.into_host(end.jacobian)?)?,
        warped: warped.iter().map(host).collect::<Result<Vec<_>>>()?,
        measures,
        mended: end.mended,
        verdict: Verdict::new(checks, Vec::new()),
    })?;
    warped.truncate(1);
    warped.extend(first);
    member.end(warped);
    Ok(())
}

/// How the subjects are spread about the template.
struct Spread<D: Device> {
    variance: D::Buffer<f32>,
    entropy: D::Buffer<f32>,
    correlations: Vec<[f64; 2]>,
    information: Vec<[f64; 2]>,
}

/// Sums over the subjects of a device for some bins, and for the variance at the first of them.
struct Counts<D: Device> {
    bins: Vec<D::Buffer<i64>>,
    squares: Option<D::Buffer<i64>>,
    /// The number of a subject, its correlations before and after, and its information then.
    told: Vec<[f64; 5]>,
}

fn spread<D: Device, M: CohortModel<D>>(
    cohort: &mut Cohort<'_, D, M>,
    stop: &Stop<'_>,
) -> Result<Spread<D>> {
    let (team, n) = (cohort.team, cohort.grid.len());
    // As many bins at a time as a quarter of the memory has room for, everywhere the same.
    let room = |device: &D| {
        let free = device.memory().free.unwrap_or(u64::MAX) / 4;
        (free / (8 * n as u64)).clamp(1, ENTROPY_BINS as u64) as f64
    };
    let mut most = [team.devices().iter().map(room).fold(f64::MAX, f64::min)];
    team.ranks().all_reduce_min(&mut most)?;
    let most = most[0] as usize;
    let (mut variance, mut told, mut total) = (None, Vec::new(), None);
    for first in (0..ENTROPY_BINS).step_by(most) {
        let bins = first..(first + most).min(ENTROPY_BINS);
        let found = cohort.each(|crew| {
            let mut counts = crew.turn(|core| {
                let zeros = || -> Result<D::Buffer<i64>> { Ok(core.device.alloc(n)?) };
                Ok(Counts::<D> {
                    bins: bins.clone().map(|_| zeros()).collect::<Result<_>>()?,
                    squares: if first == 0 { Some(zeros()?) } else { None },
                    told: Vec::new(),
                })
            })?;
            let visit = Visit { load: false, changes: Changes::Nothing };
            crew.visit(visit, stop, |core, member, _| {
                count(core, member, bins.clone(), &mut counts)
            })?;
            Ok(counts)
        })?;
        let (mut squares, mut rows) = (Vec::new(), Vec::new());
        let mut by_bin: Vec<Vec<D::Buffer<i64>>> = bins.clone().map(|_| Vec::new()).collect();
        for counts in found {
            squares.extend(counts.squares);
            rows.push(counts.told);
            for (bin, sums) in by_bin.iter_mut().zip(counts.bins) {
                bin.push(sums);
            }
        }
        if first == 0 {
            let sums = cohort.all_reduced(squares)?;
            let Some(crew) = cohort.crews.first_mut() else { return Err(no_device()) };
            variance = Some(crew.turn(|core| mean(core, &sums[0]))?);
            told = cohort.gathered(rows)?;
            told.sort_by(|a, b| a[0].total_cmp(&b[0]));
        }
        for bin in by_bin {
            let sums = cohort.all_reduced(bin)?;
            let Some(crew) = cohort.crews.first_mut() else { return Err(no_device()) };
            total = Some(crew.turn(|core| {
                let part = mean(core, &sums[0])?;
                let mut total = match total.take() {
                    Some(total) => total,
                    None => core.device.alloc::<f32>(n)?,
                };
                let bits = x(1) * x(1).max(1e-30).log() * param(0);
                let to_bits = [-std::f32::consts::LOG2_E];
                core.device.eval_in_place(&(x(0) + bits), &mut total, &[&part], &to_bits, None)?;
                Ok(total)
            })?);
        }
    }
    match (variance, total) {
        (Some(variance), Some(entropy)) => Ok(Spread {
            variance,
            entropy,
            correlations: told.iter().map(|row| [row[1], row[2]]).collect(),
            information: told.iter().map(|row| [row[3], row[4]]).collect(),
        }),
        _ => Err(no_device()),
    }
}

/// Adds what a subject gives to the sums.
fn count<D: Device, M: CohortModel<D>>(
    core: &mut Core<D, M>,
    member: &mut Member<D, M::State>,
    bins: std::ops::Range<usize>,
    counts: &mut Counts<D>,
) -> Result<()> {
    let (device, n) = (&core.device, core.grid.len());
    let [warped, start] = member.done.as_slice() else { return Err(missing(&member.file)) };
    let means = (core.affine_mean.first(), core.template.channels.first());
    let (Some(before), Some(template)) = means else {
        return Err(missing(&member.file));
    };
    let mut one = device.alloc::<f32>(n)?;
    if let Some(squares) = &mut counts.squares {
        let difference = x(0) - x(1);
        let squared = difference.clone() * difference;
        device.eval(&squared, &[warped, template], &[], None, &mut one)?;
        device.add_fixed(&one, member.weight * UNIT, squares)?;
        let part = member.weight;
        let [was, is] = [(start, before), (warped, template)]
            .map(|(own, mean)| correlation_with_others(device, own, mean, part));
        let [told, tells] = [(start, before), (warped, template)].map(|(own, mean)| {
            let [own, mean] = [device.download(own)?, device.download(mean)?];
            information_of_others(&own, &mean, part, TISSUE)
        });
        counts.told.push([member.index as f64, was?, is?, told?, tells?]);
    }
    for (bin, sums) in bins.zip(&mut counts.bins) {
        // The first and the last bin have all that is beyond.
        let ends = [bin, bin + 1].map(|edge| match edge {
            0 => f32::MIN,
            ENTROPY_BINS => f32::MAX,
            edge => edge as f32 / ENTROPY_BINS as f32,
        });
        let inside = x(0).gt(param(0)) - x(0).gt(param(1));
        device.eval(&inside, &[warped], &ends, None, &mut one)?;
        device.add_fixed(&one, member.weight * UNIT, sums)?;
    }
    Ok(())
}
