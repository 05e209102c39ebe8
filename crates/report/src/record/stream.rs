//! The record of a sequence of fixed images that an elastic body follows.

use super::{GridRecord, RunRecord};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use voxalign_register::numbers::null_is_nan;

record! {
    /// All that is worth keeping of a sequence: what its `stream.json` holds. Numbers that are not finite are written as `null`.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    StreamRecord {
        /// The grid of all fixed images.
        pub grid: GridRecord,
        /// The frames that have a result, in the order of time.
        pub frames: Vec<StreamFrameRecord>,
        /// Those of them whose verdict is bad.
        pub bad: usize,
        /// The frames that were asked for.
        pub asked: usize,
        /// Why the sequence ended before its end; none where it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub ended: Option<String>,
    }
}

begun!(StreamRecord);

/// A frame of a sequence: a registration of its own, whose record is in its folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamFrameRecord {
    /// Its number, from 1.
    pub frame: usize,
    /// The fixed image.
    pub file: String,
    /// Its folder within that of the sequence.
    pub folder: String,
    /// Where the body began: `rest`, `state` (of a file), or `frame 3` for the state at the end of that frame.
    pub start: String,
    /// Whether it was registered a second time, from rest, as the first result was bad or there was none.
    pub restarted: bool,
    /// Iterations of all scales.
    pub iterations: usize,
    /// The time of its registration, with what was found first to be bad, s.
    #[serde(deserialize_with = "null_is_nan")]
    pub seconds: f64,
    /// The time of all of it, with reading, judging and writing, s.
    #[serde(deserialize_with = "null_is_nan")]
    pub total_seconds: f64,
    /// The energy before the first iteration, of images as coarse as they were there.
    #[serde(deserialize_with = "null_is_nan")]
    pub energy_before: f64,
    /// The energy before the last iteration, at the finest scale.
    #[serde(deserialize_with = "null_is_nan")]
    pub energy_after: f64,
    /// The correlation of the images by the affine part alone.
    #[serde(deserialize_with = "null_is_nan")]
    pub ncc_before: f64,
    /// The same by the whole.
    #[serde(deserialize_with = "null_is_nan")]
    pub ncc_after: f64,
    /// The mean displacement over the grid, without the affine part, mm.
    #[serde(deserialize_with = "null_is_nan")]
    pub mean_displacement_mm: f64,
    /// The largest, mm.
    #[serde(deserialize_with = "null_is_nan")]
    pub largest_displacement_mm: f64,
    /// How far a vertex of the body is at most from where it was in the frame before, mm; none in the first frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_change_mm: Option<f64>,
    /// The smallest volume of a tetrahedron over that at rest.
    #[serde(deserialize_with = "null_is_nan")]
    pub least_volume_ratio: f64,
    /// Whether the body came to rest.
    pub at_rest: bool,
    /// Whether the verdict is good.
    pub good: bool,
    /// The verdict in a line.
    pub verdict: String,
}

impl StreamFrameRecord {
    /// Of the record of a frame's registration; what that does not know is left as it is by default.
    #[must_use]
    pub fn new(run: &RunRecord) -> Self {
        let scales = run.deformation.as_ref().map_or(&[][..], |d| &d.scales);
        let energies = || scales.iter().flat_map(|s| &s.energies).copied();
        let measures = run.deformation.as_ref().map(|d| d.measures);
        let [before, after] = run.figures.both(super::Figure::Ncc);
        let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let elastic = run.elastic.as_ref();
        Self {
            iterations: scales.iter().map(|s| s.energies.len()).sum(),
            seconds: known(run.timings.get("register").copied()),
            total_seconds: known(run.timings.get("total").copied()),
            energy_before: known(energies().next()),
            energy_after: known(energies().last()),
            ncc_before: known(before),
            ncc_after: known(after),
            mean_displacement_mm: known(measures.map(|m| m.mean_displacement)),
            largest_displacement_mm: known(measures.map(|m| m.largest_displacement)),
            least_volume_ratio: known(elastic.map(|e| e.least_volume_ratio)),
            at_rest: elastic.is_some_and(|e| e.at_rest),
            good: run.verdict.good,
            verdict: run.verdict.summary(),
            ..Self::default()
        }
    }

    /// The names of the columns of [`csv`](Self::csv).
    pub const COLUMNS: &'static str = "frame,file,folder,start,restarted,iterations,seconds,total_seconds,energy_before,energy_after,\
        ncc_before,ncc_after,mean_displacement_mm,largest_displacement_mm,largest_change_mm,least_volume_ratio,at_rest,good,verdict";

    /// The frame as a line of a table (RFC 4180); unknown cells are empty.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut line = format!("{},{},{}", self.frame, quoted(&self.file), quoted(&self.folder));
        let _ = write!(line, ",{},{},{}", self.start, yes(self.restarted), self.iterations);
        for (value, decimals) in [
            (self.seconds, 3),
            (self.total_seconds, 3),
            (self.energy_before, 7),
            (self.energy_after, 7),
            (self.ncc_before, 5),
            (self.ncc_after, 5),
            (self.mean_displacement_mm, 4),
            (self.largest_displacement_mm, 4),
            (self.largest_change_mm.unwrap_or(f64::NAN), 4),
            (self.least_volume_ratio, 4),
        ] {
            match value.is_finite() {
                true => _ = write!(line, ",{value:.decimals$}"),
                false => line.push(','),
            }
        }
        let _ = write!(line, ",{},{}", yes(self.at_rest), yes(self.good));
        line + "," + &quoted(&self.verdict)
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// A cell of a table, within quotes where it has to be.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_cells_of_its_columns() {
        let frame = StreamFrameRecord {
            frame: 2,
            file: "a \"b\", c.nii".into(),
            folder: "frame_002".into(),
            start: "frame 1".into(),
            iterations: 7,
            energy_after: 0.125,
            largest_change_mm: None,
            least_volume_ratio: f64::NAN,
            good: true,
            verdict: "good".into(),
            ..StreamFrameRecord::default()
        };
        let line = frame.csv();
        assert!(
            line.starts_with("2,\"a \"\"b\"\", c.nii\",frame_002,frame 1,no,7,0.000,"),
            "{line}"
        );
        assert!(line.ends_with(",0.0000,,,no,yes,good"), "{line}");
        // The quoted cell has a comma of its own.
        let count = |text: &str| text.matches(',').count();
        assert_eq!(count(&line), count(StreamFrameRecord::COLUMNS) + 1);
    }

    #[test]
    fn what_is_not_known_comes_back_as_that() {
        let frame = StreamFrameRecord::new(&RunRecord::default());
        assert!(frame.energy_after.is_nan() && !frame.good && frame.iterations == 0);
        let record = StreamRecord { frames: vec![frame], ..StreamRecord::default() };
        let back: StreamRecord = serde_json::from_str(&record.to_json()).unwrap();
        assert!(back.frames[0].energy_after.is_nan() && back.frames[0].largest_change_mm.is_none());
        assert_eq!(back.provenance.format, crate::RECORD_FORMAT);
    }
}
