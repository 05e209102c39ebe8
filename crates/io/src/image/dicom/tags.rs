//! The attributes and transfer syntaxes that are used (DICOM PS3.6 and PS3.5, annex A).

/// Group in the upper, element in the lower 16 bits.
pub(crate) type Tag = u32;

/// Gives names to tags, and the value representation that each has by the standard.
macro_rules! tags {
    ($($name:ident = $tag:literal $vr:literal;)*) => {
        $(pub(crate) const $name: Tag = $tag;)*

        /// The value representation of an attribute that is looked at; nothing for others.
        pub(crate) fn representation(tag: Tag) -> Option<[u8; 2]> {
            match tag {
                $($tag => Some(*$vr),)*
                _ => None,
            }
        }
    };
}

tags! {
    META_LENGTH = 0x0002_0000 b"UL";
    TRANSFER_SYNTAX = 0x0002_0010 b"UI";
    CHARACTER_SET = 0x0008_0005 b"CS";
    IMAGE_TYPE = 0x0008_0008 b"CS";
    SOP_INSTANCE = 0x0008_0018 b"UI";
    STUDY_DATE = 0x0008_0020 b"DA";
    ACQUISITION_DATE = 0x0008_0022 b"DA";
    CONTENT_DATE = 0x0008_0023 b"DA";
    ACQUISITION_MOMENT = 0x0008_002A b"DT";
    STUDY_TIME = 0x0008_0030 b"TM";
    ACQUISITION_TIME = 0x0008_0032 b"TM";
    CONTENT_TIME = 0x0008_0033 b"TM";
    ACCESSION_NUMBER = 0x0008_0050 b"SH";
    MODALITY = 0x0008_0060 b"CS";
    MANUFACTURER = 0x0008_0070 b"LO";
    REFERRING_PHYSICIAN = 0x0008_0090 b"PN";
    STUDY_DESCRIPTION = 0x0008_1030 b"LO";
    SERIES_DESCRIPTION = 0x0008_103E b"LO";
    MODEL = 0x0008_1090 b"LO";
    FRAME_TYPE = 0x0008_9007 b"CS";
    COMPLEX_COMPONENT = 0x0008_9208 b"CS";
    PATIENT_NAME = 0x0010_0010 b"PN";
    PATIENT_ID = 0x0010_0020 b"LO";
    PATIENT_ID_ISSUER = 0x0010_0021 b"LO";
    PATIENT_BIRTH_DATE = 0x0010_0030 b"DA";
    PATIENT_SEX = 0x0010_0040 b"CS";
    SCANNING_SEQUENCE = 0x0018_0020 b"CS";
    SEQUENCE_VARIANT = 0x0018_0021 b"CS";
    SCAN_OPTIONS = 0x0018_0022 b"CS";
    ACQUISITION_KIND = 0x0018_0023 b"CS";
    SEQUENCE_NAME = 0x0018_0024 b"SH";
    CINE_RATE = 0x0018_0040 b"IS";
    SLICE_THICKNESS = 0x0018_0050 b"DS";
    REPETITION_TIME = 0x0018_0080 b"DS";
    ECHO_TIME = 0x0018_0081 b"DS";
    INVERSION_TIME = 0x0018_0082 b"DS";
    AVERAGES = 0x0018_0083 b"DS";
    IMAGING_FREQUENCY = 0x0018_0084 b"DS";
    ECHO_NUMBERS = 0x0018_0086 b"IS";
    FIELD_STRENGTH = 0x0018_0087 b"DS";
    SPACING_BETWEEN_SLICES = 0x0018_0088 b"DS";
    ECHO_TRAIN = 0x0018_0091 b"IS";
    PIXEL_BANDWIDTH = 0x0018_0095 b"DS";
    SOFTWARE = 0x0018_1020 b"LO";
    PROTOCOL = 0x0018_1030 b"LO";
    TRIGGER_TIME = 0x0018_1060 b"DS";
    FRAME_TIME = 0x0018_1063 b"DS";
    FRAME_TIME_VECTOR = 0x0018_1065 b"DS";
    SOURCE_TO_DETECTOR = 0x0018_1110 b"DS";
    SOURCE_TO_PATIENT = 0x0018_1111 b"DS";
    IMAGER_PIXEL_SPACING = 0x0018_1164 b"DS";
    ACQUISITION_MATRIX = 0x0018_1310 b"US";
    PHASE_DIRECTION = 0x0018_1312 b"CS";
    FLIP_ANGLE = 0x0018_1314 b"DS";
    SAR = 0x0018_1316 b"DS";
    PRIMARY_ANGLE = 0x0018_1510 b"DS";
    SECONDARY_ANGLE = 0x0018_1511 b"DS";
    PRIMARY_INCREMENTS = 0x0018_1520 b"DS";
    SECONDARY_INCREMENTS = 0x0018_1521 b"DS";
    SCANNED_PIXEL_SPACING = 0x0018_2010 b"DS";
    PATIENT_POSITION = 0x0018_5100 b"CS";
    VIEW_ROTATION = 0x0018_7032 b"DS";
    VIEW_FLIP = 0x0018_7034 b"CS";
    PHASE_REORDERING = 0x0018_9034 b"CS";
    FRAME_ACQUISITION = 0x0018_9074 b"DT";
    GRADIENT_SEQUENCE = 0x0018_9076 b"SQ";
    EFFECTIVE_ECHO_TIME = 0x0018_9082 b"FD";
    B_VALUE = 0x0018_9087 b"FD";
    GRADIENT = 0x0018_9089 b"FD";
    TIMING_SEQUENCE = 0x0018_9112 b"SQ";
    ECHO_SEQUENCE = 0x0018_9114 b"SQ";
    MR_MODIFIER = 0x0018_9115 b"SQ";
    DIFFUSION_SEQUENCE = 0x0018_9117 b"SQ";
    FIELD_OF_VIEW_SEQUENCE = 0x0018_9125 b"SQ";
    FRAME_REFERENCE = 0x0018_9151 b"DT";
    MR_FRAME_TYPE = 0x0018_9226 b"SQ";
    CT_FRAME_TYPE = 0x0018_9329 b"SQ";
    PET_FRAME_TYPE = 0x0018_9751 b"SQ";
    SIEMENS_IMAGES = 0x0019_100A b"US";
    SIEMENS_B = 0x0019_100C b"IS";
    SIEMENS_GRADIENT = 0x0019_100E b"FD";
    SIEMENS_BANDWIDTH = 0x0019_1028 b"FD";
    SIEMENS_TIMES = 0x0019_1029 b"FD";
    GE_SEQUENCE_FILE = 0x0019_109C b"LO";
    GE_SEQUENCE = 0x0019_109E b"LO";
    GE_POLARITY = 0x0019_10B3 b"DS";
    GE_GRADIENT_X = 0x0019_10BB b"DS";
    GE_GRADIENT_Y = 0x0019_10BC b"DS";
    GE_GRADIENT_Z = 0x0019_10BD b"DS";
    STUDY_UID = 0x0020_000D b"UI";
    SERIES_UID = 0x0020_000E b"UI";
    STUDY_ID = 0x0020_0010 b"SH";
    SERIES_NUMBER = 0x0020_0011 b"IS";
    ACQUISITION_NUMBER = 0x0020_0012 b"IS";
    INSTANCE_NUMBER = 0x0020_0013 b"IS";
    PATIENT_ORIENTATION = 0x0020_0020 b"CS";
    POSITION = 0x0020_0032 b"DS";
    ORIENTATION = 0x0020_0037 b"DS";
    TEMPORAL_POSITION = 0x0020_0100 b"IS";
    FRAME_CONTENT_SEQUENCE = 0x0020_9111 b"SQ";
    POSITION_SEQUENCE = 0x0020_9113 b"SQ";
    ORIENTATION_SEQUENCE = 0x0020_9116 b"SQ";
    TEMPORAL_INDEX = 0x0020_9128 b"UL";
    DIMENSION_VALUES = 0x0020_9157 b"UL";
    DIMENSION_POINTER = 0x0020_9165 b"AT";
    DIMENSION_SEQUENCE = 0x0020_9222 b"SQ";
    GE_TIMER = 0x0021_105E b"DS";
    SIEMENS_PHASE_SIGN = 0x0021_111C b"IS";
    SIEMENS_FRAME_BANDWIDTH = 0x0021_1153 b"FD";
    SIEMENS_FRAME_SEQUENCE = 0x0021_11FE b"SQ";
    SAMPLES = 0x0028_0002 b"US";
    PHOTOMETRIC = 0x0028_0004 b"CS";
    FRAMES = 0x0028_0008 b"IS";
    ROWS = 0x0028_0010 b"US";
    COLUMNS = 0x0028_0011 b"US";
    PIXEL_SPACING = 0x0028_0030 b"DS";
    BITS_ALLOCATED = 0x0028_0100 b"US";
    BITS_STORED = 0x0028_0101 b"US";
    HIGH_BIT = 0x0028_0102 b"US";
    PIXEL_REPRESENTATION = 0x0028_0103 b"US";
    INTENSITY_RELATION = 0x0028_1040 b"CS";
    INTENSITY_SIGN = 0x0028_1041 b"SS";
    INTERCEPT = 0x0028_1052 b"DS";
    SLOPE = 0x0028_1053 b"DS";
    LOSSY = 0x0028_2110 b"CS";
    MODALITY_LUT_SEQUENCE = 0x0028_3000 b"SQ";
    MEASURES_SEQUENCE = 0x0028_9110 b"SQ";
    TRANSFORMATION_SEQUENCE = 0x0028_9145 b"SQ";
    SIEMENS_CSA = 0x0029_1010 b"OB";
    SIEMENS_PROTOCOL = 0x0029_1020 b"OB";
    REAL_WORLD_SEQUENCE = 0x0040_9096 b"SQ";
    REAL_WORLD_INTERCEPT = 0x0040_9224 b"FD";
    REAL_WORLD_SLOPE = 0x0040_9225 b"FD";
    GE_ECHO_SPACING = 0x0043_102C b"SS";
    GE_COMPONENT = 0x0043_102F b"SS";
    GE_COLLAPSE = 0x0043_1030 b"SS";
    GE_B = 0x0043_1039 b"IS";
    GE_PAUSE = 0x0043_107C b"FL";
    GE_ACCELERATION = 0x0043_1083 b"DS";
    ENERGY_WINDOWS = 0x0054_0010 b"US";
    DETECTOR_SEQUENCE = 0x0054_0022 b"SQ";
    TIME_SLOTS = 0x0054_0070 b"US";
    SLICE_VECTOR = 0x0054_0080 b"US";
    TIME_SLICES = 0x0054_0100 b"US";
    UNITS = 0x0054_1001 b"CS";
    SEGMENT_SEQUENCE = 0x0062_000A b"SQ";
    SEGMENT_NUMBER = 0x0062_000B b"US";
    PHILIPS_B = 0x2001_1003 b"FL";
    PHILIPS_X = 0x2005_10B0 b"FL";
    PHILIPS_Y = 0x2005_10B1 b"FL";
    PHILIPS_Z = 0x2005_10B2 b"FL";
    PHILIPS_SCALE = 0x2005_100E b"FL";
    RECEPTOR_TRANSLATION = 0x3002_000D b"DS";
    RECEPTOR_ANGLE = 0x3002_000E b"DS";
    IMAGE_ORIENTATION_IEC = 0x3002_0010 b"DS";
    IMAGE_PLANE_SPACING = 0x3002_0011 b"DS";
    IMAGE_POSITION_IEC = 0x3002_0012 b"DS";
    SOURCE_TO_AXIS = 0x3002_0022 b"DS";
    SOURCE_TO_IMAGE = 0x3002_0026 b"DS";
    FRAME_OFFSETS = 0x3004_000C b"DS";
    DOSE_SCALING = 0x3004_000E b"DS";
    GANTRY_ANGLE = 0x300A_011E b"DS";
    SUPPORT_ANGLE = 0x300A_0122 b"DS";
    ISOCENTRE = 0x300A_012C b"DS";
    SHARED_GROUPS = 0x5200_9229 b"SQ";
    PER_FRAME_GROUPS = 0x5200_9230 b"SQ";
    EXTENDED_OFFSETS = 0x7FE0_0001 b"OV";
    FLOAT_PIXELS = 0x7FE0_0008 b"OF";
    DOUBLE_PIXELS = 0x7FE0_0009 b"OD";
    PIXELS = 0x7FE0_0010 b"OW";
}

/// Lists with a value for each frame, and what is told of each frame.
const LISTS: [Tag; 5] =
    [FRAME_TIME_VECTOR, PRIMARY_INCREMENTS, SECONDARY_INCREMENTS, FRAME_OFFSETS, PER_FRAME_GROUPS];

/// Whether an attribute is looked at once a file, and not for each frame: lists, and whose images they are.
pub(super) fn is_of_the_file(tag: Tag) -> bool {
    tag == STUDY_UID || LISTS.contains(&tag) || OF_STUDY.contains(&tag)
}

/// What a file says of the patient and the study, in the order of the tags, but for the study's UID.
pub(crate) const OF_STUDY: [Tag; 12] = [
    CHARACTER_SET,
    STUDY_DATE,
    STUDY_TIME,
    ACCESSION_NUMBER,
    REFERRING_PHYSICIAN,
    STUDY_DESCRIPTION,
    PATIENT_NAME,
    PATIENT_ID,
    PATIENT_ID_ISSUER,
    PATIENT_BIRTH_DATE,
    PATIENT_SEX,
    STUDY_ID,
];

pub(super) const ITEM: Tag = 0xFFFE_E000;
pub(super) const ITEM_END: Tag = 0xFFFE_E00D;
pub(super) const SEQUENCE_END: Tag = 0xFFFE_E0DD;

/// A tag as it is written, such as `(0028,0010)`.
pub(crate) fn written(tag: Tag) -> String {
    format!("({:04X},{:04X})", tag >> 16, tag & 0xFFFF)
}

/// How the pixels of frames are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// As they are.
    None,
    /// Run lengths of the bytes of values.
    Rle,
    /// JPEG with sequential or lossless coding.
    Jpeg,
    /// JPEG 2000.
    Jpeg2000,
}

/// How a data set is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Syntax {
    /// The value representation is not written.
    pub(super) implicit: bool,
    pub(super) big_endian: bool,
    /// The data set as a whole is packed by deflate.
    pub(super) deflated: bool,
    pub(super) packing: Packing,
}

impl Syntax {
    pub(super) const EXPLICIT: Syntax =
        Syntax { implicit: false, big_endian: false, deflated: false, packing: Packing::None };

    /// A transfer syntax by its UID; otherwise what it is.
    pub(super) fn of(uid: &str) -> Result<Syntax, &'static str> {
        let plain = Syntax::EXPLICIT;
        let packed = |packing| Ok(Syntax { packing, ..plain });
        let Some(end) = uid.strip_prefix("1.2.840.10008.1.2") else {
            return Err("a transfer syntax of its maker's own");
        };
        match end {
            "" => Ok(Syntax { implicit: true, ..plain }),
            ".1" => Ok(plain),
            ".1.99" => Ok(Syntax { deflated: true, ..plain }),
            ".2" => Ok(Syntax { big_endian: true, ..plain }),
            ".5" => packed(Packing::Rle),
            ".4.50" | ".4.51" | ".4.57" | ".4.70" => packed(Packing::Jpeg),
            ".4.90" | ".4.91" => packed(Packing::Jpeg2000),
            ".4.80" | ".4.81" => Err("JPEG-LS"),
            ".4.92" | ".4.93" => Err("JPEG 2000 with several components"),
            ".4.201" | ".4.202" | ".4.203" => Err("high-throughput JPEG 2000"),
            ".4.110" | ".4.111" | ".4.112" => Err("JPEG XL"),
            e if e.starts_with(".4.10") => Err("a video"),
            e if e.starts_with(".4.") => Err("a retired kind of JPEG"),
            _ => Err("an unknown transfer syntax"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_syntaxes() {
        assert!(Syntax::of("1.2.840.10008.1.2").unwrap().implicit);
        assert!(Syntax::of("1.2.840.10008.1.2.1.99").unwrap().deflated);
        assert_eq!(Syntax::of("1.2.840.10008.1.2.4.70").unwrap().packing, Packing::Jpeg);
        assert_eq!(Syntax::of("1.2.840.10008.1.2.4.80"), Err("JPEG-LS"));
        assert_eq!(Syntax::of("1.2.840.10008.1.2.4.103"), Err("a video"));
        assert!(Syntax::of("1.2.3").is_err());
        assert_eq!(written(PIXELS), "(7FE0,0010)");
    }
}
