//! Servers of one test: started on a unix socket in a folder of their own, waited for with a bound, killed on drop.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Conn;
use crate::held::{self, HeldClock};

/// The longest that any wait of a test may take before it fails. Far above what a busy machine needs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Prints past the capture of the test runner: figures, and the names of what is skipped.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Polls until `ready` answers something, or fails naming what it waited for.
#[track_caller]
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Which server the binary is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    pub binary: PathBuf,
    pub valkey: bool,
    pub version: (u32, u32, u32),
}

impl Kind {
    /// At least this version of Redis, or any Valkey (all of which came after Redis 7.2).
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        self.valkey || (self.version.0, self.version.1) >= (major, minor)
    }

    /// Valkey 9 advances its clock from the processor's counter: no preloaded clock holds it.
    pub fn can_be_held(&self) -> bool {
        !(self.valkey && self.version.0 >= 9)
    }

    pub fn name(&self) -> String {
        let (major, minor, patch) = self.version;
        format!("{} {major}.{minor}.{patch}", if self.valkey { "valkey" } else { "redis" })
    }
}

/// The server under test, asked for its version once.
pub fn kind() -> &'static Kind {
    static KIND: OnceLock<Kind> = OnceLock::new();
    KIND.get_or_init(|| {
        let binary = server_binary();
        let shown = Command::new(&binary).arg("--version").output().unwrap_or_else(|e| panic!("{binary:?}: {e}"));
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        let number = text.split("v=").nth(1).and_then(|rest| rest.split_whitespace().next());
        let mut parts = number.unwrap_or_else(|| panic!("no version in {text:?}")).split(['.', '-']).map(str::parse);
        let mut part = || parts.next().and_then(Result::ok).unwrap_or(0);
        let kind = Kind { binary, valkey: text.starts_with("Valkey"), version: (part(), part(), part()) };
        say(&format!("server under test: {} ({})", kind.name(), kind.binary.display()));
        kind
    })
}

/// `RL_SERVER`, else the cached Redis 7.0, else a redis-server on the path, else Debian's redis-check-rdb, which is the
/// same program under another name.
fn server_binary() -> PathBuf {
    if let Some(told) = std::env::var_os("RL_SERVER") {
        return PathBuf::from(told);
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let cached = cache.map(|dir| dir.join("redis-limiters/servers/redis-7.0/redis-server"));
    if let Some(binary) = cached.filter(|path| path.exists()).or_else(|| on_path("redis-server")) {
        return binary;
    }
    let twin =
        on_path("redis-check-rdb").expect("no redis-server: set RL_SERVER, or install redis-server or redis-tools");
    let binary = run_dir().join("redis-server");
    std::os::unix::fs::symlink(twin, &binary).unwrap();
    binary
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// redis-cli beside the server, else on the path.
pub fn cli() -> Option<PathBuf> {
    let beside = kind().binary.with_file_name("redis-cli");
    Some(beside).filter(|path| path.exists()).or_else(|| on_path("redis-cli"))
}

/// The module under test.
pub fn module_path() -> PathBuf {
    built("RL_MODULE", "target/release/libredis_limiters.so")
}

/// The module built with the feature `inject-panic`.
pub fn panicking_module_path() -> PathBuf {
    built("RL_MODULE_PANIC", "target/inject-panic/release/libredis_limiters.so")
}

fn built(variable: &str, default: &str) -> PathBuf {
    let told = std::env::var_os(variable).map(PathBuf::from);
    let path = told.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(default));
    assert!(path.exists(), "{} is not built; build it or set {variable}", path.display());
    path.canonicalize().unwrap()
}

static RUN_DIR: OnceLock<PathBuf> = OnceLock::new();

/// The temporary folder of this run, removed when the process exits. Its name is short: a unix socket's path may be.
pub fn run_dir() -> &'static Path {
    RUN_DIR.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("rl-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        // SAFETY: registers a plain function; it runs after the tests, when no server is left.
        unsafe { libc::atexit(remove_run_dir) };
        dir
    })
}

extern "C" fn remove_run_dir() {
    if let Some(dir) = RUN_DIR.get() {
        let _ = fs::remove_dir_all(dir);
    }
}

fn new_dir() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let dir = run_dir().join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// What a server is started with. The default: the module, the real clock, no port, no persistence.
#[derive(Clone)]
pub struct Setup {
    module: Option<fn() -> PathBuf>,
    clock: Option<HeldClock>,
    tcp: bool,
    config: Vec<String>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
}

impl Setup {
    pub fn new() -> Self {
        Self { module: Some(module_path), clock: None, tcp: false, config: vec![], env: vec![], dir: None }
    }

    /// A server whose clock the test holds; `None`, after printing the test's name, where the server cannot be held.
    pub fn held(test: &str) -> Option<Self> {
        if !kind().can_be_held() {
            say(&format!("SKIPPED {test}: the clock of {} cannot be held", kind().name()));
            return None;
        }
        let dir = new_dir();
        let clock = HeldClock::new(&dir);
        Some(Self { clock: Some(clock), dir: Some(dir), ..Self::new() })
    }

    /// The same clock for one more server, which gets a folder of its own.
    pub fn beside(server: &Server) -> Self {
        Self { clock: server.setup.clock.clone(), ..Self::new() }
    }

    pub fn without_module(self) -> Self {
        Self { module: None, ..self }
    }

    /// The build that panics on demand, at the entry point named.
    pub fn panicking_at(self, entry: &str) -> Self {
        Self { module: Some(panicking_module_path), ..self }.env("RL_INJECT_PANIC", entry)
    }

    /// Listens on a free port of the loopback as well: a replica or a cluster needs one.
    pub fn tcp(self) -> Self {
        Self { tcp: true, ..self }
    }

    /// One more line of the configuration file.
    pub fn config(mut self, line: &str) -> Self {
        self.config.push(line.to_owned());
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// An append-only file whose text can be read back at once.
    pub fn aof(self) -> Self {
        self.config("appendonly yes").config("appendfsync no").config("auto-aof-rewrite-percentage 0")
    }

    pub fn replica_of(self, primary: &Server) -> Self {
        self.config(&format!("replicaof 127.0.0.1 {}", primary.port()))
    }

    pub fn start(self) -> Server {
        Server::start(self)
    }
}

/// A running server. Dropping it kills it; a test that ends well also fails if the server had died before.
pub struct Server {
    child: Child,
    setup: Setup,
    dir: PathBuf,
    port: Option<u16>,
    stopped: bool,
}

impl Server {
    fn start(setup: Setup) -> Self {
        let dir = setup.dir.clone().unwrap_or_else(new_dir);
        let mut refusals = String::new();
        for _ in 0..5 {
            let port = setup.tcp.then(free_port);
            match Self::try_start(&setup, &dir, port) {
                Ok(server) => return server,
                // Somebody else may have taken the port in between; anything else fails at once.
                Err(log) if port.is_some() && log.contains("listening socket") => refusals.push_str(&log),
                Err(log) => panic!("the server did not start:\n{log}"),
            }
        }
        panic!("no free port:\n{refusals}");
    }

    fn try_start(setup: &Setup, dir: &Path, port: Option<u16>) -> Result<Self, String> {
        let socket = dir.join("s");
        assert!(socket.as_os_str().len() < 100, "{socket:?} is too long for a unix socket: set TMPDIR");
        let _ = fs::remove_file(&socket);
        // The link's time-out is put out of reach: a held clock may jump by days.
        let mut config = format!(
            "port {}\nbind 127.0.0.1\nunixsocket {}\ndir {}\nlogfile {}\nsave \"\"\nhz 100\nrepl-timeout 2000000000\n\
             enable-debug-command yes\nenable-module-command yes\nrepl-diskless-sync-delay 0\n",
            port.unwrap_or(0),
            socket.display(),
            dir.display(),
            dir.join("log").display(),
        );
        if let Some(module) = &setup.module {
            writeln!(config, "loadmodule {}", module().display()).unwrap();
        }
        for line in &setup.config {
            writeln!(config, "{line}").unwrap();
        }
        let file = dir.join("redis.conf");
        // A restart reads the file that CONFIG REWRITE may have left.
        if !file.exists() {
            fs::write(&file, config).unwrap();
        }
        let mut command = Command::new(&kind().binary);
        command.arg(&file).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(dir.join("stderr")).unwrap());
        if let Some(clock) = &setup.clock {
            command.env("LD_PRELOAD", held::library()).env("HELDCLOCK", clock.path());
        }
        command.envs(setup.env.iter().map(|(name, value)| (name, value)));
        // SAFETY: prctl is async-signal-safe. The server dies with the test even when the test cannot drop it.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().unwrap_or_else(|e| panic!("{:?}: {e}", kind().binary));
        let mut server = Self { child, setup: setup.clone(), dir: dir.to_owned(), port, stopped: false };
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(Some(status)) = server.child.try_wait() {
                server.stopped = true;
                return Err(format!("{status}\n{}", server.log()));
            }
            if Conn::answers(&server.socket()) {
                return Ok(server);
            }
            assert!(Instant::now() < deadline, "the server does not answer:\n{}", server.log());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Files and sockets that the server's process holds open.
    pub fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("s")
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn port(&self) -> u16 {
        self.port.expect("this server was not started with a port")
    }

    /// A connection that speaks RESP2.
    pub fn conn(&self) -> Conn {
        Conn::open(&self.socket()).unwrap_or_else(|e| panic!("no connection: {e}\n{}", self.log()))
    }

    /// A connection that speaks RESP3.
    pub fn conn3(&self) -> Conn {
        Conn::open3(&self.socket()).unwrap_or_else(|e| panic!("no connection: {e}\n{}", self.log()))
    }

    pub fn clock(&self) -> &HeldClock {
        self.setup.clock.as_ref().expect("this server's clock is not held")
    }

    /// Moves the held clock to so many milliseconds after time 0.
    pub fn at_ms(&self, after_zero_ms: i64) {
        self.clock().set_ms(after_zero_ms);
    }

    pub fn log(&self) -> String {
        let read = |name: &str| fs::read(self.dir.join(name)).unwrap_or_default();
        let text = [read("log"), read("stderr")].concat();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Stops the server as an operator would, keeping its files.
    pub fn stop(&mut self) {
        if !self.stopped {
            // SAFETY: signals the child that this value owns and has not yet waited for.
            unsafe { libc::kill(i32::try_from(self.child.id()).unwrap(), libc::SIGTERM) };
            let status = wait_for("the server to stop", || self.child.try_wait().unwrap());
            self.stopped = true;
            assert!(status.success(), "the server did not stop well: {status}\n{}", self.log());
        }
    }

    /// Stops the server and starts it again on the same files. `change` may alter how; the configuration file is
    /// written anew unless `keep_config`.
    pub fn restart(mut self, keep_config: bool, change: impl FnOnce(Setup) -> Setup) -> Self {
        self.stop();
        if !keep_config {
            fs::remove_file(self.dir.join("redis.conf")).unwrap();
        }
        let setup = Setup { dir: Some(self.dir.clone()), ..self.setup.clone() };
        let server = Self::start(change(setup));
        self.dir = PathBuf::new();
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let died = if self.stopped { None } else { self.child.try_wait().ok().flatten() };
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            // Captured by the test runner and shown with the failed test.
            eprintln!("--- log of the server in {}\n{}", self.dir.display(), telling(&self.log()));
        } else if let Some(status) = died {
            panic!("the server died: {status}\n{}", telling(&self.log()));
        }
        if !self.dir.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// The part of a log that tells most: the beginning of a crash report, else the last lines.
fn telling(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    let crash = lines.iter().position(|line| line.contains("BUG REPORT") || line.contains("ASSERTION FAILED"));
    let from = crash.unwrap_or(lines.len().saturating_sub(20));
    lines[from..].iter().take(60).copied().collect::<Vec<_>>().join("\n")
}

/// A port of the loopback that nobody listens on right now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
