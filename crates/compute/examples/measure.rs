//! Measures the operators: `measure [SIZE] [THREADS] [SIMD]`.

use voxalign_compute::bench::{self, Settings};
use voxalign_compute::cpu::{Cpu, Simd};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let size = args.next().map_or(Ok(256), |a| a.parse())?;
    let threads = args.next().map(|a| a.parse()).transpose()?;
    let simd = match args.next().as_deref() {
        None => Simd::detect(),
        Some("scalar") => Simd::Scalar,
        Some("avx2") => Simd::Avx2,
        Some("avx512") => Simd::Avx512,
        Some(other) => return Err(format!("no SIMD level {other}").into()),
    };
    let cpu = Cpu::new(threads)?.with_simd(simd)?;
    for m in bench::run(&cpu, &Settings::new([size; 3]))? {
        let line = format!(
            "{:12} {:34} {:8.3} ms {:8.3} ns/voxel {:7.2} GB/s {:6.1} % of copy",
            m.family,
            m.operator,
            m.seconds * 1e3,
            m.ns_per_voxel(),
            m.gb_per_s,
            100.0 * m.of_copy
        );
        std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{line}\n"))?;
    }
    Ok(())
}
