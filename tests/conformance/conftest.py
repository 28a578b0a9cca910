"""The smoke studies of all experiments, and the laws for files of one's own.

    pytest tests/conformance -k NAME --own my_file.py

Where `make smoke` has run they are read from its folder (KROGH_SMOKE); otherwise each is run when first asked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from krogh.lab import run_study
from krogh.lab.experiment import Tables
from krogh.lab.study import _tables
from krogh.registry import EXPERIMENTS, load_file


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--own", action="append", default=[], metavar="FILE", help="a Python file whose things are tried")


def pytest_configure(config: pytest.Config) -> None:
    for file in config.getoption("--own", default=()):  # not known where this folder is met on the way
        load_file(file)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory) -> Any:
    """The folder of an experiment's smoke study."""
    ready = os.environ.get("KROGH_SMOKE")
    out = Path(ready) if ready else tmp_path_factory.mktemp("smoke")

    def folder(name: str) -> Path:
        if not (out / name / "claims.json").exists():
            assert not ready, f"{out} holds no smoke study of {name}"
            run_study(EXPERIMENTS[name](), "smoke", out)
        return out / name

    return folder


@pytest.fixture
def tables(smoke) -> Any:
    def read(name: str) -> Tables[Any]:
        return Tables(EXPERIMENTS[name]().settings("smoke"), _tables(smoke(name)), "smoke")

    return read
