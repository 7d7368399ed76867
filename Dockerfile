# The module in the official images. Never built so far: checked by a linter only.
#
#   docker build -t redis-limiters .                       Redis
#   docker build -t valkey-limiters --target valkey .      Valkey
#
# RUST, REDIS and VALKEY choose other tags of the images, as in --build-arg REDIS=8.2.
ARG RUST=1.95-bookworm
ARG REDIS=8
ARG VALKEY=9

FROM rust:${RUST} AS build
# bindgen reads the server's header with libclang, and needs clang's own headers of the same version.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libclang-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN cargo build --release --locked \
    && strip --strip-unneeded target/release/libredis_limiters.so

FROM valkey/valkey:${VALKEY} AS valkey
COPY --from=build --chmod=755 /source/target/release/libredis_limiters.so /usr/lib/redis/modules/
CMD ["valkey-server", "--loadmodule", "/usr/lib/redis/modules/libredis_limiters.so"]

FROM redis:${REDIS} AS redis
COPY --from=build --chmod=755 /source/target/release/libredis_limiters.so /usr/lib/redis/modules/
CMD ["redis-server", "--loadmodule", "/usr/lib/redis/modules/libredis_limiters.so"]
