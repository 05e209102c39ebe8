//! An elastic body that follows a sequence of fixed images, from files to files.

use crate::common::{Place, grid, names};
use crate::deform::record;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use voxalign_image::{Grid, Transform, Vector3, Volume};
use voxalign_io::transform::{Geometry, read};

/// Options of runs that are short.
const FAST: &str = "--affine none --schedule 4x60,2x60,1x20 --mesh-spacing 16 --device cpu";

/// How large the push of each frame is.
const AMOUNTS: [f64; 3] = [0.6, 1.0, 1.4];

fn space() -> Grid {
    grid([26, 28, 24], 4.0)
}

/// What the moving image shows: parts of a body with texture within.
pub(crate) fn value(p: Vector3<f64>) -> f32 {
    let away = |c: [f64; 3], r: f64| ((p - Vector3::from(c)).norm() / r - 1.0) * 6.0;
    let part = |c, r| 1.0 / (1.0 + away(c, r).exp());
    let texture = (p.x / 4.0).sin() * (p.y / 5.0).cos() + (p.z / 4.5 + p.y / 9.0).sin();
    let parts = 15.0 * part([0.0; 3], 36.0) * texture
        + 100.0 * part([0.0; 3], 36.0)
        + 80.0 * part([10.0, -8.0, 5.0], 13.0)
        + 60.0 * part([-14.0, 6.0, -6.0], 11.0)
        - 50.0 * part([2.0, 16.0, 10.0], 9.0);
    parts as f32
}

/// Where the material at a place of a frame is in the moving image.
pub(crate) fn pushed(p: Vector3<f64>, amount: f64) -> Vector3<f64> {
    p + amount * Vector3::new(6.0, -4.0, 3.0) * (-(p.norm_squared()) / (2.0 * 26.0 * 26.0)).exp()
}

pub(crate) fn image(of: impl Fn(Vector3<f64>) -> f32 + Sync) -> Volume<f32> {
    let g = space();
    let at =
        |x: usize, y: usize, z: usize| g.index_to_world(Vector3::from([x, y, z].map(|v| v as f64)));
    Volume::from_fn(g.clone(), |x, y, z| of(at(x, y, z)))
}

/// Noise of a number of its own for each image, as scanners have it: without it the body is at rest after a few steps.
pub(crate) fn noise(p: Vector3<f64>, seed: u64) -> f32 {
    let place = p.iter().fold(seed, |hash, v| {
        (hash ^ v.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    let part = |shift: u32| f64::from((place >> shift) as u16) / 65535.0 - 0.5;
    (10.0 * (part(0) + part(16) + part(32))) as f32
}

/// `moving.nii.gz` and the frames `f1.nii.gz`, `f2.nii.gz`, `f3.nii.gz` that it is pushed farther and farther in.
fn place() -> Place {
    let place = Place::new();
    place.image("moving.nii.gz", &image(|p| value(p) + noise(p, 1)));
    for (i, amount) in AMOUNTS.into_iter().enumerate() {
        place.image(
            &format!("f{}.nii.gz", i + 1),
            &image(|p| value(pushed(p, amount)) + noise(p, i as u64 + 2)),
        );
    }
    place
}

/// The mean distance of a warp from that of a frame within the body, mm; of no warp without one.
fn error(place: &Place, folder: Option<&str>, amount: f64) -> f64 {
    let warp =
        folder.map(|f| read(place.path(f).join("warp.nii.gz"), &Geometry::default()).unwrap());
    far(warp.as_ref(), |p| pushed(p, amount))
}

pub(crate) fn far(warp: Option<&Transform>, truth: impl Fn(Vector3<f64>) -> Vector3<f64>) -> f64 {
    let g = space();
    let (mut sum, mut count) = (0.0, 0);
    for i in 0..g.len() {
        let [nx, ny, _] = g.dims();
        let p =
            g.index_to_world(Vector3::from([i % nx, i / nx % ny, i / nx / ny].map(|v| v as f64)));
        if p.norm() < 32.0 {
            let to = warp.map_or(p, |w| w.apply(p));
            (sum, count) = (sum + (to - truth(p)).norm(), count + 1);
        }
    }
    sum / f64::from(count)
}

fn stream(place: &Place, folder: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(place.path(folder).join("stream.json")).unwrap()).unwrap()
}

/// Runs a sequence that must be refused, and checks that nothing is left.
#[track_caller]
fn refused(place: &Place, options: &str, parts: &[&str]) {
    let before = place.names();
    let line = format!("elastic f1.nii.gz moving.nii.gz -o new/out {FAST} --no-report {options}");
    place.line(&line).expect(2).says(parts);
    assert_eq!(place.names(), before, "something is left");
}

#[test]
fn frames_go_on_where_the_last_one_ended() {
    let place = place();
    let line =
        format!("elastic f1.nii.gz moving.nii.gz -o new/out {FAST} --stream f2.nii.gz f3.nii.gz");
    let run = place.line(&line).expect(0);
    for part in ["frame 2", "3 of 3 frames, 0 bad", "verdict: good", "written to"] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    let folders = ["frame_001", "frame_002", "frame_003"];
    let own = ["report.html", "stream.csv", "stream.json"];
    assert_eq!(names(&place.path("new/out")), [&folders[..], &own].concat());
    let found = stream(&place, "new/out");
    assert_eq!(
        (&found["format"], &found["bad"], &found["asked"]),
        (&1.into(), &0.into(), &3.into())
    );
    assert_eq!(found["program"], "voxalign elastic");
    assert_eq!(found["parameters"]["stream_schedule"], "1x20");
    let inputs = found["inputs"].as_array().unwrap();
    assert_eq!(inputs.iter().filter(|i| i["role"] == "frame").count(), 2);
    let rows = found["frames"].as_array().unwrap();
    let starts: Vec<_> = rows.iter().map(|r| r["start"].as_str().unwrap()).collect();
    assert_eq!(starts, ["rest", "frame 1", "frame 2"]);
    for (i, (folder, amount)) in folders.into_iter().zip(AMOUNTS).enumerate() {
        let (folder, number) = (format!("new/out/{folder}"), i + 1);
        assert_eq!(names(&place.path(&folder)), crate::elastic::FILES);
        // Nearer to the truth than no warp, and about as near as a run of this frame from rest, which takes more than three times as
        // many iterations.
        let cold = format!("cold{number}");
        let line = format!("elastic f{number}.nii.gz moving.nii.gz -o {cold} {FAST} --no-report");
        place.line(&line).expect(0);
        let [before, after, alone] =
            [None, Some(&*folder), Some(&*cold)].map(|f| error(&place, f, amount));
        println!("frame {number}: {before:.3} mm before, {after:.3} after, {alone:.3} from rest");
        assert!(after < 0.5 * before && after < 1.1 * alone, "{before} {after} {alone}");
        let warp = read(place.path(&cold).join("warp.nii.gz"), &Geometry::default()).unwrap();
        let warm = read(place.path(&folder).join("warp.nii.gz"), &Geometry::default()).unwrap();
        let apart = far(Some(&warm), |p| warp.apply(p));
        println!("{apart:.3} mm apart");
        assert!(apart < 0.25, "{apart}");
        let [warm, cold] = [&folder, &cold].map(|f| record(&place, f));
        let of = |r: &serde_json::Value| r["elastic"]["iterations"].as_u64().unwrap();
        println!("iterations: {} and {}", of(&warm), of(&cold));
        if i > 0 {
            assert!(3 * of(&warm) <= of(&cold));
            assert_eq!(warm["parameters"]["start"], format!("frame {i}"));
            assert!(rows[i]["largest_change_mm"].as_f64().unwrap() > 0.5);
        } else {
            let [a, b] = ["new/out/frame_001", "cold1"]
                .map(|f| fs::read(place.path(f).join("warp.nii.gz")).unwrap());
            assert!(a == b, "the first frame is a usual run");
        }
        assert_eq!(rows[i]["iterations"], of(&warm));
        assert_eq!(rows[i]["frame"], number);
        let fixed: Vec<_> =
            warm["inputs"].as_array().unwrap().iter().filter(|i| i["role"] == "fixed").collect();
        assert!(fixed.len() == 1 && fixed[0]["path"] == format!("f{number}.nii.gz"));
    }
    let table = fs::read_to_string(place.path("new/out/stream.csv")).unwrap();
    let lines: Vec<_> = table.lines().collect();
    assert!(
        lines.len() == 4
            && lines[0].starts_with("frame,file,")
            && lines[3].starts_with("3,f3.nii.gz,frame_003,frame 2,no,")
    );
    let html = fs::read_to_string(place.path("new/out/report.html")).unwrap();
    for part in ["frame_002/report.html", "fig-motion", "fig-course", "Verdict: Good"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("NaN"));
}

#[test]
fn sequences_that_cannot_be_are_refused() {
    let place = place();
    let coarse = space().with_spacing([5.0; 3]).unwrap();
    place.image("coarse.nii.gz", &Volume::from_fn(coarse, |x, y, z| (x + y * z) as f32));
    refused(
        &place,
        "--stream f2.nii.gz coarse.nii.gz",
        &["coarse.nii.gz", "f1.nii.gz", "on one grid", "5"],
    );
    refused(&place, "--stream f2.nii.gz none.nii.gz", &["none.nii.gz"]);
    place.image("flat.nii.gz", &image(|_| 3.0));
    refused(&place, "--stream f2.nii.gz flat.nii.gz", &["flat.nii.gz", "constant (3 everywhere)"]);
    place.image("odd.nii.gz", &image(|p| if p.norm() < 6.0 { f32::NAN } else { value(p) }));
    refused(&place, "--stream odd.nii.gz f2.nii.gz", &["odd.nii.gz", "NaN", "--replace-nan"]);
    let labels = "--fixed-labels l.nii.gz --moving-labels l.nii.gz";
    refused(
        &place,
        &format!("{labels} --stream f2.nii.gz"),
        &["--fixed-labels", "without --stream"],
    );
    refused(&place, "--stream", &["--stream"]);
    refused(&place, "--stream-schedule 1x9", &["--stream-schedule", "--stream"]);
    refused(&place, "--stream f2.nii.gz --stream-schedule 1x", &["--stream-schedule", "4x100"]);
    // No result takes the place of a frame.
    fs::create_dir_all(place.path("new/out/frame_002")).unwrap();
    fs::copy(place.path("f2.nii.gz"), place.path("new/out/frame_002/warped.nii.gz")).unwrap();
    refused(
        &place,
        "--stream new/out/frame_002/warped.nii.gz",
        &["warped.nii.gz", "both an input and an output"],
    );
}

#[test]
fn what_a_sequence_would_write_is_said() {
    let place = place();
    let line = format!(
        "elastic f1.nii.gz moving.nii.gz -o out {FAST} --stream f2.nii.gz --stream f3.nii.gz --no-report --dry-run"
    );
    let run = place.line(&line).expect(0);
    for part in ["out/frame_003/warp.nii.gz", "out/stream.csv", "out/stream.json", "f3.nii.gz"] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    assert!(!run.out.contains("report.html") && !place.path("out").exists(), "{}", run.out);
}

/// A frame that shows something else is bad, twice, and those after it go on from the one before.
#[test]
fn a_wrong_image_is_bad_and_does_no_harm_to_others() {
    let place = place();
    place.image(
        "other.nii.gz",
        &image(|p| {
            let bar = |c: f64, w: f64| 1.0 / (1.0 + ((c.abs() - w) / 2.0).exp());
            (90.0 * bar(p.x + p.z, 8.0) * bar(p.y, 40.0) + 30.0 * bar(p.x - 20.0, 6.0)) as f32
        }),
    );
    place.write(
        "seq.toml",
        "fixed = 'f1.nii.gz'\nmoving = 'moving.nii.gz'\nstream = ['other.nii.gz', 'f2.nii.gz']\n",
    );
    let line = format!("elastic --config seq.toml -o out {FAST} --outputs warp --no-report --json");
    let run = place.line(&line).expect(1);
    let rows: Vec<serde_json::Value> =
        run.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let good: Vec<_> = rows.iter().map(|r| r["good"].as_bool().unwrap()).collect();
    assert_eq!(good, [true, false, true], "{}", run.out);
    assert_eq!((&rows[1]["restarted"], &rows[2]["start"]), (&true.into(), &"frame 1".into()));
    assert!(rows[1]["verdict"].as_str().unwrap().starts_with("bad: "));
    let found = stream(&place, "out");
    assert_eq!((&found["bad"], &found["verdict"]["good"]), (&1.into(), &false.into()));
    let verdict = found["verdict"].to_string();
    assert!(verdict.contains("\"which\":[\"2\"]") && verdict.contains("second time"), "{verdict}");
    let [before, after] = [None, Some("out/frame_003")].map(|f| error(&place, f, AMOUNTS[1]));
    assert!(after < 0.5 * before, "{before} {after}");
    assert_eq!(names(&place.path("out/frame_002")), ["result.json", "warp.nii.gz"]);
}

/// Starts a sequence, and waits for its first frame.
fn first_frame(place: &Place, line: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = place.command(&line.split_whitespace().collect::<Vec<_>>());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    assert!(first.starts_with("{\"frame\":1,"), "{first}");
    (child, out)
}

/// How it ended, with how many more frames, and what it said of that.
fn ended(child: Child, mut out: BufReader<ChildStdout>) -> (i32, usize, String) {
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code().unwrap_or(-1), rest.lines().count(), said)
}

/// Where a frame fails, what was found before is there, and says where it ended.
#[test]
fn what_was_found_before_a_frame_that_fails_stays() {
    let place = place();
    // The last frame goes once the first one is done.
    let line = format!(
        "elastic f1.nii.gz moving.nii.gz -o out {FAST} --outputs warp --json --stream f2.nii.gz f1.nii.gz f3.nii.gz"
    );
    let (child, out) = first_frame(&place, &line);
    fs::remove_file(place.path("f3.nii.gz")).unwrap();
    let (code, frames, said) = ended(child, out);
    assert_eq!((code, frames), (2, 2), "{said}");
    for part in ["frame 4", "f3.nii.gz", "the results of the 3 previous frames are in 'out'"] {
        assert!(said.contains(part), "{said}");
    }
    let found = stream(&place, "out");
    assert_eq!(found["frames"].as_array().unwrap().len(), 3);
    assert!(found["ended"].as_str().unwrap().contains("frame 4"), "{found}");
    assert_eq!(found["verdict"]["good"], false);
    let written = names(&place.path("out"));
    let folders = ["frame_001", "frame_002", "frame_003"];
    let own = ["report.html", "stream.csv", "stream.json"];
    assert_eq!(written, [&folders[..], &own].concat());
    let html = fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(html.contains("ended early: frame 4"));
}

/// Where the first frame fails there is nothing.
#[test]
fn a_first_frame_that_fails_leaves_nothing() {
    let place = place();
    place.image("flat.nii.gz", &image(|_| 3.0));
    let before = place.names();
    let line = format!("elastic flat.nii.gz moving.nii.gz -o new/out {FAST} --stream f2.nii.gz");
    place.line(&line).expect(2).says(&["frame 1", "flat.nii.gz", "constant"]);
    assert_eq!(place.names(), before);
}

/// One that is stopped or killed has whole frames.
#[test]
fn what_was_found_before_the_end_of_a_run_stays() {
    let place = place();
    let more = "f2.nii.gz f3.nii.gz ".repeat(3);
    let line = format!(
        "elastic f1.nii.gz moving.nii.gz -o out {FAST} --outputs warp --no-report --json --stream {more}"
    );
    let (child, out) = first_frame(&place, &line);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let (code, frames, said) = ended(child, out);
    assert!(
        code == 130 && frames < 6 && said.contains("results so far are in 'out'"),
        "{code} {said}"
    );
    let found = stream(&place, "out");
    assert_eq!(found["frames"].as_array().unwrap().len(), frames + 1);
    let whole = |folder: &str| {
        let all = names(&place.path(folder));
        let frames: Vec<_> = all.iter().filter(|name| name.starts_with("frame_")).collect();
        for frame in &frames {
            let files = names(&place.path(folder).join(frame));
            assert_eq!(files, ["result.json", "warp.nii.gz"], "{folder}/{frame}");
        }
        (frames.len(), all.len())
    };
    assert_eq!(whole("out"), (frames + 1, frames + 3));
    let (mut child, _) = first_frame(&place, &line.replace("-o out", "-o killed"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        !place.path("killed/stream.json").exists()
            && place.path("killed/frame_001/warp.nii.gz").exists()
    );
    // The next run takes what was left away.
    place.line(&line.replace("-o out", "-o killed")).expect(0);
    assert_eq!(whole("killed"), (7, 9));
}
