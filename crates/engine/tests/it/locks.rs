//! Spinlock and ticket lock against one simple queue.

use pagetoll_engine::{SpinLock, TicketCosts, TicketLock, Ticks};
use proptest::prelude::*;

use crate::{Bench, Notes, along_a_line};

const STEP: u64 = 7;
const REFETCH: u64 = 5;

/// Arrival of a task and the time for which it holds the lock; it is on the core of its number.
#[derive(Clone, Copy, Debug)]
struct Client {
    comes: u64,
    holds: u64,
}

fn clients() -> impl Strategy<Value = Vec<Client>> {
    let client = (1..60u64, 1..30u64).prop_map(|(comes, holds)| Client { comes, holds });
    prop::collection::vec(client, 1..20)
}

/// Order and times of the grants of a first-in first-out lock.
fn oracle(clients: &[Client], refetch: u64) -> Vec<(usize, u64)> {
    let mut order: Vec<usize> = (0..clients.len()).collect();
    order.sort_by_key(|&i| (clients[i].comes, i));
    let mut grants: Vec<(usize, u64)> = Vec::new();
    for (place, &i) in order.iter().enumerate() {
        let at = match grants.last() {
            Some(&(before, granted)) if clients[i].comes <= granted + clients[before].holds => {
                let released = granted + clients[before].holds;
                let waits = |&&other: &&usize| clients[other].comes <= released;
                let others = order[place + 1..].iter().filter(waits).count() as u64;
                released + before.abs_diff(i) as u64 * STEP + others / 2 * refetch
            }
            _ => clients[i].comes,
        };
        grants.push((i, at));
    }
    grants
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Spin,
    Ticket,
}

/// Runs the clients; gives back the grants, and what waiting has cost.
fn run(kind: Kind, clients: &[Client]) -> (Vec<(usize, u64)>, u64) {
    let mut bench = Bench::small();
    let (work, wait, handle) = (bench.work, bench.wait, bench.engine.handle().clone());
    let distance = along_a_line(STEP);
    let spin = SpinLock::new(&handle, "lock", wait, distance.clone());
    let costs = TicketCosts {
        hand_off: distance,
        refetch: Ticks(REFETCH),
    };
    let ticket = TicketLock::new(&handle, "lock", wait, costs);
    let grants = Notes::new();
    for (i, &client) in clients.iter().enumerate() {
        let (spin, ticket) = (spin.clone(), ticket.clone());
        let grants = grants.clone();
        bench.spawn("client", i, async move |cx| {
            cx.charge(work, Ticks(client.comes)).await;
            let _guard = match kind {
                Kind::Spin => spin.acquire(&cx).await,
                Kind::Ticket => ticket.acquire(&cx).await,
            };
            grants.add((i, cx.now().0));
            cx.charge(work, Ticks(client.holds)).await;
        });
    }
    bench.engine.run().unwrap();
    let waited = bench
        .engine
        .totals()
        .filter(|paid| paid.1 == wait)
        .map(|paid| paid.2.ticks.0)
        .sum();
    (grants.take(), waited)
}

proptest! {
    #[test]
    fn grants_follow_the_oracle(clients in clients()) {
        for (kind, refetch) in [(Kind::Spin, 0), (Kind::Ticket, REFETCH)] {
            let expected = oracle(&clients, refetch);
            let waited: u64 = expected.iter().map(|&(i, at)| at - clients[i].comes).sum();
            prop_assert_eq!(run(kind, &clients), (expected, waited), "{:?}", kind);
        }
    }
}

#[test]
fn the_oracle_knows_a_case_by_heart() {
    let clients = [(10, 20), (15, 5), (15, 5), (90, 1)];
    let clients = clients.map(|(comes, holds)| Client { comes, holds });
    assert_eq!(oracle(&clients, 0), [(0, 10), (1, 37), (2, 49), (3, 90)]);
    // At 30 two others wait: the next is served after one of them.
    let crowd = [(10, 20), (15, 5), (15, 5), (15, 5)];
    let crowd = crowd.map(|(comes, holds)| Client { comes, holds });
    assert_eq!(oracle(&crowd, 100)[1], (1, 137));
}

#[test]
fn an_uncontended_acquisition_is_not_recorded() {
    let clients = [
        Client { comes: 5, holds: 5 },
        Client {
            comes: 50,
            holds: 5,
        },
    ];
    for kind in [Kind::Spin, Kind::Ticket] {
        assert_eq!(run(kind, &clients), (vec![(0, 5), (1, 50)], 0));
    }
}
