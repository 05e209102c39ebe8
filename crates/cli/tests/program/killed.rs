//! A program that is killed at any moment leaves outputs that are complete or absent, and old ones
//! as they were. `VOXALIGN_KILLS=200 cargo test -p voxalign --test program killed::` kills more often.
#![cfg(unix)]

use crate::common::{Place, grid, head, motion, names};
#[cfg(target_os = "linux")]
use nix::poll::{PollFd, PollFlags, poll};
#[cfg(target_os = "linux")]
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};
use std::fs;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use voxalign_image::{Affine, Transform};
use voxalign_io::transform::{self, Geometry};

/// A command that writes.
struct Job<'a> {
    line: &'a str,
    /// All that it writes, in the order in which it appears: where the last one is, all are of its
    /// run.
    outputs: &'a [&'a str],
    /// Kills, unless the environment variable says how many.
    kills: usize,
}

/// What is there before, where something is.
const OLD: &[u8] = b"an earlier output";

/// What is found under the name of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Old,
    New,
}

/// When a run is killed.
#[derive(Debug, Clone, Copy)]
enum When {
    After(Duration),
    /// As soon as the first output has its name.
    FirstMoved,
}

/// The bytes of all outputs, `None` for one that is not there.
type Bytes = Vec<Option<Vec<u8>>>;

impl Job<'_> {
    fn check(&self, place: &Place) {
        let kills = std::env::var("VOXALIGN_KILLS").ok().and_then(|n| n.parse().ok());
        let kills: usize = kills.unwrap_or(self.kills);
        let start = Instant::now();
        let code = place.line(self.line).expect_done();
        let whole = start.elapsed();
        let new = self.read(place);
        self.outputs.iter().for_each(|name| self.is_readable(place, name));

        let (mut hit, mut apart) = (0, [0, 0]);
        let mut seen = Vec::new();
        // A run that was slow by chance says little of how long others are: where all of them ended before
        // they were killed, they are killed sooner.
        let (mut length, mut rounds) = (whole, 0);
        while hit == 0 && rounds < 10 {
            if rounds > 0 {
                length /= 2;
            }
            rounds += 1;
            for i in 0..kills {
                let before = i % 2 == 1;
                self.remove(place);
                for name in self.outputs.iter().filter(|_| before) {
                    fs::create_dir_all(place.path(name).parent().unwrap()).unwrap();
                    fs::write(place.path(name), OLD).unwrap();
                }
                // Over the whole run, near its end, and while files are moved.
                let part = (i as f64 + 0.5) / kills as f64;
                let when = match i / 2 % 3 {
                    0 => When::After(length.mul_f64(part)),
                    1 => When::After(length.mul_f64(0.85 + 0.2 * part)),
                    _ => When::FirstMoved,
                };
                hit += usize::from(self.kill(place, when));
                let found = self.found(place, &new);
                assert!(before || !found.contains(&Found::Old));
                if before && found[found.len() - 1] == Found::Nothing {
                    apart[usize::from(matches!(when, When::FirstMoved))] += 1;
                }
                seen.push(found);
            }
        }
        let kills = kills * rounds;
        // An older result is taken apart while its files are moved, which is a moment; one of a
        // single file never is.
        let [by_chance, moving] = apart;
        let single = self.outputs.len() == 1;
        let most = if single { 0 } else { 1 + kills / 20 };
        assert!(by_chance <= most && (!single || moving == 0), "{apart:?} of {kills} left nothing");
        assert!(hit > 0, "every one of {kills} runs ended before it was killed");
        // What is left does no harm to the next run, which takes it away.
        let left = self.leftovers(place);
        assert_eq!(place.line(self.line).expect_done(), code);
        assert_eq!(self.leftovers(place), 0);
        let found = self.found(place, &new);
        assert!(found.iter().all(|f| *f == Found::New), "{found:?}");
        let count = |what| seen.iter().flatten().filter(|f| **f == what).count();
        println!(
            "{}: {whole:.2?} long, {hit} of {kills} killed, {} while files were moved, {} of them \
             with older ones; outputs absent {}, old {}, new {}; left over {left}",
            self.line,
            seen.iter().filter(|f| f.iter().any(|s| *s != f[0])).count(),
            by_chance + moving,
            count(Found::Nothing),
            count(Found::Old),
            count(Found::New),
        );
    }

    fn read(&self, place: &Place) -> Bytes {
        self.outputs.iter().map(|name| fs::read(place.path(name)).ok()).collect()
    }

    /// Takes the outputs away, and their folder if nothing else is in it.
    fn remove(&self, place: &Place) {
        for name in self.outputs {
            let _ = fs::remove_file(place.path(name));
            let _ = fs::remove_dir(place.path(name).parent().unwrap());
        }
    }

    /// Starts the command and kills it; whether it was still running.
    fn kill(&self, place: &Place, when: When) -> bool {
        let words: Vec<_> = self.line.split_whitespace().collect();
        let mut command = place.command(&words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = match when {
            When::After(time) => {
                let child = command.spawn().unwrap();
                std::thread::sleep(time);
                child
            }
            When::FirstMoved => {
                let first = place.path(self.outputs[0]);
                fs::create_dir_all(first.parent().unwrap()).unwrap();
                let moved = Moved::watch(&first);
                let mut child = command.spawn().unwrap();
                moved.wait(&mut child);
                child
            }
        };
        child.kill().unwrap();
        child.wait().unwrap().code().is_none()
    }

    /// What is under the names of the outputs, every one of which must be whole.
    fn found(&self, place: &Place, new: &Bytes) -> Vec<Found> {
        let outputs = self.outputs.iter().zip(self.read(place)).zip(new);
        let found: Vec<_> = outputs
            .map(|((name, bytes), new)| match bytes {
                None => Found::Nothing,
                Some(b) if b == OLD => Found::Old,
                Some(b) if has_times(name) => {
                    is_whole(name, &String::from_utf8(b).unwrap());
                    Found::New
                }
                Some(b) => {
                    assert!(*new == Some(b), "{name} is neither old nor new");
                    Found::New
                }
            })
            .collect();
        let last = found[found.len() - 1];
        let whole = last == Found::Nothing || found.iter().all(|f| *f == last);
        assert!(whole, "{:?} are {found:?}, of several runs", self.outputs);
        found
    }

    /// The number of files and folders that killed runs left; their names must tell what they are.
    fn leftovers(&self, place: &Place) -> usize {
        let mut folders = vec![place.path("")];
        folders
            .extend(self.outputs.iter().filter_map(|o| Some(place.path(o).parent()?.to_owned())));
        folders.sort();
        folders.dedup();
        let mut count = 0;
        for folder in folders.iter().filter(|f| f.is_dir()) {
            for name in names(folder).iter().filter(|n| n.starts_with('.')) {
                let ours = name.starts_with(".voxalign-") || name.ends_with(".tmp");
                assert!(ours, "{name} in {}", folder.display());
                count += 1;
            }
        }
        count
    }

    /// Whether the product itself reads an output.
    fn is_readable(&self, place: &Place, name: &str) {
        if has_times(name) {
            is_whole(name, &fs::read_to_string(place.path(name)).unwrap());
        } else if name.ends_with(".ply") {
            voxalign_io::mesh::read(place.path(name), &Default::default()).unwrap();
        } else if !name.contains(".raw") && !name.ends_with(".zraw") && !name.ends_with(".fsl.mat")
        {
            place.run(&["info", name]).expect(0);
        }
    }
}

/// Waits for a file to get its name, without looking for it again and again.
#[cfg(target_os = "linux")]
struct Moved {
    events: Inotify,
    name: std::ffi::OsString,
}

#[cfg(target_os = "linux")]
impl Moved {
    fn watch(path: &Path) -> Self {
        let events = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
        events.add_watch(path.parent().unwrap(), AddWatchFlags::IN_MOVED_TO).unwrap();
        Self { events, name: path.file_name().unwrap().to_owned() }
    }

    /// Until the file has its name or the program has ended.
    fn wait(&self, child: &mut Child) {
        let name = Some(&self.name);
        let is_it = |events: Vec<InotifyEvent>| events.iter().any(|e| e.name.as_ref() == name);
        while !self.events.read_events().is_ok_and(is_it) && child.try_wait().unwrap().is_none() {
            // A program that ends without moving it is seen within a moment.
            let mut wanted = [PollFd::new(self.events.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut wanted, 20_u8);
        }
    }
}

/// Where the system tells nobody, by looking five times a millisecond.
#[cfg(not(target_os = "linux"))]
struct Moved {
    path: std::path::PathBuf,
    before: Option<u64>,
}

#[cfg(not(target_os = "linux"))]
impl Moved {
    fn number(path: &Path) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).map(|m| m.ino()).ok()
    }

    fn watch(path: &Path) -> Self {
        Self { path: path.to_owned(), before: Self::number(path) }
    }

    fn wait(&self, child: &mut Child) {
        while Self::number(&self.path) == self.before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl crate::common::Run {
    /// The code of a run that did its work, whatever its verdict.
    #[track_caller]
    fn expect_done(self) -> i32 {
        assert!(self.code == 0 || self.code == 1, "out:\n{}\nerr:\n{}", self.out, self.err);
        self.code
    }
}

/// Whether a file holds times, so that no two are alike.
fn has_times(name: &str) -> bool {
    [".json", ".html", "bench.csv"].iter().any(|end| name.ends_with(end))
}

/// Whether a text has its end.
#[track_caller]
fn is_whole(name: &str, text: &str) {
    if name.ends_with(".json") {
        serde_json::from_str::<serde_json::Value>(text).unwrap();
    } else if name.ends_with(".html") {
        assert!(text.trim_end().ends_with("</html>"), "{name} has no end");
    } else {
        let columns = |line: &str| line.split(',').count();
        let first = columns(text.lines().next().unwrap());
        assert!(text.ends_with('\n') && first > 5 && text.lines().count() > 2, "{text}");
    }
}

/// Two images and a list of them, points, an affine transform and a field.
fn inputs() -> Place {
    let place = Place::new();
    let grid = grid([60, 64, 56], 3.0);
    place.image("a.nii", &head(&grid, &Affine::identity()));
    place.image("b.nii", &head(&grid, &motion()));
    let points: String = (0..20_000).map(|i| format!("{i},{},3\n", i % 7)).collect();
    place.write("p.csv", &format!("x,y,z\n{points}"));
    place.write("ages.csv", "path,age\na.nii,2\nb.nii,3\n");
    let geometry = Geometry { fixed: Some(&grid), moving: Some(&grid) };
    let affine = Transform::Affine(motion());
    transform::write(place.path("t.tfm"), &affine, &geometry).unwrap();
    transform::write(place.path("t.nii"), &affine, &geometry).unwrap();
    place
}

/// Checks a command.
fn check(line: &str, outputs: &[&str], kills: usize) {
    Job { line, outputs, kills }.check(&inputs());
}

/// As [`check`], with outputs in a folder.
fn check_folder(line: &str, folder: &str, outputs: &[&str], kills: usize) {
    let paths: Vec<_> = outputs.iter().map(|name| format!("{folder}/{name}")).collect();
    check(line, &paths.iter().map(String::as_str).collect::<Vec<_>>(), kills);
}

#[test]
fn convert() {
    check("convert a.nii out.nii.gz", &["out.nii.gz"], 8);
    check("convert a.nii out.hdr", &["out.img", "out.hdr"], 12);
    check("convert a.nii out.mhd", &["out.zraw", "out.mhd"], 12);
    check("convert a.nii out.nhdr", &["out.raw.gz", "out.nhdr"], 12);
    check("convert t.tfm out.mat", &["out.mat"], 8);
    check("convert p.csv out.csv --to-convention lps", &["out.csv"], 8);
}

#[test]
fn apply() {
    check("apply -i b.nii -r a.nii -t t.tfm -o out.nii.gz", &["out.nii.gz"], 8);
    check("apply -i p.csv -t t.tfm -o out.csv", &["out.csv"], 8);
}

#[test]
fn invert_and_compose() {
    check("invert -t t.nii -o out.nii.gz", &["out.nii.gz"], 8);
    let line = "compose -t t.nii -t t.tfm -o out.nii --fixed-geometry a.nii";
    check(line, &["out.nii"], 8);
}

const AFFINE: [&str; 5] =
    ["affine.tfm", "affine.fsl.mat", "warped.nii.gz", "report.html", "result.json"];

#[test]
fn affine() {
    let line = "affine a.nii b.nii -o out --search local --levels 8,6";
    check_folder(line, "out", &AFFINE, 12);
}

#[test]
fn deform() {
    let outputs = [
        "affine.tfm",
        "affine.fsl.mat",
        "inverse_warp.nii.gz",
        "inverse_composite.nii.gz",
        "warp.nii.gz",
        "composite.nii.gz",
        "jacobian.nii.gz",
        "warped.nii.gz",
        "report.html",
        "result.json",
    ];
    let line = "deform a.nii b.nii -o out --affine t.tfm --similarity ssd --schedule 4x3 \
                --outputs all";
    check_folder(line, "out", &outputs, 6);
}

#[test]
fn bench() {
    let line = "bench --only reduce --size 24x20x9 --csv bench.csv --html bench.html";
    check(line, &["bench.csv"], 4);
    check(line, &["bench.html"], 4);
}

#[test]
fn stack() {
    let outputs = ["out.nii.gz", "out.nii.gz.json"];
    check("stack mean a.nii a.nii -o out.nii.gz", &outputs, 8);
    check("stack max a.nii a.nii -o out.nii", &["out.nii", "out.nii.json"], 8);
    check("stack max a.nii a.nii -o out.hdr", &["out.img", "out.hdr", "out.hdr.json"], 8);
}

#[test]
fn surface() {
    let outputs = ["out.ply", "out.ply.html", "out.ply.json"];
    check("surface a.nii --level 60 -o out.ply --report", &outputs, 6);
}

#[test]
fn atlas() {
    let outputs = [
        "subjects/a/warp.nii.gz",
        "subjects/b/inverse_warp.nii.gz",
        "atlas.nii.gz",
        "variance.nii.gz",
        "result.json",
    ];
    let line = "atlas a.nii b.nii -o out --align none --similarity ssd --schedule 4x3";
    check_folder(line, "out", &outputs, 12);
}

#[test]
fn atlases_along_a_covariate() {
    let outputs = ["at_2/atlas.nii.gz", "at_3/variance.nii.gz", "report.html", "result.json"];
    let line = "atlas --list ages.csv -o out --align none --similarity ssd --schedule 4x3 --regress age \
                --at 2,3 --bandwidth 1";
    check_folder(line, "out", &outputs, 6);
}

#[test]
fn stability_of_atlases() {
    let outputs = ["report.html", "result.json"];
    let line =
        "atlas a.nii b.nii -o out --align none --similarity ssd --schedule 4x3 --stability 2";
    check_folder(line, "out", &outputs, 6);
}

#[test]
fn demo() {
    check_folder("demo", "voxalign-demo", &AFFINE, 2);
}
