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
    transport: Transport,
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
    /// How long it counts, in whole seconds.
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
        let words = [to.to_string(), PORT.to_string(), seconds.to_string(), warmup.to_string(), flows.to_string()];
        let mut args = vec!["-J", "-c", &words[0], "-p", &words[1], "-t", &words[2], "-O", &words[3], "-P", &words[4]];
        let rate;
        if let Transport::Udp(bits) = transport {
            // Its rate is that of each flow.
            rate = (bits / u64::from(flows)).max(1).to_string();
            // What its report says of losses on its own has those of the warm-up in it (3.12).
            args.extend(["-u", "-b", &rate, "--get-server-output"]);
        }
        if back {
            args.push("-R");
        }
        let due = Instant::now() + Duration::from_secs(seconds + warmup) + PATIENCE;
        Ok(Client { running: Companion::start(netns, PROGRAM, &args)?, transport, due })
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
            _ => parse(&printed, self.transport),
        }
    }
}

/// Its report, as far as we need it.
#[derive(Deserialize)]
struct Report {
    error: Option<String>,
    #[serde(default)]
    intervals: Vec<Interval>,
    #[serde(default)]
    end: End,
    /// Of the other end.
    server_output_json: Option<Box<Report>>,
}

#[derive(Deserialize)]
struct Interval {
    sum: Count,
}

/// What was counted in an interval; only a receiver knows what was lost.
#[derive(Deserialize)]
struct Count {
    /// Whether it belongs to the warm-up.
    #[serde(default)]
    omitted: bool,
    packets: Option<u64>,
    lost_packets: Option<i64>,
}

impl Report {
    /// Datagrams of the measured part, those that were lost among them, and how many those are; as its receiver counted them.
    fn datagrams(&self) -> Option<(u64, u64)> {
        let counted = |report: &Report| {
            let measured = report.intervals.iter().map(|interval| &interval.sum).filter(|sum| !sum.omitted);
            let known: Option<Vec<(u64, i64)>> = measured.map(|sum| Some((sum.packets?, sum.lost_packets?))).collect();
            let known = known.filter(|known| !known.is_empty())?;
            let all = known.iter().fold((0_u64, 0_i64), |(packets, lost), one| {
                (packets.saturating_add(one.0), lost.saturating_add(one.1))
            });
            // One that comes late is counted as less than none.
            Some((all.0, all.1.max(0) as u64))
        };
        counted(self).or_else(|| counted(self.server_output_json.as_deref()?))
    }
}

#[derive(Default, Deserialize)]
struct End {
    #[serde(default)]
    streams: Vec<Stream>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
}

#[derive(Deserialize)]
struct Stream {
    sender: Option<Sender>,
}

#[derive(Deserialize)]
struct Sender {
    mean_rtt: Option<f64>,
}

#[derive(Deserialize)]
struct Sum {
    /// `null` where nothing was counted: it divided by a time of 0.
    bits_per_second: Option<f64>,
    retransmits: Option<u64>,
}

fn parse(printed: &str, transport: Transport) -> Result<Loaded, LoadError> {
    let unreadable = |why: String| LoadError::Unreadable { program: PROGRAM, why };
    if printed.trim().is_empty() {
        return Err(LoadError::Said { program: PROGRAM, why: "it ended without a report".into() });
    }
    let report: Report = serde_json::from_str(printed).map_err(|e| unreadable(e.to_string()))?;
    if let Some(why) = report.error {
        return Err(LoadError::Said { program: PROGRAM, why });
    }
    let datagrams = report.datagrams();
    let End { streams, sum_sent, sum_received } = report.end;
    // The plain sum of UDP is what was sent.
    let rate = sum_received.and_then(|sum| sum.bits_per_second);
    let bits_per_second = rate
        .ok_or_else(|| unreadable("it has no sum of what was received: use iperf3 3.7 or newer at both ends".into()))?;
    Ok(match transport {
        Transport::Tcp => {
            let rtts: Vec<f64> = streams.iter().filter_map(|stream| stream.sender.as_ref()?.mean_rtt).collect();
            // Where the server sends, only it knows.
            let known = rtts.iter().sum::<f64>() > 0.0;
            Loaded {
                bits_per_second,
                retransmits: sum_sent.and_then(|sum| sum.retransmits),
                rtt_us: known.then(|| rtts.iter().sum::<f64>() / rtts.len() as f64),
                ..Loaded::default()
            }
        }
        Transport::Udp(asked) => {
            let (datagrams, lost) = datagrams.ok_or_else(|| unreadable("nobody tells what was lost".into()))?;
            let sent = sum_sent.and_then(|sum| sum.bits_per_second).unwrap_or(0.0);
            Loaded {
                bits_per_second,
                datagrams: Some(datagrams),
                lost: Some(lost),
                short_of_bits_per_second: Some(asked as f64).filter(|asked| sent < OFFERED * asked),
                ..Loaded::default()
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TCP: &str = r#"{"start": {}, "intervals": [], "end": {
        "streams": [{"sender": {"mean_rtt": 50, "retransmits": 3}, "receiver": {}}, {"sender": {"mean_rtt": 70}, "receiver": {}}],
        "sum_sent": {"bits_per_second": 100.0, "retransmits": 19}, "sum_received": {"bits_per_second": 90.0}}}"#;
    /// The client's own sum counts losses of the warm-up.
    const UDP: &str = r#"{"intervals": [{"sum": {"omitted": true, "packets": 30}}, {"sum": {"omitted": false, "packets": 40}}],
        "end": {"streams": [{"udp": {}}], "sum_sent": {"bits_per_second": 500.0, "packets": 40, "lost_packets": 0},
        "sum_received": {"bits_per_second": 450.0, "packets": 40, "lost_packets": 34}},
        "server_output_json": {"intervals": [{"sum": {"omitted": true, "packets": 30, "lost_packets": 30}},
        {"sum": {"omitted": false, "packets": 22, "lost_packets": 5}}, {"sum": {"omitted": false, "packets": 19, "lost_packets": -1}}]}}"#;

    #[test]
    fn reports_are_read() {
        let tcp = parse(TCP, Transport::Tcp).unwrap();
        let expected = Loaded { bits_per_second: 90.0, retransmits: Some(19), rtt_us: Some(60.0), ..Loaded::default() };
        assert_eq!(tcp, expected);
        let udp = parse(UDP, Transport::Udp(500)).unwrap();
        assert_eq!((udp.bits_per_second, udp.datagrams, udp.lost), (450.0, Some(41), Some(4)));
        assert_eq!(udp.short_of_bits_per_second, None);
        assert_eq!(parse(UDP, Transport::Udp(600)).unwrap().short_of_bits_per_second, Some(600.0));
        let unknown = parse(&UDP.replace("lost_packets", "gone"), Transport::Udp(500)).unwrap_err().to_string();
        assert!(unknown.contains("nobody tells"), "{unknown}");
    }

    #[test]
    fn what_went_wrong_is_said() {
        let refused = |text: &str| parse(text, Transport::Tcp).unwrap_err().to_string();
        assert_eq!(refused(r#"{"end": {}, "error": "unable to connect"}"#), "iperf3: unable to connect");
        let early = r#"{"end": {"sum": {"bits_per_second": null}}, "error": "the server has terminated"}"#;
        assert_eq!(refused(early), "iperf3: the server has terminated");
        assert!(refused(r#"{"end": {"sum": {"bits_per_second": null}}}"#).contains("no sum"));
        assert!(refused("").contains("without a report"));
        assert!(refused("{").contains("can't be read"));
        assert!(refused(r#"{"end": {}}"#).contains("no sum"));
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
        fn any_text_is_survived(text in ".*", words in "(\\{|\\}|\"end\"|:|\"sum\"|,|[0-9])*") {
            let _ = (parse(&text, Transport::Tcp), parse(&words, Transport::Udp(1)));
        }
    }
}
