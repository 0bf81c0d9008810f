//! What was answered is true, whatever becomes of the disk.

mod full;
mod slow;
mod time;
mod torn;
