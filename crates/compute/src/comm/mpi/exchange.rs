//! Blocks of bytes from every process to every other.

use std::ffi::c_int;

use mpi_sys as ffi;

use super::Mpi;
use crate::comm::error::{CommError, Result};
use crate::error::ComputeError;

impl Mpi {
    /// Exchanges blocks in rounds: a block may be longer than an int counts, and so may be all of a process together. Each round has a piece of every
    /// block, of which there is room for all; all processes make as many rounds, as the longest block of any needs.
    pub(super) fn exchange(&self, comm: ffi::MPI_Comm, blocks: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let to: Vec<u64> = blocks.iter().map(|block| block.len() as u64).collect();
        let mut from = vec![0u64; self.size];
        // SAFETY: there is a number for each process, and room for one of each.
        let code = unsafe {
            ffi::MPI_Alltoall(
                to.as_ptr().cast(),
                1,
                ffi::RSMPI_UINT64_T,
                from.as_mut_ptr().cast(),
                1,
                ffi::RSMPI_UINT64_T,
                comm,
            )
        };
        self.check("MPI_Alltoall", code)?;
        let piece = (self.most_bytes / self.size).max(1);
        let longest = to.iter().chain(&from).copied().max().unwrap_or(0) as usize;
        let room = |&len: &u64| {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            voxalign_image::memory::room::<u8>(len).map_err(ComputeError::from)
        };
        let rooms: std::result::Result<Vec<_>, _> = from.iter().map(room).collect();
        // A rank that has no room says so here: the others would wait for it in the rounds.
        const NO_ROOM: usize = i64::MAX as usize;
        let own = if rooms.is_ok() { longest.div_ceil(piece) } else { NO_ROOM };
        let rounds = self.most_of_all(comm, own)?;
        let mut found = rooms?;
        if rounds == NO_ROOM {
            let what = "of the memory of a rank, which is too little for what is sent to it";
            return Err(CommError::Mismatch { what: what.into() });
        }
        for round in 0..rounds {
            let first = round * piece;
            let part = |len: u64| piece.min((len as usize).saturating_sub(first));
            let lengths: Vec<usize> = to.iter().map(|&len| part(len)).collect();
            let mut out = Vec::with_capacity(lengths.iter().sum());
            for (block, &len) in blocks.iter().zip(&lengths).filter(|(_, len)| **len > 0) {
                out.extend_from_slice(&block[first..first + len]);
            }
            let coming: Vec<usize> = from.iter().map(|&len| part(len)).collect();
            let arrived = self.exchange_pieces(comm, &out, &lengths, &coming)?;
            let mut rest = &arrived[..];
            for (found, len) in found.iter_mut().zip(coming) {
                let (own, others) = rest.split_at(len);
                found.extend_from_slice(own);
                rest = others;
            }
        }
        Ok(found)
    }

    /// The largest number of all processes.
    fn most_of_all(&self, comm: ffi::MPI_Comm, own: usize) -> Result<usize> {
        let (own, mut most) = (own as i64, 0i64);
        // SAFETY: constants of the library.
        let (kind, operation) = unsafe { (ffi::RSMPI_INT64_T, ffi::RSMPI_MAX) };
        let (from, to) = ((&raw const own).cast(), (&raw mut most).cast());
        // SAFETY: both are one number, and are two.
        let code = unsafe { ffi::MPI_Allreduce(from, to, 1, kind, operation, comm) };
        self.check("MPI_Allreduce", code)?;
        Ok(most as usize)
    }

    /// Exchanges pieces that lie one after the other, all together fewer than an int counts.
    fn exchange_pieces(
        &self,
        comm: ffi::MPI_Comm,
        out: &[u8],
        lengths: &[usize],
        coming: &[usize],
    ) -> Result<Vec<u8>> {
        let counts = |lengths: &[usize]| -> (Vec<c_int>, Vec<c_int>) {
            let starts = lengths.iter().scan(0, |next, &len| {
                let start = *next;
                *next += len;
                Some(start as c_int)
            });
            (lengths.iter().map(|&len| len as c_int).collect(), starts.collect())
        };
        let (send_counts, send_starts) = counts(lengths);
        let (receive_counts, receive_starts) = counts(coming);
        let mut arrived = vec![0u8; coming.iter().sum()];
        // What is empty has the address 1, which libraries take for MPI_IN_PLACE.
        let (nothing, mut nowhere) = ([0u8; 1], [0u8; 1]);
        let from = if out.is_empty() { nothing.as_ptr() } else { out.as_ptr() };
        let to = if arrived.is_empty() { nowhere.as_mut_ptr() } else { arrived.as_mut_ptr() };
        // SAFETY: pieces lie within the buffers by their counts and starts, of which there is one for each process.
        let code = unsafe {
            ffi::MPI_Alltoallv(
                from.cast(),
                send_counts.as_ptr(),
                send_starts.as_ptr(),
                ffi::RSMPI_UINT8_T,
                to.cast(),
                receive_counts.as_ptr(),
                receive_starts.as_ptr(),
                ffi::RSMPI_UINT8_T,
                comm,
            )
        };
        self.check("MPI_Alltoallv", code)?;
        Ok(arrived)
    }
}
