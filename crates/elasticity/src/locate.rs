//! The tetrahedron that holds a point.

/// Where a point is in a mesh.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Located {
    /// The number of the tetrahedron.
    pub tetrahedron: u32,
    /// The barycentric weights of its four corners at the point; their sum is 1.
    pub weights: [f64; 4],
}
