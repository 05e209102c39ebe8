//! Joint histograms in whole numbers against one pixel at a time: equal in every entry.

use voxalign_compute::ops::joint::{
    Block, BlockRule, Brick, Collect, Decomposition, FixedPart, FixedPointMap, JointRule,
    JointSlopes, MessageLayout, Messages, Outbox, Pixel, Pixels, PixelsPerThread, Sending, TALLIES,
    Window,
};
use voxalign_compute::{Device, Dims};

use crate::blocks::{Pair, Reference, table, turned};
use crate::support::Results;

const WINDOWS: [Window; 2] = [Window::Plain, Window::Cubic];

/// Fixed and moving sizes that are odd, tiny, flat, and of more pixels than a block of threads has.
const SIZES: [(Dims, Dims); 9] = [
    ([1, 1, 1], [1, 1, 1]),
    ([3, 2, 1], [2, 5, 1]),
    ([37, 23, 1], [40, 19, 1]),
    ([300, 3, 1], [280, 7, 1]),
    ([70, 41, 1], [33, 90, 1]),
    ([17, 1, 1], [1, 17, 1]),
    ([13, 9, 7], [11, 12, 6]),
    ([5, 5, 1], [7, 6, 3]),
    ([9, 150, 1], [140, 12, 1]),
];

/// Angles, scales and shifts: the last leaves the image.
const MOTIONS: [(f64, f64, f64); 6] = [
    (0.0, 1.0, 0.0),
    (0.4, 1.1, 0.7),
    (std::f64::consts::FRAC_PI_2, 1.0, 0.0),
    (3.0, 0.8, -2.3),
    (5.1, 1.7, 3.0),
    (0.1, 1.0, 4000.0),
];

fn upload_part<'a, D: Device>(bins: &'a D::Buffer<u8>, block: Block) -> FixedPart<'a, D> {
    FixedPart { block, bins, part: block }
}

fn check(reference: &Reference, rule: &JointRule, numbers: &[i64], with_slopes: bool, case: &str) {
    if with_slopes {
        let found = JointSlopes::from_numbers(numbers).unwrap();
        assert_eq!(JointSlopes { elsewhere: 0, ..found }, reference.slopes, "{case}");
        return;
    }
    let (counts, tallies) = numbers.split_at(rule.entries());
    assert_eq!(tallies[0] as u64, reference.samples, "{case}: samples");
    for (i, (&found, &expected)) in counts.iter().zip(&reference.counts).enumerate() {
        assert_eq!(i128::from(found), expected, "{case}: entry {i}");
    }
    let sum: i128 = reference.counts.iter().sum();
    let each = if rule.window == Window::Plain { 1 } else { 4096 };
    assert_eq!(sum, each * i128::from(reference.samples));
}

/// What a device finds with some bricks.
fn numbers<D: Device>(
    device: &D,
    rule: &JointRule,
    fixed: &[FixedPart<'_, D>],
    bricks: &[Brick<'_, D>],
    table: Option<&[i32]>,
) -> Vec<i64> {
    let table = table.map(|t| device.upload(t).unwrap());
    let mut out = device.alloc(rule.numbers(table.is_some())).unwrap();
    for fixed in fixed {
        device.joint_add(rule, fixed, bricks, table.as_ref(), &mut out).unwrap();
    }
    device.into_host(out).unwrap()
}

fn each_case<P: Pixel + TryFrom<u32>>(mut work: impl FnMut(&Pair<P>, &JointRule, bool, &str)) {
    for (s, (fixed, moving)) in SIZES.into_iter().enumerate() {
        let pair = Pair::<P>::new(fixed, moving, 5 + s as u64);
        for (m, (angle, scale, shift)) in MOTIONS.into_iter().enumerate() {
            let map = turned(&pair, angle, scale, shift);
            for window in WINDOWS {
                let mut rule = pair.rule(map, [2, 16, 31, 128][(s + m) % 4], window);
                rule.pixels_per_thread = PixelsPerThread::ALL[(s + m) % PixelsPerThread::ALL.len()];
                rule.most_at_once = [1 << 20, 1, 7, 100, 1000][(s + m) % 5];
                for slopes in [false, true] {
                    if window == Window::Plain && slopes {
                        continue;
                    }
                    let case = format!("{fixed:?} {moving:?} {m} {window:?} {slopes}");
                    work(&pair, &rule, slopes, &case);
                }
            }
        }
    }
}

fn of_whole_images<D: Device, P: Pixel + TryFrom<u32>>(device: &D) {
    each_case::<P>(|pair, rule, slopes, case| {
        let table = slopes.then(|| table(rule, 3));
        let expected = Reference::new(pair, rule, table.as_deref());
        let (bins, pixels) =
            (device.upload(&pair.bins).unwrap(), device.upload(&pair.pixels).unwrap());
        let fixed = [upload_part(&bins, Block::whole(pair.fixed))];
        let bricks =
            [Brick::new(Block::whole(pair.moving), pair.moving, Pixels::on_device::<P>(&pixels))];
        let found = numbers(device, rule, &fixed, &bricks, table.as_deref());
        check(&expected, rule, &found, slopes, case);
        assert_eq!(found[found.len() - 1], 0);
    });
}

/// One brick of 8 bits.
pub(crate) fn bytes<D: Device>(device: &D) {
    of_whole_images::<D, u8>(device);
}

/// One brick of 16 bits.
pub(crate) fn words<D: Device>(device: &D) {
    of_whole_images::<D, u16>(device);
}

/// A block of an image.
fn part_of<T: Copy>(image: &[T], dims: Dims, block: &Block) -> Vec<T> {
    let pixels = (0..block.len()).map(|i| {
        let [nx, ny, _] = block.dims;
        let at = [i % nx, i / nx % ny, i / (nx * ny)];
        image[Block::whole(dims).place([0, 1, 2].map(|a| block.origin[a] + at[a]))]
    });
    pixels.collect()
}

/// The blocks of a moving image with a halo above them, and the cells of each.
fn blocks<P: Pixel>(pair: &Pair<P>, ranks: usize) -> (Decomposition, Vec<Block>) {
    let cut = Decomposition::new(pair.moving, ranks, BlockRule::Balanced).unwrap();
    (cut, (0..ranks).map(|r| cut.block(r).grown([1; 3], pair.moving)).collect())
}

/// Blocks on the device, the rest in the memory of the host; and blocks of all ranks.
fn of_bricks<D: Device, P: Pixel + TryFrom<u32>>(device: &D) {
    each_case::<P>(|pair, rule, slopes, case| {
        let table = slopes.then(|| table(rule, 4));
        let expected = Reference::new(pair, rule, table.as_deref());
        let ranks = 1 + case.len() % 5;
        let (cut, stored) = blocks(pair, ranks);
        let bins = device.upload(&pair.bins).unwrap();
        let fixed_cut = Decomposition::new(pair.fixed, 3, BlockRule::Balanced).unwrap();
        let whole = Block::whole(pair.fixed);
        let fixed: Vec<_> = (0..3)
            .map(|r| FixedPart { block: whole, bins: &bins, part: fixed_cut.block(r) })
            .collect();
        let buffers: Vec<_> = stored
            .iter()
            .map(|b| device.upload(&part_of(&pair.pixels, pair.moving, b)).unwrap())
            .collect();
        let brick =
            |r: usize| Brick::new(stored[r], pair.moving, Pixels::<D>::on_device::<P>(&buffers[r]));
        let mut host = device.host_alloc::<P>(pair.pixels.len()).unwrap();
        host.copy_from_slice(&pair.pixels);
        let rest = Brick::new(Block::whole(pair.moving), pair.moving, Pixels::on_host(&host));
        let own = ranks - 1;
        let found = numbers(device, rule, &fixed, &[brick(own), rest], table.as_deref());
        check(&expected, rule, &found, slopes, case);
        let elsewhere = found[found.len() - 1];

        let mut all = vec![brick(own)];
        all.extend((0..ranks).map(|r| brick(r).within(cut.cells(r))));
        let found = numbers(device, rule, &fixed, &all, table.as_deref());
        check(&expected, rule, &found, slopes, case);
        assert_eq!(found[found.len() - 1], elsewhere, "{case}");
        assert!(ranks > 1 || elsewhere == 0);
        // Without the others what is elsewhere is left out.
        let found = numbers(device, rule, &fixed, &[brick(own)], table.as_deref());
        let samples = found[found.len() - TALLIES];
        assert_eq!(samples + elsewhere, expected.samples as i64, "{case}");
        assert!(numbers(device, rule, &fixed, &[], None).iter().all(|&n| n == 0));
    });
}

pub(crate) fn bricks<D: Device>(device: &D) {
    of_bricks::<D, u8>(device);
    of_bricks::<D, u16>(device);
}

/// Every sample of another rank is sent once, and adds there what it is worth.
fn of_messages<D: Device, P: Pixel + TryFrom<u32>>(device: &D) {
    each_case::<P>(|pair, rule, slopes, case| {
        let table = slopes.then(|| table(rule, 6));
        let expected = Reference::new(pair, rule, table.as_deref());
        let on_device = table.as_ref().map(|t| device.upload(t).unwrap());
        let number = case.len() + rule.moving_bins.count();
        let ranks = 1 + number % 6;
        let layout = [MessageLayout::Arrays, MessageLayout::Structures][number % 2];
        let collect = [Collect::Atomic, Collect::Compacted][number / 2 % 2];
        let (cut, stored) = blocks(pair, ranks);
        let fixed_cut = Decomposition::new(pair.fixed, ranks, BlockRule::AlongX).unwrap();
        let bins = device.upload(&pair.bins).unwrap();
        let mut out = device.alloc(rule.numbers(slopes)).unwrap();
        // The same of messages that are read where they were collected.
        let mut in_place = device.alloc(rule.numbers(slopes)).unwrap();
        let mut lists = vec![Vec::new(); ranks];
        let buffers: Vec<_> = stored
            .iter()
            .map(|b| device.upload(&part_of(&pair.pixels, pair.moving, b)).unwrap())
            .collect();
        let brick =
            |r: usize| Brick::new(stored[r], pair.moving, Pixels::<D>::on_device::<P>(&buffers[r]));
        for own in 0..ranks {
            let here = brick(own).cells;
            for part in fixed_cut.block(own).chunks([50, 40, 2]) {
                let fixed = FixedPart { block: Block::whole(pair.fixed), bins: &bins, part };
                for out in [&mut out, &mut in_place] {
                    device.joint_add(rule, &fixed, &[brick(own)], on_device.as_ref(), out).unwrap();
                }
                let (axes, most) = (rule.axes(), part.len() + own);
                let sending = Sending { owners: cut, own, here, layout, collect, most, axes };
                let Outbox { mut words, mut counts, mut scratch } =
                    Outbox::new(device, &sending).unwrap();
                device
                    .joint_send(rule, &fixed, &sending, &mut words, &mut counts, &mut scratch)
                    .unwrap();
                let outbox = Outbox::<D> { words, counts, scratch };
                let sent = outbox.bytes(device, &sending).unwrap();
                let counts = device.download(&outbox.counts).unwrap();
                let starts = sending.starts(&counts);
                for (rank, (&first, &count)) in starts.iter().zip(&counts).enumerate() {
                    let messages = outbox.messages(&sending, [first, count as usize]);
                    let (brick, table) = (brick(rank).within(cut.cells(rank)), on_device.as_ref());
                    device.joint_receive(rule, &messages, &brick, table, &mut in_place).unwrap();
                }
                assert!(sent[own].is_empty(), "{case}: messages to itself");
                lists.iter_mut().zip(sent).for_each(|(list, sent)| list.push(sent));
            }
        }
        for (rank, lists) in lists.iter().enumerate() {
            let (words, count) = layout.joined(lists, rule.axes()).unwrap();
            let words = device.upload(&words).unwrap();
            let brick = brick(rank).within(cut.cells(rank));
            device
                .joint_receive(
                    rule,
                    &Messages::list(&words, layout, count),
                    &brick,
                    on_device.as_ref(),
                    &mut out,
                )
                .unwrap();
        }
        for out in [out, in_place] {
            let found = device.into_host(out).unwrap();
            check(&expected, rule, &found, slopes, case);
        }
    });
}

pub(crate) fn messages<D: Device>(device: &D) {
    of_messages::<D, u8>(device);
    of_messages::<D, u16>(device);
}

/// Messages that belong to nobody add nothing.
pub(crate) fn wild_messages<D: Device>(device: &D) {
    let pair = Pair::<u8>::new([9, 8, 1], [20, 16, 1], 2);
    let map = turned(&pair, 0.0, 1.0, 0.0);
    let rule = pair.rule(map, 8, Window::Cubic);
    let stored = Block { origin: [5, 4, 0], dims: [9, 8, 1] };
    let pixels = device.upload(&part_of(&pair.pixels, pair.moving, &stored)).unwrap();
    let brick = Brick::new(stored, pair.moving, Pixels::<D>::on_device::<u8>(&pixels));
    let words = [0, 6 * 256, u32::MAX, 1, u32::MAX, 5 * 256, 0, 0, 0, 255, 6 * 256, 6 * 256];
    let words = device.upload(&words).unwrap();
    let mut out = device.alloc(rule.numbers(false)).unwrap();
    let layout = MessageLayout::Structures;
    let messages = Messages::list(&words, layout, 4);
    device.joint_receive(&rule, &messages, &brick, None, &mut out).unwrap();
    // Messages are not where there is no room for them.
    let beyond = Messages { first: 1, ..messages };
    assert!(device.joint_receive(&rule, &beyond, &brick, None, &mut out).is_err());
    // Nor by a brick without cells, nor is a bin of more than 8 bits another one.
    let nowhere = Brick { cells: Block { dims: [0; 3], ..brick.cells }, ..brick };
    device.joint_receive(&rule, &messages, &nowhere, None, &mut out).unwrap();
    let large = device.upload(&[256 + 3, 6 * 256, 6 * 256]).unwrap();
    let messages = Messages::list(&large, layout, 1);
    device.joint_receive(&rule, &messages, &brick, None, &mut out).unwrap();
    assert!(device.into_host(out).unwrap().iter().all(|&n| n == 0));
}

pub(crate) fn errors<D: Device>(device: &D) {
    let pair = Pair::<u8>::new([9, 8, 1], [20, 16, 1], 2);
    let map = FixedPointMap::new(&voxalign_compute::IDENTITY).unwrap();
    let plain = pair.rule(map, 8, Window::Plain);
    let (bins, pixels) = (device.upload(&pair.bins).unwrap(), device.upload(&pair.pixels).unwrap());
    let whole = Block::whole(pair.fixed);
    let moving = Block::whole(pair.moving);
    let add = |rule: &JointRule, part: Block, stored: Block, len: usize, table: Option<usize>| {
        let fixed = FixedPart { block: whole, bins: &bins, part };
        let brick = Brick::new(stored, pair.moving, Pixels::on_device::<u8>(&pixels));
        let table = table.map(|n| device.alloc(n).unwrap());
        let mut out = device.alloc(len).unwrap();
        device.joint_add(rule, &fixed, &[brick], table.as_ref(), &mut out)
    };
    let cubic = JointRule { window: Window::Cubic, ..plain };
    let len = plain.numbers(false);
    assert!(add(&plain, whole, moving, len, None).is_ok());
    let slopes = cubic.numbers(true);
    assert!(add(&cubic, whole, moving, slopes, Some(cubic.entries())).is_ok());
    let outside = Block { origin: [4, 0, 0], dims: [6, 8, 1] };
    assert!(add(&plain, outside, moving, len, None).is_err(), "a part outside of its block");
    assert!(add(&plain, whole, whole, len, None).is_err(), "fewer pixels than a block has");
    assert!(add(&plain, whole, moving, len - 1, None).is_err(), "a short output");
    assert!(add(&plain, whole, moving, slopes, Some(plain.entries())).is_err(), "plain slopes");
    assert!(add(&cubic, whole, moving, slopes, Some(3)).is_err(), "a short table");
    let shifted = Block { origin: [1, 0, 0], ..moving };
    assert!(add(&plain, whole, shifted, len, None).is_err(), "a block beyond the image");
}

/// Slopes that could overflow are held at the largest that are allowed.
pub(crate) fn large_slopes<D: Device>(device: &D) {
    let pair = Pair::<u16>::new([30, 20, 1], [28, 21, 1], 3);
    let rule = pair.rule(turned(&pair, 0.3, 1.0, 0.5), 9, Window::Cubic);
    let sign = |i: usize| if i.is_multiple_of(3) { 1 } else { -1 };
    let large: Vec<i32> = (0..rule.entries()).map(|i| sign(i) * (i32::MAX - i as i32)).collect();
    let held: Vec<i32> = (0..rule.entries()).map(|i| sign(i) * (1 << 22)).collect();
    let expected = Reference::new(&pair, &rule, Some(&held));
    let (bins, pixels) = (device.upload(&pair.bins).unwrap(), device.upload(&pair.pixels).unwrap());
    let fixed = [upload_part(&bins, Block::whole(pair.fixed))];
    let bricks =
        [Brick::new(Block::whole(pair.moving), pair.moving, Pixels::on_device::<u16>(&pixels))];
    let found = numbers(device, &rule, &fixed, &bricks, Some(&large));
    check(&expected, &rule, &found, true, "large slopes");
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    each_case::<u8>(|pair, rule, slopes, case| {
        let table = slopes.then(|| table(rule, 3));
        let (bins, pixels) =
            (device.upload(&pair.bins).unwrap(), device.upload(&pair.pixels).unwrap());
        let fixed = [upload_part(&bins, Block::whole(pair.fixed))];
        let bricks =
            [Brick::new(Block::whole(pair.moving), pair.moving, Pixels::on_device::<u8>(&pixels))];
        let found = numbers(device, rule, &fixed, &bricks, table.as_deref());
        // Numbers of slopes stand for sums in several ways.
        let list = match slopes {
            false => found.iter().map(|&n| n as f32).collect(),
            true => {
                let found = JointSlopes::from_numbers(&found).unwrap();
                found.force.iter().chain(found.moment.iter().flatten()).map(|&n| n as f32).collect()
            }
        };
        results.push((case.to_owned(), list));
    });
    results
}
