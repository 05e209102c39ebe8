//! Measurements of the elements of meshes, on a surface with half as many vertices as triangles.

use super::{Bench, room};
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::simplices::{Element, Incidence, incidence};

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    // A sheet of squares, each cut in two.
    let side = (n as f64 / 16.0).sqrt().ceil().max(2.0) as usize;
    let points = side * side;
    let mut vertices = room(3 * points)?;
    for a in 0..3 {
        vertices.extend((0..points).map(|i| {
            let [x, y] = [(i % side) as f32, (i / side) as f32];
            [x, y, 3.0 * (0.1 * x).sin() * (0.07 * y).cos()][a]
        }));
    }
    let squares = (side - 1) * (side - 1);
    for kind in [Element::Triangle, Element::UnorientedTriangle] {
        let elements = 2 * squares;
        let mut corners = room(3 * elements)?;
        for k in 0..3 {
            corners.extend((0..elements).map(|i| {
                let (square, first) = (i / 2, i % 2 == 0);
                let at = square % (side - 1) + square / (side - 1) * side;
                let of = if first {
                    [at, at + 1, at + side]
                } else {
                    [at + 1, at + side + 1, at + side]
                };
                of[k] as u32
            }));
        }
        let lists = incidence(points, &corners)?;
        let starts = device.upload(&lists[0])?;
        let list = device.upload(&lists[1])?;
        let incidence = Incidence { starts: &starts, corners: &list };
        let (x, corners) = (device.upload(&vertices)?, device.upload_vec(corners)?);
        let components = kind.components();
        let (mut centres, mut moments) =
            (device.alloc(3 * elements)?, device.alloc(components * elements)?);
        let of_elements = 4 * elements * (6 + components);
        let name = format!("{kind:?}");
        bench.measure(
            "simplices",
            format!("{name}, measures"),
            12 * points + of_elements,
            || device.measures(kind, &x, &corners, &mut centres, &mut moments),
        )?;
        let mut out = device.alloc(3 * points)?;
        let bytes = 28 * points + of_elements + 12 * elements;
        bench.measure("simplices", format!("{name}, covectors"), bytes, || {
            device.measure_covectors(kind, &x, &corners, &incidence, &centres, &moments, &mut out)
        })?;
    }
    Ok(())
}
