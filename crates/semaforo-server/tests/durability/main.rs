//! What was answered is true, whatever becomes of the disk.

mod everything;
mod failed;
mod full;
mod gated;
mod large;
mod preparing;
mod real_disk;
mod slow;
mod small_disk;
#[path = "../support/mod.rs"]
mod support;
mod time;
mod torn;
mod watched;
