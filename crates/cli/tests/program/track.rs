//! A CT that is followed over a sequence of X-ray images, from files to files.

use crate::common::{Place, Run};
use crate::projection::{json, near, place};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use voxalign_io::transform::{Geometry, read as read_transform};
use voxalign_io::xray;

const FRAMES: usize = 7;
const VIEWS: [&str; 2] = ["ap", "lateral"];

/// A CT with the frames of two views in folders of their own, as it moves: `front/`, `side/`, and `views.toml`.
fn sequence() -> Place {
    let place = place();
    let mut table = "rotation_x,rotation_z,translation_x,translation_y,translation_z\n".to_owned();
    for frame in 0..FRAMES {
        let t = frame as f64;
        table += &format!("{},{},{},{},{}\n", -0.7 * t, 1.0 * t, 1.5 * t, -t, 2.0 * t);
    }
    place.write("moves.csv", &table);
    let line = "drr ct.nii.gz -o s --view ap,lateral --size 96,80 --poses moves.csv --format tiff --device cpu";
    place.line(line).expect(0);
    let images = json(&place, "s/result.json")["images"].as_array().unwrap().clone();
    // The folder as it is is a sequence.
    let line = "pose ct.nii.gz --stream s -o d --dry-run --device cpu";
    place.line(line).expect(0);
    for (view, folder) in VIEWS.into_iter().zip(["front", "side"]) {
        fs::create_dir(place.path(folder)).unwrap();
        let names = images.iter().map(|i| i["name"].as_str().unwrap());
        for (frame, name) in names.filter(|n| n.starts_with(view)).enumerate() {
            // Without zeros in front: numbers are ordered as numbers.
            let to = place.path(&format!("{folder}/frame{}.tif", frame + 4));
            fs::copy(place.path(&format!("s/{name}.tif")), to).unwrap();
        }
    }
    place
}

/// The frames as bytes of floats, one per view in turn.
fn raw(place: &Place) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in 0..FRAMES {
        for folder in ["front", "side"] {
            let image =
                xray::read(place.path(&format!("{folder}/frame{}.tif", frame + 4))).unwrap();
            bytes.extend(image.values.iter().flat_map(|v| v.to_le_bytes()));
        }
    }
    bytes
}

/// Runs a line with bytes on standard input.
fn piped(place: &Place, line: &str, bytes: &[u8]) -> Run {
    let mut command: Command = place.command(&line.split_whitespace().collect::<Vec<_>>());
    let piped = Stdio::piped;
    let mut child = command.stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap();
    // A program that refuses its options reads nothing.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

const COMMON: &str = "--geometry s/views.toml --range 10,8 --starts 32 --restarts 1 --device cpu";

/// How far the middle of the CT is from where it moved in a frame, mm.
fn off(frame: &serde_json::Value) -> f64 {
    let t = frame["frame"].as_f64().unwrap();
    let found = frame["translation_mm"].as_array().unwrap();
    // Rotations are about the middle of the grid, as those of `drr` are.
    let expected = [1.5 * t, -t, 2.0 * t];
    let squares = found.iter().zip(expected).map(|(a, b)| (a.as_f64().unwrap() - b).powi(2));
    squares.sum::<f64>().sqrt()
}

#[test]
fn a_ct_is_followed_over_folders_and_streams_alike() {
    let place = sequence();
    let line = format!("pose ct.nii.gz --stream front --stream side {COMMON}");
    let run = place.line(&format!("{line} -o a")).expect(0);
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(lines[0].contains("status") && lines[1].contains("found"), "{}", run.out);
    assert!((2..=FRAMES).all(|i| lines[i].contains("followed")), "{}", run.out);
    let record = json(&place, "a/result.json");
    let frames = record["frames"].as_array().unwrap();
    assert_eq!((frames.len(), record["lost"].as_u64()), (FRAMES, Some(0)));
    for frame in frames {
        assert!(off(frame) < 0.3, "{frame}");
    }
    // The table is one of poses that images are made of.
    let line = "drr ct.nii.gz -o t --poses a/track.csv --size 32,32 --format nifti --device cpu --no-report";
    place.line(line).expect(0);
    let drawn = json(&place, "t/result.json");
    for (image, frame) in drawn["images"].as_array().unwrap().iter().zip(frames) {
        let rows = |v: &serde_json::Value| -> Vec<f64> {
            serde_json::from_value::<Vec<Vec<f64>>>(v["pose"].clone()).unwrap().concat()
        };
        assert!(near(&rows(image), &rows(frame), 1e-5), "{image} {frame}");
    }
    assert!(record["ended"].is_null() && record["verdict"]["good"] == true);
    let table = fs::read_to_string(place.path("a/track.csv")).unwrap();
    assert!(table.lines().count() == FRAMES + 1 && table.starts_with("frame,status,translation_x"));
    let cells: Vec<_> = table.lines().map(|l| l.split(',').count()).collect();
    assert!(cells.iter().all(|c| *c == cells[0]), "{table}");
    // The last pose is a start for what comes next.
    let last = read_transform(place.path("a/affine.tfm"), &Geometry::default()).unwrap();
    let rows = last.to_affine().unwrap().rows();
    let kept: [[f64; 4]; 3] = serde_json::from_value(frames[FRAMES - 1]["pose"].clone()).unwrap();
    assert!(rows.iter().flatten().zip(kept.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-6));
    let page = fs::read_to_string(place.path("a/report.html")).unwrap();
    for part in ["fig-motion", "fig-likeness", "fig-slices", "fig-edges", "losses"] {
        assert!(page.contains(&format!("id=\"{part}\"")), "{part}");
    }

    // Raw frames, with other threads: the same poses.
    let line =
        format!("pose ct.nii.gz --stream - --frame-type f32 {COMMON} --threads 1 --no-report");
    let run = piped(&place, &format!("{line} -o b --json"), &raw(&place)).expect(0);
    let told: Vec<serde_json::Value> =
        run.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(told.len(), FRAMES);
    for (told, frame) in told.iter().zip(frames) {
        assert_eq!((&told["pose"], &told["cost"]), (&frame["pose"], &frame["cost"]));
    }
    assert!(!place.path("b/report.html").exists() && place.path("b/track.csv").exists());
    // The folder of both views as it is.
    let line = format!("pose ct.nii.gz --stream s {COMMON} --no-report -o c");
    place.line(&line.replace("--geometry s/views.toml", "")).expect(0);
    let again = json(&place, "c/result.json");
    for (again, frame) in again["frames"].as_array().unwrap().iter().zip(frames) {
        assert_eq!(again["pose"], frame["pose"]);
    }
}

#[test]
fn a_lost_track_and_a_cut_stream_are_said() {
    let place = sequence();
    let line = format!("pose ct.nii.gz --stream - --frame-type f32 {COMMON} -o a --no-report");
    let one = 2 * 96 * 80 * 4;
    // A frame that shows nothing, and then the next ones again.
    let mut bytes = raw(&place);
    bytes[2 * one..3 * one].fill(0);
    let run = piped(&place, &line, &bytes).expect(1);
    assert!(run.out.contains("7 frames, 1 without a pose"), "{}", run.out);
    run.says(&["frame 2: the track is lost: view 1 is empty"]);
    let record = json(&place, "a/result.json");
    let status: Vec<_> = record["frames"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["status"].as_str().unwrap())
        .collect();
    assert_eq!(status[..5], ["found", "followed", "lost", "found", "followed"]);
    assert_eq!(record["lost"], 1);

    // What was found stays.
    let bytes = raw(&place);
    for (cut, said) in
        [(3 * one + 100, "middle of a frame"), (3 * one + one / 2, "ends after view 1")]
    {
        let run = piped(&place, &line, &bytes[..cut]).expect(2);
        run.says(&[said, "standard input", "the poses of the 3 previous frames are in"]);
        let record = json(&place, "a/result.json");
        assert_eq!(record["frames"].as_array().unwrap().len(), 3, "{said}");
        assert!(record["ended"].as_str().unwrap().contains(said), "{said}");
    }
    fs::remove_dir_all(place.path("a")).unwrap();
    // Nothing was found: nothing is there.
    piped(&place, &line, &bytes[..100]).expect(2).says(&["middle of a frame"]);
    piped(&place, &line, &[]).expect(2).says(&["no frames"]);
    assert!(!place.path("a").exists());
}

#[test]
fn what_a_sequence_needs_is_said() {
    let place = sequence();
    place.write(
        "bare.toml",
        &fs::read_to_string(place.path("s/views.toml")).unwrap().replace("size", "#"),
    );
    fs::create_dir(place.path("none")).unwrap();
    let both = "--stream front --stream side --geometry s/views.toml";
    for (line, said) in [
        ("--stream front --stream side", vec!["front", "--geometry"]),
        ("--stream front --geometry s/views.toml", vec!["--stream", "1 sequences", "2 views"]),
        ("--stream none --stream side --geometry s/views.toml", vec!["none", "no files"]),
        ("--stream gone --stream side --geometry s/views.toml", vec!["gone"]),
        ("--stream -", vec!["--geometry", "'size'"]),
        ("--stream - --stream front --geometry s/views.toml", vec!["--stream", "standard input"]),
        ("--stream - --geometry bare.toml", vec!["size"]),
        ("--frame-type u8 front/frame4.tif", vec!["--frame-type", "--stream"]),
        ("--frame-range 3,3 front/frame4.tif", vec!["--frame-range", "--stream"]),
        (&format!("{both} --frame-type u8"), vec!["--frame-type", "standard input"]),
        (&format!("{both} --frame-range 0,3"), vec!["--frame-range"]),
        (&format!("{both} --frame 3"), vec!["--stream", "--frame"]),
        (&format!("{both} --redraw"), vec!["--sampling"]),
        (&format!("front/frame4.tif {both}"), vec!["--stream"]),
    ] {
        let run = place.line(&format!("pose ct.nii.gz {line} -o a --device cpu")).expect(2);
        run.says(&said);
        assert!(!place.path("a").exists(), "{line}");
    }
    // Fewer images of a view than of the other.
    fs::remove_file(place.path(&format!("side/frame{}.tif", FRAMES + 3))).unwrap();
    let line = format!("pose ct.nii.gz --stream front --stream side {COMMON} -o a");
    place.line(&line).expect(2).says(&["side", "ends after 6 images", "6 previous frames"]);
    // A dry run names what a run would write.
    let plan = place.line(&format!("{line} --dry-run")).expect(0);
    assert!(plan.out.contains("track.csv") && plan.out.contains("ct_to_room.tfm"), "{}", plan.out);
}
