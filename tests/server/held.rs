//! A wall clock that the test holds. The server preloads `heldclock.c`, which reads eight bytes of a mapped file; the
//! test writes them. Expiry and the module then live at exactly that microsecond until the next write. A clock belongs
//! to one test and may hold several servers at once.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

/// Time 0 of the cases: 2026-01-01 00:00:00 UTC, in microseconds since the Unix epoch.
pub const TIME_ZERO_US: i64 = 1_767_225_600_000_000;

/// The file that a server's clock reads, mapped into the test.
#[derive(Clone)]
pub struct HeldClock(Arc<Mapped>);

struct Mapped {
    path: PathBuf,
    cell: AtomicPtr<AtomicI64>,
}

impl HeldClock {
    /// A clock that stands at time 0, its file in `dir`.
    pub fn new(dir: &Path) -> Self {
        let path = dir.join("clock");
        let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        file.set_len(8).unwrap();
        // SAFETY: a fresh mapping of eight bytes of a file of eight bytes, page aligned, kept until drop.
        let cell = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(cell, libc::MAP_FAILED, "the clock's file cannot be mapped");
        let clock = Self(Arc::new(Mapped { path, cell: AtomicPtr::new(cell.cast()) }));
        clock.set_us(0);
        clock
    }

    /// Moves the clock to so many microseconds after time 0.
    pub fn set_us(&self, after_zero_us: i64) {
        // SAFETY: the mapping lives as long as `self`, and both sides only load and store whole words.
        unsafe { &*self.0.cell.load(Ordering::Relaxed) }.store(TIME_ZERO_US + after_zero_us, Ordering::SeqCst);
    }

    /// Moves the clock to so many milliseconds after time 0.
    pub fn set_ms(&self, after_zero_ms: i64) {
        self.set_us(after_zero_ms * 1000);
    }

    pub fn path(&self) -> &Path {
        &self.0.path
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped; nobody holds a reference into it any more.
        unsafe { libc::munmap(self.cell.load(Ordering::Relaxed).cast(), 8) };
    }
}

/// The preloaded library, compiled once per run.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile("heldclock", &["-ldl"]))
}

/// Compiles a C file of this folder into a shared library in the temporary folder of this run.
pub fn compile(name: &str, libraries: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server").join(format!("{name}.c"));
    let target = crate::harness::run_dir().join(format!("{name}.so"));
    let made = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-Wall", "-o"])
        .arg(&target)
        .arg(&source)
        .args(libraries)
        .output()
        .expect("a C compiler named cc");
    assert!(made.status.success(), "cc {}: {}", source.display(), String::from_utf8_lossy(&made.stderr));
    target
}
