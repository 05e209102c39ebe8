//! Optimisers that are asked for the next point and told its value, so that many searches can be
//! evaluated together: on a GPU one launch serves all of them.
//!
//! ```
//! use voxalign_register::optimize::{Bfgs, BfgsSettings};
//!
//! let settings = BfgsSettings {
//!     first_step: 1.0,
//!     longest_step: 10.0,
//!     tolerance: 1e-6,
//!     improvement: 1e-12,
//!     evaluations: 100,
//! };
//! let mut search = Bfgs::new(&[4.0, -3.0], settings);
//! while let Some([x, y]) = search.ask().map(|p| [p[0], p[1]]) {
//!     let value = (x - 1.0).powi(2) + 10.0 * (y - x).powi(2);
//!     search.tell(value, &[2.0 * (x - 1.0) - 20.0 * (y - x), 20.0 * (y - x)]);
//! }
//! let (best, value) = search.best();
//! assert!((best[0] - 1.0).abs() < 1e-3 && (best[1] - 1.0).abs() < 1e-3 && value < 1e-6);
//! ```

mod bfgs;

pub use bfgs::{Bfgs, BfgsSettings};
