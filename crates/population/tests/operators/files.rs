//! Images in files.

use crate::{each, images, with};
use std::path::PathBuf;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_image::{Grid, Volume};
use voxalign_io::image::{DataType, WriteOptions, read_volume, write_volume};
use voxalign_population::stream::operators::{Mean, Normalise, Smooth, Target};
use voxalign_population::stream::{
    Files, Loaded, OutputFiles, Source, StreamOptions, bound, mimo, miso,
};
use voxalign_population::{PopulationError, Result};

struct Folder(tempfile::TempDir);

impl Folder {
    fn write(&self, name: &str, image: &Volume<f32>, data_type: DataType) -> PathBuf {
        let path = self.0.path().join(name);
        let options = WriteOptions { data_type, ..WriteOptions::default() };
        write_volume(&path, image, &options).unwrap();
        path
    }
}

/// Files of several formats and types give what their values in memory give, and a result is written.
#[test]
fn files() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let cpu = Cpu::new(Some(2)).unwrap();
    let images: Vec<_> = images([23, 17, 9], 8).iter().map(|v| v.map(|v| v.round())).collect();
    let names = ["nii.gz", "nii", "mha", "nrrd"];
    for (data_type, bounded) in [(DataType::I16, true), (DataType::F32, false)] {
        let paths: Vec<_> = images
            .iter()
            .enumerate()
            .map(|(i, v)| folder.write(&format!("{i}.{}", names[i % 4]), v, data_type))
            .collect();
        let files = Files::open(paths.clone()).unwrap();
        assert_eq!((files.paths(), files.dimensions()), (&paths[..], 3));
        assert_eq!(files.bound().is_some(), bounded);
        assert!(files.bound().is_none_or(|b| (32768.0..32769.0).contains(&b)));
        let loaded = Loaded::new(&images).unwrap();
        for readers in [1, 3] {
            let options = StreamOptions { readers, ..with(None) };
            let largest = bound(&cpu, &files, &options, &()).unwrap();
            let mean = Mean::new(&[], largest).unwrap();
            let from_files = miso(&cpu, &files, &mean, &options, &()).unwrap().value;
            assert_eq!(from_files, miso(&cpu, &loaded, &mean, &options, &()).unwrap().value);
        }
        let outputs = OutputFiles {
            paths: (0..8).map(|i| folder.0.path().join(format!("out{i}.nii.gz"))).collect(),
            grid: files.grid().clone(),
            options: WriteOptions::default(),
        };
        let operator = Normalise::new(Target::Range(0.0, 1.0));
        mimo(&cpu, &files, &operator, &outputs, &with(None), &()).unwrap();
        let expected = each(&cpu, &images, &operator);
        for (path, expected) in outputs.paths.iter().zip(expected) {
            assert_eq!(read_volume(path).unwrap().data(), expected);
        }
    }
}

/// What is wrong with a file is said with its name.
#[test]
fn bad_files() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let cpu = Cpu::new(Some(2)).unwrap();
    let images = images([8, 6, 4], 12);
    let mut paths: Vec<_> = images
        .iter()
        .enumerate()
        .map(|(i, v)| folder.write(&format!("{i}.nii"), v, DataType::F32))
        .collect();
    let mean = |paths: &[PathBuf]| -> Result<Vec<f32>> {
        let files = Files::open(paths.to_vec())?;
        miso(&cpu, &files, &Mean::new(&[], 1e4)?, &with(None), &()).map(|s| s.value)
    };
    mean(&paths).unwrap();
    let said = |paths: &[PathBuf]| mean(paths).unwrap_err().to_string();

    let other = Volume::filled(Grid::axis_aligned([8, 6, 4], [1.0, 1.5, 2.1]).unwrap(), 0.0);
    let good = std::mem::replace(&mut paths[7], folder.write("other.nii", &other, DataType::F32));
    let error = mean(&paths).unwrap_err();
    assert!(matches!(error, PopulationError::OtherGrid { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("other.nii") && text.contains("0.nii"), "{text}");
    let mut hole = images[7].clone();
    hole.data_mut()[8 * 6 + 3] = f32::NAN;
    paths[7] = folder.write("hole.nii", &hole, DataType::F32);
    let text = said(&paths);
    assert!(text.contains("hole.nii") && text.contains("[3, 0, 1]"), "{text}");
    let bytes = std::fs::read(&good).unwrap();
    paths[7] = folder.0.path().join("cut.nii");
    std::fs::write(&paths[7], &bytes[..bytes.len() - 5]).unwrap();
    assert!(said(&paths).contains("cut.nii"));
    paths[7] = folder.0.path().join("none.nii");
    assert!(said(&paths).contains("none.nii"));
    assert!(Files::open(Vec::new()).is_err() && Loaded::new(&[]).is_err());
    // A result that cannot be written ends the run.
    paths[7] = good;
    let files = Files::open(paths).unwrap();
    let missing = folder.0.path().join("no/such");
    let outputs = OutputFiles {
        paths: (0..12).map(|i| missing.join(format!("{i}.nii"))).collect(),
        grid: files.grid().clone(),
        options: WriteOptions::default(),
    };
    let smooth = Smooth { sigma: 1.0, method: GaussianMethod::Recursive };
    let failed = mimo(&cpu, &files, &smooth, &outputs, &with(None), &()).err().unwrap();
    assert!(matches!(failed, PopulationError::File(_)) && failed.to_string().contains("0.nii"));
}
