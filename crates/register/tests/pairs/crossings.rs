//! What a step with points asks of a GPU: nothing crosses to it, and next to nothing back.

use crate::common::Random;
use crate::deform::Told;
use crate::deform::scales;
use std::sync::{Arc, Mutex};
use voxalign_compute::cuda::{Cuda, WorkStatistics};
use voxalign_image::{Affine, Grid, PointSet, Vector3, Volume};
use voxalign_register::Choice;
use voxalign_register::attachment::Landmarks;
use voxalign_register::attachment::currents::{Shape, ShapeOptions, Summation};
use voxalign_register::diffeo::{
    DeformInput, DeformModel, Matching, ShapeInput, register_deformable,
};
use voxalign_register::progress::{Event, Progress};
use voxalign_register::similarity::Similarity;

const TIME_STEPS: usize = 3;

/// Notes what a device was asked for, after each step of each scale.
struct Watch {
    device: Cuda,
    scales: Mutex<Vec<Vec<WorkStatistics>>>,
}

impl Progress for Watch {
    fn event(&self, event: &Event<'_>) {
        let mut scales = self.scales.lock().unwrap();
        match event {
            Event::StageStart { .. } => scales.push(Vec::new()),
            Event::Step { .. } => scales.last_mut().unwrap().push(self.device.work()),
            _ => {}
        }
    }
}

/// The data terms beside images.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Beside {
    Nothing,
    Landmarks,
    Surface(Summation),
}

fn points(seed: u64) -> Vec<Vector3<f64>> {
    let mut random = Random::new(seed);
    let mut at = || 6.0 * random.sign();
    (0..10).map(|_| Vector3::new(at(), at(), at())).collect()
}

/// What each step after the first of a scale asks for.
fn asked(device: &Cuda, model: DeformModel, beside: Beside) -> Vec<WorkStatistics> {
    let corner = Affine::translation(Vector3::repeat(-9.5));
    let grid = Grid::new([20, 20, 20], corner).unwrap();
    let blob = |off: f32| {
        let wave = move |i: usize| ((i as f32 + off) * 0.4).sin();
        // Dark around: what reaches the border is weighted wherever it is seen, which depends on where it goes.
        let inside = |i: usize| if (3..17).contains(&i) { 1.0 } else { 0.0 };
        Volume::from_fn(grid.clone(), move |x, y, z| {
            inside(x) * inside(y) * inside(z) * (3.0 + wave(x) + 0.5 * wave(y) - wave(z))
        })
    };
    let (fixed, moving) = (blob(0.0), blob(0.7));
    let mut input = DeformInput::new(&fixed, &moving, Similarity::SSD, Affine::identity());
    let [p, q] = [3, 4].map(points);
    match beside {
        Beside::Nothing => {}
        Beside::Landmarks => {
            let [p, q] = [p, q].map(PointSet::new);
            input.landmarks = Some(Landmarks::new(&p, &q, 0.1).unwrap());
        }
        Beside::Surface(summation) => {
            let faces: Vec<[u32; 3]> = (0..8).map(|i| [i, i + 1, i + 2]).collect();
            let surface = |at: &[_]| Arc::new(Shape::surface(at, &faces, true).unwrap());
            // Near each other: a shape that goes far has its grid made anew.
            let near: Vec<_> = p.iter().map(|p| p + Vector3::new(0.5, -0.4, 0.3)).collect();
            let (fixed, moving) = (surface(&p), surface(&near));
            let options = ShapeOptions { width: 6.0, summation, ..ShapeOptions::default() };
            input.shapes.push(ShapeInput { fixed, moving, options });
        }
    }
    let options = Matching::of(model)
        .told("schedule", scales(&[(2, 4), (1, 2)]))
        .told("convergence", 0.0)
        .told("time_steps", TIME_STEPS);
    let watch = Watch { device: device.clone(), scales: Mutex::default() };
    register_deformable(device, &input, &options, &watch).unwrap();
    let scales = watch.scales.into_inner().unwrap();
    let steps: Vec<usize> = scales.iter().map(Vec::len).collect();
    assert_eq!(steps, [4, 2], "a step of {beside:?} was not told");
    let between = |pair: &[WorkStatistics]| WorkStatistics {
        launches: pair[1].launches - pair[0].launches,
        clears: pair[1].clears - pair[0].clears,
        uploads: pair[1].uploads - pair[0].uploads,
        downloads: pair[1].downloads - pair[0].downloads,
        arrivals: pair[1].arrivals - pair[0].arrivals,
    };
    scales.iter().flat_map(|scale| scale.windows(2).map(between)).collect()
}

#[test]
fn steps_bring_nothing_but_energies_and_norms_to_the_host() {
    let Ok(cuda) = Cuda::emulated() else {
        assert!(std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_none(), "no C++ compiler");
        println!("skipped: there is no C++ compiler");
        return;
    };
    for &model in DeformModel::ALL {
        let most = match model {
            DeformModel::Symmetric(_) => 8,
            DeformModel::Lddmm(_) => 10 + 6 * TIME_STEPS as u64,
            _ => 3,
        };
        let alone = asked(&cuda, model, Beside::Nothing);
        let besides = [
            Beside::Landmarks,
            Beside::Surface(Summation::Exact),
            Beside::Surface(Summation::Grid(2.0)),
        ];
        // A grid is the shape's own: one model shows what it asks for.
        let besides = if model == DeformModel::GREEDY { &besides[..] } else { &besides[..2] };
        for &beside in besides {
            let steps = asked(&cuda, model, beside);
            // The emulation makes a Fourier transform on the host, and there is one each way.
            let (up, down) = match beside {
                Beside::Surface(Summation::Grid(_)) => (3, 2),
                _ => (0, 0),
            };
            // What images and paths wait for are energies and norms: points wait for none of theirs.
            let mut quiet = steps.iter().zip(&alone).map(|(step, alone)| {
                (step.uploads, step.downloads) == (alone.uploads + up, alone.downloads + down)
            });
            match beside {
                // A shape that leaves its grid has another one made.
                Beside::Surface(Summation::Grid(_)) => assert!(quiet.any(|q| q), "{steps:?}"),
                _ => assert!(quiet.all(|q| q), "{} {beside:?}: {steps:?}", model.name()),
            }
            for (step, alone) in steps.iter().zip(&alone) {
                println!("{} {beside:?}: {step:?}, else {alone:?}", model.name());
                let is_path = model == DeformModel::LDDMM;
                assert!(is_path || (alone.uploads == 0 && alone.downloads <= 2), "{alone:?}");
                assert!(step.arrivals > alone.arrivals, "no energy of points");
                // A few numbers each: energies, norms, and where a shape is.
                assert!(step.arrivals - alone.arrivals <= 8, "{beside:?}");
                let small = (step.launches + step.clears) - (alone.launches + alone.clears);
                assert!(beside != Beside::Landmarks || small <= most, "{small} kernels more");
            }
        }
    }
}
