//! The report on a sequence of fixed images that an elastic body follows.

pub use crate::record::stream::{StreamFrameRecord, StreamRecord};

use super::html::{Columns, Section, figure, known, note, panel, section};
use super::words::{Card, count, outcome};
use super::{Heading, Page};
use crate::draw::{Axis, Key, Plot, Point, Series, Shape};
use crate::text::{escape, fixed, measured, seconds, thousands};

/// The report as one HTML file that needs nothing else; it has links to the reports of the frames, in their folders beside it.
#[must_use]
pub fn render(record: &StreamRecord) -> String {
    let run = record.run();
    let mut page = Page::on(&run, cards(record));
    page.add("Frames", frames(record));
    page.add("Motion", motion(record));
    page.add("Course", course(record));
    let frames = count(record.frames.len(), "frame", "frames");
    let role = |role: &str| run.inputs.iter().find(|i| i.role == role);
    let moving = role("moving").map_or_else(String::new, |i| super::html::file_name(&i.path));
    let line = format!("{moving} onto {frames}");
    let heading = "Elastic registration of a sequence";
    page.finish(&run, &Heading::new(&format!("{line}: {heading}"), heading, &line, &run))
}

/// The most telling numbers.
fn cards(record: &StreamRecord) -> Vec<Card> {
    let all = || record.frames.iter();
    let most = |of: fn(&StreamFrameRecord) -> f64| {
        all().map(of).filter(|v| v.is_finite()).reduce(f64::max)
    };
    let warm: Vec<_> = all().filter(|f| follows(f)).collect();
    let mean = |of: fn(&StreamFrameRecord) -> f64| {
        warm.iter().map(|f| of(f)).sum::<f64>() / warm.len().max(1) as f64
    };
    let good = record.frames.len() - record.bad;
    let mut cards = vec![Card::new(
        "Good frames",
        format!("{} of {}", thousands(good as f64), thousands(record.asked as f64)),
        "",
    )];
    cards.extend(most(|f| f.largest_displacement_mm).map(|mm| {
        Card::new("Largest displacement", format!("{} mm", fixed(mm, 2)), "of all frames")
    }));
    cards.extend(most(|f| f.largest_change_mm.unwrap_or(f64::NAN)).map(|mm| {
        let mm = format!("{} mm", fixed(mm, 2));
        Card::new("Largest motion between frames", mm, "of a vertex of the body")
    }));
    if !warm.is_empty() {
        let first = record.frames.first().map_or(0, |f| f.iterations);
        let note = format!("first frame: {}", thousands(first as f64));
        cards.push(Card::new(
            "Iterations of a frame",
            fixed(mean(|f| f.iterations as f64), 1),
            note,
        ));
        cards.push(Card::new(
            "Time of a frame",
            seconds(mean(|f| f.seconds)),
            "mean, of following ones",
        ));
    }
    cards
}

/// Whether a frame began where another one ended.
fn follows(frame: &StreamFrameRecord) -> bool {
    frame.start.starts_with("frame")
}

/// A table of all frames.
fn frames(record: &StreamRecord) -> Section {
    let all = &record.frames;
    let cells = |of: fn(&StreamFrameRecord) -> f64| -> Vec<String> {
        measured(&all.iter().map(of).collect::<Vec<_>>())
    };
    let link = |f: &&StreamFrameRecord| {
        format!("<a href=\"{}/report.html\">{}</a>", escape(&f.folder), f.frame)
    };
    let start = |f: &&StreamFrameRecord| {
        // A frame and its number stay in one line.
        let start = escape(&f.start).replace(' ', "\u{a0}");
        if f.restarted { format!("{start}, tried again from rest") } else { start }
    };
    let table = Columns::of(all)
        .column("Frame", link)
        .column("Verdict", |f| outcome(f.good, "good", "bad"))
        .column("Image", |f| super::html::file_name(&f.file))
        .column("Start", start)
        .column("#Iterations", |f| thousands(f.iterations as f64))
        .cells("#Time, s", cells(|f| f.seconds))
        .column("#Correlation", |f| fixed(f.ncc_after, 4))
        .column("#Mean, mm", |f| fixed(f.mean_displacement_mm, 2))
        .column("#Largest, mm", |f| fixed(f.largest_displacement_mm, 2))
        .column("#Motion, mm", |f| known(f.largest_change_mm, 2))
        .column("#Volume", |f| fixed(f.least_volume_ratio, 3))
        .column("At rest", |f| if f.at_rest { "yes" } else { "no" }.to_owned())
        .long("");
    let mut out = table
        + &note(
            "A frame has its own report behind its number. Times are of the registration, without reading, judging and writing; the \
             correlation is that of the images by the result, mean and largest are displacements without the affine part, motion is \
             the largest of a vertex since the frame before, and volume the smallest of a tetrahedron over that at rest.",
        );
    for frame in all.iter().filter(|f| !f.good) {
        out += &note(&format!("Frame {}: {}.", frame.frame, escape(&frame.verdict)));
    }
    if let Some(why) = &record.ended {
        out += &note(&format!("The sequence ended early: {}.", escape(why)));
    }
    section("frames", "Frames", &out)
}

/// A curve over the frames, with its name, its colour and its values.
type Curve<'a> = (&'a str, usize, fn(&StreamFrameRecord) -> f64);

/// Curves over the frames; those with a bad verdict have a diamond on the first curve.
fn over_frames(record: &StreamRecord, title: &str, up: &str, curves: &[Curve<'_>]) -> String {
    let points = |of: fn(&StreamFrameRecord) -> f64, wanted: fn(&StreamFrameRecord) -> bool| {
        let all = record.frames.iter().filter(|f| wanted(f)).map(|f| (f, of(f)));
        let finite = all.filter(|(_, y)| y.is_finite());
        let point = |(f, y): (&StreamFrameRecord, f64)| {
            let value = measured(&[y]).concat();
            Point::at(f.frame as f64, y).titled(format!("frame {}: {value}", f.frame))
        };
        finite.map(point).collect::<Vec<_>>()
    };
    let lines = curves.iter().map(|&(name, colour, of)| Series {
        shape: Shape::Line,
        colour,
        name: name.to_owned(),
        points: points(of, |_| true),
    });
    let bad = curves.first().map(|&(_, _, of)| Series {
        shape: Shape::Diamonds,
        colour: BAD,
        points: points(of, |f| !f.good),
        ..Series::default()
    });
    let plot = Plot {
        title: [title.to_owned(), String::new()],
        across: Axis::new("frame"),
        up: Axis::new(up),
        size: [620.0, 260.0],
        series: lines.chain(bad).collect(),
        ..Plot::default()
    };
    let key = curves.iter().filter(|_| curves.len() > 1);
    let key = key.fold(Key::new(), |key, (name, colour, _)| key.series(Shape::Line, *colour, name));
    let key = match record.bad {
        0 => key,
        _ => key.series(Shape::Diamonds, BAD, "bad verdict"),
    };
    match plot.svg() {
        Some(svg) => panel(Some(svg + &key.html())),
        None => String::new(),
    }
}

/// The number of the colour of frames whose verdict is bad.
const BAD: usize = 3;

/// Displacements and volumes over the frames.
fn motion(record: &StreamRecord) -> Section {
    let displacement = over_frames(
        record,
        "Displacement",
        "mm",
        &[
            ("largest", 0, |f| f.largest_displacement_mm),
            ("mean", 1, |f| f.mean_displacement_mm),
            ("largest since the last frame", 2, |f| f.largest_change_mm.unwrap_or(f64::NAN)),
        ],
    );
    let volume = over_frames(
        record,
        "Smallest volume of a tetrahedron",
        "over that at rest",
        &[("smallest volume", 0, |f| f.least_volume_ratio)],
    );
    figure(
        "fig-motion",
        "Motion of the body over the frames",
        &format!("<div class=\"panels\">{displacement}{volume}</div>"),
        "how far the body is from rest, how far it went since the last frame, and how much its tetrahedra are pressed. Good: smooth \
         curves, as tissue moves. A step that comes and goes in one frame is a frame whose result is wrong.",
    )
}

/// How images agree, and what frames took.
fn course(record: &StreamRecord) -> Section {
    let energy = over_frames(
        record,
        "Energy",
        "energy",
        &[("before", 1, |f| f.energy_before), ("after", 0, |f| f.energy_after)],
    );
    let likeness = over_frames(
        record,
        "Correlation of the images",
        "correlation",
        &[("after", 0, |f| f.ncc_after), ("affine part only", 1, |f| f.ncc_before)],
    );
    let iterations = over_frames(
        record,
        "Iterations",
        "iterations",
        &[("iterations", 0, |f| f.iterations as f64)],
    );
    let times = over_frames(record, "Time of the registration", "s", &[("time", 0, |f| f.seconds)]);
    figure(
        "fig-course",
        "Agreement, iterations and time over the frames",
        &format!("<div class=\"panels\">{energy}{likeness}{iterations}{times}</div>"),
        "energies before the first and the last iteration of each frame, the correlation of its image with the moving one, and what \
         it took. Good: the energy ends at about the same height throughout, the correlation stays high, and frames after the first \
         take few iterations. Of a frame that began at rest the energy before is of coarser images, and another one.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> StreamRecord {
        let frame = |frame: usize, good: bool| StreamFrameRecord {
            frame,
            file: format!("in/<{frame}>.nii"),
            folder: format!("frame_{frame:03}"),
            start: if frame == 1 { "rest".into() } else { format!("frame {}", frame - 1) },
            iterations: 60 / frame,
            energy_before: 0.5,
            energy_after: 0.1 * frame as f64,
            largest_displacement_mm: frame as f64,
            largest_change_mm: (frame > 1).then_some(1.5),
            good,
            verdict: if good { "good" } else { "bad: 7 < 8" }.into(),
            ..StreamFrameRecord::default()
        };
        let frames = vec![frame(1, true), frame(2, true), frame(3, false)];
        StreamRecord { frames, bad: 1, asked: 4, ended: Some("a <b>".into()), ..Default::default() }
    }

    #[test]
    fn the_page_has_links_curves_and_why_it_ended() {
        let html = render(&record());
        for part in [
            "href=\"frame_003/report.html\"",
            "2 of 4",
            "&lt;1&gt;.nii",
            "bad: 7 &lt; 8",
            "ended early: a &lt;b&gt;",
            "bad verdict",
            "fig-motion",
            "fig-course",
            "frame 3: ",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("NaN") && html.find("Verdict: ") < html.find("<h2>Frames"));
        // Without a bad frame there is no mark of one.
        let mut good = record();
        good.frames.pop();
        good.bad = 0;
        assert!(!render(&good).contains("bad verdict"));
    }

    #[test]
    fn the_first_frame_alone_makes_a_page() {
        let mut one = record();
        one.frames.truncate(1);
        let html = render(&one);
        assert!(html.contains("frame_001/report.html") && !html.contains("Time of a frame"));
    }
}
