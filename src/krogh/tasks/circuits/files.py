"""Circuits from files: AIGER by the suffixes .aag and .aig, the readable text by .circuit, .ckt and .txt."""

from __future__ import annotations

from pathlib import Path

from krogh.errors import KroghError, require
from krogh.tasks.circuits.aiger import read_aiger, write_aag, write_aig
from krogh.tasks.circuits.circuit import Circuit
from krogh.tasks.circuits.text import parse_circuit, write_circuit

AIGER = (".aag", ".aig")
TEXT = (".circuit", ".ckt", ".txt")


def load_circuit(path: str | Path, dangling: str = "refuse") -> Circuit:
    """The circuit of a file; gates that no output depends on are refused, dropped or kept as `dangling` says."""
    file = _known(path)
    if file.suffix.lower() in AIGER:
        return read_aiger(file, dangling)
    require(file.is_file(), f"no file {str(path)!r} with a circuit")
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise KroghError(f"{str(path)!r} is no text in UTF-8: byte {error.start} cannot be read") from None
    except OSError as error:
        raise KroghError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    return parse_circuit(text, str(path), dangling)


def save_circuit(circuit: Circuit, path: str | Path) -> Path:
    """Write a circuit in the format that the suffix names."""
    file = _known(path)
    suffix = file.suffix.lower()
    content = (
        write_aig(circuit) if suffix == ".aig" else (write_aag if suffix == ".aag" else write_circuit)(circuit).encode()
    )
    try:
        file.write_bytes(content)
    except OSError as error:
        raise KroghError(f"{str(path)!r} cannot be written: {error.strerror}") from None
    return file


def _known(path: str | Path) -> Path:
    file = Path(path)
    known = ", ".join((*AIGER, *TEXT))
    require(
        file.suffix.lower() in (*AIGER, *TEXT),
        f"circuits are kept in files whose names end with {known}; got {str(path)!r}",
    )
    return file
