//! Kanal is fast partly because of what it leaves out; its figures say so.

use crate::row::{Contestant, Work};

const LOSES_MESSAGES: &str = "kanal drops a message when the receive it was handed to is cancelled \
    (its issues 24 and 50); ours hands it to the next taker";

pub(super) fn kanal(work: Work) -> Contestant {
    Contestant::peer("kanal", work).caveat(LOSES_MESSAGES)
}

#[cfg(test)]
mod tests {
    use crate::workload::one_thread::{poll_once, ready};

    #[test]
    fn kanal_still_deserves_the_caveat() {
        let (sender, receiver) = kanal::bounded_async::<u64>(64);
        let mut receive = Box::pin(receiver.recv());
        assert!(poll_once(receive.as_mut()).is_pending());
        ready(sender.send(7)).unwrap();
        drop(receive);
        assert_eq!(receiver.try_recv(), Ok(None), "the message was sent and is gone");
    }
}
