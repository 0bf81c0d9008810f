//! The command line, driven as a person would: the real program against a real server.

#[path = "../client_support/mod.rs"]
mod client_support;
mod commands;
mod deaths;
mod evidence;
mod logs;
mod quotas;
mod reload;
mod run;
mod secrets;
mod support;
mod terminal;
mod tour;
mod trust;
mod work;
