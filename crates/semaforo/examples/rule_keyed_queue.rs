//! A message queue whose messages are taken by key: each goes to the first request for its key.
//!
//! What was handed to a request that is dropped, or whose task does not come, goes back to its place.
//!
//! `cargo run --release -p semaforo --example rule_keyed_queue`

use semaforo::rule::{Asked, Contended, Order, Reply, Rule};
use std::collections::VecDeque;

struct Message<K, V> {
    number: u64,
    key: K,
    value: V,
}

struct Messages<K, V> {
    /// In the order of their numbers.
    messages: VecDeque<Message<K, V>>,
    put: u64,
    is_closed: bool,
}

impl<K: Clone + PartialEq + Send + 'static, V: Send + 'static> Rule for Messages<K, V> {
    type Request = K;
    /// None if there is no such message, and will not be one.
    type Answer = Option<Message<K, V>>;

    /// Requests for one key are served in order anyway: if one cannot be, the others cannot either.
    const ORDER: Order<K> = Order::Any;

    fn serve(&mut self, key: K) -> Reply<Self> {
        match self.messages.iter().position(|message| message.key == key) {
            Some(index) => Reply::Lent(self.messages.remove(index), Self::put_back),
            None if self.is_closed => Reply::Done(None),
            None => Reply::Wait(key),
        }
    }
}

impl<K: Clone, V> Messages<K, V> {
    fn put_back(&mut self, message: Option<Message<K, V>>) -> K {
        let message = message.expect("only messages are lent");
        let key = message.key.clone();
        let index = self.messages.partition_point(|other| other.number < message.number);
        self.messages.insert(index, message);
        key
    }
}

struct KeyedQueue<K: Clone + PartialEq + Send + 'static, V: Send + 'static>(
    Contended<Messages<K, V>>,
);

impl<K: Clone + PartialEq + Send + 'static, V: Send + 'static> KeyedQueue<K, V> {
    fn new() -> Self {
        Self(Contended::new(Messages { messages: VecDeque::new(), put: 0, is_closed: false }))
    }

    fn put(&self, key: K, value: V) {
        self.0.change(|queue, _| {
            queue.put += 1;
            queue.messages.push_back(Message { number: queue.put, key, value });
        });
    }

    fn take(&self, key: K) -> Asked<'_, Messages<K, V>, Option<V>> {
        self.0.request_as(key, |message| Some(message?.value))
    }

    fn close(&self) {
        self.0.change(|queue, _| queue.is_closed = true);
    }
}

fn main() {
    let replies = KeyedQueue::new();
    std::thread::scope(|scope| {
        for call in ["ping", "time"] {
            let replies = &replies;
            scope.spawn(move || println!("{call}: {:?}", replies.take(call).wait()));
        }
        scope.spawn(|| println!("load: {:?}", futures::executor::block_on(replies.take("load"))));
        replies.put("time", "noon");
        replies.put("ping", "pong");
        while replies.0.waiters() != 1 {
            std::thread::yield_now();
        }
        replies.close();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_message_goes_to_the_first_request_for_its_key() {
        let queue = KeyedQueue::new();
        let (mut a, mut first, mut second) =
            (pin!(queue.take('a')), pin!(queue.take('b')), pin!(queue.take('b')));
        for request in [&mut a, &mut first, &mut second] {
            assert!(poll(request.as_mut()).is_pending());
        }
        queue.put('b', 1);
        queue.put('b', 2);
        assert_eq!(poll(second.as_mut()), Poll::Ready(Some(2)));
        assert_eq!(poll(first.as_mut()), Poll::Ready(Some(1)));
        assert!(poll(a.as_mut()).is_pending());
        queue.close();
        assert_eq!(poll(a.as_mut()), Poll::Ready(None));
        assert_eq!(queue.take('a').wait(), None);
    }

    #[test]
    fn messages_that_were_not_fetched_go_back_to_their_places() {
        let queue = KeyedQueue::new();
        let (mut first, mut second) = (Box::pin(queue.take(7)), Box::pin(queue.take(7)));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
        for value in ["one", "two", "three"] {
            queue.put(7, value);
        }
        assert_eq!(queue.0.with(|queue| queue.messages.len()), 1);
        drop(first);
        drop(second);
        let taken = [(); 3].map(|()| queue.take(7).wait().unwrap());
        assert_eq!(taken, ["one", "two", "three"]);
    }

    #[test]
    fn a_message_for_a_task_that_does_not_come_goes_to_the_next_request() {
        let queue = KeyedQueue::new();
        queue.0.set_patience(Duration::from_millis(4));
        let mut asleep = pin!(queue.take(7));
        assert!(poll(asleep.as_mut()).is_pending());
        queue.put(7, "one");
        assert_eq!(queue.take(7).wait(), Some("one"));
        // It was passed over, and is first again.
        let mut third = pin!(queue.take(7));
        assert!(poll(third.as_mut()).is_pending());
        assert!(poll(asleep.as_mut()).is_pending());
        queue.put(7, "two");
        assert_eq!(poll(asleep.as_mut()), Poll::Ready(Some("two")));
        assert!(poll(third.as_mut()).is_pending());
    }
}
