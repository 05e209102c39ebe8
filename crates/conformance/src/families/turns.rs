//! Buffers that queues and other handles use at the same time: within turns they are read, changed, dropped
//! and made anew, and their memory is poisoned as soon as it is free.
//!
//! On a GPU one of the streams is kept busy for some time first, so that what does not wait for it comes
//! too early: what is asked for after it shows what it should not see. A device that does one thing after the
//! other has to pass as well.

use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::histogram::{Binning, ParzenBins};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::similarity::Contexts;
use voxalign_compute::ops::sort::KeyRange;
use voxalign_compute::{ComputeError, Device, HostBuffer, Result};

use crate::support::{Random, Results, assert_bits_of_cpu};

/// How much there is to do.
struct Size {
    /// Elements of a buffer.
    len: usize,
    /// Elements of what keeps a stream busy, and how often they are gone through.
    work: usize,
    passes: usize,
    rounds: usize,
}

impl Size {
    /// Of a GPU: some 20 ms of work, for which a host asks within a few; of a host next to nothing.
    fn of<D: Device>(device: &D) -> Self {
        match device.name().starts_with("cuda:") {
            true => Self { len: 1 << 22, work: 1 << 26, passes: 200, rounds: 4 },
            false => Self { len: 1003, work: 64, passes: 3, rounds: 2 },
        }
    }
}

/// What keeps a stream busy.
struct Work<D: Device> {
    buffer: D::Buffer<f32>,
    passes: usize,
}

impl<D: Device> Work<D> {
    fn new(device: &D, size: &Size) -> Self {
        let mut work = Self { buffer: device.alloc(size.work).unwrap(), passes: size.passes };
        // Kernels are compiled, and memory is there.
        work.keep_busy(device).unwrap();
        drop(poisoned(device, size.len).unwrap());
        let mut warm = filled(device, size.len, 1.0).unwrap();
        let copy = device.alloc::<f32>(size.len).unwrap();
        device.eval(&(x(0) * 2.0), &[&copy], &[], None, &mut warm).unwrap();
        device.eval_in_place(&(x(0) + 1.0), &mut warm, &[], &[], None).unwrap();
        device.synchronize().unwrap();
        work
    }

    fn keep_busy(&mut self, device: &D) -> Result<()> {
        let pass = x(0) * 0.5 + 1.0;
        (0..self.passes)
            .try_for_each(|_| device.eval_in_place(&pass, &mut self.buffer, &[], &[], None))
    }
}

/// A buffer of one value, asked for and not waited for.
fn filled<D: Device>(device: &D, len: usize, value: f32) -> Result<D::Buffer<f32>> {
    let mut buffer = device.alloc(len)?;
    device.eval_in_place(&(x(0) * 0.0 + value), &mut buffer, &[], &[], None)?;
    Ok(buffer)
}

/// Buffers of what is not a number, in whatever memory is free.
fn poisoned<D: Device>(device: &D, len: usize) -> Result<Vec<D::Buffer<f32>>> {
    (0..3).map(|_| filled(device, len, f32::NAN)).collect()
}

fn doubled<D: Device>(device: &D, from: &D::Buffer<f32>, to: &mut D::Buffer<f32>) -> Result<()> {
    device.eval(&(x(0) * 2.0), &[from], &[], None, to)
}

fn add_one<D: Device>(device: &D, to: &mut D::Buffer<f32>) -> Result<()> {
    device.eval_in_place(&(x(0) + 1.0), to, &[], &[], None)
}

/// Asserts that all elements have one value.
fn assert_all<D: Device>(device: &D, buffer: &D::Buffer<f32>, value: f32, what: &str) {
    assert_values(&device.name(), &device.download(buffer).unwrap(), value, what);
}

fn assert_values(device: &str, found: &[f32], value: f32, what: &str) {
    let wrong = found.iter().filter(|v| **v != value).count();
    let first = found.iter().position(|v| *v != value).map(|i| (i, found[i]));
    assert!(wrong == 0, "{device}: {what}: {wrong} of {} are not {value}: {first:?}", found.len());
}

/// Numbers that come to the host while the device goes on are those of the moment they were asked for, however
/// late they are looked at: after their buffer was changed and dropped, and its memory taken by others.
pub(crate) fn arriving_numbers<D: Device>(device: &D) {
    rounds(device, |_, work, value| {
        let mut asked = Vec::new();
        for i in 0..5 {
            let image = filled(device, 1 << 10, value + i as f32).unwrap();
            let mut sum = device.alloc::<f64>(1).unwrap();
            work.keep_busy(device).unwrap();
            device.reduce_into(&[&image], &[Reduction::Sum(0)], &mut sum).unwrap();
            asked.push(device.arriving(&sum).unwrap());
            device.upload_into(&mut sum, &[f64::NAN]).unwrap();
            drop(sum);
            drop(device.upload(&[f64::NAN; 4]).unwrap());
        }
        let dropped = device.arriving(&device.upload(&[1.0]).unwrap()).unwrap();
        drop(dropped);
        for (i, numbers) in asked.into_iter().enumerate() {
            let expected = 1024.0 * (f64::from(value) + i as f64);
            assert_eq!(numbers.wait().unwrap(), [expected], "{}", device.name());
        }
        // More than fits into a note, and nothing at all.
        let many: Vec<f64> = (0..5000).map(f64::from).collect();
        let numbers = device.arriving(&device.upload(&many).unwrap()).unwrap();
        assert_eq!(numbers.wait().unwrap(), many);
        let none = device.arriving(&device.alloc(0).unwrap()).unwrap();
        assert!(none.wait().unwrap().is_empty());
    });
}

/// Runs a scenario some times, with a value of its own each time.
fn rounds<D: Device>(device: &D, scenario: impl Fn(&Size, &mut Work<D>, f32)) {
    let size = Size::of(device);
    let mut work = Work::new(device, &size);
    for round in 0..size.rounds {
        scenario(&size, &mut work, (round + 1) as f32);
    }
}

/// A buffer of the handle that made the queue is dropped in a turn that still reads it.
pub(crate) fn dropped_by_the_maker<D: Device>(device: &D) {
    rounds(device, |size, work, value| {
        for lasting in [false, true] {
            let queue = if lasting { device.lasting_queue() } else { device.queue() }.unwrap();
            let kept = filled(device, size.len, value).unwrap();
            let mut out = device.alloc(size.len).unwrap();
            let poison = queue.run(|d| {
                work.keep_busy(d)?;
                doubled(d, &kept, &mut out)?;
                drop(kept);
                poisoned(device, size.len)
            });
            assert_all(device, &out, 2.0 * value, "read before it was dropped");
            drop(poison.unwrap());
        }
    });
}

/// A buffer of the queue is dropped while the handle that made the queue still reads it.
pub(crate) fn dropped_by_the_queue<D: Device>(device: &D) {
    rounds(device, |size, work, value| {
        let queue = device.queue().unwrap();
        let mut out = device.alloc(size.len).unwrap();
        queue
            .run(|d| {
                let kept = filled(d, size.len, value)?;
                work.keep_busy(device)?;
                doubled(device, &kept, &mut out)?;
                drop(kept);
                poisoned(d, size.len).map(drop)
            })
            .unwrap();
        assert_all(device, &out, 2.0 * value, "read before it was dropped");
    });
}

/// What the handle that made the queue writes within a turn is read by the queue.
pub(crate) fn changed_by_the_maker<D: Device>(device: &D) {
    rounds(device, |size, work, value| {
        let queue = device.queue().unwrap();
        let mut source = filled(device, size.len, value).unwrap();
        let mut out = device.alloc(size.len).unwrap();
        let made = queue.run(|d| {
            work.keep_busy(device)?;
            add_one(device, &mut source)?;
            let made = filled(device, size.len, value)?;
            doubled(d, &source, &mut out)?;
            d.eval_in_place(&(x(0) + x(1)), &mut out, &[&made], &[], None)?;
            Ok::<_, ComputeError>(made)
        });
        assert_all(device, &out, 3.0 * value + 2.0, "changed before it was read");
        drop(made.unwrap());
    });
}

/// What the queue writes is read, within the turn, by the handle that made it.
pub(crate) fn changed_by_the_queue<D: Device>(device: &D) {
    rounds(device, |size, work, value| {
        let queue = device.queue().unwrap();
        let mut source = filled(device, size.len, value).unwrap();
        let mut out = device.alloc(size.len).unwrap();
        let found = queue.run(|d| {
            work.keep_busy(d)?;
            add_one(d, &mut source)?;
            doubled(device, &source, &mut out)?;
            let sum = device.reduce(&[&source], &[Reduction::Max(0), Reduction::Min(0)])?;
            assert_eq!(sum, [f64::from(value + 1.0); 2]);
            device.download(&out)
        });
        let what = "changed before it was read";
        assert_values(&device.name(), &found.unwrap(), 2.0 * value + 2.0, what);
        assert_all(device, &source, value + 1.0, what);
    });
}

/// What one handle reads is changed by the other only afterwards, whoever is busy.
pub(crate) fn read_before_a_change<D: Device>(device: &D) {
    rounds(device, |size, work, value| {
        let queue = device.queue().unwrap();
        let mut source = filled(device, size.len, value).unwrap();
        let mut outs = [(); 2].map(|()| device.alloc::<f32>(size.len).unwrap());
        for (queue_reads, out) in [true, false].into_iter().zip(&mut outs) {
            let done = queue.run(|d| {
                let (reader, writer) = if queue_reads { (d, device) } else { (device, d) };
                work.keep_busy(reader)?;
                doubled(reader, &source, out)?;
                add_one(writer, &mut source)?;
                // Written twice, by one and by the other.
                add_one(reader, &mut source)
            });
            done.unwrap();
        }
        assert_all(device, &outs[0], 2.0 * value, "read before it was changed");
        assert_all(device, &outs[1], 2.0 * value + 4.0, "read before it was changed");
        assert_all(device, &source, value + 4.0, "changed by both");
    });
}

/// The same by copies: from and to the host, and on the device.
pub(crate) fn copies_and_uploads<D: Device>(device: &D) {
    rounds(device, |size, work, value| {
        let queue = device.queue().unwrap();
        let host = |value: f32| -> HostBuffer<f32> {
            let mut host = device.host_alloc(size.len).unwrap();
            host.fill(value);
            host
        };
        let (from, mut to, usual) = (host(7.0), host(0.0), vec![8.0; size.len]);
        let name = device.name();
        // What is still to be read is uploaded over, in three ways.
        for way in 0..3 {
            let mut source = filled(device, size.len, value).unwrap();
            let other = filled(device, size.len, 9.0).unwrap();
            let mut out = device.alloc(size.len).unwrap();
            queue
                .run(|d| {
                    work.keep_busy(device)?;
                    doubled(device, &source, &mut out)?;
                    match way {
                        0 => d.upload_from(&from, &mut source),
                        1 => d.upload_into(&mut source, &usual),
                        _ => d.copy(&other, &mut source),
                    }
                })
                .unwrap();
            assert_all(device, &out, 2.0 * value, "read before it was uploaded over");
            assert_all(device, &source, [7.0, 8.0, 9.0][way], "uploaded");
        }
        // What is still to be written is downloaded, in three ways.
        for way in 0..3 {
            let mut source = filled(device, size.len, value).unwrap();
            let mut copy = device.alloc(size.len).unwrap();
            let found = queue.run(|d| {
                work.keep_busy(device)?;
                add_one(device, &mut source)?;
                match way {
                    0 => d.download_to(&source, &mut to).map(|()| to.to_vec()),
                    1 => d.download(&source),
                    _ => d.copy(&source, &mut copy).and_then(|()| d.download(&copy)),
                }
            });
            assert_values(&name, &found.unwrap(), value + 1.0, "written before it was downloaded");
        }
    });
}

/// Turns within turns of other queues, each after the other where they share a buffer.
pub(crate) fn several_queues<D: Device>(device: &D) {
    rounds(device, |size, work, value| {
        let queues = [(); 3].map(|()| device.queue().unwrap());
        let source = filled(device, size.len, value).unwrap();
        let mut outs = [(); 3].map(|()| device.alloc::<f32>(size.len).unwrap());
        let [first, second, third] = &mut outs;
        let poison = queues[0].run(|a| {
            work.keep_busy(a)?;
            doubled(a, &source, first)?;
            queues[1].run(|b| {
                doubled(b, first, second)?;
                queues[2].run(|c| {
                    // Reads what two others have made, and the first changes it again.
                    c.eval(&(x(0) + x(1)), &[first, second], &[], None, third)?;
                    work.keep_busy(c)?;
                    c.eval_in_place(&(x(0) + x(1)), third, &[first], &[], None)?;
                    add_one(a, first)?;
                    add_one(device, second)?;
                    drop(source);
                    poisoned(device, size.len)
                })
            })
        });
        assert_all(device, &outs[0], 2.0 * value + 1.0, "of the first queue");
        assert_all(device, &outs[1], 4.0 * value + 1.0, "of the second queue");
        assert_all(device, &outs[2], 8.0 * value, "of the third queue");
        drop(poison.unwrap());
    });
}

/// What operators of all kinds make of a buffer that the handle which made the queue still writes, and that
/// is dropped as soon as it was asked for.
pub(crate) fn families<D: Device>(device: &D) {
    let large = device.name().starts_with("cuda:");
    let dims = if large { [128, 128, 64] } else { [12, 9, 5] };
    let n: usize = dims.iter().product();
    let size = Size { len: n, ..Size::of(device) };
    let data = Random::new(5).image(dims);
    let mut work = Work::new(device, &size);
    let queue = device.queue().unwrap();
    type Family<D> = (
        &'static str,
        fn(&D, [usize; 3], &<D as voxalign_compute::Memory>::Buffer<f32>) -> Made<D>,
    );
    let families: [Family<D>; 10] = [
        ("reduce", |d, _, image| {
            let mut out = d.alloc::<f64>(2)?;
            d.reduce_into(&[image], &[Reduction::Sum(0), Reduction::SumSquares(0)], &mut out)?;
            Ok(Kept::F64(out))
        }),
        ("filter", |d, dims, image| {
            let mut out = d.alloc(image_len(dims))?;
            let method = voxalign_compute::ops::filter::GaussianMethod::Recursive;
            d.gaussian(image, dims, [2.0; 3], method, &mut out)?;
            Ok(Kept::F32(out))
        }),
        ("stencil", |d, dims, image| {
            let mut out = d.alloc(3 * image_len(dims))?;
            d.gradient(image, dims, [1.0; 3], &mut out)?;
            Ok(Kept::F32(out))
        }),
        ("resample", |d, dims, image| {
            let mut out = d.alloc(image_len(dims))?;
            let map = [[0.9, 0.1, 0.0, 0.5], [0.0, 1.0, 0.1, 0.2], [0.0, 0.0, 1.0, 0.1]];
            let kind = voxalign_compute::ops::resample::Interpolation::Cubic;
            d.warp_affine(image, dims, &map, dims, kind, -1.0, &mut out)?;
            Ok(Kept::F32(out))
        }),
        ("sort", |d, dims, image| {
            let mut out = d.alloc(image_len(dims))?;
            d.sort_keys(KeyRange::Full, image, &mut out)?;
            Ok(Kept::F32(out))
        }),
        ("fourier", |d, dims, image| {
            let mut spectrum = d.alloc(voxalign_compute::ops::fourier::spectrum_len(dims)?)?;
            match d.forward(image, dims, &mut spectrum) {
                // A machine without the library for it has nothing to wait for.
                Err(ComputeError::Unavailable { .. }) => return Ok(Kept::None),
                done => done?,
            }
            Ok(Kept::F32(spectrum))
        }),
        ("accumulate", |d, dims, image| {
            let mut sums = d.alloc::<i64>(image_len(dims))?;
            d.add_fixed(image, 1e6, &mut sums)?;
            Ok(Kept::I64(sums))
        }),
        ("similarity", |d, dims, image| {
            let (mut derivative, mut energy) = (d.alloc(image_len(dims))?, d.alloc(1)?);
            d.local_correlation(
                image,
                image,
                None,
                dims,
                [2; 3],
                1.0,
                &mut derivative,
                &mut energy,
            )?;
            Ok(Kept::F32(derivative))
        }),
        ("contexts", |d, dims, image| {
            let (mut derivative, mut energy) = (d.alloc(image_len(dims))?, d.alloc(1)?);
            // Of itself turned over: with itself there is no difference.
            let mut other = d.alloc(image_len(dims))?;
            d.eval(&(x(0) * x(0)), &[image], &[], None, &mut other)?;
            let contexts = Contexts { radius: 1, distance: 1, noise: 1.0 };
            d.self_similarity(image, &other, None, dims, &contexts, &mut derivative, &mut energy)?;
            Ok(Kept::F32(derivative))
        }),
        ("pair histogram", |d, _, image| {
            let rows = Binning { low: -50.0, high: 200.0, bins: 16 };
            let columns = ParzenBins { low: -50.0, high: 200.0, count: 20 };
            let counts = d.pair_histogram(image, image, None, &rows, &columns)?;
            Ok(Kept::Host(counts))
        }),
    ];
    let image = device.upload(&data).unwrap();
    for (name, family) in families {
        let expected = family(device, dims, &image).unwrap().numbers(device);
        let base = device.upload(&data).unwrap();
        let queue_found = queue.run(|d| {
            let mut late = device.alloc::<f32>(n)?;
            work.keep_busy(device)?;
            device.copy(&base, &mut late)?;
            let made = family(d, dims, &late)?;
            drop(late);
            let poison = poisoned(device, n)?;
            let found = made.numbers(d);
            drop((made, poison));
            Ok::<_, ComputeError>(found)
        });
        let found = queue_found.unwrap();
        assert_eq!(found.len(), expected.len(), "{name}");
        let wrong = (0..found.len()).find(|&i| found[i].to_bits() != expected[i].to_bits());
        let both = wrong.map(|i| (found[i], expected[i]));
        assert!(wrong.is_none(), "{}: {name}: element {wrong:?}: {both:?}", device.name());
    }
}

fn image_len(dims: [usize; 3]) -> usize {
    dims.iter().product()
}

type Made<D> = Result<Kept<D>>;

/// What an operator has made.
enum Kept<D: Device> {
    F32(D::Buffer<f32>),
    F64(D::Buffer<f64>),
    I64(D::Buffer<i64>),
    Host(Vec<f64>),
    None,
}

impl<D: Device> Kept<D> {
    fn numbers(&self, device: &D) -> Vec<f64> {
        match self {
            Self::F32(b) => device.download(b).unwrap().into_iter().map(f64::from).collect(),
            Self::F64(b) => device.download(b).unwrap(),
            Self::I64(b) => device.download(b).unwrap().into_iter().map(|v| v as f64).collect(),
            Self::Host(numbers) => numbers.clone(),
            Self::None => Vec::new(),
        }
    }
}

/// Threads with queues of their own read one buffer, whose memory is poisoned when the last of them has let
/// it go; and the handle that made it reads it meanwhile.
pub(crate) fn threads<D: Device>(device: &D) {
    let size = Size::of(device);
    let mut works: Vec<Work<D>> = (0..3).map(|_| Work::new(device, &size)).collect();
    let queues: Vec<_> = (0..3).map(|_| device.queue().unwrap()).collect();
    for round in 0..size.rounds {
        let value = (round + 1) as f32;
        let shared = std::sync::Arc::new(filled(device, size.len, value).unwrap());
        let mut outs: Vec<_> = (0..3).map(|_| device.alloc::<f32>(size.len).unwrap()).collect();
        std::thread::scope(|scope| {
            for ((queue, work), out) in queues.iter().zip(&mut works).zip(&mut outs) {
                let shared = std::sync::Arc::clone(&shared);
                scope.spawn(move || {
                    let poison = queue.run(|d| {
                        work.keep_busy(d)?;
                        doubled(d, &shared, out)?;
                        // The last of them gives the memory back, while its queue still reads it.
                        drop(shared);
                        poisoned(device, size.len)
                    });
                    drop(poison.unwrap());
                });
            }
            drop(shared);
        });
        for out in &outs {
            assert_all(device, out, 2.0 * value, "read by threads");
        }
    }
}

fn bits_of_the_cpu<D: Device>(device: &D) -> Results {
    let queue = device.queue().unwrap();
    let mut buffer = device.upload(&Random::new(3).image([501, 1, 1])).unwrap();
    let found = queue.run(|d| {
        d.eval_in_place(&(x(0).abs().sqrt() * 3.0), &mut buffer, &[], &[], None)?;
        device.eval_in_place(&(x(0) - 1.0), &mut buffer, &[], &[], None)?;
        d.download(&buffer)
    });
    vec![("turns".into(), found.unwrap())]
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    assert_bits_of_cpu(device, bits_of_the_cpu, bits_of_the_cpu);
    bits_of_the_cpu(device)
}
