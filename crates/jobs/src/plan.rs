//! Dry runs of jobs.

use crate::error::{Error, Result};
use crate::listener::{Listener, reading};
use crate::run::{Input, Role};
use serde::Serialize;
use std::path::PathBuf;
use voxalign_image::{Grid, memory};
use voxalign_io::image;
use voxalign_options::{Choice as _, text};
use voxalign_register::attachment::images::slice_parts;
use voxalign_register::model::symmetric::middle_spacing;

/// What a job would read and write, and about how much memory it takes on the CPU.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// The files that it reads.
    pub reads: Vec<Reads>,
    /// The files that it writes; those of single subjects of an atlas are in its folder `subjects`.
    pub writes: Vec<PathBuf>,
    /// The memory that it takes at most, bytes, where that follows from the images.
    pub memory_bytes: Option<u64>,
    /// The memory that is free, bytes, where the system tells.
    pub free_bytes: Option<u64>,
}

/// A file that is read.
#[derive(Debug, Clone, Serialize)]
pub struct Reads {
    /// What it is.
    pub role: String,
    /// Where it is.
    pub path: PathBuf,
    /// The sizes of an image, voxels.
    pub dims: Option<[usize; 3]>,
    /// The spacing of an image, mm.
    pub spacing_mm: Option<[f64; 3]>,
}

impl Plan {
    /// Of files that are read and written; looks at headers.
    pub(crate) fn new(
        inputs: &[Input<'_>],
        writes: Vec<PathBuf>,
        listener: &dyn Listener,
    ) -> Result<Self> {
        let reads = inputs.iter().map(|input| {
            let grid = match input.is_image() {
                true => {
                    let read = || image::read_info_of(input.path(), input.which());
                    Some(reading(listener, read).map_err(|e| e.choosing(input.role()))?)
                }
                // That it is there.
                false => match input.path().try_exists() {
                    Ok(true) => None,
                    _ => {
                        let path = input.path().display();
                        return Err(Error::input(text!(
                            "'{path}': file not found; check the path"
                        )));
                    }
                },
            };
            let grid: Option<Grid> = grid.map(|info| info.grid);
            Ok(Reads {
                role: input.name().to_owned(),
                path: input.path().to_owned(),
                dims: grid.as_ref().map(Grid::dims),
                spacing_mm: grid.as_ref().map(Grid::spacing),
            })
        });
        let reads = reads.collect::<Result<_>>()?;
        Ok(Self { reads, writes, memory_bytes: None, free_bytes: memory::host().free })
    }

    /// With an estimate of the memory.
    pub(crate) fn taking(self, bytes: u64) -> Self {
        Self { memory_bytes: Some(bytes), ..self }
    }

    /// Voxels of the files of a role.
    pub(crate) fn voxels(&self, role: Role) -> u64 {
        let of = self.reads.iter().filter(|r| r.role == role.name()).filter_map(|r| r.dims);
        of.map(|dims| dims.iter().map(|&n| n as u64).product::<u64>()).sum()
    }
}

impl Plan {
    /// Voxels along each axis of an image, and their spacing, mm; no voxels where there is none.
    fn sizes(&self, role: Role) -> ([usize; 3], [f64; 3]) {
        let read = self.reads.iter().find(|r| r.role == role.name());
        read.and_then(|r| Some((r.dims?, r.spacing_mm?))).unwrap_or(([0; 3], [1.0; 3]))
    }

    /// Voxels of the grid on which two images meet that are both deformed.
    pub(crate) fn meeting(&self, roles: [Role; 2]) -> u64 {
        let [(fixed, of_fixed), (moving, of_moving)] = roles.map(|role| self.sizes(role));
        let spacing = middle_spacing([of_fixed, of_moving], fixed[2] == 1);
        let along = |a: usize| {
            let reach = |n: usize, h: f64| n as f64 * h;
            let most = reach(fixed[a], of_fixed[a]).max(reach(moving[a], of_moving[a]));
            (most / spacing[a]).ceil() as u64
        };
        (0..3).map(along).product()
    }

    /// Voxels of the grid of fields that divide the thick slices of an image.
    pub(crate) fn divided(&self, role: Role) -> u64 {
        let (dims, spacing) = self.sizes(role);
        let parts = slice_parts(dims, spacing);
        (0..3).map(|a| (dims[a] * parts[a]) as u64).product()
    }

    /// Voxels of the largest file of some roles.
    pub(crate) fn largest(&self, roles: &[Role]) -> u64 {
        let of = self
            .reads
            .iter()
            .filter(|r| roles.iter().any(|of| r.role == of.name()))
            .filter_map(|r| r.dims);
        of.map(|dims| dims.iter().map(|&n| n as u64).product::<u64>()).max().unwrap_or(0)
    }
}

/// What every job takes, bytes: threads, programs of kernels, and the pages of the program itself, which a development build has the most of.
pub(crate) const BASE: u64 = 42 << 20;

/// The end of a registration that has both fields, bytes for each of their voxels: they are compared, and what they do is measured.
pub(crate) const FIELDS: u64 = 65;

/// An affine registration, bytes for each voxel of both images: as measured from 1 to 17 million of them, at most.
pub(crate) const AFFINE: u64 = 14;
