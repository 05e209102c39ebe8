//! Results under the names of BIDS derivatives.

use crate::common::{Place, names};
use std::fs;

/// A pair whose files have names of BIDS.
fn place() -> Place {
    let place = Place::new();
    place.pair();
    for (from, to) in [("fixed", "tpl-Own_T1w"), ("moving", "sub-01_ses-1_T1w")] {
        let path = |name: &str| place.path(&format!("{name}.nii.gz"));
        fs::rename(path(from), path(to)).unwrap();
    }
    place
}

const QUICK: &str =
    "affine tpl-Own_T1w.nii.gz sub-01_ses-1_T1w.nii.gz --dof 6 --search local --device cpu";

#[test]
fn the_result_is_in_a_data_set_as_well() {
    let place = place();
    let line = format!("{QUICK} --bids d --bids-skull-stripped no -o");
    let run = place.line(&format!("{line} out")).expect(0);
    assert!(run.err.contains("files and their sidecars are in 'd'"), "{}", run.err);
    let folder = place.path("d/sub-01/ses-1/anat");
    let own = "sub-01_ses-1";
    assert_eq!(
        names(&folder),
        [
            format!("{own}_from-Own_to-T1w_mode-image_xfm.json"),
            format!("{own}_from-Own_to-T1w_mode-image_xfm.txt"),
            format!("{own}_from-T1w_to-Own_mode-image_xfm.json"),
            format!("{own}_from-T1w_to-Own_mode-image_xfm.txt"),
            format!("{own}_space-Own_desc-preproc_T1w.json"),
            format!("{own}_space-Own_desc-preproc_T1w.nii.gz"),
            format!("{own}_space-Own_report.html"),
        ]
    );
    let image = folder.join(format!("{own}_space-Own_desc-preproc_T1w.nii.gz"));
    assert_eq!(fs::read(&image).unwrap(), fs::read(place.path("out/warped.nii.gz")).unwrap());
    assert!(place.path("d/dataset_description.json").exists());

    // Once more it is refused before anything is done, and a dry run says what would be.
    let run = place.line(&format!("{line} other")).expect(2);
    run.says(&["is there already", "--bids-overwrite"]);
    assert!(!place.path("other").exists());
    let run = place.line(&format!("{line} other --bids-space Other --dry-run")).expect(0);
    assert!(run.out.contains("sub-01_ses-1_space-Other_desc-preproc_T1w.json"), "{}", run.out);
    place.line(&format!("{line} other --bids-overwrite --no-report")).expect(0);
    assert_eq!(names(&folder).len(), 6);
}

#[test]
fn a_bad_result_is_left_out_unless_it_is_wanted() {
    let place = place();
    let line =
        format!("{QUICK} --search none --init identity --bids d --bids-skull-stripped yes -o out")
            .replacen("--dof 6 --search local ", "", 1);
    let run = place.line(&line).expect(1);
    assert!(
        run.err.contains("nothing was put into 'd'") && run.err.contains("--bids-accept-bad"),
        "{}",
        run.err
    );
    assert!(place.path("out/result.json").exists() && !place.path("d").exists());
    place.line(&format!("{line} --bids-accept-bad")).expect(1);
    let sidecar = place.path("d/sub-01/ses-1/anat/sub-01_ses-1_space-Own_desc-preproc_T1w.json");
    assert!(fs::read_to_string(sidecar).unwrap().contains("\"Good\": false"));
}

#[test]
fn what_is_not_known_is_asked_for() {
    let place = place();
    fs::copy(place.path("sub-01_ses-1_T1w.nii.gz"), place.path("scan.nii.gz")).unwrap();
    fs::copy(place.path("sub-01_ses-1_T1w.nii.gz"), place.path("sub-02_T1w.nii.gz")).unwrap();
    let before = place.names();
    for (line, parts) in [
        (
            "tpl-Own_T1w.nii.gz sub-01_ses-1_T1w.nii.gz --bids d",
            &["--bids-skull-stripped is missing"][..],
        ),
        (
            "tpl-Own_T1w.nii.gz scan.nii.gz --bids d",
            &["--bids-name is missing", "'scan.nii.gz' has no name of BIDS"],
        ),
        (
            "sub-02_T1w.nii.gz sub-01_ses-1_T1w.nii.gz --bids d",
            &["--bids-space is missing", "of subject 02"],
        ),
        (
            "tpl-Own_T1w.nii.gz scan.nii.gz --bids-name sub-1_T1w",
            &["--bids-name is for --bids; leave it out"],
        ),
        (
            "tpl-Own_T1w.nii.gz scan.nii.gz --bids scan.nii.gz --bids-name sub-1_T1w --bids-skull-stripped no",
            &["is a file"],
        ),
    ] {
        place.line(&format!("affine {line} -o out")).expect(2).says(parts);
        assert_eq!(place.names(), before, "{line}");
    }
}
