//! Subjects that are not on the device, and their transfer to it and back.

use crate::error::{PopulationError, Result};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use voxalign_compute::{DeviceBuffer, HostBuffer, Memory, Transfer};
use voxalign_io::abandoned::remove_abandoned;
use voxalign_io::hidden::HiddenFolder;

/// Buffers of a subject: what steps change, and what they only look at.
pub(in crate::atlas) struct Pack<B> {
    pub(in crate::atlas) changing: Vec<B>,
    pub(in crate::atlas) fixed: Vec<B>,
}

impl<B> Default for Pack<B> {
    fn default() -> Self {
        Self { changing: Vec::new(), fixed: Vec::new() }
    }
}

pub(in crate::atlas) type HostPack = Pack<HostBuffer<f32>>;
pub(in crate::atlas) type DevicePack<D> = Pack<<D as Memory>::Buffer<f32>>;

/// Where a subject is between its turns.
pub(in crate::atlas) enum Away {
    Host(HostPack),
    Disk(Chest),
}

/// A folder for subjects inside the scratch folder, which other runs may use at the same time. Leftovers of killed
/// runs are removed.
pub(in crate::atlas) fn own_folder(scratch: &Path) -> Result<HiddenFolder> {
    remove_abandoned(scratch);
    HiddenFolder::new_in(scratch).map_err(|e| failed(scratch, "write to", &e))
}

/// Files of a subject.
pub(in crate::atlas) struct Chest {
    /// Without an extension.
    path: PathBuf,
    changing: Vec<usize>,
    fixed: Vec<usize>,
}

impl Chest {
    pub(in crate::atlas) fn new(folder: &Path, subject: usize) -> Self {
        let path = folder.join(format!("subject-{subject}"));
        Self { path, changing: Vec::new(), fixed: Vec::new() }
    }

    fn file(&self, part: &str) -> PathBuf {
        self.path.with_extension(part)
    }

    /// Reads all of it.
    pub(in crate::atlas) fn read<D: Transfer>(
        &self,
        device: &D,
        into: &mut HostPack,
    ) -> Result<()> {
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
    pub(in crate::atlas) fn write(&mut self, from: &HostPack, all: bool) -> Result<()> {
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
pub(in crate::atlas) fn failed(path: &Path, what: &str, error: &io::Error) -> PopulationError {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or choose a folder on another disk"
        }
        io::ErrorKind::OutOfMemory => "use smaller images, or more memory",
        io::ErrorKind::FileTooLarge => voxalign_io::error::LIMITED,
        _ => "check the folder and its permissions",
    };
    let why = match error.kind() {
        io::ErrorKind::OutOfMemory => error.to_string(),
        kind => kind.to_string(),
    };
    PopulationError::Input {
        file: path.to_owned(),
        what: format!("cannot {what} it: {why}; {remedy}"),
    }
}

/// Makes buffers of the host have these lengths; those that have room are kept.
fn fit_host<D: Transfer>(
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
fn fit<D: Transfer>(
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
    pub(in crate::atlas) fn with_room<D: Transfer>(
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
    pub(in crate::atlas) fn room<D: Transfer>(
        &self,
        device: &D,
        to: &mut DevicePack<D>,
    ) -> Result<()> {
        fit(device, self.changing.iter().map(|b| b.len()), &mut to.changing)?;
        fit(device, self.fixed.iter().map(|b| b.len()), &mut to.fixed)
    }

    /// Copies all to the device, which has [room](Self::room).
    pub(in crate::atlas) fn upload<D: Transfer>(
        &self,
        device: &D,
        to: &mut DevicePack<D>,
    ) -> Result<()> {
        for (from, to) in
            self.changing.iter().chain(&self.fixed).zip(to.changing.iter_mut().chain(&mut to.fixed))
        {
            device.upload_from(from, to)?;
        }
        Ok(())
    }

    /// As [`upload`](Self::upload), where the host needs it no longer.
    pub(in crate::atlas) fn hand_over<D: Transfer>(
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

    /// Makes room for the buffers that steps changed, or for all of the subject's buffers.
    pub(in crate::atlas) fn fit_to<D: Transfer>(
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
    pub(in crate::atlas) fn hand_back<D: Transfer>(
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

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::cpu::Cpu;

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
