//! Echoes by `ping`, as paper 004 has them (§2.1: one every 200 ms beside the load).

use crate::LoadError;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use usect_core::matrix::Pinged;
use usect_lab::companion::Companion;

const PROGRAM: &str = "ping";
/// How long it waits for an answer, in seconds, where none has come yet; where some have, twice as long as the slowest took.
const WAITS: &str = "5";
/// How much longer than its echoes take it may go on.
const PATIENCE: Duration = Duration::from_secs(6);

/// Of IPv4 and of ICMP.
const HEADERS: u16 = 20 + 8;

/// A running ping.
pub struct Ping {
    companion: Companion,
    due: Instant,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Echo {
    /// How often.
    pub every: Duration,
    /// How many times.
    pub times: u64,
    /// Bytes of the packet, which nobody may cut in pieces then; else as many as `ping` takes.
    pub packet: Option<u16>,
}

impl Echo {
    /// One.
    pub const ONE: Echo = Echo { every: Duration::from_millis(200), times: 1, packet: None };
}

impl Ping {
    /// Starts to ask a host.
    ///
    /// Errors: the namespace or the program isn't there.
    pub fn start(netns: Option<&str>, to: Ipv4Addr, echo: Echo) -> Result<Ping, LoadError> {
        let Echo { every, times, packet } = echo;
        let due = Instant::now() + every.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX)) + PATIENCE;
        let (every, times) = (format!("{:.3}", every.as_secs_f64()), times.max(1).to_string());
        let (to, size) = (to.to_string(), packet.map(|bytes| bytes.saturating_sub(HEADERS).to_string()));
        let mut args = vec!["-n", "-W", WAITS, "-i", &every, "-c", &times];
        args.extend(size.iter().flat_map(|size| ["-M", "do", "-s", size]));
        args.push(&to);
        Ok(Ping { companion: Companion::start(netns, PROGRAM, &args)?, due })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.companion.pid()
    }

    /// What it saw.
    ///
    /// Errors: it can't be read.
    pub fn end(self) -> Result<Pinged, LoadError> {
        let (printed, complaint) = self.companion.output(self.due);
        parse(&printed).ok_or_else(|| match complaint {
            Some(why) => LoadError::Said { program: PROGRAM, why },
            None => {
                LoadError::Unreadable { program: PROGRAM, why: printed.lines().last().unwrap_or("nothing").to_owned() }
            }
        })
    }
}

/// Reads what it printed: a line for each answer, and a sum.
fn parse(printed: &str) -> Option<Pinged> {
    let sum = printed.lines().find_map(|line| line.split_once(" packets transmitted,"))?;
    let sent = sum.0.trim().parse().ok()?;
    // A copy of an answer, marked (DUP!), is not one more.
    let answers = printed.lines().filter(|line| line.contains("icmp_seq=") && !line.contains("DUP"));
    let rtt = |line: &str| {
        let ms: f64 = line.split_once("time=")?.1.split(' ').next()?.parse().ok()?;
        (0.0..1e7).contains(&ms).then_some((ms * 1e6).round() as u64)
    };
    let rtts_ns: Vec<u64> = answers.filter_map(rtt).collect();
    (rtts_ns.len() as u64 <= sent).then_some(Pinged { sent, rtts_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRINTED: &str = "PING 198.18.0.2 (198.18.0.2) 56(84) bytes of data.\n\
        64 bytes from 198.18.0.2: icmp_seq=1 ttl=64 time=0.037 ms\n\
        64 bytes from 198.18.0.2: icmp_seq=2 ttl=64 time=12 ms\n\
        64 bytes from 198.18.0.2: icmp_seq=2 ttl=64 time=13 ms (DUP!)\n\
        \n--- 198.18.0.2 ping statistics ---\n\
        3 packets transmitted, 2 received, +1 duplicates, 33.3333% packet loss, time 407ms\n\
        rtt min/avg/max/mdev = 0.037/0.042/0.051/0.006 ms\n";

    #[test]
    fn answers_are_read() {
        let found = parse(PRINTED).unwrap();
        assert_eq!(found, Pinged { sent: 3, rtts_ns: vec![37_000, 12_000_000] });
        assert_eq!(parse("PING 198.18.0.2\n"), None);
        assert_eq!(parse(&PRINTED.replace("3 packets", "1 packets")), None, "more answers than questions");
    }

    #[test]
    fn one_that_is_interrupted_tells_what_it_saw() {
        if !usect_testing::root() {
            return;
        }
        let asked =
            Ping::start(None, Ipv4Addr::LOCALHOST, Echo { every: Duration::from_secs(600), times: 2, packet: None });
        let mut ping = match asked {
            Ok(ping) => ping,
            Err(error) => return usect_testing::skip(&error.to_string()),
        };
        ping.due = Instant::now() + Duration::from_secs(1);
        let pinged = ping.end().unwrap();
        assert_eq!((pinged.sent, pinged.rtts_ns.len()), (1, 1));
    }

    #[test]
    fn nobody_on_the_way_is_said_in_its_own_words() {
        if !usect_testing::root() {
            return;
        }
        let thrice = Echo { every: Duration::from_millis(10), times: 3, packet: Some(1500) };
        let asked = Ping::start(None, Ipv4Addr::LOCALHOST, thrice);
        match asked {
            Ok(ping) => assert_eq!(ping.end().unwrap().sent, 3),
            Err(error) => return usect_testing::skip(&error.to_string()),
        }
        // It wants to be asked twice before it asks everybody.
        let error = Ping::start(None, Ipv4Addr::BROADCAST, Echo::ONE).unwrap().end().unwrap_err();
        assert!(error.to_string().starts_with("ping: ") && matches!(error, LoadError::Said { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(icmp_seq=|time=|[0-9.]{1,4}| ms|\n| packets transmitted,|.)*") {
            let _ = parse(&text);
        }
    }
}
