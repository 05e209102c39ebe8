//! The measurements as rows of a table.

use super::Results;
use crate::files::quoted;
use std::fmt::Write as _;

const COLUMNS: &str = "version,device,images,part,model,similarity,solver,quantity,value";

/// A row for every number.
pub(super) fn csv(results: &Results) -> String {
    let mut text = format!("{COLUMNS}\n");
    let start = [results.version, &results.device, &results.images].map(quoted).join(",");
    // Writing to a string does not fail.
    let mut row = |part: &str, what: [&str; 3], quantity: &str, value: f64| {
        let what = what.map(quoted).join(",");
        let _ = writeln!(text, "{start},{part},{what},{quantity},{value}");
    };
    for t in &results.iterations {
        row("iterations", [t.model, t.similarity, &t.solver], "ms", t.milliseconds);
    }
    for t in &results.whole {
        for (quantity, value) in [("cold s", t.cold), ("warm s", t.warm), ("scales s", t.scales)] {
            row("whole", [&t.what, "lncc", ""], quantity, value);
        }
    }
    for t in &results.multiscale {
        row("multiscale", [t.model, t.similarity, ""], "alone s", t.alone_seconds);
        row("multiscale", [t.model, t.similarity, ""], "scales s", t.seconds.unwrap_or(f64::NAN));
    }
    for o in &results.overlap {
        let (mean, largest) = o.consistency.unwrap_or((f64::NAN, f64::NAN));
        for (quantity, value) in [
            ("mean Dice", o.mean_dice.unwrap_or(f64::NAN)),
            ("s", o.seconds),
            ("folded", o.folded as f64),
            ("least Jacobian", o.smallest_jacobian),
            ("inverse error mean mm", mean),
            ("inverse error largest mm", largest),
        ] {
            row("overlap", [o.model, o.similarity, o.solver], quantity, value);
        }
    }
    text
}
