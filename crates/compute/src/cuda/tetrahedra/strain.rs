//! What displacements do to elements.

use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::tetrahedra::{Mesh, check_ratios, check_strain};

/// The threads of the block that looks for the least ratio, as the kernel has them.
const LEAST: u32 = 1024;

kernels! { STRAIN = "tetrahedra/strain.cu";
    fn volume_ratios[256](
        nodes: &[f32], count: u64, corners: &[u32], elements: u64, displacements: &[f32], ratios: &mut [f32],
    );
    fn least_ratio[LEAST](ratios: &[f32], elements: u64, out: &mut [f64]);
    fn strains[256](
        nodes: &[f32], count: u64, corners: &[u32], elements: u64, displacements: &[f32], shear: &[f32],
        out: &mut [f32], mises: &mut [f32],
    );
}

impl Cuda {
    /// As [`Tetrahedra::ratios`](crate::ops::Tetrahedra::ratios).
    pub(super) fn ratios_of(
        &self,
        mesh: &Mesh<'_, Self>,
        displacements: &CudaBuffer<f32>,
        ratios: &mut CudaBuffer<f32>,
        least: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        let (nodes, elements) = check_ratios(mesh, displacements.len(), ratios.len(), least.len())?;
        let (n, all) = (nodes as u64, elements as u64);
        // SAFETY: nodes of corners are within the mesh, and there is a ratio for each element.
        unsafe {
            if elements > 0 {
                let shape = Shape::covering(elements, 256);
                STRAIN.volume_ratios(
                    self,
                    shape,
                    mesh.nodes,
                    n,
                    mesh.corners,
                    all,
                    displacements,
                    &mut *ratios,
                )?;
            }
            STRAIN.least_ratio(self, Shape::blocks(1, LEAST), ratios, all, least)
        }
    }

    /// As [`Tetrahedra::strain`](crate::ops::Tetrahedra::strain).
    pub(super) fn strains_of(
        &self,
        mesh: &Mesh<'_, Self>,
        displacements: &CudaBuffer<f32>,
        shear: &CudaBuffer<f32>,
        strains: &mut CudaBuffer<f32>,
        mises: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = (displacements.len(), shear.len(), strains.len(), mises.len());
        let (nodes, elements) = check_strain(mesh, lengths.0, lengths.1, lengths.2, lengths.3)?;
        if elements == 0 {
            return Ok(());
        }
        let (n, all, shape) = (nodes as u64, elements as u64, Shape::covering(elements, 256));
        // SAFETY: nodes of corners are within the mesh, and there is room for seven numbers an element.
        unsafe {
            STRAIN.strains(
                self,
                shape,
                mesh.nodes,
                n,
                mesh.corners,
                all,
                displacements,
                shear,
                strains,
                mises,
            )
        }
    }
}
