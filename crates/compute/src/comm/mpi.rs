//! Processes as ranks, through the MPI library of the system.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use mpi_sys as ffi;

use super::Communicator;
use super::error::{CommError, Result};
use super::transport::{Combine, Transport};

mod exchange;

/// Numbers that are combined in one call. Counts of MPI are ints, and what is combined takes a copy.
const MOST_NUMBERS: usize = 1 << 20;

/// Bytes that are sent in one call.
const MOST_BYTES: usize = 1 << 26;

/// All processes that were started together.
#[derive(Debug)]
pub(super) struct Mpi {
    /// None after the end.
    handle: Mutex<Option<Handle>>,
    rank: usize,
    size: usize,
    host: String,
    library: String,
    most_numbers: usize,
    most_bytes: usize,
    /// Whether these are all processes, with which MPI ends.
    is_world: bool,
}

/// Calls of all communicators of this process: MPI may be called by one thread at a time.
static CALLS: Mutex<()> = Mutex::new(());

/// A communicator of our own, so that nothing of ours meets messages of others.
#[derive(Debug, Clone, Copy)]
struct Handle(ffi::MPI_Comm);

// SAFETY: handles of MPI may be used by any thread, by one at a time at the level that is asked for
// in `start`; the lock of `Mpi` sees to that.
unsafe impl Send for Handle {}

/// The processes; MPI is started at the first call.
pub(super) fn world() -> Result<Communicator> {
    static WORLD: OnceLock<Result<Communicator>> = OnceLock::new();
    let start = || Mpi::start(MOST_NUMBERS, MOST_BYTES).map(Communicator::over);
    WORLD.get_or_init(start).clone()
}

/// MPI's description of an error.
fn words(code: c_int) -> String {
    let mut text = vec![0u8; 4096];
    let mut len: c_int = 0;
    // SAFETY: the text has more room than any MPI asks for.
    let said = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &raw mut len) };
    if said != 0 || len <= 0 {
        return format!("error {code}");
    }
    text.truncate(len as usize);
    format!("{} (error {code})", String::from_utf8_lossy(&text).trim_end())
}

/// A text that a function of MPI writes, which needs so much room; empty if it fails.
fn text(room: c_int, write: impl Fn(*mut c_char, *mut c_int) -> c_int) -> String {
    let mut text = vec![0u8; room.max(1) as usize + 1];
    let mut len: c_int = 0;
    if write(text.as_mut_ptr().cast(), &raw mut len) != 0 {
        return String::new();
    }
    text.truncate(len.max(0) as usize);
    String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned()
}

/// Name and version of a library, from its long description.
fn short(library: &str) -> String {
    let line = library.lines().next().unwrap_or_default();
    let name = line.split(',').next().unwrap_or_default();
    name.split_whitespace().collect::<Vec<_>>().join(" ").replace(" Version:", "")
}

impl Mpi {
    fn start(most_numbers: usize, most_bytes: usize) -> Result<Self> {
        let failed = |call, code| CommError::Mpi { rank: 0, size: 0, call, message: words(code) };
        let check = |call, code| if code == 0 { Ok(()) } else { Err(failed(call, code)) };
        let (mut rank, mut size, mut level) = (0, 0, 0);
        // SAFETY: MPI is started once, as `world` does; pointers are valid for the calls. No
        // arguments are passed on.
        unsafe {
            let null = std::ptr::null_mut();
            let wanted = ffi::RSMPI_THREAD_SERIALIZED;
            let code = ffi::MPI_Init_thread(null, null.cast(), wanted, &raw mut level);
            check("MPI_Init_thread", code)?;
            let mut comm = ffi::RSMPI_COMM_NULL;
            check("MPI_Comm_dup", ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, &raw mut comm))?;
            // An error is told by what failed, not by the end of the process.
            let code = ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN);
            check("MPI_Comm_set_errhandler", code)?;
            check("MPI_Comm_rank", ffi::MPI_Comm_rank(comm, &raw mut rank))?;
            check("MPI_Comm_size", ffi::MPI_Comm_size(comm, &raw mut size))?;
            let library = text(ffi::RSMPI_MAX_LIBRARY_VERSION_STRING, |text, len| {
                ffi::MPI_Get_library_version(text, len)
            });
            if level < wanted {
                return Err(CommError::Unavailable(format!(
                    "this MPI ({}) can be called from only one thread of a process; install one that was built \
                     with thread support",
                    short(&library)
                )));
            }
            let host = text(ffi::RSMPI_MAX_PROCESSOR_NAME, |text, len| {
                ffi::MPI_Get_processor_name(text, len)
            });
            Ok(Self {
                handle: Mutex::new(Some(Handle(comm))),
                rank: rank.max(0) as usize,
                size: size.max(1) as usize,
                host,
                library: short(&library),
                most_numbers,
                most_bytes,
                is_world: true,
            })
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Handle>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        Err(CommError::Mpi { rank: self.rank, size: self.size, call, message: words(code) })
    }

    /// Does something with the communicator, unless this rank is done.
    fn with<R>(&self, work: impl FnOnce(ffi::MPI_Comm) -> Result<R>) -> Result<R> {
        let handle = self.lock();
        let _one = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
        match *handle {
            Some(Handle(comm)) => work(comm),
            None => Err(CommError::Mpi {
                rank: self.rank,
                size: self.size,
                call: "a call of MPI",
                message: "this rank has already reported that it is done".into(),
            }),
        }
    }

    /// How long the blocks of the ranks are.
    fn lengths(&self, comm: ffi::MPI_Comm, own: usize) -> Result<Vec<usize>> {
        let own = own as u64;
        let mut lengths = vec![0u64; self.size];
        // SAFETY: there is one number to send, and room for one of each rank.
        let code = unsafe {
            ffi::MPI_Allgather(
                (&raw const own).cast(),
                1,
                ffi::RSMPI_UINT64_T,
                lengths.as_mut_ptr().cast(),
                1,
                ffi::RSMPI_UINT64_T,
                comm,
            )
        };
        self.check("MPI_Allgather", code)?;
        Ok(lengths.into_iter().map(|len| len as usize).collect())
    }

    fn broadcast_over(&self, comm: ffi::MPI_Comm, bytes: &mut [u8], root: usize) -> Result<()> {
        for piece in bytes.chunks_mut(self.most_bytes) {
            let (at, count) = (piece.as_mut_ptr().cast::<c_void>(), piece.len() as c_int);
            // SAFETY: the piece has so many bytes, fewer than an int counts.
            let code =
                unsafe { ffi::MPI_Bcast(at, count, ffi::RSMPI_UINT8_T, root as c_int, comm) };
            self.check("MPI_Bcast", code)?;
        }
        Ok(())
    }

    fn send(&self, comm: ffi::MPI_Comm, bytes: &[u8], to: usize) -> Result<()> {
        for piece in bytes.chunks(self.most_bytes) {
            let (at, count) = (piece.as_ptr().cast::<c_void>(), piece.len() as c_int);
            // SAFETY: as in `broadcast_over`.
            let code =
                unsafe { ffi::MPI_Send(at, count, ffi::RSMPI_UINT8_T, to as c_int, 0, comm) };
            self.check("MPI_Send", code)?;
        }
        Ok(())
    }

    fn receive(&self, comm: ffi::MPI_Comm, bytes: &mut [u8], from: usize) -> Result<()> {
        for piece in bytes.chunks_mut(self.most_bytes) {
            let (at, count) = (piece.as_mut_ptr().cast::<c_void>(), piece.len() as c_int);
            let from = from as c_int;
            // SAFETY: as in `broadcast_over`; the status is not asked for.
            let code = unsafe {
                let status = ffi::RSMPI_STATUS_IGNORE;
                ffi::MPI_Recv(at, count, ffi::RSMPI_UINT8_T, from, 0, comm, status)
            };
            self.check("MPI_Recv", code)?;
        }
        Ok(())
    }
}

impl Transport for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn name(&self) -> String {
        format!("{} on {}", self.library, self.host)
    }

    fn reduce(&self, values: &mut [i64], combine: Combine) -> Result<()> {
        // SAFETY: constants of the library.
        let (kind, operation) = unsafe {
            let operation = match combine {
                Combine::Sum => ffi::RSMPI_SUM,
                Combine::Max => ffi::RSMPI_MAX,
                Combine::Min => ffi::RSMPI_MIN,
            };
            (ffi::RSMPI_INT64_T, operation)
        };
        self.with(|comm| {
            let mut own = vec![0i64; values.len().min(self.most_numbers)];
            for piece in values.chunks_mut(self.most_numbers) {
                let own = &mut own[..piece.len()];
                own.copy_from_slice(piece);
                let (from, to) = (own.as_ptr().cast(), piece.as_mut_ptr().cast());
                let count = piece.len() as c_int;
                // SAFETY: both have so many numbers, fewer than an int counts, and are two.
                let code = unsafe { ffi::MPI_Allreduce(from, to, count, kind, operation, comm) };
                self.check("MPI_Allreduce", code)?;
            }
            Ok(())
        })
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        self.with(|comm| self.broadcast_over(comm, bytes, root))
    }

    fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.with(|comm| {
            // One broadcast from each rank: no sum of lengths that an int would have to count.
            let mut blocks = Vec::with_capacity(self.size);
            for (rank, len) in self.lengths(comm, block.len())?.into_iter().enumerate() {
                let mut bytes = if rank == self.rank { block.to_vec() } else { vec![0; len] };
                self.broadcast_over(comm, &mut bytes, rank)?;
                blocks.push(bytes);
            }
            Ok(blocks)
        })
    }

    fn gather(&self, block: &[u8], root: usize) -> Result<Option<Vec<Vec<u8>>>> {
        self.with(|comm| {
            let lengths = self.lengths(comm, block.len())?;
            if self.rank != root {
                return self.send(comm, block, root).map(|()| None);
            }
            let mut blocks = Vec::with_capacity(self.size);
            for (rank, len) in lengths.into_iter().enumerate() {
                blocks.push(if rank == self.rank {
                    block.to_vec()
                } else {
                    let mut bytes = vec![0; len];
                    self.receive(comm, &mut bytes, rank)?;
                    bytes
                });
            }
            Ok(Some(blocks))
        })
    }

    fn all_to_all(&self, blocks: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        self.with(|comm| self.exchange(comm, &blocks))
    }

    fn barrier(&self) -> Result<()> {
        // SAFETY: the communicator is ours.
        self.with(|comm| self.check("MPI_Barrier", unsafe { ffi::MPI_Barrier(comm) }))
    }

    fn first(&self, count: usize) -> Result<Option<Box<dyn Transport>>> {
        let joins = self.rank < count;
        let comm = self.with(|all| {
            // SAFETY: the pointer is valid for the call; all processes make it.
            unsafe {
                let mut comm = ffi::RSMPI_COMM_NULL;
                let (colour, key) = (c_int::from(!joins), self.rank as c_int);
                let code = ffi::MPI_Comm_split(all, colour, key, &raw mut comm);
                self.check("MPI_Comm_split", code)?;
                let code = ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN);
                self.check("MPI_Comm_set_errhandler", code)?;
                Ok(comm)
            }
        })?;
        let own = || {
            Box::new(Self {
                handle: Mutex::new(Some(Handle(comm))),
                rank: self.rank,
                size: count,
                host: self.host.clone(),
                library: self.library.clone(),
                most_numbers: self.most_numbers,
                most_bytes: self.most_bytes,
                is_world: false,
            }) as Box<dyn Transport>
        };
        Ok(joins.then(own))
    }

    fn abort(&self, code: u8, message: &str) -> CommError {
        // Without the lock: another thread may be waiting in MPI for a rank that will not come.
        // SAFETY: MPI was started; all processes are ended by this.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, c_int::from(code)) };
        CommError::Aborted { rank: self.rank, code, message: message.into() }
    }

    fn finish(&self) -> Result<()> {
        let mut handle = self.lock();
        let Some(Handle(mut comm)) = handle.take() else { return Ok(()) };
        // SAFETY: the communicator is ours and used no more; MPI is ended once.
        unsafe {
            self.check("MPI_Comm_free", ffi::MPI_Comm_free(&raw mut comm))?;
            if self.is_world { self.check("MPI_Finalize", ffi::MPI_Finalize()) } else { Ok(()) }
        }
    }
}

#[cfg(test)]
mod tests;
