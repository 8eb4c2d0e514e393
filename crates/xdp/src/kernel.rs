//! The in-kernel client (paper 001): frames are generated, paced, stamped and received in eBPF, the
//! stamps are kept out of band in one array, keyed by the frame's number. Its low half is the IP identification, as in
//! the paper, and the first four payload bytes are the whole of it, so that a late frame is never taken for its successor. No
//! kernel module is needed, and every frame is stamped.

use crate::error::XdpError;
use crate::mapped::{Mapped, Shared};
use crate::skel::kernel::{KernelSkelBuilder, types};
use crate::stamps::{SharedSpan, Stamps, loaded, network_order, spans};
use crate::sys;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::Signal;
use signal_hook::consts::SIGUSR1;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_clock::Clock;
use usect_core::buckets;
use usect_core::frame::{Flow, HEADERS, internet_checksum};
use usect_core::histogram::Histogram;
use usect_core::measurement::Measurement;
use usect_core::stall::{Gaps, Watched};
use usect_core::template::Template;
use usect_core::trial::Traffic;
use usect_port::ClientError;
use usect_port::client::{Client, Control, Outcome, Probe, pace};
use usect_port::late::Patience;
use usect_port::pin;

/// Largest frame, FCS included, that the kernel takes for a live run: a page less its bookkeeping, headroom
/// and shared info (`TEST_XDP_MAX_PACKET_SIZE` in net/bpf/test_run.c), with a little to spare.
pub const LARGEST: u16 = 3400;
const STALLS: usize = 65536;
/// Longest gap between departures that the program waits out by itself; see `PATIENCE` in kernel.bpf.c.
const LONGEST_SPIN_NS: u64 = 1_000_000;
/// How long before a departure the program is entered when user space slept through the gap.
const HEAD_START_NS: u64 = 300_000;
/// Frames that leave together where there is no pace.
const UNPACED_BATCH: u32 = 64;
/// How long residual frames are waited for (RFC 2544 §23), and how long it must be quiet before that.
const QUIET: Duration = Duration::from_millis(20);

/// `state` of kernel.bpf.c.
#[repr(C)]
pub(crate) struct State {
    stamps: Stamps,
    lateness: [AtomicU64; buckets::LEN],
    stalls: [SharedSpan; STALLS],
    stall_count: AtomicU64,
    busy: [AtomicU64; 3],
    observed: AtomicU64,
    last: AtomicU64,
    sent_since: AtomicU64,
    due: AtomicU64,
    due_rest: AtomicU64,
    index: AtomicU64,
    first_departure: AtomicU64,
    last_departure: AtomicU64,
    stop: AtomicU32,
    pub(crate) probe_index: AtomicU32,
    pub(crate) probe_value: AtomicU64,
}

// SAFETY: repr(C), atomics only.
unsafe impl Shared for State {}

impl Probe for Mapped<State> {
    fn sent(&self) -> u64 {
        self.index.load(Relaxed)
    }

    fn received(&self) -> u64 {
        self.stamps.received.load(Relaxed)
    }

    fn latency(&self) -> Vec<u64> {
        self.stamps.latency()
    }

    /// Only its user space knows.
    fn has_sent_all(&self) -> bool {
        false
    }
}

/// What the programs need to know before they are loaded.
pub(crate) struct Config {
    sent: Flow,
    expected: Flow,
    traffic: Traffic,
}

impl Config {
    #[cfg(test)]
    pub(crate) fn for_test() -> Config {
        let end = |n| usect_core::frame::Endpoint {
            mac: [n; 6],
            address: std::net::SocketAddrV4::new([198, 18, 0, n].into(), 9000),
        };
        let flow = Flow { source: end(1), destination: end(2) };
        let rate = usect_core::rate::Rate::per_second(1000).expect("not zero");
        let traffic = Traffic::evenly(usect_core::frame::FrameSize::MIN, rate, 1);
        Config { sent: flow, expected: flow, traffic }
    }
}

/// The loaded programs and their state.
pub(crate) struct Loaded {
    generate: OwnedFd,
    receive: OwnedFd,
    reflect: OwnedFd,
    pass: OwnedFd,
    /// It is empty as soon as nobody has it open.
    behind: MapHandle,
    #[cfg(test)]
    pub(crate) probe_bucket: OwnedFd,
    pub(crate) state: Arc<Mapped<State>>,
}

impl Loaded {
    pub(crate) fn new(config: &Config) -> Result<Loaded, XdpError> {
        let mut object = MaybeUninit::uninit();
        let mut open = KernelSkelBuilder::default()
            .open(&mut object)
            .map_err(|e| XdpError::bpf("opening the in-kernel client", e))?;
        write_config(&mut open.maps.rodata_data.as_mut().expect("the client has constants").config, config);
        let skel = open
            .load()
            .map_err(|e| XdpError::bpf("loading the in-kernel client (it needs kernel 5.18 with BTF)", e))?;
        let own = |fd: std::os::fd::BorrowedFd<'_>| {
            fd.try_clone_to_owned().map_err(|e| XdpError::os("keeping a program of the in-kernel client", &e))
        };
        Ok(Loaded {
            generate: own(skel.progs.generate.as_fd())?,
            receive: own(skel.progs.receive.as_fd())?,
            reflect: own(skel.progs.reflect.as_fd())?,
            pass: own(skel.progs.pass.as_fd())?,
            behind: handle(MapHandle::try_from(&skel.maps.behind))?,
            #[cfg(test)]
            probe_bucket: own(skel.progs.probe_bucket.as_fd())?,
            state: Arc::new(Mapped::new(skel.maps.bss.as_fd(), skel.maps.bss.value_size() as usize)?),
        })
    }
}

fn handle(map: libbpf_rs::Result<MapHandle>) -> Result<MapHandle, XdpError> {
    map.map_err(|e| XdpError::bpf("keeping a map of the in-kernel client", e))
}

fn write_config(out: &mut types::config, config: &Config) {
    let frame = Template::plain(&config.sent, config.traffic.frame_size);
    for (slot, flow) in [(&mut out.sent, &config.sent), (&mut out.expected, &config.expected)] {
        (slot.source, slot.destination, slot.source_port, slot.destination_port) = network_order(flow);
    }
    out.header[..HEADERS].copy_from_slice(&frame[..HEADERS]);
    out.header[24..26].copy_from_slice(&[0, 0]);
    out.checksum = u32::from(!internet_checksum(&out.header[14..34]));
    out.length = frame.len() as u32;
    let (gap, parts) = config.traffic.rate.gap();
    (out.gap_ns, out.gap_rest, out.gap_parts) = (gap / parts, gap % parts, parts);
    out.measure_from = config.traffic.warmup_frames;
    out.frames = config.traffic.warmup_frames + config.traffic.frames;
}

/// The in-kernel client. Load it anywhere, attach its receiving end from inside the receiver's namespace,
/// and call [`Client::run`] inside the sender's.
pub struct KernelClient {
    loaded: Loaded,
    traffic: Traffic,
    frame: Vec<u8>,
    tx: u32,
    core: usize,
    clock: Clock,
    links: Vec<OwnedFd>,
    /// Programs at far ends of veths, for as long as anybody sends to them.
    passes: Vec<OwnedFd>,
    notes: Vec<String>,
    stop: Arc<AtomicBool>,
}

/// The place behind a receiver at an interface.
#[derive(Debug)]
pub struct Behind(MapHandle);

/// What the client measures.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The frames as they are sent.
    pub flow: Flow,
    /// How many, how large, how fast; `mode` says whether they come back.
    pub traffic: Traffic,
    /// Index of the sending interface in the sender's namespace.
    pub tx: u32,
    /// The core that generates.
    pub core: usize,
}

impl KernelClient {
    /// Loads the programs for one assignment. `stop` ends its trial early.
    pub fn load(clock: Clock, assignment: &Assignment, stop: Arc<AtomicBool>) -> Result<KernelClient, XdpError> {
        let Assignment { flow, traffic, tx, core } = assignment.clone();
        let expected = if traffic.mode.returns() { flow.reversed() } else { flow };
        let loaded = Loaded::new(&Config { sent: flow, expected, traffic: traffic.clone() })?;
        let frame = Template::plain(&flow, traffic.frame_size);
        let notes = vec![
            "payload not read but for the frame's number: damage elsewhere shows only in the IP header or the length"
                .to_owned(),
        ];
        Ok(KernelClient { loaded, traffic, frame, tx, core, clock, links: Vec::new(), passes: Vec::new(), notes, stop })
    }

    /// Attaches the receiver to an interface of the calling thread's namespace: the receiver's one way,
    /// the sender's for a round trip.
    pub fn attach_receiver(&mut self, ifindex: u32) -> Result<(), XdpError> {
        let attached = attach(&self.loaded.receive, "receiver", ifindex)?;
        self.keep("receiver", attached);
        Ok(())
    }

    /// Where the receiver of another client may stand at the same interface.
    pub fn behind(&self) -> Result<Behind, XdpError> {
        handle(MapHandle::try_from(&self.loaded.behind)).map(Behind)
    }

    /// Puts the receiver behind that of another client, instead of attaching it: an interface has room for one, which hands on
    /// what isn't its own.
    pub fn stand_behind(&mut self, other: &Behind) -> Result<(), XdpError> {
        let program = self.loaded.receive.as_raw_fd().to_ne_bytes();
        let done = other.0.update(&0_u32.to_ne_bytes(), &program, MapFlags::ANY);
        done.map_err(|e| XdpError::bpf("putting an in-kernel receiver behind another", e))?;
        self.notes.push("in-kernel receiver, behind another".to_owned());
        Ok(())
    }

    /// Attaches the reflector of a round trip to an interface of the calling thread's namespace.
    pub fn attach_reflector(&mut self, ifindex: u32) -> Result<(), XdpError> {
        let attached = attach(&self.loaded.reflect, "reflector", ifindex)?;
        self.keep("reflector", attached);
        Ok(())
    }

    fn keep(&mut self, role: &str, (link, mode): (OwnedFd, sys::XdpMode)) {
        self.links.push(link);
        self.notes.push(format!("in-kernel {role}, {mode} XDP"));
    }

    /// Attaches a program that passes everything to an interface of the calling thread's namespace, the far end of a veth, so
    /// that it takes what the near one sends. It goes with the client.
    pub fn attach_pass(&mut self, ifindex: u32, name: &str) -> Result<(), XdpError> {
        let (link, mode) = attach(&self.loaded.pass, "program that passes all", ifindex)?;
        self.passes.push(link);
        self.notes
            .push(format!("a program that passes all at `{name}`, {mode} XDP, for a veth takes no frames of XDP else"));
        Ok(())
    }

    /// Runs the generator until every frame has left, the trial is stopped, or it can't keep the rate.
    fn generate(&self) -> Result<(), ClientError> {
        let frames = self.traffic.warmup_frames + self.traffic.frames;
        let slow = self.traffic.rate.offset_ns(1) > LONGEST_SPIN_NS;
        let state = &self.loaded.state;
        while state.index.load(Relaxed) < frames && state.stop.load(Relaxed) == 0 {
            if slow {
                self.sleep_towards_due();
                // The program was away because we slept, not because of a stall.
                state.last.store(0, Relaxed);
            }
            let left = frames - state.index.load(Relaxed);
            let repeat = if slow { 1 } else { left.min(i32::MAX as u64) as u32 };
            // A batch leaves together, behind its last stamp: only where there is no pace to keep.
            let batch = if self.traffic.rate.is_paced() { 1 } else { UNPACED_BATCH };
            match sys::live_frames(self.loaded.generate.as_fd(), &self.frame, self.tx, repeat, batch) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(generator_failed(e)),
                _ => {}
            }
        }
        Ok(())
    }

    fn sleep_towards_due(&self) {
        let due = self.loaded.state.due.load(Relaxed).saturating_sub(HEAD_START_NS);
        let ahead = due.saturating_sub(usect_clock::mono().0);
        let now = self.clock.now();
        self.clock.sleep_until(usect_core::instant::Tsc(now.0 + self.clock.rate().ticks(ahead)));
    }

    /// Waits until every frame is in and it is quiet, or RFC 2544's two seconds are over.
    fn await_residual_frames(&self) {
        let stamps = &self.loaded.state.stamps;
        let (begun, residual) = (Instant::now(), Duration::from_nanos(self.traffic.residual_ns));
        let mut activity = stamps.activity();
        let mut quiet_since = Instant::now();
        while begun.elapsed() < residual {
            std::thread::sleep(Duration::from_millis(2));
            let now = stamps.activity();
            if now != activity {
                (activity, quiet_since) = (now, Instant::now());
            }
            let counts = stamps.counts(self.traffic.warmup_frames);
            if counts.lost == 0 && quiet_since.elapsed() > QUIET {
                break;
            }
        }
    }

    /// Looks after the generator from another core: passes on a stop, and gives up a hopeless rate.
    fn supervise(&self, done: &AtomicBool, generator: Pthread) -> Option<ClientError> {
        let state = &self.loaded.state;
        let mut patience = Patience::default();
        while !done.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            let (due, index) = (state.due.load(Relaxed), state.index.load(Relaxed));
            let offset = self.traffic.rate.offset_ns(index);
            let behind = if due == 0 { 0 } else { usect_clock::mono().0.saturating_sub(due) };
            // Once stopped, it falls behind because it was told to.
            let stopped = self.stop.load(Relaxed);
            let hopeless = self.traffic.rate.is_paced()
                && !stopped
                && patience.ends(&self.clock, self.clock.now(), behind, offset)
                && !done.load(Relaxed);
            if hopeless || stopped {
                state.stop.store(1, Relaxed);
                // Ends the system call, which would otherwise drop its remaining repetitions one by one.
                let _ = pthread_kill(generator, Signal::SIGUSR1);
            }
            if hopeless && index < self.traffic.warmup_frames + self.traffic.frames {
                let reached = index as f64 * 1e9 / (offset + behind) as f64;
                return Some(ClientError::Rate { requested: self.traffic.rate.frames_per_second(), reached });
            }
        }
        None
    }

    fn outcome(&self) -> Result<Outcome, ClientError> {
        let state = &self.loaded.state;
        let counts = state.stamps.counts(self.traffic.warmup_frames);
        counts.balance()?;
        let get = |value: &AtomicU64| value.load(Relaxed);
        let span_ns = get(&state.last_departure).saturating_sub(get(&state.first_departure));
        let paced = self.traffic.rate.is_paced();
        let measurement = Measurement {
            counts,
            latency: Histogram::from_counts(&state.stamps.latency()),
            scheduled: paced.then(|| state.stamps.scheduled()),
            lateness: paced.then(|| Histogram::from_counts(&loaded(&state.lateness))),
            pace: pace(&self.traffic, counts.sent, span_ns),
            overwritten: state.stamps.overwritten(),
            notes: self.notes.clone(),
            ..Measurement::default()
        };
        let watched = Watched {
            thread: "generator".into(),
            core: Some(self.core),
            observed_ns: get(&state.observed),
            log: spans(&state.stalls, get(&state.stall_count)),
            busy: Gaps { count: get(&state.busy[0]), total_ns: get(&state.busy[1]), longest_ns: get(&state.busy[2]) },
        };
        Ok(Outcome { measurement, slow: state.stamps.slow(), watched: vec![watched] })
    }
}

fn attach(program: &OwnedFd, role: &str, ifindex: u32) -> Result<(OwnedFd, sys::XdpMode), XdpError> {
    let attached = sys::attach_xdp(program.as_fd(), ifindex);
    attached.map_err(|e| XdpError::os(format!("attaching the in-kernel {role} to interface {ifindex}"), &e))
}

fn generator_failed(error: io::Error) -> ClientError {
    let why = match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => {
            "generating frames in the kernel, which needs kernel 5.18 and an interface that sends XDP frames,"
        }
        _ => "generating frames in the kernel",
    };
    ClientError::io(why, error)
}

impl Client for KernelClient {
    fn probe(&mut self) -> Arc<dyn Probe> {
        self.loaded.state.clone()
    }

    fn run(&mut self, _traffic: &Traffic, _control: &Control) -> Result<Outcome, ClientError> {
        // Without a handler the signal would end the process; what the handler does doesn't matter.
        signal_hook::flag::register(SIGUSR1, Arc::default()).map_err(|e| ClientError::io("preparing to stop", e))?;
        let (done, this) = (&AtomicBool::new(false), &*self);
        let (generated, hopeless) = std::thread::scope(|scope| {
            let generator = pthread_self();
            let supervisor = scope.spawn(move || this.supervise(done, generator));
            // After the supervisor was started, which would inherit the core.
            let pinned =
                pin(this.core).map_err(|e| ClientError::io(format!("pinning the generator to core {}", this.core), e));
            let generated = pinned.and_then(|()| this.generate());
            done.store(true, Relaxed);
            (generated, supervisor.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        generated?;
        if let Some(hopeless) = hopeless {
            return Err(hopeless);
        }
        self.await_residual_frames();
        // Nothing may arrive while the counts are read.
        self.links.clear();
        self.outcome()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_core::frame::FrameSize;
    use usect_core::rate::Rate;

    const ROUND: u32 = 1 << 16;

    /// The frame with a number, as it leaves.
    fn frame(flow: &Flow, number: u32) -> Vec<u8> {
        let mut frame = Template::plain(flow, FrameSize::MIN);
        frame[18..20].copy_from_slice(&(number as u16).to_be_bytes());
        frame[24..26].copy_from_slice(&[0, 0]);
        let sum = internet_checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame[HEADERS..HEADERS + 4].copy_from_slice(&number.to_be_bytes());
        frame
    }

    #[test]
    fn a_frame_that_is_late_by_a_round_is_not_taken_for_its_successor() {
        if !usect_testing::root() {
            return;
        }
        let mut config = Config::for_test();
        config.traffic = Traffic::evenly(FrameSize::MIN, Rate::per_second(1_000_000_000).unwrap(), 100_000);
        config.traffic.warmup_frames = 0;
        let loaded = Loaded::new(&config).expect("root may load eBPF");
        let flow = config.sent;
        sys::dry(loaded.generate.as_fd(), &frame(&flow, 0), 1, ROUND + 1).unwrap();
        let arrives = |frame: &[u8]| sys::dry(loaded.receive.as_fd(), frame, 1, 1).unwrap();
        arrives(&frame(&flow, 0));
        arrives(&frame(&flow, ROUND));
        let mut damaged = frame(&flow, 7);
        damaged[HEADERS + 3] ^= 1;
        arrives(&damaged);
        let counts = loaded.state.stamps.counts(0);
        counts.balance().unwrap();
        assert_eq!(counts.sent, u64::from(ROUND) + 1);
        assert_eq!((counts.received, counts.stale, counts.duplicates, counts.corrupted), (1, 1, 0, 1), "{counts:?}");
    }
}
