"""Certificates of networks for regular languages, and both bounds for them."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.automata import compile_automaton
from krogh.networks.counting import compile_counting
from krogh.networks.margins.attack import Effort, attack, trial_perturbations
from krogh.networks.margins.automata import certify_automaton, certify_counting
from krogh.networks.margins.report import margin_report
from krogh.programs.automata.regex import from_regex

PAIRS = from_regex("(ab)*", ("a", "b"))
EVEN = from_regex("(a*ba*ba*)*|a*", ("a", "b"))


def test_with_rounding_the_length_does_not_matter_without_it_does():
    rounded, plain = compile_automaton(PAIRS, correction=True), compile_automaton(PAIRS)
    found = certify_automaton(rounded)
    assert found.theorem.constants.lam == 1 and 0 < found.theorem.value < found.refined
    lengths = [certify_automaton(plain, length).value for length in (0, 1, 4, 12)]
    assert lengths == sorted(lengths, reverse=True) and lengths[3] < 1e-2 * lengths[2]
    assert certify_automaton(plain, 4).theorem is None
    assert plain.certificate([[0, 1, 0, 1]]).value == lengths[2] and rounded.certificate().value == found.value
    with pytest.raises(KroghError, match="give the length"):
        certify_automaton(plain)


def test_both_bounds():
    compiled = compile_automaton(PAIRS, correction=True)
    report = margin_report(compiled, [[0, 1, 0, 1, 0, 1]], effort=Effort(3, 6, 0))
    assert report.labels == (1,) and 0 < report.lower <= report.upper < 1


@pytest.mark.slow
@pytest.mark.parametrize("correction", [True, False])
def test_trials(correction):
    compiled = compile_automaton(PAIRS, correction=correction)
    words = np.array([[0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 1, 1]])
    report = margin_report(compiled, words, effort=Effort(12, 30))
    assert report.labels == (1, 0) and 0 < report.lower <= report.upper
    subject = compiled.subject(words)
    found = trial_perturbations(subject, report.lower / 2)
    assert found.flips == 0 and found.random == 10_000 and found.least > 0.4


def test_counting_networks():
    compiled = compile_counting(EVEN, 4)
    words = np.array([[0, 1, 0, 1], [0, 1, 1, 1]])
    certificate = certify_counting(compiled)
    subject = compiled.subject(words)
    assert subject.labels == (1, 0) and certificate.theorem is None
    upper = attack(subject.output, subject.parameters, subject.inputs[0], 1, effort=Effort(3, 6, 0))
    assert 0 < certificate.value <= upper.radius < 0.2
    sizes = compiled.sizes()
    assert sizes.one_norm == compiled.size["one_norm"] and sizes.depth == 4


def test_sizes():
    compiled = compile_automaton(PAIRS, correction=True)
    short, long = compiled.sizes(2), compiled.sizes(4)
    assert short.one_norm == compiled.size["one_norm"] and short.parameters == compiled.size["parameters"]
    norm = np.linalg.norm(compiled.recurrent.toarray(), 2) * np.sqrt(2) * 3 * np.sqrt(2)
    assert long.log_norm_product - short.log_norm_product == pytest.approx(2 * np.log(norm), rel=1e-6)
    assert (short.depth, long.depth) == (7, 13)
