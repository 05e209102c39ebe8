//! Products of dense matrices (table 5.3 and figure 5.2).

use super::sheets::{Measured, Row};
use super::{OnDevice, Plan, timed};
use voxalign_compute::Device;
use voxalign_image::memory;
use voxalign_jobs::Result;

/// The rows of a matrix of table 5.3, with times, ms, and GFLOP/s of products by global memory, by shared memory and by CUBLAS.
const TABLE: [(usize, [[f64; 2]; 3]); 7] = [
    (64, [[0.063, 8.257], [0.051, 10.199], [0.188, 2.766]]),
    (128, [[0.112, 37.302], [0.069, 60.549], [0.233, 17.930]]),
    (256, [[0.435, 76.985], [0.201, 166.611], [0.430, 77.881]]),
    (512, [[3.763, 71.265], [1.207, 222.181], [0.768, 349.184]]),
    (1024, [[30.321, 70.790], [9.137, 234.916], [3.469, 618.747]]),
    (1536, [[89.352, 81.088], [30.614, 236.669], [9.501, 762.593]]),
    (2048, [[243.491, 70.539], [72.552, 236.736], [22.742, 755.24]]),
];

const ON: [&str; 3] = ["GTX 480, global memory", "GTX 480, shared memory", "GTX 480, CUBLAS"];

/// What is larger takes seconds a product on a CPU.
const LARGEST_OF_CPU: usize = 512;

/// Table 5.3.
pub(super) fn measure(plan: &Plan<'_>) -> Result<Measured> {
    let most = if plan.machine.gpu().is_some() { usize::MAX } else { LARGEST_OF_CPU };
    let mut measured =
        Products { runs: plan.runs(), gpu: plan.machine.gpu().is_some(), rows: Vec::new() };
    plan.everywhere(&mut measured)?;
    let mut rows = Vec::new();
    for (size, times) in TABLE.into_iter().filter(|(size, _)| *size <= most) {
        let what = size.to_string();
        rows.extend(measured.rows.iter().filter(|r| r.what == what).cloned());
        let printed = |(on, [ms, rate]): (&&str, [f64; 2])| {
            Row::published(&what, on, vec![Some(ms), Some(rate), None, None])
        };
        rows.extend(ON.iter().zip(times).map(printed));
    }
    Ok(Measured {
        part: "product",
        title: "Products of a symmetric N x N matrix with N vectors and with one (table 5.3)"
            .into(),
        of: "N",
        quantities: vec!["N vectors ms", "N vectors GFLOP/s", "one ms", "one GFLOP/s"],
        rows,
    })
}

/// Products.
struct Products {
    runs: usize,
    /// Whether the next device is a GPU.
    gpu: bool,
    rows: Vec<Row>,
}

impl OnDevice for Products {
    fn on<D: Device>(&mut self, device: &D, name: &str) -> Result<()> {
        // A GPU comes first.
        let most = if std::mem::take(&mut self.gpu) { usize::MAX } else { LARGEST_OF_CPU };
        for (size, _) in TABLE.into_iter().filter(|(size, _)| *size <= most) {
            let entry = |k: usize| (k / size + k % size) as f32 / (2 * size) as f32 - 0.5;
            let matrix = device.upload_vec(memory::collected((0..size * size).map(entry))?)?;
            let mut values = Vec::new();
            for vectors in [size, 1] {
                let x = memory::collected((0..size * vectors).map(|k| (k % 17) as f32 / 16.0))?;
                let (x, mut out) = (device.upload_vec(x)?, device.alloc(size * vectors)?);
                let seconds =
                    timed(device, self.runs, || device.dense_product(&matrix, size, &x, &mut out))?;
                let operations = 2.0 * (size * size * vectors) as f64;
                values.extend([Some(seconds * 1e3), Some(operations / seconds * 1e-9)]);
            }
            self.rows.push(Row::new(&size.to_string(), name, values));
        }
        Ok(())
    }
}
