//! The shell: the server's calls come in here, and everything else is called from here.

pub mod api;
mod cell;
mod clock;
mod config;
mod entry;
mod guard;
mod info;
mod keys;
mod leases;
mod queue;
mod replicate;
mod run;
mod top;
