//! A load, as a file names it: `none`, `tcp`, `tcp 4`, `udp 500M`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most flows of a load.
const MOST_FLOWS: u8 = 64;

/// What loads the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Load {
    /// Nothing.
    None,
    /// Flows from one end to the other.
    Flows {
        /// How.
        transport: Transport,
        /// How many at once.
        flows: u8,
    },
}

/// How a flow goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// As fast as TCP takes it.
    Tcp,
    /// UDP at so many bits a second, of all flows together.
    Udp(u64),
}

/// Suffixes of rates, as iperf3 has them.
const SUFFIXES: [(char, u64); 3] = [('K', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load::Flows { transport, flows } = self else { return f.write_str("none") };
        match transport {
            Transport::Tcp => f.write_str("tcp")?,
            Transport::Udp(bits) => {
                let whole = SUFFIXES.iter().rev().find(|(_, factor)| bits.is_multiple_of(*factor));
                match whole {
                    Some((suffix, factor)) => write!(f, "udp {}{suffix}", bits / factor)?,
                    None => write!(f, "udp {bits}")?,
                }
            }
        }
        if *flows == 1 { Ok(()) } else { write!(f, " {flows}") }
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Load, String> {
        let flows = |word: Option<&str>| match word {
            None => Some(1),
            Some(word) => word.parse().ok().filter(|flows| (1..=MOST_FLOWS).contains(flows)),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let found = match words[..] {
            ["none"] => Some(Load::None),
            ["tcp"] | ["tcp", _] => {
                flows(words.get(1).copied()).map(|flows| Load::Flows { transport: Transport::Tcp, flows })
            }
            ["udp", rate] | ["udp", rate, _] => bits(rate)
                .zip(flows(words.get(2).copied()))
                .map(|(bits, flows)| Load::Flows { transport: Transport::Udp(bits), flows }),
            _ => None,
        };
        found.ok_or_else(|| {
            format!("there is no load {text:?}: use none, tcp, tcp with a number of flows up to {MOST_FLOWS}, or udp with bits a second such as 500M (a whole number, with K, M or G or without), and flows")
        })
    }
}

/// Bits a second, with a suffix or without.
fn bits(word: &str) -> Option<u64> {
    let suffix = SUFFIXES.iter().find_map(|(suffix, factor)| Some((word.strip_suffix(*suffix)?, *factor)));
    let (number, factor) = suffix.unwrap_or((word, 1));
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|bits| *bits > 0)
}

impl TryFrom<String> for Load {
    type Error = String;

    fn try_from(text: String) -> Result<Load, String> {
        text.parse()
    }
}

impl From<Load> for String {
    fn from(load: Load) -> String {
        load.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read() {
        for text in ["none", "tcp", "tcp 4", "udp 500M", "udp 1G 2", "udp 1500K", "udp 1234"] {
            assert_eq!(text.parse::<Load>().unwrap().to_string(), text);
        }
        for text in ["", "tcp 0", "tcp 65", "udp", "udp 0", "udp M", "udp 5T", "tcp 1 1", "udp 99999999999999999999G"] {
            assert!(text.parse::<Load>().unwrap_err().contains("no load"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bits in 1_u64..=u64::MAX, flows in 1_u8..=64) {
            let load = Load::Flows { transport: Transport::Udp(bits), flows };
            prop_assert_eq!(load.to_string().parse::<Load>(), Ok(load));
        }

        #[test]
        fn any_text_is_survived(text in ".*") {
            let _ = text.parse::<Load>();
        }
    }
}
