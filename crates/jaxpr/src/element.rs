//! Prints and parses the elements of an array exactly.

use half::{bf16, f16};

use crate::aval::DType;

/// Returns the type and the count of the numbers that an element consists of.
///
/// Returns `None` for a type with unknown contents.
pub(crate) fn parts(dtype: &DType) -> Option<(DType, usize)> {
    match dtype {
        DType::Key(_) | DType::Other(_) => None,
        DType::C64 => Some((DType::F32, 2)),
        DType::C128 => Some((DType::F64, 2)),
        number => Some((number.clone(), 1)),
    }
}

/// Returns the size of an element in a [`crate::Constant`], in bytes.
pub(crate) fn size(dtype: &DType) -> Option<usize> {
    dtype.bits().map(|bits| bits.div_ceil(8))
}

/// Writes a number so that reading it returns the same bits: readable if possible, else `0x…`.
pub(crate) fn write(dtype: &DType, bytes: &[u8]) -> String {
    let readable = readable(dtype, bytes);
    if read(dtype, &readable).as_deref() == Some(bytes) {
        return readable;
    }
    bytes.iter().rev().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Returns the little-endian bytes of a number.
pub(crate) fn read(dtype: &DType, text: &str) -> Option<Vec<u8>> {
    let size = size(dtype)?;
    if let Some(digits) = text.strip_prefix("0x") {
        let bits = u64::from_str_radix(digits, 16).ok()?;
        return (digits.len() == 2 * size).then(|| bits.to_le_bytes()[..size].to_vec());
    }
    match dtype {
        DType::Bool => match text {
            "True" => Some(vec![1]),
            "False" => Some(vec![0]),
            _ => None,
        },
        DType::F64 => Some(text.parse::<f64>().ok()?.to_le_bytes().to_vec()),
        DType::F32 => Some(text.parse::<f32>().ok()?.to_le_bytes().to_vec()),
        DType::F16 => Some(f16::from_f32(text.parse().ok()?).to_le_bytes().to_vec()),
        DType::Bf16 => Some(bf16::from_f32(text.parse().ok()?).to_le_bytes().to_vec()),
        integer if is_signed(integer) || is_unsigned(integer) => {
            let value: i128 = text.parse().ok()?;
            let bytes = value.to_le_bytes()[..size].to_vec();
            (integer_value(integer, &bytes) == value).then_some(bytes)
        }
        small => {
            let wanted: f32 = text.parse().ok()?;
            let same =
                |&byte: &u8| small_float(small, byte).map(f32::to_bits) == Some(wanted.to_bits());
            (0..=u8::MAX).find(same).map(|byte| vec![byte])
        }
    }
}

/// Writes a number for people; the text need not be exact.
fn readable(dtype: &DType, bytes: &[u8]) -> String {
    let text = match (dtype, bytes) {
        (DType::Bool, [0]) => "False".to_owned(),
        (DType::Bool, _) => "True".to_owned(),
        (DType::F64, &[a, b, c, d, e, f, g, h]) => {
            format!("{:?}", f64::from_le_bytes([a, b, c, d, e, f, g, h]))
        }
        (DType::F32, &[a, b, c, d]) => format!("{:?}", f32::from_le_bytes([a, b, c, d])),
        (DType::F16, &[a, b]) => format!("{:?}", f16::from_le_bytes([a, b]).to_f32()),
        (DType::Bf16, &[a, b]) => format!("{:?}", bf16::from_le_bytes([a, b]).to_f32()),
        (integer, bytes) if is_signed(integer) || is_unsigned(integer) => {
            integer_value(integer, bytes).to_string()
        }
        (small, &[byte]) => {
            small_float(small, byte).map_or_else(String::new, |value| format!("{value:?}"))
        }
        _ => String::new(),
    };
    if text == "NaN" { "nan".to_owned() } else { text }
}

fn is_signed(dtype: &DType) -> bool {
    use DType::{I2, I4, I8, I16, I32, I64};
    matches!(dtype, I2 | I4 | I8 | I16 | I32 | I64)
}

fn is_unsigned(dtype: &DType) -> bool {
    use DType::{U2, U4, U8, U16, U32, U64};
    matches!(dtype, U2 | U4 | U8 | U16 | U32 | U64)
}

fn integer_value(dtype: &DType, bytes: &[u8]) -> i128 {
    let negative = is_signed(dtype) && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut all = [if negative { 0xff } else { 0 }; 16];
    all[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(all)
}

/// Returns the value of a float of one byte; `None` if it is NaN.
///
/// A byte consists of a sign, an exponent and a mantissa. The types differ in the widths, in the bias, and in the
/// patterns for infinity and NaN, as documented by `ml_dtypes`.
fn small_float(dtype: &DType, byte: u8) -> Option<f32> {
    let (mantissa_bits, bias) = match dtype {
        DType::F8E4M3Fn => (3, 7),
        DType::F8E4M3FnUz => (3, 8),
        DType::F8E5M2 => (2, 15),
        DType::F8E5M2FnUz => (2, 16),
        DType::F8E8M0 if byte == 0xff => return None,
        DType::F8E8M0 => return Some(2f32.powi(i32::from(byte) - 127)),
        _ => return None,
    };
    let magnitude = byte & 0x7f;
    let exponent = i32::from(magnitude >> mantissa_bits);
    let mantissa = f32::from(magnitude & ((1 << mantissa_bits) - 1));
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    match (dtype, magnitude) {
        (DType::F8E4M3Fn, 0x7f) | (DType::F8E5M2, 0x7d..) => return None,
        (DType::F8E4M3FnUz | DType::F8E5M2FnUz, 0) if sign < 0.0 => return None,
        (DType::F8E5M2, 0x7c) => return Some(sign * f32::INFINITY),
        _ => {}
    }
    let fraction = mantissa / f32::from(1u8 << mantissa_bits);
    let value = match exponent {
        0 => fraction * 2f32.powi(1 - bias),
        _ => (1.0 + fraction) * 2f32.powi(exponent - bias),
    };
    Some(sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_readable_where_that_is_exact() {
        let shown = |dtype, bytes: &[u8]| write(&dtype, bytes);
        assert_eq!(shown(DType::F32, &0.1f32.to_le_bytes()), "0.1");
        assert_eq!(shown(DType::F32, &(-0.0f32).to_le_bytes()), "-0.0");
        assert_eq!(shown(DType::F32, &f32::NAN.to_le_bytes()), "nan");
        assert_eq!(shown(DType::F32, &0x7fc0_0001u32.to_le_bytes()), "0x7fc00001");
        assert_eq!(shown(DType::F64, &f64::NEG_INFINITY.to_le_bytes()), "-inf");
        assert_eq!(shown(DType::Bf16, &bf16::from_f32(1.5).to_le_bytes()), "1.5");
        assert_eq!(shown(DType::Bool, &[1]), "True");
        assert_eq!(shown(DType::Bool, &[2]), "0x02");
        assert_eq!(shown(DType::I4, &[0xff]), "-1");
        assert_eq!(shown(DType::U64, &[0xff; 8]), "18446744073709551615");
        assert_eq!(shown(DType::F8E4M3Fn, &[0x7e]), "448.0");
        assert_eq!(shown(DType::F8E4M3FnUz, &[0x7f]), "240.0");
        assert_eq!(shown(DType::F8E5M2, &[0xfc]), "-inf");
        assert_eq!(shown(DType::F8E5M2FnUz, &[0x7f]), "57344.0");
        assert_eq!(shown(DType::F8E5M2FnUz, &[0x80]), "0x80");
        assert_eq!(shown(DType::F8E8M0, &[127]), "1.0");
    }

    #[test]
    fn every_pattern_of_one_and_two_bytes_reads_back_as_itself() {
        use DType::{Bf16, Bool, F8E4M3Fn, F8E4M3FnUz, F8E5M2, F8E5M2FnUz, F8E8M0, F16, I8, U8};
        for dtype in [Bool, I8, U8, F8E4M3Fn, F8E4M3FnUz, F8E5M2, F8E5M2FnUz, F8E8M0] {
            for byte in 0..=u8::MAX {
                assert_eq!(
                    read(&dtype, &write(&dtype, &[byte])),
                    Some(vec![byte]),
                    "{dtype} {byte}"
                );
            }
        }
        for dtype in [F16, Bf16] {
            for bits in 0..=u16::MAX {
                let bytes = bits.to_le_bytes();
                assert_eq!(
                    read(&dtype, &write(&dtype, &bytes)),
                    Some(bytes.to_vec()),
                    "{dtype} {bits}"
                );
            }
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused() {
        assert_eq!(read(&DType::U8, "256"), None);
        assert_eq!(read(&DType::U8, "-1"), None);
        assert_eq!(read(&DType::F32, "0x00"), None);
        assert_eq!(read(&DType::F8E4M3Fn, "449.0"), None);
        assert_eq!(read(&DType::Bool, "1"), None);
    }
}
