//! Elementwise expressions, as values that programs can build.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;

/// An expression over the elements of several inputs, built by operators and functions:
///
/// ```
/// use voxalign_compute::ops::expression::{param, select, x};
///
/// // The first input scaled to [0, 1], where the second is positive.
/// let scaled = ((x(0) - param(0)) / (param(1) - param(0))).clamp(0.0, 1.0);
/// let masked = select(x(1).gt(0.0), scaled, 0.0);
/// ```
///
/// Arithmetic is that of IEEE `f32`, one operation after the other, never contracted. A part that
/// occurs several times is computed once.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr(Arc<Node>);

/// The outermost operation of an expression.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Node {
    /// The element of an input.
    Input(usize),
    /// A number known when the expression is evaluated, given from the host.
    Param(usize),
    /// A number known when the expression is evaluated, from a buffer of the device; rounded from
    /// `f64` to `f32`.
    Scalar(usize),
    /// A number.
    Constant(f32),
    /// An operation on one value.
    Unary(Unary, Expr),
    /// An operation on two values.
    Binary(Binary, Expr, Expr),
    /// The second where the first is not zero (not a number counts as not zero), else the third.
    Select(Expr, Expr, Expr),
}

/// Operations on one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unary {
    /// −a
    Neg,
    /// |a|
    Abs,
    /// √a
    Sqrt,
    /// eᵃ, within 0.51 units in the last place
    Exp,
    /// The natural logarithm, within 0.51 units in the last place.
    Log,
}

/// Operations on two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Binary {
    /// a + b
    Add,
    /// a − b
    Sub,
    /// a b
    Mul,
    /// a / b
    Div,
    /// a < b ? a : b
    Min,
    /// a > b ? a : b
    Max,
    /// aᵇ, within 0.51 units in the last place; special cases as in IEEE 754.
    Pow,
    /// 1 where a < b, else 0
    Less,
    /// 1 where a ≤ b, else 0
    LessEqual,
    /// 1 where a = b, else 0
    Equal,
}

/// The element of input `i`.
pub fn x(i: usize) -> Expr {
    Node::Input(i).into()
}

/// The host number `i`.
pub fn param(i: usize) -> Expr {
    Node::Param(i).into()
}

/// The number `i` of the device.
pub fn scalar(i: usize) -> Expr {
    Node::Scalar(i).into()
}

/// A number.
pub fn constant(value: f32) -> Expr {
    Node::Constant(value).into()
}

/// `a` where `condition` is not zero, else `b`.
pub fn select(condition: impl Into<Expr>, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
    Node::Select(condition.into(), a.into(), b.into()).into()
}

impl From<Node> for Expr {
    fn from(node: Node) -> Self {
        Self(Arc::new(node))
    }
}

impl From<f32> for Expr {
    fn from(value: f32) -> Self {
        constant(value)
    }
}

impl From<&Expr> for Expr {
    fn from(value: &Expr) -> Self {
        value.clone()
    }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident => $op:ident),* $(,)?) => {$(
        $(#[$doc])*
        pub fn $name(&self) -> Expr {
            Node::Unary(Unary::$op, self.clone()).into()
        }
    )*};
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident => $op:ident),* $(,)?) => {$(
        $(#[$doc])*
        pub fn $name(&self, other: impl Into<Expr>) -> Expr {
            Node::Binary(Binary::$op, self.clone(), other.into()).into()
        }
    )*};
}

impl Expr {
    /// The outermost operation.
    pub fn node(&self) -> &Node {
        &self.0
    }

    /// Whether both are one and the same value in memory, and so certainly equal.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    unary! {
        /// |a|
        abs => Abs,
        /// √a
        sqrt => Sqrt,
        /// eᵃ
        exp => Exp,
        /// The natural logarithm.
        log => Log,
    }

    binary! {
        /// a < b ? a : b, and so b if either is not a number.
        min => Min,
        /// a > b ? a : b, and so b if either is not a number.
        max => Max,
        /// aᵇ
        pow => Pow,
        /// 1 where a < b, else 0.
        lt => Less,
        /// 1 where a ≤ b, else 0.
        le => LessEqual,
        /// 1 where a = b, else 0.
        equals => Equal,
    }

    /// 1 where a > b, else 0.
    pub fn gt(&self, other: impl Into<Expr>) -> Expr {
        other.into().lt(self)
    }

    /// 1 where a ≥ b, else 0.
    pub fn ge(&self, other: impl Into<Expr>) -> Expr {
        other.into().le(self)
    }

    /// a²
    pub fn square(&self) -> Expr {
        self * self
    }

    /// The nearest value from `low` to `high`; `low` where it is not a number.
    pub fn clamp(&self, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
        self.max(low).min(high)
    }
}

macro_rules! operators {
    ($($trait:ident $name:ident),*) => {$(
        impl $trait<Expr> for Expr {
            type Output = Expr;
            fn $name(self, other: Expr) -> Expr {
                Node::Binary(Binary::$trait, self, other).into()
            }
        }
        impl $trait<&Expr> for Expr {
            type Output = Expr;
            fn $name(self, other: &Expr) -> Expr {
                Node::Binary(Binary::$trait, self, other.clone()).into()
            }
        }
        impl $trait<Expr> for &Expr {
            type Output = Expr;
            fn $name(self, other: Expr) -> Expr {
                Node::Binary(Binary::$trait, self.clone(), other).into()
            }
        }
        impl $trait<&Expr> for &Expr {
            type Output = Expr;
            fn $name(self, other: &Expr) -> Expr {
                Node::Binary(Binary::$trait, self.clone(), other.clone()).into()
            }
        }
        impl $trait<f32> for Expr {
            type Output = Expr;
            fn $name(self, other: f32) -> Expr {
                Node::Binary(Binary::$trait, self, constant(other)).into()
            }
        }
        impl $trait<f32> for &Expr {
            type Output = Expr;
            fn $name(self, other: f32) -> Expr {
                Node::Binary(Binary::$trait, self.clone(), constant(other)).into()
            }
        }
        impl $trait<Expr> for f32 {
            type Output = Expr;
            fn $name(self, other: Expr) -> Expr {
                Node::Binary(Binary::$trait, constant(self), other).into()
            }
        }
        impl $trait<&Expr> for f32 {
            type Output = Expr;
            fn $name(self, other: &Expr) -> Expr {
                Node::Binary(Binary::$trait, constant(self), other.clone()).into()
            }
        }
    )*};
}
operators!(Add add, Sub sub, Mul mul, Div div);

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Node::Unary(Unary::Neg, self).into()
    }
}

impl Neg for &Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Node::Unary(Unary::Neg, self.clone()).into()
    }
}
