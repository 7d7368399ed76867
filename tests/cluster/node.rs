//! One server process that listens on the loopback: a primary, a replica, a node of a cluster or a sentinel.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::client::Conn;
use crate::harness::{free_port, kind, module_path, run_dir, wait_for};
use crate::info;

/// What the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A server that has the module.
    Limiting,
    /// A server without it.
    Bare,
    Sentinel,
}

/// A running process and its folder. Dropping it kills it.
pub struct Node {
    dir: PathBuf,
    port: u16,
    bus: u16,
    child: Option<Child>,
}

impl Node {
    /// Starts a server with these lines of configuration, in which `BUS` stands for a second free port.
    pub fn start(role: Role, config: &[String]) -> Self {
        let mut refusals = String::new();
        for _ in 0..5 {
            match Self::try_start(role, config) {
                Ok(node) => return node,
                // Somebody else may have taken a port in between; anything else fails at once.
                Err(log) if log.contains("listening") => refusals.push_str(&log),
                Err(log) => panic!("the server did not start:\n{log}"),
            }
        }
        panic!("no free port:\n{refusals}");
    }

    fn try_start(role: Role, config: &[String]) -> Result<Self, String> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let dir = run_dir().join(format!("n{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir_all(&dir).unwrap();
        let (port, bus) = (free_port(), free_port());
        let path = dir.display();
        let mut lines = vec![
            format!("port {port}\nbind 127.0.0.1\nunixsocket {path}/s\ndir {path}\nlogfile {path}/log"),
            "save \"\"".to_owned(),
        ];
        if role != Role::Sentinel {
            lines.push("hz 100\nrepl-diskless-sync-delay 0".to_owned());
        }
        if role == Role::Limiting {
            lines.push(format!("loadmodule {}", module_path().display()));
        }
        lines.extend(config.iter().map(|line| line.replace("BUS", &bus.to_string())));
        let file = dir.join("conf");
        fs::write(&file, lines.join("\n") + "\n").unwrap();
        let mut command = Command::new(&kind().binary);
        command.arg(&file).args((role == Role::Sentinel).then_some("--sentinel"));
        command.current_dir(&dir).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(dir.join("stderr")).unwrap());
        // SAFETY: prctl is async-signal-safe. The server dies with the test even when the test cannot drop it.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().unwrap_or_else(|e| panic!("{:?}: {e}", kind().binary));
        let mut node = Self { dir, port, bus, child: Some(child) };
        let answers = wait_for("a server to answer", || {
            if node.child.as_mut()?.try_wait().unwrap().is_some() {
                return Some(false);
            }
            Conn::answers(&node.socket()).then_some(true)
        });
        if answers {
            return Ok(node);
        }
        node.child = None;
        Err(node.log())
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of the cluster's bus.
    pub fn bus(&self) -> u16 {
        self.bus
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("s")
    }

    /// A connection of the test's own.
    pub fn conn(&self) -> Conn {
        Conn::open(&self.socket()).unwrap_or_else(|e| panic!("no connection: {e}\n{}", self.log()))
    }

    pub fn alive(&self) -> bool {
        self.child.is_some()
    }

    pub fn is_primary(&self) -> bool {
        info::field(&info::info(&mut self.conn(), "replication"), "role") == "master"
    }

    /// Whether it is a replica that follows its primary.
    pub fn follows(&self) -> bool {
        let text = info::info(&mut self.conn(), "replication");
        info::field(&text, "role") == "slave" && info::field(&text, "master_link_status") == "up"
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.as_ref().expect("it runs").id()).unwrap()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: signals the child that this value owns and has not yet waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// Kills the process in the middle of whatever it does.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        assert_eq!(child.try_wait().unwrap(), None, "it died by itself:\n{}", self.log());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Stops the process where it stands, and lets it go on.
    pub fn freeze(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub fn thaw(&self) {
        self.signal(libc::SIGCONT);
    }

    pub fn log(&self) -> String {
        let read = |name: &str| fs::read(self.dir.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&[read("log"), read("stderr")].concat()).into_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut died = None;
        if let Some(child) = &mut self.child {
            died = child.try_wait().ok().flatten();
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            eprintln!("--- the end of the log of port {}", self.port);
            eprintln!("{}", lines[lines.len().saturating_sub(25)..].join("\n"));
        } else if let Some(status) = died {
            panic!("the server died: {status}\n{}", self.log());
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
