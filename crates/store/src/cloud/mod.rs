//! A store in a cloud's object store: S3 and compatible, Google's, Azure's. The only place that deals with HTTP and async code. What all
//! clouds have in common is here; how each is opened is in a file of its own.

mod answer;
mod azure;
mod credentials;
mod google;
mod s3;

use std::fmt;
use std::future::Future;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{ClientConfigKey, Error, ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::objects::{Entry, Objects, too_large};

/// Time limit for connecting.
const NO_CONNECTION: Duration = Duration::from_secs(5);
/// Time limit for a server that has accepted a request but sends nothing.
const SILENCE: Duration = Duration::from_secs(15);
/// Time limit of a request, answer included: the largest object at 1 Mbit/s.
const LONGEST_REQUEST: Duration = Duration::from_secs(600);
/// Bytes per second at 1 Mbit/s.
const SLOWEST: u64 = 125_000;
/// How often a request is repeated after a server error, or without an answer.
const TRIES: usize = 4;
/// It is not repeated after that.
const TRIED_FOR: Duration = Duration::from_secs(30);

/// Whose object store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cloud {
    /// Amazon's, and all compatible ones.
    S3,
    Google,
    Azure,
}

impl Cloud {
    pub(crate) const ALL: [Cloud; 3] = [Cloud::S3, Cloud::Google, Cloud::Azure];

    /// What addresses begin with.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Cloud::S3 => "s3",
            Cloud::Google => "gs",
            Cloud::Azure => "az",
        }
    }
}

/// Clients for a bucket, before the first request.
struct Opened {
    /// For all but uploads: gives up soon if the server is silent.
    store: Box<dyn ObjectStore>,
    /// For uploads: the server is silent while an object is being sent.
    uploads: Box<dyn ObjectStore>,
    /// Where credentials were looked for, if there are none.
    missing_credentials: Option<&'static str>,
}

/// Sets an option of a client's builder.
type Set<B> = fn(B, ClientConfigKey, String) -> B;

impl Opened {
    /// From a builder that only lacks timeouts.
    fn new<B: Clone, S: ObjectStore>(
        builder: B,
        set: Set<B>,
        build: fn(B) -> Result<S, Error>,
        missing_credentials: Option<&'static str>,
    ) -> io::Result<Opened> {
        let seconds = |time: Duration| format!("{} seconds", time.as_secs());
        let builder = set(builder, ClientConfigKey::ConnectTimeout, seconds(NO_CONNECTION));
        let builder = set(builder, ClientConfigKey::Timeout, seconds(LONGEST_REQUEST));
        let with_silence = set(builder.clone(), ClientConfigKey::ReadTimeout, seconds(SILENCE));
        Ok(Opened {
            store: Box::new(build(with_silence).map_err(io_error)?),
            uploads: Box::new(build(builder).map_err(io_error)?),
            missing_credentials,
        })
    }
}

/// Objects in a bucket.
pub(crate) struct Bucket {
    cloud: Opened,
    /// All names of objects of the store begin with this.
    prefix: String,
    address: String,
    handle: Handle,
    /// Dropped first: ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Only the address: credentials are never printed.
impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl Bucket {
    /// Sends no request yet.
    pub(crate) fn open(cloud: Cloud, bucket: &str, prefix: &str, address: &str) -> io::Result<Bucket> {
        // Fails if a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let cloud = match cloud {
            Cloud::S3 => s3::open(bucket),
            Cloud::Google => google::open(bucket),
            Cloud::Azure => azure::open(bucket),
        }?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("dbtime-store".to_string())
            .spawn(move || {
                // Ends when the other end is dropped.
                let _ = runtime.block_on(stopped);
            })?;
        Ok(Bucket {
            cloud,
            prefix: prefix.to_string(),
            address: address.to_string(),
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Several threads may wait at a time.
    fn wait<T>(&self, work: impl Future<Output = Result<T, Error>>) -> io::Result<T> {
        let done = self.handle.block_on(work);
        done.map_err(io_error)
            .map_err(|e| match (e.kind(), self.cloud.missing_credentials) {
                (io::ErrorKind::NotFound, _) | (_, None) => e,
                (kind, Some(places)) => io::Error::new(kind, format!("{e}; no credentials are in {places}")),
            })
    }

    fn path(&self, path: &str) -> io::Result<Path> {
        let path = match (self.prefix.as_str(), path) {
            ("", path) => path.to_string(),
            (prefix, "") => prefix.to_string(),
            (prefix, path) => format!("{prefix}/{path}"),
        };
        Path::parse(path).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
    }

    /// The name of an object without the prefix.
    fn without_prefix(&self, path: &Path) -> Option<String> {
        let path = path.as_ref();
        match self.prefix.as_str() {
            "" => Some(path.to_string()),
            prefix => path.strip_prefix(prefix)?.strip_prefix('/').map(str::to_string),
        }
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Objects for Bucket {
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let prefix = self.path(folder)?;
        let listed: Vec<_> = self.wait(self.cloud.store.list(Some(&prefix)).try_collect())?;
        let entry = |meta: object_store::ObjectMeta| {
            Some(Entry {
                path: self.without_prefix(&meta.location)?,
                bytes: meta.size,
            })
        };
        let mut found: Vec<Entry> = listed.into_iter().filter_map(entry).collect();
        found.sort_unstable();
        Ok(found)
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        let prefix = self.path(folder)?;
        let listed = self.wait(self.cloud.store.list_with_delimiter(Some(&prefix)))?;
        let mut names: Vec<String> = listed
            .common_prefixes
            .iter()
            .filter_map(|path| path.parts().next_back().map(|name| name.as_ref().to_string()))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn length(&self, path: &str) -> io::Result<Option<u64>> {
        let path = self.path(path)?;
        match self.wait(self.cloud.store.head(&path)) {
            Ok(meta) => Ok(Some(meta.size)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn get(&self, path: &str, most: u64) -> io::Result<Bytes> {
        let path = self.path(path)?;
        let read = async {
            let found = self.cloud.store.get(&path).await?;
            let length = found.meta.size;
            if length > most {
                return Ok(Err(length));
            }
            let mut parts = found.into_stream();
            let mut bytes = BytesMut::with_capacity(usize::try_from(length).unwrap_or(0));
            // The announced length is not trusted.
            while let Some(part) = parts.try_next().await? {
                if (bytes.len() + part.len()) as u64 > most {
                    return Ok(Err(most + 1));
                }
                bytes.extend_from_slice(&part);
            }
            Ok(Ok(bytes.freeze()))
        };
        self.wait(read)?.map_err(|length| too_large(length, most))
    }

    fn put(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        let path = self.path(path)?;
        let longest = TRIED_FOR + Duration::from_secs(bytes.len() as u64 / SLOWEST);
        self.wait(async {
            let put = self.cloud.uploads.put(&path, bytes.into());
            match tokio::time::timeout(longest, put).await {
                Ok(put) => put.map(Ok),
                Err(_) => Ok(Err(longest)),
            }
        })?
        .map(drop)
        .map_err(|longest| {
            let seconds = longest.as_secs();
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the server did not accept it within {seconds} seconds"),
            )
        })
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.path(path)?;
        match self.wait(self.cloud.store.delete(&path)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn is_near(&self) -> bool {
        false
    }

    fn address(&self) -> &str {
        &self.address
    }
}

fn retries() -> RetryConfig {
    RetryConfig {
        max_retries: TRIES,
        retry_timeout: TRIED_FOR,
        ..RetryConfig::default()
    }
}

/// The matching kind, and the text of the error and its causes.
fn io_error(error: Error) -> io::Error {
    let kind = match &error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        Error::NotSupported { .. } | Error::NotImplemented { .. } => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    // The cause is what a user needs: a certificate, an unknown host name.
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    let mut kind = kind;
    while let Some(e) = cause {
        if e.downcast_ref().map(HttpError::kind) == Some(HttpErrorKind::Timeout) {
            kind = io::ErrorKind::TimedOut;
        }
        let what = e.to_string();
        if !text.contains(&what) {
            text = format!("{text}: {what}");
        }
        cause = e.source();
    }
    let answer::Said { mut text, kind } = answer::said(&text, kind);
    if kind == io::ErrorKind::TimedOut {
        let (silence, connection) = (SILENCE.as_secs(), NO_CONNECTION.as_secs());
        text = format!(
            "the server does not answer (timeouts: {connection} seconds to accept a connection, {silence} for the \
            next part of an answer): {text}"
        );
    }
    io::Error::new(kind, text)
}
