//! `voxalign bench atlas`: the iterations of an atlas of many images, synthesised from some real ones.

use super::Size;
use crate::Host;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use voxalign_compute::Memory;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::resample::{Interpolation, grid_map};
use voxalign_compute::ops::{Elementwise, Filter, Reduce, Resample};
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Grid, Matrix3, Vector3, Volume};
use voxalign_jobs::Level;
use voxalign_jobs::atlas::Memory as MemoryArgs;
use voxalign_jobs::files;
use voxalign_jobs::machine::Running;
use voxalign_jobs::options::MatchingOptions;
use voxalign_jobs::team::from_one;
use voxalign_jobs::{Error, Result};
use voxalign_population::atlas::{
    AtlasOptions, Construction, Images, InMemory, MemoryPlan, Subject, iterate,
};
use voxalign_report::Table;

/// Arguments of `voxalign bench atlas`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The subjects are the given images, cropped or padded to --size about their centres and deformed by
smooth random displacements, different ones for each subject. They are in the memory of the program
before the clock starts; uploading them to the device is timed separately from the iterations.")]
pub(crate) struct AtlasBenchArgs {
    /// Real images that the subjects are made of
    #[arg(value_name = "IMAGES", required = true)]
    images: Vec<PathBuf>,
    /// Number of subjects
    #[arg(long, value_name = "N", default_value_t = 315,
          value_parser = clap::value_parser!(u16).range(2..))]
    count: u16,
    /// Sizes of the subjects, voxels of 1 mm
    #[arg(long, value_name = "NxNxN", default_value = "144x192x160")]
    size: Size,
    #[command(flatten)]
    matching: MatchingOptions,
    #[command(flatten)]
    memory: MemoryArgs,
    /// GPUs of each process [default: all]
    #[arg(long, value_name = "N", value_parser = from_one, help_heading = "Running")]
    gpus: Option<usize>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
}

/// Measures and prints.
pub(super) fn run(args: &AtlasBenchArgs, host: &dyn Host) -> Result<()> {
    let usual = |model| AtlasOptions::of(model).matching;
    let options = AtlasOptions {
        matching: args.matching.matching(|model| usual(model.unwrap_or_default()), &[])?,
        similarity: args.matching.similarity()?,
        ..AtlasOptions::default()
    };
    let images = args.images.iter().map(|path| files::image(path, host));
    let images = images.collect::<Result<Vec<_>, Error>>()?;
    let machine = host.team(args.running.machine, args.gpus)?;
    let team = machine.team.as_ref().ok_or_else(|| Error::Internal("there is no team".into()))?;
    let half = args.size.0.map(|n| 0.5 * (n as f64 - 1.0));
    let grid = Grid::new(args.size.0, Affine::new(Matrix3::identity(), -Vector3::from(half)))?;
    let began = Instant::now();
    let made = (0..usize::from(args.count))
        .map(|i| subject(&machine.device, &grid, &images[i % images.len()], i))
        .collect::<Result<Vec<_>, Error>>()?;
    let making = began.elapsed().as_secs_f64();
    let source = InMemory::new(made);
    let memory = args.memory.options()?;
    let planned = |plans: &[MemoryPlan]| {
        plans.iter().for_each(|plan| host.tell(Level::Normal, &format!("memory: {plan}").into()));
    };
    let times = iterate(&Construction {
        team,
        grid: &grid,
        source: &source,
        options: &options,
        memory: &memory,
        checkpoints: None,
        resume: false,
        progress: host,
        planned: &planned,
    })?;
    host.finish();

    let mut table = Table::new(["part", "iterations", "seconds", "ms per image"]);
    table.row(["making the subjects".into(), String::new(), format!("{making:.2}"), String::new()]);
    table.row(["to the device".into(), String::new(), format!("{:.2}", times.load), String::new()]);
    let mut total = 0.0;
    for scale in &times.scales {
        let n = scale.energies.len();
        let each = 1e3 * scale.seconds / (n * usize::from(args.count)).max(1) as f64;
        total += scale.seconds;
        table.row([
            format!("scale 1/{}", scale.factor),
            n.to_string(),
            format!("{:.2}", scale.seconds),
            format!("{each:.3}"),
        ]);
    }
    table.row(["all scales".into(), String::new(), format!("{total:.2}"), String::new()]);
    host.line(&format!("{} subjects of {}, {}", args.count, args.size, machine.name()));
    crate::table(host, &table);
    if let Some(trace) = &times.trace {
        let mut table = Table::new(["last iteration", "seconds"]);
        for (i, stage) in trace.stages.iter().enumerate() {
            table.row([stage.name.clone(), format!("{:.4}", trace.busy(i))]);
        }
        table.row(["bound".into(), format!("{:.4}", trace.bound())]);
        table.row(["all".into(), format!("{:.4}", trace.wall())]);
        host.line("");
        crate::table(host, &table);
    }
    Ok(())
}

/// The largest displacement of a subject, mm.
const LARGEST: f64 = 6.0;
/// The distance of the points that have a random displacement, voxels.
const POINTS: usize = 16;

/// An image about its centre, deformed.
fn subject(
    device: &AnyDevice,
    grid: &Grid,
    image: &Volume<f32>,
    number: usize,
) -> Result<(Subject, Images)> {
    let (dims, n) = (grid.dims(), grid.len());
    let coarse = dims.map(|d| d.div_ceil(POINTS).max(2));
    let points: usize = coarse.iter().product();
    let mut state = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(number as u64 + 1);
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let noise: Vec<f32> = (0..3 * points).map(|_| random()).collect();
    let noise = device.upload_vec(noise)?;
    let mut onto = device.alloc::<f32>(3 * n)?;
    device.resample_field(&noise, coarse, &grid_map(coarse, dims), dims, &mut onto)?;
    let mut field = device.alloc::<f32>(3 * n)?;
    let sigma = [0.5 * POINTS as f64; 3];
    device.gaussian(&onto, dims, sigma, GaussianMethod::Recursive, &mut field)?;
    let most = device.reduce(&[&field], &[Reduction::MaxAbs(0)])?[0];
    let scale =
        voxalign_compute::ops::expression::x(0) * voxalign_compute::ops::expression::param(0);
    device.eval(&scale, &[&field], &[(LARGEST / most) as f32], None, &mut onto)?;
    let centred = Affine::translation(image.grid().centre());
    let map = grid.to_world().then(&centred).then(image.grid().to_index()).rows();
    let values = device.upload(image.data())?;
    let mut out = device.alloc::<f32>(n)?;
    let (from, linear) = (image.dims(), Interpolation::Linear);
    device.warp_field(&values, from, &map, &onto, dims, linear, 0.0, &mut out)?;
    let volume = Volume::new(grid.clone(), device.into_host(out)?)?;
    let name = format!("subject {number}");
    let images = Images { channels: vec![Arc::new(volume)], mask: None, as_they_are: Vec::new() };
    Ok((Subject { name, weight: 1.0, affine: Affine::identity() }, images))
}
