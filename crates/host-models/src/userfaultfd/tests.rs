//! The queues against a naive oracle, and areas that are cut and joined.

use pagetoll_units::Hva;
use proptest::prelude::*;

use super::{Fault, Features, OpenFlags, Queues, Range, ThreadId, UffdId};
use crate::mm::{Backing, Mm, Modes, PAGE_SIZE, Permission, Reason, Vma};

const START: u64 = 1 << 34;

#[derive(Clone, Copy, Debug)]
enum Step {
    Sleep(u64),
    Read,
    Wake(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0_u64..8).prop_map(Step::Sleep),
        2 => Just(Step::Read),
        1 => (0_u64..8, 1_u64..4).prop_map(|(at, pages)| Step::Wake(at, pages)),
    ];
    proptest::collection::vec(step, 1..80)
}

fn fault(thread: u32, page: u64) -> Fault {
    Fault {
        thread: ThreadId(thread),
        address: Hva(START + page * PAGE_SIZE),
        reason: Reason::Missing,
        write: false,
    }
}

proptest! {
    /// One list of who sleeps, with a mark for what was read, is all that the two queues are.
    #[test]
    fn no_thread_is_lost_or_woken_twice(steps in steps()) {
        let mut queues = Queues::default();
        let mut sleepers: Vec<(Fault, bool)> = Vec::new();
        for (step, thread) in steps.into_iter().zip(0..) {
            match step {
                Step::Sleep(page) => {
                    queues.push(fault(thread, page));
                    sleepers.push((fault(thread, page), false));
                }
                Step::Read => {
                    let oldest = sleepers.iter_mut().find(|(_, read)| !read);
                    let expected = oldest.map(|(fault, read)| {
                        *read = true;
                        *fault
                    });
                    prop_assert_eq!(queues.refile(), expected);
                }
                Step::Wake(page, pages) => {
                    let start = START + page * PAGE_SIZE;
                    let mut woken = queues.wake(Hva(start), pages * PAGE_SIZE);
                    woken.sort_unstable();
                    let within = |fault: &Fault| {
                        (start..start + pages * PAGE_SIZE).contains(&fault.address.0)
                    };
                    let mut expected: Vec<_> = sleepers
                        .iter()
                        .filter(|(fault, _)| within(fault))
                        .map(|(fault, _)| fault.thread)
                        .collect();
                    expected.sort_unstable();
                    prop_assert_eq!(woken, expected);
                    sleepers.retain(|(fault, _)| !within(fault));
                }
            }
            let unread = sleepers.iter().filter(|(_, read)| !read).count();
            prop_assert_eq!((queues.pending(), queues.total()), (unread, sleepers.len()));
        }
    }

    /// However areas are cut and joined, each page is watched as the last call on it said, and no two areas that could
    /// be one are two.
    #[test]
    fn each_page_is_watched_as_last_registered(
        calls in proptest::collection::vec((any::<bool>(), 0_u64..12, 1_u64..6), 1..40)
    ) {
        let (mut mm, uffd) = watched(12);
        let mut expected = [false; 12];
        for (register, first, pages) in calls {
            let range = Range { start: Hva(START + first * PAGE_SIZE), len: pages * PAGE_SIZE };
            match register {
                true => { mm.uffdio_register(uffd, range, Modes::MISSING).unwrap(); }
                false => { mm.uffdio_unregister(uffd, range).unwrap(); }
            }
            for (page, watched) in (0..).zip(&mut expected) {
                if (first..first + pages).contains(&page) {
                    *watched = register;
                }
                let vma = mm.vma(Hva(START + page * PAGE_SIZE)).unwrap();
                prop_assert_eq!(vma.registration.is_some(), *watched);
            }
            let changes = expected.windows(2).filter(|pair| pair[0] != pair[1]).count();
            prop_assert_eq!(mm.vmas_in(0, u64::MAX).count(), changes + 1);
        }
    }
}

fn watched(pages: u64) -> (Mm, UffdId) {
    let mut mm = Mm::new();
    mm.map(Vma {
        start: Hva(START),
        end: Hva(START + pages * PAGE_SIZE),
        backing: Backing::Anonymous,
        permission: Permission::ReadWrite,
        registration: None,
    });
    let uffd = mm.userfaultfd(OpenFlags::default());
    mm.uffdio_api(uffd, 0xaa, Features::default()).unwrap();
    (mm, uffd)
}
