"""Two bills compared: one class for each object that ``pagetoll diff --format json`` writes."""

from __future__ import annotations

from dataclasses import dataclass

from pagetoll.bills import Keyed
from pagetoll.record import Record

SCHEMA = "pagetoll.diff/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerPage(Record):
    """A toll, a function or a kind of crossing before and after, in the unit of the bills or in crossings."""

    name: str
    old: float | None
    new: float | None

    @property
    def difference(self) -> float:
        """How much more it is now; what one side does not have counts as nothing."""
        return (self.new or 0.0) - (self.old or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRow(Keyed, Record):
    """Something that is said of one row."""

    operation: str
    mechanism: str
    batch: int
    system: str
    kernel: str | None = None
    folio: str | None = None
    vcpus: int | None = None
    readers: int | None = None
    ring: int | None = None
    cache: str | None = None
    clones: int | None = None
    backing: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(OfRow):
    """A row before and after. Lists begin with what changed most."""

    old: float
    new: float
    verdict: str
    """``regressed``, ``improved``, ``same``, ``undecided`` or ``unsteady``."""
    p_value: float | None = None
    tolls: tuple[PerPage, ...]
    functions: tuple[PerPage, ...] = ()
    crossings_per_page: PerPage | None = None
    crossings: tuple[PerPage, ...] = ()

    @property
    def percent(self) -> float | None:
        """The change in per cent of the old cost; None where that is 0."""
        return (self.new / self.old - 1) * 100 if self.old else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched(OfRow):
    """A row that cannot be compared, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(OfRow):
    """One thing that fails a gate."""

    kind: str
    """``regressed``, ``more-crossings``, ``check-failed``, ``row-missing``, ..."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff(Record):
    """The comparison of an old and a new bill, row by row."""

    schema: str
    route: str
    unit: str
    evidence: str
    tolerance: float
    """A share, such as 0.005."""
    changes: tuple[Change, ...]
    unmatched: tuple[Unmatched, ...]
    findings: tuple[Finding, ...]

    def having(self, verdict: str) -> list[Change]:
        """The changes with a verdict."""
        return [change for change in self.changes if change.verdict == verdict]

    @property
    def verdict(self) -> str:
        """One line: how many rows regressed, improved, are the same, or undecided, and how many findings there are."""
        names = ["regressed", "improved", "same", "undecided"] + ["unsteady"] * bool(self.having("unsteady"))
        counts = [f"{len(self.having(name))} {name}" for name in names]
        return f"{self.route}: {', '.join(counts)}; findings that fail a gate: {len(self.findings)}"

    def report(self) -> str:
        """The verdict, each finding, and the rows and tolls that moved, as text."""
        moved = [change for change in self.changes if change.verdict in ("regressed", "improved")]
        lines = [self.verdict]
        lines += [f"  {finding.kind}: {finding.name}: {finding.detail}" for finding in self.findings]
        for change in moved:
            percent = "" if change.percent is None else f" ({change.percent:+.1f} %)"
            lines.append(f"{change.verdict}: {change.name}: {change.old:.1f} -> {change.new:.1f} {self.unit}{percent}")
            lines += [f"  toll {toll.name}: {toll.difference:+.1f}" for toll in change.tolls if toll.difference]
        return "\n".join(lines)
