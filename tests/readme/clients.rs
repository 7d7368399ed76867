//! The Redis clients of other languages, fetched once into the user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How long a client that could not be had is not asked for again.
const PAUSE: Duration = Duration::from_secs(24 * 3600);

/// The Java client's coordinates, for Maven.
const POM: &str = include_str!("pom.xml");

/// A folder with redis-py in a virtual environment.
pub fn python() -> Result<PathBuf, String> {
    cached("python", |dir| {
        run(Command::new("python3").args(["-m", "venv"]).arg(dir))?;
        run(Command::new(dir.join("bin/python")).args(["-m", "pip", "install", "--quiet", "redis>=5,<9"]))
    })
}

/// A folder whose `node_modules` holds the package redis.
pub fn node() -> Result<PathBuf, String> {
    there_is("node")?;
    cached("node", |dir| {
        fs::write(dir.join("package.json"), "{\"private\": true}\n").map_err(|e| e.to_string())?;
        run(Command::new("npm").args(["install", "--silent", "--no-audit", "--no-fund", "redis@6"]).current_dir(dir))
    })
}

/// A folder with the `go.mod` and `go.sum` of a module that uses go-redis.
pub fn go() -> Result<PathBuf, String> {
    there_is("go")?;
    cached("go", |dir| {
        run(Command::new("go").args(["mod", "init", "readme"]).current_dir(dir))?;
        run(Command::new("go").args(["get", "github.com/redis/go-redis/v9"]).current_dir(dir))
    })
}

/// A folder with the jars of Jedis and of what it needs.
pub fn java() -> Result<PathBuf, String> {
    there_is("java")?;
    cached("java", |dir| {
        there_is("mvn")?;
        fs::write(dir.join("pom.xml"), POM).map_err(|e| e.to_string())?;
        let mut maven = Command::new("mvn");
        run(maven
            .args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=."])
            .current_dir(dir))
    })
}

/// A folder of the cache, filled by `fetch` unless it is there already.
fn cached(name: &str, fetch: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home);
    let base = cache.ok_or("there is no home folder for a cache")?.join("redis-limiters/clients");
    let dir = base.join(name);
    if dir.exists() {
        return Ok(dir);
    }
    let refusal = base.join(format!("{name}.unavailable"));
    let young = |path: &Path| {
        let changed = fs::metadata(path).and_then(|data| data.modified()).ok()?;
        (SystemTime::now().duration_since(changed).ok()? < PAUSE).then_some(())
    };
    if young(&refusal).is_some() {
        return Err(fs::read_to_string(&refusal).unwrap_or_default());
    }
    // Made under another name and moved, so that a half-made folder is never believed.
    let building = base.join(format!("{name}.{}", std::process::id()));
    fs::create_dir_all(&building).map_err(|e| e.to_string())?;
    let outcome = fetch(&building).and_then(|()| match fs::rename(&building, &dir) {
        Err(error) if !dir.exists() => Err(error.to_string()),
        _ => Ok(()),
    });
    let _ = fs::remove_dir_all(&building);
    if let Err(reason) = outcome {
        let _ = fs::write(&refusal, &reason);
        return Err(reason);
    }
    let _ = fs::remove_file(&refusal);
    Ok(dir)
}

fn there_is(program: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if found { Ok(()) } else { Err(format!("there is no {program}")) }
}

/// Runs a command; an error says which program failed and how its complaint begins.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let shown: String = first.chars().filter(|c| !c.is_control()).take(100).collect();
    Err(format!("{program} failed: {shown}"))
}
