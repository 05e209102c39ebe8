//! Where samples are in a body that moves under them.

use crate::error::Result;
use crate::model::elastic::body::{DeviceMesh, planes};
use voxalign_compute::Device;
use voxalign_compute::DeviceBuffer;
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::simplices::Incidence;
use voxalign_compute::ops::tetrahedra::{
    BinGrid, Bins, Gather, Hint, Mesh, OUTSIDE, Placed, SampleLists, Samples, neighbours,
};
use voxalign_image::{TetraMesh, Vector3};

/// Points that stay, in a mesh that moves: the tetrahedra are put into bins anew where they are by now, and each point is looked for
/// first where it was before and beside that.
pub(super) struct Located<D: Device> {
    /// The points, mm from the middle of the mesh at rest.
    points: D::Buffer<f32>,
    /// The nodes where they are.
    nodes: D::Buffer<f32>,
    neighbours: D::Buffer<u32>,
    /// The tetrahedron of each point, and of the time before.
    elements: D::Buffer<u32>,
    before: D::Buffer<u32>,
    lists: SampleLists<D>,
    bins: BinGrid,
}

impl<D: Device> Located<D> {
    /// In a mesh, whose tetrahedra are also given on the host, with displacements of its vertices.
    pub(super) fn new(
        device: &D,
        mesh: &DeviceMesh<D>,
        on_host: &TetraMesh,
        points: D::Buffer<f32>,
        displacements: &D::Buffer<f32>,
    ) -> Result<Self> {
        let corners: Vec<u32> = on_host.tetrahedra().iter().flatten().copied().collect();
        let count = points.len() / 3;
        let nowhere = device.upload_vec(voxalign_image::memory::filled(count, OUTSIDE)?)?;
        let [low, high] = mesh.bounds.map(|v| [v.x, v.y, v.z]);
        let mut located = Self {
            points,
            nodes: device.alloc(mesh.nodes.len())?,
            neighbours: device.upload_vec(neighbours(&corners)?)?,
            elements: device.alloc(count)?,
            lists: SampleLists::new(device, &nowhere, mesh.elements)?,
            before: nowhere,
            bins: BinGrid::between(low, high, mesh.elements),
        };
        located.search(device, mesh, displacements, false)?;
        Ok(located)
    }

    /// Locates all points anew.
    pub(super) fn update(
        &mut self,
        device: &D,
        mesh: &DeviceMesh<D>,
        displacements: &D::Buffer<f32>,
    ) -> Result<()> {
        std::mem::swap(&mut self.elements, &mut self.before);
        self.search(device, mesh, displacements, true)
    }

    fn search(
        &mut self,
        device: &D,
        mesh: &DeviceMesh<D>,
        displacements: &D::Buffer<f32>,
        hinted: bool,
    ) -> Result<()> {
        let Self { points, nodes, neighbours, elements, before, .. } = self;
        device.eval(&(x(0) + x(1)), &[&mesh.nodes, displacements], &[], None, nodes)?;
        let moved = Mesh { nodes: &*nodes, corners: &mesh.corners, kuhn: None };
        let bins = Bins::new(device, &moved, self.bins)?;
        let hint = hinted.then_some(Hint { elements: &*before, neighbours: &*neighbours });
        let samples = Samples::points(&*points);
        device.locate(&moved, &samples, Some(bins.lists()), hint, elements)?;
        self.lists = SampleLists::new(device, elements, mesh.elements)?;
        Ok(())
    }

    /// The number of points.
    pub(super) fn count(&self) -> usize {
        self.elements.len()
    }

    /// The tetrahedron of each, [`OUTSIDE`] for none.
    pub(super) fn elements(&self) -> &D::Buffer<u32> {
        &self.elements
    }

    /// The nodes where they are, mm from the middle of the mesh at rest.
    pub(super) fn nodes(&self) -> &D::Buffer<f32> {
        &self.nodes
    }

    /// The points in the mesh where it is, for the operators of a device.
    pub(super) fn placed<'a>(&'a self, mesh: &'a DeviceMesh<D>) -> Placed<'a, D> {
        let moved = Mesh { nodes: &self.nodes, corners: &mesh.corners, kuhn: None };
        let samples = Samples::points(&self.points);
        Placed { mesh: moved, samples, elements: Some(&self.elements) }
    }

    /// The same in another mesh of the same tetrahedra, whose corners may be nodes of their own.
    pub(super) fn placed_in<'a>(&'a self, mesh: Mesh<'a, D>) -> Placed<'a, D> {
        Placed { mesh, samples: Samples::points(&self.points), elements: Some(&self.elements) }
    }

    /// What nodes gather by.
    pub(super) fn gather<'a>(&'a self, mesh: &'a DeviceMesh<D>) -> Gather<'a, D> {
        let [starts, corners] = &mesh.incidence;
        self.gather_by(Incidence { starts, corners })
    }

    /// The same by another incidence.
    pub(super) fn gather_by<'a>(&'a self, incidence: Incidence<'a, D>) -> Gather<'a, D> {
        self.lists.gather(incidence)
    }
}

/// For each point of the fixed world, mm, whether it is in a body with displacements of its vertices.
///
/// # Errors
/// Memory that runs out.
pub(crate) fn inside<D: Device>(
    device: &D,
    level: &crate::model::elastic::BodyLevel,
    displacements: &[Vector3<f64>],
    points: &[Vector3<f64>],
) -> Result<Vec<bool>> {
    let mesh = DeviceMesh::new(device, level)?;
    let local = voxalign_image::memory::collected(points.iter().map(|p| mesh.to_mesh.apply(*p)))?;
    let points = device.upload_vec(planes(&local))?;
    let displacements = device.upload_vec(planes(displacements))?;
    let located = Located::new(device, &mesh, level.body.mesh(), points, &displacements)?;
    let elements = device.into_host(located.elements)?;
    Ok(voxalign_image::memory::collected(elements.into_iter().map(|e| e != OUTSIDE))?)
}
