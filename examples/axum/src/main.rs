//! A small API behind the layer. `REDIS_URL`, `BIND` and `REDIS_DEADLINE_MS` come from the environment.

mod limit;

use std::env;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use limit::{Limit, LimitLayer, Per, Unavailable};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};

const SEARCH: [Limit; 2] = [
    Limit { name: "search", rule: "SLIDING 5 10s", per: Per::Address, policy: "q=5;w=10" },
    Limit { name: "search-all", rule: "TOKEN 1000 100 1s", per: Per::Everyone, policy: "q=1000;w=10" },
];
const EXPORT: [Limit; 2] = [
    Limit { name: "export", rule: "FIXED 3 1m", per: Per::Address, policy: "q=3;w=60" },
    Limit { name: "export-all", rule: "FIXED 2 1m", per: Per::Everyone, policy: "q=2;w=60" },
];
const HUGE: [Limit; 1] =
    [Limit { name: "huge", rule: "TOKEN 10 1 1s COST 11", per: Per::Address, policy: "q=10;w=10" }];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let deadline = Duration::from_millis(setting("REDIS_DEADLINE_MS", "250").parse()?);
    let config = ConnectionManagerConfig::new()
        // One attempt per failed request that finds none under way; further tries would only make requests wait.
        .set_number_of_retries(0)
        .set_connection_timeout(Some(deadline))
        .set_response_timeout(Some(deadline))
        // A server that hangs is not sent more than this.
        .set_concurrency_limit(1000);
    let client = redis::Client::open(setting("REDIS_URL", "redis://127.0.0.1:6379"))?;
    // Lazy: the application starts, and keeps its failure policy, whether Redis is there or not.
    let db = ConnectionManager::new_lazy_with_config(client, config)?;
    let layer = |limits: &[Limit], unavailable| LimitLayer::new(db.clone(), limits, unavailable, deadline);

    let app = Router::new()
        .route("/search", get(ok).layer(layer(&SEARCH, Unavailable::Open)))
        .route("/export", get(ok).layer(layer(&EXPORT, Unavailable::Closed)))
        .route("/huge", get(ok).layer(layer(&HUGE, Unavailable::Closed)));
    let listener = tokio::net::TcpListener::bind(setting("BIND", "127.0.0.1:8002")).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    Ok(())
}

async fn ok() -> &'static str {
    "ok\n"
}

fn setting(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}
