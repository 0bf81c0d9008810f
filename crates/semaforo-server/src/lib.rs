//! Synchronizers by name, for every process and every language: the server, its client and its
//! command line.
//!
//! Data moves one way. [`semaforo_protocol`] knows bytes, [`kernel`] knows neither sockets nor clocks nor files,
//! [`journal`] knows files, [`net`] knows sockets; [`server`] puts them together, [`client`] is the
//! other end, and [`cli`] is what people type.

pub mod cli;
pub mod client;
pub mod journal;
pub mod kernel;
pub mod net;
pub mod server;
