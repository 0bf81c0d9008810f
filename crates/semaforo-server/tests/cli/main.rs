//! The command line, driven as a person would: the real program against a real server.

mod commands;
mod deaths;
mod evidence;
mod run;
mod support;
mod terminal;
mod tour;
mod work;
