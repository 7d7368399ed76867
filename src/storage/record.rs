//! Records: what stands in a counter, in the fields of a hash and in the members of a sorted set.
//!
//! | limiter | key type | stored |
//! |---|---|---|
//! | FIXED | string | used units in decimal |
//! | TOKEN | hash | `tokens`: whole or `whole+numerator/denominator`; `ts`: microseconds |
//! | LEAKY | hash | `level`, `ts` likewise |
//! | SLIDING | sorted set | member: sixteen digits, or `iNNN:id`; score: microseconds |
//! | SLIDING BUCKETS | hash | field: sub-window's end in ms, thirteen digits; value: units |
//! | CL.THROTTLE | string | redis-cell's TAT: nanoseconds, nineteen digits |
//! | leases | sorted set | member: `l:id`; score: end in microseconds |
//!
//! Reading is strict: bytes that this module would not have written (or, for counters, INCR) are somebody else's.
//! These forms are frozen: a new one would get a new field or member form.

use crate::engine::buckets::SubWindow;
use crate::engine::rate::Amount;
use crate::engine::time::{Micros, Millis};

/// The field of a token bucket's balance.
pub const TOKENS: &[u8] = b"tokens";
/// The field of a leaky bucket's level.
pub const LEVEL: &[u8] = b"level";
/// The field of the instant that the other field is true of.
pub const TS: &[u8] = b"ts";

/// Ten years, the longest period, in microseconds: the largest denominator.
const LARGEST_DENOMINATOR: i64 = 315_360_000_000_000;
/// The largest whole part: sixteen digits.
const LARGEST_WHOLE: i64 = 9_999_999_999_999_999;
/// Digits of an instant in milliseconds.
const MILLIS_DIGITS: usize = 13;
/// Digits of an instant in microseconds.
const MICROS_DIGITS: usize = 16;
/// The largest number that is no TAT.
const EARLIEST_TAT: i64 = 1_000_000_000_000_000_000;
/// The longest request or lease id in bytes.
pub const LONGEST_ID: usize = 128;

/// A short text on the stack.
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    start: usize,
}

impl<const N: usize> Text<N> {
    /// An empty text that is written from its end to its beginning.
    const fn empty() -> Self {
        Self { bytes: [0; N], start: N }
    }

    fn push_front(&mut self, byte: u8) {
        if let Some(place) = self.start.checked_sub(1)
            && let Some(slot) = self.bytes.get_mut(place)
        {
            *slot = byte;
            self.start = place;
        }
    }

    /// Eight digits at a time while there are so many, as an instant has twice eight, then two.
    fn push_digits_front(&mut self, mut number: u64) {
        while number >= 10_000_000 {
            self.push_slice_front(&eight_digits(number % 100_000_000));
            number /= 100_000_000;
            if number == 0 {
                return;
            }
        }
        while number >= 100 {
            self.push_slice_front(pair(number % 100));
            number /= 100;
        }
        match pair(number) {
            [b'0', digit] => self.push_front(*digit),
            both => self.push_slice_front(both),
        }
    }

    fn push_slice_front(&mut self, bytes: &[u8]) {
        if let Some(place) = self.start.checked_sub(bytes.len())
            && let Some(slot) = self.bytes.get_mut(place..self.start)
        {
            slot.copy_from_slice(bytes);
            self.start = place;
        }
    }

    /// The text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// The numbers from 00 to 99, one after another.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let (mut tens, mut rest) = (b'0', pairs.as_mut_slice());
    while let [a, b, c, d, e, f, g, h, i, j, tail @ ..] = rest {
        (*a, *b, *c, *d, *e) = ([tens, b'0'], [tens, b'1'], [tens, b'2'], [tens, b'3'], [tens, b'4']);
        (*f, *g, *h, *i, *j) = ([tens, b'5'], [tens, b'6'], [tens, b'7'], [tens, b'8'], [tens, b'9']);
        tens += 1;
        rest = tail;
    }
    pairs
};

/// Both digits of a number below a hundred.
fn pair(number: u64) -> &'static [u8; 2] {
    usize::try_from(number).ok().and_then(|number| PAIRS.get(number)).unwrap_or(&[b'9'; 2])
}

/// All eight digits of a number below a hundred million, worked out side by side in one word.
///
/// The number is halved into four digits each, these into two, and these into one, every time by a multiplication that
/// stands for the division, in lanes that never touch. The lowest byte is the first digit.
const fn eight_digits(number: u64) -> [u8; 8] {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = (fours.wrapping_mul(5_243) >> 19) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours.wrapping_sub(hundreds.wrapping_mul(100)) << 16);
    let tens = (twos.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos.wrapping_sub(tens.wrapping_mul(10)) << 8);
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}

/// The value of eight digits, if they are digits: what [`eight_digits`] does, the other way round.
const fn value_of_eight(digits: [u8; 8]) -> Option<u64> {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let word = u64::from_le_bytes(digits);
    // A digit's upper half is 3, and still is when 6 is added: nothing above 9 passes, and nothing carries over.
    if word & HIGH != ZEROS || word.wrapping_add(0x0606_0606_0606_0606) & HIGH != ZEROS {
        return None;
    }
    let ones = word & !HIGH;
    let twos = ones.wrapping_mul(10).wrapping_add(ones >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = twos.wrapping_mul(100).wrapping_add(twos >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

/// A decimal number that is not negative.
#[must_use]
pub fn number(value: u64) -> Text<20> {
    let mut text = Text::empty();
    text.push_digits_front(value);
    text
}

/// A decimal number with its sign.
#[must_use]
pub fn signed(value: i64) -> Text<20> {
    let mut text = Text::empty();
    text.push_digits_front(value.unsigned_abs());
    if value < 0 {
        text.push_front(b'-');
    }
    text
}

/// An amount: `7`, `7+1/3`, `-2+1/3`.
#[must_use]
pub fn amount(amount: Amount) -> Text<64> {
    let mut text = Text::empty();
    if amount.numerator != 0 {
        text.push_digits_front(amount.denominator.unsigned_abs());
        text.push_front(b'/');
        text.push_digits_front(amount.numerator.unsigned_abs());
        text.push_front(b'+');
    }
    text.push_digits_front(amount.whole.unsigned_abs());
    if amount.whole < 0 {
        text.push_front(b'-');
    }
    text
}

/// The member of the `index`-th unit of a request id.
#[must_use]
pub fn id_member(index: u64, id: &[u8]) -> Text<{ 5 + LONGEST_ID }> {
    let mut text = Text::empty();
    text.push_slice_front(id);
    text.push_front(b':');
    for place in [1, 10, 100] {
        text.push_front(b'0' | u8::try_from(index / place % 10).unwrap_or(0));
    }
    text.push_front(b'i');
    text
}

/// The member of a lease.
#[must_use]
pub fn lease_member(id: &[u8]) -> Text<{ 2 + LONGEST_ID }> {
    let mut text = Text::empty();
    text.push_slice_front(id);
    text.push_slice_front(b"l:");
    text
}

/// A canonical decimal number of at most nineteen digits: no sign, no leading zero.
fn canonical(bytes: &[u8]) -> Option<i64> {
    match bytes {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] if bytes.len() <= 19 => {
            // Nineteen digits fit 64 bits without a sign; only then is it too much for 63.
            let mut value = 0_u64;
            let mut rest = bytes;
            while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
                value = value.wrapping_mul(100_000_000).wrapping_add(value_of_eight(*eight)?);
                rest = behind;
            }
            for byte in rest {
                let digit = byte.wrapping_sub(b'0');
                if digit > 9 {
                    return None;
                }
                value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            }
            i64::try_from(value).ok()
        }
        _ => None,
    }
}

/// A counter: a canonical integer from 0 to 2^63 - 1.
#[must_use]
pub fn read_counter(bytes: &[u8]) -> Option<u64> {
    canonical(bytes).and_then(|value| u64::try_from(value).ok())
}

/// redis-cell's TAT: nanoseconds since the epoch in nineteen digits, so of September 2001 or later.
///
/// The smallest of them is what a counter that BLOCK has shut holds, which is somebody else's.
#[must_use]
pub fn read_tat(bytes: &[u8]) -> Option<i64> {
    canonical(bytes).filter(|tat_ns| *tat_ns > EARLIEST_TAT)
}

/// An amount; a level is never negative, tokens may be.
#[must_use]
pub fn read_amount(bytes: &[u8], may_be_negative: bool) -> Option<Amount> {
    let (negative, bytes) = match bytes {
        [b'-', rest @ ..] if may_be_negative => (true, rest),
        _ => (false, bytes),
    };
    let plus = bytes.iter().position(|byte| *byte == b'+');
    let (whole, fraction) = plus.and_then(|at| bytes.split_at_checked(at)).unwrap_or((bytes, &[]));
    let whole = canonical(whole).filter(|whole| *whole <= LARGEST_WHOLE)?;
    if negative && whole == 0 {
        return None;
    }
    let whole = if negative { -whole } else { whole };
    let [b'+', fraction @ ..] = fraction else {
        return Some(Amount { whole, numerator: 0, denominator: 1 });
    };
    let slash = fraction.iter().position(|byte| *byte == b'/')?;
    let (numerator, denominator) = fraction.split_at_checked(slash)?;
    let numerator = canonical(numerator)?;
    let denominator = canonical(denominator.strip_prefix(b"/")?)?;
    (numerator < denominator && denominator <= LARGEST_DENOMINATOR).then_some(Amount { whole, numerator, denominator })
}

/// An instant of sixteen digits.
#[must_use]
pub fn read_micros(bytes: &[u8]) -> Option<Micros> {
    if bytes.len() != MICROS_DIGITS {
        return None;
    }
    canonical(bytes).and_then(Micros::checked)
}

/// A sub-window: an end of thirteen digits and up to sixteen digits of units.
#[must_use]
pub fn read_sub_window(field: &[u8], value: &[u8]) -> Option<SubWindow> {
    if field.len() != MILLIS_DIGITS {
        return None;
    }
    let end = Millis::new(canonical(field)?);
    let units = canonical(value).filter(|units| *units <= LARGEST_WHOLE)?;
    Some(SubWindow { end, units: u64::try_from(units).ok()? })
}

/// Whether a member has the form of a log's.
#[must_use]
pub fn is_log_member(member: &[u8]) -> bool {
    match member {
        [b'i', a, b, c, b':', id @ ..] => [a, b, c].iter().all(|byte| byte.is_ascii_digit()) && is_id(id),
        _ => read_micros(member).is_some(),
    }
}

/// Which unit of a request id a member is, if it is one.
#[must_use]
pub fn unit_of(member: &[u8], id: &[u8]) -> Option<u64> {
    match member {
        [b'i', digits @ ..] => {
            let (digits, rest) = digits.split_at_checked(3)?;
            let index = digits
                .iter()
                .try_fold(0, |index, byte| byte.is_ascii_digit().then(|| index * 10 + u64::from(byte - b'0')))?;
            (rest.strip_prefix(b":")? == id).then_some(index)
        }
        _ => None,
    }
}

/// Whether a member has the form of a lease's.
#[must_use]
pub fn is_lease_member(member: &[u8]) -> bool {
    matches!(member, [b'l', b':', id @ ..] if is_id(id))
}

/// Whether bytes can be an id.
#[must_use]
pub const fn is_id(id: &[u8]) -> bool {
    !id.is_empty() && id.len() <= LONGEST_ID
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_written_as_the_reference_says() {
        let text = |whole, numerator, denominator| {
            String::from_utf8(amount(Amount { whole, numerator, denominator }).as_bytes().to_vec()).unwrap()
        };
        assert_eq!(text(7, 0, 3), "7");
        assert_eq!(text(7, 1, 3), "7+1/3");
        assert_eq!(text(-2, 1, 3), "-2+1/3");
        assert_eq!(text(-LARGEST_WHOLE, LARGEST_DENOMINATOR - 1, LARGEST_DENOMINATOR).len(), 49);
    }

    #[test]
    fn eight_digits_at_a_time_are_the_same_as_one_by_one() {
        let edges = [0, 9, 10, 99, 100, 999, 9_999, 10_000, 12_345_678, 99_990_000, 99_999_999];
        for number in (0..100_000_000).step_by(9_973).chain(edges) {
            let digits = eight_digits(number);
            assert_eq!(digits.as_slice(), format!("{number:08}").as_bytes());
            assert_eq!(value_of_eight(digits), Some(number));
        }
    }

    #[test]
    fn what_is_not_canonical_is_somebody_elses() {
        for bytes in ["", "007", "-1", "+1", " 1", "1 ", "1.5", "9223372036854775808", "1e3", "10000000000000000000"] {
            assert_eq!(read_counter(bytes.as_bytes()), None, "{bytes}");
        }
        assert_eq!(read_counter(b"9223372036854775807"), Some(9_223_372_036_854_775_807));
        let bad = [
            "", "-0", "-0+1/3", "--1", "7+", "7+1", "7+1/", "7+/3", "7+3/3", "7+1/0", "7+01/3", "1/3", "7+1/3+1",
            "7 +1/3",
        ];
        for bytes in bad.into_iter().chain(["10000000000000000", "1+1/315360000000001"]) {
            assert_eq!(read_amount(bytes.as_bytes(), true), None, "{bytes}");
        }
        assert_eq!(read_amount(b"-1", false), None, "a level is never negative");
        for bytes in ["1767225600", "1767225600000", "0767225600000000", "17672256000000000"] {
            assert_eq!(read_micros(bytes.as_bytes()), None, "{bytes}");
        }
    }

    #[test]
    fn a_tat_has_nineteen_digits_and_is_no_shut_counter() {
        assert_eq!(read_tat(b"1767225600000000000"), Some(1_767_225_600_000_000_000));
        assert_eq!(read_tat(b"9223372036854775807"), Some(i64::MAX));
        for bytes in ["", "5", "1767225600000000", "1000000000000000000", "9223372036854775808", "-1767225600000000000"]
        {
            assert_eq!(read_tat(bytes.as_bytes()), None, "{bytes}");
        }
    }

    #[test]
    fn members_tell_logs_and_leases_apart() {
        let long = [b'x'; LONGEST_ID + 1];
        assert!(is_log_member(b"1767225600000000") && is_log_member(b"i000:a") && is_log_member(b"i249:i000:a"));
        assert!(
            !is_log_member(b"i000:") && !is_log_member(b"i0a0:x") && !is_log_member(b"l:a") && !is_log_member(b"ann")
        );
        assert!(!is_log_member(&[b"i000:".as_slice(), &long].concat()));
        assert!(is_lease_member(b"l:1767225600000000") && !is_lease_member(b"l:") && !is_lease_member(b"worker-1"));
        assert_eq!(id_member(42, b"a b").as_bytes(), b"i042:a b");
        assert_eq!(
            (unit_of(b"i042:a b", b"a b"), unit_of(b"i042:a b", b"a"), unit_of(b"l:a", b"a")),
            (Some(42), None, None)
        );
        assert_eq!(lease_member(b"a").as_bytes(), b"l:a");
    }

    proptest! {
        #[test]
        fn decode_of_encode_is_the_record_itself(
            whole in -LARGEST_WHOLE..=LARGEST_WHOLE, denominator in 1..=LARGEST_DENOMINATOR, part in 0.0..1.0_f64
        ) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "any numerator will do")]
            let numerator = ((denominator as f64 * part) as i64).min(denominator - 1);
            // Minus zero and a fraction does not occur: the whole part is rounded down.
            let record = Amount { whole, numerator, denominator };
            let read = read_amount(amount(record).as_bytes(), true).unwrap();
            prop_assert_eq!((read.whole, read.numerator), (whole, numerator));
            prop_assert!(numerator == 0 || read.denominator == denominator);
        }

        #[test]
        fn any_bytes_give_an_error_or_a_record_within_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
            if let Some(read) = read_amount(&bytes, true) {
                prop_assert!(read.whole.abs() <= LARGEST_WHOLE);
                prop_assert!(0 <= read.numerator && read.numerator < read.denominator);
                prop_assert!(read.denominator <= LARGEST_DENOMINATOR);
            }
            if let Some(at) = read_micros(&bytes) {
                prop_assert!(at >= Micros::EARLIEST && at <= Micros::LATEST);
            }
        }

        #[test]
        fn bytes_that_look_like_records_are_read_as_strictly(bytes in "[-+/0-9]{1,40}") {
            if let Some(read) = read_amount(bytes.as_bytes(), true) {
                let written = amount(read);
                let same = written.as_bytes() == bytes.as_bytes() || read.numerator == 0;
                prop_assert!(same, "{} was read but would be written otherwise", bytes);
            }
            if let Some(counter) = read_counter(bytes.as_bytes()) {
                let written = number(counter);
                prop_assert_eq!(written.as_bytes(), bytes.as_bytes());
            }
        }

        #[test]
        fn numbers_are_written_like_everywhere_else_and_read_again(value in any::<i64>(), digits in 0..63_u32) {
            for value in [value, value >> digits] {
                let text = signed(value);
                let expected = value.to_string();
                prop_assert_eq!(text.as_bytes(), expected.as_bytes());
                prop_assert_eq!(read_counter(text.as_bytes()), u64::try_from(value).ok());
            }
        }

        #[test]
        fn one_byte_that_is_no_digit_spoils_a_number(value in 0..=i64::MAX, at in 0..19_usize, byte in any::<u8>()) {
            let mut text = value.to_string().into_bytes();
            let at = at % text.len();
            text[at] = byte;
            let digits = text.iter().all(u8::is_ascii_digit) && (text[0] != b'0' || text.len() == 1);
            let expected = std::str::from_utf8(&text).ok().filter(|_| digits).and_then(|text| text.parse::<i64>().ok());
            prop_assert_eq!(read_counter(&text), expected.and_then(|value| u64::try_from(value).ok()));
        }
    }
}
