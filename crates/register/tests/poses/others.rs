//! Poses by X-ray images of another program.

use super::starts::{CASES, OFF, Study};
use super::{CTS, ct, starts};
use std::path::{Path, PathBuf};
use voxalign_image::XrayGeometry;
use voxalign_io::xray::{self, geometry};
use voxalign_register::projection::PoseOptions;

/// The images of a folder with its views.
fn views(folder: &Path) -> (Vec<XrayGeometry>, Vec<Vec<f32>>) {
    let all = geometry::read(folder.join("views.toml")).unwrap();
    let one = |view: geometry::View| {
        let image = xray::read(view.image.clone().unwrap()).unwrap();
        (view.geometry(Some(image.dims)).unwrap(), image.values)
    };
    all.into_iter().map(one).unzip()
}

#[test]
#[ignore = "takes minutes, and needs images of other programs: folders of views in `head` and `lung` of VOXALIGN_TEST_XRAYS"]
fn poses_are_found_by_images_of_other_programs() {
    let folder = std::env::var_os("VOXALIGN_TEST_XRAYS").map(PathBuf::from);
    let folder = folder.expect("VOXALIGN_TEST_XRAYS names the folder with `head` and `lung`");
    for (name, short) in CTS.into_iter().zip(["head", "lung"]) {
        let Some(ct) = ct(name) else { return };
        let mut programs: Vec<_> =
            std::fs::read_dir(folder.join(short)).unwrap().map(|f| f.unwrap().path()).collect();
        programs.sort();
        for program in programs {
            let (geometries, images) = views(&program);
            for (views, sampling) in CASES {
                let study = Study {
                    ct: &ct,
                    geometries: &geometries[..views],
                    images: &images[..views],
                    starts: starts(2),
                    options: PoseOptions { sampling, ..PoseOptions::default() },
                    photons: 1e5,
                    off: OFF,
                };
                let shown = program.file_name().unwrap_or_default().display();
                let found = study.run(&format!("{short} {shown}, {views} views, {sampling:?}"));
                assert_eq!(found.wrong_but_good, 0);
                let asked = if views == 1 { 0.85 } else { 0.97 };
                assert!(found.found as f64 >= asked * study.starts as f64);
            }
        }
    }
}
