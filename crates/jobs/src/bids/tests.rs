use super::*;
use crate::Silent;
use std::fs;
use voxalign_image::{Affine, Transform, Vector3};
use voxalign_io::transform::{self, Geometry};

/// A folder with the result of an affine registration of these files.
fn result(root: &Path, [fixed, moving]: [&str; 2], good: bool) -> (PathBuf, Value) {
    let folder = root.join("out");
    fs::create_dir_all(&folder).unwrap();
    let shift = Transform::Affine(Affine::translation(Vector3::new(1.0, 2.0, 3.0)));
    transform::write(folder.join("affine.tfm"), &shift, &Geometry::default()).unwrap();
    fs::write(folder.join("warped.nii.gz"), "an image").unwrap();
    fs::write(folder.join("report.html"), "<html></html>").unwrap();
    let output = |role: &str, name: &str| serde_json::json!({"role": role, "path": format!("/elsewhere/{name}")});
    let record = serde_json::json!({
        "program": "voxalign affine",
        "version": "1",
        "parameters": {"dof": 6},
        "figures": {},
        "verdict": {"good": good, "checks": []},
        "inputs": [{"role": "fixed", "path": fixed}, {"role": "moving", "path": moving}],
        "outputs": [
            output("transform", "affine.tfm"),
            output("resampled", "warped.nii.gz"),
            output("record", "result.json"),
            output("report", "report.html"),
        ],
    });
    (folder, record)
}

const PAIR: [&str; 2] = ["tpl-MNI152Lin_T1w.nii.gz", "in/sub-07_ses-two_T1w.nii.gz"];

fn options(root: &Path) -> BidsOptions {
    let bids_skull_stripped = Some(YesNo::No);
    BidsOptions { bids: Some(root.join("d")), bids_skull_stripped, ..BidsOptions::default() }
}

/// Puts a result into a data set.
fn put(
    folder: &Path,
    record: &Value,
    options: &BidsOptions,
    listener: &dyn Listener,
) -> Result<Vec<(&'static str, PathBuf)>> {
    Registered::of(folder, record.clone())?.put(options, listener)
}

/// All files of a data set, relative to it.
fn all(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(folder).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn names_sidecars_and_contents() {
    let root = tempfile::tempdir().unwrap();
    let (folder, record) = result(root.path(), PAIR, true);
    let written = put(&folder, &record, &options(root.path()), &Silent).unwrap();
    let place = "sub-07/ses-two/anat/sub-07_ses-two";
    assert_eq!(
        all(&root.path().join("d")),
        [
            ".bidsignore".to_owned(),
            "dataset_description.json".to_owned(),
            format!("{place}_from-MNI152Lin_to-T1w_mode-image_xfm.json"),
            format!("{place}_from-MNI152Lin_to-T1w_mode-image_xfm.txt"),
            format!("{place}_from-T1w_to-MNI152Lin_mode-image_xfm.json"),
            format!("{place}_from-T1w_to-MNI152Lin_mode-image_xfm.txt"),
            format!("{place}_space-MNI152Lin_desc-preproc_T1w.json"),
            format!("{place}_space-MNI152Lin_desc-preproc_T1w.nii.gz"),
            format!("{place}_space-MNI152Lin_report.html"),
        ]
    );
    let path = |role: &str| &written.iter().find(|(name, _)| *name == role).unwrap().1;
    let there = transform::read(path("transform"), &Geometry::default()).unwrap();
    let back = transform::read(path("inverse_transform"), &Geometry::default()).unwrap();
    assert_eq!(there.apply(Vector3::zeros()), Vector3::new(1.0, 2.0, 3.0));
    assert_eq!(back.apply(Vector3::zeros()), Vector3::new(-1.0, -2.0, -3.0));
    let said = fs::read_to_string(
        path("resampled").with_file_name("sub-07_ses-two_space-MNI152Lin_desc-preproc_T1w.json"),
    );
    let said: Value = serde_json::from_str(&said.unwrap()).unwrap();
    assert_eq!(
        (&said["SkullStripped"], &said["SpatialReference"]),
        (&false.into(), &PAIR[0].into())
    );
    assert_eq!(said["Sources"], serde_json::json!([PAIR[1], PAIR[0]]));
    assert_eq!(said["Verdict"]["Good"], true);
}

#[test]
fn what_is_there_stays_unless_it_is_to_be_replaced() {
    let root = tempfile::tempdir().unwrap();
    let (folder, record) = result(root.path(), PAIR, true);
    let mut options = options(root.path());
    put(&folder, &record, &options, &Silent).unwrap();
    // A deformation was there before: what this result does not have goes with it.
    let place = root.path().join("d/sub-07/ses-two/anat");
    let older = place.join("sub-07_ses-two_from-T1w_to-MNI152Lin_mode-image_xfm.h5");
    fs::write(&older, "older").unwrap();
    let other = place.join("sub-07_ses-two_space-other_desc-preproc_T1w.nii.gz");
    fs::write(&other, "other").unwrap();
    fs::write(root.path().join("d/.bidsignore"), "mine/").unwrap();
    let before = all(&root.path().join("d"));
    let said = put(&folder, &record, &options, &Silent).unwrap_err().to_string();
    assert!(said.contains("is there already; give `bids_overwrite = true`"), "{said}");
    assert_eq!(all(&root.path().join("d")), before);
    options.bids_overwrite = true;
    put(&folder, &record, &options, &Silent).unwrap();
    assert!(!older.exists() && other.exists());
    let ignored = fs::read_to_string(root.path().join("d/.bidsignore")).unwrap();
    assert_eq!(ignored, "mine/\n*_xfm.*\n*_report.html\n");
    // Another label has names of its own.
    options = BidsOptions { bids_overwrite: false, bids_space: Some("T2".into()), ..options };
    put(&folder, &record, &options, &Silent).unwrap();
}

#[test]
fn inputs_are_never_replaced() {
    let root = tempfile::tempdir().unwrap();
    let scan = root.path().join("d/sub-1/anat/sub-1_space-MNI_desc-preproc_T1w.nii.gz");
    fs::create_dir_all(scan.parent().unwrap()).unwrap();
    fs::write(&scan, "a scan").unwrap();
    let (folder, record) = result(root.path(), ["a.nii", scan.to_str().unwrap()], true);
    let bids_space = Some("MNI".into());
    let options = BidsOptions { bids_space, bids_overwrite: true, ..options(root.path()) };
    let said = put(&folder, &record, &options, &Silent).unwrap_err().to_string();
    assert!(said.contains("is both an input and an output"), "{said}");
    assert_eq!(all(&root.path().join("d")).len(), 1);
}

#[test]
fn what_is_refused_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let base = options(root.path());
    let said = |pair: [&str; 2], good: bool, options: &BidsOptions| {
        let (folder, record) = result(root.path(), pair, good);
        put(&folder, &record, options, &Silent).unwrap_err().to_string()
    };
    let with = |change: &dyn Fn(&mut BidsOptions)| {
        let mut options = base.clone();
        change(&mut options);
        options
    };
    let [template, scan] = PAIR;
    for (pair, options, words) in [
        ([template, "scan.nii"], &base, "'scan.nii' has no name of BIDS"),
        ([template, ""], &base, "the moving image is of no file"),
        (["sub-02_T1w.nii", scan], &base, "'sub-02_T1w.nii' is of subject 02"),
        (
            PAIR,
            &with(&|o| o.bids_name = Some("sub-08_T1w".into())),
            "`bids_name` is of subject 08, and",
        ),
        (PAIR, &with(&|o| o.bids_name = Some("T1w".into())), "`bids_name` is 'T1w'"),
        (PAIR, &with(&|o| o.bids_desc = Some("a b".into())), "`bids_desc` is 'a b'; BIDS allows"),
        (PAIR, &with(&|o| o.bids_desc = Some("jacobian".into())), "give another label"),
        (PAIR, &with(&|o| o.bids_skull_stripped = None), "`bids_skull_stripped` is missing"),
    ] {
        let said = said(pair, true, options);
        assert!(said.contains(words), "{said}");
    }
    let bad = said(PAIR, false, &base);
    assert!(bad.contains("the verdict of") && bad.contains("`bids_accept_bad = true`"), "{bad}");
    assert!(!root.path().join("d").exists());

    let (folder, mut record) = result(root.path(), PAIR, true);
    record["program"] = "voxalign segment".into();
    record["inputs"] = serde_json::json!([]);
    let said = put(&folder, &record, &base, &Silent).unwrap_err().to_string();
    assert!(said.contains("is no result of a registration"), "{said}");

    for (text, words) in
        [("{\"DatasetType\": \"raw\"}", "no data set of derivatives"), ("{", "is no JSON")]
    {
        fs::create_dir_all(root.path().join("d")).unwrap();
        fs::write(root.path().join("d/dataset_description.json"), text).unwrap();
        let (folder, record) = result(root.path(), PAIR, true);
        let said = put(&folder, &record, &base, &Silent).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
        assert_eq!(all(&root.path().join("d")).len(), 1);
    }
    let file = with(&|o| o.bids = Some(root.path().join("out/warped.nii.gz")));
    let (folder, record) = result(root.path(), PAIR, true);
    let said = put(&folder, &record, &file, &Silent).unwrap_err().to_string();
    assert!(said.contains("is a file; give the folder"), "{said}");
}

#[test]
fn options_without_a_data_set_are_refused() {
    let options = BidsOptions { bids_space: Some("MNI".into()), ..BidsOptions::default() };
    let said = options.check().unwrap_err().to_string();
    assert_eq!(said, "`bids_space` is for `bids`; leave it out");
    BidsOptions::default().check().unwrap();
}

#[test]
fn a_sidecar_says_whether_there_is_a_skull() {
    let root = tempfile::tempdir().unwrap();
    let scan = root.path().join("sub-07_T1w.nii.gz");
    fs::write(root.path().join("sub-07_T1w.json"), "{\"SkullStripped\": true}").unwrap();
    let options = BidsOptions { bids_skull_stripped: None, ..options(root.path()) };
    let said = options.said(Path::new(PAIR[0]), &scan).unwrap();
    assert_eq!(
        (said.skull_stripped, &*said.space, &*said.desc),
        (Some(true), "MNI152Lin", "preproc")
    );
    // The one of functional images needs none.
    let run = options.said(Path::new(PAIR[0]), Path::new("sub-1_task-rest_bold.nii"));
    assert_eq!(run.unwrap().skull_stripped, None);
}
