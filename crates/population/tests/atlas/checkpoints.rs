//! Atlases that are stopped and go on, from checkpoints that may be damaged.

use super::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A run that is stopped anywhere and goes on ends with the bits of one that was not, whatever its memory.
#[test]
fn stopped_and_resumed() {
    let cpu = Cpu::new(Some(2)).unwrap();
    let root = tempfile::tempdir().unwrap();
    for model in MODELS {
        for (kind, options) in [short(model), with_memory(model)].into_iter().enumerate() {
            let all = population(4, 3);
            let whole = built(&cpu, all.clone(), &options);
            for (stop, every) in [(1, 0), (3, 3600), (4, 0), (5, 3600), (7, 0)] {
                let folder = root.path().join(format!("{model:?}{kind}-{stop}"));
                let checkpoints = Checkpoints {
                    folder: &folder,
                    every: Duration::from_secs(every),
                    key: "k",
                    device: "cpu",
                };
                let first =
                    How { checkpoints: Some(&checkpoints), stop: Some(stop), ..How::default() };
                let stopped = try_build(&alone(&cpu), all.clone(), &options, &first);
                assert!(matches!(stopped, Err(PopulationError::Stopped)), "{stopped:?}");
                let memory =
                    MemoryOptions { device_memory: Some(Bytes(1)), ..MemoryOptions::USUAL };
                let geometry = Vec::new();
                let checkpoints = Some(&checkpoints);
                let how = How { checkpoints, resume: true, stop: None, memory, geometry };
                let resumed = try_build(&alone(&cpu), all.clone(), &options, &how).unwrap();
                assert_same(&resumed, &whole, &format!("{model:?} {kind} {stop}"));
            }
        }
    }
}

#[test]
fn a_checkpoint_of_another_run() {
    let cpu = Cpu::new(Some(1)).unwrap();
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("c");
    let checkpoints =
        Checkpoints { folder: &folder, every: Duration::ZERO, key: "k", device: "cpu" };
    let (all, options) = (population(3, 1), short(DeformModel::GREEDY));
    let how = How { checkpoints: Some(&checkpoints), stop: Some(2), ..How::default() };
    try_build(&alone(&cpu), all.clone(), &options, &how).unwrap_err();
    let other = Checkpoints { key: "other", ..checkpoints.clone() };
    let how = How { checkpoints: Some(&other), resume: true, ..How::default() };
    let said = try_build(&alone(&cpu), all.clone(), &options, &how).unwrap_err().to_string();
    assert!(said.contains("different images or options"), "{said}");
    let other = Checkpoints { device: "cuda", ..checkpoints.clone() };
    let how = How { checkpoints: Some(&other), resume: true, ..How::default() };
    let error = try_build(&alone(&cpu), all.clone(), &options, &how).unwrap_err();
    assert!(
        matches!(&error, PopulationError::OtherDevice { made, .. } if made == "cpu"),
        "{error}"
    );
    assert!(error.to_string().contains("'cpu'"), "{error}");
    // Files that are cut off are no states.
    for place in ["a", "b"] {
        let path = folder.join(place).join("subject-1.state");
        if path.exists() {
            let whole = fs::read(&path).unwrap();
            fs::write(&path, &whole[..whole.len() - 4]).unwrap();
        }
    }
    let how = How { checkpoints: Some(&checkpoints), resume: true, ..How::default() };
    let said = try_build(&alone(&cpu), all, &options, &how).unwrap_err().to_string();
    assert!(said.contains("subject-1.state") && said.contains("no checkpoint is intact"), "{said}");
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// What may happen to a file.
type Damage = fn(&Path, &[u8]);

const DAMAGES: [(&str, Damage); 5] = [
    ("a bit of its beginning", |path, bytes| flip(path, bytes, 8)),
    ("a bit of its middle", |path, bytes| flip(path, bytes, bytes.len() / 2)),
    ("its last bit", |path, bytes| flip(path, bytes, bytes.len() - 1)),
    ("its second half", |path, bytes| fs::write(path, &bytes[..bytes.len() / 2]).unwrap()),
    ("all of it", |path, _| fs::remove_file(path).unwrap()),
];

fn flip(path: &Path, bytes: &[u8], at: usize) {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// Whatever happens to a file of a checkpoint, a run that goes on has the bits of one that was not stopped, or says
/// that it cannot.
#[test]
fn damage_does_no_harm() {
    let cpu = Cpu::new(Some(1)).unwrap();
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("c");
    let checkpoints =
        Checkpoints { folder: &folder, every: Duration::ZERO, key: "k", device: "cpu" };
    let (all, options) = (population(2, 1), short(DeformModel::GREEDY));
    let whole = built(&cpu, all.clone(), &options);
    let how = How { checkpoints: Some(&checkpoints), stop: Some(5), ..How::default() };
    try_build(&alone(&cpu), all.clone(), &options, &how).unwrap_err();
    let kept: Vec<_> =
        files(&folder).into_iter().map(|p| (p.clone(), fs::read(p).unwrap())).collect();
    // Two subjects, the template and the state, twice, and the name of the newer place.
    assert_eq!(kept.len(), 9, "{kept:?}");
    let resume = || {
        let how = How { checkpoints: Some(&checkpoints), resume: true, ..How::default() };
        try_build(&alone(&cpu), all.clone(), &options, &how)
    };
    let restore = || kept.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    for (path, bytes) in &kept {
        for (what, damage) in DAMAGES {
            restore();
            damage(path, bytes);
            // Of one damaged file there is always another.
            let resumed = resume().unwrap();
            assert_same(&resumed, &whole, &format!("{what} of {}", path.display()));
        }
    }
    for (i, (path, bytes)) in kept.iter().enumerate() {
        for (other, others) in &kept[i + 1..] {
            restore();
            flip(path, bytes, bytes.len() / 3);
            flip(other, others, others.len() - 3);
            match resume() {
                Ok(resumed) => {
                    assert_same(
                        &resumed,
                        &whole,
                        &format!("{} {}", path.display(), other.display()),
                    );
                }
                Err(e) => {
                    let said = e.to_string();
                    assert!(said.contains("no checkpoint is intact"), "{said}");
                    assert!(matches!(e, PopulationError::Damaged { .. }), "{said}");
                    assert_ne!(path.parent(), other.parent(), "{said}");
                }
            }
        }
    }
}

/// What one rank cannot read, none of them goes on from.
#[test]
fn ranks_go_on_from_the_same_checkpoint() {
    let cpu = Cpu::new(Some(1)).unwrap();
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("c");
    let checkpoints =
        Checkpoints { folder: &folder, every: Duration::ZERO, key: "k", device: "cpu" };
    let (all, options) = (population(3, 1), short(DeformModel::GREEDY));
    let whole = built(&cpu, all.clone(), &options);
    let how = How { checkpoints: Some(&checkpoints), stop: Some(5), ..How::default() };
    try_build(&alone(&cpu), all.clone(), &options, &how).unwrap_err();
    for place in ["a", "b"] {
        let path = folder.join(place).join("subject-2.state");
        let bytes = fs::read(&path).unwrap();
        flip(&path, &bytes, bytes.len() / 2);
        let found: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = Communicator::local(3)
                .into_iter()
                .map(|rank| {
                    let (cpu, all, options, checkpoints) = (&cpu, &all, &options, &checkpoints);
                    scope.spawn(move || {
                        let team = Team::new(vec![cpu.clone()], rank).unwrap();
                        // One that goes on and writes nothing.
                        let every = Duration::from_secs(3600);
                        let checkpoints = Checkpoints { every, ..checkpoints.clone() };
                        let how =
                            How { checkpoints: Some(&checkpoints), resume: true, ..How::default() };
                        try_build(&team, all.clone(), options, &how)
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        for found in found {
            match (place, found) {
                ("a", Ok((atlas, _))) => assert!(atlas.template == whole.0.template),
                (_, found) => {
                    let said = found.unwrap_err().to_string();
                    assert!(place == "b" && said.contains("no checkpoint is intact"), "{said}");
                }
            }
        }
    }
}
