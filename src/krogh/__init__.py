"""krogh: a laboratory for model systems of deep learning.

    import krogh

    trial = krogh.Trial(krogh.Parity(n=20, k=3), krogh.Mlp(width=100))
    table = krogh.run(krogh.sweep(trial, seed=range(100)))

The public names are listed in `__init__.pyi`, which type checkers read. Each is imported when it is first used, so that
`krogh --help` does not wait for JAX.
"""

import ast
import importlib
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    name.name: statement.module
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(statement, ast.ImportFrom) and statement.module
    for name in statement.names
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'krogh' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
