"""A bill, its rows, tolls and checks: one class for each object of ``docs/bill-schema.json``, with its field names.

Costs are in the bill's ``unit`` (instructions or nanoseconds) for each page of 4 KiB, or for each operation on routes
without pages. Fields that the schema lets be absent or null are None, those that are lists or maps are empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pagetoll.record import ALWAYS, Record

SCHEMA = "pagetoll.bill/1"


class RowKey(NamedTuple):
    """What makes a row the same in two bills."""

    operation: str
    mechanism: str
    batch: int
    system: str
    kernel: str | None
    folio: str | None
    vcpus: int | None
    readers: int | None
    ring: int | None
    cache: str | None = None
    clones: int | None = None
    backing: str | None = None

    def __str__(self) -> str:
        """The axes that are set, as the program writes them: ``clear preserve-ad, batch 32, xen-pv-dom0``."""
        parts = [
            f"{self.operation} {self.mechanism}",
            self.folio,
            None if self.batch == 1 else f"batch {self.batch}",
            None if self.vcpus is None else f"{self.vcpus} vCPUs",
            None if self.readers is None else f"{self.readers} readers",
            None if self.ring is None else f"ring {self.ring}",
            self.cache,
            None if self.clones is None else f"{self.clones} clones",
            self.backing,
            self.system,
            self.kernel,
        ]
        return ", ".join(part for part in parts if part is not None)


class Keyed:
    """A record that has the fields of a ``RowKey``."""

    __slots__ = ()

    @property
    def key(self) -> RowKey:
        """What makes it the same row in two bills."""
        return RowKey._make(getattr(self, name) for name in RowKey._fields)

    @property
    def name(self) -> str:
        """The key, as the program writes it."""
        return str(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toll(Record):
    """A part of the cost of a page: how often it is paid, and how much each time."""

    name: str
    count_per_page: float
    cost_each: float

    @property
    def cost_per_page(self) -> float:
        """In the bill's unit."""
        return self.count_per_page * self.cost_each


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Record):
    """One check of a row: how many pages were tried, and how many of them failed."""

    name: str
    tried: int
    failed: int
    control_failed: int | None = None
    verdict: str
    """``pass``, ``fail`` or ``inconclusive``."""
    kept: str | None = None
    """Day in UTC, such as ``2026-11-26``, of the race that gave these numbers, where it was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval(Record):
    """Where 90 % of the samples of a model lie."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(Record):
    """What physical memory the pages of a row were; folios and runs are counts, ``largest_folio`` pages of 4 KiB."""

    runs: int
    folios: int
    largest_folio: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRate(Record):
    """A published rate beside a modelled one, of all vCPUs together."""

    pages_per_second: float
    fitted: bool
    """Whether the model was calibrated to it: then it is no prediction."""
    scalability: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(Record):
    """What one page took in a function, without what it called."""

    name: str
    part: str
    """``hypervisor``, ``kernel``, ``probe`` or ``user-space``."""
    cost_per_page: float
    rep_iterations: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Record):
    """What one page took in a function, with all that it called."""

    name: str
    part: str
    depth: int
    """How many functions it was called through."""
    cost_per_page: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Record):
    """What one operation took below one way into the kernel."""

    name: str
    cost_per_page: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Record):
    """What one page took, itemised by what was executed."""

    per_page: Mapping[str, float]
    """What is slower than other instructions, by its name in the schema (``Events``)."""
    functions: tuple[Function, ...]
    """The most expensive first."""
    calls: tuple[Call, ...] = ()
    """Who called what: each function before those that it called."""
    entries: tuple[Entry, ...] = ()
    """System calls, page faults and other ways into the kernel, the most expensive first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMemory(Record):
    """Memory of one restored guest in bytes, as smaps has it: the mean over guests."""

    pss: float
    private: float
    page_cache: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored(Record):
    """Times of single restored guests at a boundary, in nanoseconds, and the memory that they keep there."""

    median: float
    """In the bill's unit, as the 95th percentile."""
    p95: float
    longest_stall: float | None = None
    read_from_storage: float | None = None
    """Bytes."""
    cpu_time: float | None = None
    kept: KeptMemory | None = None
    filled_untouched: float | None = None
    """Share of the image in memory of a guest that has touched nothing."""
    predicted: float | None = None
    """Cost of one page, in the bill's unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded(Record):
    """Memory held after discards, in bytes for each byte discarded, and what they took from the guest."""

    frees: str
    """``all``, ``part``, ``later`` or ``nothing``."""
    held: float
    freed_later: float
    rss: float
    page_cache: float | None = None
    taken_per_call: float | None = None
    """Pages of KVM's stage-2 tables."""
    beside_per_call: float | None = None
    faults_beside_per_call: float | None = None
    found: str
    """``zeroes``, ``old``, ``file`` or ``mixed``."""
    cleared: str
    """``call``, ``touch`` or ``never``."""
    clearing: float
    """Cost of a page, in the unit of the bill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round(Record):
    """A round of a migration: times in nanoseconds since the order, and the pages that were sent."""

    begun: float
    ended: float
    pages: int
    phase: str
    """``precopy``, ``stopped`` or ``postcopy``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Record):
    """Pages that a migration sent: medians over the runs."""

    pages: float
    again: float
    waited_for: float
    composed: float | None = None
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated(Record):
    """A time of migrations, in nanoseconds, and the pages that they sent."""

    median: float
    composed: float | None = None
    """From the bills of dirty tracking and demand paging, and a guest that writes nothing."""
    sent: Sent | None = None
    longest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment(Record):
    """A moment of a restore: time since the order, and pages of 4 KiB that are in memory."""

    nanoseconds: float
    pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCoverage(Record):
    """An event that was tried on a mechanism that tracks written pages."""

    event: str
    tried: int
    lost: int
    coverage: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked(Record):
    """Reports of dirty tracking: pages written and reported, and the events that were tried."""

    written: int
    reported: int
    events: tuple[EventCoverage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span(Record):
    """A span of time of a guest that rewrites its pages, in ns since rewriting began."""

    start: float
    nanoseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting(Record):
    """Rounds of a guest that rewrites tracked pages, and the harvests beside it."""

    rounds: tuple[Span, ...]
    harvests: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Keyed, Record):
    """One line of a bill."""

    operation: str
    mechanism: str
    role: str
    batch: int
    system: str
    kernel: str | None = None
    folio: str | None = None
    layout: Layout | None = None
    vcpus: int | None = None
    readers: int | None = None
    ring: int | None = None
    cache: str | None = None
    clones: int | None = None
    backing: str | None = None
    pages_per_second: float | None = None
    pages_per_second_stddev: float | None = None
    published: PublishedRate | None = None
    placement: str | None = None
    folios: Mapping[str, int] = field(default_factory=dict)
    resident: tuple[Moment, ...] = ()
    tracked: Tracked | None = None
    rewriting: Rewriting | None = None
    pages: int
    cost_per_page: float | None = field(default=None, metadata=ALWAYS)
    stddev: float | None = None
    interval: Interval | None = None
    runs: tuple[float, ...] = ()
    spread: float | None = None
    crossings_per_page: float | None = field(default=None, metadata=ALWAYS)
    crossings: Mapping[str, float] = field(default_factory=dict)
    smp_safe: bool | None = field(default=None, metadata=ALWAYS)
    tolls: tuple[Toll, ...]
    restored: Restored | None = None
    discarded: Discarded | None = None
    migrated: Migrated | None = None
    profile: Profile | None = None
    checks: tuple[Check, ...]
    unavailable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(Record):
    """What was run, with all defaults resolved."""

    pages: int
    batches: tuple[int, ...]
    mechanisms: tuple[str, ...]
    runs: int
    program: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Package(Record):
    """A distribution package that the run used."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(Record):
    """A file that was booted."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoad(Record):
    """Load of the host while costs were measured; ``others``, ``steal`` and ``waited`` are shares from 0 to 1."""

    load_average: float
    others: float
    steal: float
    waited: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance(Record):
    """When, by what and with what a bill was made. Nothing here enters a figure."""

    when: str | None = None
    """RFC 3339 time in UTC; None in a store's counted and modelled bills, which do not depend on it."""
    command: str
    pagetoll: str
    counted: str | None = None
    boots: tuple[str, ...] = ()
    packages: tuple[Package, ...] = field(default=(), metadata=ALWAYS)
    images: tuple[Image, ...] = ()
    host_load: HostLoad | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill(Record):
    """One run of one route. No two rows have the same key."""

    schema: str
    route: str
    backend: str
    backend_reason: str
    unit: str
    """``instructions`` or ``nanoseconds``."""
    evidence: str
    """``exact``, ``measured`` or ``modelled``."""
    stack: Mapping[str, str]
    order: Order
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    provenance: Provenance

    @property
    def failed_checks(self) -> list[tuple[Row, Check]]:
        """The checks that failed, each with its row."""
        return [(row, check) for row in self.rows for check in row.checks if check.verdict == "fail"]

    def dumps(self) -> str:
        """The bill as the program writes it: the same JSON value, in the same order."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n"
