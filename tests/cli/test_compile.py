"""`krogh compile`, `krogh trace` and `krogh list machines`: what they print, write, refuse and exit with."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from peak_memory import forget_peak, peak_kilobytes

from krogh.cli import networks
from krogh.cli.circuits import layer_rows
from krogh.networks.automata import CompiledAutomaton
from krogh.networks.circuits import compile_circuit
from krogh.networks.compiled import Work
from krogh.networks.handmade import Checked, load_network
from krogh.networks.machines.checks import TraceRow
from krogh.networks.margins import report
from krogh.networks.margins.attack import Effort
from krogh.numbers import precise
from krogh.programs.automata.automaton import sample_word, words_of_length
from krogh.programs.automata.regex import from_regex
from krogh.programs.circuits.files import parse_circuit, save_circuit
from krogh.programs.circuits.generators import multiplier
from krogh.programs.machines import running
from krogh.programs.machines.library import library_names

HALF_ADDER = """\
circuit half-adder
inputs a b
outputs sum carry=both
either = OR a b
both   = AND a b
differ = NOT both
sum    = AND either differ
"""
MACHINE = """\
name: ones
input: '11'
blank: _
start state: go
table:
  go:
    1: R
    _: {R: accept}
  accept:
examples:
  - {input: '111', result: accept}
"""
AUTOMATON = (
    "{alphabet: '01', start state: even, accept: even, table: {even: {0: even, 1: odd}, odd: {0: odd, 1: even}}}"
)
QUICK = ("--restarts", 1, "--refinements", 0)


@pytest.fixture
def krogh(call, tmp_path):
    """Run the command in this process, in a folder with three files: the exit code and what was printed."""
    (tmp_path / "half.circuit").write_text(HALF_ADDER)
    (tmp_path / "ones.yaml").write_text(MACHINE)
    (tmp_path / "even.yaml").write_text(AUTOMATON)
    (tmp_path / "endless.yaml").write_text("blank: _\nstart state: go\ntable: {go: {_: R}}\n")
    (tmp_path / "gaps.yaml").write_text(MACHINE.replace("'11'", "'1011'"))

    return call


def answer(krogh, *arguments: object) -> dict:
    code, out, _ = krogh(*arguments, "--json")
    assert code == 0
    return json.loads(out)


# --- help ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["compile", "--help"], ["compile", "machine", "--help"], ["trace", "--help"]])
def test_help_imports_neither_jax_nor_numpy(arguments):
    script = (
        f"import sys; sys.argv = ['krogh', *{arguments!r}]\n"
        "from krogh.cli import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "print('loaded:', *sorted({'jax', 'numpy', 'scipy', 'yaml', 'safetensors'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1].strip() == "loaded:"


# --- circuits -----------------------------------------------------------------------------------------------


def test_compile_circuit(krogh, tmp_path):
    found = answer(krogh, "compile", "circuit", "half.circuit", "--check", "--margin", *QUICK, "--out", "w.safetensors")
    assert found["kind"] == "circuit" and found["name"] == "half-adder"
    size = found["size"]
    assert (size["q"], size["layers"], size["depth"], size["width"]) == (4, 13, 12, 6)
    checked = {"holds": True, "inputs": 4, "exhaustive": True, "largest_error": 0.0, "proved": True, "floats": 4}
    assert found["check"] == checked
    margin = found["margin"]
    assert 0 < margin["lower"] < margin["upper"] and margin["theorem"] <= margin["lower"]
    assert margin["certified_for"] == "all binary inputs" and {one["label"] for one in margin["attacked"]} == {0, 1}
    network = load_network("w.safetensors")
    bits = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert network.run(bits).tolist() == [[-1, -1], [1, -1], [1, -1], [-1, 1]]
    assert network.size == size
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "endless.yaml",
        "even.yaml",
        "gaps.yaml",
        "half.circuit",
        "ones.yaml",
        "w.safetensors",
    ]


def test_a_circuit_and_its_network_on_inputs(krogh):
    found = answer(krogh, "compile", "circuit", "half.circuit", "--input", "01", "--input", "b=1,a=1")["inputs"]
    assert [one["circuit"] for one in found] == [{"sum": 1, "carry": 0}, {"sum": 0, "carry": 1}]
    assert [one["network"] for one in found] == [{"sum": 1.0, "carry": -1.0}, {"sum": -1.0, "carry": 1.0}]
    code, out, _ = krogh("compile", "circuit", "half.circuit", "--input", "01")
    assert code == 0 and "01: the circuit gives sum=1, carry=0; the network puts out +1 -1" in out


def test_weights_for_pytorch(krogh, tmp_path):
    found = answer(krogh, "compile", "circuit", "half.circuit", "--torch", "half.safetensors")
    assert found["torch"] == ["half.safetensors", "half.py"] and (tmp_path / "half.py").is_file()
    found = answer(krogh, "compile", "regex", "(01)*", "--torch", "words.safetensors")
    assert found["torch"] == ["words.safetensors", "words.py"] and (tmp_path / "words.py").is_file()
    found = answer(krogh, "compile", "machine", "palindrome", "--steps", "40", "--torch", "machine.safetensors")
    assert found["torch"] == ["machine.safetensors", "machine.py"] and (tmp_path / "machine.py").is_file()
    code, out, err = krogh("compile", "circuit", "half.circuit", "--torch", "half.pt")
    assert code == 2 and out == "" and "written to NAME.safetensors beside NAME.py" in err


def test_a_sequential_circuit_is_unrolled(krogh, tmp_path):
    text = ".model toggle\n.inputs flip\n.outputs q\n.latch n q 0\n.names flip q n\n10 1\n01 1\n.end\n"
    (tmp_path / "toggle.blif").write_text(text)
    found = answer(krogh, "compile", "circuit", "toggle.blif", "--steps", 4, "--check", "--input", "1011")
    assert found["check"]["holds"] and found["check"]["exhaustive"]
    assert found["inputs"][0]["circuit"] == {"q@0": 0, "q@1": 1, "q@2": 1, "q@3": 0}
    code, out, err = krogh("compile", "circuit", "toggle.blif")
    assert code == 2 and out == "" and "say for how many steps it is unrolled" in err and err.count("\n") == 1


@pytest.mark.parametrize("correction", [(), ("--no-correction",)])
def test_trace_circuit(krogh, tmp_path, correction):
    code, out, _ = krogh("trace", "circuit", "half.circuit", "--input", "01", "--svg", "half.svg", *correction)
    assert code == 0
    lines = [line.split("|") for line in out.splitlines()[:5]]
    assert [line[0].split()[0] for line in lines] == ["layer", "1", "2", "3", "4"]
    assert all(line[1].strip() == line[2].strip() for line in lines[1:]) and lines[1][1].strip() == "01"
    assert "the same in all layers" in out
    drawn = (tmp_path / "half.svg").read_text()
    assert "half-adder on 01" in ElementTree.fromstring(drawn)[0].text
    rows = answer(krogh, "trace", "circuit", "half.circuit", "--input", "a=0,b=1", *correction)["rows"]
    assert [row["circuit"] for row in rows] == ["".join(f"{unit:g}" for unit in row["network"]) for row in rows]


def test_a_trace_says_where_a_network_differs():
    compiled = compile_circuit(parse_circuit(HALF_ADDER))
    wrong = {name: value.copy() for name, value in compiled.parameters.items()}
    wrong["f1.b1"] = wrong["f1.b1"] + 1.0
    rows = layer_rows(compiled.with_parameters(wrong), np.array([False, True]))
    assert [row.equal for row in rows][:2] == [True, True] and not all(row.equal for row in rows)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("011", "reads 2 bits, for a, b, as in 00, or by names, as in a=1,…; got '011'"),
        ("0x", "got '0x'"),
        ("a=1", "these are not given: b"),
        ("a=1,b=2", "an input is 0 or 1; got 'b=2'"),
        ("a=1,a=1", "the input 'a' is given twice"),
        ("a=1,c=1", "has no input 'c'"),
    ],
)
def test_inputs_that_are_none_of_the_circuits(krogh, given, message):
    code, out, err = krogh("trace", "circuit", "half.circuit", "--input", given)
    assert code == 2 and out == "" and message in err and err.count("\n") == 1


def test_compile_circuit_for_people_and_padded(krogh):
    code, out, err = krogh(
        "compile", "circuit", "half.circuit", "--no-correction", "--width", 20, "--depth", 9, "--check"
    )
    assert code == 0 and err == ""
    lines = dict(line.split(None, 1) for line in out.splitlines())
    assert list(lines) == ["circuit", "statement", "size", "check"]
    assert "without correction" in lines["statement"] and "width 20, depth 9" in lines["size"]
    assert lines["check"].startswith("holds: outputs and gates on all 4 inputs")


@pytest.mark.slow
def test_a_circuit_is_attacked_for_as_long_as_is_said(krogh, tmp_path):
    save_circuit(multiplier(8), tmp_path / "mul8.aig")
    begun = time.monotonic()
    code, out, _ = krogh("compile", "circuit", "mul8.aig", "--margin", "--seconds", 1)
    assert code == 0 and time.monotonic() - begun < 20  # the certificate takes its time too
    assert "by the proof of Theorem D.6 layer by layer; the theorem itself gives" in out
    found = answer(krogh, "compile", "circuit", "mul8.aig", "--margin", "--seconds", 1)["margin"]
    assert 0 < found["lower"] < found["upper"] < 0.2 and len(found["attacked"]) == 4
    assert found["certified_by"].startswith("by the proof of Theorem D.6 layer by layer")


def test_what_is_too_large_is_bounded_from_above_by_its_last_layer(krogh, tmp_path, monkeypatch):
    monkeypatch.setattr("krogh.networks.circuits.MOST_WRITTEN", 100)  # as if it had millions of gates
    save_circuit(multiplier(8), tmp_path / "mul8.aig")
    code, out, _ = krogh("compile", "circuit", "mul8.aig", "--margin")
    assert code == 0 and "not all layers attacked in 10 s (some " in out and "s would do: --seconds " in out
    assert "by a change of the last layer alone on 4 inputs" in out
    found = answer(krogh, "compile", "machine", "palindrome", "--margin", "--seconds", 1)["margin"]
    assert 0 < found["lower"] < found["upper"] == pytest.approx(0.5) and found["layers"] == "last"


def test_what_would_not_fit_as_full_matrices_is_not_attacked_however_long(krogh, tmp_path, monkeypatch):
    monkeypatch.setattr("krogh.networks.circuits.MOST_WRITTEN", 100)
    monkeypatch.setattr(report, "LARGEST", 1000)
    save_circuit(multiplier(8), tmp_path / "mul8.aig")
    code, out, _ = krogh("compile", "circuit", "mul8.aig", "--margin")
    assert code == 0 and "too large for more (as full matrices, at most 1,000 parameters are attacked)" in out


@pytest.mark.slow
def test_a_machine_is_attacked_in_the_time_that_is_said_to_do(krogh):
    code, out, _ = krogh("compile", "machine", "parity", "--margin", "--seconds", 2)
    said = re.search(r"--seconds (\d+)", out)
    assert code == 0 and said, out
    found = answer(krogh, "compile", "machine", "parity", "--margin", "--seconds", said[1])["margin"]
    assert 0 < found["lower"] < found["upper"] < 10  # 0.057 on a free machine; on a busy one the time ends before


# --- machines -----------------------------------------------------------------------------------------------


def test_compile_machine(krogh):
    found = answer(krogh, "compile", "machine", "ones.yaml", "--steps", 5, "--check", "--out", "w.safetensors")
    checked = found["check"]
    # The words of up to 6 ones (T + 1 letters), among them the default input and the example; those of 5 are not done.
    assert checked["holds"] and checked["inputs"] == 7 and checked["all_up_to_length"] == 6 and checked["exhaustive"]
    assert checked["mismatches"] == 0 and checked["score_gap"] == 1.0 and checked["binary"] and checked["halted"] == 5
    loaded = load_network("w.safetensors")
    assert loaded.machine.name == "ones" and loaded.steps == 5 and loaded.depth == found["size"]["layers"]


@pytest.mark.parametrize("options", [(), ("--adder", "ripple"), ("--no-correction",), ("--soft",)])
def test_compile_machine_of_the_library_in_every_way(krogh, options):
    found = answer(krogh, "compile", "machine", "parity", "--steps", 6, "--input-length", 5, "--check", *options)
    assert found["check"]["holds"] and found["check"]["inputs"] == 63 and found["check"]["halted"] == 63
    assert ("soft" in found["statement"]) == ("--soft" in options)
    assert ("without correction" in found["statement"]) == ("--no-correction" in options)
    assert (found["size"]["layers"] > 20) == ("ripple" in options)


@pytest.mark.parametrize("command", [("compile", "machine", "parity"), ("trace", "machine", "parity", "1")])
def test_softmax_without_correction_is_refused(krogh, command):
    code, out, err = krogh(*command, "--soft", "--no-correction")
    assert code == 2 and not out and "leave out --soft or --no-correction" in err and err.count("\n") == 1


def test_inputs_and_unfinished_runs(krogh):
    late = ("compile", "machine", "parity", "--steps", 4, "--input", "1" * 9)
    code, _, err = krogh(*late)
    assert code == 2 and "T = 4 is too small" in err and "it needs 10 steps" in err
    found = answer(krogh, *late, "--unfinished", "--check")
    assert found["check"]["holds"] and found["check"]["halted"] < found["check"]["inputs"]
    found = answer(krogh, "compile", "machine", "parity", "--steps", 9, "--input", "11111111", "--check")
    assert found["check"]["holds"] and found["check"]["inputs"] == 128, "127 up to length 6, and the one asked for"


@pytest.mark.parametrize("machine", ["endless.yaml", "ones.yaml"])
def test_machines_that_never_halt_run_for_a_few_steps(krogh, machine):
    endless = machine == "endless.yaml"
    found = answer(krogh, "compile", "machine", machine, "--unfinished", "--check")
    assert found["T"] == (20 if endless else 3) and found["check"]["holds"]
    out = krogh("compile", "machine", machine, "--unfinished")[1]
    assert ("20 steps, for 'endless' does not halt on '' within 10,000 steps (--steps takes more)" in out) == endless
    traced = answer(krogh, "trace", "machine", machine)
    assert traced["steps"] == found["T"] and (traced["halted_at"] is None) == endless and not traced["differences"]
    out = krogh("trace", "machine", machine)[1]
    late = "does not halt on '' within 20 steps, nor within 1,000 steps (say how many to show with --steps)"
    assert (late in out) == endless


def test_symbols_of_inputs_that_the_table_does_not_name_have_no_instruction(krogh, tmp_path):
    """As those of the file's own input."""
    (tmp_path / "own.yaml").write_text(MACHINE.replace("'11'", "'112'"))
    own = answer(krogh, "compile", "machine", "own.yaml", "--input", "112", "--check")
    asked = answer(krogh, "compile", "machine", "ones.yaml", "--input", "112", "--check")
    assert own["inputs"] == asked["inputs"] and asked["check"]["holds"] and asked["missing"] == 1
    assert asked["inputs"][0]["state"] == "go" and asked["inputs"][0]["steps"] == 2
    assert answer(krogh, "trace", "machine", "ones.yaml", "112")["halted_at"] == 2


@pytest.mark.parametrize(
    ("name", "content", "outputs"),
    [
        ("toggle.aag", "aag 1 0 1 2 0\n2 3\n2\n3\n", [0, 1, 1, 0, 0, 1, 1, 0]),
        ("true.aag", "aag 0 0 0 1 0\n1\n", [1]),
        ("and.circuit", "outputs a b\na = AND TRUE FALSE\nb = NOT a\n", [0, 1]),
    ],
)
def test_circuits_without_inputs_are_networks_of_constants(krogh, tmp_path, name, content, outputs):
    (tmp_path / name).write_text(content)
    steps = ("--steps", 4) if "toggle" in name else ()
    found = answer(krogh, "compile", "circuit", name, *steps, "--check", "--input", "", "--input", "1", "--out", "w",
                   "--torch", "t.safetensors", "--margin", "--seconds", 1)  # fmt: skip
    assert found["check"]["holds"] and found["check"]["exhaustive"] and found["margin"]["upper"] > 0
    for one in found["inputs"]:
        assert one["equal"] and list(one["circuit"].values()) == outputs
        assert list(one["network"].values()) == [2 * bit - 1 for bit in outputs]
    assert load_network("w").run([[0.0], [1.0]]).tolist() == [[2 * bit - 1 for bit in outputs]] * 2
    code, out, _ = krogh("compile", "circuit", name, *steps, "--input", "")
    assert code == 0 and "the circuit has none, its outputs are constants; the network reads a bit" in out
    assert "'': the circuit gives" in out
    traced = answer(krogh, "trace", "circuit", name, *steps, "--input", "")
    assert traced["equal"] and all(row["equal"] for row in traced["rows"])


def test_what_program_and_network_make_of_inputs(krogh, monkeypatch):
    found = answer(krogh, "compile", "machine", "palindrome", "--input", "0110", "--input", "01")
    assert [one["result"] for one in found["inputs"]] == ["accepts", "rejects"]
    assert [one["network"] for one in found["inputs"]] == [1.0, -1.0] and all(one["equal"] for one in found["inputs"])
    assert found["T"] == 21 and found["inputs"][0]["steps"] == 15, "T is what the file's own input needs"
    stopped = answer(krogh, "compile", "machine", "gaps.yaml", "--input", "110")
    assert stopped["missing"] == 1
    expected = {"result": "halts", "steps": 2, "state": "go", "cell": 3, "tape": "110", "network": 0.0, "equal": True}
    assert stopped["inputs"] == [{"input": "110", **expected}]
    code, out, _ = krogh("compile", "machine", "gaps.yaml", "--input", "110")
    assert code == 0 and "1 of 9 pairs of state and symbol have no instruction: the machine stops there" in out
    assert "'110': the machine halts after 2 steps in state 'go' on cell 3, tape '110'; the network puts out 0" in out
    words = answer(krogh, "compile", "regex", "(ab)*", "--input", "abab", "--input", "", "--input", "aba")["inputs"]
    assert [(one["input"], one["accepted"], one["network"]) for one in words] == [
        ("abab", True, 1.0), ("", True, 1.0), ("aba", False, -1.0),
    ]  # fmt: skip
    assert words[0]["states"] == ["0", "1", "0", "1", "0"]
    counted = answer(krogh, "compile", "regex", "(0*10*1)*0*", "--length", 3, "--input", "011")["inputs"]
    assert counted[0]["accepted"] and abs(counted[0]["network"] - 1) < 1e-9
    assert answer(krogh, "compile", "automaton", "even.yaml", "--input", "0110")["inputs"][0]["accepted"]
    monkeypatch.setattr("krogh.networks.automata.CompiledAutomaton.run", lambda self, words: np.array([-1.0]))
    code, out, _ = krogh("compile", "regex", "(ab)*", "--input", "abab")
    assert code == 1 and "the network puts out -1, DIFFERENT" in out


def test_the_margin_of_a_machine_is_bounded_on_a_word_of_each_kind(krogh, monkeypatch):
    """The attack itself takes a minute; here only its surroundings run."""
    tried = []

    def attack(output, parameters, x, y, **effort):
        tried.append((y, effort["effort"]))
        return type("Attack", (), {"radius": 0.1 + y})

    monkeypatch.setattr(report, "attack", attack)
    margin = answer(krogh, "compile", "machine", "parity", "--steps", 6, "--margin", "--seconds", 20)["margin"]
    assert 0 < margin["lower"] < 0.01 and margin["upper"] == 0.1 and margin["layers"] == "all"
    assert [one["input"] for one in margin["attacked"]] == ["'10110'", "''"]
    assert tried == [(1, Effort(2, 0, 0)), (0, Effort(2, 0, 0))]


def test_words_on_which_a_machine_leaves_its_tape_are_not_checked(krogh, tmp_path):
    text = (
        "tape: one-way\nblank: _\nstart state: go\ntable:\n  go: {1: {L: go}, _: {L: go}, 0: {R: accept}}\n  accept:\n"
    )
    (tmp_path / "left.yaml").write_text(f"input: '0'\n{text}")
    found = answer(krogh, "compile", "machine", "left.yaml", "--steps", 3, "--check")["check"]
    assert found["holds"] and found["inputs"] == found["halted"] == 15 and found["left_out"] == 16
    assert found["all_up_to_length"] == 4 and found["over"] == ["1", "0"]
    assert (
        "all words up to length 4 over {1, 0} but 16 on which it would leave its tape"
        in krogh("compile", "machine", "left.yaml", "--steps", 3, "--check")[1]
    )
    (tmp_path / "off.yaml").write_text(text.replace("R: accept", "L: go"))
    code, _, err = krogh("compile", "machine", "off.yaml", "--steps", 3, "--check")
    assert code == 2 and "moves off the left end of its tape on all words tried; give one with --input" in err
    code, _, err = krogh("compile", "machine", "off.yaml", "--steps", 3, "--check", "--input", "01")
    assert code == 2 and "step 2, in state 'go'" in err


def test_a_machine_s_file_is_read_once_and_its_words_are_followed_once(krogh, monkeypatch):
    followed, read = [], []
    whole, text = running.Configuration.__init__, Path.read_text

    def follow(self, machine, word):
        followed.append(machine.decode(machine.encode(word)))
        whole(self, machine, word)

    monkeypatch.setattr(running.Configuration, "__init__", follow)
    monkeypatch.setattr(Path, "read_text", lambda path, *rest, **kw: read.append(path.name) or text(path, *rest, **kw))
    found = answer(krogh, "compile", "machine", "parity", "--steps", 6, "--input-length", 5, "--check", "--unfinished")
    assert sorted(followed) == sorted(set(followed)) and len(followed) == found["check"]["inputs"] == 63
    followed.clear()
    assert krogh("trace", "machine", "parity", "101")[0] == 0 and followed == ["101"]
    assert [name for name in read if name.endswith(".yaml")] == ["parity.yaml"] * 2, "once by each command"


def test_list_machines(krogh):
    found = answer(krogh, "list", "machines")["machines"]
    assert list(found) == list(library_names())
    assert found["palindrome"]["input"] and found["palindrome"]["states"] == 8
    assert found["parity"]["summary"] == "Accepts words over 0 and 1 with an odd number of ones"
    assert all(about["summary"] for about in found.values())
    code, out, _ = krogh("list", "machines")
    assert code == 0 and all(name in out for name in found)


# --- automata -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--correction",)])
def test_compile_regex(krogh, options):
    found = answer(krogh, "compile", "regex", "(0*10*1)*0*", "--check", "--margin", *QUICK, "--out", "w", *options)
    checked = found["check"]
    assert checked["holds"] and checked["exhaustive"] and checked["steps"] == 10 and checked["largest_error"] == 0.0
    assert checked["inputs"] == 2**15 - 1 + 1000 and checked["all_up_to_length"] == 14
    assert found["size"]["width"] == 5 and found["size"]["layers_per_symbol"] == (3 if options else 1)
    assert 0 < found["margin"]["lower"] < (found["margin"]["upper"] or 100)
    length = "words of every length" if options else "words of at most 10 symbols"
    assert found["margin"]["certified_for"] == length
    for one in found["margin"]["attacked"]:
        assert len(one["input"]) == 12 and one["label"] == (one["input"].count("1") % 2 == 0)
    words = words_of_length(2, 6)
    expected = np.where(from_regex("(0*10*1)*0*").accept(words), 1.0, -1.0)
    assert np.array_equal(load_network("w").run(words), expected)


def test_compile_regex_to_attention(krogh):
    found = answer(krogh, "compile", "regex", "(0*10*1)*0*", "--length", 5, "--check", "--margin", *QUICK, "--out", "w")
    assert found["check"] == {
        "holds": True, "inputs": 32, "exhaustive": True, "largest_error": found["check"]["largest_error"], "counts": 6,
    }  # fmt: skip
    assert found["check"]["largest_error"] < 1e-12 and found["margin"]["lower"] > 0
    assert load_network("w").length == 5
    assert found["margin"]["certified_for"] == "all words of 5 symbols"


def test_the_alphabet_of_a_pattern(krogh):
    assert answer(krogh, "compile", "regex", "a*")["size"]["symbols"] == 1
    assert answer(krogh, "compile", "regex", "a.*", "--alphabet", "abc")["size"]["symbols"] == 3
    assert answer(krogh, "compile", "regex", "[^a]", "--alphabet", "ab", "--check")["check"]["holds"]


def test_compile_automaton_from_a_file(krogh):
    found = answer(krogh, "compile", "automaton", "even.yaml", "--check")
    assert found["name"] == "even" and found["check"]["holds"] and found["size"]["states"] == 2
    assert answer(krogh, "compile", "automaton", "even.yaml", "--length", 3, "--check")["check"]["inputs"] == 8


def test_words_of_a_kind_and_a_length():
    automaton = from_regex("(01)*")
    assert sample_word(automaton, 6, True) == [0, 1] * 3 and sample_word(automaton, 5, True) is None
    for length in (0, 1, 7):
        word = sample_word(automaton, length, False)
        assert (word is None) == (length == 0) and (word is None or len(word) == length)
        assert word is None or not automaton.accept(np.array([word]))[0]
    assert sample_word(from_regex("0*"), 4, False) is None


# --- traces -------------------------------------------------------------------------------------------------


def test_trace_machine(krogh):
    code, out, err = krogh("trace", "machine", "parity", "101")
    lines = out.splitlines()
    assert code == 0 and err == ""
    assert lines[0].split() == ["|", "machine", "|", "transformer"]
    assert lines[1].split() == ["time", "tape", "|", "state", "symbol", "cell", "|", "state", "symbol", "cell"]
    rows = [[part.split() for part in line.split("|")] for line in lines[2:7]]
    assert [row[1] for row in rows] == [row[2] for row in rows]
    assert [row[1] for row in rows] == [
        ["even", "1", "1"], ["odd", "0", "2"], ["odd", "1", "3"], ["even", "_", "4"], ["reject", "_", "5"],
    ]  # fmt: skip
    assert [row[0][0] for row in rows] == ["0", "1", "2", "3", "4"] and rows[1][0][1:] == ["1", "[0]", "1", "_", "_"]
    assert lines[-2:] == [
        "parity rejects '101' after 4 steps; tape '101'",
        "transformer of 14 layers and width 64: the same at all times",
    ]
    assert len({line.index("|") for line in lines[:7]}) == 1, "columns stand under each other"


def test_trace_a_hundred_steps_of_a_wide_tape(krogh):
    code, out, _ = krogh("trace", "machine", "busy-beaver-4", "", "--window", 9)
    lines = out.splitlines()
    assert code == 0 and len(lines) == 2 + 108 + 3 and "halts on '' after 107 steps" in lines[-2]
    assert max(map(len, lines[:-3])) < 80 and all(line.count("[") == 1 for line in lines[2:110])


def test_a_trace_ends_where_the_machine_halts_however_many_steps_are_allowed(krogh):
    """The network is that of all steps; of the run no more is made than what is shown."""
    few = answer(krogh, "trace", "machine", "palindrome", "01", "--steps", 10)
    forget_peak()
    before = peak_kilobytes()
    many = answer(krogh, "trace", "machine", "palindrome", "01", "--steps", 10**7)
    assert many["rows"] == few["rows"] and many["layers"] > few["layers"] and many["steps"] == 10**7
    assert peak_kilobytes() - before < 200_000


def test_trace_as_json(krogh):
    found = answer(krogh, "trace", "machine", "ones.yaml", "11", "--steps", 9)
    assert (found["halted_at"], found["label"], found["steps"], found["differences"]) == (3, 1, 9, 0)
    assert len(found["rows"]) == 4
    last = found["rows"][-1]
    assert last["state"] == last["network_state"] == "accept" and last["cell"] == last["network_cell"] == 4
    unfinished = answer(krogh, "trace", "machine", "ones.yaml", "11", "--steps", 1)
    assert unfinished["halted_at"] is None and len(unfinished["rows"]) == 2
    assert "does not halt on '11' within 1 step" in krogh("trace", "machine", "ones.yaml", "11", "--steps", 1)[1]


def test_trace_takes_the_file_s_own_input_and_the_steps_it_needs(krogh):
    found = answer(krogh, "trace", "machine", "ones.yaml")
    assert found["input"] == "11" and found["steps"] == found["halted_at"] == 3
    assert answer(krogh, "trace", "machine", "busy-beaver-3")["input"] == ""
    stopped = answer(krogh, "trace", "machine", "gaps.yaml")
    assert (stopped["halted_at"], stopped["rows"][-1]["state"], stopped["rows"][-1]["cell"]) == (1, "go", 2)


def test_trace_a_word(krogh):
    code, out, _ = krogh("trace", "regex", "(ab)*", "aba")
    lines = out.splitlines()
    assert code == 0 and lines[1].split() == [
        "time", "read", "|", "state", "accepts", "|", "unit", "that", "is", "1", "leads", "to", "output",
    ]  # fmt: skip
    assert lines[2].split() == ["0", "|", "0", "yes", "|", "start", "0", "+1"]
    assert lines[3].split() == ["1", "a", "|", "1", "no", "|", "(0,", "a)", "1", "-1"]
    assert lines[-2:] == ["(ab)* rejects 'aba'", "recurrent network of 7 units: the same at all times"]
    found = answer(krogh, "trace", "automaton", "even.yaml", "11", "--correction")
    assert [row["network_state"] for row in found["rows"]] == ["even", "odd", "even"] and found["accepted"]
    assert found["differences"] == 0 and found["output"] == 1.0


def test_a_network_that_reads_a_word_wrongly(krogh, monkeypatch):
    from krogh.networks.automata import CompiledAutomaton

    step = CompiledAutomaton.step
    monkeypatch.setattr(CompiledAutomaton, "step", lambda self, hidden, symbols: step(self, hidden, 0 * symbols))
    code, out, _ = krogh("trace", "regex", "(ab)*", "ab")
    assert code == 1 and out.splitlines()[4].endswith("different") and "DIFFERENT at 1 of 3 times" in out


@pytest.mark.parametrize(
    "arguments", [("machine", "palindrome"), ("regex", "a<*b&?", "a<<b"), ("automaton", "even.yaml", "01")]
)
def test_a_trace_as_a_picture(krogh, arguments):
    code, out, _ = krogh("trace", *arguments, "--svg", "run.svg")
    assert code == 0 and "picture run.svg" in out
    tree = ElementTree.parse("run.svg").getroot()
    texts = ["".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert any("accepts" in text or "rejects" in text for text in texts) and "time" in texts
    rows = answer(krogh, "trace", *arguments)["rows"]
    assert {str(row["time"]) for row in rows} <= set(texts)
    if arguments[0] == "machine":
        circles = list(tree.iter("{http://www.w3.org/2000/svg}circle"))
        assert len(circles) == len(rows), "the network's head in every row"
        assert {row["state"] for row in rows} <= set(texts)


def test_a_picture_of_a_long_run_on_a_long_tape(krogh, tmp_path):
    (tmp_path / "far.yaml").write_text("blank: _\nstart state: go\ntable: {go: {_: {write: '<&', R}}}\n")
    assert krogh("trace", "machine", "far.yaml", "--steps", 300, "--svg", "far.svg")[0] == 0
    assert ElementTree.parse("far.svg") and "part of the tape" in Path("far.svg").read_text()
    for svg, steps, says in (("f.svg", 501, "at most 500 steps"), ("f.png", 5, "as SVG"), ("no/f.svg", 5, "no folder")):
        code, _, err = krogh("trace", "machine", "far.yaml", "--steps", steps, "--svg", svg)
        assert code == 2 and says in err and not Path(svg).exists()


def test_a_difference_is_shown_and_fails(krogh, monkeypatch):
    from krogh.cli import tracing

    def wrong(compiled, run, **options):
        return [
            TraceRow(0, "[1]", "go", "1", 1, "go", "1", 1, True),
            TraceRow(1, "[1]", "go", "1", 2, "?", "1", 2, False),
        ]

    monkeypatch.setattr(tracing, "side_by_side", wrong)
    code, out, _ = krogh("trace", "machine", "ones.yaml", "1")
    assert code == 1 and out.splitlines()[3].endswith("different") and "DIFFERENT at 1 of 2 times" in out
    assert krogh("trace", "machine", "ones.yaml", "1", "--json")[0] == 1


# --- what fails and what is refused -------------------------------------------------------------------------


def test_a_check_that_fails_exits_with_1(krogh, monkeypatch):
    monkeypatch.setattr(CompiledAutomaton, "check", lambda network: Checked(False, 1, False, 0.5, "outputs on a word"))
    code, out, _ = krogh("compile", "regex", "01", "--check")
    assert code == 1 and "FAILS: " in out and "largest error 0.5" in out
    code, out, _ = krogh("compile", "regex", "01", "--check", "--json")
    assert code == 1 and json.loads(out)["check"]["holds"] is False


BAD = {
    "no circuit": (("circuit", "no.aag", "--out", "w"), "no file 'no.aag' with a circuit"),
    "suffix": (("circuit", "ones.yaml"), "circuits are kept in files whose names end with"),
    "width": (("circuit", "half.circuit", "--width", 3), "the network needs width 6; got width=3"),
    "depth": (("circuit", "half.circuit", "--depth", 3), "needs depth 12 with correction; got depth=3"),
    "dangling": (("circuit", "half.circuit", "--dangling", "sell"), "refuse"),
    "no folder": (("circuit", "half.circuit", "--out", "no/w"), "cannot be written to 'no/w': no folder 'no'"),
    "no folder, machine": (("machine", "parity", "--steps", 9, "--out", "no/w"), "no folder 'no'"),
    "no folder, automaton": (("automaton", "ones.yaml", "--out", "no/w"), "no folder 'no'"),
    "no folder, regex": (("regex", "01", "--out", "no/w"), "no folder 'no'"),
    "a folder": (("regex", "01", "--out", "."), "weights are written to a file; got '.' (try 'weights.safetensors')"),
    "no machine": (("machine", "paritty", "--steps", 3), "unknown machine 'paritty'; did you mean 'parity'?"),
    "endless": (
        ("machine", "endless.yaml"),
        "not halt on '' within 10,000 steps; say how many the network is to run (--steps 20 --unfinished)",
    ),
    "strict": (("machine", "gaps.yaml", "--missing", "error"), "symbol '0' at position 2 of the input '1011'"),
    "other length": (("regex", "a*", "--length", 2, "--input", "a"), "the network reads words of length 2"),
    "other letter": (("regex", "a*", "--input", "b"), "'b', number 1 of the word, is no symbol of the alphabet 'a'"),
    "zero steps": (("machine", "ones.yaml", "--steps", 0), "steps must be an integer at least 1; got steps=0"),
    "few steps": (("machine", "ones.yaml", "--steps", 2, "--out", "w"), "it needs 3 steps: take T = 3 or more"),
    "symbol": (("machine", "ones.yaml", "--missing", "error", "--input", "12"), "symbol '2' at position 2 of the"),
    "input length": (("machine", "parity", "--steps", 9, "--input-length", 2), "a word of 5 letters is longer than"),
    "adder": (("machine", "parity", "--steps", 9, "--adder", "riple"), "ripple"),
    "soft margin": (
        ("machine", "parity", "--steps", 9, "--soft", "--margin"),
        "margins are bounded for hard attention",
    ),
    "nothing decided": (
        ("machine", "complement", "--steps", 9, "--margin"),
        "accepts or rejects none of the words tried",
    ),
    "pattern": (("regex", "a(b", "--out", "w"), "regular expression 'a(b', column 2: this group is not closed"),
    "look-ahead": (("regex", "a(?=b)"), "column 2: look-ahead, (?=…), is not supported"),
    "alphabet": (("regex", "abc", "--alphabet", "ab"), "column 3: 'c' is no symbol of the alphabet 'ab'"),
    "order": (("regex", "0*1*", "--length", 4, "--out", "w"), "'0*1*' is not symmetric at length 4: "),
    "length": (("regex", "01", "--length", 0), "length must be an integer at least 1; got length=0"),
    "both": (("regex", "0*", "--length", 2, "--correction"), "--correction belongs to the recurrent network"),
    "automaton": (("automaton", "ones.yaml"), "ones.yaml, line 2, column 1: an automaton has no field 'input'"),
    "restarts": (("regex", "01", "--restarts", 3), "--restarts belongs to --margin; got restarts=3"),
    "seconds": (("regex", "01", "--seconds", 3), "--seconds belongs to --margin; got seconds=3"),
    "no seconds": (("regex", "01", "--margin", "--seconds", 0), "seconds must be positive; got seconds=0"),
    "no restarts": (("regex", "01", "--margin", "--restarts", 0), "restarts must be an integer at least 1"),
    "refinements": (("regex", "01", "--margin", "--refinements", -1), "refinements must be an integer at least 0"),
    "option": (("regex", "01", "--chek"), "--chek"),
    "command": (("circut", "half.circuit"), "circut"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_error_and_nothing_is_written(krogh, tmp_path, case):
    before = sorted(tmp_path.iterdir())
    arguments, expected = BAD[case]
    code, out, err = krogh("compile", *arguments)
    assert code == 2 and out == "" and "Traceback" not in err
    assert expected.lower() in " ".join(err.replace("│", " ").split()).lower()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("ones.yaml", "112", "--missing", "error"), "symbol '2' at position 3"),
        (("nobody", "01"), "unknown machine 'nobody'"),
        (("parity", "01", "--window", 0), "window must be an integer at least 1; got window=0"),
        (("parity", "01", "--steps", 0), "steps must be an integer at least 1; got steps=0"),
        (("palindrome", "01", "--steps", 10**9), "positions of at most 26 bits are kept exactly"),
        (("runs.yaml", "", "--steps", 10**6), "'runs' on '' has 100,001 steps to show; at most 100,000 are allowed"),
    ],
)
def test_traces_that_cannot_be_shown(krogh, tmp_path, arguments, expected):
    (tmp_path / "runs.yaml").write_text("blank: _\nstart state: go\ntable:\n  go: {_: R}\n")
    code, out, err = krogh("trace", "machine", *arguments)
    assert code == 2 and out == "" and expected in err and err.count("\n") == 1


# --- details ------------------------------------------------------------------------------------------------


def test_a_line_says_what_takes_long(capsys, monkeypatch):
    monkeypatch.setattr(networks, "WAIT", 0.01)
    with networks.working("counting sheep"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "krogh: counting sheep ...\n"
    with networks.working("nothing"):
        pass
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_numbers_for_people():
    shown = [precise(value) for value in (3, 12345.0, 0.0012345678, 1e20, float("inf"), None, 0.0)]
    assert shown == ["3", "12,345", "0.00123457", "1e+20", "inf", "none", "0"]


def test_how_thorough_an_attack_is():
    def effort(entries: int, passes: int = 1, layers: int = 3, **asked):
        return report.affordable_effort(Work(layers, entries, passes), **asked)

    assert effort(50) == effort(5, 10) == Effort(12, 60, 12)
    assert effort(400_000) == Effort(3, 6, 0) and effort(400_000, 12) == Effort(2, 0, 0)
    assert effort(400_000, 12, decisions=2) is None and effort(400_000, 24, decisions=2, seconds=40) == Effort(2, 0, 0)
    assert effort(10**7) is None and effort(50, layers=17) is None, "compiling would take all of the time"
    assert report.seconds_needed(Work(3, 10**8, 1), 1) == math.inf
    assert effort(10**7, restarts=4) == Effort(4, 60, 12)
    assert effort(50, refinements=0, layers=999) == Effort(12, 0, 0)
    with pytest.raises(
        ValueError, match="has 100,000,000 parameters as full matrices; at most 16,777,216 are attacked"
    ):
        effort(10**8, restarts=1)
