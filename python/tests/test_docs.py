"""The Python of the documentation runs as it is written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PLAN = """
[axes]
route = ["irq"]
seed = [1, 2]
[options]
on = "sim"
samples = 2
"""


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("page", "count"), [("python/README.md", 1), ("docs/python.md", 2)])
def test_python_runs_as_written(page: str, count: int, program: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    found = blocks(page)
    assert len(found) == count
    for folder in ("costs", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "plan.toml").write_text(PLAN)
    command = [sys.executable, "-c", "".join(found)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "cost_per_page_min" in ran.stdout
    assert "trap-and-emulate" in ran.stdout


def test_the_head_is_five_lines_on_both_pages() -> None:
    readme, page = blocks("python/README.md")[0], blocks("docs/python.md")[0]
    assert readme == page
    assert len([line for line in page.splitlines() if line]) == 5
