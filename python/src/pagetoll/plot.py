"""Plots of the standard views: the tolls of a bill, cost over an axis, the difference of two bills.

Each function draws on the axes that it is given, or on a new figure, and returns the axes. They need matplotlib
(``pip install 'pagetoll[plot]'``, else ``PackageMissing``), and none of them shows or saves anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pagetoll.bills import Bill, Row, RowKey
from pagetoll.comparison import Change, Diff
from pagetoll.errors import PackageMissing, PagetollError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Safe for colour blindness: the palette of Okabe and Ito, 2008."""
OTHERS = "#999999"
WIDE = 20
"""Largest over smallest value from which an axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """A horizontal bar of parts, each with its name and length."""

    label: str
    parts: list[tuple[str, float]]
    end: str
    """What is written at its end."""


def tolls(bill: Bill, ax: Axes | None = None, operation: str | None = None) -> Axes:
    """The tolls of each row as stacked bars, in the bill's unit per page; rows without tolls are left out.

    ``operation`` takes the rows of one operation only. A bill with more tolls than colours shows the largest, and the
    rest in grey. Where costs are so far apart that most bars would be too short to see, each bar is the whole of its
    row instead, in per cent: a logarithmic axis has no stacks. The cost is at the bar's end.
    """
    chosen = [row for row in bill.rows if row.tolls and row.cost_per_page and operation in (None, row.operation)]
    _some(chosen, "row with tolls")
    are_shares = _is_wide([row.cost_per_page or 0 for row in chosen])
    bars = [
        _Bar(label, _parts(row, are_shares), f" {_figure(row.cost_per_page)}")
        for label, row in zip(_labels([row.key for row in chosen]), chosen, strict=True)
    ]
    ax = _bars(bars, ax)
    ax.set_xlabel(f"% of the row's {bill.unit} per page" if are_shares else f"{bill.unit} per page")
    ax.set_title(f"{bill.route} on {bill.backend}: what a page pays, toll by toll")
    return ax


def _parts(row: Row, are_shares: bool) -> list[tuple[str, float]]:  # noqa: FBT001 (of this module only)
    whole = (row.cost_per_page or 0) / 100 if are_shares else 1
    return [(toll.name, toll.cost_per_page / whole) for toll in row.tolls]


def difference(diff: Diff, ax: Axes | None = None) -> Axes:
    """What each toll adds to or takes from the rows that moved, largest change first, in the bills' unit per page."""
    moved = [change for change in diff.changes if change.verdict in ("regressed", "improved")]
    _some(moved, "row that regressed or improved")
    moved.sort(key=lambda change: -abs(change.new - change.old))
    bars = [
        _Bar(label, _moves(change), f" {change.new - change.old:+,.1f}{_percent(change)}")
        for label, change in zip(_labels([change.key for change in moved]), moved, strict=True)
    ]
    ax = _bars(bars, ax)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlabel(f"{diff.unit} per page, new less old")
    same = len(diff.changes) - len(moved)
    ax.set_title(f"{diff.route}: what moved ({len(moved)} rows; {same} others are the same or undecided)")
    return ax


def over(
    bills: Bill | Iterable[Bill],
    axis: str,
    ax: Axes | None = None,
    value: str = "cost_per_page",
    where: Callable[[Row], bool] | None = None,
) -> Axes:
    """Cost over an axis, one line for each kind of row.

    ``axis`` is ``date`` (when the bill was made), ``linux`` or another part of the bill's stack, or a field of its
    rows: ``kernel``, ``batch``, ``vcpus``, ``folio``, ... ``value`` is ``cost_per_page`` or ``pages_per_second``.
    ``where`` chooses rows. Bands are where 90 % of a model's samples lie, or a standard deviation of measured runs;
    published rates are points of their line's colour. Rows without the axis or the value are left out. Bills of other
    machines, by their stacks, have lines of their own. Where several rows are at one place, as of several seeds, the
    line goes through their median and the band holds all of theirs. Bills of two units raise ``PagetollError``.
    """
    bills = [bills] if isinstance(bills, Bill) else list(bills)
    rows = [(bill, row) for bill in bills for row in bill.rows if where is None or where(row)]
    found = [(bill, point) for bill, row in rows for point in _point(bill, row, axis, value)]
    _some(found, f"row with {axis} and {value}")
    drawn, points = [bill for bill, _ in found], [point for _, point in found]
    units = _distinct(bill.unit for bill in drawn)
    if value == "cost_per_page" and len(units) > 1:
        raise PagetollError(f"nothing to plot: costs in {' and '.join(units)} have no axis in common")
    ax = _axes(ax, (10, 5.5))
    positions = _positions(point.at for point in points)
    lines = _lines(_joined(points), positions)
    labels = _series_labels([line[0].series for line in lines])
    for number, (label, line) in enumerate(zip(labels, lines, strict=True)):
        _line(ax, line, positions, label, number)
    _name_axes(ax, drawn, axis, value)
    _scale(ax, positions, axis)
    return ax


@dataclass(frozen=True, slots=True)
class _Series:
    """What the points of a line have in common."""

    key: RowKey
    machine: tuple[tuple[str, str], ...]
    """Parts of the stack, but for the versions that the axis is about."""

    def without(self, axis: str) -> _Series:
        return replace(self, key=self.key.without(axis))


@dataclass(frozen=True, slots=True)
class _Point:
    """A row's value at a place of the axis, with its band and what was published."""

    series: _Series
    at: Any
    value: float
    low: float
    high: float
    published: float | None


def _point(bill: Bill, row: Row, axis: str, value: str) -> list[_Point]:
    """The row's point; none where it lacks the axis or the value."""
    at = _place(bill, row, axis)
    middle = getattr(row, value)
    if at is None or middle is None:
        return []
    low, high = _band(row, value, middle)
    series = _Series(row.key.without(axis), _machine(bill, axis))
    return [_Point(series, at, middle, low, high, _published(bill, row, value))]


_ABOUT = {"kernel": ("linux",), "linux": ("linux",), "date": ("linux", "xen")}
"""What else in the stack changes along an axis."""


def _machine(bill: Bill, axis: str) -> tuple[tuple[str, str], ...]:
    """What a bill was made on; counts do not depend on QEMU's version."""
    changing = ("qemu", *_ABOUT.get(axis, (axis,)))
    return tuple(sorted(part for part in bill.stack.items() if not part[0].startswith(changing)))


def _place(bill: Bill, row: Row, axis: str) -> Any:
    if axis == "date":
        when = bill.provenance.when
        return when and datetime.fromisoformat(when.replace("Z", "+00:00"))
    if axis == "kernel" and row.kernel is None:
        return bill.stack.get("linux")
    return getattr(row, axis) if axis in Row.__dataclass_fields__ else bill.stack.get(axis)


def _band(row: Row, value: str, middle: float) -> tuple[float, float]:
    if value == "cost_per_page" and row.interval:
        return row.interval.low, row.interval.high
    deviation = (row.stddev if value == "cost_per_page" else row.pages_per_second_stddev) or 0.0
    return middle - deviation, middle + deviation


def _published(bill: Bill, row: Row, value: str) -> float | None:
    """A published rate is of all vCPUs together, a cost is one vCPU's nanoseconds."""
    if row.published is None:
        return None
    rate = row.published.pages_per_second
    if value == "pages_per_second":
        return rate
    return (row.vcpus or 1) * 1e9 / rate if bill.unit == "nanoseconds" else None


def _joined(points: list[_Point]) -> list[_Point]:
    """The same without the number of readers in the series, where each place has one number of readers only."""
    joined = [replace(point, series=point.series.without("readers")) for point in points]
    apart = len({(point.series, point.at) for point in points})
    return joined if len({(point.series, point.at) for point in joined}) == apart else points


def _lines(points: list[_Point], positions: dict[Any, Any]) -> list[list[_Point]]:
    """The points of each series in the order of the axis, one for each place; the line that ends highest first."""
    groups: dict[_Series, dict[Any, list[_Point]]] = {}
    for point in points:
        groups.setdefault(point.series, {}).setdefault(positions[point.at], []).append(point)
    lines = [[_median(places[at]) for at in sorted(places)] for places in groups.values()]
    return sorted(lines, key=lambda line: -line[-1].value)


def _median(points: list[_Point]) -> _Point:
    """One point for several at one place: the one in the middle, with a band that holds all of theirs."""
    middle = sorted(points, key=lambda point: point.value)[len(points) // 2]
    return replace(middle, low=min(point.low for point in points), high=max(point.high for point in points))


def _line(ax: Axes, points: Sequence[_Point], positions: dict[Any, Any], label: str, number: int) -> None:
    """The line of one series; the seventh has the first one's colour and other dashes."""
    colour, style = COLOURS[number % len(COLOURS)], ("-", "--", ":", "-.")[number // len(COLOURS) % 4]
    at = [positions[point.at] for point in points]
    ax.plot(at, [point.value for point in points], style, marker="o", markersize=4, color=colour, label=label)
    if any(point.low < point.high for point in points):
        low, high = [point.low for point in points], [point.high for point in points]
        ax.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
    published = [(positions[point.at], point.published) for point in points if point.published is not None]
    if published:
        ax.plot(*zip(*published, strict=True), "D", markersize=7, markerfacecolor="none", color=colour)


def _name_axes(ax: Axes, bills: Sequence[Bill], axis: str, value: str) -> None:
    """Title, names of axes, legend."""
    ax.set_xlabel(axis)
    ax.set_ylabel(f"{bills[0].unit} per page" if value == "cost_per_page" else "pages per second, all vCPUs together")
    routes = ", ".join(_distinct(bill.route for bill in bills))
    backends = ", ".join(_distinct(bill.backend for bill in bills))
    ax.set_title(f"{routes} on {backends}: {value.replace('_', ' ')} over {axis}")
    if any(line.get_marker() == "D" for line in ax.lines):
        ax.plot([], [], "D", markersize=7, markerfacecolor="none", color="black", label="published")
    ax.grid(visible=True, color="#dddddd", linewidth=0.6)
    _explain(ax)


def _scale(ax: Axes, positions: dict[Any, Any], axis: str) -> None:
    """Logarithmic axes where the range is wide, a tick for each place."""
    numbers = sorted(place for place in positions if isinstance(place, int | float))
    if axis == "date":
        ax.figure.autofmt_xdate()
    elif not numbers:
        ax.set_xticks(list(positions.values()), list(positions), rotation=20, ha="right")
        ax.margins(x=0.1)
    elif _is_wide(numbers):
        ax.set_xscale("log", base=2)
        ax.set_xticks(numbers, [str(number) for number in numbers])
        ax.minorticks_off()
    drawn = [float(height) for line in ax.lines for height in line.get_ydata()]
    if not _is_wide(drawn):
        ax.set_ylim(bottom=0)
        return
    ax.set_yscale("log")
    if max(drawn) / min(drawn) < 1000:
        _tick_finely(ax)


def _tick_finely(ax: Axes) -> None:
    """Ticks at 1, 2 and 5 of each decade, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda height, _: f"{height:,g}"))
    ax.yaxis.set_minor_locator(NullLocator())


def _positions(places: Iterable[Any]) -> dict[Any, Any]:
    """Where each place is on the axis: numbers and times where they are, names one after another, versions in order."""
    distinct = set(places)
    if all(not isinstance(place, str) for place in distinct):
        return {place: place for place in sorted(distinct)}
    return {place: at for at, place in enumerate(sorted(distinct, key=_in_order))}


def _in_order(name: Any) -> list[tuple[int, int, str]]:
    """Orders 6.9 before 6.18."""
    parts = re.findall(r"\d+|\D+", str(name))
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def _bars(bars: Sequence[_Bar], ax: Axes | None) -> Axes:
    """Horizontal bars from top to bottom; parts above zero go to the right, those below to the left."""
    ax = _axes(ax, (10, 1.8 + 0.32 * len(bars)))
    colours = _colours(bars)
    for at, bar in enumerate(bars):
        right = left = 0.0
        for name, length in bar.parts:
            ax.barh(at, length, left=right if length > 0 else left, color=colours.get(name, OTHERS), height=0.72)
            right, left = right + max(length, 0.0), left + min(length, 0.0)
        ax.text(right, at, bar.end, va="center", fontsize="small")
    ax.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize="small")
    ax.set_ylim(len(bars) - 0.4, -0.6)
    ax.margins(x=0.015 * max(len(bar.end) for bar in bars))
    if all(length >= 0 for bar in bars for _, length in bar.parts):
        ax.set_xlim(left=0)
    ax.spines[["top", "right"]].set_visible(False)
    _explain(ax, _patches(bars, colours))
    return ax


def _colours(bars: Sequence[_Bar]) -> dict[str, str]:
    """A colour for each of the parts that are largest over all bars, in the order in which they come."""
    sizes: dict[str, float] = {}
    for name, length in (part for bar in bars for part in bar.parts):
        sizes[name] = sizes.get(name, 0.0) + abs(length)
    largest = sorted(sizes, key=lambda name: -sizes[name])[: len(COLOURS)]
    return dict(zip([name for name in sizes if name in largest], COLOURS, strict=False))


def _patches(bars: Sequence[_Bar], colours: dict[str, str]) -> list[Any]:
    """The legend's entries."""
    from matplotlib.patches import Patch

    has_others = any(name not in colours for bar in bars for name, _ in bar.parts)
    named = {**colours, "others": OTHERS} if has_others else colours
    return [Patch(color=colour, label=name) for name, colour in named.items()]


def _explain(ax: Axes, handles: list[Any] | None = None) -> None:
    """The legend, to the right of the plot, where it hides nothing."""
    ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize="small")


def _moves(change: Change) -> list[tuple[str, float]]:
    """What each toll changed; of a row without tolls, what its cost did."""
    moves = [(toll.name, toll.difference) for toll in change.tolls if toll.difference]
    return moves or [("cost", change.new - change.old)]


def _labels(keys: Sequence[RowKey]) -> list[str]:
    """Names of rows without the axes that are the same for all, the operation and mechanism apart."""
    same = [name for name in ("system", "kernel") if len({getattr(key, name) for key in keys}) == 1]
    return [str(key.without(*same)) for key in keys]


def _series_labels(series: Sequence[_Series]) -> list[str]:
    """Names of rows, and the parts of the stack in which lines differ."""
    parts = sorted({name for one in series for name, _ in one.machine})
    differ = [name for name in parts if len({dict(one.machine).get(name) for one in series}) > 1]
    keys = _labels([one.key for one in series])
    machines = [[f"{name} {value}" for name, value in one.machine if name in differ] for one in series]
    return [", ".join([key, *machine]) for key, machine in zip(keys, machines, strict=True)]


def _percent(change: Change) -> str:
    return "" if change.percent is None else f" ({change.percent:+.1f} %)"


def _figure(cost: float | None) -> str:
    return "" if cost is None else f"{cost:,.1f}" if cost < 1000 else f"{cost:,.0f}"


def _is_wide(values: Sequence[float]) -> bool:
    """Whether values, all above zero, are so far apart that a linear axis would hide the small ones."""
    return bool(values) and min(values) > 0 and max(values) / min(values) >= WIDE


def _distinct(names: Iterable[str]) -> list[str]:
    """Each once, in the order in which they come."""
    return list(dict.fromkeys(names))


def _some(found: Sequence[object], what: str) -> None:
    if not found:
        raise PagetollError(f"nothing to plot: no {what}")


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes given, or those of a new figure of that size in inches."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise PackageMissing("matplotlib", "plot") from None
    return pyplot.subplots(figsize=size, layout="constrained")[1]
