use super::*;
use crate::cpu::Cpu;

const DIMS: Dims = [21, 18, 13];

/// A block of smooth values in the middle.
fn values() -> Vec<f32> {
    let at = |i: usize| [i % DIMS[0], i / DIMS[0] % DIMS[1], i / DIMS[0] / DIMS[1]];
    let of = |i: usize| {
        let [x, y, z] = at(i);
        let is_in = x > 9 && (5..12).contains(&y);
        if is_in { 1.0 + 0.2 * ((x + 2 * z) as f32 * 0.4).sin() } else { 0.0 }
    };
    (0..DIMS.iter().product()).map(of).collect()
}

/// From the front, a little aside.
fn view(aside: f64) -> RayView {
    let world = [[10.0 + aside, -40.0, 6.0], [-3.0, 40.0, -5.0], [1.1, 0.02, 0.0], [0.0, 0.0, 1.3]];
    RayView { places: world, world }
}

fn volume(device: &AnyDevice) -> AnyRayVolume {
    device.ray_volume(&device.upload(&values()).unwrap(), DIMS).unwrap()
}

/// Every set of rules and every size of blocks gives the images that the CPU gives.
#[test]
fn all_kernels_make_the_same_images() {
    let Some(cuda) = crate::cuda::tests::emulated() else { return };
    let (gpu, cpu) = (AnyDevice::Cuda(cuda), AnyDevice::Cpu(Cpu::new(Some(1)).unwrap()));
    let (on_gpu, on_cpu) = (volume(&gpu), volume(&cpu));
    let drawn = |seed| Pixels::drawn([2, 1], [21, 9], [1, 1], 50, seed);
    let region = Pixels::region([2, 1], [21, 9]);
    let shots = [
        vec![(view(0.0), drawn(1)), (view(5.0), drawn(2)), (view(-4.0), drawn(3))],
        vec![(view(0.0), region), (view(5.0), region)],
    ];
    let all = |number: usize| Rules {
        select: number & 1 != 0,
        texture: number & 2 != 0,
        fast: number & 4 != 0,
        inverse: number & 8 != 0,
    };
    for shots in shots {
        let usual = Manner::usual(0.7, Filtering::Texture);
        let expected = timed(&cpu, &on_cpu, &usual, &shots).unwrap();
        assert_eq!(expected.seconds.len(), shots.len());
        let expected = cpu.into_host(expected.images).unwrap();
        assert!(expected.iter().any(|v| *v > 5.0) && expected.contains(&0.0));
        let check = |manner: &Manner| {
            let found = timed(&gpu, &on_gpu, manner, &shots).unwrap();
            assert!(found.seconds.len() == shots.len() && found.seconds.iter().all(|s| *s > 0.0));
            let found = gpu.into_host(found.images).unwrap();
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 0.05, "{manner:?}: {found} {expected}");
            }
        };
        for number in 0..16 {
            assert_eq!(all(number).number(), number);
            check(&Manner { rules: all(number), blocks: Blocks::Of(64), ..usual });
        }
        for threads in [8, 10, 12, 14, 16, 32, 96, 160, 224, 512] {
            check(&Manner { blocks: Blocks::Of(threads), ..usual });
        }
        check(&usual);
        check(&Manner::usual(0.7, Filtering::Exact));
    }
    let manner = Manner { blocks: Blocks::Of(513), ..Manner::usual(0.7, Filtering::Exact) };
    assert!(timed(&gpu, &on_gpu, &manner, &[(view(0.0), drawn(1))]).is_err());
    assert!(
        timed(&gpu, &on_gpu, &Manner::usual(0.7, Filtering::Exact), &[])
            .unwrap()
            .seconds
            .is_empty()
    );
    assert_eq!(usual(&gpu, &drawn(1)).map(|[_, share]| share), Some(32));
}

#[test]
fn the_cpu_has_no_blocks() {
    let cpu = AnyDevice::Cpu(Cpu::new(Some(1)).unwrap());
    let (volume, usual_one) = (volume(&cpu), Manner::usual(0.7, Filtering::Exact));
    let shot = (view(0.0), Pixels::region([0, 0], [9, 9]));
    for manner in [
        Manner { blocks: Blocks::Of(64), ..usual_one },
        Manner { rules: Rules { fast: false, ..Rules::ALL }, ..usual_one },
    ] {
        let said = timed(&cpu, &volume, &manner, &[shot]).unwrap_err().to_string();
        assert!(said.contains("GPU"), "{said}");
    }
    let other = (view(0.0), Pixels::region([0, 0], [9, 8]));
    assert!(timed(&cpu, &volume, &usual_one, &[shot, other]).is_err());
    assert!(usual(&cpu, &shot.1).is_none());
    assert!(timed(&cpu, &volume, &usual_one, &[]).unwrap().seconds.is_empty());
}

#[test]
fn samples_are_counted() {
    let cpu = Cpu::new(Some(2)).unwrap();
    let of = |values: &[f32]| {
        let volume = cpu.ray_volume(&cpu.upload(values).unwrap(), DIMS).unwrap();
        let pixels = Pixels::region([0, 0], [23, 11]);
        samples(&cpu, &volume, &[view(0.0), view(3.0)], &pixels, 0.5).unwrap()
    };
    let full = of(&vec![1.0; DIMS.iter().product()]);
    // 80 mm are 160 planes.
    assert_eq!(full.planes, 2 * 23 * 11 * 160);
    assert!(full.inside > 0 && full.taken == full.inside, "{full:?}");
    let empty = of(&vec![0.0; DIMS.iter().product()]);
    assert_eq!(empty, Samples { taken: 0, ..full });
    let some = of(&values());
    assert!(some.inside == full.inside && some.taken > 0 && some.taken < full.taken, "{some:?}");
}
