//! Deformations of images with thick slices.

use crate::common::{Place, names};
use crate::deform::{ALL_FILES, FAST, apart, record, shipped};
use std::fs;
use voxalign_image::{Grid, Volume};
use voxalign_io::image::{read_info, read_volume};

/// Fields have several voxels in a thick slice; images and the change of volume stay on the fixed grid, and all files go together.
#[test]
fn thick_slices_are_divided_in_fields() {
    let place = Place::new();
    shipped(&place);
    for (from, every, to) in [("fixed.nii.gz", 3, "a.nii.gz"), ("moving.nii.gz", 2, "b.nii.gz")] {
        let image = read_volume(place.path(from)).unwrap();
        let ([nx, ny, nz], mut to_world) = (image.dims(), *image.grid().to_world());
        let along = to_world.matrix.column(2) * every as f64;
        to_world.matrix.set_column(2, &along);
        let grid = Grid::new([nx, ny, nz.div_ceil(every)], to_world).unwrap();
        let thick = |x, y, z| *image.get(x, y, every * z).unwrap();
        place.image(to, &Volume::from_fn(grid, thick));
    }
    let line = format!("deform a.nii.gz b.nii.gz -o out {FAST} --outputs all");
    place.line(&line).expect(0);
    assert_eq!(names(&place.path("out")), ALL_FILES);
    let slices = |name: &str| read_info(place.path(name)).unwrap().dims[2];
    let [fixed, moving] = ["a.nii.gz", "b.nii.gz"].map(slices);
    for (name, expected) in [
        ("warp", 3 * fixed),
        ("inverse_warp", 3 * fixed),
        ("composite", 3 * fixed),
        ("inverse_composite", 2 * moving),
        ("jacobian", fixed),
        ("warped", fixed),
    ] {
        assert_eq!(slices(&format!("out/{name}.nii.gz")), expected, "{name}");
    }
    let there = "apply -i b.nii.gz -r a.nii.gz -o";
    let back = "apply -i a.nii.gz -r b.nii.gz -o";
    let chain = "-t inverse:out/affine.tfm -t out/inverse_warp.nii.gz";
    place.line(&format!("{back} back.nii.gz {chain}")).expect(0);
    for (line, with, off) in [
        (format!("{there} w.nii.gz -t out/warp.nii.gz -t out/affine.tfm"), "out/warped", 1e-3),
        (format!("{there} w.nii.gz -t out/composite.nii.gz"), "out/warped", 1e-3),
        // Between two voxels of the field, where a slice is divided into two.
        (format!("{back} w.nii.gz -t out/inverse_composite.nii.gz"), "back", 0.03),
    ] {
        place.line(&line).expect(0);
        let found = apart(&place, &format!("{with}.nii.gz"), "w.nii.gz");
        assert!(found <= off, "{line}: {found}");
    }
    let measures = &record(&place, "out")["deformation"]["measures"];
    let jacobian = read_volume(place.path("out/jacobian.nii.gz")).unwrap();
    let least = jacobian.data().iter().copied().fold(f32::MAX, f32::min);
    assert!(measures["smallest_jacobian"].as_f64().unwrap() <= f64::from(least), "{measures}");
    assert!(least < 0.9 && least > 0.1, "{least}");
    let html = fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(html.contains("fig-jacobian") && html.contains("fig-grid"));
    // A field for programs that take those of the fixed grid alone.
    let line_on_fixed = "compose -t out/warp.nii.gz -o on.nii.gz --fixed-geometry a.nii.gz";
    place.line(line_on_fixed).expect(0);
    assert_eq!(slices("on.nii.gz"), fixed);
    place.line(&format!("{there} w.nii.gz -t on.nii.gz -t out/affine.tfm")).expect(0);
    assert!(apart(&place, "out/warped.nii.gz", "w.nii.gz") < 1e-3);
    // Greedy steps are on the grid of the fixed image.
    let run = place.line(&format!("{line} --model greedy --no-report"));
    assert!(run.code < 2, "{}", run.err);
    for (name, expected) in [("warp", fixed), ("composite", fixed), ("inverse_composite", moving)] {
        assert_eq!(slices(&format!("out/{name}.nii.gz")), expected, "{name}");
    }
}
