"""Files with errors in them: a circuit or one line, in little time and memory, whatever stands in them."""

from __future__ import annotations

import random
import time
import tracemalloc

import pytest

from krogh.errors import KroghError
from krogh.programs import circuits
from krogh.programs.circuits.aiger import parse_aag, parse_aig, write_aag, write_aig
from krogh.programs.circuits.blif import parse_blif, write_blif
from krogh.programs.circuits.circuit import Circuit
from krogh.programs.circuits.files import parse_circuit

from .test_circuits_sequential import COUNTER, TOGGLE, as_binary

ADDER = circuits.adder(3)
READERS = {
    "aag": (parse_aag, [write_aag(ADDER).encode(), TOGGLE.encode()]),
    "aig": (parse_aig, [write_aig(ADDER), as_binary(TOGGLE.split("i0 enable")[0])]),
    "blif": (lambda text, *rest: parse_blif(text.decode("utf-8", "replace"), *rest),
             [write_blif(ADDER).encode(), COUNTER.encode()]),
    "text": (lambda text, source, dangling, steps: parse_circuit(text.decode("utf-8", "replace"), source, dangling),
             [circuits.write_circuit(ADDER).encode()]),
}  # fmt: skip
WORDS = (b"0", b"1", b"2", b"-1", b"7", b"99999999", b"18446744073709551616", b".names", b".latch", b"\\", b"=", b'"',
         b"AND", b"\xff", b"\x00", b"\n", b" ", b"-", b"\xef\xbb\xbf")  # fmt: skip
SECONDS, BYTES = 2.0, 64 << 20


def mutated(draw: random.Random, content: bytes) -> bytes:
    """One to four edits: bytes or words changed, pieces left out, doubled or moved, the end cut off."""
    for _ in range(draw.randint(1, 4)):
        a, b = sorted(draw.randint(0, len(content)) for _ in range(2))
        kind = draw.randint(0, 5)
        if kind == 0:
            content = content[:a] + bytes([draw.randint(0, 255)]) + content[a + 1 :]
        elif kind == 1:
            content = content[:a] + draw.choice(WORDS) + content[a:]
        elif kind == 2:
            content = content[:a] + content[min(b, a + 20) :]
        elif kind == 3:
            content = content[:b] + content[a:b] + content[b:]
        elif kind == 4:
            content = content[:b]
        else:
            words = content.split(b" ")
            words[draw.randrange(len(words))] = draw.choice(WORDS)
            content = b" ".join(words)
    return content


@pytest.mark.parametrize("kind", READERS)
def test_mutated_files_are_circuits_or_one_line(kind):
    read, originals = READERS[kind]
    draw = random.Random(kind)
    circuits_read = 0
    tracemalloc.start()
    for number in range(300):
        content = mutated(draw, originals[number % len(originals)])
        began = time.process_time()
        try:
            found = read(content, "f", draw.choice(("refuse", "drop", "keep")), draw.choice((None, 1, 3)))
            assert isinstance(found, Circuit)
            circuits_read += 1
        except KroghError as error:
            assert str(error).count("\n") == 0 and len(str(error)) < 1000
        assert time.process_time() - began < SECONDS
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 < circuits_read < 300 and peak < BYTES
