//! Checkpoints that are whole, damaged, and of other runs.

use super::*;
use std::sync::Mutex;
use voxalign_register::Silent;

fn course(iteration: usize) -> Course {
    Course {
        energies: vec![0.3 - 1e-17, f64::NAN][..iteration.min(2)].to_vec(),
        ..Course::default()
    }
}

fn saved(iteration: usize) -> Saved {
    Saved {
        course: course(iteration),
        iteration,
        scale: Scale { factor: 2, iterations: 9 },
        masked: false,
        sharpness: Vec::new(),
        snapshots: Vec::new(),
        geometry: vec![(2, vec![[0.1, 1e-17, -3.0]])],
        share: 0.3,
        model: String::new(),
    }
}

fn of<'a>(folder: &'a Path) -> Checkpoints<'a> {
    Checkpoints { folder, every: Duration::ZERO, key: "this run", device: "cpu" }
}

fn save(all: &Checkpoints<'_>, i: usize) {
    let place = all.begin(true, i, &course(i)).unwrap();
    place.write_subject(0, &[i as f64], &[vec![i as f32; 4]]).unwrap();
    all.end(&place, &saved(i), &[vec![0.5]]).unwrap();
}

/// Hears warnings.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Progress for Heard {
    fn event(&self, event: &Event<'_>) {
        if let Event::Warning { text } = event {
            self.0.lock().unwrap().push((*text).to_owned());
        }
    }
}

fn last(all: &Checkpoints<'_>, progress: &dyn Progress) -> Result<Option<Place>> {
    all.last(&Communicator::single(), &[0], progress)
}

/// The iteration of the last checkpoint that is whole.
fn iteration(all: &Checkpoints<'_>, progress: &dyn Progress) -> Option<usize> {
    last(all, progress).unwrap().map(|place| place.read().unwrap().0.iteration)
}

#[test]
fn the_last_whole_one_is_found() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("checkpoint");
    let all = of(&folder);
    assert!(last(&all, &Silent).unwrap().is_none());
    (0..3).for_each(|i| save(&all, i));
    // One that was begun and not ended changes nothing.
    let half = all.begin(true, 3, &course(3)).unwrap();
    half.write_subject(0, &[9.0], &[vec![9.0; 4]]).unwrap();
    let found = last(&all, &Silent).unwrap().unwrap();
    let (state, template) = found.read().unwrap();
    assert_eq!((state.iteration, template), (2, vec![vec![0.5]]));
    assert!(state.course.energies[1].is_nan());
    assert_eq!(found.read_subject(0).unwrap(), (vec![2.0], vec![vec![2.0; 4]]));

    let other = Checkpoints { key: "another run", ..all.clone() };
    let said = last(&other, &Silent).unwrap_err().to_string();
    assert!(said.contains("different images or options"), "{said}");
    let other = Checkpoints { device: "cuda", ..all.clone() };
    let error = last(&other, &Silent).unwrap_err();
    assert!(error.to_string().contains("made on the device 'cpu'"), "{error}");
    let of_cpu = matches!(&error, PopulationError::OtherDevice { made, .. } if made == "cpu");
    assert!(of_cpu, "{error:?}");
    // What is not of checkpoints stays.
    fs::write(folder.join("a/weights.bin"), b"of another program").unwrap();
    all.remove().unwrap();
    assert!(!all.exist() && last(&all, &Silent).unwrap().is_none());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert_eq!(fs::read_dir(folder.join("a")).unwrap().count(), 1);
    fs::remove_file(folder.join("a/weights.bin")).unwrap();
    all.remove().unwrap();
    assert!(!folder.exists());
    all.remove().unwrap();
}

#[test]
fn of_two_places_the_newest_whole_one_serves() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let all = of(folder);
    let flip = |name: &str| {
        let path = folder.join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    // 0 in a, 1 in b, 2 in a.
    (0..3).for_each(|i| save(&all, i));
    let heard = Heard::default();
    assert_eq!(iteration(&all, &heard), Some(2));
    assert!(heard.0.lock().unwrap().is_empty());
    flip("b/subject-0.state");
    assert_eq!(iteration(&all, &heard), Some(2));
    flip("b/subject-0.state");
    flip(CURRENT);
    assert_eq!(iteration(&all, &Silent), Some(2));
    assert_eq!(all.current(), Ok("a"), "it is mended");
    for file in ["a/subject-0.state", "a/course.state", "a/template.state"] {
        flip(file);
        let heard = Heard::default();
        assert_eq!(iteration(&all, &heard), Some(1));
        let said = heard.0.lock().unwrap().join("");
        assert!(said.contains(file) && said.contains("checksum"), "{said}");
        flip(file);
        all.set_current("a").unwrap();
    }
    // The next one goes over that which is damaged.
    flip("a/template.state");
    assert_eq!(iteration(&all, &Silent), Some(1));
    save(&all, 3);
    assert_eq!((iteration(&all, &Silent), all.current()), (Some(3), Ok("a")));
    // An older one of which a file is newer is none.
    let half = all.begin(true, 4, &course(4)).unwrap();
    half.write_subject(0, &[9.0], &[]).unwrap();
    flip("a/template.state");
    let error = last(&all, &Silent).unwrap_err();
    assert!(error.to_string().contains("no checkpoint is intact"), "{error}");
    assert!(matches!(error, PopulationError::Damaged { .. }), "{error:?}");
}

#[test]
fn the_common_space_is_kept_twice() {
    let root = tempfile::tempdir().unwrap();
    let all = of(root.path());
    let bad = voxalign_register::Check::new("cost", f64::NAN, "at most 1", true);
    let aligned = Aligned {
        grid: Grid::axis_aligned([4, 5, 6], [1.0, 0.1 + 0.2, 3.0]).unwrap(),
        kept: vec![0, 2],
        affines: vec![Affine::translation([1e-300, -0.0, 3.0].into()); 2],
        verdicts: vec![Verdict::new(vec![bad], Vec::new())],
    };
    assert!(all.read_aligned(&Silent).unwrap().is_none());
    save(&all, 1);
    all.write_aligned(&aligned).unwrap();
    assert!(last(&all, &Silent).unwrap().is_none(), "the older checkpoint goes");
    let same = |read: Aligned| {
        assert_eq!((&read.grid, &read.kept), (&aligned.grid, &aligned.kept));
        assert_eq!(read.affines, aligned.affines);
        assert!(read.verdicts[0].checks[0].value.is_nan() && !read.verdicts[0].good);
    };
    same(all.read_aligned(&Silent).unwrap().unwrap());
    fs::remove_file(root.path().join(ALIGNED[0])).unwrap();
    let heard = Heard::default();
    same(all.read_aligned(&heard).unwrap().unwrap());
    assert!(heard.0.lock().unwrap()[0].contains("its copy is used"));
    fs::write(root.path().join(ALIGNED[1]), b"VXSTATE2").unwrap();
    let error = all.read_aligned(&Silent).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    assert!(matches!(error, PopulationError::Damaged { .. }), "{error:?}");
}
