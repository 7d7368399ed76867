//! A tower layer: one `RL.ALL` per request, so that all limits of a route admit it or none is charged.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use redis::aio::ConnectionManager;
use serde_json::json;
use tower::{Layer, Service};

/// Whose budget a limit is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Per {
    Address,
    Everyone,
}

/// One limit: its name in keys and header fields (a-z, 0-9, -) and its rule in the module's words.
#[derive(Clone, Copy)]
pub struct Limit {
    pub name: &'static str,
    pub rule: &'static str,
    pub per: Per,
    /// The member of RateLimit-Policy that says this rule: `q=100;w=60`.
    pub policy: &'static str,
}

/// What a route does while Redis cannot be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    Open,
    Closed,
}

#[derive(Clone)]
pub struct LimitLayer {
    db: ConnectionManager,
    limits: Arc<[Limit]>,
    unavailable: Unavailable,
    deadline: Duration,
}

impl LimitLayer {
    pub fn new(db: ConnectionManager, limits: &[Limit], unavailable: Unavailable, deadline: Duration) -> Self {
        Self { db, limits: limits.into(), unavailable, deadline }
    }
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { inner, layer: self.clone() }
    }
}

#[derive(Clone)]
pub struct Limited<S> {
    inner: S,
    layer: LimitLayer,
}

impl<S> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that was polled ready is the one to call; its clone stays behind for the next request.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        Box::pin(async move {
            let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
            let decision = layer.decide(address).await;
            if let Ok(decision) = &decision {
                if !decision.allowed {
                    return Ok(layer.refuse(decision));
                }
            } else if decision == Err(Trouble::Fault) || layer.unavailable == Unavailable::Closed {
                return Ok(layer.undecided());
            }
            let mut response = inner.call(request).await?;
            layer.describe(response.headers_mut(), decision.ok().as_ref());
            Ok(response)
        })
    }
}

/// Why there is no decision: Redis cannot be asked now, or it answered with an error that no waiting mends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    Outage,
    Fault,
}

#[derive(PartialEq, Eq, Debug)]
struct Decision {
    allowed: bool,
    wait_ms: i64,
    rules: Vec<Numbers>,
}

#[derive(PartialEq, Eq, Debug)]
struct Numbers {
    allowed: bool,
    limit: i64,
    remaining: i64,
    wait_ms: i64,
    reset_ms: i64,
}

type Reply = (i64, i64, Vec<(i64, i64, i64, i64, i64)>);

impl LimitLayer {
    async fn decide(&self, address: Option<IpAddr>) -> Result<Decision, Trouble> {
        let mut command = redis::cmd("RL.ALL");
        for limit in self.limits.iter() {
            let whose = match (limit.per, address) {
                (Per::Everyone, _) => "everyone".to_owned(),
                (Per::Address, Some(address)) => whose(address),
                // A route without addresses would give everybody the same budget without saying so.
                (Per::Address, None) => return Err(Trouble::Fault),
            };
            command.arg(format!("axum:{whose}:{}", limit.name)).arg(limit.rule);
        }
        let mut db = self.db.clone();
        // The deadline also covers the wait for a connection that is being made.
        let reply: Reply = match tokio::time::timeout(self.deadline, command.query_async(&mut db)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => {
                eprintln!("limits cannot be checked: {error}");
                return Err(trouble(&error));
            }
            Err(_late) => return Err(Trouble::Outage),
        };
        let (allowed, wait_ms, rules) = reply;
        let rules = rules
            .into_iter()
            .map(|(allowed, limit, remaining, wait_ms, reset_ms)| Numbers {
                allowed: allowed > 0,
                limit,
                remaining,
                wait_ms,
                reset_ms,
            })
            .collect();
        Ok(Decision { allowed: allowed > 0, wait_ms, rules })
    }

    fn describe(&self, headers: &mut HeaderMap, decision: Option<&Decision>) {
        let policy = self.limits.iter().map(|limit| format!("\"{}\";{}", limit.name, limit.policy));
        put(headers, "ratelimit-policy", &policy.collect::<Vec<_>>().join(", "));
        // What is not known is not said.
        let Some(decision) = decision else { return };
        let left = self.limits.iter().zip(&decision.rules).map(|(limit, numbers)| {
            format!("\"{}\";r={};t={}", limit.name, numbers.remaining, seconds_up(numbers.reset_ms))
        });
        put(headers, "ratelimit", &left.collect::<Vec<_>>().join(", "));
        // The trio can speak of one limit only: the tightest.
        if let Some(tightest) = decision.rules.iter().min_by_key(|numbers| (numbers.allowed, numbers.remaining)) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
            put(headers, "x-ratelimit-limit", &tightest.limit.to_string());
            put(headers, "x-ratelimit-remaining", &tightest.remaining.to_string());
            put(headers, "x-ratelimit-reset", &seconds_up(now_ms.saturating_add(tightest.reset_ms)).to_string());
        }
    }

    fn refuse(&self, decision: &Decision) -> Response {
        let over: Vec<_> = self.limits.iter().zip(&decision.rules).filter(|(_, numbers)| !numbers.allowed).collect();
        let names: Vec<_> = over.iter().map(|(limit, _)| limit.name).collect();
        let said: Vec<_> = over.iter().map(|(limit, _)| format!("{} ({})", limit.name, limit.rule)).collect();
        let said = said.join(" and ");
        let waits: Vec<_> = over.iter().map(|(_, numbers)| numbers.wait_ms).collect();
        let mut response = if decision.wait_ms >= 0 {
            let seconds = seconds_up(decision.wait_ms).max(1);
            let detail = format!("This request would exceed {said}. No limit was charged. Try again in {seconds} s.");
            let mut response = problem(StatusCode::TOO_MANY_REQUESTS, "quota-exceeded", &detail, &names, &waits);
            put(response.headers_mut(), "retry-after", &seconds.to_string());
            response
        } else {
            let nothing = over.iter().any(|(_, numbers)| numbers.limit == 0);
            let status = if nothing { StatusCode::FORBIDDEN } else { StatusCode::UNPROCESSABLE_ENTITY };
            problem(status, "", &format!("{said} never admits this request. No wait helps."), &names, &waits)
        };
        self.describe(response.headers_mut(), Some(decision));
        response
    }

    fn undecided(&self) -> Response {
        let names: Vec<_> = self.limits.iter().map(|limit| limit.name).collect();
        let detail = "The limits of this route cannot be checked at the moment, and it stays shut till then.";
        let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, "temporary-reduced-capacity", detail, &names, &[]);
        put(response.headers_mut(), "retry-after", "1");
        self.describe(response.headers_mut(), None);
        response
    }
}

fn trouble(error: &redis::RedisError) -> Trouble {
    // Errors of the server that pass without anybody changing a program or a key. All its other errors are faults.
    const PASSING: [&str; 9] =
        ["LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "OOM", "MISCONF", "NOREPLICAS"];
    let passes = error.is_io_error() || error.code().is_some_and(|code| PASSING.contains(&code));
    if passes { Trouble::Outage } else { Trouble::Fault }
}

/// The part of an address that one customer has: all of an IPv4 address, the /64 of an IPv6 address.
fn whose(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

fn problem(status: StatusCode, kind: &str, detail: &str, names: &[&str], waits_ms: &[i64]) -> Response {
    let kind = match kind {
        "" => "about:blank".to_owned(),
        kind => format!("https://iana.org/assignments/http-problem-types#{kind}"),
    };
    let title = status.canonical_reason();
    let body = json!({"type": kind, "title": title, "status": status.as_u16(), "detail": detail,
        "violated-policies": names, "waits_ms": waits_ms});
    let mut response = (status, body.to_string()).into_response();
    put(response.headers_mut(), "content-type", "application/problem+json");
    put(response.headers_mut(), "cache-control", "no-store");
    response
}

/// Milliseconds to whole seconds, rounded up: whoever waits that long does not come too early.
fn seconds_up(ms: i64) -> i64 {
    ms.max(0).saturating_add(999) / 1000
}

fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
