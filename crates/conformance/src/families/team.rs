//! Sums over several devices of a process against one number at a time.

use voxalign_compute::comm::{Communicator, Team};
use voxalign_compute::{ComputeError, Device};

use crate::sums::{expected, summed};

pub(crate) fn sums<D: Device>(device: &D) {
    for count in 1..=3 {
        let team = Team::new(vec![device.clone(); count], Communicator::single()).unwrap();
        for len in [0, 1, 33, 65_537] {
            let expected = expected(count, len);
            let found = summed(&team, len);
            assert!(found.iter().all(|f| *f == expected), "{count} devices, {len} numbers");
        }
    }
}

pub(crate) fn uploads<D: Device>(device: &D) {
    let mut buffer = device.upload(&[1.0f32; 70]).unwrap();
    let values: Vec<f32> = (0..70).map(|i| i as f32).collect();
    device.upload_into(&mut buffer, &values).unwrap();
    assert_eq!(device.download(&buffer).unwrap(), values);
    let short = device.upload_into(&mut buffer, &values[1..]);
    assert!(matches!(short, Err(ComputeError::Length { expected: 70, found: 69, .. })));
    device.upload_part(&mut buffer, 67, &[-1.0, -2.0, -3.0]).unwrap();
    device.upload_part(&mut buffer, 70, &[]).unwrap();
    let beyond = device.upload_part(&mut buffer, 68, &[0.0; 3]);
    assert!(matches!(beyond, Err(ComputeError::Length { expected: 3, found: 2, .. })));
    let expected = [&values[..67], &[-1.0, -2.0, -3.0]].concat();
    assert_eq!(device.into_host(buffer).unwrap(), expected);
}

pub(crate) fn errors<D: Device>(device: &D) {
    let team = Team::new(vec![device.clone(); 2], Communicator::single()).unwrap();
    let buffers = |lens: &[usize]| -> Vec<_> {
        lens.iter().map(|&len| device.alloc::<i64>(len).unwrap()).collect()
    };
    assert!(team.all_reduce_sum(&mut buffers(&[4, 4])).is_ok());
    assert!(team.all_reduce_sum(&mut buffers(&[4, 5])).is_err());
    assert!(team.all_reduce_sum(&mut buffers(&[4])).is_err());
    assert!(team.all_reduce_sum(&mut buffers(&[4, 4, 4])).is_err());
}
