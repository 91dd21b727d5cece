//! A network of its own between two servers: packets take as long as the test says. Two network namespaces, each with one end of a wire
//! (a TUN device), and a thread that hands packets from one end to the other.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Addresses of the two ends.
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
/// `TUNSETIFF`, `IFF_TUN | IFF_NO_PI` (include/uapi/linux/if_tun.h).
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUN_WITHOUT_HEADER: libc::c_short = 0x1001;
/// How often a thread checks whether it is to end.
const PATIENCE_MS: libc::c_int = 100;
/// Longer than any packet.
const PACKET: usize = 65_536;

/// See the module. Gone when dropped, with its namespaces once nobody is in them.
#[derive(Debug)]
pub struct Wire {
    namespaces: [File; 2],
    delay_us: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
}

impl Wire {
    /// Makes one that delays nothing; `None`, with a loud message, where there are no TUN devices.
    ///
    /// # Panics
    /// When the kernel has no network namespaces.
    pub fn lay() -> Option<Wire> {
        if !std::path::Path::new("/dev/net/tun").exists() {
            crate::skip("the kernel has no TUN devices");
            return None;
        }
        let wire = [0, 1].map(|end| {
            std::thread::spawn(move || make_end(end))
                .join()
                .expect("a namespace can be made")
        });
        let [(first, one), (second, other)] = wire;
        let (delay_us, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let clone = |file: &File| file.try_clone().expect("a descriptor");
        for (from, to) in [(clone(&one), clone(&other)), (other, one)] {
            let (sender, receiver) = channel();
            let (delay, is_over) = (Arc::clone(&delay_us), Arc::clone(&ends));
            std::thread::spawn(move || take(from, &sender, &delay, &is_over));
            std::thread::spawn(move || give(to, &receiver));
        }
        Some(Wire {
            namespaces: [first, second],
            delay_us,
            ends,
        })
    }

    /// From now on a packet takes so long, in either direction.
    pub fn delay(&self, delay: Duration) {
        self.delay_us.store(delay.as_micros() as u64, Ordering::Relaxed);
    }

    /// The address of an end, 0 or 1.
    pub fn address(&self, end: usize) -> &'static str {
        ADDRESSES[end]
    }

    /// Runs `start` at that end; whatever it starts stays there.
    ///
    /// # Panics
    /// When the thread may not enter the namespace.
    pub fn at<T>(&self, end: usize, start: impl FnOnce() -> T) -> T {
        let home = File::open("/proc/thread-self/ns/net").expect("a namespace");
        enter(&self.namespaces[end]);
        let started = start();
        enter(&home);
        started
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn enter(namespace: &File) {
    // SAFETY: setns has no memory effects.
    let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(entered, 0, "{}", io::Error::last_os_error());
}

/// A namespace with one end of the wire, and the device that its packets are read from and written to.
fn make_end(end: usize) -> (File, File) {
    // SAFETY: unshare has no memory effects; it is this thread's namespace alone that changes.
    let alone = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(alone, 0, "{}", io::Error::last_os_error());
    let namespace = File::open("/proc/thread-self/ns/net").expect("a namespace");
    let tun = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .expect("it is there");
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"wire") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = TUN_WITHOUT_HEADER;
    // SAFETY: the request lives as long as the call, which writes nothing beyond it.
    let made = unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETIFF, &raw mut request) };
    assert_eq!(made, 0, "{}", io::Error::last_os_error());
    let (own, other) = (ADDRESSES[end], ADDRESSES[1 - end]);
    for arguments in [
        &["link", "set", "lo", "up"][..],
        &["address", "add", own, "peer", other, "dev", "wire"],
        &["link", "set", "wire", "up"],
    ] {
        let status = Command::new("ip").args(arguments).status();
        assert!(
            status.as_ref().is_ok_and(std::process::ExitStatus::success),
            "ip {arguments:?}: {status:?}; scripts/deps.sh test installs it"
        );
    }
    (namespace, tun)
}

/// Takes packets off one end, until the wire is gone.
fn take(mut from: File, to: &Sender<(Instant, Vec<u8>)>, delay_us: &AtomicU64, ends: &AtomicBool) {
    let mut packet = vec![0; PACKET];
    while !ends.load(Ordering::Relaxed) {
        let mut waits = libc::pollfd {
            fd: from.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: there is one `pollfd`, which lives as long as the call.
        if unsafe { libc::poll(&raw mut waits, 1, PATIENCE_MS) } <= 0 {
            continue;
        }
        let Ok(bytes) = from.read(&mut packet) else {
            continue;
        };
        let due = Instant::now() + Duration::from_micros(delay_us.load(Ordering::Relaxed));
        if to.send((due, packet[..bytes].to_vec())).is_err() {
            break;
        }
    }
}

/// Gives each to the other end when its time has come, in order.
fn give(mut to: File, from: &Receiver<(Instant, Vec<u8>)>) {
    for (due, packet) in from {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // An end that is full drops packets, as networks do.
        let _ = to.write(&packet);
    }
}
