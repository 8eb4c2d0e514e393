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
use std::sync::Arc;
use std::time::Duration;
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

/// What makes the page, at every scrape.
type Page = dyn Fn() -> Exposition + Send + Sync;

/// Metrics, served over HTTP at `/metrics` by a thread of its own until the process ends.
pub(crate) struct Endpoint {
    address: SocketAddr,
}

impl Endpoint {
    /// Binds and serves. The page is made in the thread that serves, which waits for it; of port 0 the system
    /// makes a free one.
    pub(crate) fn listen(
        address: SocketAddr,
        page: impl Fn() -> Exposition + Send + Sync + 'static,
    ) -> anyhow::Result<Endpoint> {
        Endpoint::start(address, Arc::new(page)).with_context(|| format!("metrics can't be served at {address}"))
    }

    /// The address that is bound.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn start(address: SocketAddr, page: Arc<Page>) -> std::io::Result<Endpoint> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let serve = move |runtime: Runtime| runtime.block_on(serve(listener, page));
        std::thread::Builder::new().name("metrics".to_owned()).spawn(move || serve(runtime))?;
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
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &*page))));
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
            (StatusCode::OK, format.content_type(), page().encode(format))
        }
        (&Method::GET | &Method::HEAD, "/") => (StatusCode::OK, text, b"usect: metrics are at /metrics\n".to_vec()),
        _ => (StatusCode::NOT_FOUND, text, b"there is nothing here: metrics are at /metrics\n".to_vec()),
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

    fn endpoint() -> Endpoint {
        Endpoint::listen(SocketAddr::from(([127, 0, 0, 1], 0)), page).unwrap()
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
        let error = Endpoint::listen(endpoint.address(), page).map(|_| ()).unwrap_err();
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
        let endpoint = Endpoint::listen(SocketAddr::from(([127, 0, 0, 1], 0)), failing_once).unwrap();
        let mut first = connect(&endpoint);
        first.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(first.read(&mut [0; 64]).unwrap_or(0), 0);
        assert!(ask(&endpoint, "GET", "/metrics", "*/*").0.starts_with("HTTP/1.1 200 OK\r\n"));
    }
}
