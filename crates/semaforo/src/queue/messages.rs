//! Messages in the order of their coming, any of which can be withdrawn.

use std::collections::VecDeque;

/// A message, and what its sender is found by, if that waits until it is taken.
#[derive(Debug)]
pub(super) struct Message<T, S> {
    pub(super) number: u64,
    pub(super) item: T,
    pub(super) sender: Option<S>,
}

/// Messages in the order of their numbers.
///
/// In the line numbers follow each other without a gap, so that a message is found by its number; one
/// that was withdrawn leaves an empty place, and the line is closed up when half of it is empty.
#[derive(Debug)]
pub(super) struct Messages<T, S> {
    /// Those that were handed out and came back, in order. They come before the line.
    returned: VecDeque<Message<T, S>>,
    line: VecDeque<Option<(T, Option<S>)>>,
    empty_places: usize,
    /// The number of the next message to come, hence one more than that of the last in the line.
    next: u64,
}

impl<T, S: Copy> Messages<T, S> {
    pub(super) fn new() -> Self {
        Self { returned: VecDeque::new(), line: VecDeque::new(), empty_places: 0, next: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.returned.len() + self.line.len() - self.empty_places
    }

    /// A number for a message that is handed out at once, because nothing is in line.
    #[inline]
    pub(super) fn next_number(&mut self) -> u64 {
        debug_assert!(self.line.is_empty(), "a message has overtaken others");
        self.next += 1;
        self.next - 1
    }

    /// Puts a message last, and returns its number.
    #[inline]
    pub(super) fn push(&mut self, item: T, sender: Option<S>) -> u64 {
        self.line.push_back(Some((item, sender)));
        self.next += 1;
        self.next - 1
    }

    /// Takes the first message.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Message<T, S>> {
        if let Some(message) = self.returned.pop_front() {
            return Some(message);
        }
        let number = self.first();
        let (item, sender) = self.line.pop_front()??;
        self.trim();
        Some(Message { number, item, sender })
    }

    /// The first message.
    pub(super) fn peek(&self) -> Option<&T> {
        let line = || self.line.front()?.as_ref().map(|(item, _)| item);
        self.returned.front().map(|message| &message.item).or_else(line)
    }

    /// Puts a message back to where it was, before all that have not been handed out.
    pub(super) fn put_back(&mut self, message: Message<T, S>) {
        let place = self.returned.partition_point(|other| other.number < message.number);
        self.returned.insert(place, message);
    }

    /// Withdraws the message of this number. Those whose numbers change are told.
    pub(super) fn withdraw(&mut self, number: u64, renumber: impl FnMut(S, u64)) -> Option<T> {
        if number < self.first() {
            let place = self.returned.binary_search_by_key(&number, |message| message.number);
            return Some(self.returned.remove(place.ok()?)?.item);
        }
        let place = usize::try_from(number - self.first()).ok()?;
        let (item, _) = self.line.get_mut(place)?.take()?;
        self.empty_places += 1;
        self.trim();
        self.close_up(renumber);
        Some(item)
    }

    /// The number of the first place in the line.
    #[inline]
    fn first(&self) -> u64 {
        self.next - self.line.len() as u64
    }

    /// Removes empty places at the front: the first place is never empty. At the back they may stay,
    /// because numbers are not given twice.
    #[inline]
    fn trim(&mut self) {
        while let Some(None) = self.line.front() {
            self.line.pop_front();
            self.empty_places -= 1;
        }
    }

    fn close_up(&mut self, mut renumber: impl FnMut(S, u64)) {
        const WORTH_IT: usize = 32;
        if self.empty_places < WORTH_IT || self.empty_places * 2 < self.line.len() {
            return;
        }
        self.line.retain(Option::is_some);
        self.empty_places = 0;
        let first = self.first();
        for (number, place) in (first..).zip(&self.line) {
            if let Some((_, Some(sender))) = place {
                renumber(*sender, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Withdrawing, handing out and putting back at random, against a list of what should be there.
    #[test]
    fn any_message_can_be_withdrawn() {
        let mut messages = Messages::<u64, u64>::new();
        // By sender, the number under which it is found.
        let mut numbers = BTreeMap::new();
        let mut expected = VecDeque::new();
        let mut random = 7_u64;
        for sender in 0..20_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let dice = random >> 33;
            numbers.insert(sender, messages.push(sender, Some(sender)));
            expected.push_back(sender);
            match dice % 8 {
                0 => {
                    let message = messages.pop();
                    let first = expected.pop_front();
                    assert_eq!(message.as_ref().map(|message| message.item), first);
                    if let (Some(message), true) = (message, dice % 3 == 0) {
                        expected.push_front(message.item);
                        numbers.insert(message.item, message.number);
                        messages.put_back(message);
                    }
                }
                1..=6 => {
                    let place = (dice / 8) as usize % expected.len();
                    let sender = expected.remove(place).unwrap();
                    let item = messages.withdraw(numbers[&sender], |sender, number| {
                        numbers.insert(sender, number);
                    });
                    assert_eq!(item, Some(sender));
                }
                _ => {}
            }
            assert_eq!(messages.len(), expected.len());
        }
        let left: Vec<_> =
            std::iter::from_fn(|| messages.pop()).map(|message| message.item).collect();
        assert_eq!(left, expected.into_iter().collect::<Vec<_>>());
    }

    /// Senders that give up behind one who does not leave no trace.
    #[test]
    fn withdrawn_messages_take_no_room() {
        let mut messages = Messages::<u64, u64>::new();
        messages.push(0, None);
        for item in 1..100_000 {
            let number = messages.push(item, Some(item));
            assert_eq!(messages.withdraw(number, |_, _| ()), Some(item));
        }
        assert_eq!(messages.len(), 1);
        assert!(messages.line.len() < 100);
    }
}
