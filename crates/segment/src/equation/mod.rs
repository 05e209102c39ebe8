//! The differential equation of level sets, solved on the grid: what the fast evolution is held against.
//!
//! The front is where φ is 0, inside it is below 0, and φ_t + F |∇φ| = 0 (equation 3.6) moves it outwards by the speed F = f - w κ + v · n of a
//! [`Force`]. The three terms are discretised as J. Sethian (Level Set Methods and Fast Marching Methods, 1999) does: f |∇φ| by the upwind scheme of
//! Godunov, v · ∇φ by one-sided differences against the flow, w κ |∇φ| by central differences; explicit steps in time. φ is made the signed distance
//! again after so many steps, and is moved in a band around the front alone where one is wanted. Beyond a border the value there continues.

mod distance;

use crate::error::{Result, above, same_length};
use crate::force::{Force, Terms, fits};
use crate::front::Front;
use crate::lattice::Lattice;
use voxalign_image::memory;

pub use distance::redistanced;

/// How the equation is solved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steps {
    /// The step in time. Stable up to about h² / (2 w) for the curvature, and h / |F| for the others, h the spacing.
    pub time: f64,
    /// After how many steps φ is made a signed distance again, at least 1.
    pub redistance: usize,
    /// How far from the front φ is moved; everywhere where nothing is said.
    pub band: Option<f64>,
    /// Distances of the points along x, y, z.
    pub spacing: [f64; 3],
}

/// A front as the zero level of a function.
#[derive(Debug, Clone)]
pub struct Equation {
    lattice: Lattice,
    steps: Steps,
    phi: Vec<f64>,
    next: Vec<f64>,
    /// The points that are moved, and which of them have a neighbour that is not.
    band: Vec<usize>,
    rim: Vec<(usize, bool)>,
    taken: usize,
    redistanced: usize,
}

impl Equation {
    /// The front of a set, half-way between points inside and points outside.
    ///
    /// # Errors
    /// As [`Front::new`], and [`SegmentError::Parameter`](crate::SegmentError::Parameter) for steps, spacings or a band that are not above 0.
    pub fn new(lattice: &Lattice, set: &[bool], steps: Steps) -> Result<Self> {
        Front::new(lattice, set)?;
        let side = |s: &bool| if *s { -0.5 } else { 0.5 };
        Self::of(lattice, memory::collected(set.iter().map(side))?, steps)
    }

    /// The front where a function is 0: one value a point, below 0 inside.
    ///
    /// # Errors
    /// As [`Equation::new`], without the need of a front.
    pub fn of(lattice: &Lattice, phi: Vec<f64>, steps: Steps) -> Result<Self> {
        same_length("the function", phi.len(), lattice.len())?;
        let remedy = "give a number above 0";
        above("the step in time", steps.time, 0.0, remedy)?;
        above("the number of steps between distances", steps.redistance as f64, 0.0, remedy)?;
        above("the band", steps.band.unwrap_or(1.0), 0.0, remedy)?;
        for h in steps.spacing {
            above("the spacing", h, 0.0, remedy)?;
        }
        let next = memory::room(phi.len())?;
        let (band, rim) = (Vec::new(), Vec::new());
        let lattice = lattice.clone();
        let mut equation = Self { lattice, steps, phi, next, band, rim, taken: 0, redistanced: 0 };
        equation.redistance()?;
        Ok(equation)
    }

    /// One value a point: the signed distance from the front, or what has become of it since the last time that it was made one.
    #[must_use]
    pub fn phi(&self) -> &[f64] {
        &self.phi
    }

    /// The time that has passed.
    #[must_use]
    pub fn time(&self) -> f64 {
        self.taken as f64 * self.steps.time
    }

    /// The set: whether each point is inside.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
    pub fn set(&self) -> Result<Vec<bool>> {
        Ok(memory::collected(self.phi.iter().map(|p| *p < 0.0))?)
    }

    /// Takes so many steps under a force.
    ///
    /// # Errors
    /// Of the force, [`SegmentError::Length`](crate::SegmentError::Length) for one of another lattice,
    /// [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
    pub fn advance(&mut self, force: &mut dyn Force, steps: usize) -> Result<()> {
        fits(force, self.phi.len())?;
        for _ in 0..steps {
            force.update(&|p| self.phi[p] < 0.0)?;
            self.next.clear();
            self.next.extend_from_slice(&self.phi);
            for &point in &self.band {
                self.next[point] += self.steps.time * self.rate(point, &force.terms(point));
            }
            std::mem::swap(&mut self.phi, &mut self.next);
            self.taken += 1;
            let is_due = self.taken.is_multiple_of(self.steps.redistance);
            // The front must not come to the rim of the band.
            let is_near = || self.rim.iter().any(|&(p, inside)| (self.phi[p] < 0.0) != inside);
            if is_due || is_near() {
                self.redistance()?;
            }
        }
        Ok(())
    }

    /// How often φ has been made a distance.
    #[must_use]
    pub fn redistanced(&self) -> usize {
        self.redistanced
    }

    fn redistance(&mut self) -> Result<()> {
        let h = self.steps.spacing.into_iter().fold(0.0, f64::max);
        let width = self.steps.band.unwrap_or(f64::INFINITY);
        self.phi = redistanced(&self.lattice, &self.phi, self.steps.spacing, width + 2.0 * h)?;
        self.redistanced += 1;
        self.band.clear();
        self.rim.clear();
        // Before the front is nearer to the end of the band than two points it is made anew.
        let inner = width - 2.0 * h;
        for (point, value) in self.phi.iter().enumerate() {
            if value.abs() <= width {
                memory::push(&mut self.band, point)?;
                if value.abs() > inner {
                    memory::push(&mut self.rim, (point, *value < 0.0))?;
                }
            }
        }
        Ok(())
    }

    /// φ_t at a point.
    fn rate(&self, point: usize, terms: &Terms) -> f64 {
        let axes = self.lattice.dimension();
        let reach = self.reach(point);
        let h = &self.steps.spacing;
        let at = |by: isize| self.phi[point.wrapping_add_signed(by)];
        let here = self.phi[point];
        let (mut before, mut after) = ([0.0; 3], [0.0; 3]);
        for a in 0..axes {
            before[a] = (here - at(reach[a][0])) / h[a];
            after[a] = (at(reach[a][1]) - here) / h[a];
        }
        let mut rate = 0.0;
        if terms.speed != 0.0 {
            // Godunov: what comes from where the front is.
            let sign = terms.speed.signum();
            let mut square = 0.0;
            for a in 0..axes {
                let steepest = (sign * before[a]).max(-sign * after[a]).max(0.0);
                square += steepest * steepest;
            }
            rate -= terms.speed * square.sqrt();
        }
        for a in 0..axes {
            rate -= terms.flow[a] * if terms.flow[a] > 0.0 { before[a] } else { after[a] };
        }
        if terms.curvature != 0.0 {
            let (mut square, mut laplacian, mut along) = (0.0, 0.0, 0.0);
            for a in 0..axes {
                let slope = (before[a] + after[a]) / 2.0;
                let second = (after[a] - before[a]) / h[a];
                square += slope * slope;
                laplacian += second;
                along += slope * slope * second;
                for b in a + 1..axes {
                    let corner = |i: usize, j: usize| at(reach[a][i] + reach[b][j]);
                    let mixed = corner(1, 1) - corner(1, 0) - corner(0, 1) + corner(0, 0);
                    let other = (before[b] + after[b]) / 2.0;
                    along += 2.0 * slope * other * mixed / (4.0 * h[a] * h[b]);
                }
            }
            // Without a direction it is the mean over all of them.
            let bending = if square > 1e-12 {
                laplacian - along / square
            } else {
                laplacian * (axes as f64 - 1.0) / axes as f64
            };
            rate += terms.curvature * bending;
        }
        rate
    }

    /// How far it is to the numbers of the points before and after a point along each axis; at a border to the point itself.
    fn reach(&self, point: usize) -> [[isize; 2]; 3] {
        let (dims, place) = (self.lattice.dims(), self.lattice.place(point));
        let mut stride = 1;
        std::array::from_fn(|a| {
            let step = stride as isize;
            stride *= dims[a];
            [if place[a] > 0 { -step } else { 0 }, if place[a] + 1 < dims[a] { step } else { 0 }]
        })
    }
}
