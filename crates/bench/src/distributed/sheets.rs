//! The measurements as tables.

use super::results::{Results, Row};
use crate::sheet::{Sheet, ms};
use voxalign_image::memory::amount;

/// Rows of the exchanges of chunks that a table shows; a file has all.
const MOST_ROUNDS: usize = 48;

/// All tables.
pub(super) fn all(results: &Results) -> Vec<Sheet> {
    let mut sheets: Vec<_> = results.ranks.iter().filter_map(|&n| times(results, n)).collect();
    sheets.extend(speed(results));
    sheets.extend(shares(results));
    sheets.extend(traffic(results));
    sheets.extend(loads(results));
    sheets.extend(rounds(results));
    sheets.push(memory(results));
    sheets
}

/// An angle with as many digits as it needs.
pub(super) fn angle(degrees: f64) -> String {
    format!("{}", (degrees * 100.0).round() / 100.0)
}

/// Rows next to 0, 90 and 180 degrees.
fn marks(results: &Results) -> Vec<usize> {
    let mut marks: Vec<_> = [0.0, 90.0, 180.0].map(|d| results.nearest(d)).to_vec();
    marks.dedup();
    marks
}

/// Rows next to 0, 45, 90, 135 and 180 degrees.
fn more_marks(results: &Results) -> Vec<usize> {
    let mut marks: Vec<_> = (0..5).map(|k| results.nearest(45.0 * f64::from(k))).collect();
    marks.dedup();
    marks
}

fn ratio(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "-".into() }
}

fn slowest(rows: &[Row]) -> Option<&Row> {
    rows.iter().max_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds))
}

fn mean(rows: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = rows.collect();
    all.iter().sum::<f64>() / all.len() as f64
}

/// Times of all variants with some ranks, and their ratios to the baseline.
fn times(results: &Results, ranks: usize) -> Option<Sheet> {
    let marks = marks(results);
    let first = results.variants().find(|rows| rows[0].ranks == ranks)?;
    let at: Vec<_> = marks.iter().map(|&k| angle(first[k].degrees)).collect();
    let mut headings = vec!["variant".to_owned()];
    headings.extend(at.iter().map(|a| format!("ms at {a}")));
    headings.extend(["ms at most".into(), "at degrees".into()]);
    headings.extend(at.iter().map(|a| format!("x baseline at {a}")));
    headings.push("x baseline at most".into());
    let mut sheet = Sheet::new(format!("Times, ranks: {ranks}"), headings);
    for rows in results.variants().filter(|rows| rows[0].ranks == ranks) {
        let baseline = results.baseline(&rows[0]);
        let over =
            |k: usize| baseline.get(k).map_or(f64::NAN, |b| rows[k].milliseconds / b.milliseconds);
        let most = slowest(rows)?;
        let largest = (0..rows.len()).map(over).fold(f64::NAN, f64::max);
        let mut row = vec![rows[0].variant.clone()];
        row.extend(marks.iter().map(|&k| ms(1e-3 * rows[k].milliseconds)));
        row.extend([ms(1e-3 * most.milliseconds), angle(most.degrees)]);
        row.extend(marks.iter().map(|&k| ratio(over(k))));
        row.push(ratio(largest));
        sheet.row(row);
    }
    Some(sheet)
}

/// The baseline over the number of ranks (figure 3).
fn speed(results: &Results) -> Option<Sheet> {
    let all = || results.variants().filter(|rows| rows[0].strategy == "replicate");
    let of = |rows: &[Row]| mean(rows.iter().map(|r| r.milliseconds));
    all().find(|rows| rows[0].ranks > 1)?;
    let headings = ["variant", "ranks", "ms, mean over angles", "speed-up over 1 rank"];
    let mut sheet = Sheet::new("Baseline: speed-up", headings);
    for rows in all() {
        let one = all().find(|one| one[0].ranks == 1 && one[0].variant == rows[0].variant);
        let up = one.map_or(f64::NAN, |one| of(one) / of(rows));
        let (name, ranks) = (rows[0].variant.clone(), rows[0].ranks.to_string());
        sheet.row([name, ranks, ms(1e-3 * of(rows)), ratio(up)]);
    }
    Some(sheet)
}

/// The counted part of remote samples beside the formula.
fn shares(results: &Results) -> Option<Sheet> {
    let all = || {
        let shared = |rows: &&[Row]| rows[0].usual && rows[0].remote_share.is_some();
        results.variants().filter(shared).filter(|rows| rows[0].window == "plain")
    };
    let marks = more_marks(results);
    let first = all().next()?;
    let mut headings = vec!["variant".to_owned(), "ranks".into()];
    for &k in &marks {
        headings.push(format!("% at {}", angle(first[k].degrees)));
    }
    headings.push("largest difference from formula, %".into());
    let mut sheet = Sheet::new("Samples whose pixels another rank has", headings);
    let percent = |share: Option<f64>| share.map_or("-".into(), |s| format!("{:.2}", 100.0 * s));
    let mut last = 0;
    for rows in all() {
        if last != rows[0].ranks && rows[0].expected_share.is_some() {
            let mut row = vec!["by the formula".to_owned(), rows[0].ranks.to_string()];
            row.extend(marks.iter().map(|&k| percent(rows[k].expected_share)));
            row.push(String::new());
            sheet.row(row);
        }
        last = rows[0].ranks;
        let off = rows.iter().filter_map(|r| Some((r.remote_share? - r.expected_share?).abs()));
        let largest = off.fold(None, |most: Option<f64>, d| Some(most.map_or(d, |m| m.max(d))));
        let mut row = vec![rows[0].variant.clone(), rows[0].ranks.to_string()];
        row.extend(marks.iter().map(|&k| percent(rows[k].remote_share)));
        row.push(percent(largest));
        sheet.row(row);
    }
    Some(sheet)
}

/// Transactions, messages and bytes.
fn traffic(results: &Results) -> Option<Sheet> {
    let marks = marks(results);
    let first = results.variants().next()?;
    let mut headings = vec!["variant".to_owned(), "ranks".into()];
    for &k in &marks {
        let at = angle(first[k].degrees);
        headings.push(format!("transactions per sample at {at}"));
        headings.push(format!("of remote memory at {at}"));
    }
    headings.push("messages at most".into());
    headings.push("bytes at most".into());
    let mut sheet =
        Sheet::new("Memory transactions of the kernels of a GPU, and messages", headings);
    for rows in results.variants() {
        let mut row = vec![rows[0].variant.clone(), rows[0].ranks.to_string()];
        for &k in &marks {
            let each = |n: i64| format!("{:.3}", n as f64 / rows[k].samples.max(1) as f64);
            row.extend([each(rows[k].transactions), each(rows[k].remote_transactions)]);
        }
        let most = |of: &dyn Fn(&Row) -> u64| rows.iter().map(of).max().unwrap_or(0);
        row.push(most(&|r| r.messages).to_string());
        row.push(amount(most(&|r| r.bytes)));
        sheet.row(row);
    }
    Some(sheet)
}

/// What each rank did with its time.
fn loads(results: &Results) -> Option<Sheet> {
    let k = results.nearest(90.0);
    let several = || results.variants().filter(|rows| rows[0].ranks > 1);
    let title = format!("Loads of ranks at {} degrees, ms", angle(several().next()?[k].degrees));
    let headings = ["variant", "ranks", "rank", "all", "computing", "communicating", "waiting"];
    let mut sheet = Sheet::new(title, headings);
    for rows in several() {
        for (rank, load) in rows[k].loads.iter().enumerate() {
            let words = [rows[k].variant.clone(), rows[k].ranks.to_string(), rank.to_string()];
            let times = [load.milliseconds, load.computing, load.communicating, load.waiting];
            sheet.row(words.into_iter().chain(times.map(|t| ms(1e-3 * t))));
        }
    }
    Some(sheet)
}

/// The exchanges of the usual list on the most ranks.
fn rounds(results: &Results) -> Option<Sheet> {
    let first = results.rounds.iter().max_by_key(|r| r.ranks)?;
    let usual = results.rounds.iter().find(|r| r.ranks == first.ranks)?;
    let of =
        results.rounds.iter().filter(|r| (r.ranks, &r.variant) == (usual.ranks, &usual.variant));
    let mut rows: Vec<_> = of.collect();
    rows.sort_by_key(|r| (r.round, r.rank));
    let shown = match rows.len() > MOST_ROUNDS {
        true => ", the first of them",
        false => "",
    };
    let title = format!(
        "Chunks of '{}' on {} ranks at {} degrees{shown}: when messages are ready and exchanged, ms",
        usual.variant,
        usual.ranks,
        angle(usual.degrees)
    );
    let headings = ["chunk", "rank", "ready", "all ready", "exchanged", "bytes sent"];
    let mut sheet = Sheet::new(title, headings);
    for r in rows.into_iter().take(MOST_ROUNDS) {
        let times = [r.ready, r.all_ready, r.exchanged].map(|t| ms(1e-3 * t));
        let words = [r.round.to_string(), r.rank.to_string()].into_iter();
        sheet.row(words.chain(times).chain([r.bytes.to_string()]));
    }
    Some(sheet)
}

/// What strategies have in memory, and those that did not fit.
fn memory(results: &Results) -> Sheet {
    let headings = ["strategy", "ranks", "device memory of each rank", "host memory beside", ""];
    let mut sheet = Sheet::new("Memory", headings);
    for m in &results.memory {
        let mut each: Vec<_> = m.bytes_of_ranks.iter().map(|&b| amount(b)).collect();
        each.dedup();
        let left_out = m.left_out.as_ref().map(|why| format!("left out: {why}"));
        sheet.row([
            m.strategy.clone(),
            m.ranks.to_string(),
            each.join(", "),
            amount(m.bytes_of_host),
            left_out.unwrap_or_default(),
        ]);
    }
    sheet
}
