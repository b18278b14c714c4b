//! The reader-writer semaphore against a simulation tick by tick.

use std::collections::VecDeque;

use pagetoll_engine::{Distance, RwSem, Ticks};
use proptest::prelude::*;

use crate::{Bench, Notes};

const WAKE_UP: u64 = 3;

#[derive(Clone, Copy, Debug)]
struct Client {
    comes: u64,
    holds: u64,
    writes: bool,
}

fn clients() -> impl Strategy<Value = Vec<Client>> {
    let client = (1..50u64, 1..20u64, prop::bool::weighted(0.35));
    let client = client.prop_map(|(comes, holds, writes)| Client {
        comes,
        holds,
        writes,
    });
    prop::collection::vec(client, 1..20)
}

#[derive(Default)]
struct Oracle {
    holders: Vec<usize>,
    queue: VecDeque<usize>,
    starts: Vec<Option<u64>>,
}

impl Oracle {
    fn admits(&self, clients: &[Client], i: usize) -> bool {
        let writer = self.holders.iter().any(|&holder| clients[holder].writes);
        !writer && (!clients[i].writes || self.holders.is_empty())
    }

    /// When each client has the semaphore.
    fn run(mut self, clients: &[Client]) -> Vec<u64> {
        self.starts = vec![None; clients.len()];
        for now in 0.. {
            for i in (0..clients.len()).filter(|&i| clients[i].comes == now) {
                if self.queue.is_empty() && self.admits(clients, i) {
                    self.holders.push(i);
                    self.starts[i] = Some(now);
                } else {
                    self.queue.push_back(i);
                }
            }
            let starts = &self.starts;
            self.holders
                .retain(|&i| starts[i].unwrap() + clients[i].holds != now);
            while let Some(&i) = self.queue.front().filter(|&&i| self.admits(clients, i)) {
                self.queue.pop_front();
                self.holders.push(i);
                self.starts[i] = Some(now + WAKE_UP);
            }
            if let Some(starts) = self.starts.iter().copied().collect() {
                return starts;
            }
        }
        unreachable!()
    }
}

proptest! {
    #[test]
    fn grants_follow_the_oracle(clients in clients()) {
        let mut bench = Bench::small();
        let (work, wait) = (bench.work, bench.wait);
        let sem = RwSem::new(bench.engine.handle(), "sem", wait, Distance::uniform(Ticks(WAKE_UP)));
        let notes = Notes::new();
        for (i, &client) in clients.iter().enumerate() {
            let (sem, notes) = (sem.clone(), notes.clone());
            bench.spawn("client", i, async move |cx| {
                cx.charge(work, Ticks(client.comes)).await;
                let (_read, _write);
                if client.writes {
                    _write = sem.write(&cx).await;
                } else {
                    _read = sem.read(&cx).await;
                }
                notes.add((i, cx.now().0));
                cx.charge(work, Ticks(client.holds)).await;
            });
        }
        bench.engine.run().unwrap();
        let mut starts = notes.take();
        starts.sort_unstable();
        let expected = Oracle::default().run(&clients);
        prop_assert_eq!(starts, expected.into_iter().enumerate().collect::<Vec<_>>());
    }
}
