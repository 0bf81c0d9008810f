//! What survives of that which was not synced.

/// What survives a crash of that which was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Luck {
    /// Nothing.
    Lost,
    /// Everything.
    Kept,
    /// Everything, but of each file's last write only so many bytes.
    Torn(usize),
    /// Any sectors of any writes, and any changes of names; the number chooses them.
    Random(u64),
}

/// Luck at work.
#[derive(Debug)]
pub(super) struct Fate {
    luck: Luck,
    random: u64,
    /// Of four sectors or names, about so many are kept.
    quarters: u64,
}

impl Luck {
    pub(super) fn begin(self) -> Fate {
        let seed = if let Self::Random(seed) = self { seed } else { 0 };
        // Neighbouring seeds shall not begin alike.
        let random = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut fate = Fate { luck: self, random, quarters: 0 };
        fate.quarters = fate.draw() % 3 + 1;
        fate
    }
}

impl Fate {
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 20
    }

    pub(super) fn keeps_names(&mut self) -> bool {
        self.keeps_sector()
    }

    pub(super) fn keeps_sector(&mut self) -> bool {
        match self.luck {
            Luck::Lost => false,
            Luck::Kept | Luck::Torn(_) => true,
            Luck::Random(_) => self.draw() % 4 < self.quarters,
        }
    }

    pub(super) fn length_of_write(&self, length: usize, is_last: bool) -> usize {
        match self.luck {
            Luck::Torn(kept) if is_last => kept.min(length),
            _ => length,
        }
    }
}
