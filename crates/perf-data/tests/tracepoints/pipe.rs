//! A writer of perf.data streams, for events that this machine cannot record.

/// A stream with one attribute for each tracepoint; their number is also the id of their samples.
pub(super) struct Pipe(Vec<u8>);

const IDENTIFIER: u64 = 1 << 16;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const CPU: u64 = 1 << 7;
const RAW: u64 = 1 << 10;

impl Pipe {
    /// Formats as tracefs prints them, several in a text, each with its system.
    pub(super) fn new(formats: &[(&str, String)]) -> Self {
        let mut pipe = Self(b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec());
        for (_, format) in formats {
            pipe.attribute(id(format));
        }
        pipe.tracing_data(formats);
        pipe
    }

    /// Goes on with a stream.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        let size = u16::try_from(8 + body.len()).unwrap();
        self.0.extend(kind.to_le_bytes());
        self.0.extend(misc.to_le_bytes());
        self.0.extend(size.to_le_bytes());
        self.0.extend(body);
    }

    fn attribute(&mut self, id: u64) {
        let mut body = [2_u32.to_le_bytes(), 64_u32.to_le_bytes()].concat();
        for word in [id, 1, IDENTIFIER | TID | TIME | CPU | RAW, 0, 1 << 18, 0, 0] {
            body.extend(word.to_le_bytes());
        }
        body.extend(id.to_le_bytes());
        self.record(64, 0, &body);
    }

    fn tracing_data(&mut self, formats: &[(&str, String)]) {
        let mut data = b"\x17\x08Dtracing0.6\0\0\x08\0\x10\0\0".to_vec();
        for head in [b"header_page\0".as_slice(), b"header_event\0"] {
            data.extend(head);
            data.extend(0_u64.to_le_bytes());
        }
        data.extend(0_u32.to_le_bytes());
        data.extend(u32::try_from(formats.len()).unwrap().to_le_bytes());
        for (system, format) in formats {
            data.extend(system.bytes());
            data.push(0);
            data.extend(1_u32.to_le_bytes());
            data.extend((format.len() as u64).to_le_bytes());
            data.extend(format.bytes());
        }
        data.resize(data.len().next_multiple_of(8), 0);
        self.record(66, 0, &u32::try_from(data.len()).unwrap().to_le_bytes());
        self.0.extend(data);
    }

    pub(super) fn comm(&mut self, tid: u32, comm: &str) {
        let mut body = [tid.to_le_bytes(), tid.to_le_bytes()].concat();
        body.extend(comm.bytes());
        body.resize(24, 0);
        // The last fields of every record: thread, time, CPU, id.
        body.extend([0; 32]);
        self.record(3, 0, &body);
    }

    /// A sample of thread 4242/4250 on CPU 1.
    pub(super) fn sample(&mut self, id: u64, time: u64, raw: &Raw) {
        let mut body = id.to_le_bytes().to_vec();
        body.extend([4242_u32.to_le_bytes(), 4250_u32.to_le_bytes()].concat());
        body.extend(time.to_le_bytes());
        body.extend(1_u64.to_le_bytes());
        body.extend(u32::try_from(raw.0.len()).unwrap().to_le_bytes());
        body.extend(&raw.0);
        self.record(9, 0, &body);
    }
}

/// The number of a format.
pub(super) fn id(format: &str) -> u64 {
    let line = format.lines().find_map(|line| line.strip_prefix("ID: "));
    line.unwrap().parse().unwrap()
}

/// The bytes of a record, padded so that a sample is a multiple of eight.
pub(super) struct Raw(Vec<u8>);

impl Raw {
    pub(super) fn new() -> Self {
        Self(vec![0; 84])
    }

    pub(super) fn word(mut self, offset: usize, value: u32) -> Self {
        self.0[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn long(mut self, offset: usize, value: u64) -> Self {
        self.0[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        self
    }
}
