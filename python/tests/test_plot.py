"""Plots are drawn, with what they should show. How they look is for eyes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BILL, ROOT

import pagetoll
from pagetoll import Bill, PagetollError, plot

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
matplotlib.use("Agg")
DATA = ROOT / "crates/render/tests/data"


@pytest.fixture(autouse=True)
def figures(tmp_path: Path) -> Iterator[None]:
    """Each figure of a test is drawn to its end, and closed."""
    from matplotlib import pyplot

    yield
    for number in pyplot.get_fignums():
        pyplot.figure(number).savefig(tmp_path / f"{number}.png")
    pyplot.close("all")


def _bill(path: Path) -> Bill:
    bill = pagetoll.read(path)
    assert isinstance(bill, Bill)
    return bill


def _legend(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_tolls() -> None:
    ax = plot.tolls(_bill(BILL), operation="clear")
    assert len(ax.get_yticks()) == 18
    assert ax.get_xlabel() == "instructions per page"
    assert {"trap-and-emulate", "per-entry"} <= set(_legend(ax))


def test_tolls_far_apart_are_shares() -> None:
    ax = plot.tolls(_bill(DATA / "demand-sim.json"))
    assert ax.get_xlabel() == "% of the row's nanoseconds per page"
    assert "others" in _legend(ax)


def test_over_an_axis_with_bands_and_published_points() -> None:
    ax = plot.over(_bill(DATA / "demand-sim.json"), "vcpus", where=lambda row: row.batch == 1)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert len(ax.collections) == 5
    assert _legend(ax)[-1] == "published"


def test_over_batch() -> None:
    ax = plot.over(_bill(BILL), "batch", where=lambda row: row.operation == "clear")
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines["clear preserve-ad"].get_xdata()) == [1, 8, 32, 128, 512]
    assert ax.get_ylim()[0] == 0


def test_over_kernels_in_the_order_of_versions() -> None:
    bill = json.loads(BILL.read_text())
    bills = []
    for version in ("6.18.1", "6.9", "6.1.192"):
        bill["stack"]["linux"] = version
        bills.append(Bill.from_json(bill))
    ax = plot.over(bills, "kernel", where=lambda row: row.operation == "fork")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["6.1.192", "6.9", "6.18.1"]


def test_bills_of_two_machines_are_two_lines() -> None:
    ax = plot.over(pagetoll.read(ROOT / "atlas/store"), "kernel", where=lambda row: row.mechanism == "uffd")
    labels = [line.get_label() for line in ax.lines]
    assert len(labels) == 4
    assert sum("arch arm64" in label for label in labels) == 2
    assert {len(line.get_xdata()) for line in ax.lines} == {8}
    assert ax.get_title() == "demand on lab: cost per page over kernel"


def test_costs_of_two_units_are_refused() -> None:
    bills = [_bill(BILL), _bill(DATA / "demand-sim.json")]
    with pytest.raises(PagetollError, match="costs in instructions and nanoseconds have no axis in common"):
        plot.over(bills, "batch")


def test_over_dates_with_several_bills_of_one_day() -> None:
    bill = json.loads(BILL.read_text())
    bills = []
    for when in ("2026-11-26T05:28:14Z", "2026-11-26T05:28:14Z", "2026-12-01T00:00:00Z"):
        bill["provenance"]["when"] = when
        bills.append(Bill.from_json(bill))
    ax = plot.over(bills, "date", where=lambda row: row.operation == "fork")
    assert {len(line.get_xdata()) for line in ax.lines} == {2}


@pytest.mark.usefixtures("program")
def test_difference(dearer: Path) -> None:
    ax = plot.difference(pagetoll.diff(BILL, dearer))
    assert ax.get_title() == "unmap: what moved (1 rows; 41 others are the same or undecided)"
    assert _legend(ax) == ["trap-and-emulate"]
    with pytest.raises(PagetollError, match="no row that regressed or improved"):
        plot.difference(pagetoll.diff(BILL, BILL))


def test_draws_on_given_axes() -> None:
    from matplotlib import pyplot

    _, (left, right) = pyplot.subplots(1, 2)
    assert plot.tolls(_bill(BILL), ax=left) is left
    with pytest.raises(PagetollError, match="nothing to plot: no row with ring and cost_per_page"):
        plot.over(_bill(BILL), "ring", ax=right)
