//! What each command of the program, and each function of other front ends, is, in one line.

/// Declares the lines, and the function that finds one by the name of the job.
macro_rules! about {
    ($($constant:ident $name:literal $text:literal,)+) => {
        $(#[doc = concat!("Of `", $name, "`.")] pub const $constant: &str = $text;)+

        /// The line of a job.
        #[must_use]
        pub fn of(job: &str) -> Option<&'static str> {
            match job {
                $($name => Some($constant),)+
                _ => None,
            }
        }
    };
}

about! {
    AFFINE "affine" "Register two images by a rigid, similarity or affine transform",
    DEFORM "deform" "Register two images by a diffeomorphic (invertible) deformation, after an affine transform",
    ELASTIC "elastic" "Register two images by an elastic body that they move, with its strain, after an affine transform",
    ANATOMY "anatomy" "Register two anatomies: tissue probabilities, images, surfaces, curves and points together",
    ATLAS "atlas" "Build an unbiased atlas of many images, with the deformation of each to it",
    DRR "drr" "Simulate X-ray images of a CT (digitally reconstructed radiographs)",
    POSE "pose" "Find the rigid pose of a CT from X-ray images of it (2D-3D registration)",
    SEGMENT "segment" "Divide an image into regions by fronts that move (level sets)",
    APPLY "apply" "Apply transforms to an image, a label map or points",
    INVERT "invert" "Write the inverse of a transform",
    COMPOSE "compose" "Combine several transforms into one",
    COMPARE "compare" "Score how well two images, label maps or point lists agree",
    STACK "stack" "Compute the mean, extremes, variance or product of many images, or normalise or smooth each",
    SURFACE "surface" "Extract the surface of labels, or an isosurface of an image",
    INFO "info" "Show the contents of a file, and anything unusual about it",
    CONVERT "convert" "Convert an image, a label map, a transform or a point list to another format",
}
