//! Guests made of bytes: what is missing is known, and must be found.

use iced_x86::code_asm::{
    CodeAssembler, byte_ptr, cl, eax, qword_ptr, r8, r9, rax, rbp, rbx, rcx, rdi, rsi, rsp, xmm0,
    xmmword_ptr,
};
use kvm_bindings::{KVM_EXIT_MEMORY_FAULT, kvm_regs, kvm_segment, kvm_sregs};
use proptest::prelude::*;

use super::super::walk::tests::Pages;
use super::*;

/// Page tables of four levels from 0x1000 on, mapping the first 2 MiB of addresses `BASE` higher.
const BASE: u64 = 0xffff_8000_0000_0000;
const TABLES: [u64; 4] = [0x1000, 0x2000, 0x3000, 0x4000];
const CODE: u64 = 0x1_0000;
const STACK: u64 = 0x2_0000;
const IDT: u64 = 0x3_0000;
const GDT: u64 = 0x3_1000;
const TASK: u64 = 0x3_2000;
const KERNEL_STACK: u64 = 0x3_3000;
const DATA: u64 = 0x10_0000;

fn memory() -> Pages {
    let mut pages = Pages::default();
    for page in 0..512 {
        pages.write(page * 4096, &[0]);
        pages.write(TABLES[3] + page * 8, &((page * 4096) | 3).to_le_bytes());
    }
    for (table, below) in TABLES.iter().zip(&TABLES[1..]) {
        // Address bit 47 makes the upper half of the top table.
        let index = if *table == TABLES[0] { 256 } else { 0 };
        pages.write(table + index * 8, &(below | 3).to_le_bytes());
    }
    pages.write(TASK + 4, &(BASE + KERNEL_STACK + 0x1000).to_le_bytes());
    pages
}

fn sregs() -> kvm_sregs {
    let at = |base| kvm_segment {
        base: BASE + base,
        limit: 0x67,
        ..kvm_segment::default()
    };
    let mut sregs = kvm_sregs {
        cr0: 0x8000_0001,
        cr3: TABLES[0],
        cr4: 0x20,
        efer: 0x500,
        fs: at(DATA),
        gs: at(DATA + 0x8000),
        tr: at(TASK),
        ..kvm_sregs::default()
    };
    sregs.cs.l = 1;
    (sregs.idt.base, sregs.idt.limit) = (BASE + IDT, 0xfff);
    (sregs.gdt.base, sregs.gdt.limit) = (BASE + GDT, 0x7f);
    sregs
}

fn regs() -> kvm_regs {
    kvm_regs {
        rip: BASE + CODE,
        rsp: BASE + STACK,
        ..kvm_regs::default()
    }
}

fn find(pages: &Pages, regs: &kvm_regs) -> Option<MissingPage> {
    ExitResolver::new().missing_page(
        CpuState {
            regs,
            sregs: &sregs(),
        },
        pages,
    )
}

/// A guest that is about to execute one instruction.
fn about_to(instruction: impl FnOnce(&mut CodeAssembler)) -> Pages {
    let mut asm = CodeAssembler::new(64).unwrap();
    instruction(&mut asm);
    let mut pages = memory();
    pages.write(CODE, &asm.assemble(BASE + CODE).unwrap());
    pages
}

type Write = fn(&mut CodeAssembler);
type Case = (&'static str, Write, kvm_regs, Vec<(u64, Access)>);

/// Instructions with the registers that they use, and what they touch: offsets from `DATA` unless noted.
#[rustfmt::skip] // A table.
fn cases() -> Vec<Case> {
    use Access::{Read, Write as Writes};
    let at = |offset| BASE + DATA + offset;
    let stack = |offset: i64| STACK.wrapping_add_signed(offset);
    let data = |offset| DATA + offset;
    let with = |change: fn(&mut kvm_regs)| {
        let mut r = regs();
        change(&mut r);
        r
    };
    let [a, b, c] = [0x1000_u64, 0x3000, 0x5000];
    let mut two = regs();
    (two.rsi, two.rdi, two.rcx) = (at(a), at(b), 2);
    let mut indexed = regs();
    (indexed.rbx, indexed.rcx, indexed.rax) = (at(0), 0x300, 7);
    let mut based = with(|r| r.rax = 0);
    (based.rbx, based.rbp, based.r8, based.r9) = (at(a), at(b), at(c), 0x10);
    vec![
        ("load", |a| a.mov(rax, qword_ptr(rbx)).unwrap(), based, vec![(data(a), Read)]),
        ("store", |a| a.mov(qword_ptr(rbp - 8), rax).unwrap(), based, vec![(data(b) - 8, Writes)]),
        ("scaled", |a| a.mov(cl, byte_ptr(rbx + rcx * 4 + 0x400)).unwrap(), indexed, vec![(data(a), Read)]),
        ("two registers", |a| a.add(rax, qword_ptr(r8 + r9)).unwrap(), based, vec![(data(c) + 0x10, Read)]),
        ("push", |a| a.push(rax).unwrap(), regs(), vec![(stack(-8), Writes)]),
        ("pop", |a| a.pop(rax).unwrap(), regs(), vec![(stack(0), Read)]),
        ("push from memory", |a| a.push(qword_ptr(rbx)).unwrap(), based, vec![(data(a), Read), (stack(-8), Writes)]),
        ("pop to memory", |a| a.pop(qword_ptr(rbx)).unwrap(), based, vec![(data(a), Writes), (stack(0), Read)]),
        ("call through memory", |a| a.call(qword_ptr(rbx)).unwrap(), based, vec![(data(a), Read), (stack(-8), Writes)]),
        ("ret", |a| a.ret().unwrap(), regs(), vec![(stack(0), Read)]),
        ("leave", |a| a.leave().unwrap(), based, vec![(data(b), Read)]),
        ("movs", |a| a.movsq().unwrap(), two, vec![(data(a), Read), (data(b), Writes)]),
        ("rep movs", |a| a.rep().movsb().unwrap(), two, vec![(data(a), Read), (data(b), Writes)]),
        ("rep stos", |a| a.rep().stosq().unwrap(), two, vec![(data(b), Writes)]),
        ("cmps", |a| a.cmpsb().unwrap(), two, vec![(data(a), Read), (data(b), Read)]),
        ("xchg", |a| a.xchg(qword_ptr(rbx), rax).unwrap(), based, vec![(data(a), Writes)]),
        ("lock cmpxchg", |a| a.lock().cmpxchg(qword_ptr(rbx), rcx).unwrap(), based, vec![(data(a), Writes)]),
        ("lock xadd", |a| a.lock().xadd(qword_ptr(rbp), rax).unwrap(), based, vec![(data(b), Writes)]),
        ("cmpxchg16b", |a| a.cmpxchg16b(xmmword_ptr(r8)).unwrap(), based, vec![(data(c), Writes)]),
        ("not", |a| a.not(qword_ptr(rbx)).unwrap(), based, vec![(data(a), Writes)]),
        ("SSE load", |a| a.movups(xmm0, xmmword_ptr(rbx)).unwrap(), based, vec![(data(a), Read)]),
        ("SSE store", |a| a.movaps(xmmword_ptr(r8), xmm0).unwrap(), based, vec![(data(c), Writes)]),
        ("fs", |a| a.mov(rax, qword_ptr(0x1000).fs()).unwrap(), regs(), vec![(data(0x1000), Read)]),
        ("gs", |a| a.mov(eax, iced_x86::code_asm::dword_ptr(rax).gs()).unwrap(), regs(), vec![(data(0x8000), Read)]),
        ("rip-relative", |a| a.mov(rax, qword_ptr(BASE + DATA + 0x6000)).unwrap(), regs(), vec![(data(0x6000), Read)]),
        ("FXSAVE", |a| a.fxsave(iced_x86::code_asm::ptr(rbx)).unwrap(), based, vec![(data(a), Writes)]),
        ("nothing", |a| a.lea(rax, qword_ptr(rbx)).unwrap(), based, vec![]),
        ("a register", |a| a.mov(rsp, rsi).and_then(|()| a.mov(rdi, rsi)).unwrap(), regs(), vec![]),
    ]
}

#[test]
fn every_operand_of_an_instruction_is_found_when_it_alone_is_missing() {
    for (name, instruction, regs, touched) in cases() {
        let mut pages = about_to(instruction);
        assert_eq!(find(&pages, &regs), None, "{name}: nothing is missing");
        for (address, access) in &touched {
            pages.missing = [address >> 12].into();
            let missing =
                find(&pages, &regs).map(|page| (page.address.0, page.access, page.origin));
            assert_eq!(
                missing,
                Some((*address, *access, Origin::Operand)),
                "{name}"
            );
        }
        // What the instruction does not touch may be missing; the stack may be that of an interrupt.
        let used = |page: &u64| touched.iter().any(|(address, _)| address >> 12 == *page);
        pages.missing = (DATA >> 12..512).filter(|page| !used(page)).collect();
        assert_eq!(find(&pages, &regs), None, "{name}: another page is missing");
    }
}

#[test]
fn an_operand_across_two_pages_needs_both() {
    let mut regs = regs();
    regs.rbx = BASE + DATA + 0xffc;
    let mut pages = about_to(|a| a.mov(rax, qword_ptr(rbx)).unwrap());
    for (page, address) in [
        (DATA >> 12, DATA + 0xffc),
        ((DATA >> 12) + 1, DATA + 0x1000),
    ] {
        pages.missing = [page].into();
        assert_eq!(
            find(&pages, &regs).map(|page| page.address.0),
            Some(address)
        );
    }
}

#[test]
fn code_across_two_pages_needs_both() {
    let mut pages = memory();
    // mov rax, [rbx], whose last byte is on the next page.
    let start = CODE + 0xffe;
    pages.write(start, &[0x48, 0x8b, 0x03]);
    let mut regs = kvm_regs {
        rip: BASE + start,
        ..regs()
    };
    regs.rbx = BASE + DATA;
    for (missing, expected) in [
        (start, Origin::Code),
        (start + 2, Origin::Code),
        (DATA, Origin::Operand),
    ] {
        pages.missing = [missing >> 12].into();
        let page = find(&pages, &regs).unwrap();
        assert_eq!(
            (page.address.0 >> 12, page.origin),
            (missing >> 12, expected)
        );
    }
    // A short instruction at the end of a page needs nothing of the next.
    pages.write(CODE + 0xfff, &[0x90]);
    regs.rip = BASE + CODE + 0xfff;
    pages.missing = [(CODE >> 12) + 1].into();
    assert_eq!(find(&pages, &regs), None);
}

#[test]
fn missing_tables_come_before_what_they_map() {
    let mut pages = about_to(|a| a.mov(rax, qword_ptr(rbx)).unwrap());
    let mut regs = regs();
    regs.rbx = BASE + DATA;
    for table in TABLES {
        pages.missing = [table >> 12, CODE >> 12, DATA >> 12].into();
        let page = find(&pages, &regs).unwrap();
        assert_eq!(
            (page.address.0 >> 12, page.origin),
            (table >> 12, Origin::PageTable)
        );
    }
}

#[test]
fn what_an_interrupt_needs_is_found_where_the_instruction_lacks_nothing() {
    let mut pages = about_to(|a| a.nop().unwrap());
    for missing in [IDT, GDT, TASK, KERNEL_STACK, STACK - 0x1000] {
        pages.missing = [missing >> 12].into();
        let page = find(&pages, &regs()).unwrap();
        assert_eq!(
            (page.address.0 >> 12, page.origin),
            (missing >> 12, Origin::Delivery)
        );
    }
}

/// Memory that counts how often it is asked.
struct Asked<'a>(&'a Pages, std::cell::Cell<usize>);

impl GuestPages for Asked<'_> {
    fn state(&self, address: GuestAddress) -> PageState {
        self.1.set(self.1.get() + 1);
        self.0.state(address)
    }

    fn read(&self, address: GuestAddress, bytes: &mut [u8]) {
        self.0.read(address, bytes);
    }
}

#[test]
fn registers_at_the_end_of_all_addresses_overflow_nothing_and_bound_the_search() {
    let pages = about_to(|a| a.nop().unwrap());
    let bases = [BASE + TASK, u64::MAX, u64::MAX - 50, u64::MAX - 0xfff];
    for (base, rip) in bases
        .into_iter()
        .flat_map(|base| [(base, BASE + CODE), (base, u64::MAX)])
    {
        let (mut regs, mut sregs) = (regs(), sregs());
        (sregs.tr.base, sregs.tr.limit, regs.rip) = (base, u32::MAX, rip);
        let memory = Asked(&pages, std::cell::Cell::new(0));
        let cpu = CpuState {
            regs: &regs,
            sregs: &sregs,
        };
        ExitResolver::new().missing_page(cpu, &memory);
        assert!(memory.1.get() < 1000, "{} questions", memory.1.get());
    }
}

#[test]
fn what_the_guest_has_not_mapped_is_its_own_affair() {
    let pages = about_to(|a| a.mov(rax, qword_ptr(rbx)).unwrap());
    let mut regs = regs();
    regs.rbx = 0x1234_5000;
    assert_eq!(find(&pages, &regs), None);
    regs.rip = 0x1234_5000;
    assert_eq!(find(&pages, &regs), None);
}

#[test]
fn segments_of_32_bit_code_have_bases() {
    let mut pages = memory();
    // add [ebx], eax
    pages.write(CODE, &[0x01, 0x03]);
    pages.missing = [DATA >> 12].into();
    let segment = |base| kvm_segment {
        base,
        db: 1,
        ..kvm_segment::default()
    };
    let sregs = kvm_sregs {
        cr0: 1,
        cs: segment(CODE),
        ds: segment(DATA - 0x20),
        ..kvm_sregs::default()
    };
    let regs = kvm_regs {
        rbx: 0xdead_0000_0000_0020,
        ..kvm_regs::default()
    };
    let found = ExitResolver::new().missing_page(
        CpuState {
            regs: &regs,
            sregs: &sregs,
        },
        &pages,
    );
    let page = found.unwrap();
    assert_eq!((page.address.0, page.access), (DATA, Access::Write));
}

#[test]
fn a_report_is_believed_as_long_as_its_page_is_missing() {
    let mut pages = about_to(|a| a.mov(rax, qword_ptr(rbx)).unwrap());
    let mut run = kvm_run {
        exit_reason: KVM_EXIT_MEMORY_FAULT,
        ..kvm_run::default()
    };
    run.__bindgen_anon_1.memory_fault.gpa = DATA;
    run.s.regs.sregs = sregs();
    run.s.regs.regs = regs();
    run.s.regs.regs.rbx = BASE + DATA + 0x2000;
    pages.missing = [DATA >> 12, (DATA >> 12) + 2].into();
    let found = |pages: &Pages| {
        ExitResolver::new()
            .missing_page_of_run(&run, pages)
            .map(|p| (p.address.0, p.origin))
    };
    assert_eq!(found(&pages), Some((DATA, Origin::Report)));
    pages.missing = [(DATA >> 12) + 2].into();
    assert_eq!(found(&pages), Some((DATA + 0x2000, Origin::Operand)));
}

proptest! {
    /// Any base, index, scale and displacement, against arithmetic on the same numbers.
    #[test]
    fn addresses_are_base_plus_index_times_scale_plus_displacement(
        base in 0_u64..0x4_0000, index in 0_u64..0x1_0000,
        scale in prop::sample::select(vec![1_u64, 2, 4, 8]), displacement in 0_i32..0x1_0000,
    ) {
        let offset = base + index * scale + u64::try_from(displacement).unwrap();
        let mut pages = memory();
        // mov rax, [r8 + r9 * scale + disp32]: REX.WRXB, opcode, ModRM with SIB, SIB.
        let sib = (u8::try_from(scale.trailing_zeros()).unwrap() << 6) | 0x08;
        let mut code = vec![0x4b, 0x8b, 0x84, sib];
        code.extend(displacement.to_le_bytes());
        pages.write(CODE, &code);
        let address = DATA + offset;
        prop_assume!(address + 8 < 512 * 4096);
        pages.missing = [address >> 12].into();
        let regs = kvm_regs { r8: BASE + DATA + base, r9: index, ..regs() };
        let found = find(&pages, &regs).map(|page| (page.address.0, page.origin));
        prop_assert_eq!(found, Some((address, Origin::Operand)));
    }

    /// Whatever bytes stand at RIP and whatever the registers hold: an answer, of a page that is missing.
    #[test]
    fn any_bytes_have_an_answer(
        code in prop::collection::vec(any::<u8>(), 15),
        values in prop::array::uniform8(any::<u64>()),
        missing in prop::collection::btree_set(0_u64..512, 0..64),
        bits in prop::sample::select(vec![16, 32, 64]),
    ) {
        let mut pages = memory();
        pages.write(CODE, &code);
        pages.missing = missing;
        let v = values;
        let regs = kvm_regs {
            rax: v[0], rbx: v[1], rcx: v[2], rdx: v[3], rsi: v[4], rdi: v[5], r8: v[6], rsp: v[7], ..regs()
        };
        let mut sregs = sregs();
        (sregs.cs.l, sregs.cs.db) = match bits { 64 => (1, 0), 32 => (0, 1), _ => (0, 0) };
        let found = ExitResolver::new().missing_page(CpuState { regs: &regs, sregs: &sregs }, &pages);
        prop_assert!(found.is_none_or(|page| pages.missing.contains(&(page.address.0 >> 12))));
    }
}
