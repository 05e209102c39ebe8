//! Subjects that are not on the device, and their way to it and back.

use crate::error::{PopulationError, Result};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use voxalign_compute::{DeviceBuffer, HostBuffer, Memory};
use voxalign_io::hidden::{HiddenFolder, remove_abandoned};

/// Buffers of a subject: what steps change, and what they only look at.
pub(super) struct Pack<B> {
    pub(super) changing: Vec<B>,
    pub(super) fixed: Vec<B>,
}

impl<B> Default for Pack<B> {
    fn default() -> Self {
        Self { changing: Vec::new(), fixed: Vec::new() }
    }
}

pub(super) type HostPack = Pack<HostBuffer<f32>>;
pub(super) type DevicePack<D> = Pack<<D as Memory>::Buffer<f32>>;

/// Where a subject is between its turns.
pub(super) enum Away {
    Host(HostPack),
    Disk(Chest),
}

/// A folder for subjects in that for scratch, which other runs may use at the same time. What killed ones left
/// there goes.
pub(super) fn own_folder(scratch: &Path) -> Result<HiddenFolder> {
    remove_abandoned(scratch);
    HiddenFolder::new_in(scratch).map_err(|e| failed(scratch, "write to", &e))
}

/// Files of a subject.
pub(super) struct Chest {
    /// Without an extension.
    path: PathBuf,
    changing: Vec<usize>,
    fixed: Vec<usize>,
}

impl Chest {
    pub(super) fn new(folder: &Path, subject: usize) -> Self {
        let path = folder.join(format!("subject-{subject}"));
        Self { path, changing: Vec::new(), fixed: Vec::new() }
    }

    fn file(&self, part: &str) -> PathBuf {
        self.path.with_extension(part)
    }

    /// Reads all of it.
    pub(super) fn read<D: Memory>(&self, device: &D, into: &mut HostPack) -> Result<()> {
        for (part, lens, buffers) in [
            ("changing", &self.changing, &mut into.changing),
            ("fixed", &self.fixed, &mut into.fixed),
        ] {
            fit_host(device, lens, buffers)?;
            if lens.is_empty() {
                continue;
            }
            let path = self.file(part);
            let failed = |e: io::Error| failed(&path, "read", &e);
            let mut file = File::open(&path).map_err(failed)?;
            for buffer in buffers {
                file.read_exact(bytemuck::cast_slice_mut(buffer)).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Writes what steps change, or all.
    pub(super) fn write(&mut self, from: &HostPack, all: bool) -> Result<()> {
        let lens = |buffers: &[HostBuffer<f32>]| buffers.iter().map(|b| b.len()).collect();
        self.changing = lens(&from.changing);
        write_file(&self.file("changing"), &from.changing)?;
        if all {
            self.fixed = lens(&from.fixed);
            write_file(&self.file("fixed"), &from.fixed)?;
        }
        Ok(())
    }
}

impl Drop for Chest {
    fn drop(&mut self) {
        for part in ["changing", "fixed"] {
            // What was never written need not go.
            let _ = fs::remove_file(self.file(part));
        }
    }
}

fn write_file(path: &Path, buffers: &[HostBuffer<f32>]) -> Result<()> {
    let write = || -> io::Result<()> {
        let mut file = File::create(path)?;
        for buffer in buffers {
            file.write_all(bytemuck::cast_slice(buffer))?;
        }
        Ok(())
    };
    write().map_err(|e| failed(path, "write", &e))
}

/// An error of a file that this program made for itself.
pub(super) fn failed(path: &Path, what: &str, error: &io::Error) -> PopulationError {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, or name another folder"
        }
        io::ErrorKind::FileTooLarge => voxalign_io::error::LIMITED,
        _ => "check the folder and its permissions",
    };
    PopulationError::Input {
        file: path.to_owned(),
        what: format!("cannot {what} it: {}; {remedy}", error.kind()),
    }
}

/// Makes buffers of the host have these lengths; those that have room are kept.
fn fit_host<D: Memory>(
    device: &D,
    lens: &[usize],
    buffers: &mut Vec<HostBuffer<f32>>,
) -> Result<()> {
    buffers.truncate(lens.len());
    for (i, &len) in lens.iter().enumerate() {
        match buffers.get_mut(i) {
            Some(buffer) => {
                if !buffer.resize(len) {
                    *buffer = device.host_alloc(len)?;
                }
            }
            None => buffers.push(device.host_alloc(len)?),
        }
    }
    Ok(())
}

/// Makes buffers of the device have these lengths; those that have are kept.
fn fit<D: Memory>(
    device: &D,
    lens: impl Iterator<Item = usize>,
    buffers: &mut Vec<D::Buffer<f32>>,
) -> Result<()> {
    let mut count = 0;
    for (i, len) in lens.enumerate() {
        count = i + 1;
        match buffers.get_mut(i) {
            Some(buffer) if buffer.len() == len => {}
            Some(buffer) => *buffer = device.alloc(len)?,
            None => buffers.push(device.alloc(len)?),
        }
    }
    buffers.truncate(count);
    Ok(())
}

impl HostPack {
    /// With room for buffers of these lengths.
    pub(super) fn with_room<D: Memory>(
        device: &D,
        changing: &[usize],
        fixed: &[usize],
    ) -> Result<Self> {
        let mut pack = Self::default();
        fit_host(device, changing, &mut pack.changing)?;
        fit_host(device, fixed, &mut pack.fixed)?;
        for buffer in pack.changing.iter_mut().chain(&mut pack.fixed) {
            buffer.resize(0);
        }
        Ok(pack)
    }

    /// Makes room on the device for a copy.
    pub(super) fn room<D: Memory>(&self, device: &D, to: &mut DevicePack<D>) -> Result<()> {
        fit(device, self.changing.iter().map(|b| b.len()), &mut to.changing)?;
        fit(device, self.fixed.iter().map(|b| b.len()), &mut to.fixed)
    }

    /// Copies all to the device, which has [room](Self::room).
    pub(super) fn upload<D: Memory>(&self, device: &D, to: &mut DevicePack<D>) -> Result<()> {
        for (from, to) in
            self.changing.iter().chain(&self.fixed).zip(to.changing.iter_mut().chain(&mut to.fixed))
        {
            device.upload_from(from, to)?;
        }
        Ok(())
    }

    /// As [`upload`](Self::upload), where the host needs it no longer.
    pub(super) fn hand_over<D: Memory>(
        &mut self,
        device: &D,
        to: &mut DevicePack<D>,
    ) -> Result<()> {
        let own = self.changing.iter_mut().chain(&mut self.fixed);
        for (from, to) in own.zip(to.changing.iter_mut().chain(&mut to.fixed)) {
            device.hand_over(from, to)?;
        }
        Ok(())
    }

    /// Makes room for what steps changed, or all of what the device has.
    pub(super) fn fit_to<D: Memory>(
        &mut self,
        device: &D,
        from: &DevicePack<D>,
        all: bool,
    ) -> Result<()> {
        let lens = |buffers: &[D::Buffer<f32>]| -> Vec<usize> {
            buffers.iter().map(DeviceBuffer::len).collect()
        };
        fit_host(device, &lens(&from.changing), &mut self.changing)?;
        if all {
            fit_host(device, &lens(&from.fixed), &mut self.fixed)?;
        }
        Ok(())
    }

    /// Takes what steps changed, or all, from the device, which needs it no longer.
    pub(super) fn hand_back<D: Memory>(
        &mut self,
        device: &D,
        from: &mut DevicePack<D>,
        all: bool,
    ) -> Result<()> {
        for (from, to) in from.changing.iter_mut().zip(&mut self.changing) {
            device.hand_back(from, to)?;
        }
        if all {
            for (from, to) in from.fixed.iter_mut().zip(&mut self.fixed) {
                device.hand_back(from, to)?;
            }
        }
        Ok(())
    }
}

/// The magic number of files of buffers.
const MAGIC: &[u8; 8] = b"VXSTATE1";

/// Writes numbers and buffers that are in memory, so that they survive a loss of power once this returns.
pub(super) fn write_state(path: &Path, numbers: &[f64], buffers: &[Vec<f32>]) -> Result<()> {
    let write = || -> io::Result<()> {
        let mut file = io::BufWriter::new(File::create(path)?);
        file.write_all(MAGIC)?;
        file.write_all(&(numbers.len() as u64).to_le_bytes())?;
        file.write_all(&(buffers.len() as u64).to_le_bytes())?;
        numbers.iter().try_for_each(|n| file.write_all(&n.to_le_bytes()))?;
        for buffer in buffers {
            file.write_all(&(buffer.len() as u64).to_le_bytes())?;
        }
        for buffer in buffers {
            file.write_all(bytemuck::cast_slice(buffer))?;
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    };
    write().map_err(|e| failed(path, "write", &e))
}

/// Reads what [`write_state`] wrote.
pub(super) fn read_state(path: &Path) -> Result<(Vec<f64>, Vec<Vec<f32>>)> {
    let read = || -> io::Result<_> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut file = BufReader::new(file);
        let mut word = [0; 8];
        let mut next = |file: &mut BufReader<File>| -> io::Result<[u8; 8]> {
            file.read_exact(&mut word)?;
            Ok(word)
        };
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        if &next(&mut file)? != MAGIC {
            return Err(bad());
        }
        let counts = [u64::from_le_bytes(next(&mut file)?), u64::from_le_bytes(next(&mut file)?)];
        if counts.iter().any(|c| *c > size / 8) {
            return Err(bad());
        }
        let numbers = (0..counts[0])
            .map(|_| Ok(f64::from_le_bytes(next(&mut file)?)))
            .collect::<io::Result<Vec<_>>>()?;
        let lens = (0..counts[1])
            .map(|_| Ok(u64::from_le_bytes(next(&mut file)?)))
            .collect::<io::Result<Vec<_>>>()?;
        let values =
            lens.iter().try_fold(0u64, |sum, len| sum.checked_add(*len)).ok_or_else(bad)?;
        let header = 8 * (3 + counts[0] + counts[1]);
        if values.checked_mul(4).and_then(|b| b.checked_add(header)) != Some(size) {
            return Err(bad());
        }
        let mut buffers = Vec::with_capacity(lens.len());
        for len in lens {
            let mut buffer = vec![0f32; len as usize];
            file.read_exact(bytemuck::cast_slice_mut(&mut buffer))?;
            buffers.push(buffer);
        }
        Ok((numbers, buffers))
    };
    read().map_err(|e| failed(path, "read", &e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::cpu::Cpu;

    #[test]
    fn states_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let numbers = [f64::INFINITY, -0.1, f64::MIN_POSITIVE];
        let buffers = [vec![1.5, -0.0, 3e-40], vec![], vec![f32::MAX]];
        write_state(&path, &numbers, &buffers).unwrap();
        let (n, b) = read_state(&path).unwrap();
        assert!(n.iter().map(|v| v.to_bits()).eq(numbers.map(f64::to_bits)));
        assert_eq!(b.len(), 3);
        for (a, b) in b.iter().flatten().zip(buffers.iter().flatten()) {
            assert_eq!(a.to_bits(), b.to_bits());
        }
        let whole = fs::read(&path).unwrap();
        for cut in [0, 7, 20, whole.len() - 1] {
            fs::write(&path, &whole[..cut]).unwrap();
            let said = read_state(&path).unwrap_err().to_string();
            assert!(said.contains("cannot read it"), "{said}");
        }
        assert!(read_state(&folder.path().join("b")).is_err());
    }

    #[test]
    fn chests_hold_what_they_were_given() {
        let folder = tempfile::tempdir().unwrap();
        let cpu = Cpu::new(Some(1)).unwrap();
        let mut pack = HostPack::default();
        let device: DevicePack<Cpu> = Pack {
            changing: vec![cpu.upload(&[1.0, 2.0]).unwrap()],
            fixed: vec![cpu.upload(&[3.0]).unwrap()],
        };
        pack.fit_to(&cpu, &device, true).unwrap();
        let mut device = device;
        pack.hand_back(&cpu, &mut device, true).unwrap();
        let mut chest = Chest::new(folder.path(), 7);
        chest.write(&pack, true).unwrap();
        pack.changing[0][1] = 9.0;
        pack.fixed[0][0] = 8.0;
        chest.write(&pack, false).unwrap();
        let mut read = HostPack::default();
        chest.read(&cpu, &mut read).unwrap();
        assert_eq!((&read.changing[0][..], &read.fixed[0][..]), (&[1.0, 9.0][..], &[3.0][..]));
        drop(chest);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
