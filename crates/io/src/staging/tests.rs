use super::*;

#[test]
fn staging_is_all_or_nothing() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("x/y");
    let mut staging = Staging::new(&out).unwrap();
    std::fs::write(staging.path("a").unwrap(), b"1").unwrap();
    drop(staging);
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);

    let mut staging = Staging::new(&out).unwrap();
    std::fs::write(staging.path("a").unwrap(), b"1").unwrap();
    std::fs::write(staging.path("b").unwrap(), b"2").unwrap();
    staging.commit().unwrap();
    let names: Vec<_> = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(Staging::new(&out.join("a")).is_err());
}

/// Files of a run, not yet moved.
fn stage(folder: &Path, text: &str) -> Staging {
    let mut staging = Staging::new(folder).unwrap();
    for name in ["a", "s/b", "record"] {
        std::fs::write(staging.path(name).unwrap(), text).unwrap();
    }
    staging.scratch("away").unwrap();
    staging
}

fn read(folder: &Path) -> [Option<String>; 3] {
    ["a", "s/b", "record"].map(|n| std::fs::read_to_string(folder.join(n)).ok())
}

fn all(text: &str) -> [Option<String>; 3] {
    [(); 3].map(|()| Some(text.to_owned()))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_name_that_cannot_be_had_leaves_old_and_new() {
    let root = tempfile::tempdir().unwrap();
    stage(root.path(), "one").commit().unwrap();
    assert_eq!(read(root.path()), all("one"));
    // The move would end half-way: at a name that cannot be had.
    std::fs::remove_file(root.path().join("s/b")).unwrap();
    std::fs::create_dir_all(root.path().join("s/b/full")).unwrap();
    let said = stage(root.path(), "two").commit().unwrap_err().to_string();
    let one = Some("one".to_owned());
    assert_eq!(read(root.path()), [one.clone(), None, one]);
    let names = names(root.path());
    let kept = names.iter().find(|n| n.starts_with("voxalign-kept-")).unwrap();
    assert!(said.contains(kept.as_str()) && said.contains("s/b"), "{said}");
    assert_eq!(read(&root.path().join(kept)), all("two"));
    assert_eq!(self::names(&root.path().join(kept)), ["a", "record", "s"]);
    std::fs::remove_dir_all(root.path().join("s/b")).unwrap();
    stage(root.path(), "three").commit().unwrap();
    assert_eq!(read(root.path()), all("three"));
    // What was kept is the user's.
    assert_eq!(read(&root.path().join(kept)), all("two"));
}

/// Commits with an older result there, or none; step `n` fails, and all after it where the process dies.
/// Whether there are so many steps.
fn fault(folder: &Path, n: usize, with_older: bool, dies: bool) -> (bool, Result<()>) {
    if with_older {
        let mut older = stage(folder, "old");
        std::fs::write(older.path("stale").unwrap(), "old").unwrap();
        older.path("record").unwrap();
        older.files.new.remove(2);
        older.commit().unwrap();
    }
    let mut newer = stage(folder, "new");
    newer.without("stale");
    let mut count = 0;
    let done = newer.commit_by(&mut || {
        count += 1;
        let fails = if dies { count > n } else { count == n + 1 };
        if fails { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    });
    (count > n, done)
}

#[test]
fn a_fault_at_any_step_loses_nothing() {
    for with_older in [false, true] {
        for n in 0.. {
            let root = tempfile::tempdir().unwrap();
            let (failed, done) = fault(root.path(), n, with_older, false);
            let found = read(root.path());
            let stale = root.path().join("stale").exists();
            let kept = names(root.path()).into_iter().find(|n| n.starts_with("voxalign-kept"));
            match kept {
                // Both are whole.
                Some(kept) => {
                    assert!(done.is_err());
                    let old = if with_older { all("old") } else { [None, None, None] };
                    assert_eq!((found, stale), (old, with_older), "step {n}");
                    assert_eq!(read(&root.path().join(&kept)), all("new"), "step {n}");
                    assert_eq!(root.path().join("s").exists(), with_older, "step {n}");
                }
                // What fails after the last move only says so.
                None => assert_eq!((found, stale), (all("new"), false), "step {n}"),
            }
            assert!(failed || done.is_ok());
            let staging = Staging::new(root.path()).unwrap();
            let hidden = names(root.path()).into_iter().filter(|n| n.starts_with('.')).count();
            assert_eq!(hidden, 3, "step {n}: {:?}", names(root.path()));
            drop(staging);
            if !failed {
                assert!(n > 8, "{n} steps");
                break;
            }
        }
    }
}

#[test]
fn a_death_at_any_step_is_mended_by_the_next_run() {
    for with_older in [false, true] {
        let mut seen = [0; 3];
        for n in 0.. {
            let root = tempfile::tempdir().unwrap();
            let (failed, _) = fault(root.path(), n, with_older, true);
            let found = read(root.path());
            // A folder that has a record has one whole result.
            let old = if with_older { all("old") } else { [None, None, None] };
            let what = match found {
                _ if found == all("new") => 2,
                _ if found[2].is_some() || !with_older && found == old => {
                    assert_eq!(found, old, "step {n}");
                    0
                }
                _ => 1,
            };
            seen[what] += 1;
            // The next run brings it to its end, or leaves what was whole.
            drop(Staging::new(root.path()).unwrap());
            let mended = read(root.path());
            match what {
                1 => assert_eq!(mended, all("new"), "step {n}: {found:?}"),
                2 => assert_eq!(mended, found),
                _ => assert!(mended == old || !with_older && mended == all("new"), "step {n}"),
            }
            if mended == all("new") {
                assert!(!root.path().join("stale").exists(), "step {n}");
            }
            let names = names(root.path());
            assert!(!names.iter().any(|n| n.starts_with('.')), "step {n}: {names:?}");
            stage(root.path(), "next").commit().unwrap();
            assert_eq!(read(root.path()), all("next"), "step {n}");
            if !failed {
                break;
            }
        }
        assert!(seen.iter().all(|n| *n > 1), "{seen:?}");
    }
}

#[test]
fn files_that_were_taken_away_do_not_come_back() {
    let root = tempfile::tempdir().unwrap();
    // Killed while files were moved; then somebody takes the results away, or puts others there.
    for others in [false, true] {
        let (_, done) = fault(root.path(), 8, true, true);
        assert!(done.is_err() && !root.path().join("record").exists());
        for name in ["a", "s/b"] {
            let _ = std::fs::remove_file(root.path().join(name));
        }
        if others {
            std::fs::write(root.path().join("record"), "mine").unwrap();
        }
        drop(Staging::new(root.path()).unwrap());
        let mine = others.then(|| "mine".to_owned());
        assert_eq!(read(root.path()), [None, None, mine]);
        let _ = std::fs::remove_file(root.path().join("record"));
    }
}

#[test]
fn files_have_folders_of_their_own() {
    let root = tempfile::tempdir().unwrap();
    let mut staging = Staging::new(root.path()).unwrap();
    std::fs::write(staging.path("a/b/c").unwrap(), b"1").unwrap();
    std::fs::write(staging.path("record").unwrap(), b"2").unwrap();
    assert!(!root.path().join("a").exists());
    staging.commit().unwrap();
    assert_eq!(std::fs::read(root.path().join("a/b/c")).unwrap(), b"1");
}

#[test]
fn the_second_run_into_a_folder_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("out");
    let first = stage(&out, "one");
    let claim = first.claim();
    let refused = || Staging::new(&out).unwrap_err();
    let said = refused().to_string();
    assert!(said.contains("another run") && said.contains(out.to_str().unwrap()), "{said}");
    assert!(matches!(refused(), IoError::Busy { .. }));
    // Files of other names in it are nobody's business, the same name is.
    let one = Staging::for_file(&out.join("x.nii")).unwrap();
    let other = Staging::for_file(&out.join("y.nii")).unwrap();
    assert!(Staging::for_file(&out.join("x.nii")).is_err());
    drop((one, other));
    first.commit().unwrap();
    // Until a checkpoint is gone too.
    refused();
    drop(claim);
    stage(&out, "two").commit().unwrap();
    assert_eq!(read(&out), all("two"));
    assert_eq!(names(&out), ["a", "record", "s"]);
}

#[test]
fn what_a_killed_run_left_goes_at_once() {
    let root = tempfile::tempdir().unwrap();
    let mut killed = stage(root.path(), "killed");
    if let Some(Hidden::Own(hidden)) = killed.hidden.take() {
        hidden.abandon();
    }
    drop(killed);
    // A long run that is at work, whose folder has not changed for long.
    let mut long = Staging::for_file(&root.path().join("long.nii")).unwrap();
    let path = long.path("long.nii").unwrap();
    std::fs::write(&path, b"1").unwrap();
    let hidden = long.hidden.as_ref().unwrap().path().to_owned();
    std::fs::File::open(&hidden).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    stage(root.path(), "next").commit().unwrap();
    assert!(path.exists());
    let left: Vec<_> = names(root.path()).into_iter().filter(|n| n.starts_with('.')).collect();
    assert_eq!(left.len(), 3, "{left:?}");
    long.commit().unwrap();
    assert_eq!(names(root.path()), ["a", "long.nii", "record", "s"]);
}
