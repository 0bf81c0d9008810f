//! Bulk insertion: rows are collected until there are ten of them, or none has come for a second, and
//! go into an SQLite database in one transaction.
//!
//! `cargo run --release -p semaforo --example bulk_insert`

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use semaforo::{BlockingQueue, Monitor};

const AT_MOST: usize = 10;
const SILENCE: Duration = Duration::from_secs(1);

struct Reading {
    sensor: u32,
    celsius: f64,
}

/// A database in a temporary file, which SQLite removes.
fn open() -> rusqlite::Result<Connection> {
    let database = Connection::open("")?;
    database
        .execute_batch("CREATE TABLE reading (sensor INTEGER NOT NULL, celsius REAL NOT NULL)")?;
    Ok(database)
}

fn insert(database: &mut Connection, readings: &[Reading]) -> rusqlite::Result<()> {
    let transaction = database.transaction()?;
    let mut statement = transaction.prepare("INSERT INTO reading VALUES (?, ?)")?;
    for reading in readings {
        statement.execute((reading.sensor, reading.celsius))?;
    }
    drop(statement);
    transaction.commit()
}

/// Inserts batch after batch until the queue is closed and empty, and adds each one's size to
/// `stored`.
fn insert_all(
    database: &mut Connection,
    readings: &BlockingQueue<Reading>,
    silence: Duration,
    stored: &Monitor<Vec<usize>>,
) -> rusqlite::Result<()> {
    while let Ok(batch) = readings.take_batch(AT_MOST, silence).wait() {
        insert(database, &batch)?;
        let mut stored_now = stored.enter().wait();
        stored_now.push(batch.len());
        stored.notify_all(&stored_now);
    }
    Ok(())
}

fn measure(readings: &BlockingQueue<Reading>, how_many: u32) {
    for sensor in 0..how_many {
        let reading = Reading { sensor, celsius: 20.0 + f64::from(sensor) / 10.0 };
        readings.put(reading).wait().expect("the queue is open");
    }
}

fn wait_until_stored(rows: usize, stored: &Monitor<Vec<usize>>) {
    let inside = stored.enter().wait();
    drop(stored.wait_while(inside, |batches| batches.iter().sum::<usize>() < rows).wait());
}

fn count(database: &Connection) -> rusqlite::Result<u32> {
    database.query_row("SELECT count(*) FROM reading", [], |row| row.get(0))
}

fn main() -> rusqlite::Result<()> {
    let mut database = open()?;
    let readings = BlockingQueue::bounded(100);
    let stored = Monitor::new(Vec::new());
    let start = Instant::now();
    thread::scope(|scope| {
        let inserter = scope.spawn(|| insert_all(&mut database, &readings, SILENCE, &stored));
        measure(&readings, 25);
        println!("25 readings were measured, and then there is silence.");
        wait_until_stored(25, &stored);
        println!("After {:.1} s all of them are stored.", start.elapsed().as_secs_f64());
        measure(&readings, 3);
        readings.close();
        println!("3 more, and the queue is closed: nothing to wait for.");
        inserter.join().expect("the inserter does not panic")
    })?;
    println!("transactions of {:?} rows", stored.into_inner());
    println!("{} rows in the database", count(&database)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The batches, and the rows in the database, after this.
    fn stored(
        silence: Duration,
        producer: impl FnOnce(&BlockingQueue<Reading>, &Monitor<Vec<usize>>),
    ) -> (Vec<usize>, u32) {
        let mut database = open().unwrap();
        let readings = BlockingQueue::bounded(100);
        let stored = Monitor::new(Vec::new());
        measure(&readings, 25);
        thread::scope(|scope| {
            scope.spawn(|| insert_all(&mut database, &readings, silence, &stored).unwrap());
            producer(&readings, &stored);
            readings.close();
        });
        (stored.into_inner(), count(&database).unwrap())
    }

    #[test]
    fn the_rest_of_a_batch_is_stored_after_a_silence() {
        let silence = Duration::from_millis(20);
        assert_eq!(
            stored(silence, |_, stored| wait_until_stored(25, stored)),
            (vec![10, 10, 5], 25)
        );
    }

    #[test]
    fn the_rest_of_a_batch_is_stored_when_the_queue_is_closed() {
        assert_eq!(stored(Duration::MAX, |_, _| ()), (vec![10, 10, 5], 25));
    }

    #[test]
    fn a_batch_is_full_before_the_silence_is_over() {
        let producer = |readings: &BlockingQueue<_>, _: &_| measure(readings, 15);
        assert_eq!(stored(Duration::MAX, producer), (vec![10; 4], 40));
    }
}
