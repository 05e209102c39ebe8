//! The fields of NIfTI-1, NIfTI-2 and ANALYZE 7.5 headers.

use super::super::options::{ByteOrder, DataType};
use super::quaternion::in_single;

/// Bytes of a NIfTI-1 or ANALYZE header.
pub(crate) const SIZE_1: usize = 348;
/// Bytes of a NIfTI-2 header.
pub(crate) const SIZE_2: usize = 540;

/// Which of the formats a header is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Analyze,
    One,
    Two,
}

impl Version {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Version::Analyze => "ANALYZE 7.5",
            Version::One => "NIfTI-1",
            Version::Two => "NIfTI-2",
        }
    }

    /// Bytes of the header with the four that tell of extensions.
    pub(crate) fn size(self) -> usize {
        match self {
            Version::Analyze => SIZE_1,
            Version::One => SIZE_1 + 4,
            Version::Two => SIZE_2 + 4,
        }
    }
}

/// The fields that matter here, as stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NiftiHeader {
    pub(crate) version: Version,
    /// Whether the magic says that header and data are one file.
    pub(crate) single: bool,
    pub(crate) order: ByteOrder,
    pub(crate) dim: [i64; 8],
    pub(crate) datatype: i32,
    pub(crate) bitpix: i32,
    pub(crate) pixdim: [f64; 8],
    pub(crate) vox_offset: f64,
    pub(crate) slope: f64,
    pub(crate) intercept: f64,
    pub(crate) units: i32,
    pub(crate) description: String,
    pub(crate) qform_code: i32,
    pub(crate) sform_code: i32,
    /// Quaternion b, c, d.
    pub(crate) quaternion: [f64; 3],
    pub(crate) offset: [f64; 3],
    pub(crate) rows: [[f64; 4]; 3],
    pub(crate) intent_code: i32,
    pub(crate) intent_name: String,
    /// ANALYZE: the orientation byte and SPM's origin, in voxels from 1.
    pub(crate) orient: u8,
    pub(crate) spm_origin: [i64; 3],
}

/// Reads fields at byte positions; past the end everything is zero.
struct Fields<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        if let Some(b) = self.bytes.get(at..at + N) {
            out.copy_from_slice(b);
        }
        if self.order == ByteOrder::Big {
            out.reverse();
        }
        out
    }

    fn i16(&self, at: usize) -> i64 {
        i64::from(i16::from_le_bytes(self.array(at)))
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.array(at))
    }

    fn i64(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.array(at))
    }

    fn f32(&self, at: usize) -> f64 {
        f64::from(f32::from_le_bytes(self.array(at)))
    }

    fn f64(&self, at: usize) -> f64 {
        f64::from_le_bytes(self.array(at))
    }

    fn u8(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn text(&self, at: usize, length: usize) -> String {
        let field = self.bytes.get(at..at + length).unwrap_or(&[]);
        let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end])
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect::<String>()
            .trim()
            .to_string()
    }
}

impl NiftiHeader {
    /// Parses a header of at least [`SIZE_1`] bytes; otherwise what is wrong.
    pub(crate) fn parse(bytes: &[u8]) -> Result<NiftiHeader, String> {
        let Some(first) = bytes.first_chunk::<4>() else {
            return Err(format!("the file has {} bytes, but a header has 348", bytes.len()));
        };
        let (little, big) = (i32::from_le_bytes(*first), i32::from_be_bytes(*first));
        let (size, order) = match (little, big) {
            (348 | 540, _) => (little, ByteOrder::Little),
            (_, 348 | 540) => (big, ByteOrder::Big),
            _ => {
                return Err(format!(
                    "it begins with {first:02x?} instead of the header size 348 or 540"
                ));
            }
        };
        if bytes.len() < size as usize {
            return Err(format!(
                "the header has {size} bytes, but the file has only {}",
                bytes.len()
            ));
        }
        let fields = Fields { bytes, order };
        if size == 540 { Self::parse_2(&fields) } else { Ok(Self::parse_1(&fields)) }
    }

    fn parse_1(f: &Fields<'_>) -> NiftiHeader {
        let magic = f.bytes.get(344..348).unwrap_or(&[]);
        let (version, single) = match magic {
            b"n+1\0" => (Version::One, true),
            b"ni1\0" => (Version::One, false),
            _ => (Version::Analyze, false),
        };
        let nifti = version == Version::One;
        let only_nifti = |v: i32| if nifti { v } else { 0 };
        NiftiHeader {
            version,
            single,
            order: f.order,
            dim: std::array::from_fn(|i| f.i16(40 + 2 * i)),
            datatype: f.i16(70) as i32,
            bitpix: f.i16(72) as i32,
            pixdim: std::array::from_fn(|i| f.f32(76 + 4 * i)),
            vox_offset: f.f32(108),
            slope: f.f32(112),
            intercept: if nifti { f.f32(116) } else { 0.0 },
            units: only_nifti(i32::from(f.u8(123))),
            description: f.text(148, 80),
            qform_code: only_nifti(f.i16(252) as i32),
            sform_code: only_nifti(f.i16(254) as i32),
            quaternion: std::array::from_fn(|i| f.f32(256 + 4 * i)),
            offset: std::array::from_fn(|i| f.f32(268 + 4 * i)),
            rows: std::array::from_fn(|r| std::array::from_fn(|c| f.f32(280 + 16 * r + 4 * c))),
            intent_code: only_nifti(f.i16(68) as i32),
            intent_name: if nifti { f.text(328, 16) } else { String::new() },
            orient: f.u8(252),
            spm_origin: std::array::from_fn(|i| f.i16(253 + 2 * i)),
        }
    }

    fn parse_2(f: &Fields<'_>) -> Result<NiftiHeader, String> {
        let magic = f.bytes.get(4..12).unwrap_or(&[]);
        let single = match magic {
            b"n+2\0\r\n\x1a\n" => true,
            b"ni2\0\r\n\x1a\n" => false,
            m if m.starts_with(b"n+2\0") || m.starts_with(b"ni2\0") => {
                return Err(
                    "the end of the NIfTI-2 magic is damaged: the file was transferred in \
                            text mode"
                        .into(),
                );
            }
            m => return Err(format!("the magic {m:02x?} is not that of NIfTI-2")),
        };
        Ok(NiftiHeader {
            version: Version::Two,
            single,
            order: f.order,
            dim: std::array::from_fn(|i| f.i64(16 + 8 * i)),
            datatype: f.i16(12) as i32,
            bitpix: f.i16(14) as i32,
            pixdim: std::array::from_fn(|i| f.f64(104 + 8 * i)),
            vox_offset: f.i64(168) as f64,
            slope: f.f64(176),
            intercept: f.f64(184),
            units: f.i32(500),
            description: f.text(240, 80),
            qform_code: f.i32(344),
            sform_code: f.i32(348),
            quaternion: std::array::from_fn(|i| f.f64(352 + 8 * i)),
            offset: std::array::from_fn(|i| f.f64(376 + 8 * i)),
            rows: std::array::from_fn(|r| std::array::from_fn(|c| f.f64(400 + 32 * r + 8 * c))),
            intent_code: f.i32(504),
            intent_name: f.text(508, 16),
            orient: 0,
            spm_origin: [0; 3],
        })
    }

    /// The bytes of the header with the four that tell of extensions; little-endian.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0u8; self.version.size()];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = out.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        let text = |s: &str, n: usize| {
            let mut end = s.len().min(n);
            while !s.is_char_boundary(end) {
                end -= 1;
            }
            s.as_bytes()[..end].to_vec()
        };
        let half = |v: i64| (v as i16).to_le_bytes();
        let single = |v: f64| (v as f32).to_le_bytes();
        if self.version == Version::Two {
            put(0, &540i32.to_le_bytes());
            put(4, if self.single { b"n+2\0\r\n\x1a\n" } else { b"ni2\0\r\n\x1a\n" });
            put(12, &half(self.datatype.into()));
            put(14, &half(self.bitpix.into()));
            (0..8).for_each(|i| put(16 + 8 * i, &self.dim[i].to_le_bytes()));
            (0..8).for_each(|i| put(104 + 8 * i, &self.pixdim[i].to_le_bytes()));
            put(168, &(self.vox_offset as i64).to_le_bytes());
            put(176, &self.slope.to_le_bytes());
            put(184, &self.intercept.to_le_bytes());
            put(240, &text(&self.description, 79));
            put(344, &self.qform_code.to_le_bytes());
            put(348, &self.sform_code.to_le_bytes());
            (0..3).for_each(|i| put(352 + 8 * i, &self.quaternion[i].to_le_bytes()));
            (0..3).for_each(|i| put(376 + 8 * i, &self.offset[i].to_le_bytes()));
            for r in 0..3 {
                (0..4).for_each(|c| put(400 + 32 * r + 8 * c, &self.rows[r][c].to_le_bytes()));
            }
            put(500, &self.units.to_le_bytes());
            put(504, &self.intent_code.to_le_bytes());
            put(508, &text(&self.intent_name, 15));
        } else {
            put(0, &348i32.to_le_bytes());
            put(38, b"r");
            (0..8).for_each(|i| put(40 + 2 * i, &half(self.dim[i])));
            put(68, &half(self.intent_code.into()));
            put(70, &half(self.datatype.into()));
            put(72, &half(self.bitpix.into()));
            (0..8).for_each(|i| put(76 + 4 * i, &single(self.pixdim[i])));
            put(108, &single(self.vox_offset));
            put(112, &single(self.slope));
            put(116, &single(self.intercept));
            put(123, &[self.units as u8]);
            put(148, &text(&self.description, 79));
            put(252, &half(self.qform_code.into()));
            put(254, &half(self.sform_code.into()));
            let quaternion = in_single(self.quaternion);
            (0..3).for_each(|i| put(256 + 4 * i, &quaternion[i].to_le_bytes()));
            (0..3).for_each(|i| put(268 + 4 * i, &single(self.offset[i])));
            for r in 0..3 {
                (0..4).for_each(|c| put(280 + 16 * r + 4 * c, &single(self.rows[r][c])));
            }
            put(328, &text(&self.intent_name, 15));
            put(344, if self.single { b"n+1\0" } else { b"ni1\0" });
        }
        out
    }
}

/// NIfTI's code of a type.
pub(crate) fn code_of(data_type: DataType) -> i32 {
    match data_type {
        DataType::U8 => 2,
        DataType::I16 => 4,
        DataType::I32 => 8,
        DataType::F32 => 16,
        DataType::F64 => 64,
        DataType::I8 => 256,
        DataType::U16 => 512,
        DataType::U32 => 768,
        DataType::I64 => 1024,
        DataType::U64 => 1280,
    }
}

/// The type of a code, otherwise the name of what is not read here.
pub(crate) fn type_of(code: i32) -> Result<DataType, &'static str> {
    match DataType::ALL.into_iter().find(|&t| code_of(t) == code) {
        Some(data_type) => Ok(data_type),
        None => Err(match code {
            0 => "no type",
            1 => "single bits",
            32 => "64-bit complex numbers",
            128 => "RGB colours",
            1536 => "128-bit floats",
            1792 => "128-bit complex numbers",
            2048 => "256-bit complex numbers",
            2304 => "RGBA colours",
            _ => "an unknown type",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        for version in [Version::One, Version::Two] {
            for single in [true, false] {
                let header = NiftiHeader {
                    version,
                    single,
                    order: ByteOrder::Little,
                    dim: [5, 3, 4, 5, 1, 3, 1, 1],
                    datatype: 16,
                    bitpix: 32,
                    pixdim: [-1.0, 0.5, 2.0, 3.0, 1.0, 1.0, 0.0, 0.0],
                    vox_offset: 352.0,
                    slope: 2.0,
                    intercept: -1.0,
                    units: 2,
                    description: "words".into(),
                    qform_code: 1,
                    sform_code: 2,
                    quaternion: [0.5, 0.25, 0.125],
                    offset: [1.0, 2.0, 3.0],
                    rows: [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]],
                    intent_code: 1007,
                    intent_name: "name".into(),
                    orient: 0,
                    spm_origin: [0; 3],
                };
                let bytes = header.to_bytes();
                let mut back = NiftiHeader::parse(&bytes).unwrap();
                (back.orient, back.spm_origin) = (0, [0; 3]);
                assert_eq!(back, header);
            }
        }
    }

    #[test]
    fn what_is_no_header() {
        assert!(NiftiHeader::parse(&[]).unwrap_err().contains("0 bytes"));
        assert!(NiftiHeader::parse(&[7; 400]).unwrap_err().contains("348"));
        let mut cut = 348i32.to_le_bytes().to_vec();
        cut.resize(200, 0);
        assert!(NiftiHeader::parse(&cut).unwrap_err().contains("200"));
        let mut two = 540i32.to_be_bytes().to_vec();
        two.extend(b"n+2\0\n\x1a\n");
        two.resize(544, 0);
        assert!(NiftiHeader::parse(&two).unwrap_err().contains("text mode"));
    }
}
