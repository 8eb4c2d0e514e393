//! Experiment 6b: memcached.

use super::Bench;
use anyhow::{Context, Result, bail};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use usect_core::dissect::Row;
use usect_lab::companion::Companion;
use usect_lab::tune::run_on;
use usect_parts::memcached::{self, Account, Kind, Load, Served};

/// Bytes of a value.
const VALUE: usize = 32;
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn memcached(bench: &mut Bench) -> Result<Vec<Row>> {
    let (mut own, address) = match bench.args.memcached {
        Some(address) => (None, address),
        None => start(&bench.beside()).map(|(server, address)| (Some(server), address))?,
    };
    let rate = bench.args.memcached_rate;
    // Nothing of ours stays in a server of the user's.
    let expires_s = 6 * bench.lasts.as_secs() + 600;
    let load = Load { kind: Kind::Set, rate: None, value: VALUE, expires_s };
    memcached::fill(&bench.clock, address, load).with_context(|| format!("memcached at {address}"))?;
    let mut rows = Vec::new();
    for (kind, rate) in [(Kind::Get, None), (Kind::Set, None), (Kind::Get, Some(rate)), (Kind::Set, Some(rate))] {
        let load = Load { kind, rate, ..load };
        let (served, disturbed) =
            bench.watched(bench.core(), |observation| memcached::load(observation, address, load))?;
        let served = served.with_context(|| format!("memcached at {address}"))?;
        let row = row(bench, &load, &served).beside(disturbed);
        let ended = own.as_mut().and_then(Companion::ended);
        let gone = match ended {
            Some(status) => Some(format!("memcached ended in the middle ({status})")),
            None => (served.account.disconnected > 0).then(|| "the connection was lost in the middle".to_owned()),
        };
        let Some(why) = gone else {
            rows.push(row);
            continue;
        };
        rows.push(row.unavailable(why));
        break;
    }
    Ok(rows)
}

/// What came out of a load.
fn row(bench: &Bench, load: &Load, served: &Served) -> Row {
    // A server of the user's is none of what a request on this host is made up of.
    let (server, place) = match bench.args.memcached {
        None => ("memcached".to_owned(), format!("the loopback of this host, memcached on {}", cores(&bench.beside()))),
        Some(address) => (format!("memcached at {address}"), "the network".to_owned()),
    };
    let kind = load.kind;
    let (name, how) = match load.rate {
        None => (format!("{server}, {kind}, back to back"), "the next leaves when the last is answered"),
        Some(rate) => {
            (format!("{server}, {kind}, {:.0} a second", rate.frames_per_second()), "open loop: from when each was due")
        }
    };
    let how = format!("{how}; TCP over {place}, one connection, values of {VALUE} bytes, every request");
    let mut account = told(&served.account);
    if load.rate.is_some() && served.from_sent.samples() > 0 {
        // What is beyond it is the client's own lateness, or the server's that held it up.
        let longest = served.from_sent.max() as f64 / 1e3;
        account.push_str(&format!("; from when they were sent, the longest took {longest:.0} µs"));
    }
    let row = Row::of("6b", name, how).with_account(account);
    match (served.latency.samples(), load.rate) {
        (0, _) => row,
        (_, Some(_)) => row.measured(&served.latency, bench.seconds()),
        (_, None) => row.spent(&served.latency),
    }
}

/// Every request, in words.
fn told(account: &Account) -> String {
    let Account { due, answered, refused, lost, unsent, .. } = account;
    let rest = [(refused, "refused"), (lost, "never answered"), (unsent, "not sent")];
    let rest: String = rest.iter().filter(|(n, _)| **n > 0).map(|(n, what)| format!(", {n} {what}")).collect();
    format!("{due} requests due, {answered} answered{rest}")
}

/// Cores in words.
fn cores(cores: &[usize]) -> String {
    let numbers: Vec<String> = cores.iter().map(usize::to_string).collect();
    format!("core {}", numbers.join(", "))
}

/// Starts one on some cores and a port that nobody else has, which only this host reaches.
fn start(cores: &[usize]) -> Result<(Companion, SocketAddr)> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let port = address.port().to_string();
    let args = ["-l", "127.0.0.1", "-p", &port, "-U", "0", "-t", "1", "-m", "64", "-u", "nobody"];
    // What a thread starts runs where the thread does.
    let started = std::thread::scope(|scope| {
        let start = || run_on(cores).and_then(|()| Companion::start(None, "memcached", &args));
        scope.spawn(start).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let mut server = started?;
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        if let Some(status) = server.ended() {
            bail!("memcached ended at once ({status}): try `memcached {}`", args.join(" "));
        }
        if begun.elapsed() > PATIENCE {
            bail!("memcached does not listen on {address}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok((server, address))
}
