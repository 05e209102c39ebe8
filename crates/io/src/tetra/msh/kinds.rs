//! Types of Gmsh's elements.

/// The type that is read.
pub(super) const TETRAHEDRON: i32 = 4;

/// An element: its nodes, its dimensions, and what it is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) nodes: usize,
    pub(super) dimensions: usize,
    pub(super) name: &'static str,
}

/// The element of a type, as Gmsh's manual has them.
pub(super) fn of(kind: i32) -> Option<Kind> {
    let (nodes, dimensions, name) = match kind {
        15 => (1, 0, "a point"),
        1 => (2, 1, "a line"),
        8 => (3, 1, "a line"),
        26 => (4, 1, "a line"),
        27 => (5, 1, "a line"),
        28 => (6, 1, "a line"),
        2 => (3, 2, "a triangle"),
        9 => (6, 2, "a triangle"),
        20 => (9, 2, "a triangle"),
        21 => (10, 2, "a triangle"),
        22 => (12, 2, "a triangle"),
        23 | 24 => (15, 2, "a triangle"),
        25 => (21, 2, "a triangle"),
        3 => (4, 2, "a quadrilateral"),
        10 => (9, 2, "a quadrilateral"),
        16 => (8, 2, "a quadrilateral"),
        TETRAHEDRON => (4, 3, "a tetrahedron"),
        11 => (10, 3, "a quadratic tetrahedron"),
        29 => (20, 3, "a tetrahedron of the third order"),
        30 => (35, 3, "a tetrahedron of the fourth order"),
        31 => (56, 3, "a tetrahedron of the fifth order"),
        5 => (8, 3, "a hexahedron"),
        12 => (27, 3, "a quadratic hexahedron"),
        17 => (20, 3, "a quadratic hexahedron"),
        92 => (64, 3, "a hexahedron of the third order"),
        93 => (125, 3, "a hexahedron of the fourth order"),
        6 => (6, 3, "a prism"),
        13 => (18, 3, "a quadratic prism"),
        18 => (15, 3, "a quadratic prism"),
        7 => (5, 3, "a pyramid"),
        14 => (14, 3, "a quadratic pyramid"),
        19 => (13, 3, "a quadratic pyramid"),
        _ => return None,
    };
    Some(Kind { nodes, dimensions, name })
}
