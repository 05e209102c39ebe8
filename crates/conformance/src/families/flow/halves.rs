//! Fields in half precision.

use voxalign_compute::Device;

/// All numbers of half precision, and what lies between them.
pub(crate) fn halves<D: Device>(device: &D) {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let mut singles = device.alloc::<f32>(all.len()).unwrap();
    device.to_single(&device.upload(&all).unwrap(), &mut singles).unwrap();
    let singles = device.into_host(singles).unwrap();
    let expected = |bits: u16| {
        let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let magnitude = match exponent {
            0 => mantissa * 2f64.powi(-24),
            31 if mantissa == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
        };
        if bits >> 15 == 1 { -magnitude } else { magnitude }
    };
    for &bits in &all {
        let (found, expected) = (f64::from(singles[usize::from(bits)]), expected(bits));
        assert!(found.is_nan() == expected.is_nan(), "{bits:x}: {found}");
        if !found.is_nan() {
            assert_eq!(found.to_bits(), expected.to_bits(), "{bits:x}");
        }
    }
    // The least and the greatest finite number, and those between two numbers.
    let (mut numbers, mut nearest) = (
        vec![f32::MAX, f32::MIN, 1e-40, -0.0, 65519.99, 65520.0],
        vec![0x7c00, 0xfc00, 0, 0x8000, 0x7bff, 0x7c00],
    );
    for bits in 0..0x7bff_u16 {
        let middle = 0.5 * (singles[usize::from(bits)] + singles[usize::from(bits) + 1]);
        numbers.extend([
            singles[usize::from(bits)],
            middle.next_down(),
            middle,
            middle.next_up(),
            -middle,
        ]);
        let even = bits + (bits & 1);
        nearest.extend([bits, bits, even, bits + 1, even | 0x8000]);
    }
    for length in [numbers.len(), 1, 5, 8, 17] {
        let mut out = device.alloc::<u16>(length).unwrap();
        device.to_half(&device.upload(&numbers[..length]).unwrap(), &mut out).unwrap();
        assert!(device.into_host(out).unwrap() == nearest[..length], "halves");
        let mut back = device.alloc::<f32>(length).unwrap();
        device.to_single(&device.upload(&nearest[..length]).unwrap(), &mut back).unwrap();
        let back = device.into_host(back).unwrap();
        assert!(back.iter().zip(&nearest).all(|(&v, &h)| f64::from(v) == expected(h)));
    }
    let mut out = device.alloc::<u16>(1).unwrap();
    device.to_half(&device.upload(&[f32::NAN]).unwrap(), &mut out).unwrap();
    assert_eq!(device.into_host(out).unwrap()[0] & 0x7e00, 0x7e00);
}
