//! Conversion between stored bytes and values.

use super::options::{ByteOrder, DataType};

/// Calls `$body` with `$read` a function from the bytes of one value to the value of type `$t`.
macro_rules! for_type {
    ($data_type:expr, $order:expr, $t:ident, $read:ident => $body:expr) => {{
        macro_rules! arm {
            ($ty:ty) => {{
                type $t = $ty;
                const N: usize = size_of::<$ty>();
                match $order {
                    ByteOrder::Little => {
                        let $read = |b: &[u8]| -> $ty {
                            let mut a = [0u8; N];
                            a.copy_from_slice(b);
                            <$ty>::from_le_bytes(a)
                        };
                        $body
                    }
                    ByteOrder::Big => {
                        let $read = |b: &[u8]| -> $ty {
                            let mut a = [0u8; N];
                            a.copy_from_slice(b);
                            <$ty>::from_be_bytes(a)
                        };
                        $body
                    }
                }
            }};
        }
        match $data_type {
            DataType::U8 => arm!(u8),
            DataType::I8 => arm!(i8),
            DataType::U16 => arm!(u16),
            DataType::I16 => arm!(i16),
            DataType::U32 => arm!(u32),
            DataType::I32 => arm!(i32),
            DataType::U64 => arm!(u64),
            DataType::I64 => arm!(i64),
            DataType::F32 => arm!(f32),
            DataType::F64 => arm!(f64),
        }
    }};
}

/// How stored values become true ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    pub(crate) slope: f64,
    pub(crate) intercept: f64,
}

impl Scale {
    pub(crate) const NONE: Scale = Scale { slope: 1.0, intercept: 0.0 };
}

/// Appends the scaled values of whole stored values; a partial value at the end is left out.
pub(crate) fn to_f32(
    bytes: &[u8],
    data_type: DataType,
    order: ByteOrder,
    scale: Scale,
    out: &mut Vec<f32>,
) {
    let Scale { slope, intercept } = scale;
    for_type!(data_type, order, T, read => {
        let values = bytes.chunks_exact(size_of::<T>()).map(read);
        if scale == Scale::NONE {
            out.extend(values.map(|v| v as f32));
        } else {
            out.extend(values.map(|v| (v as f64 * slope + intercept) as f32));
        }
    });
}

/// Appends the labels of whole stored values; otherwise the position and value of the first that
/// is none.
pub(crate) fn to_i32(
    bytes: &[u8],
    data_type: DataType,
    order: ByteOrder,
    scale: Scale,
    out: &mut Vec<i32>,
) -> Result<(), (usize, f64)> {
    let start = out.len();
    if data_type.is_integer() && scale == Scale::NONE {
        return for_type!(data_type, order, T, read => {
            for value in bytes.chunks_exact(size_of::<T>()).map(read) {
                let wide = value as i128;
                match i32::try_from(wide) {
                    Ok(label) => out.push(label),
                    Err(_) => return Err((out.len() - start, wide as f64)),
                }
            }
            Ok(())
        });
    }
    // A scale is stored as a 32-bit float, so that whole numbers come out inexact.
    let tolerance = if scale == Scale::NONE { 0.0 } else { 1e-6 };
    for_type!(data_type, order, T, read => {
        for value in bytes.chunks_exact(size_of::<T>()).map(read) {
            let value = value as f64 * scale.slope + scale.intercept;
            let label = value.round();
            let near = (value - label).abs() <= tolerance * value.abs().clamp(1.0, 1e5);
            if near && label >= f64::from(i32::MIN) && label <= f64::from(i32::MAX) {
                out.push(label as i32);
            } else {
                return Err((out.len() - start, value));
            }
        }
        Ok(())
    })
}

/// The label that a value is, where it is one.
pub(crate) fn label(value: f64) -> Option<i32> {
    let whole = value.fract() == 0.0 && value.abs() <= f64::from(i32::MAX);
    whole.then_some(value as i32)
}

/// Appends values in a type, little-endian; integers get rounded and clamped values, NaN becomes 0.
pub(crate) fn from_f32(values: &[f32], data_type: DataType, out: &mut Vec<u8>) {
    macro_rules! integers {
        ($ty:ty) => {
            out.extend(values.iter().flat_map(|&v| (v.round_ties_even() as $ty).to_le_bytes()))
        };
    }
    match data_type {
        DataType::U8 => out.extend(values.iter().map(|&v| v.round_ties_even() as u8)),
        DataType::I8 => integers!(i8),
        DataType::U16 => integers!(u16),
        DataType::I16 => integers!(i16),
        DataType::U32 => integers!(u32),
        DataType::I32 => integers!(i32),
        DataType::U64 => integers!(u64),
        DataType::I64 => integers!(i64),
        DataType::F32 if cfg!(target_endian = "little") => {
            out.extend_from_slice(bytemuck::cast_slice(values));
        }
        DataType::F32 => out.extend(values.iter().flat_map(|v| v.to_le_bytes())),
        DataType::F64 => out.extend(values.iter().flat_map(|&v| f64::from(v).to_le_bytes())),
    }
}

/// Appends labels in a type that holds them, little-endian.
pub(crate) fn from_i32(values: &[i32], data_type: DataType, out: &mut Vec<u8>) {
    macro_rules! cast {
        ($ty:ty) => {
            out.extend(values.iter().flat_map(|&v| (v as $ty).to_le_bytes()))
        };
    }
    match data_type {
        DataType::U8 => cast!(u8),
        DataType::I8 => cast!(i8),
        DataType::U16 => cast!(u16),
        DataType::I16 => cast!(i16),
        DataType::U32 => cast!(u32),
        DataType::I32 => cast!(i32),
        DataType::U64 => cast!(u64),
        DataType::I64 => cast!(i64),
        DataType::F32 => cast!(f32),
        DataType::F64 => cast!(f64),
    }
}

/// The smallest of the usual types that holds the labels.
pub(crate) fn smallest_type(labels: &[i32]) -> DataType {
    let (low, high) = labels.iter().fold((0, 0), |(l, h), &v| (v.min(l), v.max(h)));
    if low >= 0 && high <= 255 {
        DataType::U8
    } else if low >= i32::from(i16::MIN) && high <= i32::from(i16::MAX) {
        DataType::I16
    } else if low >= 0 && high <= i32::from(u16::MAX) {
        DataType::U16
    } else {
        DataType::I32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_in_both_orders() {
        let values = [0.0f32, 1.0, 2.0, 100.0, 127.0];
        for data_type in DataType::ALL {
            let mut bytes = Vec::new();
            from_f32(&values, data_type, &mut bytes);
            assert_eq!(bytes.len(), values.len() * data_type.size());
            let mut back = Vec::new();
            to_f32(&bytes, data_type, ByteOrder::Little, Scale::NONE, &mut back);
            assert_eq!(back, values);
            bytes.chunks_mut(data_type.size()).for_each(<[u8]>::reverse);
            let mut swapped = Vec::new();
            let scale = Scale { slope: 2.0, intercept: -1.0 };
            to_f32(&bytes, data_type, ByteOrder::Big, scale, &mut swapped);
            assert_eq!(swapped, values.map(|v| 2.0 * v - 1.0));
            let mut labels = Vec::new();
            to_i32(&bytes, data_type, ByteOrder::Big, Scale::NONE, &mut labels).unwrap();
            assert_eq!(labels, [0, 1, 2, 100, 127]);
        }
    }

    #[test]
    fn integers_are_rounded_and_clamped() {
        let mut bytes = Vec::new();
        from_f32(&[-3.0, 1.6, 300.0, f32::NAN, f32::INFINITY], DataType::U8, &mut bytes);
        assert_eq!(bytes, [0, 2, 255, 0, 255]);
    }

    #[test]
    fn what_is_no_label() {
        let mut out = Vec::new();
        let bytes: Vec<u8> = [1.0f32, 2.5].iter().flat_map(|v| v.to_le_bytes()).collect();
        let bad = to_i32(&bytes, DataType::F32, ByteOrder::Little, Scale::NONE, &mut out);
        assert_eq!(bad, Err((1, 2.5)));
        let big = u64::MAX.to_le_bytes();
        assert!(to_i32(&big, DataType::U64, ByteOrder::Little, Scale::NONE, &mut out).is_err());
        let nan = f64::NAN.to_le_bytes();
        assert!(to_i32(&nan, DataType::F64, ByteOrder::Little, Scale::NONE, &mut out).is_err());
        let scale = Scale { slope: f64::from(0.1f32), intercept: 0.0 };
        out.clear();
        to_i32(&[30], DataType::U8, ByteOrder::Little, scale, &mut out).unwrap();
        assert_eq!(out, [3]);
    }

    #[test]
    fn smallest_types() {
        assert_eq!(smallest_type(&[0, 255]), DataType::U8);
        assert_eq!(smallest_type(&[-1, 255]), DataType::I16);
        assert_eq!(smallest_type(&[40000]), DataType::U16);
        assert_eq!(smallest_type(&[-1, 40000]), DataType::I32);
        assert_eq!(smallest_type(&[]), DataType::U8);
    }
}
