//! The words of RL.ACQUIRE, RL.RENEW and RL.RELEASE.

use super::error::{Fault, quoted};
use super::grammar::{self, HOLDERS, MOST_IDS};
use crate::engine::lease::Acquire;
use crate::engine::time::Span;

/// Reads `limit lease [ID id]`.
///
/// # Errors
/// The first word that is at fault.
pub fn acquire<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Result<(Acquire, Option<&'a [u8]>), Fault> {
    let limit = HOLDERS.read(words.next())?;
    let lease = grammar::duration("lease", words.next())?;
    let id = match words.next() {
        None => None,
        Some(word) if word.eq_ignore_ascii_case(b"ID") => Some(grammar::id("ID", words.next())?),
        Some(word) => return Err(unknown(word)),
    };
    match words.next() {
        None => Ok((Acquire { limit, lease }, id)),
        Some(word) if word.eq_ignore_ascii_case(b"ID") => Err(Fault::new("ID stands twice, once is enough")),
        Some(word) => Err(unknown(word)),
    }
}

fn unknown(word: &[u8]) -> Fault {
    Fault::new(&format!("{} is not an option of RL.ACQUIRE, accepted: ID", quoted(word)))
}

/// Reads `lease`, leaving the ids.
///
/// # Errors
/// A word that is no duration.
pub fn renewal<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Result<Span, Fault> {
    grammar::duration("lease", words.next())
}

/// Judges the ids of one call, before any of them is used.
///
/// # Errors
/// Too many ids, or the first that is none.
pub fn ids<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<(), Fault> {
    if words.len() > MOST_IDS {
        return Err(Fault::new(&format!("{} ids are more than {MOST_IDS}, the most in one call", words.len())));
    }
    for word in words {
        grammar::id("id", Some(word))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Acquire, Option<&[u8]>), String> {
        acquire(&mut text.split(' ').map(str::as_bytes)).map_err(|fault| fault.text().to_owned())
    }

    #[test]
    fn an_id_is_optional_and_may_look_like_anything() {
        assert_eq!(read("2 30s").unwrap().1, None);
        assert_eq!(read("2 30s id ID").unwrap().1, Some(b"ID".as_slice()));
        assert_eq!(read("2 30s NOW"), Err("ERR 'NOW' is not an option of RL.ACQUIRE, accepted: ID".to_owned()));
        assert_eq!(read("2 30s ID a ID b"), Err("ERR ID stands twice, once is enough".to_owned()));
        assert_eq!(read("100001 30s"), Err("ERR limit '100001' is not a whole number from 0 to 100000".to_owned()));
    }

    #[test]
    fn ids_are_counted_and_measured() {
        let many = vec![b"a".as_slice(); 251];
        assert_eq!(ids(many.into_iter()).unwrap_err().text(), "ERR 251 ids are more than 250, the most in one call");
        let empty = [b"a".as_slice(), b""];
        assert_eq!(ids(empty.into_iter()).unwrap_err().text(), "ERR id '' is not 1 to 128 bytes long");
    }
}
