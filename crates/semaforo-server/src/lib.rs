//! Synchronizers by name, for every process and every language: the server and its command line.
//!
//! Data moves one way. [`semaforo_protocol`] knows bytes, [`kernel`] knows neither sockets nor
//! clocks nor files, [`journal`] knows files, [`net`] knows sockets; [`server`] puts them together.
//! [`semaforo_client`] is the other end, and [`cli`], which uses it, is what people type.

pub mod cli;
pub mod journal;
pub mod kernel;
pub mod net;
pub mod server;
