//! An end on another host: this program, carried there and started over ssh, which takes orders on its standard input, one in a line of
//! JSON, and answers on its standard output. It speaks first. Where its input ends, or nothing comes any more, it puts everything back.

use super::end::{Answer, Found, Here, Order};
use crate::RigError;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use usect_core::inventory::Ssh;
use usect_core::matrix::Became;
use usect_core::stored;

/// How long an answer may take; the longest is that to the first order, behind a login.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the other process may take to put back and end.
const ENDS: Duration = Duration::from_secs(20);
/// How long this program may take to get there, over a slow line.
const CARRIED: Duration = Duration::from_secs(300);
/// How often a word is sent when there is no order ...
const WORD: Duration = Duration::from_secs(10);
/// ... and after which time without one nobody is there any more.
pub(super) const SILENCE: Duration = Duration::from_secs(60);
const BLINK: Duration = Duration::from_millis(20);
/// Its exit code where it refuses.
const REFUSED: i32 = 2;

/// Longest line of either side: an answer tells of a hundred thousand probes, of fifty bytes each.
const LONGEST_LINE: usize = 16 << 20;
/// Longest complaint that is kept.
const LONGEST_COMPLAINT: usize = 4 << 10;
/// Lines that wait to be looked at; whoever says more waits himself.
const WAITING: usize = 1;

/// A line, or why there is none.
type Line = Result<String, String>;

/// Its standard input, as long as it can be asked.
type Input = Arc<Mutex<Option<ChildStdin>>>;

/// Why there is no other process.
pub(super) struct Unstarted {
    pub(super) why: RigError,
    /// It was there, and refused: another may be ending.
    pub(super) refused: bool,
}

impl From<RigError> for Unstarted {
    fn from(why: RigError) -> Unstarted {
        Unstarted { why, refused: false }
    }
}

/// The other process, seen from here.
pub(super) struct Agent {
    /// The host's name.
    name: String,
    child: Child,
    input: Input,
    lines: mpsc::Receiver<Line>,
    complaints: Arc<Mutex<String>>,
    /// Reads them.
    listener: JoinHandle<()>,
    /// It has said who it is.
    met: bool,
    /// Nothing more can be asked.
    gone: bool,
}

impl Agent {
    /// Carries this program to a host and starts it there, for an interface of that host.
    ///
    /// Errors: ssh can't, or it refuses; the sentence is its own.
    pub(super) fn start(name: &str, ssh: &Ssh, interface: &str) -> Result<(Agent, Found), Unstarted> {
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
        let (lines, (complaints, listener)) = (lines_of(child.stdout.take()), last_line_of(child.stderr.take()));
        let input = Arc::new(Mutex::new(child.stdin.take()));
        let mut agent =
            Agent { name: name.to_owned(), child, input, lines, complaints, listener, met: false, gone: false };
        agent.carry(program);
        match agent.answer(CARRIED) {
            Ok(Answer::Found(found)) => {
                // What was said until here isn't why it may end.
                complaint(&agent.complaints).clear();
                agent.met = true;
                agent.keep_in_touch();
                Ok((agent, *found))
            }
            Ok(other) => {
                Err(RigError::Asked(format!("{name}: usect answers {other:?} there, and should say who it is")).into())
            }
            // ssh's own failures are 255.
            Err(why) => {
                let refused = agent.child.try_wait().is_ok_and(|ended| ended.and_then(|it| it.code()) == Some(REFUSED));
                Err(Unstarted { why: RigError::Asked(why), refused })
            }
        }
    }

    /// Sends this program, which whoever doesn't take it must not hold up.
    fn carry(&self, program: Vec<u8>) {
        let input = self.input.clone();
        std::thread::spawn(move || {
            let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
            // Why it can't be sent, its end tells.
            let _ = input.as_mut().map(|input| input.write_all(&program).and_then(|()| input.flush()));
        });
    }

    /// Whether it can't be asked any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Sends an order, and waits for what comes of it.
    pub(super) fn ask(&mut self, order: &Order) -> Result<Answer, Became> {
        if self.gone {
            return Err(Became::Failed(format!("{}: the connection has ended", self.name)));
        }
        let mut line = serde_json::to_string(order).map_err(|e| Became::Failed(e.to_string()))?;
        line.push('\n');
        let sent = self.write(line.as_bytes());
        let answer = sent.map_err(|_| self.why_gone(PATIENCE)).and_then(|()| self.answer(PATIENCE));
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

    fn answer(&mut self, patience: Duration) -> Result<Answer, String> {
        let Ok(line) = self.lines.recv_timeout(patience) else { return Err(self.why_gone(patience)) };
        let answer = line.and_then(|line| read(&line));
        answer.map_err(|why| {
            self.end();
            format!("{}: {why}", self.name)
        })
    }

    /// Why nothing comes any more, or not in time; it is ended.
    fn why_gone(&mut self, patience: Duration) -> String {
        let begun = Instant::now();
        let over =
            |agent: &mut Agent| agent.listener.is_finished() && agent.child.try_wait().is_ok_and(|it| it.is_some());
        while !over(self) && begun.elapsed() < BLINK * 50 {
            std::thread::sleep(BLINK);
        }
        let status = self.child.try_wait().ok().flatten();
        self.end();
        let Some(status) = status else { return format!("{}: no answer in {} s", self.name, patience.as_secs()) };
        let said = complaint(&self.complaints).trim().to_owned();
        let said = said.strip_prefix("usect: ").unwrap_or(&said);
        match (said.is_empty(), self.met) {
            (true, _) => format!("{}: the connection ended ({status})", self.name),
            (false, true) => format!("{}: the connection ended: {said}", self.name),
            (false, false) => format!("{}: {said}", self.name),
        }
    }

    /// Nothing more can be asked; the other process finds its input closed, and puts back what it changed.
    fn end(&mut self) {
        self.gone = true;
        // Nobody listens any more, so that whoever has more to say finds that out.
        self.lines = mpsc::sync_channel(0).1;
        // A writer that nobody reads holds the input until ssh is gone.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        let begun = Instant::now();
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && self.met && begun.elapsed() < ENDS {
            std::thread::sleep(BLINK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    fn drop(&mut self) {
        if !self.gone {
            self.end();
        }
    }
}

/// What the far shell does: takes so many bytes for the program, and runs them. Of the file, only what is open stays from the start, so that
/// nothing is left however it ends.
fn script(bytes: usize, interface: &str, sudo: bool) -> Result<String, RigError> {
    let quoted = |text: &str| {
        shlex::try_quote(text)
            .map(|text| text.into_owned())
            .map_err(|_| RigError::Asked(format!("{text:?} is no name")))
    };
    let script = format!(
        "set -e; umask 077; d=$(mktemp -d); : > \"$d/usect\"; chmod 700 \"$d/usect\"; exec 3< \"$d/usect\" 4> \"$d/usect\"; rm -rf \"$d\"; \
         head -c {bytes} >&4; exec 4>&-; exec /proc/self/fd/3 agent {}",
        quoted(interface)?
    );
    Ok(format!("{}sh -c {}", if sudo { "sudo -n " } else { "" }, quoted(&script)?))
}

fn complaint(last: &Mutex<String>) -> std::sync::MutexGuard<'_, String> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an answer says. It is another host's: it comes as what is stored does, checked.
fn read(line: &str) -> Result<Answer, String> {
    let foreign = |_| {
        format!(
            "{:?} came where usect should answer: does a shell print something there when it starts?",
            line.chars().take(60).collect::<String>()
        )
    };
    let json: Value = serde_json::from_str(line).map_err(foreign)?;
    match json.get("Passed") {
        // Readings of a counter, which may be as large as any.
        Some(_) => serde_json::from_value(json).map_err(foreign),
        None => stored::read(json),
    }
}

/// The next line without its end; none where there are no more.
///
/// Errors: it is longer than `most` bytes, of which no more are kept, or can't be read.
fn line_of(stream: &mut impl BufRead, most: usize) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    stream.by_ref().take(most as u64 + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let is_whole = line.pop_if(|last| *last == b'\n').is_some();
    if !is_whole && line.len() > most {
        return Err(io::Error::other(format!("a line of more than {most} bytes came, longer than any that is known")));
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Lines, until one is too long or there are no more.
fn lines_of(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Line> {
    let (sender, lines) = mpsc::sync_channel(WAITING);
    std::thread::spawn(move || {
        let Some(mut stream) = stream.map(BufReader::new) else { return };
        while let Some(line) = line_of(&mut stream, LONGEST_LINE).map_err(|e| e.to_string()).transpose() {
            let is_last = line.is_err();
            if sender.send(line).is_err() || is_last {
                return;
            }
        }
    });
    lines
}

/// The last line that isn't empty, or the last piece of one that is long.
fn last_line_of(stream: Option<impl Read + Send + 'static>) -> (Arc<Mutex<String>>, JoinHandle<()>) {
    let last: Arc<Mutex<String>> = Arc::default();
    let into = last.clone();
    let listener = std::thread::spawn(move || {
        let Some(mut stream) = stream.map(BufReader::new) else { return };
        let mut line = Vec::new();
        let most = LONGEST_COMPLAINT as u64;
        while stream.by_ref().take(most).read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let said = String::from_utf8_lossy(&line);
            if !said.trim().is_empty() {
                *complaint(&into) = said.trim_end().to_owned();
            }
            line.clear();
        }
    });
    (last, listener)
}

/// The other process, seen from within: obeys until nobody orders any more, or `stop` is set.
///
/// Errors: the connection is lost, or silent; a line has no end.
pub(super) fn serve(
    end: &mut Here,
    input: impl Read + Send + 'static,
    mut output: impl Write + Send + 'static,
    stop: &AtomicBool,
) -> io::Result<()> {
    // In a thread of its own: where nobody reads, this one still finds that nobody writes.
    let (answers, to_say) = mpsc::channel::<String>();
    std::thread::spawn(move || {
        for line in to_say {
            if output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_err() {
                return;
            }
        }
    });
    let say = |answer: &Answer| {
        let line = serde_json::to_string(answer)?;
        answers.send(format!("{line}\n")).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    };
    say(&Answer::Found(Box::new(end.found().map_err(io::Error::other)?)))?;
    let (lines, mut heard) = (lines_of(Some(input)), Instant::now());
    while !stop.load(Relaxed) {
        match lines.recv_timeout(BLINK) {
            Ok(line) => {
                heard = Instant::now();
                let line = line.map_err(io::Error::other)?;
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

#[cfg(test)]
mod tests {
    use super::super::end::Told;
    use super::*;
    use proptest::prelude::*;

    /// What it answers to lines.
    fn answered(lines: &str) -> Vec<String> {
        let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
        struct Ear(Arc<Mutex<Vec<u8>>>);
        impl Write for Ear {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut here = Here::at(usect_lab::named("lo").unwrap(), None);
        let orders = lines.lines().filter(|line| !line.is_empty()).count();
        serve(&mut here, io::Cursor::new(lines.to_owned()), Ear(heard.clone()), &AtomicBool::new(false)).unwrap();
        // Another thread says it.
        let begun = Instant::now();
        loop {
            let said = String::from_utf8(heard.lock().unwrap().clone()).unwrap();
            if said.lines().count() == orders + 1 {
                return said.lines().map(str::to_owned).collect();
            }
            assert!(begun.elapsed() < PATIENCE, "{said}");
            std::thread::sleep(BLINK);
        }
    }

    #[test]
    fn orders_are_obeyed_in_turn_and_it_speaks_first() {
        let orders = [Order::Tell, Order::Clear].map(|order| serde_json::to_string(&order).unwrap());
        let said = answered(&format!("{}\n\nnonsense\n{}\n", orders[0], orders[1]));
        let said: Vec<Answer> = said.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(matches!(&said[0], Answer::Found(found) if found.interface == "lo"), "{said:?}");
        assert!(matches!(&said[1], Answer::Became(Became::Failed(why)) if why == "nothing was watched"), "{said:?}");
        assert!(matches!(&said[2], Answer::Became(Became::Failed(why)) if why.starts_with("no order")), "{said:?}");
        assert!(matches!(said[3], Answer::Done) && said.len() == 4, "{said:?}");
    }

    #[test]
    fn what_the_far_shell_is_told_is_one_word_each() {
        let script = script(7, "eth1; reboot", true).unwrap();
        assert!(script.starts_with("sudo -n sh -c "), "{script}");
        let words = shlex::split(&script).unwrap();
        assert_eq!(words.len(), 5);
        let inner = shlex::split(&words[4]).unwrap();
        assert_eq!(inner.last().map(String::as_str), Some("eth1; reboot"));
    }

    /// Bytes that are no lines, and how many of them were taken.
    struct Endless(Arc<Mutex<usize>>);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let mut taken = self.0.lock().unwrap();
            // Without a bound this would end by itself, so that memory is left.
            let some = buffer.len().min(4 * LONGEST_LINE - *taken);
            buffer[..some].fill(b' ');
            *taken += some;
            Ok(some)
        }
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory_without_end() {
        let taken: Arc<Mutex<usize>> = Arc::default();
        let lines = lines_of(Some(Endless(taken.clone())));
        let why = lines.recv().unwrap().unwrap_err();
        assert!(why.starts_with("a line of more than 16777216 bytes came"), "{why}");
        assert!(lines.recv().is_err(), "nothing comes behind it");
        assert!(*taken.lock().unwrap() < 2 * LONGEST_LINE);
    }

    #[test]
    fn an_endless_order_ends_the_service() {
        let mut here = Here::at(usect_lab::named("lo").unwrap(), None);
        let why = serve(&mut here, Endless(Arc::default()), io::sink(), &AtomicBool::new(false)).unwrap_err();
        assert!(why.to_string().contains("a line of more than"), "{why}");
    }

    #[test]
    fn a_host_that_says_too_much_is_left_and_named() {
        let said = format!("exec head -c {} /dev/zero", 2 * LONGEST_LINE);
        let ssh = Ssh { program: "sh".into(), arguments: vec!["-c".into(), said], sudo: false };
        let Err(Unstarted { why, .. }) = Agent::start("far", &ssh, "lo") else { panic!("nobody is there") };
        assert!(why.to_string().contains("far: a line of more than"), "{why}");
    }

    #[test]
    fn what_a_host_says_is_checked() {
        let told = |drops: u64| {
            let queue = usect_core::matrix::Queue { drops, ..Default::default() };
            read(&serde_json::to_string(&Answer::Told(Box::new(Told { queue, ..Told::default() }))).unwrap())
        };
        assert!(matches!(told(7), Ok(Answer::Told(_))));
        assert!(told(u64::MAX).unwrap_err().contains("more than can be measured"));
        let passed = Answer::Passed(super::super::end::Passed { hz: 9, frames: vec![(1, u64::MAX, u64::MAX)] });
        assert!(read(&serde_json::to_string(&passed).unwrap()).is_ok(), "counters may be as large as any");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_lines_are_survived(lines in "([a-zA-Z{}\\[\\]\":,0-9 ]{0,20}\n){0,5}") {
            answered(&lines);
        }
    }
}
