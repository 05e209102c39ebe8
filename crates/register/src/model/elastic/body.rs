//! Bodies at every scale, and on a device with the samples of a grid in them.

use crate::error::Result;
use std::sync::Arc;
use voxalign_compute::ops::simplices::{Incidence, incidence};
use voxalign_compute::ops::tetrahedra::{
    BinGrid, Bins, Gather, KuhnBox, Mesh, Placed, SampleLists, Samples,
};
use voxalign_compute::{AffineMap, Device};
use voxalign_elasticity::cut::LEAST_RATIO;
use voxalign_elasticity::{Body, Fixed, State, TetraBox};
use voxalign_image::{Affine, Grid, Index, Vector3, World, memory};

/// A body for scales from a factor on.
#[derive(Debug, Clone)]
pub struct BodyLevel {
    /// The lowest factor of the scales that it serves; 1 for all.
    pub factor: usize,
    /// The mesh at rest, in the fixed world, with its materials.
    pub body: Arc<Body>,
    /// Vertices that stay where they are.
    pub fixed: Fixed,
    /// The box that the mesh is, where it is one: in it no sample is searched for.
    pub cells: Option<TetraBox>,
}

/// The body that a registration moves, with the same or with coarser meshes at coarse scales.
#[derive(Debug, Clone)]
pub struct ElasticBody {
    /// From the finest to the coarsest.
    levels: Vec<BodyLevel>,
}

impl ElasticBody {
    /// One mesh for all scales, in the fixed world; `cells` is the box that it is, where it is one.
    #[must_use]
    pub fn new(body: impl Into<Arc<Body>>, fixed: Fixed, cells: Option<TetraBox>) -> Self {
        Self { levels: vec![BodyLevel { factor: 1, body: body.into(), fixed, cells }] }
    }

    /// The same with another mesh, usually a coarser one, at scales of this factor and above. What moved is carried from one mesh to the
    /// next by its shape functions.
    #[must_use]
    pub fn with_level(mut self, level: BodyLevel) -> Self {
        self.levels.push(level);
        self.levels.sort_by_key(|level| level.factor);
        self
    }

    /// The meshes, from the finest to the coarsest.
    #[must_use]
    pub fn levels(&self) -> &[BodyLevel] {
        &self.levels
    }

    /// The finest.
    #[must_use]
    pub fn finest(&self) -> &BodyLevel {
        &self.levels[0]
    }

    /// The number and the mesh for a scale.
    pub(super) fn at(&self, factor: usize) -> (usize, &BodyLevel) {
        let serves = self.levels.iter().take_while(|level| level.factor <= factor).count();
        let number = serves.saturating_sub(1);
        (number, &self.levels[number])
    }
}

/// A state of one mesh at the vertices of another one: those outside of the first take what is at its nearest vertex.
///
/// # Errors
/// Memory that runs out.
pub(super) fn carried(from: &BodyLevel, state: &State, to: &BodyLevel) -> Result<State> {
    use rayon::prelude::*;
    let mesh = from.body.mesh();
    let bins = voxalign_elasticity::Bins::new(mesh)?;
    let places = to.body.mesh().vertices();
    let located: Vec<_> = places.par_iter().map(|&x| bins.locate(x)).collect();
    let nearest = |x: &Vector3<f64>| {
        let away = |v: &Vector3<f64>| (v - x).norm_squared();
        let of = mesh.vertices().iter().enumerate().map(|(i, v)| (i, away(v)));
        of.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i)
    };
    let outside: Vec<_> = places
        .par_iter()
        .zip(&located)
        .map(|(x, l)| if l.is_none() { nearest(x) } else { 0 })
        .collect();
    let values = |values: &[Vector3<f64>]| {
        let of = |(l, &i): (&Option<voxalign_elasticity::Located>, &usize)| match l {
            Some(l) => l.interpolated(mesh.tetrahedra(), values),
            None => values[i],
        };
        let mut all = memory::collected(located.iter().zip(&outside).map(of))?;
        to.fixed.clear(&mut all);
        Ok::<_, crate::RegisterError>(all)
    };
    let mut carried = State {
        displacements: values(&state.displacements)?,
        velocities: values(&state.velocities)?,
        accelerations: values(&state.accelerations)?,
    };
    mend(to, &mut carried)?;
    Ok(carried)
}

/// The least volume of a tetrahedron over that at rest after a change of meshes: twice that below which steps are cut.
const LEAST_CARRIED: f64 = 2.0 * LEAST_RATIO;

/// Rounds of averages, and how often a state is halved if these do not do.
const ROUNDS: usize = 20;
const HALVED: usize = 8;

/// Makes tetrahedra whole that another mesh would have crushed: beside a part that is held here and was not quite the same there, or at
/// the border. Their free vertices go to the mean of those around, without velocity, again and again; if that is not enough, all of the body nearer to
/// rest.
fn mend(level: &BodyLevel, state: &mut State) -> Result<()> {
    let (body, held) = (&level.body, level.fixed.mask());
    let (pattern, tetrahedra) = (body.pattern(), body.mesh().tetrahedra());
    for round in 0..ROUNDS + HALVED {
        let ratios = body.volume_ratios(&state.displacements)?;
        let crushed = |r: &f64| r.is_nan() || *r < LEAST_CARRIED;
        if !ratios.iter().any(crushed) {
            break;
        }
        if round >= ROUNDS {
            for all in [&mut state.displacements, &mut state.velocities, &mut state.accelerations] {
                all.iter_mut().for_each(|v| *v *= 0.5);
            }
            continue;
        }
        let mut near = memory::filled(held.len(), false)?;
        let corners = ratios.iter().zip(tetrahedra).filter(|(r, _)| crushed(r));
        corners.flat_map(|(_, t)| t).for_each(|&v| near[v as usize] = true);
        let before = memory::copied(&state.displacements)?;
        for v in (0..held.len()).filter(|&v| near[v] && !held[v]) {
            let around = &pattern.columns()[pattern.rows()[v]..pattern.rows()[v + 1]];
            let sum: Vector3<f64> = around.iter().map(|&w| before[w as usize]).sum();
            state.displacements[v] = sum / around.len() as f64;
            (state.velocities[v], state.accelerations[v]) = (Vector3::zeros(), Vector3::zeros());
        }
    }
    Ok(())
}

/// A body at rest.
fn still(level: &BodyLevel) -> Result<State> {
    let zeros = || memory::filled(level.body.mesh().vertices().len(), Vector3::zeros());
    let (displacements, velocities, accelerations) = (zeros()?, zeros()?, zeros()?);
    Ok(State { displacements, velocities, accelerations })
}

/// The state in which the mesh of a number begins a scale: that of the scale `before`, given with the number of its mesh, else where the body starts, given
/// for its finest mesh, else at rest.
///
/// # Errors
/// Memory that runs out.
pub(super) fn brought(
    body: &ElasticBody,
    start: Option<&State>,
    before: Option<(usize, State)>,
    number: usize,
) -> Result<State> {
    let level = &body.levels[number];
    match (before, start) {
        (Some((same, state)), _) if same == number => Ok(state),
        (Some((other, state)), _) => carried(&body.levels[other], &state, level),
        (None, Some(start)) if number == 0 => Ok(start.clone()),
        (None, Some(start)) => carried(body.finest(), start, level),
        (None, None) => still(level),
    }
}

/// A mesh on a device. Its coordinates are mm from its middle, so that single precision keeps what matters of them.
pub(super) struct DeviceMesh<D: Device> {
    pub(super) nodes: D::Buffer<f32>,
    pub(super) corners: D::Buffer<u32>,
    pub(super) incidence: [D::Buffer<u32>; 2],
    kuhn: Option<KuhnBox>,
    /// From the world to its coordinates.
    pub(super) to_mesh: Affine,
    pub(super) vertices: usize,
    pub(super) elements: usize,
    pub(super) bounds: [Vector3<f64>; 2],
}

/// Vectors as devices have them: all x, all y, all z.
pub(super) fn planes(vectors: &[Vector3<f64>]) -> Vec<f32> {
    (0..3).flat_map(|a| vectors.iter().map(move |v| v[a] as f32)).collect()
}

/// [`planes`] as vectors.
pub(super) fn vectors(planes: &[f32]) -> Vec<Vector3<f64>> {
    let n = planes.len() / 3;
    let at = |i: usize, a: usize| f64::from(planes[a * n + i]);
    (0..n).map(|i| Vector3::new(at(i, 0), at(i, 1), at(i, 2))).collect()
}

impl<D: Device> DeviceMesh<D> {
    pub(super) fn new(device: &D, level: &BodyLevel) -> Result<Self> {
        let mesh = level.body.mesh();
        let [low, high] = mesh.bounds().unwrap_or([Vector3::zeros(); 2]);
        let middle = (low + high) * 0.5;
        let nodes: Vec<_> = mesh.vertices().iter().map(|v| v - middle).collect();
        let corners: Vec<u32> = mesh.tetrahedra().iter().flatten().copied().collect();
        let [starts, places] = incidence(nodes.len(), &corners)?;
        let kuhn = level.cells.as_ref().map(|cells| KuhnBox {
            cells: cells.cells(),
            map: Affine::<World, World>::translation(middle)
                .then(cells.vertices().to_index())
                .rows(),
        });
        Ok(Self {
            nodes: device.upload(&planes(&nodes))?,
            incidence: [device.upload(&starts)?, device.upload(&places)?],
            kuhn,
            to_mesh: Affine::translation(-middle),
            vertices: nodes.len(),
            elements: corners.len() / 4,
            corners: device.upload(&corners)?,
            bounds: [low - middle, high - middle],
        })
    }

    /// The mesh, for the operators of a device.
    pub(super) fn mesh(&self) -> Mesh<'_, D> {
        Mesh { nodes: &self.nodes, corners: &self.corners, kuhn: self.kuhn }
    }

    /// The same as any other mesh.
    pub(super) fn searched(&self) -> Mesh<'_, D> {
        Mesh { kuhn: None, ..self.mesh() }
    }
}

/// The samples of a grid in a mesh at rest.
pub(super) struct Places<D: Device> {
    /// The grid whose voxels are the samples.
    pub(super) grid: Grid,
    map: AffineMap,
    /// The element of each sample and the samples of each element; none in a box, where they follow from the place.
    listed: Option<(D::Buffer<u32>, SampleLists<D>)>,
    /// 1 where a sample is in the mesh, else 0; none where all are.
    pub(super) inside: Option<D::Buffer<f32>>,
}

impl<D: Device> Places<D> {
    pub(super) fn new(device: &D, mesh: &DeviceMesh<D>, grid: &Grid) -> Result<Self> {
        let map: Affine<Index, World> = grid.to_world().then(&mesh.to_mesh);
        let rows = map.rows();
        let listed = match &mesh.kuhn {
            Some(_) => None,
            None => Some(listed(device, mesh, grid, &rows)?),
        };
        let mut places = Self { grid: grid.clone(), map: rows, listed, inside: None };
        let covers = mesh.kuhn.is_some_and(|cells| {
            let to_cells = map.then(&Affine::<World, World>::from_rows(cells.map));
            let last = grid.dims().map(|n| (n - 1) as f64);
            (0..8).all(|c| {
                let corner = Vector3::from_fn(|a, _| if c >> a & 1 == 1 { last[a] } else { 0.0 });
                let at = to_cells.apply(corner);
                (0..3).all(|a| at[a] >= 0.0 && at[a] <= cells.cells[a] as f64)
            })
        });
        if !covers {
            let ones = device.upload(&vec![1.0f32; mesh.vertices])?;
            let mut inside = device.alloc(grid.len())?;
            device.to_samples(&places.placed(mesh), &ones, &mut inside)?;
            places.inside = Some(inside);
        }
        Ok(places)
    }

    /// The samples, for the operators of a device.
    pub(super) fn placed<'a>(&'a self, mesh: &'a DeviceMesh<D>) -> Placed<'a, D> {
        let elements = self.listed.as_ref().map(|(elements, _)| elements);
        let samples = Samples::voxels(self.grid.dims(), self.map);
        Placed { mesh: mesh.mesh(), samples, elements }
    }

    /// What nodes gather by, where they need it.
    pub(super) fn gather<'a>(&'a self, mesh: &'a DeviceMesh<D>) -> Option<Gather<'a, D>> {
        let [starts, corners] = &mesh.incidence;
        let (_, lists) = self.listed.as_ref()?;
        Some(lists.gather(Incidence { starts, corners }))
    }

    /// The linear map from mm to voxels of the grid.
    pub(super) fn units(&self) -> [[f64; 3]; 3] {
        let m = &self.grid.to_index().matrix;
        [0, 1, 2].map(|r| [0, 1, 2].map(|c| m[(r, c)]))
    }

    /// The elements and the weights of all samples, on the host: `u32::MAX` outside.
    pub(super) fn weights(&self, device: &D, mesh: &DeviceMesh<D>) -> Result<(Vec<u32>, Vec<f32>)> {
        let (elements, lists);
        let elements = match &self.listed {
            Some((elements, _)) => elements,
            None => {
                (elements, lists) = listed(device, mesh, &self.grid, &self.map)?;
                drop(lists);
                &elements
            }
        };
        let samples = Samples::voxels(self.grid.dims(), self.map);
        let placed = Placed { mesh: mesh.searched(), samples, elements: Some(elements) };
        let mut weights = device.alloc(4 * self.grid.len())?;
        device.weights(&placed, &mut weights)?;
        Ok((device.download(elements)?, device.into_host(weights)?))
    }
}

/// The element of every voxel of a grid, and the voxels of every element.
fn listed<D: Device>(
    device: &D,
    mesh: &DeviceMesh<D>,
    grid: &Grid,
    map: &AffineMap,
) -> Result<(D::Buffer<u32>, SampleLists<D>)> {
    let [low, high] = mesh.bounds.map(|v| [v.x, v.y, v.z]);
    let bins = BinGrid::between(low, high, mesh.elements);
    let bins = Bins::new(device, &mesh.searched(), bins)?;
    let samples = Samples::voxels(grid.dims(), *map);
    let mut elements = device.alloc(grid.len())?;
    device.locate(&mesh.searched(), &samples, Some(bins.lists()), None, &mut elements)?;
    let lists = SampleLists::new(device, &elements, mesh.elements)?;
    Ok((elements, lists))
}
