//! One holder, and many readers or one writer.

use semaforo::Policy;
use semaforo::policy::{
    Access, Ending, Entry, Exclusive, Exit, Lanes, OwnedReadWrite, Owner, ReadWrite,
};

use crate::explore::{Model, explore, outstanding_grants_can_be_given_back};

impl Model<Exclusive> for (bool, bool) {
    fn acquire(&self, (): ()) -> Option<Self> {
        (!self.0).then_some((true, self.1))
    }
    fn give(&self, (): ()) -> Option<Self> {
        self.0.then_some((false, self.1))
    }
    fn agrees(&self, state: u64) -> bool {
        Exclusive::is_held(state) == self.0 && Exclusive.barges(state) == self.1
    }
}

#[test]
fn exclusive_in_every_state() {
    for barging in [false, true] {
        let initial = Exclusive::initial(barging);
        assert_eq!(explore(Exclusive, initial, (false, barging), &[()], &[()]), 2);
        outstanding_grants_can_be_given_back(Exclusive, initial, &[()], &[], &[], 2);
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LockModel {
    readers: u32,
    writer: bool,
}

const READERS: u32 = 3;

impl Model<ReadWrite> for LockModel {
    fn acquire(&self, access: Access) -> Option<Self> {
        let free = !self.writer;
        match access {
            Access::Read => free.then_some(Self { readers: self.readers + 1, writer: false }),
            Access::Write => {
                (free && self.readers == 0).then_some(Self { readers: 0, writer: true })
            }
        }
    }
    fn give(&self, ending: Ending) -> Option<Self> {
        let Self { readers, writer } = *self;
        match ending {
            Ending::Read => Some(Self { readers: readers.checked_sub(1)?, writer }),
            Ending::Write => writer.then_some(Self { readers, writer: false }),
            Ending::Downgrade => writer.then_some(Self { readers: 1, writer: false }),
            Ending::Upgrade => (readers == 1).then_some(Self { readers: 0, writer: true }),
        }
    }
    fn agrees(&self, state: u64) -> bool {
        assert!(!self.writer || self.readers == 0, "a writer is alone");
        ReadWrite::readers(state) == self.readers && ReadWrite::has_writer(state) == self.writer
    }
    fn is_at_the_edge(&self) -> bool {
        self.readers > READERS
    }
}

const ACCESSES: [Access; 2] = [Access::Read, Access::Write];
const ENDINGS: [Ending; 4] = [Ending::Read, Ending::Write, Ending::Downgrade, Ending::Upgrade];

#[test]
fn read_write_in_every_state() {
    for barging in [false, true] {
        let initial = ReadWrite::initial(barging);
        let model = LockModel { readers: 0, writer: false };
        let states = explore(ReadWrite, initial, model, &ACCESSES, &ENDINGS);
        assert_eq!(states as u32, READERS + 2, "up to three readers, or a writer");
        assert_eq!(ReadWrite.barges(initial), barging);
        let converts = [
            (Access::Read, Ending::Upgrade, Some(Access::Write)),
            (Access::Write, Ending::Downgrade, Some(Access::Read)),
        ];
        outstanding_grants_can_be_given_back(ReadWrite, initial, &ACCESSES, &[], &converts, 3);
    }
}

/// Hoare's rule, for every state, ending and line.
#[test]
fn read_write_serves_by_hoares_rule() {
    let states = [0, 1, 3].map(|readers| {
        (0..readers).fold(0, |state, _| ReadWrite.acquire(state, Access::Read).unwrap())
    });
    for state in states {
        for given in ENDINGS.map(Some).into_iter().chain([None]) {
            for bits in 1..4 {
                let waiting = Lanes::from_bits(bits);
                let lane = ReadWrite.next_lane(state, given, waiting);
                assert!(waiting.contains(lane), "somebody waits there");
                let write_ended = matches!(given, Some(Ending::Write | Ending::Downgrade));
                if bits == 3 {
                    let readers_first = lane == ReadWrite::READ_LANE;
                    assert_eq!(readers_first, write_ended, "after {given:?}");
                }
            }
        }
    }
    assert_eq!(ReadWrite.lane(Access::Read), ReadWrite::READ_LANE);
    assert_eq!(ReadWrite.lane(Access::Write), ReadWrite::WRITE_LANE);
}

/// Who writes how often and reads how often, or how many read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum OwnedReadWriteModel {
    Read(u32),
    Written { by: Owner, writes: u32, reads: u32 },
}

impl OwnedReadWriteModel {
    /// Without writes, it is only read.
    fn settled(by: Owner, writes: u32, reads: u32) -> Self {
        if writes == 0 { Self::Read(reads) } else { Self::Written { by, writes, reads } }
    }
}

impl Model<OwnedReadWrite> for OwnedReadWriteModel {
    fn acquire(&self, entry: Entry) -> Option<Self> {
        match (self, entry) {
            (Self::Read(readers), Entry::Read(_)) => Some(Self::Read(readers + 1)),
            (Self::Read(0), Entry::Write(owner)) => Some(Self::settled(owner, 1, 0)),
            (Self::Written { by, writes, reads }, Entry::Read(owner)) if *by == owner => {
                Some(Self::settled(owner, *writes, reads + 1))
            }
            (Self::Written { by, writes, reads }, Entry::Write(owner)) if *by == owner => {
                Some(Self::settled(owner, writes + 1, *reads))
            }
            _ => None,
        }
    }
    fn give(&self, exit: Exit) -> Option<Self> {
        match (self, exit) {
            (Self::Read(readers @ 1..), Exit::Read(_)) => Some(Self::Read(readers - 1)),
            (Self::Read(readers @ 1..), Exit::ReadAgain(_)) => Some(Self::Read(readers + 1)),
            (Self::Read(1), Exit::Upgrade(owner)) => Some(Self::settled(owner, 1, 0)),
            (Self::Written { by, writes, reads }, exit) => match exit {
                Exit::Read(owner) if *by == owner && *reads > 0 => {
                    Some(Self::settled(owner, *writes, reads - 1))
                }
                Exit::ReadAgain(owner) if *by == owner && *reads > 0 => {
                    Some(Self::settled(owner, *writes, reads + 1))
                }
                Exit::Write(owner) if *by == owner => {
                    Some(Self::settled(owner, writes - 1, *reads))
                }
                Exit::Downgrade(owner) if *by == owner => {
                    Some(Self::settled(owner, writes - 1, reads + 1))
                }
                _ => None,
            },
            _ => None,
        }
    }
    fn agrees(&self, state: u64) -> bool {
        let (by, writes, reads) = match *self {
            Self::Read(readers) => (None, 0, readers),
            Self::Written { by, writes, reads } => (Some(by), writes, reads),
        };
        OwnedReadWrite::writer(state) == by
            && OwnedReadWrite::writes(state) == writes
            && OwnedReadWrite::readers(state) == reads
    }
    fn is_at_the_edge(&self) -> bool {
        match *self {
            Self::Read(readers) => readers > 3,
            Self::Written { writes, reads, .. } => writes > 3 || reads > 3,
        }
    }
}

#[test]
fn owned_read_write_in_every_state() {
    let owners = [1, 2].map(|number| Owner::new(number).unwrap());
    let asks: Vec<_> = owners.into_iter().flat_map(|o| [Entry::Read(o), Entry::Write(o)]).collect();
    let exits = |owner| {
        [Exit::Read, Exit::Write, Exit::Downgrade, Exit::Upgrade, Exit::ReadAgain]
            .map(|exit| exit(owner))
    };
    let gives: Vec<_> = owners.into_iter().flat_map(exits).collect();
    explore(OwnedReadWrite, 0, OwnedReadWriteModel::Read(0), &asks, &gives);
    for owner in owners {
        let written = OwnedReadWrite.acquire(0, Entry::Write(owner)).unwrap();
        for other in owners {
            for entry in [Entry::Read(other), Entry::Write(other)] {
                assert_eq!(OwnedReadWrite.overtakes(written, entry), owner == other);
            }
        }
    }
}
