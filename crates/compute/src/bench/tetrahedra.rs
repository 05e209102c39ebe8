//! Measurements of meshes of tetrahedra: a box of cells of eight voxels, with every voxel as a sample, and points in the same mesh without the box.

use super::{Bench, room};
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::simplices::{Incidence, incidence};
use crate::ops::tetrahedra::{
    BinGrid, Bins, Hint, KuhnBox, Mesh, Placed, SampleLists, Samples, neighbours,
};
use crate::{Dims, IDENTITY};

/// The voxels of a cell along an axis.
const CELL: usize = 8;

/// A box of cells over a grid, its nodes and its corners.
fn mesh_over(dims: Dims) -> Result<(KuhnBox, Vec<f32>, Vec<u32>)> {
    let cells = dims.map(|n| n.div_ceil(CELL));
    let mut map = IDENTITY;
    for (a, row) in map.iter_mut().enumerate() {
        // Voxel edges, from −½ on.
        row[a] = 1.0 / CELL as f64;
        row[3] = 0.5 / CELL as f64;
    }
    let kuhn = KuhnBox { cells, map };
    let [nx, ny] = [cells[0] + 1, cells[1] + 1];
    let mut nodes = room(3 * kuhn.nodes())?;
    for a in 0..3 {
        let place = |i: usize| [i % nx, i / nx % ny, i / nx / ny][a];
        nodes.extend((0..kuhn.nodes()).map(|i| (CELL * place(i)) as f32 - 0.5));
    }
    let steps = [1, nx, nx * ny];
    let mut corners: Vec<u32> = room(4 * kuhn.elements())?;
    for c in 0..kuhn.elements() / 6 {
        let low = c % cells[0] + nx * (c / cells[0] % cells[1] + ny * (c / cells[0] / cells[1]));
        for axes in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let (a, b) = (low + steps[axes[0]], low + steps[axes[0]] + steps[axes[1]]);
            let high = b + steps[axes[2]];
            let is_odd = matches!(axes, [0, 2, 1] | [1, 0, 2] | [2, 1, 0]);
            let path = if is_odd { [low, b, a, high] } else { [low, a, b, high] };
            corners.extend(path.map(|node| node as u32));
        }
    }
    Ok((kuhn, nodes, corners))
}

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let (kuhn, nodes, list) = mesh_over(dims)?;
    let (count, elements) = (kuhn.nodes(), kuhn.elements());
    let [starts, places] = incidence(count, &list)?;
    let beside = device.upload_vec(neighbours(&list)?)?;
    let (nodes, corners) = (device.upload_vec(nodes)?, device.upload_vec(list)?);
    let mesh = Mesh { nodes: &nodes, corners: &corners, kuhn: Some(kuhn) };
    let placed = Placed { mesh, samples: Samples::voxels(dims, IDENTITY), elements: None };
    let u = device.alloc::<f32>(3 * count)?;
    let mut out = device.alloc(3 * n)?;
    let units = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let bytes = 12 * (n + count);
    bench.measure("tetrahedra", "field, box", bytes, || {
        device.field(&placed, &u, &units, &mut out)
    })?;
    let mut forces = device.alloc(3 * count)?;
    bench.measure("tetrahedra", "to nodes, box", bytes, || {
        device.to_nodes(&placed, None, &out, &mut forces)
    })?;
    drop(out);

    // An eighth of the voxels as points.
    let few = (n / 8).max(1);
    let mut at = room(3 * few)?;
    for a in 0..3 {
        at.extend((0..few).map(|i| (i * 8 * [1, 7, 11][a] % (100 * dims[a])) as f32 / 100.0));
    }
    let points = device.upload_vec(at)?;
    let (any, samples) = (Mesh { kuhn: None, ..mesh }, Samples::points(&points));
    let high = dims.map(|n| n as f64 - 0.5);
    let grid = BinGrid::between([-0.5; 3], high, elements);
    let bins = Bins::new(device, &any, grid)?;
    bench.measure("tetrahedra", "bins", 12 * count + 16 * elements, || {
        Bins::new(device, &any, grid).map(|_| ())
    })?;
    let (mut found, mut again) = (device.alloc(few)?, device.alloc(few)?);
    bench.measure("tetrahedra", "locate by bins", 16 * few + 16 * elements, || {
        device.locate(&any, &samples, Some(bins.lists()), None, &mut found)
    })?;
    let hint = Hint { elements: &found, neighbours: &beside };
    bench.measure("tetrahedra", "locate by a hint", 20 * few + 32 * elements, || {
        device.locate(&any, &samples, Some(bins.lists()), Some(hint), &mut again)
    })?;
    let placed = Placed { mesh: any, samples, elements: Some(&found) };
    let mut values = device.alloc(3 * few)?;
    let bytes = 28 * few + 16 * elements + 24 * count;
    bench.measure("tetrahedra", "to samples", bytes, || {
        device.to_samples(&placed, &u, &mut values)
    })?;
    let mut pulled = device.alloc(3 * few)?;
    bench.measure("tetrahedra", "covectors of samples", bytes, || {
        device.sample_covectors(&placed, &nodes, &values, &mut pulled)
    })?;
    drop(pulled);
    let lists = SampleLists::new(device, &found, elements)?;
    let (starts, places) = (device.upload_vec(starts)?, device.upload_vec(places)?);
    let gather = lists.gather(Incidence { starts: &starts, corners: &places });
    bench.measure("tetrahedra", "to nodes", bytes + 4 * few + 20 * elements, || {
        device.to_nodes(&placed, Some(gather), &values, &mut forces)
    })?;
    let (mut ratios, mut least) = (device.alloc(elements)?, device.alloc(2)?);
    bench.measure("tetrahedra", "ratios", 20 * elements + 24 * count, || {
        device.ratios(&any, &u, &mut ratios, &mut least)
    })?;
    let (shear, mut strains) = (device.alloc(elements)?, device.alloc(6 * elements)?);
    bench.measure("tetrahedra", "strain", 48 * elements + 24 * count, || {
        device.strain(&any, &u, &shear, &mut strains, &mut ratios)
    })
}
