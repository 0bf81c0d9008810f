//! etcd: gRPC, one call at a time. Locks are kept by a lease, in either of etcd's two ways.

use super::grpc::{Call, Field, GREETING, Message, Reply, field};
use super::{Dialect, Refusal, Seen, Step, no_such_step};

/// Longer than a row, so that nothing has to be kept alive.
const LEASE_SECONDS: u64 = 600;

pub(in super::super) struct Etcd {
    way: Way,
    grant: Call,
    ping: Call,
    lock: Call,
    unlock: Call,
    /// Streams of a client are odd, and used once.
    stream: u32,
    reply: Reply,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A transaction creates the key if it does not exist; it is deleted.
    Transaction,
    /// The lock service, whose waiters queue by the revision of their keys.
    Service,
}

impl Etcd {
    /// A client with a name of its own, where nobody waits. Leases are chosen by the clients.
    pub(in super::super) fn with_transactions(name: &str, lease: u64) -> Etcd {
        const EQUAL: u64 = 0;
        const CREATE_REVISION: u64 = 1;
        let absent = Message::default()
            .number(1, EQUAL)
            .number(2, CREATE_REVISION)
            .bytes(3, name.as_bytes())
            .number(5, 0);
        let put = Message::default().bytes(1, name.as_bytes()).bytes(2, b"owner").number(3, lease);
        let transaction =
            Message::default().message(1, absent).message(2, Message::default().message(2, put));
        let lock = Call::new("/etcdserverpb.KV/Txn", transaction.encoded());
        let delete = Message::default().bytes(1, name.as_bytes());
        let unlock = Call::new("/etcdserverpb.KV/DeleteRange", delete.encoded());
        Etcd::new(Way::Transaction, lease, lock, unlock)
    }

    /// A client that queues for a name.
    pub(in super::super) fn with_lock_service(name: &str, lease: u64) -> Etcd {
        let lock = Message::default().bytes(1, name.as_bytes()).number(2, lease);
        let lock = Call::new("/v3lockpb.Lock/Lock", lock.encoded());
        Etcd::new(Way::Service, lease, lock, unlock_of(b""))
    }

    fn new(way: Way, lease: u64, lock: Call, unlock: Call) -> Etcd {
        let grant = Message::default().number(1, LEASE_SECONDS).number(2, lease);
        let grant = Call::new("/etcdserverpb.Lease/LeaseGrant", grant.encoded());
        let read = Message::default().bytes(1, b"nothing");
        let ping = Call::new("/etcdserverpb.KV/Range", read.encoded());
        Etcd { way, grant, ping, lock, unlock, stream: 1, reply: Reply::default() }
    }

    fn is_right(&mut self, step: Option<Step>, message: &[u8]) -> bool {
        match (self.way, step) {
            // Whether the transaction succeeded; how many keys were deleted.
            (Way::Transaction, Some(Step::Lock | Step::Unlock)) => {
                field(message, 2) == Some(Field::Number(1))
            }
            (Way::Service, Some(Step::Lock)) => match field(message, 2) {
                Some(Field::Bytes(key)) => {
                    self.unlock = unlock_of(key);
                    true
                }
                _ => false,
            },
            _ => true,
        }
    }
}

fn unlock_of(key: &[u8]) -> Call {
    Call::new("/v3lockpb.Lock/Unlock", Message::default().bytes(1, key).encoded())
}

impl Dialect for Etcd {
    fn greet(&mut self, out: &mut Vec<u8>) {
        out.extend(GREETING);
    }

    fn request(&mut self, step: Step, out: &mut Vec<u8>) {
        let call = match step {
            Step::Prepare => &self.grant,
            Step::Ping => &self.ping,
            Step::Lock => &self.lock,
            Step::Unlock => &self.unlock,
            other => no_such_step("etcd", other),
        };
        call.write(self.stream, out);
        self.stream += 2;
    }

    fn answer(
        &mut self,
        step: Option<Step>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Seen, Refusal> {
        let seen = self.reply.read(input, out)?;
        if let Seen::Answer(length) = seen {
            match self.reply.take() {
                Some(message) if self.is_right(step, &message) => {}
                Some(message) => return Err(Refusal::answered(&message)),
                None => return Err(Refusal::answered(&input[..length])),
            }
        }
        Ok(seen)
    }
}
