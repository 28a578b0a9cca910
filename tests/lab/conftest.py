"""The experiments of the little package in `tests/plugin`, without filing them in this process's registry."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from krogh.lab import Study, run_study
from krogh.registry import EXPERIMENTS

PLUGIN = Path(__file__).parents[1] / "plugin"


@pytest.fixture(scope="session")
def tiny() -> Iterator[ModuleType]:
    EXPERIMENTS.load()
    filed = dict(EXPERIMENTS._things)
    name = "tiny_lab_for_tests"  # another name than that under which it is installed
    specification = importlib.util.spec_from_file_location(name, PLUGIN / "tiny_lab.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        specification.loader.exec_module(module)
        EXPERIMENTS._things.clear()
        EXPERIMENTS._things.update(filed)
        yield module


@pytest.fixture(scope="session")
def reference(tiny: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The smoke study, run in one go; tests read it and do not write into it."""
    return run_study(tiny.Tiny(), "smoke", tmp_path_factory.mktemp("reference"))


@pytest.fixture
def contents() -> Callable[[Path], dict[str, Any]]:
    """Everything in and under a folder: files byte by byte, folders by name."""

    def read(folder: Path) -> dict[str, Any]:
        return {
            str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
        }

    return read
