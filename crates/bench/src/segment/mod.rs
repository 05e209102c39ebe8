//! `voxalign bench segment`: iterations of fast level sets (G. Tornai, 2014, chapter 3).

mod fronts;
mod scene;

use crate::Host;
use crate::files::{check, write};
use crate::sheet::{Sheet, ms};
use clap::{Args, ValueEnum};
use fronts::{Form, Fronts, Law, Times};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;
use voxalign_compute::ops::front::Layout;
use voxalign_compute::{Device, Memory};
use voxalign_jobs::machine::{Auto, Machine, Running};
use voxalign_jobs::{Error, Result, check as stopped};
use voxalign_report::HostRecord;
use voxalign_report::curves::{CurvesReport, render};
use voxalign_segment::{
    Bounds, ChanVese, Evolution, Lattice, Limit, Neighbourhood, Object, Options, Shape, Speed,
    chessboard, dense,
};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Iterations from circles all over an image, by the size of the image and the number of circles (table 3.1)
    Circles,
    /// Numbers of iterations from squares, beside the bounds that the start gives (table 3.2)
    Squares,
    /// A volume of 256x256x256 points from balls
    Volume,
}

/// Arguments of `voxalign bench segment`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The tables of Tornai (2014, chapter 3), with the figures that are printed there (NVIDIA GTX 780; one
thread of an Intel Core i7-2600) in columns of their own. The image is made: bright branching blobs
with noise, the same shapes at every size; its force is that of Chan and Vese without curvature, the
brighter region the object. Circles have half of their distance as their diameter.

`whole` is from the start, which is on the device as the image is, to where the front stays, with all
waits of the host: the least of --repeat runs. `planner` and `evolution` are device times of one
iteration, each measured by itself, which takes a GPU longer than when they follow one another.
`tiles` go over tiles of 16x16 points (8x8x8) that can change, `words` over all points, 64 a word, and
`static` has the signs of the force where the front came to rest, which do not change. `lists` is the
sequential method in double precision, on one thread.

Examples:
  voxalign bench segment --device cuda --html segment.html
  voxalign bench segment --parts circles --size 2048 --circles 64,256 --threads 2 --no-lists")]
pub(crate) struct SegmentBenchArgs {
    /// What to measure [default: all]
    #[arg(long, value_enum, value_name = "PART,...", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Sizes of the images of `circles` [default: 256,512,1024,2048]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(32..=8192))]
    size: Vec<u16>,
    /// Numbers of circles along an axis [default: those of table 3.1]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=2048))]
    circles: Vec<u16>,
    /// Number of runs per measurement
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Leave out the sequential lists
    #[arg(long)]
    no_lists: bool,
    /// Write the tables as a page; opens offline in any browser
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    html: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
    /// Print JSON, for programs; non-finite numbers become null
    #[arg(long)]
    json: bool,
}

/// A row of table 3.1: the size, circles along an axis, microseconds of an iteration on a GPU and on a CPU, and iterations, which cannot be read in one row.
type Printed = (u16, u16, f64, f64, Option<usize>);

/// Table 3.1.
const CIRCLES: [Printed; 16] = [
    (256, 1, 129.0, 1_610.0, Some(32)),
    (256, 2, 126.0, 2_242.0, Some(59)),
    (256, 8, 140.0, 3_164.0, Some(20)),
    (256, 32, 143.0, 8_874.0, None),
    (512, 1, 317.0, 3_190.0, Some(64)),
    (512, 4, 167.0, 8_724.0, Some(40)),
    (512, 16, 157.0, 12_897.0, Some(25)),
    (512, 64, 123.0, 16_246.0, Some(18)),
    (1024, 1, 534.0, 6_431.0, Some(129)),
    (1024, 8, 548.0, 27_461.0, Some(55)),
    (1024, 32, 590.0, 43_739.0, Some(32)),
    (1024, 128, 490.0, 84_078.0, Some(12)),
    (2048, 1, 560.0, 14_972.0, Some(210)),
    (2048, 16, 703.0, 79_920.0, Some(79)),
    (2048, 64, 830.0, 198_980.0, Some(28)),
    (2048, 256, 684.0, 327_541.0, Some(7)),
];

/// Columns of table 3.2: what the size of squares is 64 divided by, both bounds, and iterations to a disc.
const SQUARES: [(u16, usize, usize, usize); 8] = [
    (1, 4096, 127, 26),
    (2, 1024, 63, 16),
    (4, 256, 31, 9),
    (8, 64, 15, 6),
    (16, 16, 7, 4),
    (24, 9, 5, 3),
    (32, 4, 3, 3),
    (64, 1, 1, 1),
];

/// The size of the volume.
const VOLUME: usize = 256;

/// The distance of balls in it.
const BALLS: f64 = 32.0;

/// Iterations from circles or balls.
#[derive(Debug, Serialize)]
struct Dense {
    dims: [usize; 3],
    along_an_axis: usize,
    iterations: usize,
    bound: usize,
    tiles_seconds: f64,
    words_seconds: f64,
    static_seconds: f64,
    planner_seconds: f64,
    evolution_seconds: f64,
    lists_iterations: Option<usize>,
    lists_seconds: Option<f64>,
    /// The points at which the lists and the tiles ended differently.
    different: Option<usize>,
}

/// Iterations from squares to a disc.
#[derive(Debug, Serialize)]
struct Squares {
    side: usize,
    bounds: [usize; 2],
    lists: usize,
    tiles: usize,
    words: usize,
    published: [usize; 3],
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct Results {
    version: &'static str,
    device: String,
    threads: usize,
    host: HostRecord,
    dense: Vec<Dense>,
    squares: Vec<Squares>,
}

/// Measures and prints.
pub(super) fn run(args: &SegmentBenchArgs, host: &dyn Host) -> Result<()> {
    check(None, args.html.as_deref(), None)?;
    let wanted = |part: Part| args.parts.is_empty() || args.parts.contains(&part);
    if !wanted(Part::Circles) && (!args.size.is_empty() || !args.circles.is_empty()) {
        return Err(Error::input(
            "--size and --circles are for the part circles; add it to --parts, or leave them out",
        ));
    }
    let machine = host.machine(args.running.machine, Auto::Cpu)?;
    let mut results = Results {
        version: env!("CARGO_PKG_VERSION"),
        device: machine.device.name(),
        threads: machine.threads,
        host: machine.record(),
        dense: Vec::new(),
        squares: Vec::new(),
    };
    if wanted(Part::Circles) {
        for (size, circles) in rows(args) {
            stopped(host)?;
            let dims = [usize::from(size), usize::from(size), 1];
            let spacing = f64::from(size) / f64::from(circles);
            results.dense.push(measured(args, &machine, dims, spacing)?);
        }
    }
    if wanted(Part::Volume) {
        stopped(host)?;
        results.dense.push(measured(args, &machine, [VOLUME; 3], BALLS)?);
    }
    if wanted(Part::Squares) {
        for column in SQUARES {
            results.squares.push(squares(&machine.device, column)?);
        }
    }
    let sheets = sheets(&results);
    if let Some(path) = &args.html {
        write(path, &page(&results, &sheets))?;
    }
    if args.json {
        return crate::json(host, &results);
    }
    host.line(&format!("voxalign {} on {}", results.version, results.device));
    sheets.iter().for_each(|sheet| sheet.print(host));
    Ok(())
}

/// Sizes, and circles along an axis.
fn rows(args: &SegmentBenchArgs) -> Vec<(u16, u16)> {
    let sizes = if args.size.is_empty() { vec![256, 512, 1024, 2048] } else { args.size.clone() };
    let of = |&size: &u16| {
        let usual = CIRCLES.iter().filter(move |row| row.0 == size).map(|row| row.1);
        let circles: Vec<u16> = match args.circles.is_empty() {
            false => args.circles.clone(),
            true => usual.collect(),
        };
        let circles = if circles.is_empty() { vec![1, size.div_ceil(32)] } else { circles };
        circles.into_iter().filter(move |n| *n <= size / 2).map(move |n| (size, n))
    };
    sizes.iter().flat_map(of).collect()
}

/// What a lattice of these sizes is with neighbours that share a side.
fn lattice(dims: [usize; 3]) -> Result<Lattice> {
    let neighbours = if dims[2] == 1 { Neighbourhood::Four } else { Neighbourhood::Six };
    Lattice::new(dims, neighbours).map_err(|e| Error::Internal(e.to_string()))
}

fn internal(error: impl ToString) -> Error {
    Error::Internal(error.to_string())
}

/// Iterations from balls at this distance.
fn measured(
    args: &SegmentBenchArgs,
    machine: &Machine,
    dims: [usize; 3],
    spacing: f64,
) -> Result<Dense> {
    let (device, runs) = (&machine.device, usize::from(args.repeat));
    let lattice = lattice(dims)?;
    let image = scene::blobs(dims, 1);
    let start = dense(&lattice, Shape::Ball, spacing / 2.0, spacing).map_err(internal)?;
    let bound = Bounds::of(&lattice, &start).map_err(internal)?.max_region_size;
    let layout = Layout::new(dims, 1)?;
    let mut tiles = Fronts::new(device, layout, &start, Law::ChanVese(&image), Form::Tiles)?;
    let by_tiles = tiles.times(runs)?;
    let set = tiles.set(by_tiles.iterations)?;
    drop(tiles);
    let timed = |law, form| Fronts::new(device, layout, &start, law, form)?.times(runs);
    let by_words: Times = timed(Law::ChanVese(&image), Form::Words)?;
    let signs: Vec<f32> = set.iter().map(|s| if *s { 1.0 } else { -1.0 }).collect();
    let fixed: Times = timed(Law::Static(&signs), Form::Words)?;
    let mut row = Dense {
        dims,
        along_an_axis: (dims[0] as f64 / spacing).round() as usize,
        iterations: by_tiles.iterations,
        bound,
        tiles_seconds: by_tiles.whole,
        words_seconds: by_words.whole,
        static_seconds: fixed.whole,
        planner_seconds: by_tiles.planner / by_tiles.iterations.max(1) as f64,
        evolution_seconds: by_tiles.evolution / by_tiles.iterations.max(1) as f64,
        lists_iterations: None,
        lists_seconds: None,
        different: None,
    };
    if !args.no_lists {
        let force = ChanVese::new(&lattice, &image, 0.0, [1.0; 2]).map_err(internal)?;
        let mut force = force.with_object(Object::Brighter);
        let options = Options { limit: Limit::Iterations(bound), ..Options::default() };
        let began = Instant::now();
        let lists = Evolution::run(&lattice, &start, &mut force, &options).map_err(internal)?;
        row.lists_seconds = Some(began.elapsed().as_secs_f64());
        row.lists_iterations = Some(lists.iterations);
        row.different = Some(lists.set.iter().zip(&set).filter(|(a, b)| a != b).count());
    }
    Ok(row)
}

/// Iterations from a chessboard of squares to a disc of 11 points in an image of 128 x 128, under a force that does not change.
fn squares<D: Device>(
    device: &D,
    (part, first, second, published): (u16, usize, usize, usize),
) -> Result<Squares> {
    const SIZE: usize = 128;
    let dims = [SIZE, SIZE, 1];
    let lattice = lattice(dims)?;
    let side = (64.0 / f64::from(part)).round() as usize;
    let start = chessboard(&lattice, side).map_err(internal)?;
    let disc = scene::disc(SIZE, 11.0);
    let bounds = Bounds::of(&lattice, &start).map_err(internal)?;
    let mut force = Speed::new(&lattice, &disc).map_err(internal)?;
    let lists = Evolution::run(&lattice, &start, &mut force, &Options::default());
    let layout = Layout::new(dims, 1)?;
    let by = |form| {
        Ok::<_, Error>(
            Fronts::new(device, layout, &start, Law::Static(&disc), form)?.times(0)?.iterations,
        )
    };
    Ok(Squares {
        side,
        bounds: [bounds.max_region_size, bounds.max_region_diameter],
        lists: lists.map_err(internal)?.iterations,
        tiles: by(Form::Tiles)?,
        words: by(Form::Words)?,
        published: [first, second, published],
    })
}

/// The tables.
fn sheets(results: &Results) -> Vec<Sheet> {
    let mut all = Vec::new();
    if !results.dense.is_empty() {
        let mut sheet = Sheet::new(
            "Iterations from circles and balls, ms; whole: to where the front stays",
            [
                "size",
                "circles",
                "iterations",
                "bound",
                "tiles, whole",
                "words, whole",
                "static words, whole",
                "planner",
                "evolution",
                "lists, whole",
                "lists",
                "different points",
                "thesis: iterations",
                "thesis: GPU, whole",
                "thesis: CPU, whole",
            ],
        );
        for row in &results.dense {
            let [nx, ny, nz] = row.dims;
            let size = if nz == 1 { format!("{nx}x{ny}") } else { format!("{nx}x{ny}x{nz}") };
            let or_dash = |n: Option<String>| n.unwrap_or_else(|| "-".to_owned());
            let printed = CIRCLES.iter().find(|p| {
                nz == 1 && usize::from(p.0) == nx && usize::from(p.1) == row.along_an_axis
            });
            let whole = |each: fn(&Printed) -> f64| {
                or_dash(printed.and_then(|p| Some(ms(each(p) * 1e-6 * p.4? as f64))))
            };
            sheet.row([
                size,
                row.along_an_axis.to_string(),
                row.iterations.to_string(),
                row.bound.to_string(),
                ms(row.tiles_seconds),
                ms(row.words_seconds),
                ms(row.static_seconds),
                ms(row.planner_seconds),
                ms(row.evolution_seconds),
                or_dash(row.lists_seconds.map(ms)),
                or_dash(row.lists_iterations.map(|n| n.to_string())),
                or_dash(row.different.map(|n| n.to_string())),
                or_dash(printed.and_then(|p| p.4).map(|n| n.to_string())),
                whole(|p| p.2),
                whole(|p| p.3),
            ]);
        }
        all.push(sheet);
    }
    if !results.squares.is_empty() {
        let mut sheet = Sheet::new(
            "Iterations from a chessboard to a disc of radius 11 in 128x128 points",
            [
                "side",
                "theorem 1",
                "theorem 2",
                "lists",
                "tiles",
                "words",
                "thesis: theorem 1",
                "thesis: theorem 2",
                "thesis: iterations",
            ],
        );
        for row in &results.squares {
            let numbers = [row.bounds[0], row.bounds[1], row.lists, row.tiles, row.words];
            let all = [row.side].into_iter().chain(numbers).chain(row.published);
            sheet.row(all.map(|n| n.to_string()));
        }
        all.push(sheet);
    }
    all
}

fn page(results: &Results, sheets: &[Sheet]) -> String {
    render(&CurvesReport {
        title: "Fast level sets".into(),
        program: format!("voxalign {}", results.version),
        host: &results.host,
        command: voxalign_jobs::invoked::command(),
        note: "Iterations of fast level sets, beside the figures of Tornai (2014, chapter 3)."
            .into(),
        figures: Vec::new(),
        tables: sheets.iter().map(|sheet| sheet.of_page(1)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use voxalign_compute::select::DeviceChoice;
    use voxalign_jobs::machine::MachineOptions;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: SegmentBenchArgs,
    }

    fn args(line: &str) -> SegmentBenchArgs {
        Command::parse_from(["bench"].into_iter().chain(line.split_whitespace())).args
    }

    fn machine() -> Machine {
        let options = MachineOptions { device: Some(DeviceChoice::Cpu), threads: Some(2) };
        Machine::start(options, Auto::Cpu).unwrap()
    }

    #[test]
    fn forms_end_where_the_lists_do() {
        let (args, machine) = (args("--repeat 1"), machine());
        for (dims, spacing) in [([128, 128, 1], 16.0), ([40, 40, 40], 8.0)] {
            let row = measured(&args, &machine, dims, spacing).unwrap();
            assert_eq!((row.lists_iterations, row.different), (Some(row.iterations), Some(0)));
            assert!(row.iterations > 2 && row.iterations < 100, "{}", row.iterations);
            assert!(row.tiles_seconds > 0.0 && row.planner_seconds < row.tiles_seconds);
        }
    }

    #[test]
    fn squares_need_what_the_first_theorem_allows_at_most() {
        let machine = machine();
        for column in SQUARES {
            let row = squares(&machine.device, column).unwrap();
            assert_eq!((row.tiles, row.words), (row.lists, row.lists));
            assert!(row.lists <= row.bounds[0], "{row:?}");
            assert_eq!(row.bounds[0], row.side * row.side);
            assert_eq!(row.published[0], row.bounds[0]);
        }
    }

    #[test]
    fn rows_are_those_of_the_table_or_those_that_are_asked_for() {
        assert_eq!(rows(&args("")), CIRCLES.map(|r| (r.0, r.1)));
        assert_eq!(rows(&args("--size 2048 --circles 64,256")), [(2048, 64), (2048, 256)]);
        assert_eq!(rows(&args("--size 100")), [(100, 1), (100, 4)]);
        assert_eq!(rows(&args("--size 32 --circles 4,17")), [(32, 4)]);
    }
}
