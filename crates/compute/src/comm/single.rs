//! A single process, without communication.

use super::error::{CommError, Result};
use super::transport::{Combine, Transport};

/// The only rank.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Single;

impl Transport for Single {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn name(&self) -> String {
        "one process".into()
    }

    fn reduce(&self, _: &mut [i64], _: Combine) -> Result<()> {
        Ok(())
    }

    fn broadcast(&self, _: &mut [u8], _: usize) -> Result<()> {
        Ok(())
    }

    fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![block.to_vec()])
    }

    fn gather(&self, block: &[u8], _: usize) -> Result<Option<Vec<Vec<u8>>>> {
        Ok(Some(vec![block.to_vec()]))
    }

    fn all_to_all(&self, blocks: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        Ok(blocks)
    }

    fn barrier(&self) -> Result<()> {
        Ok(())
    }

    fn first(&self, _: usize) -> Result<Option<Box<dyn Transport>>> {
        Ok(Some(Box::new(*self)))
    }

    fn abort(&self, code: u8, message: &str) -> CommError {
        CommError::Aborted { rank: 0, code, message: message.into() }
    }

    fn finish(&self) -> Result<()> {
        Ok(())
    }
}
