//! Skipping of zeros: the extent of a row from its first to its last nonzero group. Most of an image's
//! background is zero, and results that depend on zeros alone are not computed.

use super::simd::LANES;

/// The first group of sixteen numbers that may be other than zero, and the one after the last.
pub(super) type Lit = (usize, usize);

/// All is zero.
pub(super) const NOTHING: Lit = (usize::MAX, 0);

/// The groups that are lit in either.
pub(super) fn joined(a: Lit, b: Lit) -> Lit {
    (a.0.min(b.0), a.1.max(b.1))
}

/// The groups of a row that have anything but a value.
#[inline(always)]
pub(super) fn other_than(row: &[f32], value: f32) -> Lit {
    // No closures: they would be compiled once, without the vectors of the caller.
    let (groups, rest) = row.as_chunks::<LANES>();
    let all = groups.len() + usize::from(!rest.is_empty());
    let (mut first, mut end) = (0, all);
    while first < groups.len() && !differs(&groups[first], value) {
        first += 1;
    }
    if first == groups.len() && !differs(rest, value) {
        return NOTHING;
    }
    if !differs(rest, value) {
        end = groups.len();
        while !differs(&groups[end - 1], value) {
            end -= 1;
        }
    }
    (first, end)
}

#[inline(always)]
fn differs(numbers: &[f32], value: f32) -> bool {
    let mut found = false;
    for &number in numbers {
        found |= number != value;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_within() {
        for length in [0, 1, 15, 16, 17, 32, 40, 48] {
            let mut row = vec![2.0; length];
            assert_eq!(other_than(&row, 2.0), NOTHING);
            for (i, j) in (0..length).flat_map(|i| (i..length).map(move |j| (i, j))) {
                (row[i], row[j]) = (1.0, f32::NAN);
                assert_eq!(other_than(&row, 2.0), (i / LANES, j / LANES + 1), "{length} {i} {j}");
                (row[i], row[j]) = (2.0, 2.0);
            }
        }
        assert_eq!(joined(NOTHING, (2, 3)), (2, 3));
        assert_eq!(joined((4, 5), (2, 3)), (2, 5));
    }
}
