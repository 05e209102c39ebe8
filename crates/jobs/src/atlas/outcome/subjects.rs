//! Outputs written for each subject.

use super::geometry::{SHAPES, Variation, of_subject};
use crate::atlas::study::{Prepared, Study};
use crate::error::Result;
use crate::files;
use crate::list::Entry;
use crate::remedy::Speaker;
use crate::results::ResultFile;
use crate::staged::Staged;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use voxalign_compute::ops::resample::LabelInterpolation;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Displacement, Grid, Transform};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::{self, Geometry};
use voxalign_population::atlas::{Found, LabelFiles};
use voxalign_register::resample::labels_onto;
use voxalign_report::SubjectRecord;

/// Takes what is found for the subjects of this rank.
pub(in crate::atlas) struct Subjects<'a, 's> {
    pub(in crate::atlas) study: &'a Study<'a>,
    pub(in crate::atlas) device: &'a AnyDevice,
    pub(in crate::atlas) prepared: &'a Prepared<'a>,
    pub(in crate::atlas) staged: &'a Mutex<Staged<'s>>,
    /// Whether files are written.
    pub(in crate::atlas) writes: bool,
    /// Label maps on the grid of the atlas.
    pub(in crate::atlas) labels: &'a LabelFiles,
    pub(in crate::atlas) records: Mutex<Vec<(usize, SubjectRecord)>>,
    pub(in crate::atlas) variation: Variation,
}

/// What is written for a subject, beside warped images of further channels.
const FILES: [&str; 5] =
    ["warp.nii.gz", "inverse_warp.nii.gz", "affine.tfm", "warped.nii.gz", "jacobian.nii.gz"];

/// The files of subjects, for pipelines.
pub(super) fn results() -> [ResultFile; 5] {
    let about = [
        (
            "subject_warp",
            "Displacements from the grid of the atlas to each subject, before the affine part",
        ),
        ("subject_inverse_warp", "Their inverse"),
        ("subject_transform", "The affine part, from the atlas to each subject"),
        ("subject_resampled", "Each subject on the grid of the atlas"),
        ("subject_jacobian", "The Jacobian determinant of the warp of each subject"),
    ];
    std::array::from_fn(|i| {
        let (role, about) = about[i];
        ResultFile::of(role, &format!("subjects/*/{}", FILES[i]), about)
    })
}

/// Says that files which an older atlas left for subjects that this one has not are no part of it.
pub(in crate::atlas) fn without_older(staged: &mut Staged<'_>, entries: &[Entry], writes: bool) {
    let Ok(older) = std::fs::read_dir(staged.final_path("subjects")) else { return };
    for folder in older.flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        if writes && entries.iter().any(|e| e.name == name) {
            continue;
        }
        let channels = (2..10).map(|c| format!("warped{c}.nii.gz"));
        for file in FILES.map(str::to_owned).into_iter().chain(channels) {
            staged.without(&format!("subjects/{name}/{file}"));
        }
        let shapes = std::fs::read_dir(folder.path().join(SHAPES)).into_iter().flatten().flatten();
        for shape in shapes {
            let shape = shape.file_name().to_string_lossy().into_owned();
            staged.without(&format!("subjects/{name}/{SHAPES}/{shape}"));
        }
    }
}

/// The names of a subject's label map after its affine map and after its deformation.
pub(in crate::atlas) fn label_names(subject: usize) -> [String; 2] {
    ["before", "after"].map(|when| format!("{subject}-{when}"))
}

impl Subjects<'_, '_> {
    fn write(
        &self,
        name: &str,
        write: impl FnOnce(&Path) -> voxalign_io::Result<()>,
    ) -> Result<()> {
        let (path, end) = {
            let mut staged = self.staged.lock().unwrap_or_else(PoisonError::into_inner);
            (staged.path(name)?, staged.final_path(name))
        };
        Ok(write(&path).map_err(|e| e.instead_at(&end))?)
    }

    /// Writes what was found for a subject, and carries its labels.
    pub(in crate::atlas) fn take(&self, found: Found) -> Result<()> {
        let number = found.subject;
        let (entry, affine) =
            (&self.prepared.entries[number], &self.prepared.aligned.affines[number]);
        let mut record = subject(self.study, entry, affine, &found);
        let (anatomy, made) =
            of_subject((self.prepared, number), &found.geometry, &self.variation)?;
        record.anatomy = anatomy;
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push((number, record));
        let grid = found.jacobian.grid().clone();
        let name = |file: &str| format!("subjects/{}/{file}", entry.name);
        let warp = Transform::Displacement(Displacement::new(found.forward));
        if self.writes {
            let inverse = Transform::Displacement(Displacement::new(found.inverse));
            for (file, field) in [("warp.nii.gz", &warp), ("inverse_warp.nii.gz", &inverse)] {
                self.write(&name(file), |path| {
                    transform::write(path, field, &Geometry::default())
                })?;
            }
            let affine = Transform::Affine(*affine);
            self.write(&name("affine.tfm"), |path| {
                if !grid.is_2d() || !transform::write_itk_2d(path, &affine)? {
                    transform::write(path, &affine, &Geometry::default())?;
                }
                Ok(())
            })?;
            let options = files::write_options(DataType::F32, dimensions(&grid));
            for (c, warped) in found.warped.iter().enumerate() {
                let file = match c {
                    0 => name("warped.nii.gz"),
                    c => name(&format!("warped{}.nii.gz", c + 1)),
                };
                self.write(&file, |path| image::write_volume(path, warped, &options))?;
            }
            self.write(&name("jacobian.nii.gz"), |path| {
                image::write_volume(path, &found.jacobian, &options)
            })?;
            for (file, made) in made {
                let mut staged = self.staged.lock().unwrap_or_else(PoisonError::into_inner);
                made.write(&mut staged, &name(&file))?;
            }
        }
        if let Some(labels) = &entry.labels {
            let labels = files::labels(labels, self.study.listener)?;
            let nearest = LabelInterpolation::Nearest;
            let linear = Transform::Affine(*affine);
            let [before, after] = label_names(number);
            let map = labels_onto(self.device, &labels, &grid, &linear, nearest, 0)?;
            self.labels.put(&before, &map)?;
            let whole = Transform::Composite(vec![warp, linear]);
            let map = labels_onto(self.device, &labels, &grid, &whole, nearest, 0)?;
            self.labels.put(&after, &map)?;
        }
        Ok(())
    }
}

/// How many dimensions files of a grid have.
pub(in crate::atlas) fn dimensions(grid: &Grid) -> usize {
    if grid.is_2d() { 2 } else { 3 }
}

/// The record of a subject, but for what is known of all of them together.
pub(in crate::atlas) fn subject(
    study: &Study<'_>,
    entry: &Entry,
    affine: &Affine,
    found: &Found,
) -> SubjectRecord {
    let rows = affine.rows();
    SubjectRecord {
        name: entry.name.clone(),
        weight: entry.weight,
        covariates: entry.covariates.clone(),
        affine: [rows[0], rows[1], rows[2], [0.0, 0.0, 0.0, 1.0]],
        correlation: [0.0; 2],
        information: None,
        measures: found.measures,
        mended: found.mended,
        outlying: false,
        anatomy: Default::default(),
        verdict: study.caller.worded(found.verdict.clone(), Speaker::Atlas),
    }
}
