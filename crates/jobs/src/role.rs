//! Roles of files in jobs.

use voxalign_options::Choice;

/// What a file is to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
#[choice(snake_case)]
pub(crate) enum Role {
    /// The image that stays.
    Fixed,
    /// A further image of a sequence of those that stay.
    Frame,
    /// The image that is brought to it.
    Moving,
    /// What counts of the fixed image.
    FixedMask,
    /// What counts of the moving image.
    MovingMask,
    /// Labels of the fixed image.
    FixedLabels,
    /// Labels of the moving image.
    MovingLabels,
    /// What each voxel of the fixed image counts.
    FixedWeight,
    /// The fixed image of a further channel.
    ChannelFixed,
    /// The moving image of a further channel.
    ChannelMoving,
    /// An image of a subject.
    Channel,
    /// What counts of a subject.
    Mask,
    /// What a dense start is kept to.
    PriorMask,
    /// The set that a front starts from.
    InitialMask,
    /// How fast a front moves outwards in each voxel.
    Speed,
    /// Labels of a subject.
    Labels,
    /// The names of labels.
    LabelNames,
    /// The transform that is started from.
    Affine,
    /// The transform that a search starts from.
    Init,
    /// Points of the fixed image that a search starts from.
    InitFixedLandmarks,
    /// Points of the moving image that a search starts from.
    InitMovingLandmarks,
    /// Points of the fixed image that pull.
    FixedLandmarks,
    /// Points of the moving image that pull.
    MovingLandmarks,
    /// An image among many.
    Image,
    /// A file of options.
    Config,
    /// A list of subjects.
    List,
    /// An image to compare with.
    Reference,
    /// The CT that X-ray images are simulated of.
    Ct,
    /// An X-ray image.
    Xray,
    /// Where views are taken from.
    Geometry,
    /// Where the CT is in the room.
    Pose,
    /// What the anatomy of a subject is made of.
    Anatomy,
    /// A class of a subject.
    Probability,
    /// A surface, curves or points of a subject.
    Shape,
    /// Labels or an image that a surface of a subject is made of.
    ShapeImage,
    /// Corresponding points of a subject.
    Landmarks,
    /// A slice that a volume is brought to.
    Slice,
    /// A mesh of tetrahedra.
    Mesh,
    /// The mask that a mesh is fitted to.
    MeshMask,
    /// The labels of a mesh.
    MeshLabels,
    /// Vertices of a mesh that are held.
    FixedNodes,
    /// What labels of a mesh are made of.
    Materials,
    /// Where a mesh was, and how it moved.
    State,
    /// What the fixed anatomy is made of.
    FixedAnatomy,
    /// What the moving anatomy is made of.
    MovingAnatomy,
    /// A class of the fixed anatomy.
    FixedProbability,
    /// A class of the moving anatomy.
    MovingProbability,
    /// A surface, curves or points of the fixed anatomy.
    FixedShape,
    /// A surface, curves or points of the moving anatomy.
    MovingShape,
    /// Labels or an image that a surface of the fixed anatomy is made of.
    FixedShapeImage,
    /// Labels or an image that a surface of the moving anatomy is made of.
    MovingShapeImage,
}

impl Role {
    /// Whether the file is an image or a label map, which has a grid to be told.
    pub(crate) fn is_image(self) -> bool {
        !matches!(
            self,
            Self::LabelNames
                | Self::Affine
                | Self::Init
                | Self::InitFixedLandmarks
                | Self::InitMovingLandmarks
                | Self::FixedLandmarks
                | Self::MovingLandmarks
                | Self::Config
                | Self::List
                | Self::Xray
                | Self::Geometry
                | Self::Pose
                | Self::Anatomy
                | Self::Shape
                | Self::Landmarks
                | Self::Mesh
                | Self::FixedNodes
                | Self::Materials
                | Self::State
                | Self::FixedAnatomy
                | Self::MovingAnatomy
                | Self::FixedShape
                | Self::MovingShape
        )
    }
}
