//! What it costs to wake the wrong thread: one semaphore in five ways, as a text on monitors
//! develops them, and the library's own.
//!
//! - *pulse*: one condition, and a release wakes one of the waiting threads;
//! - *broadcast*: a release wakes all of them, and they look again;
//! - *FIFO*: a queue of one's own; a release wakes all if the first of them can go on;
//! - *FIFO, specific*: each waits on a condition of its own, and only the first is woken;
//! - *delegation*: a release grants the first request, and wakes its thread with the result.
//!
//! So many threads acquire a permit again and again, and one thread releases one at a time,
//! whenever all of them wait: it has, in the text's words, the lower priority. Counted are returns
//! from waiting, and the time for each acquire.
//!
//! `cargo run --release -p semaforo --example notification_cost`

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use semaforo::{Condition, Monitor, Semaphore};

mod study;
use study::chart::{Chart, Form, save};

const USAGE: &str = "\
usage: notification_cost [--acquires NUMBER] [--most THREADS] [--svg FILE]

  --acquires NUMBER   so many for each way and number of threads; 200 unless said
  --most THREADS      for 1, 2, 4 ... threads up to this number; 64 unless said
  --svg FILE          where to draw the chart; in the temporary directory unless said";

/// What the text says of its machine, with one core of 1.4 GHz.
const MICROSECONDS_PER_SWITCH: f64 = 0.7;
/// A wake-up in vain is a switch to that thread, and one back.
const SWITCHES: f64 = 2.0;
const PERCENT_FOR_THE_QUEUE: f64 = 3.0;

trait Permits: Sync {
    fn acquire(&self);
    fn release(&self);
    /// How many threads wait.
    fn waiting(&self) -> usize;
    /// How often a thread has returned from waiting; `None` if that is not counted.
    fn wake_ups(&self) -> Option<usize>;
}

/// Pulse and broadcast.
struct Plain {
    state: Monitor<Counted>,
    broadcast: bool,
}

#[derive(Default)]
struct Counted {
    permits: usize,
    wake_ups: usize,
}

impl Plain {
    fn new(broadcast: bool) -> Self {
        Self { state: Monitor::default(), broadcast }
    }
}

impl Permits for Plain {
    fn acquire(&self) {
        let mut inside = self.state.enter().wait();
        while inside.permits == 0 {
            inside = self.state.wait(inside).wait();
            inside.wake_ups += 1;
        }
        inside.permits -= 1;
    }

    fn release(&self) {
        let mut inside = self.state.enter().wait();
        inside.permits += 1;
        if self.broadcast {
            self.state.notify_all(&inside);
        } else {
            self.state.notify(&inside);
        }
    }

    fn waiting(&self) -> usize {
        self.state.waiting()
    }

    fn wake_ups(&self) -> Option<usize> {
        Some(self.state.enter().wait().wake_ups)
    }
}

/// Those with a queue of requests.
struct Fifo {
    state: Monitor<Queued>,
    /// Where all wait who have no condition of their own.
    common: Arc<Condition>,
    notification: Notification,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Notification {
    Broadcast,
    Specific,
    Delegation,
}

#[derive(Default)]
struct Queued {
    permits: usize,
    requests: VecDeque<Arc<RequestItem>>,
    /// With delegation: those that were granted and have not gone on yet.
    granted: Vec<Arc<RequestItem>>,
    wake_ups: usize,
}

struct RequestItem {
    condition: Arc<Condition>,
}

impl Fifo {
    fn new(notification: Notification) -> Self {
        Self { state: Monitor::default(), common: Arc::default(), notification }
    }

    /// Wakes whom the state allows to go on.
    fn notify(&self, inside: &semaforo::MutexGuard<'_, Queued>) {
        if let (Some(first), 1..) = (inside.requests.front(), inside.permits) {
            match self.notification {
                Notification::Broadcast => drop(first.condition.broadcast(inside)),
                Notification::Specific => drop(first.condition.signal(inside)),
                Notification::Delegation => unreachable!("it is granted before it is woken"),
            }
        }
    }
}

impl Permits for Fifo {
    fn acquire(&self) {
        let mut inside = self.state.enter().wait();
        if inside.requests.is_empty() && inside.permits > 0 {
            inside.permits -= 1;
            return;
        }
        let condition = match self.notification {
            Notification::Broadcast => Arc::clone(&self.common),
            Notification::Specific | Notification::Delegation => Arc::default(),
        };
        let request = Arc::new(RequestItem { condition });
        inside.requests.push_back(Arc::clone(&request));
        loop {
            inside = request.condition.wait(inside).wait();
            inside.wake_ups += 1;
            let mine = |other: &Arc<RequestItem>| Arc::ptr_eq(other, &request);
            if self.notification == Notification::Delegation {
                if let Some(place) = inside.granted.iter().position(mine) {
                    inside.granted.swap_remove(place);
                    return;
                }
            } else if inside.permits > 0 && inside.requests.front().is_some_and(mine) {
                inside.requests.pop_front();
                inside.permits -= 1;
                self.notify(&inside);
                return;
            }
        }
    }

    fn release(&self) {
        let mut inside = self.state.enter().wait();
        inside.permits += 1;
        if self.notification != Notification::Delegation {
            return self.notify(&inside);
        }
        if let Some(first) = inside.requests.pop_front() {
            inside.permits -= 1;
            inside.granted.push(Arc::clone(&first));
            first.condition.signal(&inside);
        }
    }

    fn waiting(&self) -> usize {
        if self.notification == Notification::Broadcast {
            return self.common.waiters();
        }
        let inside = self.state.enter().wait();
        inside.requests.iter().map(|request| request.condition.waiters()).sum()
    }

    fn wake_ups(&self) -> Option<usize> {
        Some(self.state.enter().wait().wake_ups)
    }
}

/// The library's own.
impl Permits for Semaphore {
    fn acquire(&self) {
        self.acquire(1).wait().expect("it is never closed").forget();
    }

    fn release(&self) {
        self.release(1).expect("there are never many");
    }

    fn waiting(&self) -> usize {
        self.waiters()
    }

    fn wake_ups(&self) -> Option<usize> {
        None
    }
}

const WAYS: [&str; 6] = ["pulse", "broadcast", "FIFO", "FIFO, specific", "delegation", "Semaphore"];

fn way(index: usize) -> Box<dyn Permits> {
    match index {
        0 => Box::new(Plain::new(false)),
        1 => Box::new(Plain::new(true)),
        2 => Box::new(Fifo::new(Notification::Broadcast)),
        3 => Box::new(Fifo::new(Notification::Specific)),
        4 => Box::new(Fifo::new(Notification::Delegation)),
        _ => Box::new(Semaphore::new(0)),
    }
}

/// What an acquire has cost.
#[derive(Clone, Copy)]
struct Cost {
    wake_ups: Option<f64>,
    microseconds: f64,
}

/// So many threads acquire, each again and again, until so many permits were released.
fn measure(permits: &dyn Permits, threads: usize, acquires: usize) -> Cost {
    let acquired = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    let until = |seen: &dyn Fn() -> bool| {
        while !seen() {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    permits.acquire();
                    acquired.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let all_wait = || permits.waiting() == threads;
        until(&all_wait);
        let start = Instant::now();
        for released in 1..=acquires {
            permits.release();
            until(&|| acquired.load(Ordering::Relaxed) == released && all_wait());
        }
        let time = start.elapsed();
        let wake_ups = permits.wake_ups();
        over.store(true, Ordering::Relaxed);
        (0..threads).for_each(|_| permits.release());

        let per_acquire = |figure: f64| figure / acquires as f64;
        Cost {
            wake_ups: wake_ups.map(|wake_ups| per_acquire(wake_ups as f64)),
            microseconds: per_acquire(time.as_secs_f64() * 1e6),
        }
    })
}

struct Options {
    acquires: usize,
    most: usize,
    svg: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut options = Self { acquires: 200, most: 64, svg: None };
        let mut arguments = arguments.into_iter();
        while let Some(option) = arguments.next() {
            let value = arguments.next()?;
            let number = || value.parse().ok().filter(|number| *number > 0);
            match option.as_str() {
                "--acquires" => options.acquires = number()?,
                "--most" => options.most = number()?,
                "--svg" => options.svg = Some(value.into()),
                _ => return None,
            }
        }
        Some(options)
    }
}

fn run(options: &Options) -> std::io::Result<()> {
    let mut rows = Vec::new();
    println!("Wake-ups and microseconds for each acquire:");
    println!("{:>7} {}", "threads", WAYS.map(|name| format!("{name:>16}")).concat());
    let numbers = std::iter::successors(Some(1), |threads| Some(threads * 2));
    for threads in numbers.take_while(|threads| *threads <= options.most) {
        let costs: Vec<_> =
            (0..WAYS.len()).map(|index| measure(&*way(index), threads, options.acquires)).collect();
        let cell = |cost: &Cost| match cost.wake_ups {
            Some(wake_ups) => format!("{wake_ups:>7.2} {:>8.1}", cost.microseconds),
            None => format!("{:>7} {:>8.1}", "", cost.microseconds),
        };
        println!("{threads:>7} {}", costs.iter().map(cell).collect::<Vec<_>>().concat());
        rows.push((threads, costs));
    }

    let series = WAYS.map(str::to_string).to_vec();
    let places = |figure: &dyn Fn(&Cost) -> Option<f64>| {
        let of = |(threads, costs): &(usize, Vec<Cost>)| {
            let unit = if *threads == 1 { "thread" } else { "threads" };
            (format!("{threads} {unit}"), costs.iter().map(figure).collect())
        };
        rows.iter().map(of).collect::<Vec<_>>()
    };
    let form = Form::LogarithmicLines;
    let charts = [
        Chart {
            title: "Wake-ups per acquire".to_string(),
            unit: "times",
            form,
            series: series.clone(),
            places: places(&|cost| cost.wake_ups),
        },
        Chart {
            title: "Time per acquire".to_string(),
            unit: "microseconds",
            form,
            series,
            places: places(&|cost| Some(cost.microseconds)),
        },
    ];
    println!();
    print!("{}", charts[1].in_terminal(40));
    beside_the_text(&rows);
    println!("drawn in {}", save(&charts, options.svg.as_deref(), "notification-cost")?.display());
    Ok(())
}

/// The figures that the text has.
fn beside_the_text(rows: &[(usize, Vec<Cost>)]) {
    let Some((threads, costs)) = rows.last().filter(|(threads, _)| *threads > 1) else { return };
    let in_vain = (costs[2].microseconds - costs[3].microseconds) / (threads - 1) as f64;
    let queue = |(_, costs): &(_, Vec<Cost>)| costs[2].microseconds / costs[1].microseconds;
    let mut queues: Vec<f64> = rows.iter().map(queue).collect();
    queues.sort_by(f64::total_cmp);
    let queue = (queues[queues.len() / 2] - 1.0) * 100.0;
    println!("\nBeside the text, whose machine had one core of 1.4 GHz:");
    println!("{:46} {:>8} {:>8}", "", "ours", "text");
    println!(
        "{:46} {in_vain:>8.2} {:>8.2}",
        format!("microseconds for a wake-up in vain, of {threads}"),
        SWITCHES * MICROSECONDS_PER_SWITCH
    );
    println!(
        "{:46} {:>8.2} {MICROSECONDS_PER_SWITCH:>8.2}",
        "microseconds for a switch, half of that",
        in_vain / SWITCHES
    );
    println!(
        "{:46} {queue:>7.0}% {:>8}",
        "what a queue adds to a broadcast (median)",
        format!("< {PERCENT_FOR_THE_QUEUE}%")
    );
}

fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(64);
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("notification_cost: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_wakes_everyone_and_the_others_only_who_can_go_on() {
        for threads in [1, 2, 5] {
            let wake_ups: Vec<_> =
                (0..WAYS.len()).map(|index| measure(&*way(index), threads, 20).wake_ups).collect();
            let (one, all) = (Some(1.0), Some(threads as f64));
            assert_eq!(wake_ups, [one, all, all, one, one, None]);
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let parse = |text: &str| Options::parse(text.split_whitespace().map(String::from));
        assert_eq!(parse("--most 8 --acquires 5").unwrap().most, 8);
        for wrong in ["--most", "--most 0", "--acquires many", "threads 3"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
