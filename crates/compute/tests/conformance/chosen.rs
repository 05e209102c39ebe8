//! A device that was chosen at run time, as programs see it, has the bits of the one behind it.

use voxalign_compute::Device;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::select::AnyDevice;
use voxalign_conformance::support::{Results, assert_same_bits};

use crate::devices::{cpus, gpu};

/// The results of a device, and of the same one chosen at run time.
fn assert_same<D: Device>(
    device: &D,
    any: &AnyDevice,
    results: impl Fn(&D) -> Results,
    of_any: impl Fn(&AnyDevice) -> Results,
) {
    assert_same_bits(any, &results(device), &of_any(any));
}

fn cpu() -> Cpu {
    cpus().swap_remove(0)
}

macro_rules! tests {
    ([] $family:ident [$($check:ident)*] [$($results:ident)*]) => {
        mod $family {
            $(
                #[test]
                fn $results() {
                    use voxalign_compute::select::AnyDevice;
                    use voxalign_conformance::$family::$results as results;
                    let cpu = super::cpu();
                    super::assert_same(&cpu, &AnyDevice::Cpu(cpu.clone()), results, results);
                    if let Some(cuda) = super::gpu() {
                        super::assert_same(&cuda, &AnyDevice::Cuda(cuda.clone()), results, results);
                    }
                }
            )*
        }
    };
}
voxalign_conformance::each!([tests]);
voxalign_conformance::each_baseline!([tests]);
