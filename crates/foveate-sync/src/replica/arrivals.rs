//! Which packets arrived, for acknowledgements.

use super::ReceiveError;
use foveate_wire::packet::Ack;

/// The newest packet, and which of the 32 before it arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrivals(Option<Ack>);

impl Arrivals {
    /// Whether a packet is new enough, and has not arrived before.
    pub fn check(&self, seq: u16) -> Result<(), ReceiveError> {
        let Some(ack) = &self.0 else { return Ok(()) };
        match ack.newest.wrapping_sub(seq) {
            0x8000.. => Ok(()),
            0..=32 if !ack.has(seq) => Ok(()),
            0..=32 => Err(ReceiveError::Duplicate(seq)),
            _ => Err(ReceiveError::TooOld(seq)),
        }
    }

    /// Notes that a packet was applied.
    pub fn note(&mut self, seq: u16) {
        let Some(ack) = &mut self.0 else {
            self.0 = Some(Ack { newest: seq, before: 0 });
            return;
        };
        let ahead = seq.wrapping_sub(ack.newest);
        match ahead {
            0 => {}
            1..0x8000 => {
                // The old newest becomes one of those before.
                let shifted = ack.before.checked_shl(u32::from(ahead)).unwrap_or(0);
                let old = 1u32.checked_shl(u32::from(ahead) - 1).unwrap_or(0);
                *ack = Ack { newest: seq, before: shifted | old };
            }
            _ => {
                let behind = ack.newest.wrapping_sub(seq);
                ack.before |= 1u32.checked_shl(u32::from(behind) - 1).unwrap_or(0);
            }
        }
    }

    /// The acknowledgement to send.
    pub fn ack(&self) -> Option<Ack> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn acknowledges_exactly_what_arrived(steps in prop::collection::vec(-20i32..24, 1..200), first: u16) {
            let (mut arrivals, mut seen) = (Arrivals::default(), BTreeSet::new());
            let mut at = i64::from(first);
            let mut newest = at;
            for step in steps {
                at = newest + i64::from(step);
                let seq = at as u16;
                if arrivals.check(seq).is_ok() {
                    prop_assert!(seen.insert(at));
                    arrivals.note(seq);
                    newest = if seen.len() == 1 { at } else { newest.max(at) };
                }
            }
            let ack = arrivals.ack().unwrap();
            prop_assert_eq!(ack.newest, newest as u16);
            for behind in 0..=32 {
                prop_assert_eq!(ack.has((newest - behind) as u16), seen.contains(&(newest - behind)));
            }
            let _ = at;
        }
    }
}
