//! What players must not lose: their avatars, what they have with them, and time after a crash.

use super::super::game::{AVATAR, BAG, Drift, DriftBag};
use super::MeshWorld;
use foveate_node::game::{Game, PlayerId};
use foveate_node::region::RegionServer;
use foveate_node::region::ledger::{AppendId, Subject, read_record};
use foveate_node::region::players::{
    KeptObject, PlayerPlace, PlayerRecord, player_number, subject,
};
use foveate_wire::{ObjectId, Replicate};
use std::collections::BTreeMap;

/// A bag's count is logged as it rises; a crash takes what was on its way to the ledger.
const COUNT_LOST: u32 = 6;

impl MeshWorld {
    /// A server crashed: its players cannot play.
    pub(super) fn note_crash(&mut self, server: &RegionServer<Drift>) {
        let hosted: BTreeMap<PlayerId, _> = server
            .hosted_players()
            .filter(|(region, _, epoch)| {
                self.checker.fenced.get(region).copied() == Some(*epoch as u32)
            })
            .map(|(region, player, _)| (player, region))
            .collect();
        let now = self.now;
        for it in self.clients.clients.iter_mut().filter(|it| !it.away) {
            let player = it.client.joined().map(|joined| joined.player);
            let region = player.and_then(|player| hosted.get(&player));
            it.orphaned = region.map(|region| (*region, now)).or(it.orphaned);
        }
    }

    /// Whether a player whose host crashed plays again.
    pub(super) fn note_play(&mut self, at: usize) {
        let Some((region, since)) = self.clients.clients[at].orphaned else { return };
        if !self.plays(at) {
            return;
        }
        let noticed = self.checker.noticed.get(&region).copied().unwrap_or(since).max(since);
        self.clients.silences.push(self.now.saturating_sub(noticed));
        self.clients.clients[at].orphaned = None;
    }

    /// Where a client thinks it is, and where others think so.
    pub(super) fn whereabouts(&self, at: usize) -> String {
        let it = &self.clients.clients[at];
        let player = player_number(&it.name, 0);
        let links = self.clients.links.iter().filter(|(_, link)| link.client == at);
        let links: Vec<_> = links.map(|(link, it)| (link.0 as u32, it.server)).collect();
        let record = self.record_of(player).map(|it| (it.epoch, it.place));
        let host = it.client.host_link().map(|link| link.0 as u32);
        let hosts: Vec<_> = self
            .servers()
            .flat_map(|server| server.hosted_players().map(|it| (server.id(), it)))
            .filter(|(_, (_, who, _))| *who == player)
            .map(|(server, (region, _, epoch))| (server, region, epoch >> 32))
            .collect();
        let owners: Vec<_> = self
            .servers()
            .flat_map(|server| server.regions().map(|it| (server.id(), it)))
            .filter(|(_, region)| region.owns(self.game.avatar_of(player)))
            .map(|(server, region)| (server, region.id))
            .collect();
        let (phase, epoch) = (it.client.phase(), it.client.session_epoch() >> 32);
        format!(
            "{player:?} {phase:?} in {epoch} by {host:?} of {links:?}, hosted {hosts:?}, owned {owners:?}, {record:?}"
        )
    }

    /// Looks for what each player has: in the world while they are in, in their record while they are not.
    pub fn look_for_belongings(&mut self) {
        let owned = self.owned_by_players();
        for at in 0..self.clients.clients.len() {
            let name = self.clients.clients[at].name.clone();
            let player = player_number(&name, 0);
            let record = self.record_of(player);
            let Some(record) = record.filter(|record| record.name == name) else { continue };
            let theirs = owned.get(&player).map_or(&[][..], |it| &it[..]);
            let found = judge(&record, theirs, self.bag_count(theirs, &record));
            let it = &mut self.clients.clients[at];
            let (missing, count) = found;
            let fell = count.is_some_and(|count| count + COUNT_LOST < it.count);
            it.count = it.count.max(count.unwrap_or(0));
            let missing = missing.or_else(|| {
                fell.then(|| format!("the bag counts {count:?}, and counted {}", it.count))
            });
            it.amiss = if missing.is_some() { it.amiss + 1 } else { 0 };
            it.missing = missing.unwrap_or_default();
        }
    }

    /// What is owned of players' in regions that may act.
    fn owned_by_players(&self) -> BTreeMap<PlayerId, Vec<(ObjectId, Vec<i32>)>> {
        let mut owned: BTreeMap<PlayerId, Vec<_>> = BTreeMap::new();
        for (server, clock) in self.clocks() {
            for region in server.regions().filter(|it| server.may_act_until(it.id) > clock) {
                let theirs = region.owned().filter(|(id, _)| [AVATAR, BAG].contains(&id.kind()));
                for (id, _) in theirs {
                    let lanes = region.state(id).map(|state| state.lanes).unwrap_or_default();
                    owned.entry(PlayerId(id.origin())).or_default().push((id, lanes));
                }
            }
        }
        owned
    }

    fn record_of(&self, player: PlayerId) -> Option<PlayerRecord> {
        let subject: Subject = subject(player);
        let bytes = self.ledger.history(subject).last()?.1;
        read_record::<(AppendId, PlayerRecord)>(bytes).ok().map(|it| it.1)
    }

    /// What a player's bag counts, in the world or in the record.
    fn bag_count(&self, owned: &[(ObjectId, Vec<i32>)], record: &PlayerRecord) -> Option<u32> {
        let kept = match &record.place {
            PlayerPlace::Hosted { kept, .. } | PlayerPlace::Away { kept, .. } => kept,
        };
        let kept = kept.iter().map(|it| (ObjectId(it.object), &it.lanes));
        let all = owned.iter().map(|(id, lanes)| (*id, lanes)).chain(kept);
        let kind = self.game.schema().kind(BAG)?;
        all.filter(|(id, _)| id.kind() == BAG)
            .map(|(_, lanes)| DriftBag::get(kind, lanes).count)
            .max()
    }
}

/// What is wrong with what a player has, if anything is.
fn judge(
    record: &PlayerRecord,
    owned: &[(ObjectId, Vec<i32>)],
    count: Option<u32>,
) -> (Option<String>, Option<u32>) {
    let of = |kind| owned.iter().filter(|(id, _)| id.kind() == kind).count();
    let there = (of(AVATAR), of(BAG));
    let has = |kept: &[KeptObject], kind| kept.iter().any(|it| ObjectId(it.object).kind() == kind);
    let wrong = match &record.place {
        PlayerPlace::Hosted { .. } if there == (1, 1) => None,
        PlayerPlace::Hosted { region, .. } => {
            Some(format!("is in at {region:?}, with {there:?} of avatar and bag"))
        }
        PlayerPlace::Away { .. } if there != (0, 0) => {
            Some(format!("is away, and {there:?} of avatar and bag are there"))
        }
        PlayerPlace::Away { kept, .. } if !has(kept, BAG) => {
            Some("is away, and the bag is not kept".to_owned())
        }
        PlayerPlace::Away { .. } => None,
    };
    (wrong, count)
}
