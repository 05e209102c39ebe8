//! The report on an atlas.

mod course;
mod geometry;
mod pictures;
mod subjects;

pub use crate::record::atlas::{AtlasRecord, SubjectRecord, TemplateRecord};

use super::comparison::{Comparison, comparison};
use super::html::{Columns, Section, note, scroll, section};
use super::words::{self, Card, count};
use super::{Heading, Page};
use crate::draw::{Timeline, TimelineTask, check_grids};
use crate::error::Result;
use crate::record::{Figure, RunRecord};
use crate::text::{escape, fixed, measured, seconds, title};
use pictures::{Pictures, size};
use voxalign_image::{Grid, LabelMap, Mesh, Volume};
use voxalign_population::atlas::Snapshot;
use voxalign_population::stream::{Task, Trace};
use voxalign_register::Choice;

/// The content of a report on an atlas.
///
/// All images are on the grid of the atlas; of several channels they are the first.
#[derive(Debug, Clone, Copy)]
pub struct AtlasReport<'a> {
    /// The record of the construction, with its subjects and verdict.
    pub record: &'a AtlasRecord,
    /// The mean of the subjects after their affine alignment alone, calibrated.
    pub affine_mean: &'a Volume<f32>,
    /// The atlas: the mean of the subjects after their deformation, calibrated.
    pub template: &'a Volume<f32>,
    /// The variance of the deformed subjects, calibrated units squared.
    pub variance: &'a Volume<f32>,
    /// The entropy of the deformed subjects' intensities at each voxel, bits.
    pub entropy: &'a Volume<f32>,
    /// The mean over the subjects of the natural logarithm of their Jacobian determinants.
    pub log_jacobian: &'a Volume<f32>,
    /// The regions of the atlas, where the subjects had some.
    pub labels: Option<&'a LabelMap>,
    /// The template at some iterations, in the order in which they were made; none is well too.
    pub snapshots: &'a [Snapshot],
    /// The timeline, where the subjects were streamed through the device.
    pub timeline: Option<&'a Trace>,
    /// The surfaces, curves and points of the template.
    pub shapes: &'a [TemplateShape<'a>],
    /// Its landmarks.
    pub marks: &'a [TemplateMarks<'a>],
}

/// A shape of the template for pictures.
#[derive(Debug, Clone, Copy)]
pub struct TemplateShape<'a> {
    /// Its name.
    pub name: &'a str,
    /// It in the world of the atlas.
    pub mesh: &'a Mesh,
    /// The displacement of each vertex to the subjects, the root mean square, mm.
    pub variation: &'a [f32],
}

/// Landmarks of the template for pictures.
#[derive(Debug, Clone, Copy)]
pub struct TemplateMarks<'a> {
    /// Their name.
    pub name: &'a str,
    /// They, as a mesh of points in the world of the atlas.
    pub mesh: &'a Mesh,
}

/// The names of figures with their units.
const FIGURES: [(Figure, &str); 4] = [
    (Figure::Entropy, "Entropy, bits"),
    (Figure::GradientEnergy, "Gradient energy, 1/mm\u{b2}"),
    (Figure::LabelOverlap, "Mean Dice of all pairs of subjects"),
    (Figure::LogJacobianRms, "Root mean square of the mean log Jacobian"),
];

/// The comparison of the mean after affine alignment with the atlas.
const COMPARISON: Comparison<'_> = Comparison {
    images: "the mean after affine alignment and the atlas",
    rows: &[(1, "the mean after affine alignment and the atlas")],
    first: "mean after affine alignment",
    caption: "drag the slider or a picture: the mean after affine alignment is on the left, the atlas on the \
        right. Good: the same anatomy, sharper on the right; where borders jump, the mean shape is not that of \
        the mean image.",
};

/// The report as one HTML file that needs nothing else, as that of an
/// [affine registration](crate::affine::render).
///
/// # Errors
/// [`ReportError::OtherGrid`](crate::ReportError::OtherGrid) where an image is not on the grid of the atlas,
/// [`ReportError::Png`](crate::ReportError::Png) where a picture cannot be compressed.
pub fn render(report: &AtlasReport<'_>) -> Result<String> {
    let grid = report.template.grid();
    check(report, grid)?;
    let record = report.record;
    let run = RunRecord { figures: record.figures.clone(), ..record.run() };
    let pictures = Pictures::new(*report)?;
    let mut page = Page::on(&run, cards(record));
    page.add("Compare", comparison(&pictures.planes, &COMPARISON));
    page.figure(
        "Slices",
        "fig-slices",
        "The mean after affine alignment, and the atlas",
        &format!("<p class=\"convention\">{}</p>{}", pictures.convention(), pictures.slices()?),
        "the same slices of the mean of the subjects after affine alignment alone, and of the atlas, on the \
         same grey scale. Good: borders, folds and cavities that are blurred in the first are sharp in the \
         atlas, which looks like the image of one subject. Doubled borders mean that subjects were matched to \
         different structures; smeared ones, that the deformations are too strong.",
    );
    page.figure(
            "Sharpening",
            "fig-sharpening",
            "How the atlas sharpened",
            &pictures.sharpening()?.unwrap_or_default(),
            "middle slices of the template at its scales and iterations, on the grey scale above; scales are \
             named by their voxel size. Good: it gets sharper from scale to scale and keeps its shape. Within a \
             scale the deformations may move all subjects together, which shows as growth or drift; the mean \
             displacement is removed at the end of each scale, unless that was switched off.",
        );
    geometry::pictures(&mut page, report)?;
    page.add("Distances", geometry::distances(record));
    page.figure(
        "Course",
        "fig-course",
        "Entropy, gradient energy and energy over iterations",
        &course::charts(record, grid),
        "values before each iteration, and after the last of each scale. The entropy of the template\u{2019}s \
         intensities falls and its gradient energy rises as it sharpens. Both jump where a finer scale begins, \
         as it shows more detail, and at the end of a scale, where the mean displacement is removed: a template \
         that had grown had more edges. The overall gain is shown by the figures after affine alignment and at \
         the end, which are on the same grid. The energy, a weighted mean over the subjects, falls at each \
         scale; where it is still steep at the end, more iterations help.",
    );
    page.add("Subjects", subjects(record));
    page.figure(
        "Variance",
        "fig-variance",
        "Variance over the subjects",
        &pictures.variance()?,
        "how much the intensities of the deformed subjects differ at each voxel. Good: dark, with thin light \
         lines at borders that cannot be matched. Broad light bands mean that the subjects do not agree there; \
         a light patch is often a single subject with a lesion, or with something that was not removed, such as \
         part of the skull.",
    );
    page.figure(
        "Entropy",
        "fig-entropy",
        "Entropy over the subjects",
        &pictures.entropy()?,
        &format!(
            "how many different intensities the deformed subjects have at each voxel, in bits: 0 where all are \
             the same, at most {} with this number of subjects. Unlike the variance, it does not depend on how \
             far apart they are. Good: low within tissues, higher along folds that differ from subject to subject.",
            fixed((record.subjects.len().max(1) as f64).log2(), 2)
        ),
    );
    page.figure(
        "Bias",
        "fig-jacobian",
        "Mean log volume change",
        &pictures.log_jacobian()?,
        "the mean over the subjects of the log Jacobian determinant, with the edges of the atlas in grey. \
         Black: the atlas has the mean volume of the subjects; orange: they are larger there; blue: smaller. \
         Good: black or dark all over, without large patches of one colour: the atlas is unbiased.",
    );
    page.figure(
            "Regions",
            "fig-labels",
            "Regions",
            &pictures.regions().transpose()?.unwrap_or_default(),
            "outlines of the majority label at each voxel, over the atlas; colours distinguish neighbours. \
             Good: they follow the borders of the atlas and are smooth, without specks.",
        );
    page.figure(
            "Timeline",
            "fig-timeline",
            "Timeline",
            &report.timeline.and_then(timeline).unwrap_or_default(),
            "each row is a stage of the stream, each box a subject in it; the dashed line is the shortest time \
             that the slowest stage allows. Good: the row of the slowest stage has no gaps and ends near the \
             line, so everything else overlaps with it.",
        );
    let name = |figure: Figure| {
        let known = FIGURES.iter().find(|(known, _)| *known == figure);
        known.map_or_else(|| title(figure.name()), |(_, name)| (*name).to_owned())
    };
    let headings = ["Figure", "#After affine alignment", "#Atlas"];
    page.add("Figures", words::figures_as(&run, headings, name));
    let count = count(record.subjects.len(), "subject", "subjects");
    let line = format!("{count}, {}; {}", subjects::remarkable(&record.subjects), size(grid));
    Ok(page.finish(&run, &Heading::new(&format!("Atlas of {count}"), "Atlas", &line, &run)))
}

fn check(report: &AtlasReport<'_>, grid: &Grid) -> Result<()> {
    let mut all = vec![
        ("affine mean", report.affine_mean.grid()),
        ("variance", report.variance.grid()),
        ("entropy", report.entropy.grid()),
        ("mean log Jacobian", report.log_jacobian.grid()),
    ];
    all.extend(report.labels.map(|labels| ("label", labels.grid())));
    check_grids("atlas", grid, &all)
}

/// The most telling numbers.
fn cards(record: &AtlasRecord) -> Vec<Card> {
    let mut cards = Vec::new();
    for (figure, name) in [
        (Figure::Entropy, "Entropy, bits"),
        (Figure::GradientEnergy, FIGURES[1].1),
        (Figure::LabelOverlap, "Mean Dice"),
    ] {
        if let [Some(before), Some(after)] = record.figures.both(figure) {
            let both = measured(&[before, after]);
            cards.push(Card::new(name, &*both[1], format!("before: {}", both[0])));
        }
    }
    if let Some(rms) = record.figures.get(Figure::LogJacobianRms) {
        cards.push(Card::new("Bias", fixed(rms, 4), "root mean square of the mean log Jacobian"));
    }
    cards
}

/// The subjects.
fn subjects(record: &AtlasRecord) -> Section {
    let all = &record.subjects;
    let mut body = scroll(subjects::chart(all));
    if !body.is_empty() {
        body +=
            &note("Higher is more alike; subjects in red cannot be used or are unlike the others.");
    }
    body += &subjects::rows(all);
    body += &note(
        "Subjects to inspect come first. The correlations are of each subject\u{2019}s image with the mean of \
         the others: before, both after affine alignment alone; after, both as deformed. The information is the \
         mutual information of the two within tissue; displacements and Jacobian determinants are those of the \
         subject\u{2019}s deformation, without the affine map.",
    );
    section("subjects", "Subjects", &body)
}

/// The timeline, with the times of the stages; none where nothing was streamed.
fn timeline(trace: &Trace) -> Option<String> {
    let names: Vec<String> = trace.stages.iter().map(|s| s.name.clone()).collect();
    let task = |t: &Task| TimelineTask {
        row: t.stage,
        stage: t.stage,
        item: t.item,
        start: t.start,
        end: t.end,
    };
    let svg = Timeline {
        title: "Timeline".to_owned(),
        rows: names.clone(),
        stages: names,
        tasks: trace.tasks.iter().map(task).collect(),
        bound: Some(trace.bound()),
    }
    .svg(None)?;
    let tasks = |stage: usize| trace.tasks.iter().filter(|t| t.stage == stage).count();
    let table = Columns::of(trace.stages.iter().enumerate())
        .column("Stage", |(_, stage)| escape(&stage.name))
        .column("#Workers", |(_, stage)| stage.workers.to_string())
        .column("#Tasks", |(i, _)| tasks(*i).to_string())
        .column("#Busy", |(i, _)| seconds(trace.busy(*i)))
        .html("stages");
    let [all, least] = [trace.wall(), trace.bound()].map(seconds);
    let note = note(&format!("{all} in total; {least} is the least that the stages allow."));
    Some(scroll(Some(svg)) + &note + &table)
}
