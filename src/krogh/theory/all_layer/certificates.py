"""What a certificate says: a lower bound on the all-layer margin, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from krogh.theory.all_layer.theorem import TheoremBound


@dataclass(frozen=True, eq=False)
class Certificate:
    """A lower bound on the all-layer margin at every input that it is for.

    `theorem` is the bound of Theorem D.6 with its constants and terms, None where the theorem does not apply; `refined`
    the bound by the same proof with the constants of each layer (`propagation`); `value` the larger of the two.
    `holds_for` says for which inputs. All in real arithmetic: rounding errors of float64 are some 1e-13 of it.
    """

    theorem: TheoremBound | None
    refined: float
    holds_for: str

    @property
    def value(self) -> float:
        """The larger bound."""
        return max(self.refined, 0.0 if self.theorem is None else self.theorem.value)
