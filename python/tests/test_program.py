"""Bills, comparisons and sweeps by the program; the pytest plugin."""

import json
import os
import stat
from pathlib import Path

import pytest
from conftest import BILL

import pagetoll
from pagetoll import Bill, ProgramFailed, ProgramMissing
from pagetoll.commands import arguments_of

SMALL = {"on": "sim", "pages": 512, "samples": 2}


def test_options_become_a_command_line() -> None:
    given = {"on": "sim", "batch": [1, 8], "what_if": None, "profile": True, "fresh": False, "modules": Path("a b")}
    assert arguments_of(given) == ["--on=sim", "--batch=1,8", "--profile", "--modules=a b"]


def test_a_program_that_is_not_there_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PAGETOLL", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramMissing, match="not on PATH; run `cargo install --path crates/cli`"):
        pagetoll.bill("unmap")
    monkeypatch.setenv("PAGETOLL", "/nowhere/pagetoll")
    with pytest.raises(ProgramMissing, match="PAGETOLL is /nowhere/pagetoll"):
        pagetoll.bill("unmap")


@pytest.mark.usefixtures("program")
def test_bills_a_route() -> None:
    bill = pagetoll.bill("unmap", **SMALL, mechanism=["emulate", "preserve-ad"], batch=[1, 32])
    assert (bill.route, bill.backend) == ("unmap", "sim")
    assert {row.mechanism for row in bill.rows} >= {"emulate", "preserve-ad"}


@pytest.mark.usefixtures("program")
def test_bad_usage_has_the_programs_own_words() -> None:
    with pytest.raises(ProgramFailed, match="unexpected argument '--bogus'") as error:
        pagetoll.bill("unmap", bogus=1)
    assert error.value.exit == 2
    with pytest.raises(ProgramFailed, match="bills of different routes"):
        pagetoll.diff(BILL, pagetoll.bill("switch", on="sim", samples=2))


@pytest.mark.usefixtures("program")
def test_compares_bills_and_files(dearer: Path) -> None:
    new = pagetoll.read(dearer)
    assert isinstance(new, Bill)
    diff = pagetoll.diff(BILL, new)
    (change,) = diff.having("regressed")
    assert change.name == "clear emulate, xen-pv-dom0"
    assert change.percent == pytest.approx(9.967, abs=0.01)
    assert [finding.kind for finding in diff.findings] == ["regressed"]
    assert pagetoll.diff(BILL, new, tolerance=20).findings == ()


@pytest.mark.usefixtures("program")
def test_rows_may_be_missing(tmp_path: Path) -> None:
    bill = json.loads(BILL.read_text())
    bill["rows"] = [row for row in bill["rows"] if row["operation"] != "fork"]
    fewer = tmp_path / "fewer.json"
    fewer.write_text(json.dumps(bill))
    assert {finding.kind for finding in pagetoll.diff(BILL, fewer).findings} == {"row-missing"}
    assert pagetoll.diff(BILL, fewer, allow_missing=True).findings == ()


@pytest.mark.usefixtures("program")
def test_the_plugin_fails_with_the_rows_and_tolls_that_moved(pytester: pytest.Pytester, dearer: Path) -> None:
    pytester.makepyfile(f"""
        def test_same(assert_no_regression):
            assert_no_regression({str(BILL)!r}, {str(BILL)!r})
        def test_dearer(assert_no_regression):
            assert_no_regression({str(BILL)!r}, {str(dearer)!r})
        def test_tolerated(assert_no_regression):
            assert_no_regression({str(BILL)!r}, {str(dearer)!r}, tolerance=20)
    """)
    same = len(json.loads(BILL.read_text())["rows"]) - 1
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            f"*unmap: 1 regressed, 0 improved, {same} same, 0 undecided; findings that fail a gate: 1",
            "*regressed: clear emulate, xen-pv-dom0: 1858.0 -> 2043.2 instructions (+10.0 %)",
            "*toll trap-and-emulate: +185.2",
        ]
    )


def test_a_sweep_is_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of the program, and that its store is read: by a program that makes the store of one bill."""
    fake = tmp_path / "pagetoll"
    fake.write_text(
        f"""#!/bin/sh
echo "$@" > '{tmp_path}/asked'
command -v python3 > '{tmp_path}/python'
mkdir -p '{tmp_path}/store/bills'
echo 'schema = "pagetoll.store/1"' > '{tmp_path}/store/store.toml'
cp '{BILL}' '{tmp_path}/store/bills/0123456789abcdef.json'
exit 1
"""
    )
    fake.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PAGETOLL", str(fake))
    bills = pagetoll.sweep("plan.toml", tmp_path / "store", on="ray", address="here:1", jobs=2)
    assert [bill.route for bill in bills] == ["unmap"]
    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["sweep", "plan.toml", f"--store={tmp_path}/store", "--on=ray", "--address=here:1", "--jobs=2"]
    import sys

    assert os.path.samefile((tmp_path / "python").read_text().strip(), sys.executable)  # noqa: PTH121
