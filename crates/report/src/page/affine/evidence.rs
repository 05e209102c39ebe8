//! Evidence from the images, independent of the cost, and the other attempts.

use crate::page::html::{Columns, Section, figure, table};
use crate::record::RunRecord;
use crate::text::{escape, fixed};
use voxalign_register::diffeo::DeformationEvidence;
use voxalign_register::evidence::{Evidence, Measures, Unmasked};

/// The section.
pub(crate) fn section(record: &RunRecord) -> Section {
    let body = match &record.evidence {
        Some(evidence) => {
            let whole = unmasked(record.unmasked.as_ref(), "");
            format!("{}{whole}{}", measures(evidence), attempts(record))
        }
        None => "<p>No evidence was recorded.</p>".to_owned(),
    };
    figure(
        "evidence",
        "Evidence",
        &body,
        "what the two images have in common at one coarse scale, measured independently of the cost that was \
         optimised. Edges: how parallel the gradients are, 0 to 1, for any contrast. Information: mutual \
         information as a fraction of the smaller entropy. Tissue: mutual information within the foreground of \
         both, nats. Good alignment: the first column is clearly above the second (shifted by two samples of \
         that scale, of slices six) and the third (the best of alignments that are wrong on purpose: shifted by a quarter of \
         the object, rotated by 25 degrees, turned over). The agreement combines these leads in one number; \
         above 0 is good.",
    )
}

fn measures(evidence: &Evidence) -> String {
    let all =
        [evidence.found, evidence.near, evidence.elsewhere, evidence.mirrored, evidence.headers];
    let headings = ["", "#Result", "#Slightly shifted", "#Elsewhere", "#Mirrored", "#Headers"];
    format!(
        "<p>Agreement: <b>{}</b>.</p>{}",
        fixed(evidence.agreement(), 2),
        table("", &headings, &rows(&all))
    )
}

/// The evidence of the images without their masks, where they have some.
fn unmasked(whole: Option<&Unmasked>, under: &str) -> String {
    whole.map_or_else(String::new, |whole| {
        format!(
            "<p>This is inside the masks, {:.0} % of the object. Agreement of the whole images{under}: <b>{}</b>.</p>",
            100.0 * whole.kept,
            fixed(whole.evidence.agreement(), 2)
        )
    })
}

/// A row a measure, with a column an alignment.
fn rows(all: &[Measures]) -> Vec<Vec<String>> {
    let row = |name: &str, of: fn(&Measures) -> f64| {
        let mut cells = vec![escape(name)];
        cells.extend(all.iter().map(|m| fixed(of(m), 3)));
        cells
    };
    vec![
        row("Edges", |m| m.edges),
        row("Information", |m| m.information),
        row("Tissue", |m| m.tissue),
        row("Foreground, Dice", |m| m.foreground),
    ]
}

/// The section of a deformation.
pub(crate) fn of_deformation(evidence: Option<&DeformationEvidence>) -> Section {
    let body = match evidence {
        Some(e) => {
            let of = [&e.start, &e.straight, &e.deformed];
            let mut rows = rows(&of.map(|e| e.found));
            rows.extend(self::rows(&of.map(|e| e.elsewhere)).into_iter().map(|mut row| {
                row[0] += " elsewhere";
                row
            }));
            let agreement = of.map(|e| fixed(e.agreement(), 2));
            rows.push([vec!["Agreement".to_owned()], agreement.to_vec()].concat());
            let whole = unmasked(e.unmasked.as_ref(), " under the nearest affine map");
            let table =
                table("", &["", "#Affine start", "#Nearest affine map", "#Deformed"], &rows);
            table + &whole
        }
        None => "<p>No evidence was recorded.</p>".to_owned(),
    };
    figure(
        "evidence",
        "Evidence",
        &body,
        "what the two images have in common at one coarse scale, measured independently of the similarity that \
         drove the deformation: at the affine start, under the affine map nearest to the whole transform, \
         without any bending, and as deformed. \u{201c}Elsewhere\u{201d} is the best of alignments that are \
         wrong on purpose. Good: the agreement as deformed is above 0, that under the nearest affine map is \
         hardly below it, and tissue is clearly above 0. Images that do not belong together can be bent to the \
         same outline; they then agree as deformed, but not under the affine map.",
    )
}

fn attempts(record: &RunRecord) -> String {
    let table = Columns::of(&record.attempts)
        .column("By", |a| escape(&a.what))
        .column("#Agreement", |a| fixed(a.agreement, 2))
        .column("Verdict", |a| if a.good { "good" } else { "bad" }.to_owned())
        .column("", |a| if a.kept { "the result" } else { "" }.to_owned())
        .html("");
    match table.as_str() {
        "" => table,
        table => {
            format!(
                "<p>The registration that was asked for gave a bad result; these were tried as well:</p>{table}"
            )
        }
    }
}
