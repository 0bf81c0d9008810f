//! What was answered is true, whatever becomes of the disk.

mod failed;
mod full;
mod large;
mod slow;
mod small_disk;
#[path = "../support/mod.rs"]
mod support;
mod time;
mod torn;
mod watched;
