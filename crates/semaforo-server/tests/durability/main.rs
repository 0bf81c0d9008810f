//! What was answered is true, whatever becomes of the disk.

mod full;
mod large;
mod slow;
#[path = "../support/mod.rs"]
mod support;
mod time;
mod torn;
mod watched;
