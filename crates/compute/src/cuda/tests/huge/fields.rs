//! The families of vector fields.

use super::families::ROUNDING;
use super::*;
use crate::IDENTITY;
use crate::ops::elastic::{Boundary, ElasticOperator};
use crate::ops::flow::{Inversion, Step};
use crate::ops::{Elastic, Flow};

const OPERATOR: ElasticOperator = ElasticOperator {
    alpha: 1.0,
    beta: 0.0,
    gamma: 0.5,
    spacing: [1.0, 1.25, 1.5],
    boundary: Boundary::Zero,
};

pub(super) fn elastic(cuda: &Cuda, grids: &Grids) {
    let dims = grids.field;
    same_everywhere(cuda, dims, "elastic product", ROUNDING, |scene| {
        let v = scene.image(3, 20, 1.0)?;
        let mut out = scene.cuda.alloc(3 * scene.n())?;
        scene.cuda.elastic_product(&OPERATOR, &v, scene.dims, &mut out)?;
        Ok(Made::of(out, 3))
    });
    for beta in [0.0, 0.5] {
        let operator = ElasticOperator { beta, ..OPERATOR };
        same_everywhere(cuda, dims, "elastic residual", ROUNDING, |scene| {
            let (f, v) = (scene.image(3, 23, 1.0)?, scene.image(3, 26, 1.0)?);
            let mut out = scene.cuda.alloc(3 * scene.n())?;
            scene.cuda.elastic_residual(&operator, &f, &v, scene.dims, &mut out)?;
            Ok(Made::of(out, 3))
        });
        same_everywhere(cuda, dims, "elastic sweep", ROUNDING, |scene| {
            let (f, v) = (scene.image(3, 29, 1.0)?, scene.image(3, 32, 1.0)?);
            let mut out = scene.cuda.alloc(3 * scene.n())?;
            scene.cuda.elastic_sweep(&operator, 1.4, &f, &v, scene.dims, &mut out)?;
            Ok(Made::of(out, 3))
        });
    }
    // By their formulas, as they depend on the place.
    let large = Scene::large(cuda, dims);
    let cosine = |periodic: bool, a: usize, k: usize| {
        let n = dims[a] as f64;
        let angle = if periodic {
            std::f64::consts::TAU * k as f64 / n
        } else {
            std::f64::consts::PI * (k + 1) as f64 / (n + 1.0)
        };
        (2.0 - 2.0 * angle.cos()) / OPERATOR.spacing[a].powi(2)
    };
    let eigenvalue = |periodic: bool, k: Dims| {
        OPERATOR.gamma + (0..3).map(|a| OPERATOR.alpha * cosine(periodic, a, k[a])).sum::<f64>()
    };
    let check =
        |name: &str, of: &Scene<'_>, found: &CudaBuffer<f32>, value: &dyn Fn(Dims) -> f64| {
            for component in 0..3 {
                let values = mark(35 + component as u64);
                for &place in &of.places {
                    for (row, values) in values.chunks(MARK[0]).enumerate() {
                        let at = [place[0], place[1] + row % MARK[1], place[2] + row / MARK[1]];
                        let mut numbers = [0f32; MARK[0]];
                        cuda.read(found, of.at(component, at), &mut numbers).unwrap();
                        for (x, (f, v)) in numbers.iter().zip(values).enumerate() {
                            let expected = f64::from(*v) / value([at[0] + x, at[1], at[2]]);
                            let error = (f64::from(*f) - expected).abs();
                            assert!(
                                error < 1e-4 * expected.abs() + 1e-6,
                                "{name}: {f}, not {expected} at {at:?}"
                            );
                        }
                    }
                }
            }
        };
    let mut coefficients = large.image(3, 35, 1.0).unwrap();
    cuda.elastic_eigenvalues(&OPERATOR, &mut coefficients, dims).unwrap();
    check("eigenvalues", &large, &coefficients, &|k| eigenvalue(false, k));
    drop(coefficients);
    let spectra =
        Scene { cuda, dims: [2 * (dims[0] / 2 + 1), dims[1], dims[2]], places: large.places };
    let mut numbers = spectra.image(3, 35, 1.0).unwrap();
    let periodic = ElasticOperator { boundary: Boundary::Periodic, ..OPERATOR };
    cuda.elastic_symbol(&periodic, &mut numbers, dims).unwrap();
    check("symbol", &spectra, &numbers, &|[x, y, z]| eigenvalue(true, [x / 2, y, z]));
}

pub(super) fn flow(cuda: &Cuda, grids: &Grids) {
    same_everywhere(cuda, grids.flow, "advance", ROUNDING, |scene| {
        let (field, velocity) = (scene.image(3, 40, 0.4)?, scene.image(3, 43, 1.5)?);
        let mut out = scene.cuda.alloc(3 * scene.n())?;
        let step = Step { scale: [0.5, 1.0, -1.0], limit: None };
        scene.cuda.advance(&field, &velocity, &step, scene.dims, &mut out)?;
        Ok(Made::of(out, 3))
    });
    same_everywhere(cuda, grids.flow, "inversion", ROUNDING, |scene| {
        let field = scene.image(3, 46, 0.15)?;
        let mut out = scene.cuda.alloc(3 * scene.n())?;
        let ended = scene.cuda.invert_field(&field, scene.dims, Inversion::default(), &mut out)?;
        assert_eq!(ended.unconverged, 0);
        Ok(Made::of(out, 3))
    });
    same_everywhere(cuda, grids.flow, "overshoot", ROUNDING, |scene| {
        // Nothing leads out of the grid.
        let field = scene.image(3, 49, 1.0)?;
        let mut out = scene.cuda.alloc(scene.n())?;
        scene.cuda.field_overshoot(&field, scene.dims, &mut out)?;
        assert_eq!(squares(scene.cuda, &out)?, [0.0, 0.0]);
        scene.cuda.field_lengths(&field, [1.0, 2.0, 0.5], &mut out)?;
        Ok(Made::of(out, 1))
    });
    for add in [false, true] {
        same_everywhere(cuda, grids.field, "force", ROUNDING, |scene| {
            let (derivative, image) = (scene.image(1, 52, 1.0)?, scene.image(1, 53, 1.0)?);
            let mut out = scene.image(3, 54, 1.0)?;
            scene.cuda.force(&derivative, &image, scene.dims, [1.0, 2.0, 0.5], add, &mut out)?;
            Ok(Made::of(out, 3))
        });
    }
    same_everywhere(cuda, grids.flow, "force, displaced", ROUNDING, |scene| {
        let (derivative, image) = (scene.image(1, 68, 1.0)?, scene.image(1, 69, 1.0)?);
        let field = scene.image(3, 70, 1.5)?;
        let mut out = scene.cuda.alloc(3 * scene.n())?;
        let (dims, units) = (scene.dims, [[1.0, 0.0, 0.2], [0.0, 0.5, 0.0], [0.1, 0.0, -1.0]]);
        scene.cuda.force_at(
            &derivative,
            &image,
            dims,
            &IDENTITY,
            &field,
            dims,
            &units,
            &mut out,
        )?;
        Ok(Made::of(out, 3))
    });
    same_everywhere(cuda, grids.field, "blend", ROUNDING, |scene| {
        let (other, weight) = (scene.image(3, 57, 1.0)?, scene.image(1, 60, 1.0)?);
        let mut field = scene.image(3, 61, 1.0)?;
        scene.cuda.blend_fields(Some(&other), &weight, &mut field)?;
        scene.cuda.blend_fields(None, &weight, &mut field)?;
        Ok(Made::of(field, 3))
    });
    same_everywhere(cuda, grids.scalar, "half precision", 0.0, |scene| {
        let image = scene.image(1, 64, 1.0)?;
        let mut halves = scene.cuda.alloc::<u16>(scene.n())?;
        scene.cuda.to_half(&image, &mut halves)?;
        drop(image);
        let mut out = scene.cuda.alloc(scene.n())?;
        scene.cuda.to_single(&halves, &mut out)?;
        Ok(Made::of(out, 1))
    });
    // Sums over a field are those of each mark.
    let numbers = |scene: &Scene<'_>| {
        let field = scene.image(3, 65, 1.0).unwrap();
        let (mut norms, mut energies) = (cuda.alloc(3).unwrap(), cuda.alloc(2).unwrap());
        cuda.field_norms(&field, [1.0, 0.5, 2.0], &mut norms).unwrap();
        cuda.field_energies(&field, scene.dims, [1.0; 3], [1.0, 2.0, 0.5], &mut energies).unwrap();
        let norms = cuda.download(&norms).unwrap();
        (norms[0], [&norms[1..], &cuda.download(&energies).unwrap()].concat())
    };
    let large = Scene::large(cuda, grids.field);
    let ((most, sums), (large_most, large_sums)) = (numbers(&Scene::small(cuda)), numbers(&large));
    assert_eq!(most, large_most);
    for (one, all) in sums.iter().zip(&large_sums) {
        let expected = one * large.places.len() as f64;
        assert!(
            (all - expected).abs() < 1e-9 * expected,
            "a sum over a field: {all}, not {expected}"
        );
    }
}
