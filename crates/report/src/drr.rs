//! The record of simulated X-ray images, and their page.

use crate::error::Result;
use crate::html::{escape, fixed, measured, number, table};
use crate::page::{self, Heading, figure};
use crate::provenance::Provenance;
use crate::record::{GridRecord, OutputRecord, RunRecord};
use crate::sketch;
use crate::window::Window;
use crate::words;
use crate::xray::{self, ViewRecord, XrayPicture};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use voxalign_register::Verdict;
use voxalign_register::numbers::null_is_nan;

/// The longest side of a picture, pixels, and where there are many of them.
pub(crate) const PIXELS: [usize; 2] = [1024, 512];
/// More pictures than this are many.
pub(crate) const MANY: usize = 12;

/// All that is worth keeping of simulated X-ray images: what their `result.json` holds. Numbers that are not finite
/// are written as `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrrRecord {
    /// Program, command, machine and inputs.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// All parameters, also those left at their default.
    pub parameters: serde_json::Value,
    /// The grid of the CT.
    pub grid: GridRecord,
    /// The images, in the order in which they were made.
    pub images: Vec<DrrImageRecord>,
    /// Wall time of each part in seconds.
    pub timings: BTreeMap<String, f64>,
    /// The most memory that the process held, bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// The files that were written.
    pub outputs: Vec<OutputRecord>,
    /// Whether the images can be used, and why; good where nothing was checked.
    pub verdict: Verdict,
}

/// A simulated X-ray image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrrImageRecord {
    /// Its name, which tells it from the others.
    pub name: String,
    /// Source and detector.
    pub view: ViewRecord,
    /// Rows of the 3x4 matrix from the room to the world of the CT, mm.
    pub pose: [[f64; 4]; 3],
    /// By how much the CT is turned in the room from where it lies in its own world, about axes through `centre_mm` along x, y
    /// and z, applied in this order, degrees.
    pub rotation_degrees: [f64; 3],
    /// By how much it is moved in the room after that along x, y and z, mm.
    pub translation_mm: [f64; 3],
    /// The point of the CT about which it is turned, in its own world, mm.
    pub centre_mm: [f64; 3],
    /// The least value of a pixel.
    #[serde(deserialize_with = "null_is_nan")]
    pub least: f64,
    /// The largest value of a pixel.
    #[serde(deserialize_with = "null_is_nan")]
    pub most: f64,
    /// What the values are, such as `attenuation` (without a unit), `intensity`, `mm HU`.
    pub unit: String,
    /// The values that the least and the largest of 16 bits stand for in PNG and DICOM files, from the least to the
    /// largest of all images of a view; none where no file has whole numbers.
    #[serde(default)]
    pub window: Option<[f64; 2]>,
    /// The files that hold it.
    pub files: Vec<String>,
}

impl DrrRecord {
    /// A record without images that begins with program, machine, inputs and parameters of another.
    #[must_use]
    pub fn new(mut run: RunRecord, grid: GridRecord) -> Self {
        let parameters = std::mem::take(&mut run.parameters);
        Self {
            provenance: Provenance::from(run),
            parameters,
            grid,
            images: Vec::new(),
            timings: BTreeMap::new(),
            peak_memory_bytes: None,
            outputs: Vec::new(),
            verdict: Verdict::new(Vec::new(), Vec::new()),
        }
    }
}

/// What the page is made of.
#[derive(Debug, Clone, Copy)]
pub struct DrrReport<'a> {
    /// The record.
    pub record: &'a DrrRecord,
    /// The images in the order of the record; fewer where only the first ones are shown.
    pub pictures: &'a [XrayPicture<'a>],
}

/// The name of the CT among the files that were read, as HTML.
pub(crate) fn ct_name(from: &Provenance) -> String {
    let roles = ["ct", "moving", "image"];
    let input = roles.iter().find_map(|role| from.inputs.iter().find(|i| i.role == *role));
    let name = input.map(|i| i.path.rsplit(['/', '\\']).next().unwrap_or(&i.path));
    escape(name.unwrap_or("a CT"))
}

/// The page as one HTML file that needs nothing else.
///
/// # Errors
/// [`ReportError::Pixels`](crate::ReportError::Pixels) where a picture has other pixels than it says,
/// [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory), [`ReportError::Png`](crate::ReportError::Png) where
/// a picture cannot be compressed.
pub fn render(report: &DrrReport<'_>) -> Result<String> {
    let record = report.record;
    let run = record.run();
    let count = match record.images.len() {
        1 => "One image".to_owned(),
        n => format!("{n} images"),
    };
    let line = format!("{count} of {}", ct_name(&record.provenance));
    let heading = Heading {
        title: &format!("Simulated X-ray images: {line}"),
        heading: "Simulated X-ray images",
        line: &line,
    };
    let Verdict { good, checks, remarks } = &record.verdict;
    let judged = !good || !checks.is_empty() || !remarks.is_empty();
    let mut sections = Vec::new();
    sections.extend(judged.then_some(("verdict", "Verdict")));
    sections.extend([
        ("fig-images", "Images"),
        ("images", "Values"),
        ("fig-geometry", "Geometry"),
        ("details", "Details"),
    ]);
    let mut page = page::begin(&run, &heading, &sections);
    if judged {
        page += &words::judged(&record.verdict, None);
    }
    page += &gallery(report)?;
    page += &values(record);
    page += &geometry(record);
    page += &page::details(&run);
    page += &page::end();
    Ok(page)
}

/// The least and largest value with what they are, as HTML.
fn range(image: &DrrImageRecord) -> String {
    let unit =
        if image.unit.is_empty() { String::new() } else { format!(" ({})", escape(&image.unit)) };
    format!("{}{unit}", measured(&[image.least, image.most]).join(" to "))
}

/// The images.
fn gallery(report: &DrrReport<'_>) -> Result<String> {
    let images = &report.record.images;
    let shown = images.len().min(report.pictures.len());
    let most = PIXELS[usize::from(shown > MANY)];
    let (class, across) = match shown {
        0 | 1 => ("planes one", 1),
        n => ("planes many gallery", n.min(if n == 4 { 2 } else { 3 })),
    };
    let mut body = format!(
        "<div class=\"{class}\" style=\"grid-template-columns:{}\">",
        xray::columns(across)
    );
    for (i, (image, picture)) in images.iter().zip(report.pictures).enumerate() {
        let window = Window { low: image.least as f32, high: image.most as f32 };
        let drawn = picture.reduced(most)?.grey(window);
        let alt = format!("Simulated X-ray image {}", image.name);
        let id = format!("image-{i}");
        let _ = write!(
            body,
            "<div><p class=\"row\">{}<small>{}{}</small></p>{}</div>",
            escape(&image.name),
            range(image),
            if picture.inverted { ", inverted" } else { "" },
            xray::frame(&id, &id, &alt, &image.view, &drawn, "")?
        );
    }
    body += "</div>";
    if shown < images.len() {
        let _ = write!(body, "<p class=\"note\">{shown} of {} images are shown.</p>", images.len());
    }
    Ok(figure(
        "fig-images",
        "Images",
        &body,
        "<b>How to read it:</b> each image from its own least value to its largest one, which are beside its \
         name; bone is bright, air is dark. Images are seen with their first row above and their first \
         column on the left, in true proportion.",
    ))
}

/// A table of the images.
fn values(record: &DrrRecord) -> String {
    let three = |values: &[f64; 3], decimals| values.map(|v| fixed(v, decimals)).join(", ");
    let rows: Vec<Vec<String>> = record
        .images
        .iter()
        .map(|image| {
            let view = &image.view;
            let files: Vec<String> = image
                .files
                .iter()
                .map(|f| format!("<code class=\"path\">{}</code>", escape(f)))
                .collect();
            vec![
                escape(&image.name),
                format!(
                    "{} pixels<br>{} mm",
                    view.size.map(|n| n.to_string()).join(" \u{d7} "),
                    view.pixel_mm.map(number).join(" \u{d7} ")
                ),
                number(view.source_to_detector_mm),
                format!(
                    "{} mm<br>{} degrees<br>about {} mm",
                    three(&image.translation_mm, 2),
                    three(&image.rotation_degrees, 2),
                    three(&image.centre_mm, 2)
                ),
                range(image),
                files.join("<br>"),
            ]
        })
        .collect();
    let headings = [
        "Image",
        "Detector",
        "#Source to detector, mm",
        "#CT moved along and turned about x, y, z; about this point of the CT",
        "#Values",
        "Files",
    ];
    let table = crate::html::long(table("views", &headings, &rows), &rows);
    format!("<section id=\"images\"><h2>Values</h2>{table}</section>")
}

/// Source, detector and CT of each image; one sketch of those that were taken alike.
fn geometry(record: &DrrRecord) -> String {
    let mut body = String::new();
    let mut before: Option<(&ViewRecord, &[[f64; 4]; 3])> = None;
    for image in &record.images {
        let alike = before.is_some_and(|(view, pose)| {
            *pose == image.pose
                && ViewRecord { name: view.name.clone(), ..image.view.clone() } == *view
        });
        before = Some((&image.view, &image.pose));
        if alike {
            let _ =
                write!(body, "<p class=\"note\">{}: as the image before.</p>", escape(&image.name));
            continue;
        }
        let corners = sketch::corners(&record.grid, &image.pose);
        let drawn = sketch::sketches(&[&image.view], corners.as_ref());
        if !drawn.is_empty() {
            let _ =
                write!(body, "<div class=\"taken\"><h3>{}</h3>{drawn}</div>", escape(&image.name));
        }
    }
    if body.is_empty() {
        return String::new();
    }
    if record.images.len() > MANY {
        body = format!("<details><summary>All images</summary>{body}</details>");
    }
    figure(
        "fig-geometry",
        "Geometry",
        &body,
        "<b>How to read it:</b> the source (dot), the rays to the corners of the detector and the box of the CT \
         (grey), in the room: from above with x to the right and y upwards, from the side with y to the right \
         and z upwards. What is outside of the rays is not in the image.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xray::tests::arm;
    use voxalign_image::Grid;
    use voxalign_register::Check;

    fn image(name: &str, angle: f64) -> DrrImageRecord {
        DrrImageRecord {
            name: name.to_owned(),
            view: ViewRecord::new(name, &arm(angle, [30, 20])),
            pose: [[1.0, 0.0, 0.0, 5.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
            rotation_degrees: [0.0, 1.5, 0.0],
            translation_mm: [-5.0, 0.0, 0.0],
            centre_mm: [90.0, 110.0, 70.0],
            least: 0.0,
            most: 4.5,
            unit: "<attenuation>".to_owned(),
            window: Some([0.0, 6.5]),
            files: vec!["<file>.nii".to_owned()],
        }
    }

    #[test]
    fn the_page_is_whole_and_escaped() {
        let grid = Grid::axis_aligned([10, 12, 8], [20.0; 3]).unwrap();
        let run =
            RunRecord { parameters: serde_json::json!({"energy": "<70>"}), ..RunRecord::default() };
        let mut record = DrrRecord::new(run, GridRecord::from(&grid));
        record.images = vec![image("<AP>", 0.0), image("lateral", 90.0)];
        let values = vec![1.5; 600];
        let pictures =
            [XrayPicture::new([30, 20], &values), XrayPicture::new([30, 20], &values).inverted()];
        let page = render(&DrrReport { record: &record, pictures: &pictures }).unwrap();
        assert_eq!(page.matches("<img").count(), 2);
        assert_eq!(page.matches("<svg").count(), 4);
        assert!(
            page.contains("&lt;AP&gt;")
                && page.contains("0.0000 to 4.5000 (&lt;attenuation&gt;), inverted")
        );
        for raw in ["<AP>", "<attenuation>", "<file>", "<70>", "NaN", "id=\"verdict\""] {
            assert!(!page.contains(raw), "{raw}");
        }
        for tag in ["div", "section", "figure", "table", "svg", "p", "g", "small"] {
            let count = |text: &str| page.matches(text).count();
            let opened = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
            assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
        }
        // Images from one place have one sketch.
        record.images[1] = DrrImageRecord { name: "again".to_owned(), ..record.images[0].clone() };
        record.verdict = Verdict::new(
            vec![Check::at_least("part of the pixels that see the CT", 0.0, 0.1)],
            Vec::new(),
        );
        let page = render(&DrrReport { record: &record, pictures: &pictures[..1] }).unwrap();
        assert!(
            page.contains("again: as the image before") && page.contains("1 of 2 images are shown")
        );
        assert_eq!([page.matches("<svg").count(), page.matches("<img").count()], [2, 1]);
        assert!(page.contains("Verdict: Bad"));
        let wrong = [XrayPicture::new([30, 21], &values)];
        assert!(render(&DrrReport { record: &record, pictures: &wrong }).is_err());
    }

    #[test]
    fn records_come_back() {
        let grid = Grid::axis_aligned([10, 12, 8], [0.7; 3]).unwrap();
        let mut record = DrrRecord::new(RunRecord::default(), GridRecord::from(&grid));
        record.images = vec![DrrImageRecord { least: f64::NEG_INFINITY, ..image("a", 12.0) }];
        let text = record.to_json();
        let back: DrrRecord = serde_json::from_str(&text).unwrap();
        assert!(back.images[0].least.is_nan() && back.verdict.good);
        assert_eq!(back.images[0].view, record.images[0].view);
        assert_eq!(back.to_json(), text);
    }
}
