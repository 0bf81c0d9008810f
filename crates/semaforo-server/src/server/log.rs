//! The log: lines for people, written by a thread of low priority.
//!
//! A thread that logs never waits: lines go through a bounded queue, and when it is full they are
//! dropped and counted, and the count is logged once there is room again. A slow terminal or a full
//! pipe delays no request.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use super::calendar::Moment;
use super::json::Json;

/// Lines that may wait to be written: a burst of a second or so, and at most a few megabytes.
pub const QUEUE: usize = 4096;

/// Places in the queue that only lines of the audit may use, so that no flood of others pushes them
/// out.
const AUDIT_PLACES: usize = 1024;

/// A longer line is cut: what a client sent may be part of it.
pub const LINE: usize = 2000;

/// How long the end waits for the last lines to be written.
pub const LAST_LINES: Duration = Duration::from_secs(1);

/// How often the end of a process looks whether they are.
const LOOK: Duration = Duration::from_millis(5);

/// How long the last words of a process may take: a pipe that is full does not keep it.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Says something last, if it is taken at once.
pub fn say_last(mut sink: impl Write + Send + 'static, text: String) {
    let (said, has_said) = channel();
    std::thread::spawn(move || {
        let _ = sink.write_all(text.as_bytes()).and_then(|()| sink.flush());
        let _ = said.send(());
    });
    let _ = has_said.recv_timeout(LAST_WORDS);
}

/// Says how many lines were lost, where the log is not.
pub fn tell_lost(lost: u64) {
    if lost > 0 {
        let text = format!("{lost} lines of the log were lost: it is written too slowly\n");
        say_last(io::stdout(), text);
    }
}

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Who was refused, and who administers: written whatever else is.
    Audit,
    /// Something is broken, and the operator has to do something about it.
    Error,
    /// Something went wrong, and the server coped.
    Warning,
    /// What an operator wants to know: started, stopped, how much was recovered.
    Info,
    /// What a developer wants to know: connections that come and go.
    Debug,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Level::Audit => "audit",
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `2026-02-28T23:59:59.123Z info text`
    #[default]
    Plain,
    /// `{"time":"2026-02-28T23:59:59.123Z","level":"info","text":"..."}`
    Json,
}

struct Line {
    time: SystemTime,
    level: Level,
    text: String,
}

/// Where lines are put. Clones write to the same log.
#[derive(Clone)]
pub struct Log {
    level: Level,
    /// None: lines are dropped.
    queue: Option<SyncSender<Line>>,
    /// How many lines may be queued, without those of the audit.
    places: usize,
    counts: Arc<Counts>,
}

/// What has become of lines.
#[derive(Debug, Default)]
struct Counts {
    /// In the queue now, without those of the audit.
    queued: AtomicUsize,
    /// Put into the queue.
    accepted: AtomicU64,
    /// Written.
    written: AtomicU64,
    /// Dropped since that was said last.
    dropped: AtomicU64,
}

impl Counts {
    /// How many lines were not written and not said to be dropped.
    fn lost(&self) -> u64 {
        let accepted = self.accepted.load(Ordering::SeqCst);
        let unwritten = accepted.saturating_sub(self.written.load(Ordering::SeqCst));
        unwritten + self.dropped.load(Ordering::SeqCst)
    }
}

/// Dropping it, after all [`Log`]s, waits for a moment until the last lines are written.
#[derive(Debug)]
#[must_use = "dropping it at once waits for lines that nobody has written yet"]
pub struct LogEnd {
    done: Receiver<()>,
    counts: Arc<Counts>,
    has_waited: bool,
}

impl LogEnd {
    /// Waits for a moment until the last lines are written. How many were lost.
    pub fn wait(mut self) -> u64 {
        self.wait_once()
    }

    fn wait_once(&mut self) -> u64 {
        if std::mem::replace(&mut self.has_waited, true) {
            return 0;
        }
        // A log that cannot be written must not keep the process alive.
        match self.done.recv_timeout(LAST_LINES) {
            Err(RecvTimeoutError::Timeout) => self.counts.lost(),
            // The thread has ended, and has said what it knew.
            Ok(()) | Err(RecvTimeoutError::Disconnected) => 0,
        }
    }
}

impl Drop for LogEnd {
    fn drop(&mut self) {
        self.wait_once();
    }
}

impl Log {
    /// Logs to the standard error output everything that matters as much as `level`.
    pub fn to_stderr(level: Level, format: Format) -> io::Result<(Self, LogEnd)> {
        Self::to(Box::new(io::stderr()), level, format, QUEUE)
    }

    /// Logs somewhere else, with a queue of this many lines.
    pub fn to(
        sink: Box<dyn Write + Send>,
        level: Level,
        format: Format,
        queue: usize,
    ) -> io::Result<(Self, LogEnd)> {
        let (send, receive) = sync_channel(queue + AUDIT_PLACES);
        let (finished, done) = channel();
        let counts = Arc::new(Counts::default());
        let writer = Writer {
            sink,
            format,
            counts: Arc::clone(&counts),
            text: Vec::new(),
            lines: 0,
            told: 0,
        };
        std::thread::Builder::new().name("log".into()).spawn(move || {
            lower_priority();
            writer.run(&receive);
            // There is no receiver any more if the process gave up on it.
            let _ = finished.send(());
        })?;
        Ok((
            Self { level, queue: Some(send), places: queue, counts: Arc::clone(&counts) },
            LogEnd { done, counts, has_waited: false },
        ))
    }

    /// A log whose lines are dropped.
    #[must_use]
    pub fn silent() -> Self {
        Self { level: Level::Audit, queue: None, places: 0, counts: Arc::default() }
    }

    /// Whether a line of this level would be written.
    pub fn logs(&self, level: Level) -> bool {
        self.queue.is_some() && level <= self.level
    }

    /// Puts a line into the queue, or drops it if that is full. Never waits.
    pub fn write(&self, level: Level, text: fmt::Arguments<'_>) {
        if let Some(queue) = self.queue.as_ref().filter(|_| self.logs(level)) {
            let count = match self.enqueue(queue, level, text) {
                true => &self.counts.accepted,
                false => &self.counts.dropped,
            };
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether the queue was not full.
    fn enqueue(&self, queue: &SyncSender<Line>, level: Level, text: fmt::Arguments<'_>) -> bool {
        let line = || Line { time: SystemTime::now(), level, text: text.to_string() };
        if level == Level::Audit {
            return queue.try_send(line()).is_ok();
        }
        let queued = self.counts.queued.fetch_add(1, Ordering::SeqCst);
        let is_queued = queued < self.places && queue.try_send(line()).is_ok();
        if !is_queued {
            self.counts.queued.fetch_sub(1, Ordering::SeqCst);
        }
        is_queued
    }

    /// Waits for a moment until the lines so far are written. How many were lost. For a process
    /// that ends without dropping its logs.
    pub fn wait_until_written(&self) -> u64 {
        let limit = Instant::now() + LAST_LINES;
        while self.counts.lost() > 0 && Instant::now() < limit {
            std::thread::sleep(LOOK);
        }
        self.counts.lost()
    }

    /// Who was refused, or who administers.
    pub fn audit(&self, text: fmt::Arguments<'_>) {
        self.write(Level::Audit, text);
    }

    /// Something is broken: `log.error(format_args!("cannot {verb}"))`.
    pub fn error(&self, text: fmt::Arguments<'_>) {
        self.write(Level::Error, text);
    }

    /// Something went wrong, and the server coped.
    pub fn warning(&self, text: fmt::Arguments<'_>) {
        self.write(Level::Warning, text);
    }

    /// What an operator wants to know.
    pub fn info(&self, text: fmt::Arguments<'_>) {
        self.write(Level::Info, text);
    }

    /// What a developer wants to know.
    pub fn debug(&self, text: fmt::Arguments<'_>) {
        self.write(Level::Debug, text);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("level", &self.level).finish_non_exhaustive()
    }
}

/// Only this thread: on Linux every thread has a priority of its own. Elsewhere it would be the
/// whole process.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        // Not being allowed to step back is no reason not to log.
        let _ = rustix::process::setpriority_process(None, 19);
    }
}

struct Writer {
    sink: Box<dyn Write + Send>,
    format: Format,
    counts: Arc<Counts>,
    text: Vec<u8>,
    /// How many accepted lines there are in the text.
    lines: u64,
    /// How many lines it says were dropped.
    told: u64,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Line>) {
        while let Ok(line) = queue.recv() {
            self.accept(&line);
            // What is there already goes out in one piece, and then what was lost behind it.
            for line in queue.try_iter().take(64) {
                self.accept(&line);
            }
            self.report_dropped();
            self.flush();
        }
        self.report_dropped();
        self.flush();
    }

    fn report_dropped(&mut self) {
        let count = self.counts.dropped.load(Ordering::SeqCst);
        self.told = count;
        if count > 0 {
            let text = format!("{count} lines of the log were dropped: it is written too slowly");
            self.append(&Line { time: SystemTime::now(), level: Level::Warning, text });
        }
    }

    fn accept(&mut self, line: &Line) {
        if line.level != Level::Audit {
            self.counts.queued.fetch_sub(1, Ordering::SeqCst);
        }
        self.lines += 1;
        self.append(line);
    }

    fn append(&mut self, line: &Line) {
        let time = Moment::from(line.time).iso();
        let end = line.text.char_indices().map(|(at, _)| at).find(|at| *at >= LINE);
        let text = end.and_then(|end| line.text.get(..end)).unwrap_or(&line.text);
        let level = line.level.name();
        match self.format {
            Format::Plain => {
                // Writing to a vector cannot fail.
                let _ = writeln!(self.text, "{time} {level} {}", Visible(text));
            }
            Format::Json => Json::line(&mut self.text, |json| {
                json.text("time", &time);
                json.text("level", level);
                json.text("text", text);
            }),
        }
    }

    fn flush(&mut self) {
        // There is nowhere to complain about a log that cannot be written.
        let _ = self.sink.write_all(&self.text).and_then(|()| self.sink.flush());
        self.text.clear();
        self.counts.written.fetch_add(std::mem::take(&mut self.lines), Ordering::SeqCst);
        self.counts.dropped.fetch_sub(std::mem::take(&mut self.told), Ordering::SeqCst);
    }
}

/// Text with its control characters escaped, so that logged text cannot forge a line or move the
/// cursor.
struct Visible<'a>(&'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in self.0.split_inclusive(char::is_control) {
            let plain = piece.trim_end_matches(char::is_control);
            write!(f, "{plain}{}", piece.get(plain.len()..).unwrap_or_default().escape_default())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::Sender;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Sink {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Says when it is written to, and goes on only when told.
    struct Gate(Sink, Sender<()>, Receiver<()>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.send(()).unwrap();
            let _ = self.2.recv();
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_order_and_control_characters_are_not() {
        let sink = Sink::default();
        let (log, end) =
            Log::to(Box::new(sink.clone()), Level::Info, Format::Plain, QUEUE).unwrap();
        log.info(format_args!("first\nforged \u{1b}[2J{}", "é"));
        log.debug(format_args!("nobody wants to know"));
        log.error(format_args!("{}", "x".repeat(LINE + 100)));
        drop((log, end));
        let text = sink.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].ends_with(r"Z info first\nforged \u{1b}[2Jé"), "{text}");
        assert!(lines[1].contains("Z error xxx") && lines[1].len() < LINE + 40, "{text}");
    }

    #[test]
    fn json_lines_are_json() {
        let sink = Sink::default();
        let (log, end) =
            Log::to(Box::new(sink.clone()), Level::Debug, Format::Json, QUEUE).unwrap();
        log.warning(format_args!("\"quoted\"\n"));
        drop((log, end));
        let line: serde_json::Value = serde_json::from_str(sink.text().trim_end()).unwrap();
        assert_eq!((&line["level"], &line["text"]), (&"warning".into(), &"\"quoted\"\n".into()));
    }

    #[test]
    fn a_log_that_is_stuck_drops_lines_counts_them_and_delays_nobody() {
        let sink = Sink::default();
        let (writing, is_writing) = channel();
        let (open, gate) = channel();
        let gated = Box::new(Gate(sink.clone(), writing, gate));
        let (log, end) = Log::to(gated, Level::Info, Format::Plain, 10).unwrap();
        log.info(format_args!("line"));
        is_writing.recv().unwrap();
        for _ in 0..25 {
            log.info(format_args!("line"));
        }
        drop(open);
        drop((log, end));
        let text = sink.text();
        assert_eq!(text.matches("info line").count(), 11, "{text}");
        assert!(text.contains("warning 15 lines of the log were dropped"), "{text}");
    }

    #[test]
    fn lines_of_the_audit_are_always_written() {
        let sink = Sink::default();
        let (writing, is_writing) = channel();
        let (open, gate) = channel();
        let gated = Box::new(Gate(sink.clone(), writing, gate));
        let (log, end) = Log::to(gated, Level::Error, Format::Plain, 10).unwrap();
        log.error(format_args!("line"));
        is_writing.recv().unwrap();
        for _ in 0..25 {
            log.warning(format_args!("is not wanted"));
            log.error(format_args!("line"));
            log.audit(format_args!("403"));
        }
        drop(open);
        drop((log, end));
        let text = sink.text();
        let count = |what: &str| text.matches(what).count();
        assert_eq!(
            (count("error line"), count("audit 403"), count("wanted")),
            (11, 25, 0),
            "{text}"
        );
        assert!(text.contains("warning 15 lines of the log were dropped"), "{text}");
    }

    #[test]
    fn a_process_that_just_ends_can_wait_for_its_lines() {
        let sink = Sink::default();
        let (log, end) =
            Log::to(Box::new(sink.clone()), Level::Info, Format::Plain, QUEUE).unwrap();
        for _ in 0..100 {
            log.info(format_args!("line"));
        }
        assert_eq!(log.wait_until_written(), 0);
        assert_eq!(sink.text().lines().count(), 100);
        drop((log, end));
        assert_eq!(Log::silent().wait_until_written(), 0, "nothing is lost where nothing is kept");
    }

    #[test]
    fn a_log_that_is_stuck_for_ever_does_not_stop_the_end() {
        let (writing, _is_writing) = channel();
        let (_open, gate) = channel();
        let gated = Box::new(Gate(Sink::default(), writing, gate));
        let (log, end) = Log::to(gated, Level::Info, Format::Plain, 10).unwrap();
        for _ in 0..15 {
            log.info(format_args!("line"));
        }
        assert_eq!(log.wait_until_written(), 15);
        drop(log);
        assert_eq!(end.wait(), 15, "those that wait, those being written and those dropped");
    }
}
