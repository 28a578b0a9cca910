"""How rich a class of Transformers is: covering numbers, Rademacher complexity, packings of a ball.

Logarithms are natural. The steps are Lemmas 13-16 (cover the head and the query-key matrices), Proposition 17
(both together), Lemma 18 (chaining) and Lemma 20 (cut the loss off at tau). Source: qSTR paper, appendix A.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from krogh.errors import require
from krogh.theory.prediction import Variant, check_counts, check_open, check_positive, prediction


@dataclass(frozen=True)
class TransformerClass:
    """One-layer Transformers of H = `heads`: D = `features`, m = `hidden` units in the two-layer head, bounded norms.

    |z| <= r_z = `prompt_radius`, |a| <= r_a = `output_norm`, |(W, b)|_F <= R_w = `hidden_norm` (neither divided by the
    width, unlike r_a and r_w elsewhere), and each head's query-key matrix has (2,1)-norm at most
    r_QK = `attention_norm`.
    """

    heads: int
    features: int
    hidden: int
    prompt_radius: float
    output_norm: float
    hidden_norm: float
    attention_norm: float

    def __post_init__(self) -> None:
        check_counts(heads=self.heads, features=self.features, hidden=self.hidden)
        check_positive(prompt_radius=self.prompt_radius, output_norm=self.output_norm)
        check_positive(hidden_norm=self.hidden_norm, attention_norm=self.attention_norm)

    @property
    def slope(self) -> float:
        """r_a R_w, how steep the head is at most."""
        return self.output_norm * self.hidden_norm

    @property
    def stretch(self) -> float:
        """r_z^3 r_a R_w r_QK."""
        return self.prompt_radius**3 * self.slope * self.attention_norm

    @property
    def largest(self) -> float:
        """R, the largest of r_a, R_w, r_z."""
        return max(self.output_norm, self.hidden_norm, self.prompt_radius)

    @property
    def feedforward_size(self) -> int:
        """m H D."""
        return self.hidden * self.heads * self.features

    @property
    def attention_size(self) -> int:
        """H D^2."""
        return self.heads * self.features**2


@prediction(
    "qstr/covering",
    source="qSTR paper, Lemmas 13-16 and Proposition 17 (appendix A.1)",
    constants="leading constants hidden and taken as 1; 'attention_composed' follows the lemmas' own factors",
)
def covering(scale: float, networks: TransformerClass) -> dict[str, Any]:
    """Logarithm of the number of one-layer Transformers that approximate all others within `scale` = s.

        m H D ln(1 + R/s) + min(r_z^6 r_a^2 R_w^2 H^2 r_QK^2 ln(H D^2)/s^2, H D^2 ln(1 + sqrt(H) r_QK r_z^3 r_a R_w/s))

    Letters are those of `TransformerClass`; R is the largest of r_a, R_w, r_z. The head of the network is
    r_a R_w-Lipschitz, so attention is covered within s/(2 r_a R_w) (half of s is the head's), and query-key
    matrices within `query_key_scale`, 2 r_z^2 times finer (Lemma 15).
    """
    check_positive(scale=scale)
    c = networks
    sparse = (c.stretch * c.heads / scale) ** 2 * math.log(c.attention_size)
    volume = c.attention_size * math.log1p(math.sqrt(c.heads) * c.stretch / scale)
    head = c.feedforward_size * math.log1p(c.largest / scale)
    finer = scale / (2 * c.slope) / (2 * c.prompt_radius**2)
    return {
        "log_covering": head + min(sparse, volume),
        "feedforward": head,
        "attention_sparse": sparse,
        "attention_volume": volume,
        "query_key_scale": finer,
        "attention_composed": query_key_covering(
            finer,
            c.heads,
            c.features,
            c.prompt_radius,
            c.heads * c.attention_norm,
            math.sqrt(c.heads) * c.attention_norm,
        ),
    }


def query_key_covering(
    scale: float, heads: int, features: int, prompt_radius: float, mixed_norm: float, frobenius_norm: float
) -> float:
    """Logarithm of the covering number of query-key matrices, up to a constant (Lemma 16).

        min(r_z^2 R_21^2 ln(2 H D^2) / s^2,  H D^2 ln(1 + 2 R_F r_z / s))

    The distance of two matrices is the largest |(W - W')^T z| over prompts' tokens z. R_21 = `mixed_norm` bounds
    the (2,1)-norm of all heads side by side, R_F = `frobenius_norm` their Frobenius norm.
    """
    size = heads * features**2
    by_sparsity = (prompt_radius * mixed_norm / scale) ** 2 * math.log(2 * size)
    return min(by_sparsity, size * math.log1p(2 * frobenius_norm * prompt_radius / scale))


@prediction(
    "qstr/rademacher",
    source="qSTR paper, Lemmas 18 and 20 (appendix A.1)",
    constants="leading constants hidden and taken as 1; 'with_logarithms' keeps the logarithms of the proof",
)
def rademacher(
    samples: int, length: int, networks: TransformerClass, tail: float = 1.0, truncation: float | None = None
) -> dict[str, Any]:
    """Rademacher complexity of the squared loss of Transformers, cut off at tau.

        tau sqrt((C1 + min(C2, C3)) / n),   tau = k2 ln(k2 N sqrt(n)) + ln(k2 sqrt(n))^s

    C1 = m H D, C2 = r_z^6 r_a^2 R_w^2 H^2 r_QK^2, C3 = H D^2, k2 = H r_a^2 R_w^2 r_z^2; s = `tail` is the label's
    exponent in Assumption 1. The loss beyond tau = `truncation` (by default the source's) costs at most
    1/sqrt(n). With logarithms, chaining down to 1/sqrt(n):
    1/sqrt(n) + tau sqrt(C1 ln(R sqrt(tau n))/n) + min(sqrt(tau C2 ln(HD^2)/n) ln(tau sqrt(n)),
    tau sqrt(C3 ln(1 + C4 sqrt(tau n))/n)), C4 = sqrt(H) r_QK r_z^3 r_a R_w. Logarithms below 0 count as 0.
    """
    check_counts(samples=samples, length=length)
    require(tail >= 1, f"tail must be a number of at least 1, as Assumption 1 has it; got tail={tail!r}")
    gain = networks.heads * (networks.slope * networks.prompt_radius) ** 2
    root = math.sqrt(samples)
    if truncation is None:
        cut = gain * _log(gain * length * root) + _log(gain * root) ** tail
    else:
        check_open("truncation", truncation, 0)
        cut = truncation
    c1, c3 = networks.feedforward_size, networks.attention_size
    c2, c4 = (networks.stretch * networks.heads) ** 2, math.sqrt(networks.heads) * networks.stretch
    sparse = math.sqrt(cut * c2 * math.log(c3) / samples) * _log(cut * root)
    volume = cut * math.sqrt(c3 * math.log1p(c4 * math.sqrt(cut * samples)) / samples)
    head = cut * math.sqrt(c1 * _log(networks.largest * math.sqrt(cut * samples)) / samples)
    return {
        "complexity": cut * math.sqrt((c1 + min(c2, c3)) / samples),
        "with_logarithms": 1 / root + head + min(sparse, volume),
        "truncation": cut,
        "truncation_cost": 1 / root,
        "feedforward_size": c1,
        "attention_norm_size": c2,
        "attention_size": c3,
    }


@prediction(
    "qstr/packing",
    source="qSTR paper, Lemma 41 (appendix D); Rankin's bound added",
    constants="all explicit; the printed second bound fails for Euclidean balls (24 + 1 points in dimension 4)",
)
def packing(dimension: int, scale: float, variant: Variant = "repaired") -> dict[str, Any]:
    """How many points of the unit ball can be `scale` = s apart from one another.

        ln P <= d ln(1 + 2/s);   printed, as the smaller of this and (1 + ln(1 + 2 d s^2)) / s^2

    The second bound is Maurey's for the convex hull of d signed unit vectors (the l1 ball). In the Euclidean ball
    it is contradicted by lattices: the 24 shortest vectors of D4 and the origin are 1 apart, against e(1 + 2*4)
    = 24.5; E8 gives 241 against 46. Repaired: the volume bound and, where s > sqrt(2), Rankin's
    P <= s^2/(s^2 - 2), which is free of the dimension (and P = 1 beyond s = 2). `log_at_least` = d ln(1/s) is
    what a maximal packing has by volume.
    """
    check_counts(dimension=dimension)
    check_positive(scale=scale)
    volume = dimension * math.log1p(2 / scale)
    maurey = (1 + math.log1p(2 * dimension * scale**2)) / scale**2
    rankin = math.inf
    if scale > math.sqrt(2):
        rankin = 0.0 if scale > 2 else math.log(math.floor(scale**2 / (scale**2 - 2) + 1e-9))
    return {
        "log_packing": min(volume, maurey) if variant == "printed" else min(volume, rankin),
        "log_volume": volume,
        "log_maurey": maurey,
        "log_rankin": rankin,
        "log_at_least": max(0.0, -dimension * math.log(scale)),
    }


def _log(value: float) -> float:
    """The natural logarithm, and 0 where it would be negative."""
    return math.log(max(1.0, value))
