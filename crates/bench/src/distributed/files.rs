//! The measurements as files.

use super::figures;
use super::results::Results;
use crate::files::quoted;
use crate::sheet::Sheet;
use std::fmt::Write as _;
use voxalign_report::curves::{CurvesReport, render};

const COLUMNS: &str = "version,device,size,bits,bins,ranks,strategy,variant,window,pixels_per_thread,degrees,mean_ms,least_ms,\
                       samples,remote_reads,messages,bytes,remote_share,expected_share,transactions,remote_transactions,\
                       computing_ms,communicating_ms,waiting_ms";

/// What all rows begin with.
fn start(results: &Results) -> String {
    let [x, y] = results.size;
    let words = [results.version, &results.device].map(quoted).join(",");
    format!("{words},{x}x{y},{},{}", results.bits, results.bins)
}

/// A row for every variant and angle; loads are means over ranks.
pub(super) fn csv(results: &Results) -> String {
    let mut text = format!("{COLUMNS}\n");
    let start = start(results);
    let share = |s: Option<f64>| s.map_or_else(String::new, |s| format!("{s:.6}"));
    for r in &results.rows {
        let n = r.loads.len().max(1) as f64;
        let loads = r.loads.iter().fold([0.0; 3], |[a, b, c], l| {
            [a + l.computing / n, b + l.communicating / n, c + l.waiting / n]
        });
        let loads = loads.map(|l| format!("{l:.6}")).join(",");
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{start},{},{},{},{},{},{},{:.6},{:.6},{},{},{},{},{},{},{},{},{loads}",
            r.ranks,
            r.strategy,
            quoted(&r.variant),
            r.window,
            r.pixels_per_thread,
            r.degrees,
            r.milliseconds,
            r.least_milliseconds,
            r.samples,
            r.remote_reads,
            r.messages,
            r.bytes,
            share(r.remote_share),
            share(r.expected_share),
            r.transactions,
            r.remote_transactions,
        );
    }
    text
}

const TRACE: &str = "version,device,size,bits,bins,ranks,variant,degrees,rank,chunk,all_ms,computing_ms,communicating_ms,\
                     waiting_ms,ready_ms,all_ready_ms,exchanged_ms,bytes";

/// A row for every rank of every variant and angle, and for every exchange of messages that was kept.
pub(super) fn trace(results: &Results) -> String {
    let mut text = format!("{TRACE}\n");
    let start = start(results);
    for r in &results.rows {
        for (rank, l) in r.loads.iter().enumerate() {
            let times = [l.milliseconds, l.computing, l.communicating, l.waiting];
            let times = times.map(|t| format!("{t:.6}")).join(",");
            let (ranks, variant, degrees) = (r.ranks, quoted(&r.variant), r.degrees);
            let _ = writeln!(text, "{start},{ranks},{variant},{degrees},{rank},,{times},,,,");
        }
    }
    for r in &results.rounds {
        let times = [r.ready, r.all_ready, r.exchanged].map(|t| format!("{t:.6}")).join(",");
        let (ranks, variant, degrees) = (r.ranks, quoted(&r.variant), r.degrees);
        let (rank, round, bytes) = (r.rank, r.round, r.bytes);
        let _ = writeln!(
            text,
            "{start},{ranks},{variant},{degrees},{rank},{round},,,,,{times},{bytes}"
        );
    }
    text
}

/// A page with the plots and the tables.
pub(super) fn html(results: &Results, sheets: &[Sheet]) -> String {
    render(&CurvesReport {
        title: "Images spread over ranks".into(),
        program: format!("voxalign {}", results.version),
        host: &results.host,
        command: voxalign_jobs::invoked::command(),
        note: format!(
            "Joint histograms of two equal images, one turned about the centre, as in Adinetz et al.: {}. Transactions are the sectors of \
             32 bytes that the loads of a warp touch in the moving image, without those of messages that arrive.",
            results.about()
        ),
        figures: figures::all(results),
        tables: sheets.iter().map(|s| s.of_page(1)).collect(),
    })
}
