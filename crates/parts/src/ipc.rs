//! There and back between two processes over a datagram socket: user space and operating system, without a network (paper 002
//! §2.2, experiment 2).

use crate::Observation;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use usect_core::histogram::Histogram;

/// Bytes of a message: a small request.
const MESSAGE: usize = 32;
/// Round trips between two looks at the clock on the wall.
const BATCH: usize = 64;
/// An answer that takes longer will not come.
const HANGS: Duration = Duration::from_secs(10);

/// The other process; it ends when this is dropped.
struct Echo {
    child: Child,
    socket: UnixDatagram,
}

impl Drop for Echo {
    fn drop(&mut self) {
        // A datagram socket doesn't tell that its other end is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Echo {
    /// Starts `command`, which is to call [`echo`] on its standard input.
    fn start(command: &mut Command) -> io::Result<Echo> {
        let (socket, theirs) = UnixDatagram::pair()?;
        socket.set_read_timeout(Some(HANGS))?;
        let child = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).process_group(0).spawn()?;
        Ok(Echo { child, socket })
    }

    fn round_trip(&self, message: &mut [u8; MESSAGE]) -> io::Result<()> {
        self.socket.send(message)?;
        let answered = self.socket.recv(message)?;
        if answered == MESSAGE { Ok(()) } else { Err(io::Error::other("the other process answered something else")) }
    }
}

/// Sends a message, waits for the answer, and so on, on this thread, which the caller has pinned. `command` starts the other process
/// on the core that the caller wants: one that calls [`echo`].
///
/// Errors: the other process can't be started, or doesn't answer.
pub fn round_trips(observation: Observation<'_>, command: &mut Command) -> io::Result<Histogram> {
    let echo = Echo::start(command)?;
    let (clock, mut message) = (*observation.clock, [0x75; MESSAGE]);
    // The first wakes the other process and touches every page.
    for _ in 0..BATCH {
        echo.round_trip(&mut message)?;
    }
    observation.observe(|recorder| {
        for _ in 0..BATCH {
            let sent = clock.now();
            echo.round_trip(&mut message)?;
            recorder.record(clock.rate().ns(clock.now().0 - sent.0));
        }
        Ok(())
    })
}

/// The other process: sends back what comes on its standard input, until nothing has come for so long that whoever asked must be gone.
pub fn echo() -> io::Result<()> {
    let socket = UnixDatagram::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_read_timeout(Some(HANGS))?;
    let mut message = [0; MESSAGE];
    loop {
        match socket.recv(&mut message) {
            Ok(length) => _ = socket.send(&message[..length])?,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(e),
        }
    }
}
