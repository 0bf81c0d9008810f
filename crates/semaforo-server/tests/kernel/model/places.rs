//! A queue and a barrier.

use semaforo_server::kernel::{Header, Verb};

use super::{Ask, Expected, Message, Model, Owner, Received, Round, Taken};
use crate::support::{Caller, Request};

const QUEUE: &str = "queue";

/// How many numbers the kernel reserves at a time: those that are left are not used after a
/// restart.
const NUMBER_BLOCK: u64 = 1 << 14;

impl Model {
    fn first_ready(&self) -> Option<usize> {
        let ready =
            |message: &&(usize, &Message)| message.1.due.is_none() && message.1.out.is_none();
        let all = self.messages.iter().enumerate();
        let first = all.collect::<Vec<_>>();
        let first = first.iter().filter(ready).min_by_key(|(_, it)| (it.priority, it.number));
        first.map(|(at, _)| *at)
    }

    fn is_full(&self) -> bool {
        self.messages.len() >= self.capacity
    }

    fn put(&mut self, payload: &'static [u8], priority: i32, delay: u64, sender: bool) -> u64 {
        let number = self.beyond;
        self.beyond += 1;
        if number >= self.next {
            self.next = number + NUMBER_BLOCK;
        }
        let due = (delay > 0).then(|| self.now + delay);
        let (deliveries, out) = (0, None);
        self.messages.push(Message { number, priority, due, deliveries, payload, sender, out });
        number
    }

    fn hand_over(
        &mut self,
        at: usize,
        owner: Owner,
        manual: bool,
        kept: bool,
        request: Request,
    ) -> Expected {
        let message = &mut self.messages[at];
        let takes = message.deliveries;
        let (number, sender) = (message.number, message.sender);
        let answer = Expected { payload: Some(message.payload.to_vec()), ..Expected::status(200) };
        let answer = answer.number(Header::Message, number).number(Header::Deliveries, takes + 1);
        if manual {
            message.deliveries += 1;
            message.out = Some(owner);
            return answer;
        }
        let mut message = self.messages.remove(at);
        if sender {
            self.delivered(number);
        }
        if !kept {
            message.sender = false;
            self.taken.insert(request, Taken(message));
        }
        answer
    }

    /// The request that transferred it can go.
    fn delivered(&mut self, number: u64) {
        let is_sender = |ask: &Ask| *ask == Ask::Transfer { number };
        if let Some(wait) = self.first(QUEUE, is_sender) {
            self.complete(wait.request, Expected::status(200));
        }
    }

    pub(crate) fn undelivered(&mut self, taken: Taken) {
        let Taken(message) = taken;
        if self.messages.iter().all(|other| other.number != message.number) {
            self.messages.push(message);
            self.settle_queue();
        }
    }

    /// Lets messages be taken whose time has come.
    pub(super) fn promote(&mut self) {
        let now = self.now;
        for message in &mut self.messages {
            message.due = message.due.filter(|due| *due > now);
        }
    }

    pub(super) fn settle_queue(&mut self) {
        loop {
            let taker = self.first(QUEUE, |ask| matches!(ask, Ask::Take { .. }));
            let putter = self.first(QUEUE, |ask| matches!(ask, Ask::Put { .. }));
            if let (Some(at), Some(taker)) = (self.first_ready(), taker) {
                let manual = taker.ask == Ask::Take { manual: true };
                let kept = taker.retry.is_some();
                let answer = self.hand_over(at, taker.owner, manual, kept, taker.request);
                self.complete(taker.request, answer);
            } else if let Some(putter) = putter.filter(|_| !self.is_full())
                && let Ask::Put { payload, priority, delay } = putter.ask
            {
                let number = self.put(payload, priority, delay, false);
                let answer = Expected::status(200).number(Header::Message, number);
                self.complete(putter.request, answer);
            } else {
                return;
            }
        }
    }

    pub(super) fn ask_queue(
        &mut self,
        caller: &Caller,
        request: Request,
        name: &'static str,
        verb: Verb<'static>,
    ) -> Received {
        let answered = |status| Received::Answered(Expected::status(status));
        let owner = Self::owner(caller);
        let impatient = caller.timeout == Some(0);
        let takers = self.first(name, |ask| matches!(ask, Ask::Take { .. })).is_some();
        let putters = self.first(name, |ask| matches!(ask, Ask::Put { .. })).is_some();
        let mine = |model: &Self, number, meant: Option<u64>| {
            let is_mine = |it: &Message| {
                let is_meant = meant.is_none_or(|deliveries| deliveries == it.deliveries);
                it.number == number && it.out == Some(owner) && is_meant
            };
            model.messages.iter().position(is_mine)
        };
        match verb {
            Verb::Put { payload, priority, delay } => {
                if self.is_full() || putters {
                    if impatient {
                        return answered(204);
                    }
                    return self.wait(caller, request, name, Ask::Put { payload, priority, delay });
                }
                let number = self.put(payload, priority, delay, false);
                self.settle_queue();
                Received::Answered(Expected::status(200).number(Header::Message, number))
            }
            Verb::Transfer { payload, priority } => {
                if impatient && !takers {
                    return answered(204);
                }
                let number = self.put(payload, priority, 0, true);
                let received = self.wait(caller, request, name, Ask::Transfer { number });
                self.settle_queue();
                received
            }
            Verb::Take { manual } => {
                self.promote();
                self.settle_queue();
                let takers = self.first(name, |ask| matches!(ask, Ask::Take { .. })).is_some();
                match self.first_ready().filter(|_| !takers) {
                    Some(at) => {
                        let kept = caller.retry.is_some();
                        let answer = self.hand_over(at, owner, manual, kept, request);
                        self.settle_queue();
                        Received::Answered(answer)
                    }
                    None if impatient => answered(204),
                    None => self.wait(caller, request, name, Ask::Take { manual }),
                }
            }
            Verb::Ack { message, deliveries } => {
                let Some(at) = mine(self, message, deliveries) else { return answered(410) };
                if self.messages.remove(at).sender {
                    self.delivered(message);
                }
                self.settle_queue();
                answered(200)
            }
            Verb::Return { message, deliveries, delay } => {
                let Some(at) = mine(self, message, deliveries) else { return answered(410) };
                let due = (delay > 0).then(|| self.now + delay);
                let message = &mut self.messages[at];
                (message.due, message.out) = (due, None);
                self.settle_queue();
                answered(200)
            }
            other => unreachable!("{other:?} is not asked for"),
        }
    }

    pub(super) fn ask_barrier(
        &mut self,
        caller: &Caller,
        request: Request,
        name: &'static str,
        verb: Verb<'static>,
    ) -> Received {
        let answered = |status| Received::Answered(Expected::status(status));
        let Verb::Arrive { parties, .. } = verb else {
            self.turn_away();
            self.round = None;
            return answered(200);
        };
        let deserted = self.waits.iter().all(|wait| wait.name != name);
        self.round =
            self.round.filter(|round| round.broken || !deserted || round.parties == parties);
        if parties == 1 && self.round.is_none() {
            self.rounds += 1;
            return Received::Answered(arrived(self.rounds, 0));
        }
        let round = *self.round.get_or_insert_with(|| {
            self.rounds += 1;
            Round { parties, number: self.rounds, broken: false }
        });
        if round.broken || round.parties != parties {
            return answered(409);
        }
        let index = self.waits.iter().filter(|wait| wait.name == name).count() as u64;
        if index + 1 < u64::from(parties) {
            if caller.timeout == Some(0) {
                self.break_barrier();
                return answered(204);
            }
            return self.wait(caller, request, name, Ask::Arrive { index });
        }
        while let Some(wait) = self.first(name, |_| true)
            && let Ask::Arrive { index } = wait.ask
        {
            self.complete(wait.request, arrived(round.number, index));
        }
        self.round = None;
        Received::Answered(arrived(round.number, index))
    }

    pub(super) fn break_barrier(&mut self) {
        if let Some(round) = &mut self.round {
            round.broken = true;
        }
        self.turn_away();
    }

    fn turn_away(&mut self) {
        while let Some(wait) = self.first("barrier", |_| true) {
            self.complete(wait.request, Expected::status(409));
        }
    }
}

fn arrived(round: u64, index: u64) -> Expected {
    Expected { round: Some(round), ..Expected::status(200) }.number(Header::Index, index)
}
