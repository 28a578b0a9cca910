"""Programs of one's own: a circuit, a language and a machine, written, read back and run by their interpreters.

What is saved here is what `krogh compile circuit | regex | machine` reads.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from krogh.programs.automata import combine, distinguishing_word, from_regex, minimise
from krogh.programs.circuits import CircuitBuilder, load_circuit, save_circuit, truth_table
from krogh.programs.machines import load_machine, parse_machine, run, sample_words, write_machine

scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)

# A circuit, gate by gate: two of three votes. As AIGER, other tools read it too.
build = CircuitBuilder("two-of-three", ["a", "b", "c"])
a, b, c = build.inputs
votes = build.circuit([build.disj(build.conj(a, b), build.conj(c, build.disj(a, b)))], ["carried"])
path = save_circuit(votes, folder / "votes.aig")
table = truth_table(load_circuit(path))[:, 0]
assert table.tolist() == [row.bit_count() >= 2 for row in range(8)]
print(votes, "true on", int(table.sum()), "of 8 inputs; next: krogh compile circuit", path.name, "--check")

# Two languages, and the shortest word that tells them apart.
ends, even = from_regex("(a|b)*b"), from_regex("((a|b)(a|b))*")
both = minimise(combine(ends, even, "and"))
assert distinguishing_word(both, from_regex("((a|b)(a|b))*(a|b)b")) is None
print(f"{both.size} states for words of even length that end with b; not all do: {distinguishing_word(both, even)!r}")

# A machine in the YAML of turingmachine.io, run on random words, half of them accepted.
machine = parse_machine("""
name: even number of ones
blank: _
start state: even
table:
  even: {0: R, 1: {R: odd}, _: {R: accept}}
  odd: {0: R, 1: {R: even}, _: {R: reject}}
  accept:
  reject:
""")
(folder / "even.yaml").write_text(write_machine(machine))
assert load_machine(folder / "even.yaml") == machine
words, labels = sample_words(machine, length=12, count=100, steps=20, seed=0)
for word, label in zip(words, labels, strict=True):
    assert run(machine, word, 20).label == label == (machine.decode(word).count("1") % 2 == 0)
print(machine, "accepts", int(labels.sum()), "of", len(labels), "words; one is", machine.decode(words[labels == 1][0]))
scratch.cleanup()
