//! Cases: pages and hypercalls. Frames are named by symbols, so that a case does not depend on frame numbers.

/// A frame by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Symbol {
    /// A page of the case's own, by its place in the case's list.
    Page(u8),
    /// RAM that is not the guest's.
    Foreign,
    /// I/O memory in the first megabyte: the VGA buffer.
    Io,
    /// I/O memory that is read-only for all guests: the I/O APIC.
    ReadOnlyIo,
    /// I/O memory that no guest may map: the local APIC.
    DeniedIo,
    /// A frame within the machine's physical address bits, without RAM or device.
    Absent,
    /// Beyond the machine's physical address bits.
    Beyond,
    /// Every address bit of an entry set.
    AllOnes,
    /// The shared info page: Xen's heap, but the guest's to map.
    Shared,
}

impl Symbol {
    /// The symbols that are not a case's own pages, with their names.
    pub const FIXED: [(&'static str, Self); 8] = [
        ("foreign", Self::Foreign),
        ("io", Self::Io),
        ("io-ro", Self::ReadOnlyIo),
        ("io-denied", Self::DeniedIo),
        ("absent", Self::Absent),
        ("beyond", Self::Beyond),
        ("all-ones", Self::AllOnes),
        ("shared", Self::Shared),
    ];
}

/// An entry or another word: a frame, if any, and bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// The frame in its address bits.
    pub frame: Option<Symbol>,
    /// Flags of the entry, without the frame.
    pub bits: u64,
}

/// A byte of one of the case's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The page, by its name in the case.
    pub frame: Symbol,
    /// The byte in it.
    pub offset: u64,
}

/// A request of `mmu_update`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The low three bits of the pointer.
    pub command: u32,
    /// `ptr` of the request: the entry that is updated.
    pub place: Place,
    /// `val` of the request.
    pub value: Value,
}

/// An argument of `mmuext_op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtArgument {
    /// A number or address.
    Number(u64),
    /// The frame of a page of the case.
    Frame(Symbol),
    /// The address at which the guest's kernel has a page of the case.
    Address(Symbol),
    /// A pointer to a bitmap with these bits.
    Mask(u64),
    /// A pointer that cannot be read.
    ReadError,
}

/// A request of `mmuext_op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ext {
    /// `cmd`: MMUEXT_*, by number.
    pub command: u32,
    /// `arg1`: a frame or a linear address.
    pub first: ExtArgument,
    /// The second operand, where the command has one.
    pub second: ExtArgument,
}

/// Target of `update_va_mapping`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Address at which the guest's kernel has mapped a page of the case.
    Page(Symbol),
    /// A linear address.
    Address(u64),
}

/// CPUs that `update_va_mapping` flushes; the type of flush is in the low two bits of the flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    /// Flushes on the caller's CPU.
    #[default]
    Local,
    /// Flushes on all CPUs.
    All,
    /// The vCPUs of a bitmap.
    Mask(u64),
    /// A bitmap that cannot be read.
    ReadError,
}

/// An instruction of the guest's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// `mov` from memory.
    Load,
    /// `mov` to memory.
    Store(Value),
    /// `xchg`.
    Exchange(Value),
    /// `lock cmpxchg`.
    CompareExchange {
        /// Expected value.
        old: Value,
        /// New value.
        new: Value,
    },
}

/// A hypercall on an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<Request, Domain> {
    /// The array; a request without meaning follows it.
    pub requests: Vec<Request>,
    /// The `count` argument; cases pass other lengths than the array's.
    pub count: u32,
    /// Initial value of the done counter.
    pub done: u32,
    /// The domain argument.
    pub domain: Domain,
}

/// An entry that is set by the address that it maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VaUpdate {
    /// The linear address whose entry is set.
    pub at: Target,
    /// The entry's new value.
    pub value: Value,
    /// The low two bits of the flags.
    pub flush_type: u32,
    /// The rest of the flags.
    pub flush: Flush,
    /// The domain that the frame belongs to.
    pub domain: Option<u16>,
}

/// Operation of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `mmu_update`, with the whole domain argument.
    MmuUpdate(Batch<Update, u32>),
    /// `mmuext_op`, with the domain that the frames belong to.
    MmuExtOp(Batch<Ext, u16>),
    /// `update_va_mapping`, or with a domain `update_va_mapping_otherdomain`.
    UpdateVaMapping(VaUpdate),
    /// The next so many steps, all hypercalls, go as one.
    Multicall(usize),
    /// An instruction that the guest executes on the entry.
    Native {
        /// The kind of access.
        native: Native,
        /// The entry that it accesses.
        place: Place,
        /// Width of the access: 4 or 8 bytes.
        bytes: u32,
    },
    /// Reads which guest frame a page is (the machine-to-physical table).
    MachineToPhys(Symbol),
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The line as written.
    pub text: String,
    /// The hypercall or the instruction.
    pub operation: Operation,
}

/// A script: some pages, and what is done with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name, unique among all.
    pub name: String,
    /// The behaviour that it shows, in one line.
    pub about: String,
    /// The names of its pages, all zero and mapped writable when it begins.
    pub pages: Vec<String>,
    /// In order; each has an answer.
    pub steps: Vec<Step>,
}
