"""Reading: every bill of the repository, corrupt ones, folders and stores."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import BILL, ROOT, bills_of_the_repository

import pagetoll
from pagetoll import Bill, BillError, Bills, CorruptBill, RowKey


@pytest.mark.parametrize("path", bills_of_the_repository(), ids=lambda path: str(path.relative_to(ROOT)))
def test_is_written_back_to_the_same_json(path: Path) -> None:
    bill = pagetoll.read(path)
    assert isinstance(bill, Bill)
    written = json.loads(path.read_text())
    # Through text, because equal dictionaries may differ in the order of their keys, and 1 equals 1.0.
    assert json.dumps(bill.to_json()) == json.dumps(written)
    assert json.loads(bill.dumps()) == written


def test_has_a_field_for_each_property_of_the_schema() -> None:
    bill = pagetoll.read(BILL)
    assert isinstance(bill, Bill)
    schema = json.loads((ROOT / "docs/bill-schema.json").read_text())
    for record, properties in [
        (bill, schema["properties"]),
        (bill.rows[0], schema["$defs"]["Row"]["properties"]),
        (bill.rows[2].tolls[0], schema["$defs"]["Toll"]["properties"]),
        (bill.rows[2].checks[0], schema["$defs"]["Check"]["properties"]),
        (bill.provenance, schema["$defs"]["Provenance"]["properties"]),
    ]:
        assert set(type(record).__dataclass_fields__) == {*properties, "extra"}


def test_a_key_prints_every_axis() -> None:
    key = RowKey("page-in", "exit", 1, "kvm-guest", None, None, None, None, None)
    other = RowKey("fault", "uffd", 2, "native", "", "2M", 0, 0, 0, "warm", 4, "memfd")
    changed = [key._replace(**{axis: value}) for axis, value in other._asdict().items()]
    assert len({str(one) for one in (key, *changed)}) == 1 + len(RowKey._fields)


def test_unknown_fields_are_kept(tmp_path: Path) -> None:
    given = json.loads(BILL.read_text())
    given["rows"][2]["tolls"][0]["since"] = {"kernel": "7.3"}
    del given["provenance"]["when"]
    path = tmp_path / "newer.json"
    path.write_text(json.dumps(given))
    bill = pagetoll.read(path)
    assert isinstance(bill, Bill)
    assert bill.rows[2].tolls[0].extra == {"since": {"kernel": "7.3"}}
    assert bill.provenance.when is None
    assert bill.to_json() == given


def _without_pages(bill: Any) -> None:
    del bill["rows"][1]["pages"]


def _text_as_cost(bill: Any) -> None:
    bill["rows"][2]["tolls"][1]["cost_each"] = "much"


def _yes_as_count(bill: Any) -> None:
    bill["rows"][2]["crossings"]["ptwr"] = True


def _other_schema(bill: Any) -> None:
    bill["schema"] = "pagetoll.bill/9"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_without_pages, "rows[1].pages: found nothing, expected a value"),
        (_text_as_cost, "rows[2].tolls[1].cost_each: found 'much', expected a number"),
        (_yes_as_count, "rows[2].crossings.ptwr: found True, expected a number"),
        (_other_schema, "schema: found 'pagetoll.bill/9', expected 'pagetoll.bill/1'"),
    ],
)
def test_an_error_names_file_and_field(tmp_path: Path, spoil: Any, message: str) -> None:
    bill = json.loads(BILL.read_text())
    spoil(bill)
    path = tmp_path / "spoilt.json"
    path.write_text(json.dumps(bill))
    with pytest.raises(BillError) as error:
        pagetoll.read(path)
    assert str(error.value) == f"{path}: {message}"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_bill_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "none.json"
    path.write_bytes(content)
    with pytest.raises(BillError, match=r"none\.json: "):
        pagetoll.read(path)


def test_a_folder_warns_of_a_corrupt_bill_and_uses_the_rest(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper/good.json").write_bytes(BILL.read_bytes())
    (tmp_path / "cut.json").write_bytes(BILL.read_bytes()[:5000])
    bills = pagetoll.read(tmp_path)
    assert isinstance(bills, Bills)
    with pytest.warns(CorruptBill, match=r"cut\.json: .*the other bills are used"):
        read = list(bills.items())
    assert [name for name, _ in read] == ["deeper/good"]


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BillError, match="expected a bill, a folder of bills, or a store"):
        pagetoll.read(tmp_path)


def test_a_store_has_bills_and_failures(tmp_path: Path) -> None:
    for folder in ("bills", "failures"):
        (tmp_path / folder).mkdir()
    (tmp_path / "store.toml").write_text('schema = "pagetoll.store/1"\n')
    (tmp_path / "bills/0123456789abcdef.json").write_bytes(BILL.read_bytes())
    failure = {"id": "f" * 16, "command": "pagetoll bill pin", "exit": 3, "reason": "no QEMU", "attempts": 2}
    (tmp_path / f"failures/{'f' * 16}.json").write_text(json.dumps(failure))
    store = pagetoll.read(tmp_path)
    assert isinstance(store, Bills)
    assert [name for name, _ in store.items()] == ["0123456789abcdef"]
    assert [failed.to_json() for failed in store.failures] == [failure]
    (tmp_path / "store.toml").write_text('schema = "pagetoll.store/2"\n')
    with pytest.raises(BillError, match=r"store\.toml: schema"):
        pagetoll.read(tmp_path)


def test_what_is_no_regular_file_in_a_store_is_not_read(tmp_path: Path) -> None:
    bills = tmp_path / "bills"
    bills.mkdir()
    (tmp_path / "store.toml").write_text('schema = "pagetoll.store/1"\n')
    (tmp_path / "failures").mkdir()
    (bills / "0.json").write_bytes(BILL.read_bytes())
    (bills / "1.json").symlink_to(BILL)
    os.mkfifo(bills / "2.json")
    (bills / "3.json").symlink_to("/dev/zero")
    with (bills / "4.json").open("wb") as file:
        file.truncate(1 << 40)
    store = pagetoll.read(tmp_path)
    assert isinstance(store, Bills)
    with pytest.warns(CorruptBill) as warned:
        assert [name for name, _ in store.items()] == ["0"]
    problems = ["1.json: is a symbolic link", "2.json: is no regular file", "3.json: is a", "4.json: is larger"]
    said = [str(one.message) for one in warned]
    assert all(problem in text for problem, text in zip(problems, said, strict=True)), said
    linked = tmp_path / "linked.json"
    linked.symlink_to(BILL)
    assert isinstance(pagetoll.read(linked), Bill)
    bills.rename(tmp_path / "elsewhere")
    bills.symlink_to("elsewhere")
    with pytest.raises(BillError, match="bills: is a symbolic link; expected a folder"):
        pagetoll.read(tmp_path)
