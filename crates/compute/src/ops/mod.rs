//! The families of operators: traits with the mathematics in their docs, one file a family.
