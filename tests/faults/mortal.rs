//! A server that a test kills and starts again on the same files, with the module or without.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{kind, module_path, run_dir, wait_for};
use crate::pipe::Pipe;

/// Whether the module is there after a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    With,
    Without,
}

/// The folder of a server and, while it runs, its process.
pub struct Mortal {
    dir: PathBuf,
    config: Vec<String>,
    wrapper: Vec<String>,
    child: Option<Child>,
}

impl Mortal {
    /// A folder and lines of configuration; nothing runs yet.
    pub fn new(config: &[&str]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let dir = run_dir().join(format!("m{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir_all(&dir).unwrap();
        Self { dir, config: config.iter().map(ToString::to_string).collect(), wrapper: vec![], child: None }
    }

    /// Runs the server under another program, such as a checker of memory.
    pub fn under(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(ToString::to_string).collect();
        self
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("s")
    }

    pub fn log(&self) -> String {
        let read = |name: &str| fs::read(self.dir.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&[read("log"), read("stderr")].concat()).into_owned()
    }

    /// Starts the server and waits until it has loaded its files.
    pub fn start(&mut self, module: Module) {
        if let Err(log) = self.try_start(module) {
            panic!("the server ended instead of starting:\n{log}");
        }
    }

    /// One more line of configuration, from the next start on.
    pub fn config(&mut self, line: &str) {
        self.config.push(line.to_owned());
    }

    /// Starts the server; the log if it ended instead.
    pub fn try_start(&mut self, module: Module) -> Result<(), String> {
        self.launch(module);
        let ready = wait_for("the server to load its files", || {
            if self.child.as_mut().expect("launched").try_wait().unwrap().is_some() {
                return Some(false);
            }
            let mut pipe = self.try_pipe()?;
            let answer = pipe.send(&["PING"]).and_then(|()| pipe.receive()).ok()?;
            (answer.to_string() == "PONG").then_some(true)
        });
        if !ready {
            self.child = None;
            return Err(self.log());
        }
        Ok(())
    }

    /// Starts the process and waits for nothing.
    pub fn launch(&mut self, module: Module) {
        assert!(self.child.is_none(), "it runs already");
        let dir = self.dir.display();
        let mut config = format!(
            "port 0\nunixsocket {dir}/s\ndir {dir}\nlogfile {dir}/log\nsave \"\"\nhz 100\nenable-debug-command yes\n\
             enable-module-command yes\n"
        );
        if module == Module::With {
            writeln!(config, "loadmodule {}", module_path().display()).unwrap();
        }
        // A server without the module would not start with a line that it does not know.
        for line in self.config.iter().filter(|line| module == Module::With || !line.starts_with("rl.")) {
            writeln!(config, "{line}").unwrap();
        }
        let file = self.dir.join("redis.conf");
        fs::write(&file, config).unwrap();
        let _ = fs::remove_file(self.socket());
        let server = kind().binary.as_os_str().to_owned();
        let mut command = match self.wrapper.split_first() {
            Some((program, options)) => {
                let mut command = Command::new(program);
                command.args(options).arg(server);
                command
            }
            None => Command::new(server),
        };
        command
            .arg(&file)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.dir.join("stderr")).unwrap());
        // SAFETY: prctl is async-signal-safe. The server dies with the test even when the test cannot drop it.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        self.child = Some(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")));
    }

    /// A connection, if the server listens already.
    pub fn try_pipe(&self) -> Option<Pipe> {
        Pipe::try_open(&self.socket()).ok()
    }

    pub fn pipe(&self) -> Pipe {
        Pipe::open(&self.socket())
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.as_ref().expect("it runs").id()).unwrap()
    }

    /// Kills the process in the middle of whatever it does.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        assert_eq!(child.try_wait().unwrap(), None, "it died by itself:\n{}", self.log());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Stops it as an operator would.
    pub fn stop(&mut self) {
        // SAFETY: signals the child that this value owns and has not yet waited for.
        unsafe { libc::kill(self.pid(), libc::SIGTERM) };
        let mut child = self.child.take().expect("it runs");
        let status = wait_for("the server to stop", || child.try_wait().unwrap());
        assert!(status.success(), "it did not stop well: {status}\n{}", self.log());
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        let died = match &mut self.child {
            Some(child) => {
                let died = child.try_wait().ok().flatten();
                let _ = child.kill();
                let _ = child.wait();
                died
            }
            None => None,
        };
        if std::thread::panicking() {
            eprintln!("--- log of the server in {}\n{}", self.dir.display(), self.log());
        } else if let Some(status) = died {
            panic!("the server died: {status}\n{}", self.log());
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
