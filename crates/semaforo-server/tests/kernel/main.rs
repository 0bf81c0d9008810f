//! What the kernel decides, seen from outside.

mod barriers;
mod budget;
mod charges;
mod connections;
mod events;
mod latches;
mod leaving;
mod limits;
mod locks;
mod many;
mod model;
mod open_semaphores;
mod properties;
mod queues;
mod resizing;
mod retries;
mod runner;
mod rwlocks;
mod semaphores;
mod sessions;
mod support;
mod transfers;
