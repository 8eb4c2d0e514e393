//! A load by iperf3: flows from one end of a path to the other, and what its report says of them.

use crate::LoadError;
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use usect_core::matrix::{Loaded, Transport};
use usect_lab::companion::Companion;
use usect_lab::within;

const PROGRAM: &str = "iperf3";
/// Where it listens; no other program of a lab does.
pub const PORT: u16 = 5201;
/// How long a server may take to listen.
const LISTENS: Duration = Duration::from_secs(5);
/// The share of a rate that a sender has to come to.
const OFFERED: f64 = 0.95;
/// How much longer than it was told a client may go on.
const PATIENCE: Duration = Duration::from_secs(10);

/// The end that is asked.
pub struct Server(Companion);

impl Server {
    /// Starts one, and waits until it listens.
    ///
    /// Errors: the program isn't there, or doesn't listen.
    pub fn start(netns: Option<&str>, address: Ipv4Addr) -> Result<Server, LoadError> {
        let said = |why: String| LoadError::Said { program: PROGRAM, why };
        if listens(netns, address)? {
            return Err(said(format!("somebody else listens on {address}:{PORT}, or on that port everywhere")));
        }
        // What it counts, its client asks it for.
        let args = ["-s", "-J", "-B", &address.to_string(), "-p", &PORT.to_string()];
        let mut running = Companion::start(netns, PROGRAM, &args)?;
        let begun = Instant::now();
        while running.ended().is_none() && begun.elapsed() < LISTENS {
            if listens(netns, address)? {
                return Ok(Server(running));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let (printed, complaint) = running.output(Instant::now());
        let report: Option<Report> = serde_json::from_str(&printed).ok();
        let complaint = report.and_then(|report| report.error).or(complaint);
        Err(said(complaint.unwrap_or_else(|| format!("no server listens on {address}:{PORT}"))))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }
}

/// Whether a TCP socket listens there, without connecting to it: it would take that for a client.
fn listens(netns: Option<&str>, address: Ipv4Addr) -> Result<bool, LoadError> {
    let sockets = within(netns, || std::fs::read_to_string("/proc/thread-self/net/tcp"))?.unwrap_or_default();
    // An address is a number in the host's order, in hexadecimal; 0A is LISTEN.
    let wanted = format!("{:08X}:{PORT:04X}", u32::from_ne_bytes(address.octets()));
    let anywhere = format!("{:08X}:{PORT:04X}", 0);
    Ok(sockets.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|at| [&wanted[..], &anywhere].contains(&at)) && fields.nth(1) == Some("0A")
    }))
}

/// A load that goes on for some time.
pub struct Client {
    running: Companion,
    asked: Asked,
    due: Instant,
}

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Where the server is.
    pub to: Ipv4Addr,
    /// How.
    pub transport: Transport,
    /// How many flows.
    pub flows: u8,
    /// Whether the server sends.
    pub back: bool,
    /// How long it counts, in whole seconds. It goes on for one more, so that it outlasts what is measured beside it.
    pub seconds: u64,
    /// How long it goes on before that, in whole seconds; 60 at the most.
    pub warmup: u64,
}

impl Client {
    /// Starts to send, or to receive.
    ///
    /// Errors: the program isn't there.
    pub fn start(netns: Option<&str>, asked: Asked) -> Result<Client, LoadError> {
        let Asked { to, transport, flows, back, seconds, warmup } = asked;
        let lasts = seconds + 1;
        let words = [to.to_string(), PORT.to_string(), lasts.to_string(), warmup.to_string(), flows.to_string()];
        let mut args = vec!["-J", "-c", &words[0], "-p", &words[1], "-t", &words[2], "-O", &words[3], "-P", &words[4]];
        // What the receiver got, and what the sender had to send again, only they know.
        args.push("--get-server-output");
        let rate;
        if let Transport::Udp(bits) = transport {
            // Its rate is that of each flow.
            rate = (bits / u64::from(flows)).max(1).to_string();
            args.extend(["-u", "-b", &rate]);
        }
        if back {
            args.push("-R");
        }
        let due = Instant::now() + Duration::from_secs(lasts + warmup) + PATIENCE;
        Ok(Client { running: Companion::start(netns, PROGRAM, &args)?, asked, due })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Whether it has ended already.
    pub fn has_ended(&mut self) -> bool {
        self.running.ended().is_some()
    }

    /// Waits for its report.
    ///
    /// Errors: it says that it failed, or what it printed can't be read.
    pub fn end(self) -> Result<Loaded, LoadError> {
        let (printed, complaint) = self.running.output(self.due);
        match complaint {
            Some(why) if printed.trim().is_empty() => Err(LoadError::Said { program: PROGRAM, why }),
            _ => parse(&printed, self.asked),
        }
    }
}

/// Its report, as far as we need it: what each second saw. Its sums hold more than was measured: of the round-trip times and the losses
/// (3.12) those of the warm-up, and of all figures those of the second that outlasts it.
#[derive(Deserialize)]
struct Report {
    error: Option<String>,
    #[serde(default)]
    intervals: Vec<Interval>,
    /// Of the other end.
    server_output_json: Option<Box<Report>>,
}

#[derive(Deserialize)]
struct Interval {
    sum: Count,
    #[serde(default)]
    streams: Vec<Stream>,
}

/// What was counted in an interval: what was sent again only a sender knows, what was lost only a receiver.
#[derive(Deserialize)]
struct Count {
    /// Whether it belongs to the warm-up.
    #[serde(default)]
    omitted: bool,
    /// Whether it is of the end that sends.
    sender: bool,
    seconds: f64,
    bytes: u64,
    retransmits: Option<u64>,
    packets: Option<u64>,
    lost_packets: Option<i64>,
}

#[derive(Deserialize)]
struct Stream {
    /// In microseconds.
    rtt: Option<f64>,
}

impl Report {
    /// The seconds that were measured, as the end that sends saw them, or the one that receives.
    fn measured(&self, sender: bool, seconds: u64) -> Option<Vec<&Interval>> {
        let of = |report: &'_ Report| report.intervals.iter().any(|interval| interval.sum.sender == sender);
        let report = Some(self).into_iter().chain(self.server_output_json.as_deref()).find(|report| of(report))?;
        // One that didn't get a core for a while has told less often, of a longer time; half a second more or less is its own.
        let (whole, mut told) = (seconds as f64 - 0.5, 0.0);
        let mut measured = Vec::new();
        for interval in report.intervals.iter().filter(|interval| !interval.sum.omitted) {
            if told >= whole {
                break;
            }
            told += interval.sum.seconds;
            measured.push(interval);
        }
        (told >= whole).then_some(measured)
    }
}

/// What came to each second, summed up, where each of them knows.
fn sum(seconds: &[&Interval], of: fn(&Count) -> Option<i64>) -> Option<u64> {
    let all = seconds.iter().try_fold(0_i64, |sum, second| Some(sum.saturating_add(of(&second.sum)?)))?;
    // Of losses, one that comes late after all is counted as less than none.
    Some(all.max(0) as u64)
}

fn bits_per_second(seconds: &[&Interval]) -> f64 {
    let (bytes, time) = seconds
        .iter()
        .fold((0.0, 0.0), |(bytes, time), Interval { sum, .. }| (bytes + sum.bytes as f64, time + sum.seconds));
    if time > 0.0 { 8.0 * bytes / time } else { 0.0 }
}

/// The mean over flows and seconds, in microseconds.
fn rtt(seconds: &[&Interval]) -> Option<f64> {
    let rtts = || seconds.iter().flat_map(|second| &second.streams).filter_map(|stream| stream.rtt);
    let count = rtts().count();
    (count > 0).then(|| rtts().sum::<f64>() / count as f64)
}

fn parse(printed: &str, asked: Asked) -> Result<Loaded, LoadError> {
    let unreadable = |why: String| LoadError::Unreadable { program: PROGRAM, why };
    if printed.trim().is_empty() {
        return Err(LoadError::Said { program: PROGRAM, why: "it ended without a report".into() });
    }
    let report: Report = serde_json::from_str(printed).map_err(|e| unreadable(e.to_string()))?;
    if let Some(why) = report.error {
        return Err(LoadError::Said { program: PROGRAM, why });
    }
    let lacking = |end: &str| {
        unreadable(format!("it doesn't tell of {} s at the {end}: use iperf3 3.7 or newer at both ends", asked.seconds))
    };
    let sent = report.measured(true, asked.seconds).ok_or_else(|| lacking("sender"))?;
    let received = report.measured(false, asked.seconds).ok_or_else(|| lacking("receiver"))?;
    let loaded = Loaded { bits_per_second: bits_per_second(&received), ..Loaded::default() };
    Ok(match asked.transport {
        Transport::Tcp => Loaded {
            retransmits: sum(&sent, |second| second.retransmits?.try_into().ok()),
            rtt_us: rtt(&sent),
            ..loaded
        },
        Transport::Udp(rate) => {
            let lost = |of| sum(&received, of).ok_or_else(|| unreadable("nobody tells what was lost".into()));
            let offered = bits_per_second(&sent);
            Loaded {
                datagrams: Some(lost(|second| second.packets?.try_into().ok())?),
                lost: Some(lost(|second| second.lost_packets)?),
                short_of_bits_per_second: Some(rate as f64).filter(|rate| offered < OFFERED * rate),
                ..loaded
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(transport: Transport) -> Asked {
        Asked { to: Ipv4Addr::LOCALHOST, transport, flows: 1, back: false, seconds: 2, warmup: 1 }
    }

    /// A second of a warm-up, two that are measured, one more.
    const TCP: &str = r#"{"start": {}, "intervals": [
        {"sum": {"omitted": true, "sender": true, "seconds": 1, "bytes": 900, "retransmits": 90}, "streams": [{"rtt": 9000}]},
        {"sum": {"omitted": false, "sender": true, "seconds": 1, "bytes": 11, "retransmits": 3}, "streams": [{"rtt": 50}, {"rtt": 70}]},
        {"sum": {"omitted": false, "sender": true, "seconds": 1, "bytes": 11, "retransmits": 4}, "streams": [{"rtt": 50}, {"rtt": 90}]},
        {"sum": {"omitted": false, "sender": true, "seconds": 1, "bytes": 700, "retransmits": 70}, "streams": [{"rtt": 7000}]}],
        "server_output_json": {"intervals": [
        {"sum": {"omitted": true, "sender": false, "seconds": 1, "bytes": 900}}, {"sum": {"omitted": false, "sender": false, "seconds": 2.0, "bytes": 20}}, {"sum": {"omitted": false, "sender": false, "seconds": 1, "bytes": 99}}]}}"#;
    const UDP: &str = r#"{"intervals": [{"sum": {"omitted": false, "sender": true, "seconds": 1, "bytes": 60, "packets": 40}},
        {"sum": {"omitted": false, "sender": true, "seconds": 1, "bytes": 65, "packets": 40}}],
        "server_output_json": {"intervals": [{"sum": {"omitted": true, "sender": false, "seconds": 1, "bytes": 9, "packets": 30, "lost_packets": 30}},
        {"sum": {"omitted": false, "sender": false, "seconds": 1, "bytes": 60, "packets": 22, "lost_packets": 5}},
        {"sum": {"omitted": false, "sender": false, "seconds": 1, "bytes": 60, "packets": 19, "lost_packets": -1}}]}}"#;

    #[test]
    fn of_reports_the_measured_seconds_are_read() {
        let tcp = parse(TCP, asked(Transport::Tcp)).unwrap();
        let expected = Loaded { bits_per_second: 80.0, retransmits: Some(7), rtt_us: Some(65.0), ..Loaded::default() };
        assert_eq!(tcp, expected);
        // The other end may be the one that sends, and knows what a sender does.
        let back = TCP.replace("\"sender\": true", "\"sender\": 1").replace("\"sender\": false", "\"sender\": true");
        let back = parse(&back.replace("\"sender\": 1", "\"sender\": false"), asked(Transport::Tcp)).unwrap();
        assert_eq!((back.bits_per_second, back.retransmits, back.rtt_us), (88.0, None, None));
        let udp = parse(UDP, asked(Transport::Udp(500))).unwrap();
        assert_eq!((udp.bits_per_second, udp.datagrams, udp.lost), (480.0, Some(41), Some(4)));
        assert_eq!(udp.short_of_bits_per_second, None);
        assert_eq!(parse(UDP, asked(Transport::Udp(600))).unwrap().short_of_bits_per_second, Some(600.0));
        let refused = |text: &str| parse(text, asked(Transport::Udp(500))).unwrap_err().to_string();
        assert!(refused(&UDP.replace("lost_packets", "gone")).contains("nobody tells"));
        assert!(refused(&UDP.replace("server_output_json", "gone")).contains("2 s at the receiver"));
        let longer = Asked { seconds: 5, ..asked(Transport::Tcp) };
        assert!(parse(TCP, longer).unwrap_err().to_string().contains("5 s at the sender"));
    }

    #[test]
    fn what_went_wrong_is_said() {
        let refused = |text: &str| parse(text, asked(Transport::Tcp)).unwrap_err().to_string();
        assert_eq!(refused(r#"{"end": {}, "error": "unable to connect"}"#), "iperf3: unable to connect");
        let early = r#"{"end": {"sum": {"bits_per_second": null}}, "error": "the server has terminated"}"#;
        assert_eq!(refused(early), "iperf3: the server has terminated");
        assert!(refused("").contains("without a report"));
        assert!(refused("{").contains("can't be read"));
        assert!(refused(r#"{"end": {}}"#).contains("at the sender"));
    }

    #[test]
    fn it_loads_the_loopback_and_what_is_killed_says_so() {
        if !usect_testing::root() {
            return;
        }
        let address = Ipv4Addr::new(127, 0, 0, 53);
        let server = match Server::start(None, address) {
            Ok(server) => server,
            Err(LoadError::Lab(error)) => return usect_testing::skip(&error.to_string()),
            Err(error) => panic!("{error}"),
        };
        let error = Server::start(None, address).err().unwrap().to_string();
        assert!(error.contains("somebody else listens"), "{error}");
        let transport = Transport::Udp(1_000_000);
        let asked = Asked { to: address, transport, flows: 2, back: false, seconds: 1, warmup: 1 };
        let loaded = Client::start(None, asked).unwrap().end().unwrap();
        assert!(loaded.bits_per_second > 0.0 && loaded.datagrams.unwrap() > 0, "{loaded:?}");
        // As long as its patience, or longer: that begins when it is over.
        let client = Client::start(None, Asked { seconds: 600, warmup: 0, ..asked }).unwrap();
        let begun = Instant::now();
        while connections(address) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "it connects");
        }
        drop(server);
        let error = client.end().unwrap_err();
        assert!(matches!(&error, LoadError::Said { why, .. } if !why.contains("without a report")), "{error}");
    }

    /// Established connections to the server there.
    fn connections(address: Ipv4Addr) -> usize {
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let there = format!("{:08X}:{PORT:04X}", u32::from_ne_bytes(address.octets()));
        sockets.lines().filter(|line| line.split_whitespace().nth(1) == Some(&there) && line.contains(" 01 ")).count()
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*", words in "(\\{|\\}|\"intervals\"|:|\"sum\"|,|[0-9])*") {
            let _ = (parse(&text, asked(Transport::Tcp)), parse(&words, asked(Transport::Udp(1))));
        }
    }
}
