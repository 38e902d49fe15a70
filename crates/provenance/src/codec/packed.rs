//! Numbers as text: digits of 5 bits in the letters of Base64, the lowest first. If bit 5 of a digit is set,
//! another digit follows. A signed number is written as `2n`, or as `-2n - 1` if it is negative.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const MORE: u64 = 32;

/// The number of entries that any list may repeat, and the additional number for each of its letters. This bounds
/// the memory for reading a document by its size.
const MIN_REPEATED: usize = 1 << 16;
const MAX_REPEATED_PER_LETTER: usize = 32;

fn may_repeat(count: usize, letters: usize) -> bool {
    count <= letters.saturating_mul(MAX_REPEATED_PER_LETTER).saturating_add(MIN_REPEATED)
}

/// A text of packed numbers that is being written.
#[derive(Debug, Default)]
pub(super) struct Packer {
    pub text: String,
    repeated: usize,
}

impl Packer {
    pub fn number(&mut self, number: impl Into<u64>) {
        let mut rest = number.into();
        while rest >= MORE {
            self.digit((rest % MORE) | MORE);
            rest /= MORE;
        }
        self.digit(rest);
    }

    /// Writes the difference between a number and the one before it.
    pub fn step(&mut self, before: &mut u32, number: u32) {
        let step = i64::from(number) - i64::from(*before);
        *before = number;
        self.signed(step);
    }

    pub fn signed(&mut self, number: i64) {
        let doubled = number.unsigned_abs() * 2;
        self.number(if number < 0 { doubled - 1 } else { doubled });
    }

    /// Writes the distance from `index` back to an earlier entry of the same list; 0 means no entry.
    pub fn earlier(&mut self, index: usize, entry: Option<usize>) {
        self.number(entry.map_or(0, |entry| (index - entry) as u64));
    }

    /// True if the next entry may repeat `count` earlier entries, which then count as repeated. A reader refuses a
    /// list that repeats more.
    pub fn repeat(&mut self, count: usize) -> bool {
        let repeated = self.repeated + count;
        let is_allowed = may_repeat(repeated, self.text.len());
        if is_allowed {
            self.repeated = repeated;
        }
        is_allowed
    }

    fn digit(&mut self, digit: u64) {
        self.text.push(char::from(DIGITS[digit as usize]));
    }
}

/// Reads packed numbers. Every method returns `None` if the text is malformed.
#[derive(Debug)]
pub(super) struct Unpacker<'a> {
    rest: std::slice::Iter<'a, u8>,
    letters: usize,
    repeated: usize,
}

impl<'a> Unpacker<'a> {
    pub fn new(text: &'a str) -> Unpacker<'a> {
        Unpacker { rest: text.as_bytes().iter(), letters: text.len(), repeated: 0 }
    }

    pub fn is_done(&self) -> bool {
        self.rest.len() == 0
    }

    pub fn number(&mut self) -> Option<u32> {
        self.wide()?.try_into().ok()
    }

    pub fn step(&mut self, before: &mut u32) -> Option<u32> {
        let number = i64::from(*before).checked_add(self.signed()?)?;
        *before = number.try_into().ok()?;
        Some(*before)
    }

    pub fn signed(&mut self) -> Option<i64> {
        let number = self.wide()?;
        let half = i64::try_from(number / 2).ok()?;
        Some(if number % 2 == 0 { half } else { -half - 1 })
    }

    /// Returns the index of an earlier entry, or that there is none.
    #[expect(clippy::option_option)]
    pub fn earlier(&mut self, index: usize) -> Option<Option<usize>> {
        match self.number()? {
            0 => Some(None),
            distance => index.checked_sub(distance as usize).map(Some),
        }
    }

    /// Counts repeated entries; `None` if there are too many for a text of this length.
    pub fn repeat(&mut self, count: usize) -> Option<()> {
        self.repeated = self.repeated.checked_add(count)?;
        may_repeat(self.repeated, self.letters).then_some(())
    }

    /// True if the text repeats more entries than allowed.
    pub fn repeats_too_much(&self) -> bool {
        !may_repeat(self.repeated, self.letters)
    }

    fn wide(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..40).step_by(5) {
            let digit = value(*self.rest.next()?)?;
            number |= (digit % MORE) << shift;
            if digit < MORE {
                return Some(number);
            }
        }
        None
    }
}

fn value(letter: u8) -> Option<u64> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u64::from(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::seeded;

    #[test]
    fn small_numbers_are_one_letter() {
        let mut packer = Packer::default();
        for number in [0_u32, 31, 32, 1000] {
            packer.number(number);
        }
        for number in [0, -1, 1, -16, 16] {
            packer.signed(number);
        }
        assert_eq!(packer.text, "AfgBofABCfgB");
    }

    proptest! {
        #![proptest_config(seeded())]

        #[test]
        fn unpacking_undoes_packing(numbers in prop::collection::vec(any::<u32>(), 0..9)) {
            let mut packer = Packer::default();
            let mut before = 0;
            for &number in &numbers {
                packer.number(number);
                packer.step(&mut before, number);
            }
            let mut unpacker = Unpacker::new(&packer.text);
            let mut before = 0;
            for number in numbers {
                prop_assert_eq!(unpacker.number(), Some(number));
                prop_assert_eq!(unpacker.step(&mut before), Some(number));
            }
            prop_assert!(unpacker.is_done());
        }
    }
}
