//! Affine registrations of images that are read in blocks.

use crate::apply_pyramids::lps;
use crate::common::Place;
use serde_json::Value;
use std::fs;
use voxalign_image::{Affine, Grid, Matrix3, Transform, Vector3, Volume};
use voxalign_io::image::{DataType, Region, read_info};
use voxalign_io::pyramid::{Pixels, PyramidOptions, PyramidToWrite, PyramidWriter, open};
use voxalign_io::transform::{Geometry, read};

/// A number from 0 to 1 of two whole ones.
fn noise(x: i64, y: i64) -> f64 {
    let mut h = (x as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ (y as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    h ^= h >> 29;
    h = h.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h ^= h >> 32;
    (h >> 40) as f64 / (1u64 << 24) as f64
}

/// Smooth noise with cells of this size.
fn texture(p: [f64; 2], cell: f64) -> f64 {
    let at = p.map(|v| v / cell);
    let low = at.map(f64::floor);
    let part = [0, 1].map(|a| {
        let t = at[a] - low[a];
        t * t * (3.0 - 2.0 * t)
    });
    let of = |i: i64, j: i64| noise(low[0] as i64 + i, low[1] as i64 + j);
    let row = |j| of(0, j) * (1.0 - part[0]) + of(1, j) * part[0];
    row(0) * (1.0 - part[1]) + row(1) * part[1]
}

/// A piece of tissue of some millimetres, at a point of its plane.
fn tissue(p: [f64; 2]) -> f64 {
    let [x, y] = [p[0] + 0.7, p[1] + 0.5];
    let edge = 0.45 + 0.1 * (texture([x, y], 0.25) - 0.5);
    let far = (x * x / 1.6 + y * y).sqrt();
    if far > edge {
        return 0.0;
    }
    60.0 + 110.0 * texture([x, y], 0.09) + 60.0 * texture([x + 9.0, y], 0.013)
}

fn fixed_grid() -> Grid {
    lps([1400, 1000, 1], 0.001)
}

/// Fixed to moving, mm.
fn map() -> Affine {
    let (s, c) = 0.3f64.sin_cos();
    let turn = Matrix3::new(1.03 * c, -s, 0.0, s, 0.97 * c, 0.0, 0.0, 0.0, 1.0);
    Affine::about(turn, Vector3::new(-0.7, -0.5, 0.0), Vector3::new(-0.05, 0.02, 0.0))
}

/// Writes an image of one level, whose value at a point of the world is this.
fn write(place: &Place, name: &str, grid: &Grid, value: impl Fn([f64; 2]) -> f64) {
    let mut what = PyramidToWrite::new(grid.clone(), DataType::U8);
    (what.tile, what.smallest) = (Some([256, 256, 1]), 1 << 20);
    let writer = PyramidWriter::create(place.path(name), &what).unwrap();
    let [nx, ny, _] = grid.dims();
    let pixel = |i: usize| {
        let at = grid.index_to_world(Vector3::new((i % nx) as f64, (i / nx) as f64, 0.0));
        value([at[0], at[1]]).round().clamp(0.0, 255.0) as u8
    };
    let pixels = Pixels::U8((0..nx * ny).map(pixel).collect());
    writer.write(&Region::whole(grid.dims()), pixels.view()).unwrap();
    writer.finish().unwrap();
}

/// A pair of sections in different formats, without coarser levels.
fn place() -> Place {
    let place = Place::new();
    write(&place, "fixed.tif", &fixed_grid(), tissue);
    let back = map().inverse().unwrap();
    let other = |p: [f64; 2]| {
        let at = back.apply(Vector3::new(p[0], p[1], 0.0));
        let value = tissue([at[0], at[1]]);
        // Another stain.
        if value > 0.0 { 270.0 - value } else { 0.0 }
    };
    write(&place, "moving.ome.zarr", &lps([1300, 1100, 1], 0.0011), other);
    place
}

fn record(place: &Place, folder: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(&format!("{folder}/result.json"))).unwrap())
        .unwrap()
}

/// How far corners of the fixed image are from where they belong, pixels.
fn off(place: &Place, folder: &str) -> f64 {
    let found = read(place.path(&format!("{folder}/affine.tfm")), &Geometry::default()).unwrap();
    let corners = fixed_grid().corners();
    let far = corners.map(|p| (found.apply(p) - map().apply(p)).norm() / 0.001);
    far.into_iter().fold(0.0, f64::max)
}

#[test]
fn a_section_is_found_by_every_strategy_with_the_same_bits() {
    let place = place();
    let line = "affine fixed.tif moving.ome.zarr -o auto --distributed auto --threads 2";
    place.line(line).expect(0).says(&["1 rank, strategy replicate"]);
    assert!(off(&place, "auto") < 1.0, "{}", off(&place, "auto"));
    let found = record(&place, "auto");
    let spread = &found["distributed"];
    assert_eq!(spread["asked"], "auto");
    assert_eq!(spread["scales"].as_array().unwrap().len(), 2);
    assert_eq!(spread["scales"][1]["dims"][0], serde_json::json!([1400, 1000, 1]));
    assert_eq!(spread["scales"][1]["strategy"], "replicate");
    assert!(spread["scales"][1]["samples"].as_u64().unwrap() > 1_000_000);
    assert_eq!(spread["images"][0]["made"], 1);
    assert_eq!(spread["images"][1]["levels"].as_array().unwrap().len(), 2);
    assert_eq!(found["parameters"]["distributed"], "auto");
    assert_eq!(found["inputs"].as_array().unwrap().len(), 2);
    assert!(found["inputs"][1]["sha256_of"].as_str().unwrap().contains("all files"));
    // The report has it, and levels that were made are gone.
    let page = fs::read_to_string(place.path("auto/report.html")).unwrap();
    assert!(page.contains("Blocks and ranks") && page.contains("replicate"));
    assert!(!place.path("auto/pyramids").exists());
    let warped = open(place.path("auto/warped.ome.zarr"), &PyramidOptions::default()).unwrap();
    assert_eq!(warped.levels()[0].dims(), [1400, 1000, 1]);
    assert!(warped.levels().len() >= 3);

    let bytes = |folder: &str| fs::read(place.path(&format!("{folder}/affine.tfm"))).unwrap();
    for (kind, more) in [
        ("replicate", "--threads 1"),
        ("halo", "--halo 0.1"),
        ("list", "--chunk 300 --streams 2"),
        ("peer", ""),
        ("stream", "--device-memory 600KiB"),
    ] {
        let line = format!(
            "affine fixed.tif moving.ome.zarr -o {kind} --distributed {kind} {more} --outputs affine --no-report --work levels"
        );
        place.line(&line).expect(0);
        assert_eq!(bytes(kind), bytes("auto"), "{kind}");
        let scale = &record(&place, kind)["distributed"]["scales"][1];
        assert_eq!(scale["strategy"], kind);
        assert!(!place.path(&format!("{kind}/warped.ome.zarr")).exists());
    }
    // The levels that were asked for stay.
    assert_eq!(fs::read_dir(place.path("levels")).unwrap().count(), 2);
}

#[test]
fn little_memory_takes_another_strategy() {
    let place = place();
    let line = "affine fixed.tif moving.ome.zarr -o out --distributed auto --device-memory 900KiB --outputs affine --no-report";
    place.line(line).expect(0);
    let found = record(&place, "out");
    let scale = &found["distributed"]["scales"][1];
    assert_eq!(scale["strategy"], "stream");
    let estimates = scale["estimates"].as_array().unwrap();
    assert_eq!(estimates.len(), 5);
    let whole = estimates.iter().find(|e| e["strategy"] == "replicate").unwrap();
    assert!(whole["device_bytes"].as_u64().unwrap() > 2_000_000 && whole["serves"] == false);
    assert!(off(&place, "out") < 1.0);
}

#[test]
fn a_mask_and_a_known_start_count() {
    let place = place();
    // Only the left half counts.
    write(&place, "mask.tif", &fixed_grid(), |p| if p[0] > -0.75 { 1.0 } else { 0.0 });
    let line = "affine fixed.tif moving.ome.zarr -o out --distributed auto --fixed-mask mask.tif --no-report --outputs affine";
    place.line(line).expect(0);
    let samples = record(&place, "out")["distributed"]["scales"][1]["samples"].as_u64().unwrap();
    // Less what is outside of the moving image.
    assert!((600_000..750_000).contains(&samples), "{samples}");
    assert!(off(&place, "out") < 2.0, "{}", off(&place, "out"));
    // A start that is scored as it is.
    let line = "affine fixed.tif moving.ome.zarr -o same --distributed auto --init out/affine.tfm --search none --no-report --outputs affine";
    place.line(line).expect(0);
    assert!((off(&place, "same") - off(&place, "out")).abs() < 1e-6);
}

#[test]
fn a_volume_is_found_as_well() {
    let place = Place::new();
    let value = |x: f64, y: f64, z: f64| {
        let r = ((x * x + y * y) / 1.3 + z * z).sqrt();
        if r > 55.0 {
            return 0.0;
        }
        300.0 + 500.0 * texture([x + 0.3 * z, y - 0.2 * z], 14.0) + 200.0 * texture([z, x], 9.0)
    };
    let grid = Grid::axis_aligned([150, 140, 130], [1.0; 3]).unwrap();
    let middle = Vector3::new(75.0, 70.0, 65.0);
    let of = |p: Vector3<f64>| value(p[0] - 75.0, p[1] - 70.0, p[2] - 65.0) as f32;
    let fixed =
        Volume::from_fn(grid.clone(), |x, y, z| of(Vector3::new(x as f64, y as f64, z as f64)));
    let (s, c) = 0.25f64.sin_cos();
    let turn = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0);
    let there: Affine = Affine::about(turn, middle, Vector3::new(3.0, -2.0, 1.5));
    let back = there.inverse().unwrap();
    let moving = Volume::from_fn(grid.clone(), |x, y, z| {
        of(back.apply(Vector3::new(x as f64, y as f64, z as f64)))
    });
    place.image_as("fixed.nii.gz", &fixed, DataType::U16);
    place.image_as("moving.nii", &moving, DataType::U16);
    place
        .line("affine fixed.nii.gz moving.nii -o out --distributed auto --dof 6 --threads 2")
        .expect(0);
    let found = read(place.path("out/affine.tfm"), &Geometry::default()).unwrap();
    let far = grid.corners().map(|p| (found.apply(p) - there.apply(p)).norm());
    assert!(far.into_iter().all(|d| d < 0.5), "{far:?}");
    let spread = &record(&place, "out")["distributed"];
    assert_eq!(spread["images"][0]["bits"], 16);
    // Packed, so that it was copied as well.
    assert_eq!(spread["images"][0]["made"], 2);
    assert_eq!(spread["images"][1]["made"], 1);
    let info = read_info(place.path("out/warped.nii.gz")).unwrap();
    assert_eq!(info.grid.dims(), [150, 140, 130]);
}

#[test]
fn a_dry_run_looks_at_the_files_alone() {
    let place = place();
    let run = place
        .line("affine fixed.tif moving.ome.zarr -o out --distributed auto --dry-run")
        .expect(0);
    for part in ["fixed.tif", "1400 x 1000 x 1", "moving.ome.zarr", "warped.ome.zarr", "affine.tfm"]
    {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    assert!(!run.err.contains("pixels"), "{}", run.err);
    // One image alone says how large its pixels are.
    without_size(&place, "plain.tif", [90, 70]);
    let line = "affine fixed.tif plain.tif -o out --distributed auto --dry-run";
    place.line(line).expect(0).says(&["'fixed.tif' are 0.001 mm", "'plain.tif' does not say how"]);
    assert!(!place.path("out").exists());
}

/// Writes a TIFF file of one strip that does not say how large its pixels are.
fn without_size(place: &Place, name: &str, [nx, ny]: [u32; 2]) {
    let values = [nx, ny, 8, 1, 1, 8 + 2 + 9 * 12 + 4, 1, ny, nx * ny];
    let tags = [256u16, 257, 258, 259, 262, 273, 277, 278, 279];
    let mut bytes = b"II\x2a\0\x08\0\0\0\x09\0".to_vec();
    for (tag, value) in tags.into_iter().zip(values) {
        // One number of 32 bits.
        bytes.extend(tag.to_le_bytes());
        bytes.extend([4, 0, 1, 0, 0, 0]);
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend([0; 4]);
    bytes.extend((0..nx * ny).map(|i| (i % 251) as u8));
    fs::write(place.path(name), bytes).unwrap();
}

#[test]
fn what_does_not_serve_is_refused_before_anything_is_written() {
    let place = place();
    let pair = "affine fixed.tif moving.ome.zarr -o out";
    let spread = format!("{pair} --distributed auto");
    let grid = Grid::axis_aligned([40, 30, 20], [1.0; 3]).unwrap();
    let volume = Volume::from_fn(grid, |x, y, z| (x * 3 + y + z) as f32);
    place.image_as("volume.nii", &volume, DataType::U8);
    place.image_as("floats.nii", &volume, DataType::F32);
    write(&place, "small.tif", &lps([700, 500, 1], 0.002), tissue);
    for (line, said) in [
        (format!("{pair} --halo 0.1"), "--halo is for --distributed auto, halo, list and peer"),
        (format!("{pair} --streams 2"), "--streams is for --distributed list"),
        (format!("{pair} --work levels"), "--work is for --distributed auto"),
        (format!("{pair} --device-memory 1GiB"), "--device-memory is for --distributed auto"),
        (format!("{pair} --distributed all"), "auto"),
        (format!("{spread} --chunk 3"), "--chunk is for --distributed list"),
        (format!("{pair} --distributed halo --halo 2"), "give a fraction from 0 to 1"),
        (format!("{spread} --cost ncc"), "give mi or nmi"),
        (format!("{spread} --cost mi --bins 200"), "give 2 to 128"),
        (
            format!("{spread} --moving-mask small.tif"),
            "--moving-mask is for images that are registered as wholes",
        ),
        (
            format!("{spread} --fixed-labels small.tif --moving-labels small.tif"),
            "--fixed-labels is for",
        ),
        (format!("{spread} --fixed-channel 4"), "no channel 4"),
        (format!("{spread} --moving-window 0,1"), "--moving-window"),
        (format!("{spread} --moving-window 1,0"), "the lower one first"),
        (format!("{spread} --fixed-mask small.tif"), "--fixed-mask"),
        (format!("{spread} --gpus 2 --device cpu"), "--gpus is for GPUs"),
        (
            "affine fixed.tif nothing.tif -o out --distributed auto".to_owned(),
            "'nothing.tif': no such file",
        ),
        (
            "affine fixed.tif volume.nii -o out --distributed auto".to_owned(),
            "both must be 2D or both 3D",
        ),
        ("affine volume.nii floats.nii -o out --distributed auto".to_owned(), "--moving-window"),
        (
            "affine fixed.tif moving.ome.zarr -o . --distributed stream --device-memory 1KiB"
                .to_owned(),
            "device",
        ),
        // What the strategy needs is known before anything is searched, also without a device.
        (
            format!("{pair} --distributed replicate --device-memory 2MiB"),
            "--device-memory is 2.0 MiB; this strategy needs",
        ),
        (
            format!("{pair} --distributed replicate --device-memory 1MiB --dry-run"),
            "--device-memory is 1.0 MiB; this strategy needs 1.4 MiB",
        ),
    ] {
        let run = place.line(&line).expect(2);
        assert!(run.err.contains(said), "{line}: {}", run.err);
        assert!(!place.path("out").exists(), "{line}");
    }
    assert!(!place.path("pyramids").exists());
}

#[test]
fn a_missing_chunk_is_named_or_background() {
    let place = place();
    let tile = place.path("moving.ome.zarr/0");
    let mut files = Vec::new();
    let mut next = vec![tile];
    while let Some(path) = next.pop() {
        match path.is_dir() {
            true => next.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path())),
            false if path.file_name().unwrap().to_string_lossy().starts_with('.') => {}
            false => files.push(path),
        }
    }
    files.sort();
    // The corner, where there is nothing of the tissue.
    fs::remove_file(&files[0]).unwrap();
    let line =
        "affine fixed.tif moving.ome.zarr -o out --distributed auto --outputs affine --no-report";
    let run = place.line(line).expect(2);
    assert!(run.err.contains("moving.ome.zarr") && run.err.contains("--missing"), "{}", run.err);
    place.line(&format!("{line} --missing background")).expect(0);
    assert!(off(&place, "out") < 1.0);
    let found = record(&place, "out");
    assert_eq!(found["parameters"]["missing"], "background");
    // A transform of a library is the same.
    let transform = read(place.path("out/affine.tfm"), &Geometry::default()).unwrap();
    assert!(matches!(transform, Transform::Affine(_)));
}
