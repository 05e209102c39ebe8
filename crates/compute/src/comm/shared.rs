//! Memory of the host that the ranks of a machine share.

use super::{Communicator, Result};
use crate::device::Element;
use crate::error::ComputeError;
use crate::host::{HostBuffer, HostMemory, zeroed};
use voxalign_image::memory;

/// Memory that ranks of a machine have in common.
#[derive(Debug)]
pub struct Segment<T: Element> {
    /// The elements.
    pub memory: HostBuffer<T>,
    /// The place of this rank among those that have it, and their number: 0 and 1 where every rank has memory of its own.
    pub share: [usize; 2],
}

impl Communicator {
    /// The machine of every rank, by its first rank.
    ///
    /// # Errors
    /// A rank that is gone.
    pub fn machines(&self) -> Result<Vec<usize>> {
        // The name of a rank ends with that of its machine.
        let names = self.all_gather(self.name().as_bytes())?;
        let first = |name: &Vec<u8>| names.iter().position(|n| n == name).unwrap_or_default();
        Ok(names.iter().map(first).collect())
    }

    /// Memory of `len` elements, zeros at first, that all ranks of a machine have in common: it is there once for all of them. All ranks call it
    /// with the same number. Where a system does not do that, every rank has memory of its own.
    ///
    /// Who writes to it has to make sure that no two ranks write to the same element, nor one reads what another one has yet to write: by a
    /// [barrier](Self::barrier).
    ///
    /// # Errors
    /// At every rank: too little memory, a rank that is gone.
    pub fn shared_memory<T: Element>(&self, len: usize) -> Result<Segment<T>> {
        let alone = |memory| Segment { memory: HostBuffer::usual(memory), share: [0, 1] };
        if self.size() == 1 {
            return Ok(alone(zeroed(len)?));
        }
        let machines = self.machines()?;
        let owner = machines[self.rank()];
        let is_owner = owner == self.rank();
        // Memory that is only taken when it is touched has to be there.
        let asked = if is_owner { memory::ask::<T, _>(len, || Some(())) } else { Ok(()) };
        self.agree::<_, super::CommError>(asked.map_err(|e| ComputeError::from(e).into()))?;
        let made = if is_owner { system::Made::new(len * size_of::<T>()).ok() } else { None };
        let places = self.all_gather(&made.as_ref().map_or([0; 3], system::Made::place))?;
        let mapped = system::opened::<T>(&places[owner], len);
        // It has no name, and is there until all have opened it.
        let failed = self.all_gather(&[u64::from(mapped.is_err())])?;
        drop(made);
        match mapped {
            Ok(memory) if failed.iter().all(|f| f[..] == [0]) => {
                let here = |ranks: &[usize]| ranks.iter().filter(|&&m| m == owner).count();
                let share = [here(&machines[..self.rank()]), here(&machines)];
                Ok(Segment { memory: HostBuffer::own(memory), share })
            }
            _ => {
                let own = zeroed(len).map(alone);
                self.agree(own.map_err(super::CommError::from))
            }
        }
    }
}

/// Memory without a name that other processes can open.
#[cfg(target_os = "linux")]
mod system {
    use super::{Element, HostMemory};
    use crate::comm::{CommError, Result};
    use memmap2::{MmapOptions, MmapRaw};
    use std::fs::File;
    use std::hash::{BuildHasher, Hasher, RandomState};
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::fs::FileExt;

    /// The memory at the rank that made it; it stays as long as somebody has it.
    pub(super) struct Made {
        file: File,
        /// A number that is at its end, so that it is not mistaken for that of another machine.
        token: u64,
    }

    impl Made {
        pub(super) fn new(bytes: usize) -> std::io::Result<Self> {
            let flags = rustix::fs::MemfdFlags::CLOEXEC;
            let file: OwnedFd = rustix::fs::memfd_create("voxalign", flags)?;
            let (file, token) = (File::from(file), RandomState::new().build_hasher().finish());
            file.set_len(bytes as u64)?;
            file.write_all_at(&token.to_le_bytes(), bytes as u64)?;
            Ok(Self { file, token })
        }

        /// By which other processes find it.
        pub(super) fn place(&self) -> [u64; 3] {
            [u64::from(std::process::id()), self.file.as_raw_fd() as u64, self.token]
        }
    }

    /// Elements in memory of several processes.
    #[derive(Debug)]
    pub(super) struct Mapped<T> {
        memory: Option<MmapRaw>,
        len: usize,
        element: PhantomData<T>,
    }

    fn refused(why: impl ToString) -> CommError {
        CommError::Unavailable(why.to_string())
    }

    /// That of a rank at this place.
    pub(super) fn opened<T: Element>(place: &[u64], len: usize) -> Result<Mapped<T>> {
        let (process, number, token) = match *place {
            [process, number, token] if process > 0 => (process, number, token),
            _ => return Err(refused("no memory is shared")),
        };
        let path = format!("/proc/{process}/fd/{number}");
        let file = File::options().read(true).write(true).open(path).map_err(refused)?;
        let bytes = len * size_of::<T>();
        let mut found = [0; size_of::<u64>()];
        file.read_exact_at(&mut found, bytes as u64).map_err(refused)?;
        if u64::from_le_bytes(found) != token {
            return Err(refused("that is other memory"));
        }
        if len == 0 {
            return Ok(Mapped { memory: None, len, element: PhantomData });
        }
        let memory = MmapOptions::new().len(bytes).map_raw(&file).map_err(refused)?;
        Ok(Mapped { memory: Some(memory), len, element: PhantomData })
    }

    impl<T: Element> HostMemory<T> for Mapped<T> {
        fn resize(&mut self, len: usize) -> bool {
            len == self.len
        }
    }

    impl<T: Element> Deref for Mapped<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            let Some(memory) = &self.memory else { return &[] };
            // SAFETY: the mapping has so many bytes, begins at a page, and began as zeros, a value of every `Element`, as are all others; by the
            // contract of `shared_memory` no rank writes what another one reads.
            unsafe { std::slice::from_raw_parts(memory.as_ptr().cast(), self.len) }
        }
    }

    impl<T: Element> DerefMut for Mapped<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            let Some(memory) = &self.memory else { return &mut [] };
            // SAFETY: as in `deref`; it is borrowed for change here, and by the contract no two ranks write to the same element.
            unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), self.len) }
        }
    }
}

/// Systems of which no such memory is known.
#[cfg(not(target_os = "linux"))]
mod system {
    use super::Element;
    use crate::comm::{CommError, Result};
    use crate::host::HostBuffer;

    pub(super) struct Made;

    impl Made {
        pub(super) fn new(_: usize) -> std::io::Result<Self> {
            Err(std::io::ErrorKind::Unsupported.into())
        }

        pub(super) fn place(&self) -> [u64; 3] {
            [0; 3]
        }
    }

    pub(super) fn opened<T: Element>(_: &[u64], _: usize) -> Result<HostBuffer<T>> {
        Err(CommError::Unavailable("this system shares no memory".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_see_what_others_wrote() {
        let ranks = Communicator::local(3);
        std::thread::scope(|scope| {
            for rank in ranks {
                scope.spawn(move || {
                    let mut shared = rank.shared_memory::<u16>(3000).unwrap();
                    if cfg!(not(target_os = "linux")) {
                        return;
                    }
                    assert_eq!(shared.share, [rank.rank(), 3]);
                    let own = 1000 * rank.rank()..1000 * (rank.rank() + 1);
                    shared.memory[own].fill(rank.rank() as u16 + 7);
                    rank.barrier().unwrap();
                    for other in 0..3 {
                        let part = &shared.memory[1000 * other..1000 * (other + 1)];
                        assert!(part.iter().all(|&v| v == other as u16 + 7));
                    }
                    rank.barrier().unwrap();
                    // As long as somebody has it.
                    if rank.rank() == 0 {
                        drop(shared);
                        rank.barrier().unwrap();
                    } else {
                        rank.barrier().unwrap();
                        assert_eq!(shared.memory[0], 7);
                    }
                    assert!(rank.shared_memory::<u8>(0).unwrap().memory.is_empty());
                });
            }
        });
        let alone = Communicator::single().shared_memory::<i32>(5).unwrap();
        assert!(alone.share == [0, 1] && *alone.memory == [0; 5]);
    }
}
