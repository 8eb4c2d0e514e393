//! Echoes by `ping`, as paper 004 has them (§2.1: one every 200 ms beside the load).

use crate::LoadError;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use usect_core::matrix::Pinged;
use usect_lab::companion::Companion;

const PROGRAM: &str = "ping";
/// How much longer than its echoes take it may go on: it waits a second for the last answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// A running ping.
pub struct Ping {
    companion: Companion,
    due: Instant,
}

impl Ping {
    /// Starts to ask a host, so often and so many times.
    ///
    /// Errors: the namespace or the program isn't there.
    pub fn start(netns: Option<&str>, to: Ipv4Addr, every: Duration, times: u64) -> Result<Ping, LoadError> {
        let due = Instant::now() + every.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX)) + PATIENCE;
        let (every, times) = (format!("{:.3}", every.as_secs_f64()), times.max(1).to_string());
        let args = ["-n", "-W", "1", "-i", &every, "-c", &times, &to.to_string()];
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
    fn nobody_on_the_way_is_said_in_its_own_words() {
        if !usect_testing::root() {
            return;
        }
        let asked = Ping::start(None, Ipv4Addr::new(127, 0, 0, 1), Duration::from_millis(10), 3);
        match asked {
            Ok(ping) => assert_eq!(ping.end().unwrap().sent, 3),
            Err(error) => return usect_testing::skip(&error.to_string()),
        }
        // It wants to be asked twice before it asks everybody.
        let error = Ping::start(None, Ipv4Addr::BROADCAST, Duration::from_millis(10), 1).unwrap().end().unwrap_err();
        assert!(error.to_string().starts_with("ping: ") && matches!(error, LoadError::Said { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(icmp_seq=|time=|[0-9.]{1,4}| ms|\n| packets transmitted,|.)*") {
            let _ = parse(&text);
        }
    }
}
