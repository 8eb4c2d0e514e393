//! An end on another host: this program, carried there and started over ssh, which takes orders on its standard input, one in a line of
//! JSON, and answers on its standard output. It speaks first. Where its input ends, or nothing comes any more, it puts everything back.

use super::end::{Answer, Found, Here, Order};
use crate::RigError;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use usect_core::inventory::Ssh;
use usect_core::matrix::Became;

/// How long an answer may take; the longest is that to the first order, behind a login.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the other process may take to put back and end.
const ENDS: Duration = Duration::from_secs(20);
/// How often a word is sent when there is no order ...
const WORD: Duration = Duration::from_secs(10);
/// ... and after which time without one nobody is there any more.
const SILENCE: Duration = Duration::from_secs(60);
const BLINK: Duration = Duration::from_millis(20);

/// The other process, seen from here.
pub(super) struct Agent {
    /// The host's name.
    name: String,
    child: Child,
    input: Arc<Mutex<Option<ChildStdin>>>,
    lines: mpsc::Receiver<String>,
    complaints: Arc<Mutex<String>>,
    /// It has said who it is.
    met: bool,
    /// Nothing more can be asked.
    gone: bool,
}

impl Agent {
    /// Carries this program to a host and starts it there, for an interface of that host.
    ///
    /// Errors: ssh can't, or it refuses; the sentence is its own.
    pub(super) fn start(name: &str, ssh: &Ssh, interface: &str) -> Result<(Agent, Found), RigError> {
        let failed = |what: &str, e: io::Error| RigError::Asked(format!("{name}: {what}: {e}"));
        let mut program = Vec::new();
        let read = File::open("/proc/self/exe").and_then(|mut file| file.read_to_end(&mut program));
        read.map_err(|e| failed("reading this program, to carry it there", e))?;
        let mut command = Command::new(&ssh.program);
        command.args(&ssh.arguments).arg(script(program.len(), interface, ssh.sudo)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C at the terminal is for us, who end it.
        command.process_group(0);
        let mut child = command.spawn().map_err(|e| failed(&format!("`{}` can't be started", ssh.program), e))?;
        let (lines, complaints) = (lines_of(child.stdout.take()), last_line_of(child.stderr.take()));
        let input = Arc::new(Mutex::new(child.stdin.take()));
        let mut agent = Agent { name: name.to_owned(), child, input, lines, complaints, met: false, gone: false };
        if agent.write(&program).is_err() {
            return Err(RigError::Asked(agent.why_gone()));
        }
        match agent.answer().map_err(RigError::Asked)? {
            Answer::Found(found) => {
                agent.met = true;
                agent.keep_in_touch();
                Ok((agent, *found))
            }
            other => Err(RigError::Asked(format!("{name}: usect answers {other:?} there, and should say who it is"))),
        }
    }

    /// Whether it can't be asked any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Sends an order, and waits for what comes of it.
    pub(super) fn ask(&mut self, order: &Order) -> Result<Answer, Became> {
        let mut line = serde_json::to_string(order).map_err(|e| Became::Failed(e.to_string()))?;
        line.push('\n');
        let sent = self.write(line.as_bytes());
        let answer = sent.map_err(|_| self.why_gone()).and_then(|()| self.answer());
        let at = |why: String| format!("{}: {why}", self.name);
        match answer.map_err(Became::Failed)? {
            Answer::Became(Became::Failed(why)) => Err(Became::Failed(at(why))),
            Answer::Became(Became::Unavailable(why)) => Err(Became::Unavailable(at(why))),
            answer => Ok(answer),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let input = input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(bytes)?;
        input.flush()
    }

    fn answer(&mut self) -> Result<Answer, String> {
        let Ok(line) = self.lines.recv_timeout(PATIENCE) else { return Err(self.why_gone()) };
        serde_json::from_str(&line).map_err(|_| {
            self.gone = true;
            format!(
                "{}: {:?} came where usect should answer: does a shell print something there when it starts?",
                self.name,
                line.chars().take(60).collect::<String>()
            )
        })
    }

    /// Why nothing comes any more.
    fn why_gone(&mut self) -> String {
        self.gone = true;
        let begun = Instant::now();
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < BLINK * 50 {
            std::thread::sleep(BLINK);
        }
        let status = self.child.try_wait().ok().flatten();
        let said = self.complaints.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned();
        let said = said.strip_prefix("usect: ").unwrap_or(&said);
        match (said.is_empty(), status) {
            (false, _) if self.met => format!("{}: the connection ended: {said}", self.name),
            (false, _) => format!("{}: {said}", self.name),
            (true, Some(status)) => format!("{}: the connection ended ({status})", self.name),
            (true, None) => format!("{}: no answer in {} s", self.name, PATIENCE.as_secs()),
        }
    }

    /// Sends an empty line now and then, until it is dropped.
    fn keep_in_touch(&self) {
        let input = Arc::downgrade(&self.input);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(WORD);
                let Some(input) = input.upgrade() else { return };
                let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
                if input.as_mut().is_none_or(|input| input.write_all(b"\n").is_err()) {
                    return;
                }
            }
        });
    }
}

impl Drop for Agent {
    /// Its input ends, and so does it, once everything is put back.
    fn drop(&mut self) {
        self.input.lock().unwrap_or_else(PoisonError::into_inner).take();
        let begun = Instant::now();
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < ENDS {
            std::thread::sleep(BLINK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the far shell does: takes so many bytes for the program, and runs them; nothing of it stays, however it ends.
fn script(bytes: usize, interface: &str, sudo: bool) -> Result<String, RigError> {
    let quoted = |text: &str| {
        shlex::try_quote(text)
            .map(|text| text.into_owned())
            .map_err(|_| RigError::Asked(format!("{text:?} is no name")))
    };
    let script = format!(
        "set -e; umask 077; d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT HUP INT TERM; head -c {bytes} > \"$d/usect\"; chmod 700 \"$d/usect\"; \
         exec 3< \"$d/usect\"; rm -rf \"$d\"; trap - EXIT HUP INT TERM; exec /proc/self/fd/3 agent {}",
        quoted(interface)?
    );
    Ok(format!("{}sh -c {}", if sudo { "sudo -n " } else { "" }, quoted(&script)?))
}

fn lines_of(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in stream.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The last line that isn't empty.
fn last_line_of(stream: Option<impl Read + Send + 'static>) -> Arc<Mutex<String>> {
    let last: Arc<Mutex<String>> = Arc::default();
    let into = last.clone();
    std::thread::spawn(move || {
        for line in stream.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            if !line.trim().is_empty() {
                *into.lock().unwrap_or_else(PoisonError::into_inner) = line;
            }
        }
    });
    last
}

/// The other process, seen from within: obeys until nobody orders any more, or `stop` is set.
///
/// Errors: the connection is lost, or silent.
pub(super) fn serve(
    end: &mut Here,
    input: impl Read + Send + 'static,
    mut output: impl Write,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut say = |answer: &Answer| {
        let mut line = serde_json::to_string(answer)?;
        line.push('\n');
        output.write_all(line.as_bytes())?;
        output.flush()
    };
    say(&Answer::Found(Box::new(end.found())))?;
    let (lines, mut heard) = (lines_of(Some(input)), Instant::now());
    while !stop.load(Relaxed) {
        match lines.recv_timeout(BLINK) {
            Ok(line) => {
                heard = Instant::now();
                if line.is_empty() {
                    continue;
                }
                let order = serde_json::from_str(&line).map_err(|e| Became::Failed(format!("no order: {e}")));
                say(&order.and_then(|order| end.obey(order)).unwrap_or_else(Answer::Became))?;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) if heard.elapsed() > SILENCE => {
                return Err(io::Error::other("nothing came from the other host any more"));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
    Ok(())
}
