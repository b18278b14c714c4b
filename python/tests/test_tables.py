"""Tables of bills."""

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import BILL, ROOT

import pagetoll
from pagetoll import Bills
from pagetoll.tables import options

pytest.importorskip("pyarrow", reason="pyarrow is not installed")


@pytest.fixture(scope="module")
def bills() -> Bills:
    read = pagetoll.read(ROOT / "costs")
    assert isinstance(read, Bills)
    return read


def _cost(toll: Any) -> float:
    return float(toll["count_per_page"] * toll["cost_each"])


def test_a_line_for_each_row(bills: Bills) -> None:
    lines = bills.to_arrow().to_pylist()
    rows = [(name, at, row) for name, bill in bills.items() for at, row in enumerate(bill.rows)]
    assert [(line["bill"], line["row"]) for line in lines] == [(name, at) for name, at, _ in rows]
    for line, (_, _, row) in zip(lines, rows, strict=True):
        for field in ("operation", "mechanism", "batch", "folio", "cost_per_page", "smp_safe", "pages"):
            assert line[field] == getattr(row, field)
        assert line["layout.folios"] == (row.layout.folios if row.layout else None)
        assert {k: line[f"crossings.{k}"] for k in row.crossings} == row.crossings


def test_nested_fields_are_columns_each_by_its_whole_path() -> None:
    bill = ROOT / "docs" / "restore-live.json"
    restored = Bills(bill.parent, (bill,))
    (_, read) = next(iter(restored.items()))
    pss = [row.restored.kept.pss if row.restored and row.restored.kept else None for row in read.rows]
    assert any(pss)
    assert restored.to_arrow()["restored.kept.pss"].to_pylist() == pss


def test_axes_and_times_are_columns() -> None:
    (line, *_) = Bills(BILL.parent, (BILL,)).to_arrow().to_pylist()
    assert line["option.output"] == "docs/bill.json"
    assert line["stack.xen"] == "4.17.7"
    written = json.loads(BILL.read_text())["provenance"]["when"]
    assert line["when"] == datetime.strptime(written, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def test_tolls_sum_to_the_cost_of_their_row(bills: Bills) -> None:
    sums: dict[tuple[str, int], float] = {}
    for toll in bills.tolls().to_pylist():
        key = (toll["bill"], toll["row"])
        sums[key] = sums.get(key, 0.0) + _cost(toll)
    costs = {(line["bill"], line["row"]): line["cost_per_page"] for line in bills.to_arrow().to_pylist()}
    assert sums
    assert all(total == pytest.approx(costs[key], abs=1e-6) for key, total in sums.items())


def test_pieces_give_the_same_table(bills: Bills, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bills.to_arrow().to_pylist()
    monkeypatch.setattr("pagetoll.tables.AT_A_TIME", 2)
    assert bills.to_arrow().to_pylist() == whole


def test_polars_and_pandas_have_the_same_lines(bills: Bills) -> None:
    pytest.importorskip("polars", reason="polars is not installed")
    pytest.importorskip("pandas", reason="pandas is not installed")
    costs = bills.to_arrow()["cost_per_page"].to_pylist()
    assert bills.to_polars()["cost_per_page"].to_list() == costs
    frame = bills.to_pandas()
    assert frame["cost_per_page"].to_list() == pytest.approx(costs, nan_ok=True)


def test_no_bills_give_an_empty_table(tmp_path: Path) -> None:
    assert Bills(tmp_path, ()).to_arrow().num_rows == 0


def test_options_of_a_command() -> None:
    command = "pagetoll bill pin --kernel 'a b' --profile --folio=2M,1G --on lab"
    assert options(command) == {"kernel": "a b", "profile": "true", "folio": "2M,1G", "on": "lab"}
    assert options("pagetoll bill pin --kernel 'a") == {"kernel": "'a"}
