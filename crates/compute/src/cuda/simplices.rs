//! Elements of meshes on the GPU.

use super::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Simplices;
use crate::ops::simplices::{Element, Incidence, check, check_covectors};

kernels! { SIMPLICES = "simplices/simplices.cu";
    fn measures[256](
        kind: Kind, vertices: &[f32], points: u64, corners: &[u32], elements: u64,
        centres: &mut [f32], moments: &mut [f32],
    );
    fn measure_covectors[256](
        kind: Kind, vertices: &[f32], points: u64, corners: &[u32], elements: u64, starts: &[u32],
        lists: &[u32], by_centre: &[f32], by_moment: &[f32], out: &mut [f32],
    );
}

plain! {
    /// Corners and components of an element.
    pub(crate) struct Kind as "SimplexKind" {
        corners: u32,
        components: u32,
    }
}

impl From<Element> for Kind {
    fn from(element: Element) -> Self {
        Self { corners: element.corners() as u32, components: element.components() as u32 }
    }
}

impl Simplices for Cuda {
    fn measures(
        &self,
        kind: Element,
        vertices: &CudaBuffer<f32>,
        corners: &CudaBuffer<u32>,
        centres: &mut CudaBuffer<f32>,
        moments: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = [vertices.len(), corners.len(), centres.len(), moments.len()];
        let (points, elements) = check(kind, lengths)?;
        if elements == 0 {
            return Ok(());
        }
        let (shape, kind) = (Shape::covering(elements, 256), Kind::from(kind));
        let (points, elements) = (points as u64, elements as u64);
        // SAFETY: all lists have room for every element, whose corners are vertices.
        unsafe {
            SIMPLICES
                .measures(self, shape, kind, vertices, points, corners, elements, centres, moments)
        }
    }

    fn measure_covectors(
        &self,
        kind: Element,
        vertices: &CudaBuffer<f32>,
        corners: &CudaBuffer<u32>,
        incidence: &Incidence<'_, Self>,
        by_centre: &CudaBuffer<f32>,
        by_moment: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = [vertices.len(), corners.len(), by_centre.len(), by_moment.len()];
        let (points, elements) = check_covectors(kind, lengths, incidence, out.len())?;
        if points == 0 {
            return Ok(());
        }
        let (shape, kind) = (Shape::covering(points, 256), Kind::from(kind));
        let (points, elements) = (points as u64, elements as u64);
        let (starts, lists) = (incidence.starts, incidence.corners);
        // SAFETY: all lists have room for every vertex and element; corners are vertices, and the lists of the incidence
        // are those of the corners.
        unsafe {
            SIMPLICES.measure_covectors(
                self, shape, kind, vertices, points, corners, elements, starts, lists, by_centre,
                by_moment, out,
            )
        }
    }
}
