//! Copies from and to memory of the host, and queues.

use voxalign_compute::ops::elementwise::x;
use voxalign_compute::{ComputeError, Device, DeviceBuffer};

use crate::support::{Random, Results, assert_bits_of_cpu};

/// Lengths around pieces, and one that no staging buffer holds.
const LENGTHS: [usize; 5] = [0, 1, 7, 4097, 3_000_001];

fn numbers(len: usize) -> Vec<f32> {
    Random::new(len as u64).image([len, 1, 1])
}

pub(crate) fn copies<D: Device>(device: &D) {
    for len in LENGTHS {
        let data = numbers(len);
        let mut host = device.host_alloc::<f32>(len).unwrap();
        assert!(host.len() == len && host.iter().all(|&v| v == 0.0));
        host.copy_from_slice(&data);
        let mut buffer = device.alloc(len).unwrap();
        device.upload_from(&host, &mut buffer).unwrap();
        assert_eq!(&host[..], data, "the host keeps what it has");
        let mut back = device.host_alloc(len).unwrap();
        device.download_to(&buffer, &mut back).unwrap();
        assert_eq!(&back[..], data);
        assert_eq!(device.into_host(buffer).unwrap(), data);
    }
    let mut whole = device.host_alloc::<i64>(3).unwrap();
    whole[1] = i64::MIN;
    let mut buffer = device.alloc(3).unwrap();
    device.upload_from(&whole, &mut buffer).unwrap();
    assert_eq!(device.into_host(buffer).unwrap(), [0, i64::MIN, 0]);
}

/// What is handed over and back arrives, however often memory is exchanged.
pub(crate) fn exchanges<D: Device>(device: &D) {
    let (len, mut host, mut buffer) =
        (1000, device.host_alloc::<f32>(1000).unwrap(), device.alloc::<f32>(1000).unwrap());
    for turn in 0..5 {
        let data: Vec<f32> = numbers(len).iter().map(|v| v + turn as f32).collect();
        host.copy_from_slice(&data);
        device.hand_over(&mut host, &mut buffer).unwrap();
        assert_eq!((host.len(), buffer.len()), (len, len));
        assert_eq!(device.download(&buffer).unwrap(), data);
        device.eval_in_place(&(x(0) * 2.0), &mut buffer, &[], &[], None).unwrap();
        device.hand_back(&mut buffer, &mut host).unwrap();
        assert!(host.iter().zip(&data).all(|(found, v)| *found == 2.0 * v));
    }
}

/// Queues at work at the same time, each on buffers of the handle that made them all.
pub(crate) fn queues<D: Device>(device: &D) {
    let len = 200_003;
    let data = numbers(len);
    let mut jobs: Vec<_> = (0..3)
        .map(|i| {
            // Asked for just before, and not waited for.
            let mut image = device.upload(&data).unwrap();
            device.eval_in_place(&(x(0) + i as f32), &mut image, &[], &[], None).unwrap();
            (device.queue().unwrap(), image, device.alloc::<f32>(len).unwrap())
        })
        .collect();
    std::thread::scope(|scope| {
        for (queue, image, out) in &mut jobs {
            scope.spawn(|| {
                for _ in 0..4 {
                    let done = queue.run(|d| {
                        d.eval(&(x(0) * 0.5), &[image], &[], None, out)?;
                        d.eval_in_place(&(x(0) + x(1)), image, &[out], &[], None)
                    });
                    done.unwrap();
                }
            });
        }
    });
    for (i, (queue, image, out)) in jobs.into_iter().enumerate() {
        let expected: Vec<f32> =
            data.iter().map(|v| (0..4).fold(v + i as f32, |v, _| v + v * 0.5)).collect();
        assert_eq!(device.into_host(image).unwrap(), expected, "{i}");
        // An error of the work comes through, and the queue goes on.
        let failed = queue.run(|d| d.alloc::<f32>(usize::MAX).map(|_| ()));
        assert!(matches!(failed, Err(ComputeError::OutOfMemory { .. })));
        queue.run(|d| d.download(&out).map(|_| ())).unwrap();
    }
}

/// A lasting queue keeps its handle and buffers from turn to turn, beside copies by others.
pub(crate) fn lasting_queues<D: Device>(device: &D) {
    let len = 100_003;
    let data = numbers(len);
    let steps = device.lasting_queue().unwrap();
    let copies = device.queue().unwrap();
    let own = steps.run(|d| Ok::<_, ComputeError>(d.clone())).unwrap();
    let mut sum = steps.run(|d| d.alloc::<f32>(len)).unwrap();
    // Buffers that come by one queue, are worked on by the other, and leave as others.
    let mut there = device.upload(&data).unwrap();
    let mut host = device.host_alloc::<f32>(len).unwrap();
    for round in 0..5 {
        steps
            .run(|_| {
                let mut next = own.alloc::<f32>(len)?;
                own.eval(&(x(0) * 2.0), &[&there], &[], None, &mut next)?;
                own.eval_in_place(&(x(0) + x(1)), &mut sum, &[&there], &[], None)?;
                there = next;
                Ok::<_, ComputeError>(())
            })
            .unwrap();
        copies.run(|d| d.download_to(&there, &mut host)).unwrap();
        let factor = (1u32 << (round + 1)) as f32;
        assert!(host.iter().zip(&data).all(|(a, b)| *a == b * factor), "{round}");
        host[0] = data[0] * factor;
        copies.run(|d| d.upload_from(&host, &mut there)).unwrap();
    }
    // The handle that made the queue uses what the queue made, and lets it go before it is done.
    let mut twice = device.alloc::<f32>(len).unwrap();
    device.eval(&(x(0) * 2.0), &[&sum], &[], None, &mut twice).unwrap();
    drop(sum);
    let again = steps.run(|d| d.upload(&data)).unwrap();
    let sums = data.iter().map(|v| [1.0, 2.0, 4.0, 8.0, 16.0].iter().fold(0.0, |s, f| s + v * f));
    let expected: Vec<f32> = sums.map(|s: f32| 2.0 * s).collect();
    assert_eq!(device.into_host(twice).unwrap(), expected);
    drop(again);
}

pub(crate) fn errors<D: Device>(device: &D) {
    let (mut host, mut buffer) =
        (device.host_alloc::<f32>(4).unwrap(), device.alloc::<f32>(5).unwrap());
    assert!(device.upload_from(&host, &mut buffer).is_err());
    assert!(device.download_to(&buffer, &mut host).is_err());
    assert!(device.hand_over(&mut host, &mut buffer).is_err());
    assert!(device.hand_back(&mut buffer, &mut host).is_err());
    assert!(device.host_alloc::<f64>(usize::MAX / 4).is_err());
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut host = device.host_alloc::<f32>(999).unwrap();
    host.copy_from_slice(&numbers(999));
    let mut buffer = device.alloc(999).unwrap();
    let queue = device.queue().unwrap();
    queue
        .run(|d| {
            d.hand_over(&mut host, &mut buffer)?;
            d.eval_in_place(&x(0).abs().sqrt(), &mut buffer, &[], &[], None)?;
            d.hand_back(&mut buffer, &mut host)
        })
        .unwrap();
    vec![("roots".into(), host.to_vec())]
}
