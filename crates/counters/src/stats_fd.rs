//! The binary that reading a descriptor of `KVM_GET_STATS_FD` gives, from its beginning to its end: of a VM or a vCPU.
//!
//! A header says where the id, the descriptors and the data are. All is in the byte order of the machine that wrote it;
//! the header tells which. Source: Documentation/virt/kvm/api.rst, 4.133; `virt/kvm/binary_stats.c`.

use pagetoll_text::{Position, ReadError, Stop, Truncated};

use super::recorder::Recorder;
use super::{Counter, Form, Kind, Scope};

/// Form of what a `KVM_GET_STATS_FD` reads.
pub const FORM: Form = Form {
    is,
    record,
    expected: "what reading a descriptor of KVM_GET_STATS_FD gives",
};

/// `struct kvm_stats_header`.
const HEADER: usize = 24;
/// `struct kvm_stats_desc` without the name.
const DESCRIPTOR: usize = 16;
/// The largest name accepted, with its NUL; `KVM_STATS_NAME_SIZE` is 48.
const MAX_NAME: usize = 4096;

#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

/// A file and its byte order.
#[derive(Clone, Copy)]
struct Words<'a> {
    bytes: &'a [u8],
    order: Order,
}

impl<'a> Words<'a> {
    fn slice(self, at: usize, length: usize) -> Result<&'a [u8], Truncated> {
        let end = at.checked_add(length);
        end.and_then(|end| self.bytes.get(at..end))
            .ok_or(Truncated::Ended(Position::Byte(at)))
    }

    fn array<const N: usize>(self, at: usize) -> Result<[u8; N], Truncated> {
        let mut array = [0; N];
        array.copy_from_slice(self.slice(at, N)?);
        if matches!(self.order, Order::Big) {
            array.reverse();
        }
        Ok(array)
    }

    fn u16(self, at: usize) -> Result<u16, Truncated> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(self, at: usize) -> Result<u32, Truncated> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u64(self, at: usize) -> Result<u64, Truncated> {
        self.array(at).map(u64::from_le_bytes)
    }

    fn offset(self, at: usize) -> Result<usize, Truncated> {
        Ok(usize::try_from(self.u32(at)?).unwrap_or(usize::MAX))
    }

    /// Text that ends with a NUL, or fills its space.
    fn text(self, at: usize, space: usize, field: &str) -> Result<&'a str, Stop> {
        let bytes = self.slice(at, space)?;
        let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or(bytes);
        match str::from_utf8(bytes) {
            Ok(text) if !text.is_empty() => Ok(text),
            _ => {
                let found = String::from_utf8_lossy(bytes);
                Err(ReadError::expected(Position::Byte(at), field, "a name", &found).into())
            }
        }
    }
}

/// `struct kvm_stats_header`.
struct Header {
    name_size: usize,
    num_desc: usize,
    id_offset: usize,
    desc_offset: usize,
    data_offset: usize,
}

impl Header {
    fn read(words: Words<'_>) -> Result<Self, Truncated> {
        Ok(Self {
            name_size: words.offset(4)?,
            num_desc: words.offset(8)?,
            id_offset: words.offset(12)?,
            desc_offset: words.offset(16)?,
            data_offset: words.offset(20)?,
        })
    }

    /// True if KVM can have written it: flags are 0, blocks aligned to 8 bytes, one behind the other.
    fn is_sound(&self, words: Words<'_>) -> bool {
        let Self {
            name_size,
            id_offset,
            desc_offset,
            data_offset,
            ..
        } = *self;
        let blocks = [id_offset, desc_offset, data_offset];
        words.u32(0) == Ok(0)
            && (1..=MAX_NAME).contains(&name_size)
            && (1..=usize::from(u16::MAX)).contains(&self.num_desc)
            && blocks
                .iter()
                .all(|offset| offset % 8 == 0 && *offset >= HEADER)
            && id_offset < desc_offset
            && desc_offset < data_offset
    }
}

fn header(bytes: &[u8]) -> Option<(Words<'_>, Header)> {
    let orders = [Order::Little, Order::Big].into_iter();
    let read = orders.filter_map(|order| {
        let words = Words { bytes, order };
        Some((words, Header::read(words).ok()?))
    });
    read.into_iter()
        .find(|(words, header)| header.is_sound(*words))
}

/// Recognises a file that begins with a header of these statistics.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    header(bytes).is_some_and(|(words, header)| {
        let id = words.bytes.get(header.id_offset..).unwrap_or_default();
        let kvm = b"kvm-";
        id.starts_with(kvm) || kvm.starts_with(id)
    })
}

/// Records the statistics of a VM or a vCPU: one sample.
fn record(bytes: &[u8], recorder: &mut Recorder) -> Result<(), Stop> {
    let Some((words, header)) = header(bytes) else {
        let problem = format!("none; expected {}", FORM.expected);
        return Err(ReadError::new(Position::Byte(0), "header", problem).into());
    };
    let scope = scope(words.text(header.id_offset, header.name_size, "id")?);
    // Descriptors that share their data would take as long to read as they claim.
    let mut left = bytes.len();
    for index in 0..header.num_desc {
        let at = header.desc_offset + index * (DESCRIPTOR + header.name_size);
        let name = words.text(at + DESCRIPTOR, header.name_size, "name")?;
        let size = 8 * usize::from(words.u16(at + 6)?);
        left = left
            .checked_sub(size)
            .ok_or(Truncated::TooLarge(Position::Byte(at)))?;
        let counter = counter(words, at, header.data_offset, name)?;
        recorder.add(Position::Byte(at), &scope, name, counter)?;
    }
    Ok(())
}

/// `kvm-PID` or `kvm-PID/vcpu-ID`: `kvm_create_vm_debugfs`, `kvm_vm_ioctl_create_vcpu`.
fn scope(id: &str) -> Scope {
    let (vm, vcpu) = id
        .split_once("/vcpu-")
        .map_or((id, None), |(vm, vcpu)| (vm, Some(vcpu)));
    let vm = Some(vm.strip_prefix("kvm-").unwrap_or(vm).to_owned());
    match vcpu {
        Some(vcpu) => Scope::Vcpu {
            vm,
            vcpu: vcpu.to_owned(),
        },
        None => Scope::Vm { vm },
    }
}

/// The counter of the descriptor at a byte.
fn counter(words: Words<'_>, at: usize, data: usize, name: &str) -> Result<Counter, Stop> {
    let flags = words.u32(at)?;
    let size = usize::from(words.u16(at + 6)?);
    let data = data.saturating_add(words.offset(at + 8)?);
    if !is_histogram(flags) && size != 1 {
        let place = Position::Byte(at + 6);
        return Err(
            ReadError::expected(place, format!("size of {name}"), "1", &size.to_string()).into(),
        );
    }
    words.slice(data, size * 8)?;
    let mut sum = 0_u64;
    for index in 0..size {
        sum = sum.saturating_add(words.u64(data + index * 8)?);
    }
    Ok(Counter::Count(sum, kind(flags)))
}

/// `KVM_STATS_TYPE_MASK`. The counts of a histogram only grow.
const fn kind(flags: u32) -> Option<Kind> {
    match flags & 0xf {
        0 | 3 | 4 => Some(Kind::Cumulative),
        1 | 2 => Some(Kind::Gauge),
        _ => None,
    }
}

/// True for a list of numbers. Types that are newer than 7.3 are taken as such.
const fn is_histogram(flags: u32) -> bool {
    flags & 0xf > 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Growth;

    /// A counter as KVM describes it.
    #[derive(Clone, Debug)]
    struct Described {
        name: String,
        flags: u32,
        values: Vec<u64>,
    }

    fn described(name: &str, flags: u32, values: &[u64]) -> Described {
        Described {
            name: name.to_owned(),
            flags,
            values: values.to_vec(),
        }
    }

    /// Writes as `kvm_stats_read` does, with names of 48 bytes.
    fn written(id: &str, counters: &[Described], big: bool) -> Vec<u8> {
        const NAME: usize = 48;
        let word = |value: u64, bytes: usize| -> Vec<u8> {
            let mut word = value.to_le_bytes()[..bytes].to_vec();
            if big {
                word.reverse();
            }
            word
        };
        let name = |name: &str| {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(NAME, 0);
            bytes
        };
        let data = HEADER + NAME + counters.len() * (DESCRIPTOR + NAME);
        let header = [0, NAME, counters.len(), HEADER, HEADER + NAME, data];
        let mut file: Vec<u8> = header
            .iter()
            .flat_map(|field| word(*field as u64, 4))
            .collect();
        file.extend(name(id));
        let mut offset = 0;
        for counter in counters {
            file.extend(word(u64::from(counter.flags), 4));
            file.extend(word(0, 2));
            file.extend(word(counter.values.len() as u64, 2));
            file.extend(word(offset, 4));
            file.extend(word(0, 4));
            file.extend(name(&counter.name));
            offset += counter.values.len() as u64 * 8;
        }
        file.extend(
            counters
                .iter()
                .flat_map(|counter| &counter.values)
                .flat_map(|value| word(*value, 8)),
        );
        file
    }

    fn vcpu() -> Scope {
        Scope::Vcpu {
            vm: Some("77".to_owned()),
            vcpu: "3".to_owned(),
        }
    }

    fn read(bytes: &[u8]) -> Result<Growth, ReadError> {
        FORM.growth(bytes)
    }

    #[test]
    fn counters_and_histograms_are_read_in_both_orders_of_bytes() {
        let counters = [
            described("exits", 0, &[9]),
            described("pages", 1, &[2]),
            described("log", 0x24, &[1, 2, 3]),
            described("linear", 3, &[5, 6]),
        ];
        for big in [false, true] {
            let file = written("kvm-77/vcpu-3", &counters, big);
            assert!(is(&file));
            let read = read(&file).unwrap();
            assert_eq!((read.truncated, read.len()), (None, 4));
            for (name, value) in [("exits", 9), ("pages", 2), ("log", 6), ("linear", 11)] {
                assert_eq!(read.by(&vcpu(), name), Some(value), "{name}");
            }
        }
        let kinds = [0, 1, 2, 0x24, 5].map(kind);
        let (grows, gauge) = (Some(Kind::Cumulative), Some(Kind::Gauge));
        assert_eq!(kinds, [grows, gauge, gauge, grows, None]);
    }

    #[test]
    fn a_file_that_is_cut_gives_what_is_whole_and_says_so() {
        let file = written(
            "kvm-77",
            &[described("a", 0, &[1]), described("b", 0, &[2])],
            false,
        );
        for length in HEADER..file.len() {
            let read = read(&file[..length]).unwrap();
            assert!(read.truncated.is_some(), "{length}");
            assert_eq!(read.len(), usize::from(length >= file.len() - 8));
        }
    }

    #[test]
    fn what_kvm_cannot_have_written_is_refused_with_byte_and_field() {
        let refused = |counters: &[Described]| {
            read(&written("kvm-77", counters, false))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(&[described("", 0, &[1])]),
            "byte 88: name: expected a name, found ``"
        );
        assert_eq!(
            refused(&[described("a", 0, &[1, 2])]),
            "byte 78: size of a: expected 1, found `2`"
        );
        assert!(read(b"").is_err() && read(&[0; 64]).is_err() && !is(&[0; 64]));
    }

    #[test]
    fn descriptors_that_share_their_data_do_not_fill_the_memory() {
        const COUNTERS: usize = 60;
        let mut counters = vec![described("a", 4, &[0; 60_000]); COUNTERS];
        for (index, counter) in counters.iter_mut().enumerate().skip(1) {
            counter.name = format!("a{index}");
        }
        let mut file = written("kvm-1", &counters, false);
        let descriptors = HEADER + 48;
        for index in 0..COUNTERS {
            let offset = descriptors + index * (DESCRIPTOR + 48) + 8;
            file[offset..offset + 4].fill(0);
        }
        file.truncate(descriptors + COUNTERS * (DESCRIPTOR + 48) + 60_000 * 8);
        assert!(matches!(
            read(&file).unwrap().truncated,
            Some(Truncated::TooLarge(_))
        ));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            counters in prop::collection::btree_map("[a-z_0-9]{1,47}", (0..3u32, any::<u64>()), 1..20),
            big: bool,
        ) {
            let counters: Vec<_> =
                counters.into_iter().map(|(name, (flags, value))| described(&name, flags, &[value])).collect();
            let read = read(&written("kvm-77/vcpu-3", &counters, big)).unwrap();
            prop_assert_eq!(read.len(), counters.len());
            for counter in counters {
                prop_assert_eq!(read.by(&vcpu(), &counter.name), Some(counter.values[0]));
            }
        }
    }
}
