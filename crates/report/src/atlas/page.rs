//! The report on an atlas.

use super::pictures::{Pictures, size};
use super::{AtlasRecord, course, geometry, subjects};
use crate::error::{ReportError, Result};
use crate::figure::Figure;
use crate::html::{escape, fixed, measured, seconds, title};
use crate::page::{self, Comparison, Heading, figure};
use crate::record::RunRecord;
use crate::timeline::{Timeline, TimelineTask};
use crate::words::{self, Card};
use std::fmt::Write as _;
use voxalign_image::{Grid, LabelMap, Mesh, Volume};
use voxalign_population::atlas::Snapshot;
use voxalign_population::stream::{Task, Trace};
use voxalign_register::Choice;

/// What a report on an atlas is made of.
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
    /// What ran when, where the subjects were streamed through the device.
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
    /// How far each vertex is carried to the subjects, the root mean square, mm.
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
    caption: "drag the slider or a picture: the mean after affine alignment is on its left, the atlas on its \
              right. Good: the same anatomy, sharper on the right; where borders jump, the mean shape \
              is not that of the mean image.",
};

/// The report as one HTML file that needs nothing else, as that of an
/// [affine registration](crate::affine::render).
///
/// # Errors
/// [`ReportError::OtherAtlasGrid`] where an image is not on the grid of the atlas,
/// [`ReportError::Png`] where a picture cannot be compressed.
pub fn render(report: &AtlasReport<'_>) -> Result<String> {
    let grid = report.template.grid();
    check(report, grid)?;
    let record = report.record;
    let run = run(record);
    let pictures = Pictures::new(*report)?;
    let sharpening = pictures.sharpening()?;
    let regions = pictures.regions().transpose()?;
    let timeline = report.timeline.and_then(timeline);

    let mut sections =
        vec![("verdict", "Verdict"), ("fig-compare", "Compare"), ("fig-slices", "Slices")];
    sections.extend(sharpening.is_some().then_some(("fig-sharpening", "Sharpening")));
    let has_geometry = !report.shapes.is_empty() || !report.marks.is_empty();
    sections.extend((!report.shapes.is_empty()).then_some(("fig-sections", "Shapes")));
    sections.extend(has_geometry.then_some(("fig-3d", "3D")));
    sections.extend((!record.geometry.is_empty()).then_some(("geometry", "Distances")));
    sections.extend([
        ("fig-course", "Course"),
        ("subjects", "Subjects"),
        ("fig-variance", "Variance"),
        ("fig-entropy", "Entropy"),
        ("fig-jacobian", "Bias"),
    ]);
    sections.extend(regions.is_some().then_some(("fig-labels", "Regions")));
    sections.extend(timeline.is_some().then_some(("fig-timeline", "Timeline")));
    sections.extend((!record.figures.is_empty()).then_some(("figures", "Figures")));
    sections.push(("details", "Details"));

    let count = match record.subjects.len() {
        1 => "1 subject".to_owned(),
        n => format!("{n} subjects"),
    };
    let heading = Heading {
        title: &format!("Atlas of {count}"),
        heading: "Atlas",
        line: &format!("{count}, {}; {}", subjects::remarkable(&record.subjects), size(grid)),
    };
    let mut page = page::begin(&run, &heading, &sections);
    page += &words::verdict(&run);
    page += &words::cards(&run, cards(record));
    page += &page::comparison(&pictures.planes, &COMPARISON);
    page += &figure(
        "fig-slices",
        "The mean after affine alignment, and the atlas",
        &format!("<p class=\"convention\">{}</p>{}", pictures.convention(), pictures.slices()?),
        "<b>How to read it:</b> the same slices of the mean of the subjects after their affine alignment \
         alone, and of the atlas, on the same grey scale. Good: borders, folds and cavities that are \
         blurred in the first are sharp in the atlas, and it looks like the image of one subject. Doubled \
         borders mean that subjects were matched to different places; melted ones, that the \
         deformations are too strong.",
    );
    if let Some(strip) = sharpening {
        page += &figure(
            "fig-sharpening",
            "How the atlas sharpened",
            &strip,
            "<b>How to read it:</b> middle slices of the template at its scales and iterations, on \
             the grey scale above; scales are named by the length of their voxels. Good: it gets sharper \
             from scale to scale and keeps its shape. Within a scale the deformations may move all \
             subjects together, which shows as growth or drift; the mean displacement is removed \
             at the end of each scale, unless that was switched off.",
        );
    }
    page += &geometry::pictures(report)?;
    page += &geometry::distances(record);
    page += &figure(
        "fig-course",
        "Entropy, gradient energy and energy over iterations",
        &course::charts(record, grid),
        "<b>How to read it:</b> before each iteration, and after the last of a scale. The entropy of the \
         template\u{2019}s intensities falls and its gradient energy rises while it sharpens. Both jump where \
         a finer scale begins, as that shows more detail, and at the end of a scale, where the \
         mean displacement is removed: a template that had grown had more edges. What the atlas \
         gained is shown by the figures after affine alignment and at the end, which are on one grid. \
         The energy, a weighted \
         mean over the subjects, falls at each scale; where it is still steep at the end, more iterations \
         help.",
    );
    page += &subjects(record);
    page += &figure(
        "fig-variance",
        "Variance over the subjects",
        &pictures.variance()?,
        "<b>How to read it:</b> how much the intensities of the deformed subjects differ at each voxel. \
         Good: dark, with thin light lines at borders that cannot be matched. Broad light bands mean \
         that the subjects do not agree there; a light patch is often one subject with a lesion, \
         or with something that was not removed.",
    );
    page += &figure(
        "fig-entropy",
        "Entropy over the subjects",
        &pictures.entropy()?,
        &format!(
            "<b>How to read it:</b> how many different intensities the deformed subjects have at each \
             voxel, in bits: 0 where all are the same, {} at most with so many subjects. Unlike \
             the variance, it does not depend on how far apart they are. Good: low within tissues, higher \
             along folds that differ from subject to subject.",
            fixed((record.subjects.len().max(1) as f64).log2(), 2)
        ),
    );
    page += &figure(
        "fig-jacobian",
        "Mean logarithm of the changes of volume",
        &pictures.log_jacobian()?,
        "<b>How to read it:</b> the mean over the subjects of the logarithm of the Jacobian determinant, \
         the edges of the atlas in grey. Black: the atlas has the mean volume of the subjects; orange: \
         they are larger there; blue: smaller. Good: black or dark all over, without large patches of \
         one colour: the atlas has no bias.",
    );
    if let Some(outlines) = regions {
        page += &figure(
            "fig-labels",
            "Regions",
            &outlines,
            "<b>How to read it:</b> outlines of the regions that most subjects have at each voxel, over \
             the atlas; colours tell neighbours apart. Good: they lie on the borders of the atlas, smooth \
             and without specks.",
        );
    }
    if let Some(svg) = timeline {
        page += &figure(
            "fig-timeline",
            "What ran when",
            &svg,
            "<b>How to read it:</b> a row is a stage of the stream, a box a subject at it; the dashed line \
             is the least time that the slowest stage allows. Good: the row of the slowest stage has no \
             gaps and ends near the line, so that everything else overlaps with it.",
        );
    }
    let name = |figure: Figure| {
        let known = FIGURES.iter().find(|(known, _)| *known == figure);
        known.map_or_else(|| title(figure.name()), |(_, name)| (*name).to_owned())
    };
    page += &words::figures_as(&run, ["Figure", "#After affine alignment", "#Atlas"], name);
    page += &page::details(&run);
    page += &page::end();
    Ok(page)
}

fn check(report: &AtlasReport<'_>, grid: &Grid) -> Result<()> {
    let tolerance = grid.spacing().into_iter().fold(f64::INFINITY, f64::min) * 0.01;
    let mut all = vec![
        ("affine mean", report.affine_mean.grid()),
        ("variance", report.variance.grid()),
        ("entropy", report.entropy.grid()),
        ("mean log Jacobian", report.log_jacobian.grid()),
    ];
    all.extend(report.labels.map(|labels| ("label", labels.grid())));
    match all.into_iter().find(|(_, other)| !other.approx_eq(grid, tolerance)) {
        None => Ok(()),
        Some((role, other)) => Err(ReportError::OtherAtlasGrid {
            role,
            found: other.to_string(),
            atlas: grid.to_string(),
        }),
    }
}

/// What an atlas has in common with other runs.
fn run(record: &AtlasRecord) -> RunRecord {
    RunRecord {
        parameters: record.parameters.clone(),
        figures: record.figures.clone(),
        timings: record.timings.clone(),
        peak_memory_bytes: record.peak_memory_bytes,
        outputs: record.outputs.clone(),
        verdict: record.verdict.clone(),
        ..record.provenance.clone().into_run()
    }
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
            cards.push((name.to_owned(), both[1].clone(), format!("before: {}", both[0])));
        }
    }
    if let Some(rms) = record.figures.get(Figure::LogJacobianRms) {
        let note = "root mean square of the mean log Jacobian".to_owned();
        cards.push(("Bias".to_owned(), fixed(rms, 4), note));
    }
    cards
}

/// The subjects.
fn subjects(record: &AtlasRecord) -> String {
    let all = &record.subjects;
    let mut body = String::new();
    if let Some(svg) = subjects::chart(all) {
        let _ = write!(
            body,
            "<div class=\"scroll\">{svg}</div><p class=\"note\">The higher, the more alike; subjects in red \
             cannot be used or are unlike the others.</p>"
        );
    }
    body += &subjects::rows(all);
    format!(
        "<section id=\"subjects\"><h2>Subjects</h2>{body}<p class=\"note\">Those that need a \
         look come first. The \
         correlations are those of a subject\u{2019}s image with the mean of the others after affine alignment, \
         by its affine map alone, and with that of the deformed ones, as deformed; the information is what both tell of each \
         other within the tissue there; displacements and Jacobian determinants are \
         those of its deformation, without the affine map.</p></section>"
    )
}

/// What ran when, with the times of the stages; none where nothing ran.
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
        title: "What ran when".to_owned(),
        rows: names.clone(),
        stages: names,
        tasks: trace.tasks.iter().map(task).collect(),
        bound: Some(trace.bound()),
    }
    .svg(None)?;
    let rows: Vec<Vec<String>> = trace
        .stages
        .iter()
        .enumerate()
        .map(|(i, stage)| {
            let tasks = trace.tasks.iter().filter(|t| t.stage == i).count();
            vec![
                escape(&stage.name),
                stage.workers.to_string(),
                tasks.to_string(),
                seconds(trace.busy(i)),
            ]
        })
        .collect();
    let headings = ["Stage", "#Workers", "#Tasks", "#Busy"];
    Some(format!(
        "<div class=\"scroll\">{svg}</div><p class=\"note\">{} in all; {} is the least that the stages \
         allow.</p>{}",
        seconds(trace.wall()),
        seconds(trace.bound()),
        crate::html::table("stages", &headings, &rows)
    ))
}
