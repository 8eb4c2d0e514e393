//! Experiment 6b: memcached.

use super::Bench;
use anyhow::{Context, Result, bail};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use usect_core::dissect::Row;
use usect_core::rate::RateSpec;
use usect_lab::server::Server;
use usect_parts::memcached::{self, Account, Kind, Load};

/// Bytes of a value.
const VALUE: usize = 32;
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn memcached(bench: &mut Bench) -> Result<Vec<Row>> {
    let (mut own, address) = match bench.args.memcached {
        Some(address) => (None, address),
        None => start().map(|(server, address)| (Some(server), address))?,
    };
    let rate = bench.args.memcached_rate;
    if !matches!(rate, RateSpec::Frames(_)) {
        bail!("--memcached-rate is requests per second, such as 10k");
    }
    memcached::fill(&bench.clock, address, VALUE).with_context(|| format!("memcached at {address}"))?;
    let mut rows = Vec::new();
    for (kind, rate) in [(Kind::Get, None), (Kind::Set, None), (Kind::Get, Some(rate)), (Kind::Set, Some(rate))] {
        let load = Load { kind, rate: rate.map(|rate| rate.resolve(64)), value: VALUE };
        let served = bench.watched(bench.core(), |observation| memcached::load(observation, address, load))?;
        let served = served.with_context(|| format!("memcached at {address}"))?;
        let (name, how) = match rate {
            None => (format!("memcached, {kind}, back to back"), "the next leaves when the last is answered"),
            Some(rate) => (
                format!("memcached, {kind}, {:.0} a second", rate.resolve(64).frames_per_second()),
                "open loop: from when each was due",
            ),
        };
        let how = format!(
            "{how}; TCP over {}, one connection, values of {VALUE} bytes, every request",
            if own.is_some() { "the loopback of this host" } else { "the network" }
        );
        let row = Row::of("6b", name, how).with_account(told(&served.account));
        let row = if served.latency.samples() > 0 { row.measured(&served.latency, bench.seconds()) } else { row };
        let ended = own.as_mut().and_then(Server::ended);
        let gone = ended.map(|status| format!("memcached ended in the middle ({status})"));
        let gone = gone
            .or_else(|| (served.account.disconnected > 0).then(|| "the connection was lost in the middle".to_owned()));
        rows.push(match &gone {
            Some(why) => row.unavailable(why),
            None => row,
        });
        if gone.is_some() {
            break;
        }
    }
    Ok(rows)
}

/// Every request, in words.
fn told(account: &Account) -> String {
    let Account { due, answered, refused, lost, unsent, .. } = account;
    let rest = [(refused, "refused"), (lost, "never answered"), (unsent, "not sent")];
    let rest: String = rest.iter().filter(|(n, _)| **n > 0).map(|(n, what)| format!(", {n} {what}")).collect();
    format!("{due} requests due, {answered} answered{rest}")
}

/// Starts one on a port that nobody else has, which only this host reaches.
fn start() -> Result<(Server, SocketAddr)> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let port = address.port().to_string();
    let args = ["-l", "127.0.0.1", "-p", &port, "-U", "0", "-t", "1", "-m", "64", "-u", "nobody"];
    let mut server = Server::start("memcached", "memcached", &args)?;
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
