//! The measurements as rows, and timelines as a page.

use super::{Results, Size};
use crate::files::quoted;
use std::fmt::Write as _;
use voxalign_population::stream::Trace;
use voxalign_report::timeline::{Timeline, TimelineReport, TimelineTask, render};

const COLUMNS: &str = "version,device,size,images,part,at,model,quantity,milliseconds";

/// A row for every time of all images.
pub(super) fn csv(results: &Results) -> String {
    let mut text = format!("{COLUMNS}\n");
    let start = format!(
        "{},{},{},{}",
        quoted(results.version),
        quoted(&results.device),
        Size(results.dims),
        results.images
    );
    // Writing to a string does not fail.
    let mut row = |part: &str, at: &str, model: &str, quantity: &str, seconds: f64| {
        let what = [part, at, model, quantity].map(quoted).join(",");
        let _ = writeln!(text, "{start},{what},{:.6}", seconds * 1e3);
    };
    for (part, points) in [("ratio", &results.ratio), ("synchronisation", &results.synchronisation)]
    {
        for p in points {
            row(part, &p.at.to_string(), &p.model, "all", p.seconds);
            row(part, &p.at.to_string(), &p.model, "bound", p.bound);
        }
    }
    for f in &results.functions {
        for (stage, seconds) in &f.stages {
            row("functions", f.name, "synchronous", stage, *seconds);
        }
        for (model, seconds) in &f.models {
            row("functions", f.name, model, "all", *seconds);
        }
    }
    for r in &results.disk {
        let part = format!("disk {}", r.files);
        for (stage, alone) in [("R", r.read), ("E", r.compute), ("W", r.write)] {
            row(&part, &r.work, "alone", stage, alone.seconds);
        }
        let model = voxalign_population::stream::Model::default().to_string();
        for (quantity, seconds) in
            [("CPU / cores", r.shared), ("bound", r.bound), ("all", r.streamed)]
        {
            row(&part, &r.work, &model, quantity, seconds);
        }
    }
    text
}

/// A trace with a row for each stage.
fn timeline(name: &str, trace: &Trace, bound: Option<f64>) -> Timeline {
    let names: Vec<String> = trace.stages.iter().map(|s| s.name.clone()).collect();
    let task = |t: &voxalign_population::stream::Task| TimelineTask {
        row: t.stage,
        stage: t.stage,
        item: t.item,
        start: t.start,
        end: t.end,
    };
    Timeline {
        title: name.to_owned(),
        rows: names.clone(),
        stages: names,
        tasks: trace.tasks.iter().map(task).collect(),
        bound,
    }
}

/// The page.
pub(super) fn html(results: &Results) -> String {
    // That of the first, the synchronous: where streams wait for an engine, their stages look longer.
    let bound = results.traces.first().map(|(_, t)| t.bound());
    render(&TimelineReport {
        title: "Streaming models".into(),
        program: format!("voxalign {}", results.version),
        host: &results.host,
        command: voxalign_jobs::invoked::command(),
        note: format!(
            "Upload, execution and download of {} images, with a forced synchronisation in the middle of the \
             execution. A box is an image or part of one, including the wait for its engine where several \
             streams use it; the dashed line is the shortest time that the slowest stage allows.",
            results.images
        ),
        timelines: results.traces.iter().map(|(name, t)| timeline(name, t, bound)).collect(),
    })
}
