//! Operators over many images.

use crate::common::{Place, grid};
use voxalign_image::Volume;
use voxalign_io::image::{DataType, read_volume};

const DIMS: [usize; 3] = [8, 7, 5];

fn image(seed: usize) -> Volume<f32> {
    Volume::from_fn(grid(DIMS, 2.0), |x, y, z| {
        ((x * 5 + y * 3 + z * 7 + seed * 11) % 13) as f32 - 4.0
    })
}

/// Five images `0.nii.gz` to `4.nii.gz`.
fn five(place: &Place) -> Vec<Volume<f32>> {
    let images: Vec<_> = (0..5).map(image).collect();
    for (i, image) in images.iter().enumerate() {
        place.image(&format!("{i}.nii.gz"), image);
    }
    images
}

const ALL: &str = "0.nii.gz 1.nii.gz 2.nii.gz 3.nii.gz 4.nii.gz";

fn assert_image(place: &Place, name: &str, images: &[Volume<f32>], f: impl Fn(&[f64]) -> f64) {
    let found = read_volume(place.path(name)).unwrap();
    assert!(found.grid().approx_eq(images[0].grid(), 1e-3));
    for (i, v) in found.data().iter().enumerate() {
        let values: Vec<f64> = images.iter().map(|im| im.data()[i].into()).collect();
        let expected = f(&values);
        assert!((f64::from(*v) - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{name}: {i}");
    }
}

#[test]
fn operators_with_one_image() {
    let place = Place::new();
    let images = five(&place);
    type Of = fn(&[f64]) -> f64;
    let cases: [(&str, Of); 5] = [
        ("mean", |v| v.iter().sum::<f64>() / 5.0),
        ("max", |v| v.iter().fold(f64::MIN, |a, b| a.max(*b))),
        ("min", |v| v.iter().fold(f64::MAX, |a, b| a.min(*b))),
        ("product", |v| v.iter().product()),
        ("variance", |v| {
            let mean = v.iter().sum::<f64>() / 5.0;
            v.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 4.0
        }),
    ];
    for (operation, expected) in cases {
        let mut bytes = None;
        for threads in [1, 3] {
            let line =
                format!("stack {operation} {ALL} -o out.nii --device cpu --threads {threads}");
            let run = place.line(&line).expect(0);
            assert!(run.out.contains(&format!("{operation} of 5 images on cpu")), "{}", run.out);
            assert_image(&place, "out.nii", &images, expected);
            let now = std::fs::read(place.path("out.nii")).unwrap();
            assert_eq!(*bytes.get_or_insert_with(|| now.clone()), now);
        }
    }
    // The order of the images does not matter.
    let one = std::fs::read(place.path("out.nii")).unwrap();
    let turned: Vec<_> = ALL.split(' ').rev().collect();
    place.line(&format!("stack variance {} -o out.nii -q", turned.join(" "))).expect(0);
    assert_eq!(std::fs::read(place.path("out.nii")).unwrap(), one);
}

#[test]
fn weights_and_lists() {
    let place = Place::new();
    let images = five(&place);
    let weighted = |v: &[f64]| (v[0] + 3.0 * v[1] + 4.0 * v[4]) / 8.0;
    place.line(&format!("stack mean {ALL} --weights 1,3,0,0,4 -o a.nii")).expect(0);
    assert_image(&place, "a.nii", &images, weighted);
    place.write("list.csv", "path,weight\n4.nii.gz,4\n1.nii.gz,3\n0.nii.gz,1\n");
    place.line("stack mean --list list.csv -o b.nii").expect(0);
    assert_image(&place, "b.nii", &images, weighted);
    assert_eq!(
        std::fs::read(place.path("a.nii")).unwrap(),
        std::fs::read(place.path("b.nii")).unwrap()
    );
    place.line("stack max --list list.csv -o c.nii").expect(2).says(&["weights are for mean"]);
    place.write("plain.csv", "path,age\n4.nii.gz,70\n1.nii.gz,60\n");
    place.line("stack max --list plain.csv -o d.nii").expect(0);
    let two = [images[4].clone(), images[1].clone()];
    assert_image(&place, "d.nii", &two, |v| v[0].max(v[1]));
    place.write("two.csv", "path,channel2\n4.nii.gz,0.nii.gz\n");
    place.line("stack max --list two.csv -o c.nii").expect(2).says(&["channel2"]);
    place.line(&format!("stack mean {ALL} --weights 1,2 -o c.nii")).expect(2).says(&["2 for 5"]);
    place.line(&format!("stack mean {ALL} --weights 1,2,3,4,-1 -o c.nii")).expect(2).says(&["-1"]);
    place.line(&format!("stack mean {ALL} --list list.csv -o c.nii")).expect(2).says(&["--list"]);
    place.write("list.csv", "name\n4.nii.gz\n");
    place
        .line("stack mean --list list.csv -o c.nii")
        .expect(2)
        .says(&["list.csv", "no column 'path'"]);
    assert!(!place.names().contains(&"c.nii".to_owned()));
}

#[test]
fn energies() {
    let place = Place::new();
    let images = five(&place);
    let energy = |i: usize, reference: Option<usize>| -> f64 {
        let other = |k: usize| reference.map_or(0.0, |r| f64::from(images[r].data()[k]));
        images[i].data().iter().enumerate().map(|(k, v)| (f64::from(*v) - other(k)).powi(2)).sum()
    };
    for (option, reference) in [("", None), (" --reference 2.nii.gz", Some(2))] {
        let run = place.line(&format!("stack energy {ALL}{option} -o e.csv")).expect(0);
        let text = std::fs::read_to_string(place.path("e.csv")).unwrap();
        let rows: Vec<_> = text.lines().collect();
        assert_eq!((rows[0], rows.len()), ("path,energy", 6));
        for (i, row) in rows[1..].iter().enumerate() {
            let (path, value) = row.split_once(',').unwrap();
            assert_eq!(path, format!("{i}.nii.gz"));
            assert!((value.parse::<f64>().unwrap() - energy(i, reference)).abs() < 1e-6);
        }
        let total: f64 = (0..5).map(|i| energy(i, reference)).sum();
        assert!(run.out.contains(&format!("total energy: {total}")), "{}", run.out);
    }
    place.line(&format!("stack energy {ALL} -o e.nii")).expect(2).says(&["e.nii", "a table"]);
    place.image("other.nii", &Volume::filled(grid(DIMS, 2.5), 0.0));
    let line = format!("stack energy {ALL} --reference other.nii -o e.csv");
    place.line(&line).expect(2).says(&["--reference", "other.nii", "grid"]);
}

#[test]
fn operators_with_a_folder() {
    let place = Place::new();
    let images = five(&place);
    place.image("pair.hdr", &images[0]);
    let names = ["0.nii.gz", "1.nii.gz", "2.nii.gz", "3.nii.gz", "4.nii.gz"];
    place.line(&format!("stack normalise {ALL} -o out/range --range -1,1")).expect(0);
    let folder = place.path("out/range");
    let all: Vec<_> = names.iter().copied().chain(["result.json"]).collect();
    assert_eq!(crate::common::names(&folder), all);
    for name in names {
        let found = read_volume(folder.join(name)).unwrap();
        let range = found.data().iter().fold((9.0f32, -9.0f32), |a, v| (a.0.min(*v), a.1.max(*v)));
        assert_eq!(range, (-1.0, 1.0));
    }
    place.line(&format!("stack normalise {ALL} pair.hdr -o standard")).expect(0);
    assert!(crate::common::names(&place.path("standard")).contains(&"pair.nii.gz".to_owned()));
    let found = read_volume(place.path("standard/3.nii.gz")).unwrap();
    let mean = found.data().iter().sum::<f32>() / found.data().len() as f32;
    assert!(mean.abs() < 1e-5);

    place.line(&format!("stack window-mean {ALL} -o window --window 5")).expect(0);
    assert_image(&place, "window/2.nii.gz", &images, |v| v.iter().sum::<f64>() / 5.0);
    assert_image(&place, "window/0.nii.gz", &images[..3], |v| v.iter().sum::<f64>() / 3.0);
    place.line(&format!("stack window-mean {ALL} -o window")).expect(0);
    assert_image(&place, "window/4.nii.gz", &images[3..], |v| v.iter().sum::<f64>() / 2.0);

    place.line(&format!("stack smooth {ALL} -o smooth --sigma 3 -v")).expect(0).says(&["5 of 5"]);
    let [rough, smooth] =
        ["1.nii.gz", "smooth/1.nii.gz"].map(|n| read_volume(place.path(n)).unwrap());
    let spread = |v: &Volume<f32>| {
        let data = v.data();
        let mean = data.iter().sum::<f32>() / data.len() as f32;
        data.iter().map(|v| (v - mean).powi(2)).sum::<f32>()
    };
    assert!(spread(&smooth) < 0.1 * spread(&rough));
}

fn record(place: &Place, name: &str) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(place.path(name)).unwrap()).unwrap()
}

/// What a run leaves beside its result.
#[test]
fn records() {
    let place = Place::new();
    let images = five(&place);
    place.image("pair.hdr", &images[0]);
    place.write("list.csv", "path,weight\n4.nii.gz,2\npair.hdr,1\n");
    place.line("stack mean --list list.csv -o mean.nii.gz").expect(0);
    let found = record(&place, "mean.nii.gz.json");
    assert_eq!(found["program"], "voxalign stack");
    assert_eq!(found["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(found["command"].as_array().unwrap().len(), 7);
    assert_eq!(found["parameters"]["operation"], "mean");
    assert_eq!(found["parameters"]["data_type"], "f32");
    assert_eq!(found["parameters"]["weights"], serde_json::json!([2.0, 1.0]));
    assert_eq!(found["figures"]["images"], 2.0);
    assert_eq!(found["grid"]["dims"], serde_json::json!(DIMS));
    assert!(found["timings"]["stream_read"].as_f64().unwrap() > 0.0);
    // Every file that was read, with the checksum of all of its bytes.
    let inputs = found["inputs"].as_array().unwrap();
    let roles: Vec<_> = inputs.iter().map(|i| i["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["image", "image", "image_data", "list"]);
    for input in inputs {
        let path = place.path(input["path"].as_str().unwrap());
        assert_eq!(input["sha256"], voxalign_io::checksum::sha256_file(path).unwrap(), "{input}");
    }
    // Values behind a header, big integers that are converted, and a format of its own.
    place.image_as("plain.nii", &images[1], DataType::F32);
    place.image_as("whole.mha", &images[2], DataType::I32);
    place.image_as("other.nrrd", &images[3], DataType::F64);
    place.line("stack variance plain.nii whole.mha other.nrrd -o v.nii").expect(0);
    let inputs = record(&place, "v.nii.json")["inputs"].clone();
    assert_eq!(inputs.as_array().unwrap().len(), 3);
    for input in inputs.as_array().unwrap() {
        let path = place.path(input["path"].as_str().unwrap());
        assert_eq!(input["sha256"], voxalign_io::checksum::sha256_file(path).unwrap(), "{input}");
    }
    place.line(&format!("stack energy {ALL} -o e.csv --reference 2.nii.gz")).expect(0);
    let found = record(&place, "e.csv.json");
    assert!(found["figures"]["total_energy"].as_f64().unwrap() > 0.0);
    assert_eq!(found["inputs"][5]["role"], "reference");
    place.line(&format!("stack window-mean {ALL} -o folder")).expect(0);
    let found = record(&place, "folder/result.json");
    assert_eq!(found["parameters"]["window"], 3);
    let outputs = found["outputs"].as_array().unwrap();
    assert_eq!(outputs.len(), 6);
    assert!(outputs.iter().all(|o| place.path(o["path"].as_str().unwrap()).is_file()));
    // A result of two files, and an input of the record's name.
    place.line(&format!("stack max {ALL} -o two.hdr")).expect(0);
    assert_image(&place, "two.hdr", &images, |v| v.iter().fold(f64::MIN, |a, b| a.max(*b)));
    assert!(place.names().iter().all(|n| !n.starts_with('.')), "{:?}", place.names());
    place.write("x.nii.json", "path\n4.nii.gz\n");
    place.line("stack mean --list x.nii.json -o x.nii").expect(2).says(&["never overwritten"]);
}

/// What the values are stored as.
#[test]
fn data_types() {
    let place = Place::new();
    for i in 0..3 {
        place.image_as(&format!("{i}.nii"), &image(i), DataType::I16);
        place.image_as(&format!("{i}w.nii"), &image(i), DataType::I32);
    }
    let stored = |name: &str| voxalign_io::image::read_info(place.path(name)).unwrap().data_type;
    for (line, data_type) in [
        ("max 0.nii 1.nii 2.nii", DataType::I16),
        ("min 0.nii 1.nii 2.nii", DataType::I16),
        ("max 0.nii 1w.nii", DataType::F32),
        ("max 0w.nii 1w.nii", DataType::F32),
        ("mean 0.nii 1.nii", DataType::F32),
        ("variance 0.nii 1.nii", DataType::F32),
        ("product 0.nii 1.nii", DataType::F32),
        ("max 0.nii 1.nii --data-type f64", DataType::F64),
    ] {
        let run = place.line(&format!("stack {line} -o out.nii")).expect(0);
        assert!(!run.err.contains("rounded"), "{line}: {}", run.err);
        assert_eq!(stored("out.nii"), data_type, "{line}");
        let known = record(&place, "out.nii.json")["parameters"]["data_type"].clone();
        assert_eq!(known, data_type.to_string());
    }
    let says = |line: &str| place.line(line).expect(0).err;
    let err = says("stack mean 0.nii 1.nii -o out.nii --data-type u8");
    assert!(err.contains("stored as u8") && err.contains("rounded"), "{err}");
    let err = says("stack normalise 0.nii 1.nii -o out --range 0,1 --data-type i8");
    assert!(err.contains("stored as i8") && err.contains("rounded"), "{err}");
    assert_eq!(stored("out/1.nii"), DataType::I8);
    place.line("stack energy 0.nii -o e.csv --data-type u8").expect(2).says(&["--data-type"]);
}

/// The memory for 300 images is that for 10.
#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow() {
    let place = Place::new();
    let dims = [64; 3];
    for i in 0..3 {
        let image = Volume::from_fn(grid(dims, 1.0), |x, y, z| {
            ((x * 5 + y * 3 + z * 7 + i * 11) % 1013) as f32 + 0.25
        });
        place.image_as(&format!("of{i}.nii"), &image, DataType::F32);
    }
    let of = |k: usize| place.path(&format!("of{}.nii", k % 3));
    let names: Vec<_> = (0..300).map(|k| format!("{k}.nii")).collect();
    for (k, name) in names.iter().enumerate() {
        std::fs::hard_link(of(k), place.path(name)).unwrap();
    }
    for (operation, out, sidecar) in
        [("mean", "mean.nii", "mean.nii.json"), ("normalise", "out", "out/result.json")]
    {
        let peak = |count: usize| {
            let mut words = vec!["stack", operation];
            words.extend(names[..count].iter().map(String::as_str));
            words.extend(["-o", out, "-q", "--device", "cpu", "--threads", "2"]);
            place.run(&words).expect(0);
            let found = record(&place, sidecar);
            assert_eq!(found["inputs"].as_array().unwrap().len(), count);
            found["peak_memory_bytes"].as_u64().unwrap()
        };
        // What threads happen to hold at once is more in one run than in another.
        let least = |count: usize| (0..3).map(|_| peak(count)).min().unwrap();
        let [few, many] = [least(10), least(300)];
        // 290 images more take 290 MiB; the list of files is less than three.
        let image = 4 * dims.iter().product::<usize>() as u64;
        assert!(many < few + 3 * image, "{operation}: {few} bytes for 10, {many} for 300");
        assert!(few > 4 * image, "{few} cannot be the memory of a stream");
    }
}

/// Nothing is left of a result that did not come about.
#[test]
fn bad_input() {
    let place = Place::new();
    five(&place);
    place.image("other.nii", &Volume::filled(grid([8, 7, 6], 2.0), 0.0));
    let mut hole = image(9);
    hole.data_mut()[DIMS[0] * DIMS[1] + 2] = f32::INFINITY;
    place.image_as("hole.nii", &hole, DataType::F32);
    place.write("bad.nii", "nothing");
    let before = place.names();
    for operation in ["mean", "product", "normalise", "window-mean"] {
        let folder = ["normalise", "window-mean"].contains(&operation);
        let out = if folder { "out" } else { "out.nii" };
        for (bad, says) in [
            ("other.nii", "voxalign apply"),
            ("hole.nii", "[2, 0, 1]"),
            ("bad.nii", "bad.nii"),
            ("none.nii", "none.nii"),
        ] {
            let line = format!("stack {operation} {ALL} {bad} -o {out}");
            place.line(&line).expect(2).says(&[bad, says]);
            assert_eq!(place.names(), before, "{line}");
        }
    }
    for (line, says) in [
        ("stack mean 0.nii.gz 1.nii.gz -o 1.nii.gz".to_owned(), "never overwritten"),
        (format!("stack smooth {ALL} -o . --sigma 1"), "never overwritten"),
        (format!("stack smooth {ALL} -o out"), "--sigma"),
        (format!("stack smooth {ALL} -o out --sigma -1"), "sigma"),
        (format!("stack mean {ALL} -o out.nii --sigma 2"), "--sigma is for smooth"),
        (format!("stack mean {ALL} -o out.nii --reference 0.nii.gz"), "--reference is for energy"),
        (format!("stack window-mean {ALL} -o out --window 4"), "odd"),
        (format!("stack normalise {ALL} -o out --range 1"), "the lower number first"),
        (format!("stack normalise {ALL} -o out --range 2,1"), "the lower number first"),
        (
            format!("stack smooth {ALL} ./0.nii.gz -o out --sigma 1"),
            "give the images different names",
        ),
        (format!("stack mean {ALL} -o out.csv"), "an image"),
        ("stack variance 0.nii.gz -o out.nii".to_owned(), "at least two"),
        ("stack mean -o out.nii".to_owned(), "IMAGES"),
        (format!("stack median {ALL} -o out.nii"), "variance"),
    ] {
        place.line(&line).expect(2).says(&[says]);
        assert_eq!(place.names(), before, "{line}");
    }
}
