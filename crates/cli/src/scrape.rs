//! The page that Prometheus scrapes.
//!
//! HTTP is hyper's: it lets us bound how long a connection may take and how much of a request is read, which
//! axum's server, built on it, doesn't. One connection carries one request. Whoever is slow, or opens
//! connections for nothing, loses them.

use anyhow::Context;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use usect_report::exposition::{Exposition, Format};

/// Connections open at once; one more closes the oldest. A scrape takes milliseconds, so the oldest is one that
/// doesn't ask or doesn't read.
const MOST_CONNECTIONS: usize = 64;
/// From the opening of a connection to its end. Prometheus itself gives up after 10 s, unless told otherwise.
const LONGEST: Duration = Duration::from_secs(10);
/// Bytes of a request's head that are read before it is refused.
const LONGEST_HEAD: usize = 16 << 10;
/// Until the next try, where no connection can be accepted: for lack of file descriptors, most likely.
const RETRY: Duration = Duration::from_millis(100);

/// How old a page may be: whoever asks more often gets the same one again.
const FRESH: Duration = Duration::from_secs(1);

/// The page, made when it is asked for, and at most once in [`FRESH`].
struct Page {
    make: Box<dyn Fn() -> Exposition + Send + Sync>,
    last: Mutex<Option<Made>>,
}

/// A page that was made, and as it was encoded so far.
struct Made {
    at: Instant,
    page: Exposition,
    encoded: Vec<(Format, Bytes)>,
}

impl Page {
    fn new(make: impl Fn() -> Exposition + Send + Sync + 'static) -> Page {
        Page { make: Box::new(make), last: Mutex::default() }
    }

    /// The page in a format, as it is at a moment.
    fn at(&self, now: Instant, format: Format) -> Bytes {
        // A page that failed left the one before.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|made| now.saturating_duration_since(made.at) >= FRESH) {
            *last = Some(Made { at: now, page: (self.make)(), encoded: Vec::new() });
        }
        last.as_mut().expect("it was just made").encoded(format)
    }
}

impl Made {
    fn encoded(&mut self, format: Format) -> Bytes {
        if let Some((_, bytes)) = self.encoded.iter().find(|(known, _)| *known == format) {
            return bytes.clone();
        }
        let bytes = Bytes::from(self.page.encode(format));
        self.encoded.push((format, bytes.clone()));
        bytes
    }
}

/// The cores of `all` on which nothing is measured; all, where there are no others.
pub(crate) fn beside(all: &[usize], measuring: &[usize]) -> Vec<usize> {
    let others: Vec<usize> = all.iter().copied().filter(|core| !measuring.contains(core)).collect();
    if others.is_empty() { all.to_vec() } else { others }
}

/// Metrics, served over HTTP at `/metrics` by a thread of its own until the process ends.
pub(crate) struct Endpoint {
    address: SocketAddr,
}

impl Endpoint {
    /// Binds and serves, by a thread that stays on `cores`. The page is made in that thread, which waits for it; of port 0 the
    /// system makes a free one.
    ///
    /// Errors: the address can't be had, or the cores.
    pub(crate) fn listen(
        address: SocketAddr,
        cores: Vec<usize>,
        page: impl Fn() -> Exposition + Send + Sync + 'static,
    ) -> anyhow::Result<Endpoint> {
        let page = Arc::new(Page::new(page));
        Endpoint::start(address, cores, page).with_context(|| format!("metrics can't be served at {address}"))
    }

    /// The address that is bound.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn start(address: SocketAddr, cores: Vec<usize>, page: Arc<Page>) -> anyhow::Result<Endpoint> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let (confined, told) = std::sync::mpsc::channel();
        let serve = move |runtime: Runtime| {
            let placed = usect_lab::tune::run_on(&cores);
            let is_placed = placed.is_ok();
            if confined.send(placed).is_ok() && is_placed {
                runtime.block_on(serve(listener, page));
            }
        };
        std::thread::Builder::new().name("metrics".to_owned()).spawn(move || serve(runtime))?;
        told.recv()??;
        Ok(Endpoint { address })
    }
}

async fn serve(listener: TcpListener, page: Arc<Page>) {
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() == MOST_CONNECTIONS {
            open.pop_front().inspect(AbortHandle::abort);
        }
        open.push_back(tokio::spawn(connection(stream, page.clone())).abort_handle());
    }
}

/// One request and its answer.
async fn connection(stream: TcpStream, page: Arc<Page>) {
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &page))));
    let mut server = http1::Builder::new();
    let server = server.keep_alive(false).max_buf_size(LONGEST_HEAD);
    // Whoever went away, or is too slow, has no answer: there is nobody to tell.
    let _ = tokio::time::timeout(LONGEST, server.serve_connection(TokioIo::new(stream), service)).await;
}

fn answer(request: &Request<Incoming>, page: &Page) -> Response<Full<Bytes>> {
    let text = Format::Text.content_type();
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
            let format = Format::accepted(accept);
            (StatusCode::OK, format.content_type(), page.at(Instant::now(), format))
        }
        (&Method::GET | &Method::HEAD, "/") => {
            (StatusCode::OK, text, Bytes::from_static(b"usect: metrics are at /metrics\n"))
        }
        _ => (StatusCode::NOT_FOUND, text, Bytes::from_static(b"there is nothing here: metrics are at /metrics\n")),
    };
    let response = Response::builder().status(status).header(CONTENT_TYPE, kind);
    response.body(Full::from(body)).expect("constant headers are valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    const NATIVE: &str =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,text/plain;q=0.5";
    /// Nothing here takes a hundredth of it.
    const HANGS: Duration = Duration::from_secs(60);

    fn page() -> Exposition {
        let mut metrics = Exposition::default();
        metrics.counter("usect_frames_total", "Frames sent.", 12.0);
        metrics
    }

    fn cores() -> Vec<usize> {
        usect_lab::audit::online_cores()
    }

    fn endpoint() -> Endpoint {
        Endpoint::listen(SocketAddr::from(([127, 0, 0, 1], 0)), cores(), page).unwrap()
    }

    fn connect(endpoint: &Endpoint) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(endpoint.address()).unwrap();
        stream.set_read_timeout(Some(HANGS)).unwrap();
        stream
    }

    /// Head and body of the answer.
    fn ask(endpoint: &Endpoint, method: &str, path: &str, accept: &str) -> (String, Vec<u8>) {
        let mut stream = connect(endpoint);
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: test\r\nAccept: {accept}\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let body = answer.split_off(end);
        (String::from_utf8(answer).unwrap(), body)
    }

    #[test]
    fn metrics_come_in_the_format_that_is_asked_for() {
        let endpoint = endpoint();
        for (accept, format) in [("text/plain;version=0.0.4", Format::Text), (NATIVE, Format::Protobuf)] {
            let (head, body) = ask(&endpoint, "GET", "/metrics", accept);
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(head.contains(&format!("content-type: {}\r\n", format.content_type())), "{head}");
            assert_eq!(body, page().encode(format));
        }
        let (head, body) = ask(&endpoint, "HEAD", "/metrics", NATIVE);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty(), "{head}");
    }

    /// Counts how often it is made, and says so.
    fn counting() -> impl Fn() -> Exposition + Send + Sync + 'static {
        let times = std::sync::atomic::AtomicU32::new(0);
        move || {
            let mut metrics = Exposition::default();
            metrics.counter("made", "Times.", f64::from(times.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1));
            metrics
        }
    }

    #[test]
    fn whoever_asks_however_often_it_is_made_once_a_second() {
        let (page, begun) = (Page::new(counting()), Instant::now());
        let made = |ms: u64, format| page.at(begun + Duration::from_millis(ms), format);
        let first = made(0, Format::Text);
        assert!((0..1_000).all(|ms| made(ms, Format::Text) == first));
        // In every format the same figures.
        assert_eq!(made(999, Format::Protobuf), counting()().encode(Format::Protobuf));
        assert!(first.ends_with(b"made 1\n") && made(1_000, Format::Text).ends_with(b"made 2\n"));
        assert!(made(1_999, Format::Text).ends_with(b"made 2\n") && made(9_000, Format::Text).ends_with(b"made 3\n"));
    }

    #[test]
    fn it_is_made_where_nothing_is_measured() {
        assert_eq!(beside(&[0, 1, 2, 3], &[3, 2]), [0, 1]);
        assert_eq!(beside(&[0, 1], &[1, 0]), [0, 1], "there are no others");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        let own = move || {
            *into.lock().unwrap() = allowed();
            page()
        };
        let last = *cores().last().unwrap();
        let endpoint = Endpoint::listen(SocketAddr::from(([127, 0, 0, 1], 0)), vec![last], own).unwrap();
        ask(&endpoint, "GET", "/metrics", "*/*");
        assert_eq!(*seen.lock().unwrap(), [last]);
    }

    /// The cores of this thread.
    fn allowed() -> Vec<usize> {
        let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        (0..nix::sched::CpuSet::count()).filter(|core| set.is_set(*core).unwrap()).collect()
    }

    #[test]
    fn elsewhere_is_a_pointer_or_nothing() {
        let endpoint = endpoint();
        let (head, body) = ask(&endpoint, "GET", "/", "*/*");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert_eq!(String::from_utf8(body).unwrap(), "usect: metrics are at /metrics\n");
        for (method, path) in [("GET", "/metricsx"), ("GET", "/../etc/passwd"), ("POST", "/metrics")] {
            let (head, _) = ask(&endpoint, method, path, "*/*");
            assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{method} {path}: {head}");
        }
    }

    #[test]
    fn an_address_in_use_is_refused_in_one_sentence() {
        let endpoint = endpoint();
        let error = Endpoint::listen(endpoint.address(), cores(), page).map(|_| ()).unwrap_err();
        let expected = format!("metrics can't be served at {}: Address already in use", endpoint.address());
        assert!(crate::sentence(&error).starts_with(&expected), "{error:#}");
    }

    #[test]
    fn who_says_nothing_blocks_nobody() {
        let endpoint = endpoint();
        let mut silent: Vec<_> = (0..MOST_CONNECTIONS + 8).map(|_| connect(&endpoint)).collect();
        silent.iter_mut().for_each(|s| s.write_all(b"GET /metrics HT").unwrap());
        let (head, _) = ask(&endpoint, "GET", "/metrics", NATIVE);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        // The oldest was closed: with what it had sent unread, that may be a reset.
        assert!(
            silent[0].read(&mut [0; 64]).map_or_else(|e| e.kind() == std::io::ErrorKind::ConnectionReset, |n| n == 0)
        );
    }

    #[test]
    fn a_request_without_end_is_cut_short() {
        let endpoint = endpoint();
        let mut stream = connect(&endpoint);
        stream.set_write_timeout(Some(HANGS)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
        let error = (0..100_000).find_map(|_| stream.write_all(&[b'x'; 10_000]).err()).expect("1 GB is refused");
        assert!(!matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
    }

    #[test]
    fn a_page_that_fails_is_asked_for_again() {
        let tries = std::sync::atomic::AtomicU32::new(0);
        let failing_once = move || match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => panic!("the first page fails"),
            _ => page(),
        };
        let endpoint = Endpoint::listen(SocketAddr::from(([127, 0, 0, 1], 0)), cores(), failing_once).unwrap();
        let mut first = connect(&endpoint);
        first.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(first.read(&mut [0; 64]).unwrap_or(0), 0);
        assert!(ask(&endpoint, "GET", "/metrics", "*/*").0.starts_with("HTTP/1.1 200 OK\r\n"));
    }
}
