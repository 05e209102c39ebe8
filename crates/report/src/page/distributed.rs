//! How images were spread over ranks.

use super::html::{Columns, Section, figure};
use crate::record::RunRecord;
use crate::record::distributed::{
    BlockScaleRecord, DistributedRecord, EstimateRecord, PyramidRecord,
};
use crate::text::{escape, number, thousands};
use voxalign_image::memory::amount;

/// The section; nothing where images were registered as wholes.
pub(crate) fn section(record: &RunRecord) -> Section {
    let Some(spread) = &record.distributed else { return Section::default() };
    let body = [ranks(spread), images(record, spread), scales(spread), estimates(spread)].concat();
    figure(
        "distributed",
        "Blocks and ranks",
        &body,
        "the images, read in blocks, and the ranks that held them. Below some million pixels both images were searched as wholes; \
         from there to full resolution each rank counted the samples of its own block, in whole numbers, so that the result \
         is the same to the bit for any number of ranks and any strategy. Good: cost falls at every scale (see the course of the cost), and \
         corners move by a few pixels of the coarsest scale at most.",
    )
}

fn sizes(dims: [usize; 3]) -> String {
    let [x, y, z] = dims;
    let times = " \u{d7} ";
    if z > 1 { format!("{x}{times}{y}{times}{z}") } else { format!("{x}{times}{y}") }
}

fn ranks(spread: &DistributedRecord) -> String {
    let table = Columns::of(spread.ranks.iter().enumerate())
        .column("Rank", |(number, _)| number.to_string())
        .column("Process", |(_, r)| escape(&r.name))
        .column("Device", |(_, r)| escape(&r.device))
        .column("#Peak memory of its process", |(_, r)| {
            r.peak_memory_bytes.map_or_else(|| "-".to_owned(), amount)
        })
        .column("#Peak memory of the device", |(_, r)| {
            r.device_peak_bytes.map_or_else(|| "-".to_owned(), amount)
        })
        .html("");
    format!(
        "<p>Strategy asked for: <b>{}</b>. From the coarse scale to full resolution corners moved by at most <b>{} mm</b>.</p>{table}",
        escape(&spread.asked),
        number(spread.moved_mm),
    )
}

fn images(record: &RunRecord, spread: &DistributedRecord) -> String {
    let channels = |image: &&PyramidRecord| {
        let chosen = record.parameters.get(format!("{}_channel", image.role));
        match (image.channels, chosen.and_then(serde_json::Value::as_u64)) {
            (1, _) => "1".to_owned(),
            (count, Some(chosen)) => format!("{count}, number {chosen}"),
            // Others have to be chosen from.
            (count, None) => format!("{count}, as luminance"),
        }
    };
    Columns::of(&spread.images)
        .column("Image", |i| escape(&i.role))
        .column("Format", |i| escape(&i.format))
        .column("#Bits", |i| i.bits.to_string())
        .column("#Channels", channels)
        .column("Levels, pixels", |i| {
            i.levels.iter().map(|&dims| sizes(dims)).collect::<Vec<_>>().join(", ")
        })
        .column("#Levels made", |i| i.made.to_string())
        .html("")
}

fn scales(spread: &DistributedRecord) -> String {
    let part = |of: u64, s: &BlockScaleRecord| {
        format!("{:.1} %", 100.0 * of as f64 / (s.samples.max(1)) as f64)
    };
    Columns::of(&spread.scales)
        .column("Fixed, pixels", |s| sizes(s.dims[0]))
        .column("Moving, pixels", |s| sizes(s.dims[1]))
        .column("Strategy", |s| escape(&s.strategy))
        .column("#Samples", |s| thousands(s.samples as f64))
        .column("#Read elsewhere", |s| part(s.remote_reads, s))
        .column("#Sent", |s| part(s.messages, s))
        .column("#Messages", |s| amount(s.message_bytes))
        .html("")
}

fn estimates(spread: &DistributedRecord) -> String {
    let Some(last) = spread.scales.last() else { return String::new() };
    let peers = match (spread.ranks.len(), last.peers) {
        (0 | 1, _) => "",
        (_, true) => "; ranks read each other\u{2019}s memory",
        (_, false) => "; ranks do not read each other\u{2019}s memory",
    };
    let limits = format!(
        "<p>At full resolution images may take {} of each device and {} of the host for each rank{peers}. What each strategy was \
         reckoned to take there:</p>",
        amount(last.device_memory_bytes),
        amount(last.host_memory_bytes),
    );
    let serves = |e: &&EstimateRecord| String::from(if e.serves { "yes" } else { "no" });
    let table = Columns::of(&last.estimates)
        .column("Strategy", |e| escape(&e.strategy))
        .column("#Of the device", |e| amount(e.device_bytes))
        .column("#Of the host", |e| amount(e.host_bytes))
        .column("#Remote samples", |e| format!("{:.1} %", 100.0 * e.remote))
        .column("#Time of a histogram", |e| crate::text::seconds(e.seconds))
        .column("Serves", serves)
        .html("");
    format!("{limits}{table}")
}
