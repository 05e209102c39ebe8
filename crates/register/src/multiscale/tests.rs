use super::*;

#[test]
fn schedules() {
    assert_eq!("4x20, 2x5".parse(), Ok(Schedule::of(&[(4, 20), (2, 5)])));
    for bad in ["", "4", "4x", "x3", "0x3", "65x3", "4x0", "1x5,2x5", "4x20,"] {
        assert!(bad.parse::<Schedule>().is_err(), "{bad}");
    }
}

#[test]
fn convergence_is_seen() {
    let c = Convergence { window: 3, threshold: 0.01 };
    let falling: Vec<f64> = (0..20).map(|i| -f64::from(i)).collect();
    assert!(!c.reached(&falling));
    let flat: Vec<f64> = (0..20).map(|i| -1.0 + 0.5f64.powi(i)).collect();
    assert!(c.reached(&flat));
    assert!(!c.reached(&flat[..5]));
    assert!(!Convergence { threshold: 0.0, ..c }.reached(&flat));
    assert!(!Convergence { window: usize::MAX, ..c }.reached(&flat));
}

/// A part that is large and has come to rest does not hide one that has not.
#[test]
fn all_parts_come_to_rest() {
    let c = Convergence { window: 3, threshold: 0.01 };
    let falling: Vec<f64> = (0..20).map(|i| -1e-6 * f64::from(i)).collect();
    let flat: Vec<f64> = (0..20).map(|i| 0.5f64.powi(i)).collect();
    let total: Vec<f64> = falling.iter().zip(&flat).map(|(a, b)| a + b).collect();
    assert!(c.reached_by(&total, &[]));
    assert!(!c.reached_by(&total, &[falling, flat.clone()]));
    assert!(c.reached_by(&total, &[flat]));
}

struct Still;

impl Deformation for Still {
    type Error = RegisterError;

    fn to_scale(&mut self, _: &Scale) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// An energy that falls less and less.
struct Flattening(i32);

impl Iteration<Still> for Flattening {
    fn to_scale(&mut self, _: &Still, _: &Scale) -> Result<()> {
        Ok(())
    }

    fn iterate(&mut self, _: &mut Still) -> Result<Energies> {
        self.0 += 1;
        Ok((-1.0 + 0.5f64.powi(self.0)).into())
    }

    fn settling(&self, _: &Still) -> usize {
        5
    }
}

/// As many iterations as it takes: no memory is asked for those that are not made.
#[test]
fn any_number_of_iterations() {
    let scales = [Scale { factor: 1, iterations: usize::MAX }];
    let convergence = Convergence { window: 3, threshold: 0.01 };
    let listener = crate::progress::Silent;
    let found = run(&mut Still, &mut Flattening(0), &scales, &convergence, &listener).unwrap();
    assert!(found[0].energies.len() < 20, "{found:?}");
}

/// The last iterations of a scale settle, whether its energy has come to rest or all that are allowed are nearly made; scales that are very short do not.
#[test]
fn scales_settle() {
    struct Steady(Flattening, Vec<i32>);
    impl Iteration<Still> for Steady {
        fn to_scale(&mut self, _: &Still, _: &Scale) -> Result<()> {
            self.0.0 = 0;
            Ok(())
        }

        fn iterate(&mut self, still: &mut Still) -> Result<Energies> {
            self.0.iterate(still)
        }

        fn settling(&self, still: &Still) -> usize {
            self.0.settling(still)
        }

        fn settle(&mut self, _: &mut Still) {
            self.1.push(self.0.0);
        }
    }
    let scales = Schedule::of(&[(4, 100), (3, 9), (2, 8), (1, 3)]).0;
    let convergence = Convergence { window: 3, threshold: 0.01 };
    let mut steps = Steady(Flattening(0), Vec::new());
    let listener = crate::progress::Silent;
    let found = run(&mut Still, &mut steps, &scales, &convergence, &listener).unwrap();
    let counts: Vec<_> = found.iter().map(|r| r.energies.len()).collect();
    let rests = counts[0] - 5;
    assert!(rests > 9, "{counts:?}");
    assert_eq!(counts[1..], [9, 8, 3]);
    assert_eq!(steps.1, [rests as i32, 7, 6]);
}

/// Something that swings, and comes to rest after so many iterations of a scale.
struct Swinging {
    rests_after: usize,
    made: i32,
}

impl Swinging {
    fn new() -> Self {
        Self { rests_after: 5, made: 0 }
    }
}

impl Iteration<Still> for Swinging {
    fn to_scale(&mut self, _: &Still, _: &Scale) -> Result<()> {
        Ok(())
    }

    fn iterate(&mut self, _: &mut Still) -> Result<Energies> {
        self.made += 1;
        Ok((-f64::from(self.made)).into())
    }

    fn at_rest(&self, _: &Still, course: &Course) -> Option<bool> {
        assert!(!course.energies.is_empty() && course.motion.len() == course.energies.len());
        Some(course.energies.len() >= self.rests_after)
    }

    fn motion(&self, _: &Still) -> Option<Motion> {
        let kinetic_energy = 1.0 / f64::from(self.made);
        let (strain_energy, unbalanced_force) = (1.0 - kinetic_energy, f64::NAN);
        let (voxel_force, voxel_kinetic, least_jacobian, cuts, held) = (3.0, 1.0, 0.9, 1, 0);
        Some(Motion {
            kinetic_energy,
            strain_energy,
            unbalanced_force,
            voxel_force,
            voxel_kinetic,
            least_jacobian,
            cuts,
            held,
        })
    }
}

/// What knows by itself when it is at rest is neither stopped by its energies nor kept going by them.
#[test]
fn rest_ends_a_scale() {
    let scales = Schedule::of(&[(2, 100), (1, 3)]).0;
    let listener = crate::progress::Silent;
    for threshold in [0.0, 0.999] {
        let convergence = Convergence { window: 1, threshold };
        let mut steps = Swinging::new();
        let found = run(&mut Still, &mut steps, &scales, &convergence, &listener).unwrap();
        let counts: Vec<_> = found.iter().map(|r| r.energies.len()).collect();
        assert_eq!(counts, [5, 3]);
        assert_eq!(found[1].motion.len(), 3);
        assert_eq!(found[1].motion[0].kinetic_energy, 1.0 / 6.0);
    }
}

/// A record has motion where there was some only, and is read back with and without it.
#[test]
fn motion_is_recorded_where_there_is_some() {
    let scales = Schedule::of(&[(1, 3)]).0;
    let (convergence, listener) = (Convergence::default(), crate::progress::Silent);
    let still = &mut Still;
    let without = run(still, &mut Flattening(0), &scales, &convergence, &listener).unwrap();
    let text = serde_json::to_string(&without).unwrap();
    assert!(!text.contains("motion"), "{text}");
    assert_eq!(serde_json::from_str::<Vec<ScaleRecord>>(&text).unwrap(), without);
    let with = run(still, &mut Swinging::new(), &scales, &convergence, &listener).unwrap();
    let text = serde_json::to_string(&with).unwrap();
    let read: Vec<ScaleRecord> = serde_json::from_str(&text).unwrap();
    assert_eq!(read[0].motion.len(), 3);
    assert!(read[0].motion[2].unbalanced_force.is_nan() && text.contains("\"cuts\":1"));
    assert_eq!(read[0].motion[2].strain_energy, with[0].motion[2].strain_energy);
}

/// A run that resumes from any point ends like one that was never stopped.
#[test]
fn a_run_goes_on() {
    struct All(Vec<(i32, Course)>);
    impl Keeper<Still, Flattening> for All {
        fn look(&mut self, _: &mut Still, i: &mut Flattening, c: &Course) -> Result<()> {
            self.0.push((i.0, c.clone()));
            Ok(())
        }
    }
    let scales = [7, 0, 40].map(|iterations| Scale { factor: 2, iterations });
    let convergence = Convergence { window: 3, threshold: 0.01 };
    let listener = crate::progress::Silent;
    let energies = |records: Vec<ScaleRecord>| -> Vec<Vec<f64>> {
        records.into_iter().map(|r| r.energies).collect()
    };
    let go = |at: i32, course: Course, keeper: &mut dyn Keeper<Still, Flattening>| {
        let (still, steps) = (&mut Still, &mut Flattening(at));
        energies(resume(still, steps, &scales, &convergence, &listener, course, keeper).unwrap())
    };
    let mut all = All(Vec::new());
    let whole = go(0, Course::default(), &mut all);
    assert!(whole[0].len() == 7 && whole[1].is_empty() && whole[2].len() < 40, "{whole:?}");
    assert!(all.0.len() > 15);
    for (at, course) in all.0 {
        assert_eq!(go(at, course, &mut ()), whole);
    }
}
