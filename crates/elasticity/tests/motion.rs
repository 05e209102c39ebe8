//! Bodies in motion.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use voxalign_elasticity::{
    Body, Cut, ElasticityError, Fixed, Material, Materials, Motion, Newmark, State, TetraBox,
    equilibrium,
};
use voxalign_image::{Grid, Matrix3, Vector3};

/// A cube of 10 mm in 2 x 2 x 2 cells, of 1000 Pa, 0.3 and 1000 kg/m³.
fn cube() -> Body {
    let cells = TetraBox::new(Grid::axis_aligned([3; 3], [5.0; 3]).unwrap()).unwrap();
    let material = Material::new(1000.0, 0.3, 1000.0).unwrap();
    Body::new(cells.mesh().unwrap(), &Materials::Uniform(material)).unwrap()
}

fn undamped(step_s: f64, beta: f64, gamma: f64) -> Newmark {
    Newmark { step_s, beta, gamma, mass_damping: 0.0, stiffness_damping: 0.0 }
}

fn random(seed: u64, size: f64) -> Vec<Vector3<f64>> {
    let mut state = seed;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        size * ((state >> 33) as f64 / (1u64 << 30) as f64 - 1.0)
    };
    (0..27).map(|_| Vector3::from_fn(|_, _| number())).collect()
}

fn pull() -> Vec<Vector3<f64>> {
    let mut forces = vec![Vector3::zeros(); 27];
    forces[26] = Vector3::new(1.0, 0.5, -0.25);
    forces
}

/// What an independent implementation (with scipy) has after steps: displacements of two vertices.
struct Known {
    numbers: [f64; 2],
    steps: [[[f64; 3]; 2]; 3],
    velocity: [f64; 3],
    acceleration: [f64; 3],
    energies: [f64; 2],
}

const KNOWN: [Known; 2] = [
    Known {
        numbers: [0.25, 0.5],
        steps: [
            [
                [0.497182508224, 0.225104413461, -0.168897638072],
                [0.024099553744, 0.019103588087, 0.008997836741],
            ],
            [
                [0.974222106342, 0.384229754749, -0.41547176974],
                [0.118570369236, 0.074998477304, 0.004018989875],
            ],
            [
                [0.999517850746, 0.321296835968, -0.486132697382],
                [0.274346864107, 0.149080397371, -0.024718978941],
            ],
        ],
        velocity: [9.087730901995, 0.609230678369, 1.403113190658],
        acceleration: [11203.57964688205, 7408.524986319544, 982.931079997813],
        energies: [2.043618956350e-01, 8.862258087603e-01],
    },
    Known {
        numbers: [0.3025, 0.6],
        steps: [
            [
                [0.444808047176, 0.198632802446, -0.155133014164],
                [0.025151935889, 0.018991235753, 0.007430217229],
            ],
            [
                [0.934074980052, 0.370513278335, -0.39082297372],
                [0.116908213734, 0.072862620251, 0.003419716545],
            ],
            [
                [1.014787629241, 0.343460504916, -0.471977052935],
                [0.259511628457, 0.142570995303, -0.017015160829],
            ],
        ],
        velocity: [8.151252506323, 0.373001270702, -0.319846298979],
        acceleration: [6714.958751269727, 4605.644009664601, 893.325392287752],
        energies: [1.625619348878e-01, 8.563817934873e-01],
    },
];

#[test]
fn three_steps_of_a_cube_are_known() {
    let body = Arc::new(cube());
    for known in &KNOWN {
        let [beta, gamma] = known.numbers;
        let method =
            Newmark { step_s: 0.01, beta, gamma, mass_damping: 2.0, stiffness_damping: 0.001 };
        let fixed = Fixed::whose(body.mesh(), |x| x.z == 0.0).unwrap();
        let motion = Motion::new(Arc::clone(&body), fixed, method).unwrap();
        let mut state = motion.at_rest(&pull()).unwrap();
        for expected in &known.steps {
            let step = motion.step(&mut state, &pull()).unwrap();
            assert!(step.cut == Cut::default() && step.least.ratio > 0.5, "{step:?}");
            for (vertex, expected) in [26, 13].into_iter().zip(expected) {
                let off = state.displacements[vertex] - Vector3::from(*expected);
                assert!(off.amax() < 2e-12, "{vertex} {off}");
            }
        }
        let off = state.velocities[26] - Vector3::from(known.velocity);
        assert!(off.amax() < 1e-9, "{off}");
        let off = state.accelerations[26] - Vector3::from(known.acceleration);
        assert!(off.amax() < 1e-7, "{off}");
        assert!((motion.kinetic_energy(&state) / known.energies[0] - 1.0).abs() < 1e-11);
        assert!((motion.strain_energy(&state).unwrap() / known.energies[1] - 1.0).abs() < 1e-11);
        assert!((0..9).all(|i| state.displacements[i] == Vector3::zeros()));
        assert!((0..9).all(|i| state.velocities[i] == Vector3::zeros()));
    }
}

/// The total energy after 100 steps of a free body, over that before.
fn energy_kept(method: Newmark) -> f64 {
    let body = Arc::new(cube());
    let motion = Motion::new(Arc::clone(&body), Fixed::none(body.mesh()).unwrap(), method).unwrap();
    let none = vec![Vector3::zeros(); 27];
    let mut state = motion.start(random(4, 0.01), random(9, 1.0), &none).unwrap();
    let energy = |s: &State| motion.kinetic_energy(s) + motion.strain_energy(s).unwrap();
    let before = energy(&state);
    for _ in 0..100 {
        motion.step(&mut state, &none).unwrap();
    }
    energy(&state) / before
}

#[test]
fn mean_accelerations_keep_the_energy_and_others_do_not() {
    let kept = energy_kept(undamped(0.02, 0.25, 0.5));
    assert!((kept - 1.0).abs() < 1e-11, "{kept}");
    assert!(energy_kept(undamped(0.02, 0.3025, 0.6)) < 0.2);
    for (mass_damping, stiffness_damping) in [(5.0, 0.0), (0.0, 0.01)] {
        let damped = Newmark { mass_damping, stiffness_damping, ..undamped(0.02, 0.25, 0.5) };
        assert!(energy_kept(damped) < 0.9);
    }
}

#[test]
fn damped_motion_ends_at_rest_and_stays_there() {
    let body = Arc::new(cube());
    let bottom = || Fixed::whose(body.mesh(), |x| x.z == 0.0).unwrap();
    let rest = equilibrium(&body, &bottom(), &[Vector3::zeros(); 27], &pull()).unwrap();
    // A gamma above 1/2 also damps modes that are fast for the step.
    let method = Newmark { mass_damping: 40.0, ..undamped(0.02, 0.3025, 0.6) };
    let motion = Motion::new(Arc::clone(&body), bottom(), method).unwrap();
    let mut state = motion.at_rest(&pull()).unwrap();
    let first = motion.imbalance(&state, &pull(), &Cut::default()).unwrap();
    assert!((first - 1.3125f64.sqrt()).abs() < 1e-12);
    for _ in 0..200 {
        motion.step(&mut state, &pull()).unwrap();
    }
    assert!(motion.imbalance(&state, &pull(), &Cut::default()).unwrap() < 1e-9 * first);
    for (found, expected) in state.displacements.iter().zip(&rest) {
        assert!((found - expected).amax() < 1e-9, "{found} {expected}");
    }
    // Without forces a body at rest has nothing that could move it.
    let none = vec![Vector3::zeros(); 27];
    let mut still = motion.at_rest(&none).unwrap();
    motion.step(&mut still, &none).unwrap();
    assert_eq!(still.displacements, none);
}

#[test]
fn a_step_that_would_invert_is_cut() {
    let body = Arc::new(cube());
    let bottom = || Fixed::whose(body.mesh(), |x| x.z == 0.0).unwrap();
    let motion = Motion::new(Arc::clone(&body), bottom(), Newmark::with_step(0.02)).unwrap();
    let mut forces = vec![Vector3::zeros(); 27];
    forces[26] = Vector3::new(-60.0, -60.0, -60.0);
    let mut state = motion.at_rest(&forces).unwrap();
    let step = motion.step(&mut state, &forces).unwrap();
    assert!(step.cut.halvings() > 0 && step.least.ratio >= 0.05, "{step:?}");
    assert_eq!(body.least_ratio(&state.displacements).unwrap(), step.least);
    // The equation of motion holds, as from a start with what there is.
    let again =
        motion.start(state.displacements.clone(), state.velocities.clone(), &forces).unwrap();
    assert_eq!(again, state);

    // A state that is inverted already cannot be mended by a shorter step, and stays as it is.
    state.displacements[26] = Vector3::new(-9.0, 0.0, 0.0);
    let before = state.clone();
    let error = motion.step(&mut state, &forces).unwrap_err();
    assert!(matches!(error, ElasticityError::Inverts { halvings: 10, .. }), "{error}");
    assert_eq!(state, before);
}

/// One tetrahedron that collapses holds its own vertices, and the rest comes to rest.
#[test]
fn the_rest_goes_on_where_one_collapses() {
    let cells = TetraBox::new(Grid::axis_aligned([9; 3], [5.0; 3]).unwrap()).unwrap();
    let material = Material::new(1000.0, 0.3, 1000.0).unwrap();
    let mesh = cells.mesh().unwrap();
    let body = Arc::new(Body::new(mesh, &Materials::Uniform(material)).unwrap());
    let bottom = Fixed::whose(body.mesh(), |x| x.z == 0.0).unwrap();
    let motion = Motion::new(Arc::clone(&body), bottom, Newmark::with_step(0.02)).unwrap();
    let far = body.mesh().vertices().iter().position(|x| x.x == 40.0 && x.y == 40.0 && x.z == 40.0);
    let pushed = body.mesh().vertices().iter().position(|x| *x == Vector3::repeat(5.0));
    let (far, pushed) = (far.unwrap(), pushed.unwrap());
    let mut forces = vec![Vector3::zeros(); body.mesh().vertices().len()];
    forces[far] = Vector3::new(2.0, 0.0, 0.0);
    let alone = {
        let mut state = motion.at_rest(&forces).unwrap();
        (0..60).for_each(|_| drop(motion.step(&mut state, &forces).unwrap()));
        state.displacements[far]
    };
    // Far more than what the tetrahedra below this vertex bear.
    forces[pushed] = Vector3::new(0.0, 0.0, -400.0);
    let mut state = motion.at_rest(&forces).unwrap();
    let mut last = None;
    for _ in 0..60 {
        let step = motion.step(&mut state, &forces).unwrap();
        assert!(step.least.ratio >= 0.05 && step.cut.halvings() == 0, "{:?}", step.least);
        last = Some(step);
    }
    let cut = last.unwrap().cut;
    assert!((1..40).contains(&cut.held()), "{}", cut.held());
    // What is held back is not out of balance.
    let whole = motion.imbalance(&state, &forces, &Cut::default()).unwrap();
    assert!(whole > 100.0 && motion.imbalance(&state, &forces, &cut).unwrap() < 0.1 * whole);
    assert!((state.displacements[far] - alone).norm() < 0.05 * alone.norm());
}

#[test]
fn numbers_that_are_not_stable_are_refused() {
    for (beta, gamma) in [(0.2, 0.5), (0.25, 0.49), (0.25, 0.6), (0.0, 0.5), (f64::NAN, 0.5)] {
        let error = undamped(0.1, beta, gamma).check().unwrap_err();
        assert!(matches!(error, ElasticityError::Newmark { .. }), "{beta} {gamma} {error}");
    }
    for (beta, gamma) in [(0.25, 0.5), (0.3025, 0.6), (0.5, 0.5), (0.4225, 0.8)] {
        undamped(0.1, beta, gamma).check().unwrap();
    }
    let error = undamped(0.0, 0.25, 0.5).check().unwrap_err();
    assert!(error.to_string().contains("time step 0"), "{error}");
    let error = Newmark { mass_damping: -1.0, ..Newmark::with_step(0.1) }.check().unwrap_err();
    assert!(error.to_string().contains("mass damping -1"), "{error}");
}

#[test]
fn motions_have_the_same_bits_on_any_number_of_threads() {
    let body = Arc::new(cube());
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let free = Fixed::none(body.mesh()).unwrap();
            let motion = Motion::new(Arc::clone(&body), free, Newmark::with_step(0.02)).unwrap();
            let mut state = motion.start(random(1, 0.01), random(2, 1.0), &pull()).unwrap();
            for _ in 0..5 {
                motion.step(&mut state, &pull()).unwrap();
            }
            state
        })
    };
    let one = run(1);
    assert!(run(2) == one && run(8) == one);
}

/// Springs from every vertex to where it is at rest, far stiffer than the body: their forces are given where a step begins.
#[test]
fn forces_that_change_on_the_way_can_be_counted_on() {
    let body = Arc::new(cube());
    let n = body.mesh().vertices().len();
    let springs = vec![Matrix3::from_diagonal(&Vector3::new(400.0, 300.0, 500.0)); n];
    let bottom = || Fixed::whose(body.mesh(), |x| x.z == 0.0).unwrap();
    let given: Vec<_> = pull().into_iter().map(|f| f * 100.0).collect();
    let forces = |state: &State| -> Vec<Vector3<f64>> {
        let all = given.iter().zip(&state.displacements).zip(&springs);
        all.map(|((f, u), g)| f - g * u).collect()
    };
    let run = |motion: &Motion| {
        let mut state = motion.at_rest(&given).unwrap();
        for _ in 0..300 {
            let forces = forces(&state);
            if motion.step(&mut state, &forces).is_err() {
                return f64::INFINITY;
            }
        }
        motion.imbalance(&state, &forces(&state), &Cut::default()).unwrap()
    };
    // The mean acceleration alone hardly damps what is as fast for the step as these are.
    let method = Newmark { beta: 0.3025, gamma: 0.6, ..Newmark::with_step(0.02) };
    let counted =
        Motion::with_coupling(Arc::clone(&body), bottom(), method, Some(&springs)).unwrap();
    let left = run(&counted);
    assert!(left < 1e-6, "{left}");
    let mut other = Motion::new(Arc::clone(&body), bottom(), method).unwrap();
    let left = run(&other);
    assert!(left > 1.0, "{left}");
    // What is counted on from now on is the same as from the beginning.
    other.recouple(&springs).unwrap();
    assert_eq!(run(&other).to_bits(), run(&counted).to_bits());
}

#[test]
fn a_step_goes_no_farther_than_is_said() {
    let body = Arc::new(cube());
    let bottom = Fixed::whose(body.mesh(), |x| x.z == 0.0).unwrap();
    let motion = Motion::new(Arc::clone(&body), bottom, Newmark::with_step(0.02)).unwrap();
    let farthest = |most: f64| {
        let mut state = motion.at_rest(&pull()).unwrap();
        let step = motion.step_within(&mut state, &pull(), most).unwrap();
        assert_eq!(step.cut, Cut::default());
        state.displacements.iter().map(|u| u.norm()).fold(0.0, f64::max)
    };
    let whole = farthest(f64::INFINITY);
    assert!(whole > 0.0 && farthest(2.0 * whole) == whole);
    let part = farthest(0.3 * whole);
    assert!((part / (0.3 * whole) - 1.0).abs() < 1e-12, "{part} {whole}");
}
