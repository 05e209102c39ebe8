//! Where subjects are kept between their turns: on the device, in host memory, or on disk.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use voxalign_image::memory::amount;
use voxalign_options::{Parameters, text_value};

/// The memory that an atlas may take.
#[derive(Debug, Clone, PartialEq, Eq, Parameters)]
pub struct MemoryOptions {
    /// Memory that may be used on each device, such as 20GiB; subjects that do not fit are streamed at every iteration
    #[parameter(says = "nine tenths of the free memory")]
    pub device_memory: Option<Bytes>,
    /// Host memory for subjects that are streamed; those that do not fit are kept on disk
    #[parameter(says = "six tenths of the free memory")]
    pub host_memory: Option<Bytes>,
    /// The folder for subjects that neither has room for, by default that of temporary files; each device
    /// makes one of its own in it, which goes with the run.
    #[parameter(skip)]
    pub scratch: Option<PathBuf>,
}

/// A number of bytes, such as `500MiB` or `20GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let scale = match unit.trim().to_lowercase().as_str() {
            "" | "b" => 1.0,
            "kib" | "k" => 1024.0,
            "mib" | "m" => 1024f64.powi(2),
            "gib" | "g" => 1024f64.powi(3),
            "tib" | "t" => 1024f64.powi(4),
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "tb" => 1e12,
            _ => f64::NAN,
        };
        let bytes = number.parse::<f64>().map_or(f64::NAN, |n| n * scale);
        if bytes.is_finite() && bytes >= 0.0 {
            Ok(Self(bytes as u64))
        } else {
            Err("give a size, such as 20GiB or 500MiB".to_owned())
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

text_value!(Bytes, "SIZE");

/// Where subjects are that a device has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// In the memory of the host, page-locked for a GPU.
    Host,
    /// In files.
    Disk,
}

/// Where the subjects of one device are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPlan {
    /// The number of subjects of the device.
    pub subjects: usize,
    /// The number of them that stay on it; the others are streamed at every iteration.
    pub resident: usize,
    /// Where the others are.
    pub level: Level,
    /// Whether images at full resolution stay on the device, so that they are read once only.
    pub keeps_images: bool,
    /// Whether warped images stay on the device from one iteration to the next.
    pub keeps_warped: bool,
    /// Bytes of the device, roughly.
    pub device_bytes: u64,
    /// Bytes of the subjects that are not on it.
    pub away_bytes: u64,
}

/// The needs of the subjects of a device, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::atlas) struct Needs {
    pub(in crate::atlas) subjects: usize,
    /// Of each subject, what has to be there during its step.
    pub(in crate::atlas) each: u64,
    /// Its warped images.
    pub(in crate::atlas) warped: u64,
    /// Its images at full resolution.
    pub(in crate::atlas) images: u64,
    /// Shared by all.
    pub(in crate::atlas) shared: u64,
}

/// Subjects on their way to the device and back, while one is worked on.
pub(in crate::atlas) const SLOTS: usize = 3;

impl MemoryPlan {
    /// The best plan that fits into this many bytes of the device and of the host, where these are known.
    pub(in crate::atlas) fn new(needs: &Needs, device: Option<u64>, host: Option<u64>) -> Self {
        let count = needs.subjects as u64;
        let mut plan = Self {
            subjects: needs.subjects,
            resident: needs.subjects,
            level: Level::Host,
            keeps_images: true,
            keeps_warped: true,
            device_bytes: count * (needs.each + needs.warped + needs.images) + needs.shared,
            away_bytes: 0,
        };
        let Some(device) = device.filter(|device| *device < plan.device_bytes) else { return plan };
        plan.keeps_images = false;
        plan.device_bytes -= count * needs.images;
        if plan.device_bytes <= device {
            return plan;
        }
        plan.keeps_warped = false;
        plan.device_bytes -= count * needs.warped;
        if plan.device_bytes <= device {
            return plan;
        }
        let slots = needs.shared + SLOTS as u64 * needs.each;
        plan.resident = (device.saturating_sub(slots) / needs.each.max(1)).min(count) as usize;
        plan.device_bytes = slots + plan.resident as u64 * needs.each;
        plan.away_bytes = (count - plan.resident as u64) * needs.each;
        if host.is_some_and(|host| host < plan.away_bytes) {
            plan.level = Level::Disk;
        }
        plan
    }

    /// Whether all subjects stay on the device.
    #[must_use]
    pub fn in_core(&self) -> bool {
        self.resident == self.subjects
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_core() {
            return write!(
                f,
                "all {} subjects stay on the device ({})",
                self.subjects,
                amount(self.device_bytes)
            );
        }
        let level = match self.level {
            Level::Host => "the memory of the host",
            Level::Disk => "disk",
        };
        write!(
            f,
            "{} of {} subjects stay on the device ({} including what they share), {} are streamed from \
             {level} at every iteration ({})",
            self.resident,
            self.subjects,
            amount(self.device_bytes),
            self.subjects - self.resident,
            amount(self.away_bytes)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: Needs = Needs { subjects: 10, each: 100, warped: 20, images: 30, shared: 500 };

    #[test]
    fn what_fits_is_kept() {
        let plan = |device, host| MemoryPlan::new(&NEEDS, device, host);
        assert!(plan(None, None).in_core() && plan(None, None).keeps_images);
        assert_eq!(plan(Some(2000), None), plan(None, None));
        let tight = plan(Some(1999), None);
        assert!(tight.in_core() && !tight.keeps_images && tight.keeps_warped);
        let tight = plan(Some(1699), None);
        assert!(tight.in_core() && !tight.keeps_warped);
        let streamed = plan(Some(1499), None);
        assert_eq!((streamed.resident, streamed.level), (6, Level::Host));
        assert_eq!((streamed.device_bytes, streamed.away_bytes), (1400, 400));
        assert_eq!(plan(Some(1499), Some(400)).level, Level::Host);
        assert_eq!(plan(Some(1499), Some(399)).level, Level::Disk);
        // What all share has to fit; where it does not, the device says so.
        assert_eq!(plan(Some(10), None).resident, 0);
        assert!(plan(Some(10), None).to_string().starts_with("0 of 10 subjects stay"));
    }
}
