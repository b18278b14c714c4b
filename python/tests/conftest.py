"""Where the repository's bills are, and where its program is."""

import json
import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BILL = ROOT / "docs/bill.json"

pytest_plugins = ["pytester"]


def bills_of_the_repository() -> list[Path]:
    places = ["docs", "costs", "crates/advice/bills", "crates/render/tests/data", "crates/cli/tests/data"]
    files = [path for place in places for path in sorted((ROOT / place).rglob("*.json"))]
    return [path for path in files if '"schema": "pagetoll.bill/1"' in path.read_text()[:100]]


def find_program() -> str | None:
    built = [ROOT / "target" / kind / "pagetoll" for kind in ("release", "debug")]
    named = os.environ.get("PAGETOLL") or next((str(path) for path in built if path.exists()), "pagetoll")
    return shutil.which(named)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> str:
    found = find_program()
    if found is None:
        pytest.skip("pagetoll is neither built nor on PATH")
    monkeypatch.setenv("PAGETOLL", found)
    return found


@pytest.fixture
def dearer(tmp_path: Path) -> Path:
    """docs/bill.json, but a trap of `emulate` costs a tenth more."""
    bill = json.loads(BILL.read_text())
    row = next(row for row in bill["rows"] if row["mechanism"] == "emulate")
    trap = row["tolls"][1]
    row["cost_per_page"] += trap["cost_each"] / 10
    row["runs"] = [row["cost_per_page"]]
    trap["cost_each"] *= 1.1
    path = tmp_path / "dearer.json"
    path.write_text(json.dumps(bill))
    return path
