//! The statistics of the server, for an operator.

use super::http::Metrics;
use super::quotas::Counted;
use crate::kernel::{Census, Kind, Status};
use crate::net::Statistics;

/// How many answers there were of each status.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statuses([u64; 600]);

impl Default for Statuses {
    fn default() -> Self {
        Self([0; 600])
    }
}

impl Statuses {
    pub(super) fn count(&mut self, status: Status) {
        self.count_number(status.number());
    }

    pub(super) fn count_number(&mut self, status: u16) {
        self.0[usize::from(status)] += 1;
    }

    fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }
}

/// The statistics of one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerStatistics {
    pub(super) census: Census,
    pub(super) sockets: Statistics,
    pub(super) statuses: Box<Statuses>,
    pub(super) decided: u64,
    pub(super) journaled: u64,
    pub(super) batches: u64,
    /// The journal has no more space than what is left of its segments.
    pub(super) is_short_of_space: bool,
    /// What tokens with a quota have: name, what, how much there is and may be.
    pub(super) quotas: Vec<(String, Counted, u64, u64)>,
    pub(super) uptime: f64,
}

impl ServerStatistics {
    /// For Prometheus.
    pub(super) fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::new();
        let mut gauge = |name: &str, help: &str, value: f64| {
            metrics.gauge(name, help).value(value);
        };
        gauge("semaforo_uptime_seconds", "Since the server was started.", self.uptime);
        gauge("semaforo_connections", "TCP connections that are open.", self.sockets.open as f64);
        gauge("semaforo_sessions", "Named sessions.", self.census.sessions as f64);
        gauge("semaforo_holds", "Holds of locks and semaphores.", self.census.holds as f64);
        gauge("semaforo_waiting_requests", "Requests that wait.", self.census.waits as f64);
        gauge("semaforo_messages", "Messages in all queues.", self.census.messages as f64);
        gauge("semaforo_message_bytes", "Their bytes.", self.census.bytes as f64);
        let short = f64::from(u8::from(self.is_short_of_space));
        gauge("semaforo_journal_full", "1 while there is no space for the journal.", short);
        gauge("semaforo_next_fence", "The next fence.", self.census.next_fence as f64);
        let objects = metrics.gauge("semaforo_objects", "Objects, by kind.");
        for kind in Kind::ALL {
            let count = self.census.objects[kind as usize];
            objects.labelled(&[("kind", kind.singular())], count as f64);
        }
        let used = metrics.gauge("semaforo_token_used", "What tokens with a quota have.");
        for (token, counted, used_now, _) in &self.quotas {
            used.labelled(&[("token", token), ("what", counted.name())], *used_now as f64);
        }
        let quota = metrics.gauge("semaforo_token_quota", "What they may have.");
        for (token, counted, _, most) in &self.quotas {
            quota.labelled(&[("token", token), ("what", counted.name())], *most as f64);
        }
        let answers = metrics.counter("semaforo_answers_total", "Answers, by status.");
        for (status, count) in self.statuses.iter() {
            answers.labelled(&[("status", &status.to_string())], count as f64);
        }
        let mut counter = |name: &str, help: &str, value: u64| {
            metrics.counter(name, help).value(value as f64);
        };
        counter("semaforo_commands_total", "Commands that were decided.", self.decided);
        counter("semaforo_journal_bytes_total", "Bytes of events.", self.journaled);
        counter("semaforo_journal_batches_total", "Batches of events.", self.batches);
        counter("semaforo_accepted_total", "TCP connections accepted.", self.sockets.accepted);
        counter("semaforo_read_bytes_total", "Bytes read by TCP.", self.sockets.read);
        counter("semaforo_written_bytes_total", "Bytes written by TCP.", self.sockets.written);
        counter("semaforo_turns_total", "Turns of the main loop.", self.sockets.turns);
        metrics
    }
}
