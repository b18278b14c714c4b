//! Captures with what pastes have around them: each is read as it is without.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use pagetoll_captures::observe;
use pagetoll_observation::Item;
use pagetoll_xentrace::symbols::Symbols;
use proptest::prelude::*;

/// Texts by the tools that print them.
const TEXTS: [&str; 5] = [
    "Analyze events for all VMs, all VCPUs:\n\n             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time\n\n       EPT_VIOLATION        100    10.00%    80.00%      0.92us  31765.89us      7.78us ( +-   1.46% )\n  External interrupt        900    90.00%    20.00%      0.40us    765.89us      2.50us ( +-  11.46% )\n\nTotal Samples:1000, Total events handled time:3028.00us.\n",
    "Domain: 'a'\n  state.state=1\n  vcpu.0.exits.sum=7474\n  vcpu.0.pf_fixed.sum=12\n  vm.pages_4k.cur=796\n",
    "/sys/kernel/debug/kvm/12-9/exits:11\n/sys/kernel/debug/kvm/12-9/vcpu0/pf_fixed:7\n",
    " CPU 0/KVM-4711  [001] d..1. 5.000001: kvm_exit: vcpu 0 reason EPT_VIOLATION rip 0x1 info1 0x0000000000000184 info2 0x0 intr_info 0x0 error_code 0x0\n CPU 0/KVM-4711  [001] ..... 5.000002: kvm_page_fault: vcpu 0 rip 0x1 address 0x2000 error_code 0x184\n CPU 0/KVM-4711  [001] d..1. 5.000004: kvm_entry: vcpu 0, rip 0x1\n",
    " 0)               |  vfio_pin_map_dma() {\n 0)   2.000 us    |    vfio_pin_pages_remote();\n 0) $ 3389981 us  |  }\n 1) + 17.969 us   |  iommu_map();\n",
];

/// Damage of a text, in the order in which it comes about.
#[derive(Clone, Debug)]
struct Damage {
    carriage_returns: bool,
    prompt: bool,
    prose: bool,
    prefix: &'static str,
    fence: bool,
    entities: bool,
    quotes: usize,
    trimmed: bool,
    byte_order_mark: bool,
}

fn damages() -> impl Strategy<Value = Damage> {
    let prefixes = [
        "",
        "# ",
        "| ",
        "[   12.345678] ",
        "Nov 27 10:00:00 host trace[12]: ",
        " Nov  7 10:00:00 host trace[12]: ",
        "2026-11-27T10:00:00.123Z ",
        "out/trace.txt:",
        "out/trace.txt:12:",
        "12:",
    ];
    let flags = prop::array::uniform7(any::<bool>());
    (flags, prop::sample::select(prefixes.to_vec()), 0..3_usize).prop_map(
        |(
            [
                carriage_returns,
                prompt,
                prose,
                fence,
                entities,
                trimmed,
                byte_order_mark,
            ],
            prefix,
            quotes,
        )| {
            Damage {
                carriage_returns,
                prompt,
                // A log, or what grep prints, has its prefix on each line.
                prose: prose && prefix.is_empty(),
                prefix,
                fence: fence && prefix.is_empty(),
                entities,
                quotes,
                trimmed,
                byte_order_mark,
            }
        },
    )
}

impl Damage {
    fn of(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if self.prompt {
            text = format!("[root@host ~]# tool --all\n{text}[root@host ~]#\n");
        }
        text = text
            .lines()
            .map(|line| format!("{}{line}\n", self.prefix))
            .collect();
        if self.fence {
            text = format!("```text\n{text}```\n");
        }
        if self.prose {
            text = format!(
                "Hello, on this machine I see what follows.\n\n{text}\nAny idea?\n-- \nA Person\n"
            );
        }
        for _ in 0..self.quotes {
            text = text.lines().map(|line| format!("> {line}\n")).collect();
        }
        if self.entities {
            text = text
                .replace('&', "&amp;")
                .replace('>', "&gt;")
                .replace('<', "&lt;");
        }
        if self.trimmed {
            text = text
                .lines()
                .map(|line| format!("{}\n", line.trim_end()))
                .collect();
        }
        if self.carriage_returns {
            text = text.replace('\n', "\r\n");
        }
        if self.byte_order_mark {
            text.insert(0, '\u{feff}');
        }
        text
    }
}

fn items(text: &str) -> Result<Vec<Item>, String> {
    let observation = observe("f", std::io::Cursor::new(text), &Symbols::default());
    let observation = observation.map_err(|error| error.to_string())?;
    let parties = observation.parties.into_iter();
    Ok(parties.flat_map(|party| party.items).collect())
}

proptest! {
    #[test]
    fn a_text_is_read_as_it_is_without_what_is_around_it(
        text in prop::sample::select(TEXTS.to_vec()),
        damage in damages(),
    ) {
        let whole = items(text).unwrap();
        prop_assert!(!whole.is_empty());
        let damaged = damage.of(text);
        prop_assert_eq!(items(&damaged), Ok(whole), "{}", damaged);
    }
}
