//! The host's memory, read without allocating.

use std::fs::File;
use std::io::Read;
use std::str::FromStr;

/// The memory of this process, in bytes, where the system reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostMemory {
    /// All of it.
    pub total: Option<u64>,
    /// Available now.
    pub free: Option<u64>,
}

impl HostMemory {
    /// As it is under a limit, of which some is used.
    fn within(self, limit: u64, used: u64) -> Self {
        let left = limit.saturating_sub(used);
        Self {
            total: Some(self.total.map_or(limit, |total| total.min(limit))),
            free: Some(self.free.map_or(left, |free| free.min(left))),
        }
    }
}

/// The memory of the machine, of the control group that the process is in, or of the limit of its address
/// space (`ulimit -v`), whichever is least.
#[must_use]
pub fn host() -> HostMemory {
    let mut info = with_text("/proc/meminfo", |text| {
        let kib = |name: &str| number::<u64>(text, name)?.checked_mul(1024);
        HostMemory { total: kib("MemTotal:"), free: kib("MemAvailable:") }
    })
    .unwrap_or_default();
    if let Some(limit) = with_text("/sys/fs/cgroup/memory.max", |t| number(t, "")).flatten() {
        let of = |path, name| with_text(path, |text| number(text, name)).flatten();
        let cache: u64 = of("/sys/fs/cgroup/memory.stat", "inactive_file ").unwrap_or(0);
        let used = of("/sys/fs/cgroup/memory.current", "").unwrap_or(0);
        info = info.within(limit, used.saturating_sub(cache));
    }
    if let Some(limit) = address_space() {
        let used = with_text("/proc/self/status", |text| number::<u64>(text, "VmSize:"));
        info = info.within(limit, used.flatten().unwrap_or(0).saturating_mul(1024));
    }
    info
}

/// The limit of the address space of this process (`ulimit -v`) in bytes, where there is one.
#[must_use]
pub fn address_space() -> Option<u64> {
    with_text("/proc/self/limits", |text| number(text, "Max address space")).flatten()
}

/// The number after a name at the beginning of a line.
fn number<T: FromStr>(text: &str, name: &str) -> Option<T> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The result of `f` for the beginning of a file.
fn with_text<R>(path: &str, f: impl FnOnce(&str) -> R) -> Option<R> {
    let mut buffer = [0; 4096];
    let mut file = File::open(path).ok()?;
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]).ok()? {
            0 => break,
            more => length += more,
        }
    }
    // A character may be cut at the end.
    let whole = match std::str::from_utf8(&buffer[..length]) {
        Ok(text) => text,
        Err(e) => std::str::from_utf8(&buffer[..e.valid_up_to()]).ok()?,
    };
    Some(f(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_count() {
        let machine = HostMemory { total: Some(100), free: Some(60) };
        assert_eq!(machine.within(80, 50), HostMemory { total: Some(80), free: Some(30) });
        assert_eq!(machine.within(500, 50), machine);
        assert_eq!(machine.within(40, 50).free, Some(0));
        let text = "Max processes 5 5 processes\nMax address space 1024 2048 bytes\n";
        assert_eq!(number(text, "Max address space"), Some(1024u64));
        assert_eq!(number::<u64>("Max address space unlimited", "Max address space"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_machine_has_memory() {
        let info = host();
        assert!(info.free > Some(0) && info.free <= info.total, "{info:?}");
    }
}
