//! The cases as `guests/demand-probe/conformance/main.c` reads them: memories by their words, steps in numbers.

use std::fmt::LowerHex;

use pagetoll_conformance::kvm::{
    Actor, Call, Case, Content, Kind, Memory, Memslot, MemslotCall, PageCall, Step, Touch,
    UserfaultfdCall,
};

/// A guest_memfd's number that no case has stands for a descriptor that there is not: `NO_GMEM`.
const NO_GMEM: usize = 0xff;

/// A line each for what a case has, and for its steps.
pub(super) fn cases(cases: &[Case]) -> String {
    let numbered = cases.iter().enumerate();
    numbered.map(|(index, each)| case(index, each)).collect()
}

fn case(index: usize, case: &Case) -> String {
    let mut text = format!("case {index}\n");
    for need in &case.needs {
        text += &format!("need {need}\n");
    }
    if case.has_vm() {
        text += "vm\n";
    }
    text.extend(case.memories.iter().map(memory));
    text.extend(case.steps.iter().map(step));
    text
}

fn memory(memory: &Memory) -> String {
    let content = match memory.content {
        Content::Empty => "empty",
        Content::Filled => "filled",
        Content::Cached => "cached",
    };
    let kind = Kind::ALL.iter().find(|(_, kind)| *kind == memory.kind);
    let kind = kind.map_or("", |(name, _)| name);
    format!("memory {kind} {content} {:x}\n", memory.pages)
}

/// A verb and its numbers.
fn line<N: LowerHex>(verb: &str, numbers: &[N]) -> String {
    let numbers: String = numbers
        .iter()
        .map(|number| format!(" {number:x}"))
        .collect();
    format!("{verb}{numbers}\n")
}

fn step(step: &Step) -> String {
    match step.call {
        Call::Userfaultfd(uffd, call) => userfaultfd(uffd, call, step),
        Call::Pages(call) => pages(call, step),
        Call::Memslot(call) => memslot(call, step),
        Call::Touch(Actor::Thread(number), touch) => touched("thread", number, touch),
        Call::Touch(Actor::Vcpu(number), touch) => touched("vcpu", number, touch),
    }
}

fn userfaultfd(uffd: usize, call: UserfaultfdCall, step: &Step) -> String {
    use UserfaultfdCall as Of;
    let uffd = uffd as u64;
    let (start, len) = (step.at.address(), step.bytes);
    match call {
        Of::Open { flags } => line("open", &[uffd, flags.into()]),
        Of::Close => line("close", &[uffd]),
        Of::Api { version, features } => line("api", &[uffd, version, features]),
        Of::Register { mode } => line("register", &[uffd, start, len, mode]),
        Of::Unregister => line("unregister", &[uffd, start, len]),
        Of::Wake => line("wake", &[uffd, start, len]),
        Of::Copy { from, mode } => line("copy", &[uffd, start, len, from.address(), mode]),
        Of::Zeropage { mode } => line("zeropage", &[uffd, start, len, mode]),
        Of::Continue { mode } => line("continue", &[uffd, start, len, mode]),
        Of::Writeprotect { mode } => line("writeprotect", &[uffd, start, len, mode]),
        Of::Poll => line("poll", &[uffd]),
        Of::Read { bytes } => line("read", &[uffd, bytes]),
    }
}

fn pages(call: PageCall, step: &Step) -> String {
    let range = [step.at.address(), step.bytes];
    match call {
        PageCall::Show => line("show", &[step.at.memory.unwrap_or(usize::MAX)]),
        PageCall::Discard => line("discard", &range),
        PageCall::Unmap => line("munmap", &range),
    }
}

fn memslot(call: MemslotCall, step: &Step) -> String {
    match call {
        MemslotCall::Set(memslot) => slot(memslot, step),
        MemslotCall::CreateGmem { gmem, flags } => line("gmem", &[gmem as u64, step.bytes, flags]),
        MemslotCall::CloseGmem { gmem } => line("close-gmem", &[gmem]),
        MemslotCall::Dirty { slot } => line("dirty", &[slot]),
    }
}

fn slot(memslot: Memslot, step: &Step) -> String {
    let region = [
        memslot.slot.into(),
        memslot.flags.into(),
        memslot.gpa,
        step.bytes,
        step.at.address(),
    ];
    match memslot.binding {
        None => line("slot", &region),
        Some(binding) => {
            let gmem = binding.gmem.unwrap_or(NO_GMEM) as u64;
            line("slot2", &[&region[..], &[gmem, binding.offset]].concat())
        }
    }
}

fn touched(who: &str, number: usize, touch: Touch) -> String {
    let number = number as u64;
    match touch {
        Touch::Read(at) => line(&format!("{who}-read"), &[number, at.address()]),
        Touch::Write(at, word) => line(&format!("{who}-write"), &[number, at.address(), word]),
        Touch::Run(word) => line(&format!("{who}-run"), &[number, word]),
        Touch::Await => line(&format!("{who}-await"), &[number]),
    }
}
