//! Acquisition times of the slices of a volume.

use super::dataset::{self, DataSet};
use super::distinct::distinction;
use super::header::Header;
use super::siemens::{self, Csa};
use super::{DicomImage, tags};
use crate::error::Result;

/// Longest time between the first and the last slice of a volume that is believed, s: half a day.
const LONGEST_S: f64 = 43_200.0;

/// When each slice of a volume was acquired, s after the first of them; nothing where that is not known, or where
/// it is more than the time from a volume to the next. It is not to be the first volume where there are others:
/// of that, scanners that excite several slices at once may write times that are wrong.
pub(super) fn slice_times(
    image: &DicomImage<'_>,
    volume: &[(usize, usize)],
    repetition_s: Option<f64>,
) -> Result<Option<Vec<f64>>> {
    let file = &image.files[volume[0].0];
    let set = dataset::parse(&image.source(volume[0].0)?)?.set;
    if volume.len() < 2 || set.text(tags::ACQUISITION_KIND).as_deref() == Some("3D") {
        return Ok(None);
    }
    let maker = set.text(tags::MANUFACTURER).unwrap_or_default().to_ascii_lowercase();
    let longest = repetition_s.unwrap_or(LONGEST_S);
    let found = if file.pictures == 1 && file.frames.len() == volume.len() {
        of_mosaic(file, volume, &set, longest)
    } else if maker.starts_with("ge ") {
        let by_trigger = after_the_first(written(image, volume, "trigger time"), 1e-3, longest);
        match by_trigger.filter(|_| image.volumes.len() > 1) {
            Some(times) => Some(times),
            None => by_timer(image, volume, longest)?,
        }
    } else if maker.starts_with("siemens") {
        let at = distinction("acquisition time");
        let time =
            |&frame: &(usize, usize)| seconds(image.frame(frame).distinctions[at].as_deref()?);
        after_the_first(volume.iter().map(time).collect(), 1.0, longest)
    } else {
        None
    };
    Ok(found)
}

/// Of the slices of a mosaic, in the order of its tiles.
fn of_mosaic(
    file: &Header,
    volume: &[(usize, usize)],
    set: &DataSet,
    longest: f64,
) -> Option<Vec<f64>> {
    let own = set.numbers(tags::SIEMENS_TIMES).ok().filter(|t| !t.is_empty());
    if let Some(times) = own.or_else(|| Csa::of(set)?.numbers("MosaicRefAcqTimes")) {
        let times = volume.iter().map(|&(_, i)| times.get(i).copied()).collect();
        return after_the_first(times, 1e-3, longest);
    }
    let repetition = set.number(tags::REPETITION_TIME).ok()??;
    let times = siemens::times_by_protocol(set, file.frames.len(), repetition)?;
    let times = volume.iter().map(|&(_, i)| times.get(i).copied()).collect();
    after_the_first(times, 1e-3, longest)
}

/// A distinction of the slices that is a number.
fn written(image: &DicomImage<'_>, volume: &[(usize, usize)], name: &str) -> Option<Vec<f64>> {
    let at = distinction(name);
    let number = |&f: &(usize, usize)| image.frame(f).distinctions[at].as_ref()?.parse().ok();
    volume.iter().map(number).collect()
}

/// By GE's timer of real-time images, which old scanners write in units of 0.1 ms, and others in seconds.
fn by_timer(
    image: &DicomImage<'_>,
    volume: &[(usize, usize)],
    longest: f64,
) -> Result<Option<Vec<f64>>> {
    let mut times = Vec::with_capacity(volume.len());
    for &(f, _) in volume {
        let set = dataset::parse(&image.source(f)?)?.set;
        let Ok(Some(time)) = set.number(tags::GE_TIMER) else { return Ok(None) };
        times.push(time);
    }
    // Slices follow each other by more than 0.1 ms and less than a minute.
    let step =
        times.iter().map(|t| (t - times[0]).abs()).filter(|d| *d > 0.0).fold(f64::MAX, f64::min);
    let unit = if step >= 10.0 { 1e-4 } else { 1.0 };
    Ok(after_the_first(Some(times), unit, longest))
}

/// Times from the first of them, in a unit of some seconds; nothing where all are one.
fn after_the_first(times: Option<Vec<f64>>, unit: f64, longest: f64) -> Option<Vec<f64>> {
    let times = times?;
    let first = times.iter().fold(f64::MAX, |a, &b| a.min(b));
    let last = times.iter().fold(f64::MIN, |a, &b| a.max(b));
    let span = (last - first) * unit;
    let believed = span > 0.0 && span <= longest.min(LONGEST_S);
    believed.then(|| times.iter().map(|t| (t - first) * unit).collect())
}

/// The second of the day of a date with a time, `YYYYMMDDHHMMSS.FFFFFF`, or of a time alone.
fn seconds(moment: &str) -> Option<f64> {
    let moment = moment.split(['+', '-']).next()?.trim();
    let whole = moment.find('.').unwrap_or(moment.len());
    let time = moment.get(whole.checked_sub(6)?..)?;
    let of = |from: usize| time.get(from..from + 2)?.parse::<u32>().ok();
    let rest: f64 = time.get(4..)?.parse().ok()?;
    let (hours, minutes) = (of(0)?, of(2)?);
    (hours < 24 && minutes < 60 && (0.0..=60.0).contains(&rest))
        .then(|| f64::from(hours * 3600 + minutes * 60) + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_seconds_of_the_day() {
        assert_eq!(seconds("20220711010203.5"), Some(3723.5));
        assert_eq!(seconds("20220711010203.5+0100"), Some(3723.5));
        assert_eq!(seconds("000001"), Some(1.0));
        for wrong in ["", "12", "995959", "é10203", "aabbcc", "2022071101020é"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
