//! X-ray images of a wrist with the calibrations of both cameras, and the numbers that Pillow 13 and tifffile read of them.

use crate::common::real_files;
use voxalign_image::Vector3;
use voxalign_io::image::Oddity;
use voxalign_io::xray::{geometry, read};

#[test]
fn a_wrist_and_its_cameras() {
    let Some(folder) = real_files("ct_xray_wrist_autoscoper") else { return };
    for (camera, sum, one) in [("cam01", 537585966.0, 173.0), ("cam02", 560862669.0, 157.0)] {
        let name = format!("XMA_UND/xr_data_wrist_{camera}/xr_rad_uln_{camera}_UND.0099.tif");
        let image = read(folder.join(name)).unwrap();
        assert_eq!((image.dims, image.frames), ([1760, 1760], 1));
        assert!(matches!(image.oddities[..], [Oddity::Coarse(_)]), "{:?}", image.oddities);
        assert_eq!(image.values.iter().map(|v| f64::from(*v)).sum::<f64>(), sum);
        assert_eq!(image.values[900 * 1760 + 700], one);

        let views = geometry::read(folder.join(format!("Calibration/xr_calib_wrist_{camera}.txt")))
            .unwrap();
        let [view] = &views[..] else { panic!("{views:?}") };
        assert_eq!(view.size(), Some(image.dims));
        let geometry = view.geometry(Some(image.dims)).unwrap();
        // The world's origin is in front of the camera, within its picture.
        let [column, row] = geometry.project(Vector3::zeros()).unwrap();
        assert!((0.0..1760.0).contains(&column) && (0.0..1760.0).contains(&row), "{column} {row}");
        assert!(view.geometry(Some([1760, 1000])).is_err());
    }
    // K (R 0 + t) of the first camera.
    let view = &geometry::read(folder.join("Calibration/xr_calib_wrist_cam01.txt")).unwrap()[0];
    let [column, row] = view.geometry(None).unwrap().project(Vector3::zeros()).unwrap();
    let by_hand = [
        6167.35342293 * -16.6293306327 / 901.390251307 + 803.741292437,
        6165.63244754 * -77.8355084182 / 901.390251307 + 865.698104164,
    ];
    assert!(
        (column - by_hand[0]).abs() < 1e-6 && (row - by_hand[1]).abs() < 1e-6,
        "{column} {row}"
    );
}

#[test]
fn pages_of_models() {
    let Some(folder) = real_files("ct_xray_wrist_autoscoper/Models") else { return };
    let image = read(folder.join("mc3_dcm_cropped.tif")).unwrap();
    assert_eq!((image.dims, image.frames), ([60, 59], 116));
    assert_eq!(image.values.iter().map(|v| f64::from(*v)).sum::<f64>(), 137212022.0);
}
