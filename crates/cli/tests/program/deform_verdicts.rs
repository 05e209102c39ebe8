//! Deformations of what does not belong together: what the verdict says of them.

use crate::common::{Place, names, thorough};
use crate::deform::{FILES, record, shipped, small};
use std::fs;
use voxalign_image::{Affine, Vector3, Volume};
use voxalign_io::image::read_volume;

/// Two images without a common anatomy: the affine part fails, and with it the whole.
#[test]
fn a_bad_affine_part_is_a_bad_verdict() {
    let place = Place::new();
    small(&place);
    place.image("noise.nii.gz", &noise(crate::common::grid([30, 30, 30], 4.0)));
    let run = place.line("deform a.nii.gz noise.nii.gz -o out --schedule 4x5 --no-report");
    let run = run.expect(1);
    assert!(run.out.contains("verdict: bad") && run.out.contains("affine part: "), "{}", run.out);
    let record = record(&place, "out");
    assert_eq!(record["verdict"]["good"], false);
    assert_eq!(record["deformation"]["affine_verdict"]["good"], false);
}

/// Noise of a linear congruence, which has nothing in common with anything.
fn noise(grid: voxalign_image::Grid) -> Volume<f32> {
    let mut state = 1u32;
    Volume::from_fn(grid, |_, _, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32
    })
}

/// A deformation brings anything to the outline of anything: what is within decides. Headers agree, so
/// that nothing else than the result itself tells.
#[test]
fn what_has_nothing_in_common_is_a_bad_verdict() {
    let place = Place::new();
    shipped(&place);
    let brain = read_volume(place.path("fixed.nii.gz")).unwrap();
    let (grid, [nx, ny, nz]) = (brain.grid().clone(), brain.dims());
    let within = |i: usize, n: usize| (n / 4..n - n / 4).contains(&i);
    place.image("noise.nii.gz", &noise(grid.clone()));
    place.image(
        "box.nii.gz",
        &Volume::from_fn(grid.clone(), |x, y, z| {
            if within(x, nx) && within(y, ny) && within(z, nz) { 1000.0 } else { 0.0 }
        }),
    );
    place.image(
        "point.nii.gz",
        &Volume::from_fn(
            grid,
            |x, y, z| {
                if [x, y, z] == [nx / 2, ny / 2, nz / 2] { 1000.0 } else { 0.0 }
            },
        ),
    );
    let line = "--affine none --schedule 4x15,2x3 --no-report --outputs affine";
    let usual = [("fixed", "noise"), ("noise", "fixed"), ("fixed", "box"), ("point", "fixed")];
    let others = thorough().then_some([("box", "fixed"), ("fixed", "point")]);
    for (fixed, moving) in usual.into_iter().chain(others.into_iter().flatten()) {
        let run = place.line(&format!("deform {fixed}.nii.gz {moving}.nii.gz -o out {line}"));
        let run = run.expect(1);
        assert!(run.out.contains("information shared by the images"), "{}", run.out);
        let record = record(&place, "out");
        let failed = record["verdict"]["checks"].as_array().unwrap().iter();
        let failed = failed.filter(|c| c["passed"] == false).count();
        assert!(failed >= 1, "{record}");
        assert!(record["figures"]["information_in_tissue_after"].as_f64().unwrap() < 0.1);
    }
    // The same way, and a brain onto a brain is fine.
    let run = place.line(&format!("deform fixed.nii.gz moving.nii.gz -o brain {line}")).expect(0);
    let shared = record(&place, "brain")["figures"]["information_in_tissue_after"].as_f64();
    assert!(shared.unwrap() > 0.3, "{}", run.out);
}

/// A head in the place of its mirror image, which a deformation brings to it: whichever way it starts, and whatever bends it, a remark says
/// so, and none is made of the same head as it is.
#[test]
fn what_fits_better_mirrored_is_said() {
    let place = Place::new();
    shipped(&place);
    let head = read_volume(place.path("moving.nii.gz")).unwrap();
    let [nx, ..] = head.dims();
    let turned =
        Volume::from_fn(head.grid().clone(), |x, y, z| *head.get(nx - 1 - x, y, z).unwrap());
    place.image("mirrored.nii.gz", &turned);
    let deform = "deform --schedule 4x15";
    let elastic = "elastic --schedule 4x15 --affine none";
    let usual = [(deform, "mirrored"), (deform, "moving"), (elastic, "mirrored")];
    let others = thorough().then_some((elastic, "moving"));
    for (way, fixed) in usual.into_iter().chain(others) {
        let mirrored = fixed == "mirrored";
        let line = format!("{way} {fixed}.nii.gz moving.nii.gz -o out --no-report");
        let run = place.line(&line);
        let said = run.out.contains("fit better with one of them mirrored");
        assert_eq!(said, mirrored, "{line}\n{}\n{}", run.out, run.err);
        let bad = run.out.contains("gain in edge agreement from mirroring one image");
        assert_eq!(bad, mirrored, "{line}\n{}\n{}", run.out, run.err);
    }
}

/// Where the affine part fails so far that no deformation can start there, that is the verdict: nothing
/// was wrong with the command.
#[test]
fn an_affine_part_that_no_deformation_can_start_from() {
    let place = Place::new();
    let far = "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n\
               Parameters: 0.01 0 0 0 0.01 0 0 0 0.01 0 0 0\nFixedParameters: 0 0 0\n";
    place.write("far.tfm", far);
    // An older run is in the folder: none of its files may pass for those of this one.
    small(&place);
    place.line("deform a.nii.gz b.nii.gz -o out --schedule 4x5");
    assert_eq!(names(&place.path("out")), FILES);
    let line = "deform a.nii.gz b.nii.gz -o out --schedule 4x5 --init far.tfm --search none";
    {
        let run = place.line(line);
        let run = run.expect(1);
        assert!(run.out.contains("verdict: bad: affine part: "), "{}", run.out);
        assert!(run.out.contains("no deformation can start from it"), "{}", run.out);
        assert!(!run.err.contains("--affine is"), "{}", run.err);
        assert_eq!(names(&place.path("out")), ["report.html", "result.json"]);
        let record = record(&place, "out");
        assert_eq!(record["verdict"]["good"], false);
        assert!(record["deformation"].is_null(), "{record}");
        assert_eq!(record["parameters"]["affine"], "auto");
        assert!(record["transform"]["matrix"][0][0].is_number(), "{record}");
        assert_eq!(record["outputs"].as_array().unwrap().len(), 2);
        let page = fs::read_to_string(place.path("out/report.html")).unwrap();
        assert!(page.contains("no deformation can start from it"));
    }
    let quiet = place.line(&format!("{line} -q")).expect(1);
    assert!(quiet.out.is_empty() && quiet.err.contains("verdict: bad"), "{}", quiet.err);
    // A start that was given and does not fit is an option that cannot be.
    let given = place.line("deform a.nii.gz b.nii.gz -o out --affine far.tfm").expect(2);
    assert!(given.err.contains("--affine"), "{}", given.err);
}

/// One bright voxel gives the search nothing to go by.
#[test]
fn one_bright_voxel_is_a_bad_verdict() {
    let place = Place::new();
    let grid = crate::common::grid([28, 30, 26], 4.0);
    place.image("noise.nii.gz", &noise(grid.clone()));
    let point =
        Volume::from_fn(grid, |x, y, z| if [x, y, z] == [14, 15, 13] { 1000.0 } else { 0.0 });
    place.image("point.nii.gz", &point);
    place.line("affine point.nii.gz noise.nii.gz -o lin --no-report").expect(1);
    place.line("deform point.nii.gz noise.nii.gz -o out --no-report --schedule 4x5").expect(1);
}

#[test]
fn a_start_that_is_far_off_is_a_bad_verdict() {
    let place = Place::new();
    let fixed = crate::common::grid([40, 44, 36], 4.0);
    let head = crate::common::head(&fixed, &Affine::identity());
    place.image("a.nii.gz", &head);
    let off = fixed.moved(&Affine::translation(Vector3::new(48.0, 0.0, 0.0))).unwrap();
    place.image("b.nii.gz", &head.with_grid(off).unwrap());
    let line = "deform a.nii.gz b.nii.gz -o out --no-report --schedule 2x10 --affine";
    let run = place.line(&format!("{line} none")).expect(1);
    let said = ["agreement under the nearest affine map", "try: start nearer"];
    assert!(said.iter().all(|text| run.out.contains(text)), "{}", run.out);
    // With a start that fits, and without one, the same images are fine.
    place.line(line.trim_end_matches(" --affine")).expect(0);
    place.line("affine a.nii.gz b.nii.gz -o lin --no-report").expect(0);
    place.line(&format!("{line} lin/affine.tfm")).expect(0);
}
