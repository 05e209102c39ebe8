//! Measurements of the operators on the machine at hand, beside its own copy bandwidth.
