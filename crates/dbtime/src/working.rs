//! What dbtime is doing with its input, and for how long: a line on a terminal, if it takes longer than a moment.
//!
//! There is one such line. It disappears when something else is printed.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dbtime_report::printable;

/// How often it is redrawn; what takes less time is not shown.
const STEP: Duration = Duration::from_secs(1);

static SHOWN: Mutex<Option<Working>> = Mutex::new(None);

struct Working {
    is_over: Arc<(Mutex<bool>, Condvar)>,
    thread: JoinHandle<()>,
}

/// Something begins, replacing what was shown before: in words such as `adding up`.
pub fn begin(what: &str) {
    end();
    if !io::stderr().is_terminal() {
        return;
    }
    let is_over = Arc::new((Mutex::new(false), Condvar::new()));
    let what = printable(what).into_owned();
    let seen = Arc::clone(&is_over);
    let thread = std::thread::Builder::new().name("working".to_string());
    // Without a thread nothing is shown.
    if let Ok(thread) = thread.spawn(move || tell(&what, &seen)) {
        *shown() = Some(Working { is_over, thread });
    }
}

/// It is done.
pub fn end() {
    let working = shown().take();
    if let Some(Working { is_over, thread }) = working {
        *is_over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        is_over.1.notify_one();
        // It does not panic.
        let _ = thread.join();
    }
}

fn shown() -> std::sync::MutexGuard<'static, Option<Working>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell(what: &str, (is_over, changed): &(Mutex<bool>, Condvar)) {
    let begin = Instant::now();
    let mut is_drawn = false;
    let mut over = is_over.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        (over, _) = changed
            .wait_timeout_while(over, STEP, |over| !*over)
            .unwrap_or_else(PoisonError::into_inner);
        if *over {
            break;
        }
        is_drawn = true;
        let _ = write!(io::stderr(), "\r\x1b[K{what} … {} s", begin.elapsed().as_secs());
    }
    if is_drawn {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}
