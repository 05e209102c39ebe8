//! Whole numbers that the devices of a team add, and their sums one at a time.

use voxalign_compute::Device;
use voxalign_compute::comm::Team;

use crate::support::Random;

/// Those of a member, over the whole range, so that sums wrap around.
#[must_use]
pub fn numbers(seed: u64, len: usize) -> Vec<i64> {
    let mut random = Random::new(seed);
    (0..len).map(|_| (random.between(-1.0, 1.0) * i64::MAX as f64) as i64).collect()
}

/// The sum of those of so many members.
#[must_use]
pub fn expected(members: usize, len: usize) -> Vec<i64> {
    let all: Vec<_> = (0..members).map(|m| numbers(m as u64, len)).collect();
    (0..len).map(|i| all.iter().fold(0i64, |sum, own| sum.wrapping_add(own[i]))).collect()
}

/// The sum that each device of a team holds after they have added theirs.
///
/// # Panics
/// Where that fails.
pub fn summed<D: Device>(team: &Team<D>, len: usize) -> Vec<Vec<i64>> {
    let upload = |(m, device): (usize, &D)| device.upload(&numbers(m as u64, len)).unwrap();
    let mut buffers: Vec<_> = team.devices().iter().enumerate().map(upload).collect();
    team.all_reduce_sum(&mut buffers).unwrap();
    let devices = team.devices().iter().zip(buffers);
    devices.map(|(device, buffer)| device.into_host(buffer).unwrap()).collect()
}
