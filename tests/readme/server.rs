//! A server of one block, on a port of the loopback, and a `redis-cli` that talks to it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::{self, Server, Setup};

/// Settings that a test replaces by its own, so that it leaves no trace outside its folder and meets nobody.
const REPLACED: &[&str] = &["port", "bind", "dir", "logfile", "pidfile", "unixsocket", "daemonize", "supervised"];

/// A server with the module and nothing else.
pub fn start() -> Server {
    start_with(std::iter::empty())
}

/// A server with the module and some settings.
pub fn start_with<'a>(settings: impl Iterator<Item = &'a str>) -> Server {
    settings.fold(Setup::new().tcp(), Setup::config).start()
}

/// A server with the settings of a document; it must load the module, whose path is that of the module under test.
#[track_caller]
pub fn with_settings(settings: &str) -> Server {
    let lines = settings.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let (module, others): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("loadmodule "));
    assert_eq!(module.len(), 1, "one line loads the module:\n{settings}");
    let kept = others.into_iter().filter(|line| !REPLACED.contains(&line.split(' ').next().unwrap_or_default()));
    kept.fold(Setup::new().tcp(), Setup::config).start()
}

/// A path whose first `redis-cli` talks to this server and prints what it would print on a terminal.
pub fn path_with_cli(server: &Server) -> OsString {
    let dir = server.dir().join("bin");
    let file = dir.join("redis-cli");
    if !file.exists() {
        fs::create_dir_all(&dir).unwrap();
        let (cli, port) = (cli(), server.port());
        let script = format!("#!/bin/sh\nexec '{}' -h 127.0.0.1 -p {port} --no-raw \"$@\"\n", cli.display());
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let old = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(dir).chain(std::env::split_paths(&old))).unwrap()
}

/// Runs one command and answers what redis-cli prints for a program to read.
pub fn ask(server: &Server, words: &[&str]) -> String {
    let port = server.port().to_string();
    let output = Command::new(cli()).args(["-p", &port]).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn cli() -> PathBuf {
    harness::cli().expect("no redis-cli")
}
