//! Several volumes in a series: times, echoes, directions of diffusion, kinds, and all of these together.

use crate::frames::enhanced;
use crate::writer::*;
use voxalign_io::image::{ReadOptions, open, read_info, read_info_from_bytes, read_volume_of};

/// Two slices of each of some volumes, which the attributes that are given tell from each other.
fn series(volumes: &[&[(u32, V)]]) -> Vec<Set> {
    let mut sets = Vec::new();
    for (v, own) in volumes.iter().enumerate() {
        for (k, mut set) in stack("1.2.3", 2).into_iter().enumerate() {
            set.insert(0x0008_0018, V::Text(b"UI", format!("1.2.3.{v}.{k}")));
            set.insert(0x0008_0060, V::Text(b"CS", "MR".into()));
            set.insert(0x0028_1052, ds(&[1000.0 * v as f64]));
            set.remove(&0x0020_0013);
            set.extend(own.iter().cloned());
            sets.push(set);
        }
    }
    sets
}

/// The first values of the volumes in their order, as the number that they have in the list.
fn order(sets: &[Set]) -> Vec<usize> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", sets, Form::Explicit);
    let info = read_info(folder.path()).unwrap();
    assert_eq!(info.volume_names.len(), info.volumes(), "{:?}", info.volume_names);
    let first = |v: usize| {
        let options = ReadOptions { volume: Some(v), ..ReadOptions::default() };
        let value = read_volume_of(folder.path(), &options).unwrap().0.data()[0];
        ((value + 50.0) / 1000.0).round() as usize
    };
    (0..info.volumes()).map(first).collect()
}

#[test]
fn combinations_tell_volumes_apart() {
    let of = |echo: f64, time: i64| vec![(0x0018_0081, ds(&[echo])), (0x0020_0100, is(time))];
    let all = [of(20.0, 2), of(3.0, 1), of(20.0, 1), of(3.0, 2)];
    let all: Vec<&[(u32, V)]> = all.iter().map(|v| &v[..]).collect();
    // By times, and within each by echoes.
    assert_eq!(order(&series(&all)), [1, 2, 3, 0]);
}

#[test]
fn volumes_have_the_order_of_their_times() {
    // The numbers of acquisitions run against their times.
    let of = |number: i64, time: &str| {
        vec![(0x0020_0012, is(number)), (0x0008_0032, V::Text(b"TM", time.into()))]
    };
    let all = [of(3, "101500.00"), of(1, "101502.00"), of(2, "101501.00")];
    let all: Vec<&[(u32, V)]> = all.iter().map(|v| &v[..]).collect();
    assert_eq!(order(&series(&all)), [0, 2, 1]);
    // Where all have one time, the numbers of instances say it.
    let mut sets = series(&all);
    for (n, set) in sets.iter_mut().enumerate() {
        set.insert(0x0008_0032, V::Text(b"TM", "101500".into()));
        set.insert(0x0020_0013, is(n as i64));
    }
    assert_eq!(order(&sets), [0, 1, 2]);
}

#[test]
fn numbers_of_instances_are_the_last_resort() {
    let folder = tempfile::tempdir().unwrap();
    let mut sets = series(&[&[], &[], &[]]);
    for (n, set) in sets.iter_mut().enumerate() {
        set.insert(0x0020_0013, is(100 - n as i64));
    }
    assert_eq!(order(&sets), [2, 1, 0]);
    // Without them nothing is known.
    sets.iter_mut().for_each(|set| _ = set.remove(&0x0020_0013));
    write(folder.path(), "a", &sets, Form::Explicit);
    let said = read_info(folder.path()).unwrap_err().to_string();
    assert!(said.contains("several slices are at the same place"), "{said}");
}

#[test]
fn magnitude_and_phase_in_one_file_are_two_volumes() {
    let mut set = enhanced(&[0, 1], 2, true);
    let Some(V::Items(frames, _)) = set.get_mut(&0x5200_9230) else { panic!() };
    for (n, frame) in frames.iter_mut().enumerate() {
        frame.remove(&0x0020_9111);
        let kind = ["ORIGINAL\\PRIMARY\\M", "ORIGINAL\\PRIMARY\\P"][n / 2];
        let kind = Set::from([(0x0008_9007, V::Text(b"CS", kind.into()))]);
        frame.insert(0x0018_9226, V::Items(vec![kind], true));
    }
    let info = read_info_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap();
    assert_eq!(info.dims, [4, 3, 2, 2]);
    assert_eq!(info.volume_names, ["ORIGINAL\\PRIMARY\\M", "ORIGINAL\\PRIMARY\\P"]);
    assert!(info.own_scales && info.unscaled_type().is_none());
}

#[test]
fn dimensions_of_a_file_tell_volumes_apart() {
    let mut set = enhanced(&[0, 1], 2, true);
    let pointer = |tag: u32| {
        let [a, b, c, d] = tag.to_be_bytes();
        Set::from([(0x0020_9165, V::Bytes(b"AT", vec![b, a, d, c]))])
    };
    set.insert(0x0020_9222, V::Items(vec![pointer(0x0020_9057), pointer(0x0018_9999)], true));
    let Some(V::Items(frames, _)) = set.get_mut(&0x5200_9230) else { panic!() };
    for (n, frame) in frames.iter_mut().enumerate() {
        let values = [n % 2 + 1, n / 2 + 1].into_iter().flat_map(|v| (v as u32).to_le_bytes());
        let index = Set::from([(0x0020_9157, V::Bytes(b"UL", values.collect()))]);
        frame.insert(0x0020_9111, V::Items(vec![index], true));
    }
    let info = read_info_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap();
    assert_eq!((info.dims, info.volume_names), (vec![4, 3, 2, 2], vec!["1".into(), "2".into()]));
}

#[test]
fn directions_of_diffusion_follow_the_axes_of_the_image() {
    let direction = |v: [f64; 3]| {
        let item = Set::from([(0x0018_9089, V::F64(v.to_vec()))]);
        (0x0018_9076, V::Items(vec![item], true))
    };
    let b = |value: f64| (0x0018_9087, V::F64(vec![value]));
    let group = |b: (u32, V), v: Option<(u32, V)>| {
        let item = std::iter::once(b).chain(v).collect();
        vec![(0x0018_9117, V::Items(vec![item], true))]
    };
    let all = [
        group(b(1000.0), Some(direction([0.0, 1.0, 0.0]))),
        group(b(0.0), None),
        group(b(1000.0), Some(direction([0.6, 0.0, -0.8]))),
    ];
    let all: Vec<&[(u32, V)]> = all.iter().map(|v| &v[..]).collect();
    let sets = series(&all);
    assert_eq!(order(&sets), [1, 0, 2]);
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", &sets, Form::Explicit);
    let image = open(folder.path(), &ReadOptions::default()).unwrap();
    // Axial slices that are stacked upwards are right-handed: x is turned round.
    assert!(image.info().grid.is_right_handed());
    let found = image.sidecar(None).unwrap().unwrap().diffusion.unwrap();
    let expected = [(0.0, [0.0; 3]), (1000.0, [0.0, 1.0, 0.0]), (1000.0, [-0.6, 0.0, -0.8])];
    for ((b, v), (expected_b, expected)) in found.iter().zip(&expected) {
        assert_eq!(b, expected_b);
        assert!(v.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{v:?} {expected:?}");
    }
    let one = image.sidecar(Some(2)).unwrap().unwrap();
    assert_eq!(one.diffusion.unwrap().len(), 1);
}
