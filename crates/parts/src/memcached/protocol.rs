//! The text protocol of memcached, as far as `get` and `set` go (its doc/protocol.txt).

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Write};

/// A line that is longer is none of memcached's.
const LONGEST_LINE: usize = 1 << 12;
/// The largest value that is believed: memcached's own limit is 1 MiB unless it is told otherwise.
const LARGEST_VALUE: usize = 1 << 27;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The value of a key.
    Get,
    /// That a key has a value.
    Set,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Get => "get",
            Kind::Set => "set",
        })
    }
}

impl Kind {
    /// Writes a request.
    pub(super) fn write(self, key: u64, (value, expires_s): (&[u8], u64), out: &mut VecDeque<u8>) {
        // Writing to memory can't fail.
        let _ = match self {
            Kind::Get => write!(out, "get usect{key}\r\n"),
            Kind::Set => write!(out, "set usect{key} 0 {expires_s} {}\r\n", value.len())
                .and_then(|()| out.write_all(value))
                .and_then(|()| out.write_all(b"\r\n")),
        };
    }
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The value is there, or is kept.
    Done,
    /// It isn't, or there was an error.
    Refused,
}

/// Answers as they come in, in pieces.
#[derive(Debug, Default)]
pub(super) struct Answers {
    bytes: Vec<u8>,
    /// Where the next one begins.
    at: usize,
}

impl Answers {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.at));
        self.bytes.extend_from_slice(bytes);
    }

    /// The next answer to a request of a kind, if it is all there.
    ///
    /// Errors: it isn't one of memcached's.
    pub(super) fn next(&mut self, kind: Kind) -> io::Result<Option<Answer>> {
        let rest = &self.bytes[self.at..];
        let Some(line) = line(rest)? else { return Ok(None) };
        let (answer, length) = match (kind, line) {
            (Kind::Set, b"STORED") => (Answer::Done, line.len() + 2),
            (Kind::Get, line) if line.starts_with(b"VALUE ") => {
                // The line, the value, and `END` on a line of its own.
                let value = line.len() + 2 + value_length(line)?;
                let end = value + b"\r\nEND\r\n".len();
                if rest.len() < end {
                    return Ok(None);
                }
                if &rest[value..end] != b"\r\nEND\r\n" {
                    return Err(ErrorKind::InvalidData.into());
                }
                (Answer::Done, end)
            }
            (Kind::Get, b"END") | (Kind::Set, b"NOT_STORED") | (_, b"ERROR") => (Answer::Refused, line.len() + 2),
            (_, line) if line.starts_with(b"SERVER_ERROR") || line.starts_with(b"CLIENT_ERROR") => {
                (Answer::Refused, line.len() + 2)
            }
            _ => return Err(ErrorKind::InvalidData.into()),
        };
        self.at += length;
        Ok(Some(answer))
    }
}

/// The first line, without its end, if it is all there.
fn line(bytes: &[u8]) -> io::Result<Option<&[u8]>> {
    match bytes.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n') {
        Some(end) if end > 0 && bytes[end - 1] == b'\r' => Ok(Some(&bytes[..end - 1])),
        None if bytes.len() < LONGEST_LINE => Ok(None),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// The last word of `VALUE KEY FLAGS BYTES`.
fn value_length(line: &[u8]) -> io::Result<usize> {
    let last = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let length = std::str::from_utf8(last).ok().and_then(|text| text.parse().ok());
    length.filter(|length| *length <= LARGEST_VALUE).ok_or(ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(kind: Kind, pieces: &[&[u8]]) -> io::Result<Vec<Answer>> {
        let (mut answers, mut found) = (Answers::default(), Vec::new());
        for piece in pieces {
            answers.push(piece);
            while let Some(answer) = answers.next(kind)? {
                found.push(answer);
            }
        }
        Ok(found)
    }

    const FOUND: &[u8] = b"VALUE usect1 0 5\r\na\r\nbc\r\nEND\r\n";

    #[test]
    fn requests_as_the_protocol_has_them() {
        let mut out = VecDeque::new();
        Kind::Get.write(7, (b"", 0), &mut out);
        Kind::Set.write(7, (b"ab", 60), &mut out);
        assert_eq!(out.make_contiguous(), b"get usect7\r\nset usect7 0 60 2\r\nab\r\n");
    }

    #[test]
    fn answers_are_told_apart() {
        let text = [FOUND, b"END\r\n", b"SERVER_ERROR out of memory\r\n", FOUND].concat();
        use Answer::{Done, Refused};
        assert_eq!(all(Kind::Get, &[&text]).unwrap(), [Done, Refused, Refused, Done]);
        assert_eq!(all(Kind::Set, &[b"STORED\r\nNOT_STORED\r\nERROR\r\n"]).unwrap(), [Done, Refused, Refused]);
        for garbage in [&b"HTTP/1.1 400\r\n"[..], b"VALUE a 0 x\r\n", b"VALUE a 0 1\r\nabcdefghi", b"STORED\r\n", b"\n"]
        {
            assert!(all(Kind::Get, &[garbage]).is_err(), "{garbage:?}");
        }
        assert!(all(Kind::Get, &[&[b'a'; LONGEST_LINE]]).is_err());
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(cuts in proptest::collection::vec(1..12_usize, 1..40)) {
            let text = [FOUND, b"END\r\n", FOUND, FOUND].concat();
            let (mut rest, mut pieces) = (&text[..], Vec::new());
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            prop_assert_eq!(all(Kind::Get, &pieces).unwrap(), all(Kind::Get, &[&text]).unwrap());
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), set in any::<bool>()) {
            let kind = if set { Kind::Set } else { Kind::Get };
            let _ = all(kind, &[&bytes]);
            let _ = all(kind, &[b"VALUE a 0 ", &bytes]);
        }
    }
}
