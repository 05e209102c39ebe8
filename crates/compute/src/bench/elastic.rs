//! Measurements of the elastic operator, of relaxation sweeps, and of direct solvers.

use super::Bench;
use crate::device::Device;
use crate::error::{ComputeError, Result, voxels};
use crate::ops::elastic::{Boundary, ElasticOperator};
use crate::ops::fourier::spectrum_len;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let operator = |beta, boundary| ElasticOperator {
        alpha: 0.01,
        beta,
        gamma: 0.001,
        spacing: [1.0; 3],
        boundary,
    };
    let zero = operator(0.0, Boundary::Zero);
    let coupled = operator(0.005, Boundary::Zero);
    let periodic = operator(0.0, Boundary::Periodic);
    let image = device.into_host(bench.image()?)?;
    let repeated = || {
        let mut field = super::room(3 * n)?;
        (0..3).for_each(|_| field.extend_from_slice(&image));
        device.upload_vec(field)
    };
    let (v, f) = (repeated()?, repeated()?);
    drop(image);
    let mut out = device.alloc(3 * n)?;
    for (name, of) in [("", zero), (", coupled", coupled)] {
        bench.measure("elastic", format!("product{name}"), 24 * n, || {
            device.elastic_product(&of, &v, dims, &mut out)
        })?;
        bench.measure("elastic", format!("residual{name}"), 36 * n, || {
            device.elastic_residual(&of, &f, &v, dims, &mut out)
        })?;
        let omega = of.relaxation(dims);
        bench.measure("elastic", format!("sweep{name}"), 36 * n, || {
            device.elastic_sweep(&of, omega, &f, &v, dims, &mut out)
        })?;
    }
    bench.measure("elastic", "eigenvalues", 24 * n, || {
        device.elastic_eigenvalues(&zero, &mut out, dims)
    })?;
    let numbers = 3 * spectrum_len(dims)?;
    let mut spectra = device.alloc(numbers)?;
    for (name, beta) in [("symbol", 0.0), ("symbol, coupled", 0.005)] {
        let of = operator(beta, Boundary::Periodic);
        bench.measure("elastic", name, 8 * numbers, || {
            device.elastic_symbol(&of, &mut spectra, dims)
        })?;
    }
    // A machine without the library has the other operators nevertheless.
    match device.forward(&f, dims, &mut spectra) {
        Err(ComputeError::Unavailable { .. }) => return Ok(()),
        other => other?,
    }
    let bytes = 24 * n + 16 * numbers;
    bench.measure("elastic", "solution by Fourier", bytes, || {
        device.forward(&f, dims, &mut spectra)?;
        device.elastic_symbol(&periodic.times(n as f64), &mut spectra, dims)?;
        device.inverse_sum(&mut spectra, dims, &mut out)
    })?;
    bench.measure("elastic", "solution by sines", 72 * n, || {
        device.copy(&f, &mut out)?;
        device.sine(&mut out, dims)?;
        device.elastic_eigenvalues(&zero, &mut out, dims)?;
        device.sine(&mut out, dims)
    })
}
