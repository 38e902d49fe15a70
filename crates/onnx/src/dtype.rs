//! Element types.

use std::fmt;

/// The element types of ONNX that we write; the number is the one in `TensorProto.DataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum DType {
    F32 = 1,
    U8 = 2,
    I8 = 3,
    U16 = 4,
    I16 = 5,
    I32 = 6,
    I64 = 7,
    String = 8,
    Bool = 9,
    F16 = 10,
    F64 = 11,
    U32 = 12,
    U64 = 13,
    C64 = 14,
    C128 = 15,
    Bf16 = 16,
    F8E4M3Fn = 17,
    F8E4M3FnUz = 18,
    F8E5M2 = 19,
    F8E5M2FnUz = 20,
    U4 = 21,
    I4 = 22,
    F4E2M1 = 23,
    F8E8M0 = 24,
    U2 = 25,
    I2 = 26,
}

/// Every type with its short name and its size in bits (0 if the size varies).
const TYPES: &[(DType, &str, usize)] = &[
    (DType::F32, "f32", 32),
    (DType::U8, "u8", 8),
    (DType::I8, "i8", 8),
    (DType::U16, "u16", 16),
    (DType::I16, "i16", 16),
    (DType::I32, "i32", 32),
    (DType::I64, "i64", 64),
    (DType::String, "string", 0),
    (DType::Bool, "bool", 8),
    (DType::F16, "f16", 16),
    (DType::F64, "f64", 64),
    (DType::U32, "u32", 32),
    (DType::U64, "u64", 64),
    (DType::C64, "c64", 64),
    (DType::C128, "c128", 128),
    (DType::Bf16, "bf16", 16),
    (DType::F8E4M3Fn, "f8_e4m3fn", 8),
    (DType::F8E4M3FnUz, "f8_e4m3fnuz", 8),
    (DType::F8E5M2, "f8_e5m2", 8),
    (DType::F8E5M2FnUz, "f8_e5m2fnuz", 8),
    (DType::U4, "u4", 4),
    (DType::I4, "i4", 4),
    (DType::F4E2M1, "f4_e2m1", 4),
    (DType::F8E8M0, "f8_e8m0fnu", 8),
    (DType::U2, "u2", 2),
    (DType::I2, "i2", 2),
];

impl DType {
    /// Returns the type with this number in `TensorProto.DataType`.
    pub fn from_code(code: i32) -> Option<DType> {
        TYPES.iter().map(|entry| entry.0).find(|dtype| dtype.code() == code)
    }

    /// Returns the type with this short name.
    pub fn from_short(name: &str) -> Option<DType> {
        TYPES.iter().find(|entry| entry.1 == name).map(|entry| entry.0)
    }

    /// Returns the number in `TensorProto.DataType`.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// Returns the size of one stored element in bits; 0 for strings.
    pub fn bits(self) -> usize {
        self.entry().2
    }

    pub fn is_float(self) -> bool {
        use DType::{
            Bf16, F4E2M1, F8E4M3Fn, F8E4M3FnUz, F8E5M2, F8E5M2FnUz, F8E8M0, F16, F32, F64,
        };
        matches!(
            self,
            F16 | F32 | F64 | Bf16 | F8E4M3Fn | F8E4M3FnUz | F8E5M2 | F8E5M2FnUz | F8E8M0 | F4E2M1
        )
    }

    pub fn is_signed_int(self) -> bool {
        matches!(self, DType::I2 | DType::I4 | DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    pub fn is_unsigned_int(self) -> bool {
        matches!(self, DType::U2 | DType::U4 | DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    pub fn is_int(self) -> bool {
        self.is_signed_int() || self.is_unsigned_int()
    }

    pub fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    fn entry(self) -> &'static (DType, &'static str, usize) {
        // The table contains every variant; a test checks that.
        TYPES.iter().find(|entry| entry.0 == self).unwrap_or(&TYPES[0])
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry().1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_line() {
        for code in 1..=26 {
            let dtype = DType::from_code(code).expect("a line for every code");
            assert_eq!(dtype.code(), code);
            assert_eq!(DType::from_short(&dtype.to_string()), Some(dtype));
        }
        assert_eq!(DType::from_code(27), None);
    }
}
