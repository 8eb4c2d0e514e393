//! A memcached under load: each request is recorded, none is sampled, and every one of them ends in exactly one class, whatever the
//! server does (paper 002 §2.3, experiment 6b).
//!
//! At a fixed rate, requests leave when they are due, whether or not earlier ones were answered (open loop), and their latency counts
//! from when they were due: a server that stops for a while delays every request that was due meanwhile, and all of that is seen. Back
//! to back, the next request leaves when the last was answered.

mod protocol;

use crate::Observation;
use protocol::{Answer, Answers};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use usect_clock::Clock;
use usect_core::buckets::Recorder;
use usect_core::histogram::Histogram;
use usect_core::rate::Rate;

pub use protocol::Kind;

/// Keys that are asked for in turns.
const KEYS: u64 = 1_000;
/// Requests that may be under way at once; when a server stops, those that are due beyond are not sent.
const WINDOW: usize = 1 << 16;
/// How long answers are waited for after the last request.
const RESIDUAL: Duration = Duration::from_secs(1);
/// How long until a lost connection is tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// What is asked, and how fast.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// What every request asks.
    pub kind: Kind,
    /// Requests per second; none: back to back.
    pub rate: Option<Rate>,
    /// Bytes of a value.
    pub value: usize,
    /// Seconds after which the server forgets what was set.
    pub expires_s: u64,
}

/// Every request in exactly one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// Requests that were due.
    pub due: u64,
    /// Answered as they should be.
    pub answered: u64,
    /// Answered with an error, or a key was not there that should be.
    pub refused: u64,
    /// Sent, and never answered.
    pub lost: u64,
    /// Not sent: there was no connection, or too many were under way.
    pub unsent: u64,
    /// Connections that were lost.
    pub disconnected: u64,
}

/// What came out.
#[derive(Debug)]
pub struct Served {
    /// From when a request was due to its answer.
    pub latency: Histogram,
    /// The same from when it was sent.
    pub from_sent: Histogram,
    /// What became of the requests.
    pub account: Account,
}

/// Puts the keys there that are asked for later.
///
/// Errors: the server can't be reached, or refuses.
pub fn fill(clock: &Clock, address: SocketAddr, load: Load) -> io::Result<()> {
    let recorder = Recorder::default();
    let mut session = Session::new(clock, address, Load { kind: Kind::Set, rate: None, ..load }, &recorder);
    session.connect()?;
    let end = clock.now().0 + clock.rate().ticks(RESIDUAL.as_nanos() as u64 * 10);
    while session.account.due < KEYS || !session.waiting.is_empty() {
        if session.waiting.is_empty() {
            session.request(clock.now().0);
        }
        session.exchange();
        if session.account.disconnected > 0 || clock.now().0 > end {
            return Err(io::Error::other("the server takes no keys"));
        }
    }
    match session.account.refused {
        0 => Ok(()),
        _ => Err(io::Error::other("the server refuses keys: is it full?")),
    }
}

/// Loads a server for as long as the observation lasts, on this thread, which spins and which the caller has pinned.
///
/// Errors: it can't be reached at the start. What happens to it later is counted.
pub fn load(observation: Observation<'_>, address: SocketAddr, load: Load) -> io::Result<Served> {
    let Observation { clock, lasts, stop, recorder } = observation;
    let mut session = Session::new(clock, address, load, recorder);
    session.connect()?;
    let rate = clock.rate();
    let total = load.rate.map(|rate| rate.frames_in(lasts.as_nanos() as u64));
    let (begun, lasts) = (clock.now().0, rate.ticks(lasts.as_nanos() as u64));
    let residual = rate.ticks(RESIDUAL.as_nanos() as u64);
    let mut last = None;
    loop {
        let now = clock.now().0;
        // At a rate, what was due is sent, however late this thread is; but not for ever.
        let done = match total {
            Some(total) => session.account.due >= total || now - begun >= lasts + residual,
            None => now - begun >= lasts,
        };
        let over = stop.load(Relaxed) || done;
        if over {
            let since = *last.get_or_insert(now);
            // What was due and could not even be tried in time.
            if let Some(total) = total.filter(|_| !stop.load(Relaxed)) {
                session.account.unsent += total.saturating_sub(session.account.due);
                session.account.due = session.account.due.max(total);
            }
            if session.waiting.is_empty() || now - since > residual {
                break;
            }
        } else if session.is_due(begun, now) {
            session.request(session.due_at(begun, now));
        }
        session.exchange();
    }
    Ok(session.finish())
}

/// The connection, what is under way on it, and what came out so far.
struct Session<'a> {
    clock: &'a Clock,
    address: SocketAddr,
    load: Load,
    stream: Option<TcpStream>,
    /// When a lost connection was last tried.
    tried: u64,
    unwritten: VecDeque<u8>,
    answers: Answers,
    /// When the requests under way were due, and when they were sent, in ticks.
    waiting: VecDeque<(u64, u64)>,
    value: Vec<u8>,
    latency: &'a Recorder,
    from_sent: Recorder,
    account: Account,
}

impl<'a> Session<'a> {
    fn new(clock: &'a Clock, address: SocketAddr, load: Load, latency: &'a Recorder) -> Session<'a> {
        Session {
            clock,
            address,
            load,
            stream: None,
            tried: 0,
            unwritten: VecDeque::new(),
            answers: Answers::default(),
            waiting: VecDeque::new(),
            value: vec![b'u'; load.value],
            latency,
            from_sent: Recorder::default(),
            account: Account::default(),
        }
    }

    fn connect(&mut self) -> io::Result<()> {
        let stream = TcpStream::connect_timeout(&self.address, RESIDUAL);
        self.tried = self.clock.now().0;
        let stream = stream?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.stream = Some(stream);
        Ok(())
    }

    /// When the next request is due.
    fn due_at(&self, begun: u64, now: u64) -> u64 {
        match self.load.rate {
            Some(rate) => begun + self.clock.rate().ticks(rate.offset_ns(self.account.due)),
            None => now,
        }
    }

    fn is_due(&self, begun: u64, now: u64) -> bool {
        match self.load.rate {
            Some(_) => self.due_at(begun, now) <= now,
            // Without a connection, each try to have one stands for a request.
            None => self.waiting.is_empty() && (self.stream.is_some() || self.may_try(now)),
        }
    }

    fn may_try(&self, now: u64) -> bool {
        now - self.tried > self.clock.rate().ticks(AGAIN.as_nanos() as u64)
    }

    /// A request that was due at `due`.
    fn request(&mut self, due: u64) {
        let key = self.account.due % KEYS;
        self.account.due += 1;
        let now = self.clock.now().0;
        if self.stream.is_none() && self.may_try(now) {
            // Whether it worked is seen right below.
            let _ = self.connect();
        }
        if self.stream.is_none() || self.waiting.len() >= WINDOW {
            self.account.unsent += 1;
            return;
        }
        self.load.kind.write(key, (&self.value, self.load.expires_s), &mut self.unwritten);
        self.waiting.push_back((due, now));
    }

    /// Writes what can be written, reads what is there.
    fn exchange(&mut self) {
        if self.write().and_then(|()| self.read()).is_err() {
            self.disconnect();
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while !self.unwritten.is_empty() {
            match stream.write(self.unwritten.as_slices().0) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut bytes = [0; 1 << 14];
        match stream.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.answers.push(&bytes[..length]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(e) => return Err(e),
        }
        let now = self.clock.now().0;
        while let Some(answer) = self.answers.next(self.load.kind)? {
            let (due, sent) = self.waiting.pop_front().ok_or(ErrorKind::InvalidData)?;
            match answer {
                Answer::Done => {
                    self.account.answered += 1;
                    self.latency.record(self.clock.rate().ns(now - due));
                    self.from_sent.record(self.clock.rate().ns(now - sent));
                }
                Answer::Refused => self.account.refused += 1,
            }
        }
        Ok(())
    }

    /// What is under way will not be answered any more.
    fn disconnect(&mut self) {
        self.account.lost += self.waiting.len() as u64;
        self.account.disconnected += 1;
        self.waiting.clear();
        self.unwritten.clear();
        (self.stream, self.answers) = (None, Answers::default());
        self.tried = self.clock.now().0;
    }

    fn finish(mut self) -> Served {
        self.account.lost += self.waiting.len() as u64;
        let histogram = |recorder: &Recorder| Histogram::from_counts(&recorder.counts());
        Served { latency: histogram(self.latency), from_sent: histogram(&self.from_sent), account: self.account }
    }
}

#[cfg(test)]
mod tests;
