//! Answers requests for the counters, by HTTP. Anyone who can connect can ask anything, so there are limits on what is read of a request,
//! how long it may take, and how many run at a time.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Context;
use dbtime_collect::give_up_all_privileges;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

use super::counters::Counters;

/// Requests answered at a time; others wait.
const MOST_AT_A_TIME: usize = 64;
/// From the connection to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// From the connection to the end of the request: a client that fetches counters sends it at once.
const PATIENCE_TO_ASK: Duration = Duration::from_secs(1);
/// Bytes of a request that are read.
const MOST_BYTES: usize = 16 * 1024;
/// After a connection that could not be accepted, for example with too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// The content type by which Prometheus recognises the format.
const TEXT_FORMAT: HeaderValue = HeaderValue::from_static(prometheus::TEXT_FORMAT);
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// An address to listen on.
pub(super) struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

impl Endpoint {
    /// # Errors
    /// It is in use, or not an address of this host.
    pub(super) fn bind(address: SocketAddr) -> anyhow::Result<Endpoint> {
        let listen = || -> io::Result<Endpoint> {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Endpoint { listener, address })
        };
        listen().with_context(|| format!("cannot listen on {address}: choose another address with --listen"))
    }

    /// Where the counters are.
    pub(super) fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Answers from now on, in its own thread without privileges, until the process ends.
    ///
    /// # Errors
    /// The thread cannot be started, or its privileges cannot be dropped.
    pub(super) fn serve(self, counters: Arc<Counters>) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context("cannot start the thread that answers requests")?;
        let (tell, told) = channel();
        std::thread::Builder::new()
            .name("metrics".to_string())
            .spawn(move || {
                let given_up = give_up_all_privileges();
                let may_answer = given_up.is_ok();
                // The caller waits for this.
                let _ = tell.send(given_up);
                if may_answer {
                    runtime.block_on(answer_all(self.listener, counters));
                }
            })
            .context("cannot start the thread that answers requests")?;
        told.recv()
            .context("cannot start the thread that answers requests")??;
        Ok(())
    }
}

async fn answer_all(listener: TcpListener, counters: Arc<Counters>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let room = Arc::new(Semaphore::new(MOST_AT_A_TIME));
    while let Ok(turn) = Arc::clone(&room).acquire_owned().await {
        let Ok((connection, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let counters = Arc::clone(&counters);
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let response = answer(&request, &counters);
                async move { Ok::<_, Infallible>(response) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE_TO_ASK)
                .max_buf_size(MOST_BYTES)
                .keep_alive(false)
                .serve_connection(TokioIo::new(connection), answer);
            // A client that disconnects, sends nonsense or takes too long gets no answer; there is nobody else to tell.
            let _ = tokio::time::timeout(PATIENCE, served).await;
            drop(turn);
        });
    }
}

fn answer(request: &Request<Incoming>, counters: &Counters) -> Response<String> {
    let (status, format, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => match counters.text() {
            Ok(text) => (StatusCode::OK, TEXT_FORMAT, text),
            Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{e}\n")),
        },
        (&Method::GET | &Method::HEAD, _) => {
            let body = "dbtime's counters are at /metrics\n".to_string();
            (StatusCode::NOT_FOUND, PLAIN, body)
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, String::new()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, format);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
