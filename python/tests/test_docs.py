"""The first block of docs/python.md runs as it is written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


def test_the_head_runs_as_written(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    _, block, _ = (ROOT / "docs/python.md").read_text().split("```", 2)
    script = block.removeprefix("text\n")
    assert len(script.splitlines()) == 5
    for folder in ("costs", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "cost_per_page_min" in ran.stdout
    assert (tmp_path / "tolls.svg").read_text().startswith("<?xml")
