//! How steps are cut so that no tetrahedron inverts.

use crate::error::{ElasticityError, Result};
use crate::strain::LeastRatio;
use voxalign_image::memory;

/// A tetrahedron below this part of its volume at rest cuts a step.
pub const LEAST_RATIO: f64 = 0.05;

/// How often a step is halved at most.
pub const HALVINGS: u32 = 10;

/// Up to this part of all tetrahedra stop their own vertices only; more of them shorten the step of the whole body.
const FEW: f64 = 0.01;

/// How often a step is solved for anew with other vertices held.
const AGAIN: u32 = 3;

/// Rounds after which held vertices that are still in the way stay where they are.
const ROUNDS: u32 = 2 * HALVINGS;

/// The part of a step that is made, and the vertices that are held: no force acts on these in the step, and they have no velocity after
/// it. A force that would crush a tetrahedron is balanced by what is crushed, and neighbours rest on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cut {
    /// How often the step of the whole body is halved.
    halvings: u32,
    /// Which vertices are held; none at all where it is empty.
    held: Vec<bool>,
    /// How often the step of each of them is halved besides; more than [`HALVINGS`] where it stays.
    own: Vec<u8>,
    rounds: u32,
}

/// How a step goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It can be made.
    Serves,
    /// Less of it has to be made.
    Shorter,
    /// It has to be solved for with more vertices held.
    Again,
}

impl Cut {
    /// Whether the step with these volumes over those at rest can be made; it is cut where it cannot. Where few tetrahedra
    /// would be left with less than [`LEAST_RATIO`] their vertices alone are held, so that one that collapses does not
    /// hold the whole body.
    ///
    /// # Errors
    /// [`ElasticityError::Inverts`] where the tetrahedra are too small before the step already, or nowhere;
    /// [`ElasticityError::OutOfMemory`].
    ///
    /// # Panics
    /// Where a tetrahedron has a vertex above `vertices`.
    pub fn look(
        &mut self,
        tetrahedra: &[[u32; 4]],
        ratios: &[f64],
        vertices: usize,
    ) -> Result<Next> {
        // NaN is no number that is large enough.
        let fails = |e: &usize| ratios[*e].is_nan() || ratios[*e] < LEAST_RATIO;
        let failing = memory::collected((0..ratios.len()).filter(fails))?;
        let Some(&first) = failing.first() else { return Ok(Next::Serves) };
        let few = failing.len() as f64 <= (FEW * ratios.len() as f64).max(1.0);
        let nowhere = failing.iter().any(|&e| ratios[e].is_nan());
        if !few || nowhere {
            if self.halvings == HALVINGS {
                let LeastRatio { ratio, tetrahedron } = LeastRatio::of(ratios);
                return Err(ElasticityError::Inverts { tetrahedron, ratio, halvings: HALVINGS });
            }
            self.halvings += 1;
            return Ok(Next::Shorter);
        }
        if self.held.is_empty() {
            (self.held, self.own) =
                (memory::filled(vertices, false)?, memory::filled(vertices, 0)?);
        }
        self.rounds += 1;
        let mut around = memory::room(4 * failing.len())?;
        around.extend(failing.iter().flat_map(|&e| tetrahedra[e].map(|v| v as usize)));
        around.sort_unstable();
        around.dedup();
        let more = around.iter().any(|&v| !self.held[v]);
        around.iter().for_each(|&v| self.held[v] = true);
        if more && self.rounds <= AGAIN {
            return Ok(Next::Again);
        }
        let stays = HALVINGS as u8 + 1;
        if around.iter().all(|&v| self.own[v] == stays) {
            let (tetrahedron, ratio) = (first, ratios[first]);
            return Err(ElasticityError::Inverts { tetrahedron, ratio, halvings: HALVINGS });
        }
        for v in around {
            self.own[v] = if self.rounds > ROUNDS { stays } else { (self.own[v] + 1).min(stays) };
        }
        Ok(Next::Shorter)
    }

    /// How often the step of the whole body is halved.
    #[must_use]
    pub fn halvings(&self) -> u32 {
        self.halvings
    }

    /// The part of the step that the whole body makes at most.
    #[must_use]
    pub fn part(&self) -> f64 {
        0.5f64.powi(self.halvings as i32)
    }

    /// The part of that which a vertex makes.
    #[must_use]
    pub fn own(&self, vertex: usize) -> f64 {
        match self.own.get(vertex) {
            None | Some(0) => 1.0,
            Some(&own) if u32::from(own) > HALVINGS => 0.0,
            Some(&own) => 0.5f64.powi(i32::from(own)),
        }
    }

    /// Whether a vertex is held.
    #[must_use]
    pub fn holds(&self, vertex: usize) -> bool {
        self.held.get(vertex).copied().unwrap_or(false)
    }

    /// The number of vertices that are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.iter().filter(|held| **held).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain in which each tetrahedron shares a vertex with the next.
    fn chain(n: u32) -> Vec<[u32; 4]> {
        (0..n).map(|i| [3 * i, 3 * i + 1, 3 * i + 2, 3 * i + 3]).collect()
    }

    #[test]
    fn few_are_held_and_many_stop_the_body() {
        let (all, vertices) = (chain(200), 601);
        let mut ratios = vec![1.0; 200];
        let mut cut = Cut::default();
        assert_eq!(cut.look(&all, &ratios, vertices).unwrap(), Next::Serves);
        assert_eq!(cut, Cut::default());
        ratios[7] = 0.01;
        assert_eq!(cut.look(&all, &ratios, vertices).unwrap(), Next::Again);
        assert_eq!((cut.halvings(), cut.held(), cut.part()), (0, 4, 1.0));
        assert_eq!([20, 21, 24, 25].map(|v| cut.holds(v)), [false, true, true, false]);
        // Held, it is still in the way.
        assert_eq!(cut.look(&all, &ratios, vertices).unwrap(), Next::Shorter);
        assert_eq!([20, 21, 24, 25].map(|v| cut.own(v)), [1.0, 0.5, 0.5, 1.0]);
        // The next one shares a vertex with it.
        (ratios[7], ratios[8]) = (0.5, -1.0);
        assert_eq!(cut.look(&all, &ratios, vertices).unwrap(), Next::Again);
        assert_eq!((cut.held(), cut.own(24), cut.own(27)), (7, 0.5, 1.0));
        // Three are more than one in a hundred.
        ratios[20] = 0.04;
        ratios[40] = 0.04;
        assert_eq!(cut.look(&all, &ratios, vertices).unwrap(), Next::Shorter);
        assert_eq!((cut.halvings(), cut.held(), cut.part()), (1, 7, 0.5));
    }

    /// Whatever the volumes, an end is reached.
    #[test]
    fn what_no_shorter_step_mends_is_an_error() {
        for bad in [vec![f64::NAN, 1.0, 1.0], vec![-1.0; 3], vec![1.0, 0.0, 1.0]] {
            let mut cut = Cut::default();
            let rounds = (0..100).find_map(|_| cut.look(&chain(3), &bad, 10).err());
            let error = rounds.expect("it ends");
            assert!(matches!(error, ElasticityError::Inverts { halvings: 10, .. }), "{error}");
        }
    }
}
