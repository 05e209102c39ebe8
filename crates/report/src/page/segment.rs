//! The page of a segmentation.

pub use crate::record::segment::{
    ClassRecord, CutOutRecord, FrontRecord, HeldOutRecord, HistoryRecord, PresetRecord,
    RegionRecord, SegmentFound, SegmentRecord, StartRecord, TidiedRecord,
};

use super::html::{Columns, DASH, Section, figure, file_name, known, panel, section};
use super::words::{Card, count};
use super::{Heading, Page};
use crate::draw::fronts::{Fronts, colour, over_slices};
use crate::draw::intensity::Lattice;
use crate::draw::meshes::{Layer, Row, Scene, Sections};
use crate::draw::window::Window;
use crate::draw::{Axis, KeyPlace, Marks, Plot, Point, Series, Shape};
use crate::error::Result;
use crate::text::{escape, fixed, measured, number, thousands};
use std::fmt::Write as _;
use voxalign_image::{LabelMap, Mesh, Volume};

/// Bins of histograms.
const BINS: usize = 96;
/// The bound is drawn where it is at most this many times as far as the iterations go.
const NEAR: f64 = 8.0;

/// The content of the page.
#[derive(Debug, Clone, Copy)]
pub struct SegmentReport<'a> {
    /// The record.
    pub record: &'a SegmentRecord,
    /// The image that was segmented.
    pub image: &'a Volume<f32>,
    /// The regions, 0 the background.
    pub labels: &'a LabelMap,
    /// The surface of each region that has one, by its label, mm.
    pub meshes: &'a [(i32, Mesh)],
    /// The front as it moved.
    pub fronts: &'a Fronts,
}

/// The page as one HTML file that needs nothing else.
///
/// # Errors
/// [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory), [`ReportError::Png`](crate::ReportError::Png) where a
/// picture cannot be compressed.
pub fn render(report: &SegmentReport<'_>) -> Result<String> {
    let record = report.record;
    let run = record.run();
    let mut page = Page::on(&run, cards(record));
    slices(&mut page, report)?;
    let strip = report.fronts.strip()?;
    page.figure(
        "Evolution",
        "fig-evolution",
        "Evolution of the front",
        &strip,
        "the front after some of the iterations, on slices through the centre of mass of the image. In a good segmentation it finds its place within \
         few iterations and does not move in the last pictures.",
    );
    page.add("Course", course(&record.found));
    page.add("Intensities", intensities(report));
    if record.grid.dims[2] > 1 && !report.meshes.is_empty() {
        let layers = layers(report);
        let scene = Scene { layers, scale: None };
        page.solid(&scene, "In 3D", "the surfaces of the regions as they are written.")?;
    }
    page.add("Regions", regions(record));
    let of = run.inputs.first().map_or_else(|| "an image".to_owned(), |i| file_name(&i.path));
    let line = format!("{of} by {}", escape(&record.found.force));
    let heading = Heading::new(&format!("{of}: segmentation"), "Segmentation", &line, &run);
    Ok(page.finish(&run, &heading))
}

/// The regions but the background.
fn objects(found: &SegmentFound) -> impl Iterator<Item = &RegionRecord> {
    found.regions.iter().filter(|r| r.label != 0)
}

/// The size of a region with its unit.
fn size(region: &RegionRecord) -> [String; 2] {
    let with = |value: f64, unit: &str| format!("{}\u{a0}{unit}", measured(&[value]).concat());
    let voxels = |what: &str| format!("{} {what}", thousands(region.voxels as f64));
    match region.area_mm2 {
        Some(area) => [with(area, "mm\u{b2}"), voxels("pixels")],
        None => [with(region.volume_ml, "ml"), voxels("voxels")],
    }
}

fn cards(record: &SegmentRecord) -> Vec<Card> {
    let found = &record.found;
    let mut cards = Vec::new();
    let objects: Vec<&RegionRecord> = objects(found).collect();
    match objects.as_slice() {
        [one] => {
            let [amount, note] = size(one);
            let name = if one.area_mm2.is_some() { "Area" } else { "Volume" };
            cards.push(Card::new(name, amount, note));
        }
        all => cards.push(Card::new("Regions", thousands(all.len() as f64), "and the background")),
    }
    let note = match found.start.bound {
        bound if bound == found.limit => format!("bound {}", thousands(bound as f64)),
        _ => format!("limit {}", thousands(found.limit as f64)),
    };
    cards.push(Card::new("Iterations", thousands(found.iterations as f64), note));
    let edge = objects.iter().filter_map(|r| r.evidence.as_ref()?.edge);
    if let Some(least) = edge.reduce(f64::min) {
        cards.push(Card::new("Contrast at the front", fixed(least, 2), "times that beside it"));
    }
    if let Some(agreement) = found.agreement {
        cards.push(Card::new("Dice with another start", fixed(agreement, 3), ""));
    }
    cards
}

fn layers<'a>(report: &SegmentReport<'a>) -> Vec<Layer<'a>> {
    let title = |label: i32| {
        let region = report.record.found.regions.iter().find(|r| r.label == label);
        region.map_or_else(|| label.to_string(), RegionRecord::title)
    };
    let layer = |(label, mesh): &'a (i32, Mesh)| Layer::new(title(*label), mesh, colour(*label));
    report.meshes.iter().map(layer).collect()
}

/// The regions upon slices of the image.
fn slices(page: &mut Page, report: &SegmentReport<'_>) -> Result<()> {
    const CAPTION: &str = "the lines are the borders of the regions. A good one follows the border of its structure; what is beyond it on one side should \
                           look unlike what is on the other.";
    if !report.meshes.is_empty() {
        let name = "Regions".to_owned();
        let rows = vec![Row { name, image: report.image, layers: layers(report) }];
        return page.sections("Slices", &Sections { rows }, "Over slices", CAPTION);
    }
    let names: Vec<_> = objects(&report.record.found).map(|r| (r.label, r.title())).collect();
    let centre = centre(report.labels);
    let body = over_slices(report.image, report.labels, centre, &names, "fig-slices")?;
    page.figure("Slices", "fig-slices", "Over slices", &body, CAPTION);
    Ok(())
}

/// The middle of the voxels with a label other than 0, or of the image.
fn centre(labels: &LabelMap) -> [usize; 3] {
    let dims = labels.dims();
    let (mut sums, mut voxels) = ([0usize; 3], 0usize);
    for (voxel, _) in labels.data().iter().enumerate().filter(|(_, l)| **l != 0) {
        let place = [voxel % dims[0], voxel / dims[0] % dims[1], voxel / (dims[0] * dims[1])];
        (0..3).for_each(|a| sums[a] += place[a]);
        voxels += 1;
    }
    std::array::from_fn(|a| sums[a].checked_div(voxels).unwrap_or(dims[a] / 2))
}

/// Size and energy over the iterations.
fn course(found: &SegmentFound) -> Section {
    let history = &found.history;
    let of = |values: &mut dyn Iterator<Item = f64>| -> Vec<Point> {
        values.enumerate().map(|(i, v)| Point::at(i as f64, v)).collect()
    };
    let plot = |id: &str, name: &str, series: Vec<Series>| {
        let key = if series.len() > 1 { KeyPlace::Below } else { KeyPlace::Nowhere };
        let plot = Plot {
            id: id.to_owned(),
            what: format!("{name} over the iterations"),
            across: Axis { marks: Marks::Whole, ..Axis::new("iterations") },
            up: Axis::new(name),
            size: [560.0, 320.0],
            series,
            key,
            ..Plot::default()
        };
        panel(plot.svg())
    };
    let line = |name: &str, colour: usize, points: Vec<Point>| Series {
        shape: Shape::Course,
        colour,
        name: name.to_owned(),
        points,
    };
    let sizes = of(&mut history.size.iter().map(|v| *v as f64));
    let highest = sizes.iter().map(|p| p.y).fold(0.0, f64::max);
    let bound = found.start.bound as f64;
    let mut series = vec![line("voxels inside", 0, sizes)];
    if bound <= NEAR * (history.iterations() as f64).max(8.0) {
        let point = Point { spread: highest, ..Point::at(bound, 0.0) };
        let name = format!("bound: {}", thousands(bound));
        series.push(Series { shape: Shape::Stems, colour: 4, name, points: vec![point] });
    }
    let mut body = plot("svg-size", "voxels inside", series);
    let energies = of(&mut history.energy.iter().map(|v| v.unwrap_or(f64::NAN)));
    body += &plot("svg-energy-of-force", "energy", vec![line("energy", 1, energies)]);
    let switched =
        of(&mut history.inwards.iter().zip(&history.outwards).map(|(a, b)| (a + b) as f64));
    let fronts = of(&mut history.inner.iter().map(|v| *v as f64));
    let mut series = vec![line("switched", 2, switched)];
    if !fronts.is_empty() {
        series.push(line("along the front", 3, fronts));
    }
    body += &plot("svg-switched", "voxels", series);
    if body.is_empty() {
        return Section::default();
    }
    let ending = match (found.ending.as_str(), found.period) {
        ("steady", _) => "It came to rest.".to_owned(),
        ("repeating", Some(period)) => {
            format!("It repeats after {}.", count(period, "iteration", "iterations"))
        }
        ("vanished", _) => "It vanished.".to_owned(),
        ("filled", _) => "It took in the whole image.".to_owned(),
        _ => "It was still moving at the limit.".to_owned(),
    };
    figure(
        "fig-course",
        "Course",
        &format!("<div class=\"panels\">{body}</div>"),
        &format!(
            "what there was after each iteration. {ending} Under a force that does not change a front comes to rest within {} iterations, the most voxels of \
             a connected part of either side at the start.",
            thousands(bound)
        ),
    )
}

/// How the values of the image are spread in each region.
fn intensities(report: &SegmentReport<'_>) -> Section {
    let found = &report.record.found;
    let lattice = Lattice::new(report.image.dims());
    let values = lattice.values(report.image);
    let labels = lattice.values(report.labels);
    let Window { low, high } = Window::robust(&values);
    let width = f64::from(high - low) / BINS as f64;
    if width.is_nan() || width <= 0.0 {
        return Section::default();
    }
    let mut series = Vec::new();
    let mut highest = 0.0f64;
    for region in &found.regions {
        let mut counts = [0usize; BINS];
        let mut all = 0usize;
        for (value, _) in values.iter().zip(&labels).filter(|(_, l)| **l == region.label) {
            all += 1;
            let bin = (f64::from(*value - low) / width).floor();
            if (0.0..BINS as f64).contains(&bin) {
                counts[bin as usize] += 1;
            }
        }
        let point = |(bin, count): (usize, &usize)| {
            let part = 100.0 * *count as f64 / values.len().max(1) as f64;
            Point::at(f64::from(low) + (bin as f64 + 0.5) * width, part)
        };
        let points: Vec<Point> = counts.iter().enumerate().map(point).collect();
        if all > 0 {
            highest = points.iter().map(|p| p.y).fold(highest, f64::max);
            let name = match region.label {
                0 => "background".to_owned(),
                _ => region.title(),
            };
            let colour = series.len();
            series.push(Series { shape: Shape::Curve, colour, name, points });
        }
    }
    let thresholds: Vec<f64> = match objects(found).collect::<Vec<_>>().as_slice() {
        [one] => one.evidence.iter().map(|e| e.threshold).collect(),
        _ => Vec::new(),
    };
    let within = |v: &&f64| (f64::from(low)..f64::from(high)).contains(*v);
    for threshold in thresholds.iter().filter(within) {
        let point = Point { spread: highest, ..Point::at(*threshold, 0.0) };
        let name = format!("Otsu\u{2019}s threshold: {}", number(*threshold));
        series.push(Series { shape: Shape::Stems, colour: 5, name, points: vec![point] });
    }
    let plot = Plot {
        id: "svg-intensities".into(),
        what: "Histograms of the image within the regions".into(),
        across: Axis::new("intensity"),
        up: Axis::new("part of the image, %"),
        size: [960.0, 340.0],
        series,
        key: KeyPlace::Below,
        ..Plot::default()
    };
    figure(
        "fig-intensities",
        "Intensities",
        &super::html::scroll(plot.svg()),
        "how the intensities of each region are spread. Where curves hardly overlap, intensities tell the regions apart; where they do, the front decides by \
         its smoothness, its edges or its start.",
    )
}

/// The table of the regions, of what was fitted and tidied.
fn regions(record: &SegmentRecord) -> Section {
    let found = &record.found;
    let flat = found.regions.iter().any(|r| r.area_mm2.is_some());
    let mut out = Columns::of(&found.regions)
        .column("Region", |r| match r.label {
            0 => "background".to_owned(),
            _ => escape(&r.title()),
        })
        .column(if flat { "#Pixels" } else { "#Voxels" }, |r| thousands(r.voxels as f64))
        .column(if flat { "#Area, mm\u{b2}" } else { "#Volume, ml" }, |r| {
            measured(&[r.area_mm2.unwrap_or(r.volume_ml)]).concat()
        })
        .column("#Parts", |r| thousands(r.parts as f64))
        .column("#Mean", |r| r.mean.map_or(DASH.to_owned(), number))
        .column("#SD", |r| r.deviation.map_or(DASH.to_owned(), number))
        .column("#Held-out contrast", |r| {
            known(r.evidence.as_ref().and_then(|e| e.held_out?.contrast), 2)
        })
        .column("#Share of the step", |r| {
            known(r.evidence.as_ref().and_then(|e| e.held_out?.share), 2)
        })
        .column("#Contrast", |r| known(r.evidence.as_ref().and_then(|e| e.contrast), 3))
        .column("#Times that beside it", |r| known(r.evidence.as_ref().and_then(|e| e.edge), 2))
        .column("#Separation (\u{3b7})", |r| known(r.evidence.as_ref().map(|e| e.separation), 3))
        .column("At the border", |r| if r.at_border { "yes" } else { "no" }.to_owned())
        .html("");
    if !found.classes.is_empty() {
        out += "<h3>Mixture of Gaussians</h3>";
        out += &Columns::of(&found.classes)
            .column("Class", |c| c.class.to_string())
            .column("#Share", |c| fixed(c.weight, 3))
            .column("#Mean", |c| number(c.mean))
            .column("#SD", |c| number(c.deviation))
            .column("Region", |c| match c.label {
                0 => "background".to_owned(),
                l => l.to_string(),
            })
            .html("");
    }
    if let Some(tidied) = &found.tidied {
        let _ = write!(
            out,
            "<p class=\"note\">Tidied: {} with {} removed, {} of holes filled.</p>",
            count(tidied.parts_removed, "part", "parts"),
            count(tidied.voxels_removed, "voxel", "voxels"),
            count(tidied.voxels_filled, "voxel", "voxels"),
        );
    }
    section("regions", "Regions", &out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{GridRecord, RunRecord};
    use voxalign_image::Grid;
    use voxalign_register::{Check, Verdict};

    fn report(dims: [usize; 3]) -> String {
        let grid = Grid::axis_aligned(dims, [1.0; 3]).unwrap();
        let image = Volume::from_fn(grid.clone(), |x, y, _| (x + y) as f32);
        let labels = image.map(|v| i32::from(*v > 12.0));
        let mut fronts = Fronts::new(&image);
        fronts.add(0, |v| (v % 2) as u8);
        fronts.end(3, |v| u8::from(image.data()[v] > 12.0));
        let area = (dims[2] == 1).then_some(120.0);
        let front = FrontRecord { edge: Some(3.0), threshold: 12.0, ..FrontRecord::default() };
        let region = |label: i32| RegionRecord {
            label,
            name: (label == 1).then(|| "a <b>".to_owned()),
            voxels: 120,
            area_mm2: area,
            evidence: (label == 1).then(|| front.clone()),
            ..RegionRecord::default()
        };
        let mut record = SegmentRecord::new(RunRecord::default(), GridRecord::from(&grid));
        record.found = SegmentFound {
            force: "chan-vese".into(),
            ending: "steady".into(),
            iterations: 3,
            limit: 64,
            start: StartRecord { bound: 64, ..StartRecord::default() },
            regions: vec![region(0), region(1)],
            history: HistoryRecord {
                size: vec![100, 110, 120, 120],
                inner: vec![9; 4],
                outer: vec![9; 4],
                energy: vec![Some(9.0), Some(5.0), None, Some(4.0)],
                inwards: vec![0, 10, 10, 0],
                outwards: vec![0; 4],
            },
            ..SegmentFound::default()
        };
        record.verdict = Verdict::new(vec![Check::at_least("x", 1.0, 0.5)], Vec::new());
        let report = SegmentReport {
            record: &record,
            image: &image,
            labels: &labels,
            meshes: &[],
            fronts: &fronts,
        };
        render(&report).unwrap()
    }

    #[test]
    fn a_page_has_its_figures_in_two_and_three_dimensions() {
        for (dims, unit) in [([20, 18, 1], "Area, mm"), ([20, 18, 9], "Volume, ml")] {
            let page = report(dims);
            for part in [
                "fig-slices",
                "fig-evolution",
                "fig-course",
                "fig-intensities",
                "a &lt;b&gt;",
                "Otsu",
                "It came to rest",
                "bound: 64",
                unit,
            ] {
                assert!(page.contains(part), "{part} is not in {dims:?}");
            }
            assert!(!page.contains("a <b>") && !page.to_lowercase().contains("nan\""));
            assert_eq!(page.matches("<div").count(), page.matches("</div>").count());
        }
    }
}
