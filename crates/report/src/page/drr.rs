//! The page of simulated X-ray images.

pub use crate::record::drr::{DrrImageRecord, DrrRecord};

use super::html::{Columns, Section, figure, file_name, note, section};
use super::words::{self, path};
use super::{Heading, Page};
use crate::draw::sketch;
use crate::draw::window::Window;
use crate::draw::xray::{self, ViewRecord, XrayPicture};
use crate::error::Result;
use crate::record::Provenance;
use crate::text::{escape, fixed, measured, number};
use std::fmt::Write as _;
use voxalign_register::Verdict;

/// The longest side of a picture, pixels, and where there are many of them.
pub(crate) const PIXELS: [usize; 2] = [1024, 512];
/// More pictures than this are many.
pub(crate) const MANY: usize = 12;

/// The content of the page.
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
    input.map_or_else(|| "a CT".to_owned(), |i| file_name(&i.path))
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
    let mut page = Page::default();
    let Verdict { good, checks, remarks } = &record.verdict;
    if !good || !checks.is_empty() || !remarks.is_empty() {
        page.add("Verdict", words::judged(&record.verdict, None));
    }
    page.add("Images", gallery(report)?);
    page.add("Values", values(record));
    page.add("Geometry", geometry(record));
    let title = "Simulated X-ray images";
    let count = match record.images.len() {
        1 => "One image".to_owned(),
        n => format!("{n} images"),
    };
    let line = format!("{count} of {}", ct_name(&record.provenance));
    Ok(page.finish(&run, &Heading::new(&format!("{title}: {line}"), title, &line, &run)))
}

/// The least and largest value with what they are, as HTML.
fn range(image: &DrrImageRecord) -> String {
    let unit =
        if image.unit.is_empty() { String::new() } else { format!(" ({})", escape(&image.unit)) };
    format!("{}{unit}", measured(&[image.least, image.most]).join(" to "))
}

/// The images.
fn gallery(report: &DrrReport<'_>) -> Result<Section> {
    let images = &report.record.images;
    let shown = images.len().min(report.pictures.len());
    let most = PIXELS[usize::from(shown > MANY)];
    let (class, across) = match shown {
        0 | 1 => ("planes one", 1),
        n => ("planes many gallery", n.min(if n == 4 { 2 } else { 3 })),
    };
    let mut body = format!(
        "<div class=\"{class}\" style=\"grid-template-columns:repeat({across},minmax(0,1fr))\">"
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
        body += &note(&format!("{shown} of {} images are shown.", images.len()));
    }
    Ok(figure(
        "fig-images",
        "Images",
        &body,
        "each image from its own smallest to its largest value, given beside its name; bone is bright, air is \
         dark. Images are shown with the first row at the top and the first column on the left, in true proportion.",
    ))
}

/// A table of the images.
fn values(record: &DrrRecord) -> Section {
    let three = |values: &[f64; 3]| values.map(|v| fixed(v, 2)).join(", ");
    let detector = |view: &ViewRecord| {
        let size = view.size.map(|n| n.to_string()).join(" \u{d7} ");
        format!("{size} pixels<br>{} mm", view.pixel_mm.map(number).join(" \u{d7} "))
    };
    let pose = |image: &&DrrImageRecord| {
        let turned = three(&image.rotation_degrees);
        let [moved, centre] = [&image.translation_mm, &image.centre_mm].map(three);
        format!("{moved} mm<br>{turned} degrees<br>about {centre} mm")
    };
    let what = "#CT translated along and rotated about x, y, z; about this point of the CT";
    let table = Columns::of(&record.images)
        .column("Image", |image| escape(&image.name))
        .column("Detector", |image| detector(&image.view))
        .column("#Source to detector, mm", |image| number(image.view.source_to_detector_mm))
        .column(what, pose)
        .column("#Values", |image| range(image))
        .column("Files", |i| i.files.iter().map(|f| path(f)).collect::<Vec<_>>().join("<br>"))
        .long("views");
    section("images", "Values", &table)
}

/// Source, detector and CT of each image; one sketch of those that were taken alike.
fn geometry(record: &DrrRecord) -> Section {
    let mut body = String::new();
    let mut before: Option<(&ViewRecord, &[[f64; 4]; 3])> = None;
    for image in &record.images {
        let alike = before.is_some_and(|(view, pose)| {
            *pose == image.pose
                && ViewRecord { name: view.name.clone(), ..image.view.clone() } == *view
        });
        before = Some((&image.view, &image.pose));
        if alike {
            body += &note(&format!("{}: same as the previous image.", escape(&image.name)));
            continue;
        }
        let corners = sketch::corners(&record.grid, &image.pose);
        let drawn = sketch::sketches(&[&image.view], corners.as_ref());
        if !drawn.is_empty() {
            let _ =
                write!(body, "<div class=\"taken\"><h3>{}</h3>{drawn}</div>", escape(&image.name));
        }
    }
    if !body.is_empty() && record.images.len() > MANY {
        body = format!("<details><summary>All images</summary>{body}</details>");
    }
    figure(
        "fig-geometry",
        "Geometry",
        &body,
        "the source (dot), the rays to the corners of the detector and the bounding box of the CT (grey), in \
         room coordinates: from above with x to the right and y upwards, from the side with y to the right and \
         z upwards. Anything outside the rays is not in the image.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::xray::tests::arm;
    use crate::record::{GridRecord, RunRecord};
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
            vec![Check::at_least("fraction of the pixels that see the CT", 0.0, 0.1)],
            Vec::new(),
        );
        let page = render(&DrrReport { record: &record, pictures: &pictures[..1] }).unwrap();
        assert!(
            page.contains("again: same as the previous image")
                && page.contains("1 of 2 images are shown")
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
