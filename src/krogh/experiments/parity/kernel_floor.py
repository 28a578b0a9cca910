"""Theorem 5.6 and the statistical-query bound, by enumeration: what fixed features and fixed queries cannot do.

Any features Ψ of norm at most 1 have coefficients Ψ̂(S) = E[Ψ χ_S] with Σ_S ‖Ψ̂(S)‖² ≤ 1 (Parseval), and hinge loss
E(1 − y w·Ψ)_+ ≥ 1 − ‖w‖ ‖Ψ̂(S)‖. So one of the C(n,k) parities keeps every linear function of norm R above
1 − R/√C(n,k). The same sum bounds how many parities a statistical query can tell from noise (§B.1.1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, need, setting
from krogh.lab.estimate import largest, least
from krogh.lab.experiment import Measures
from krogh.theory.boolean.fourier import cube, fourier_coefficients, subset_mask
from krogh.theory.boolean.limits import kernel_floor, sq_limit

FEATURES = ("random ReLUs", "tangent features")
ALL_PARITIES = "all k-parities"
SHARP = 0.01
DESCENT = 400
FEWEST = 5
ROUNDING = 1e-9


@dataclass(frozen=True)
class Settings:
    n: int = setting(12, "input bits", least=2, most=14)
    k: int = setting(3, "relevant bits", least=1)
    width: int = setting(64, "neurons of the random features and of the tangent's network", least=1)
    radii: tuple[float, ...] = setting((1.0, 3.0, 10.0), "norms R of linear functions", increasing=True, above=0)
    draws: int = setting(20, "random features of each kind", least=1)
    queries: int = setting(200, "random statistical queries", least=1)
    tolerances: tuple[float, ...] = setting((0.3, 0.1, 0.03), "tolerances τ of a query", distinct=True, above=0, most=1)


@experiment("parity/kernel-floor")
class KernelFloor(Experiment[Settings]):
    """The loss that fixed features cannot go below, and the parities that a query cannot see."""

    title = "Fixed features and fixed queries see few parities at once"
    question = "How small can the hinge loss of fixed features be on the worst parity, and how many can a query tell?"
    source = "dissertation, Theorem 5.6 and §B.1.1"
    scales = {
        "smoke": Settings(n=8, width=8, radii=(1.0, 3.0), draws=2, queries=10),
        "laptop": Settings(n=10, draws=10),
        "paper": Settings(),
    }
    notes = (
        "Tangent features are the gradient of a random two-layer ReLU network in all its parameters; both kinds are "
        "scaled to norm at most 1 on the cube. The loss is minimised by projected subgradient descent, whose loss is "
        "an upper bound on the infimum; the floor holds for the infimum. For the 0-1 loss the theorem fails.",
        "The embedding by all k-parities, each divided by √C(n,k), sees them all alike and meets the floor.",
    )

    def check(self, settings: Settings) -> None:
        require(settings.k <= settings.n, f"k must be at most n={settings.n}; got k={settings.k}")

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        return {"features": lambda: _features(settings), "queries": lambda: _queries(settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rows = tables.settings, tables["features"]
        subsets = math.comb(settings.n, settings.k)
        most = 1 / math.sqrt(subsets)
        about = say.about(needs=[need(settings.draws, FEWEST, "random features of each kind")])
        about(
            "blind-spot",
            f"Every embedding has a parity among the {subsets} whose coefficient is at most 1/√C(n,k) = {most:.3g}.",
            largest(rows["least_norm"].to_numpy(), sample="least norms"),
            "largest over embeddings of min_S ‖Ψ̂(S)‖",
            at_most=most + ROUNDING,
            source_value="at most 1/√C(n,k) (derived)",
        )
        about(
            "parseval",
            "The squared coefficients of an embedding over all S of size k sum to at most 1.",
            largest(rows["total"].to_numpy(), sample="totals"),
            "largest Σ_S ‖Ψ̂(S)‖²",
            at_most=1 + ROUNDING,
            source_value="Parseval",
        )
        for radius, own in groups(rows, "radius").items():
            floor = kernel_floor(settings.n, settings.k, int(own["dimension"].max()), radius)  # type: ignore[arg-type]
            about(
                f"floor-R{radius:g}",
                f"R = {radius:g}: on its worst parity no embedding's hinge loss goes below "
                f"1 − R/√C(n,k) = {floor['floor_any_dimension']:.3g}.",
                least(own["loss"].to_numpy(), sample=f"loss {radius}"),
                "least hinge loss found by projected descent, over embeddings",
                at_least=floor["floor_any_dimension"] - ROUNDING,
                source_value=f"1 − R√(D/C(n,k)) = {floor['floor']:.3g} (Theorem 5.6)",
            )
        spread = rows.filter(pl.col("features") == ALL_PARITIES)
        room = spread["loss"].to_numpy() - np.maximum(0.0, 1 - spread["radius"].to_numpy() / math.sqrt(subsets))
        about(
            "sharp",
            "The embedding by all k-parities meets the floor.",
            largest(room, sample="all parities"),
            "largest loss − floor, over R",
            at_most=SHARP,
            source_value="none stated; the floor is derived",
        )
        queries = tables["queries"]
        asked = say.about("sq-", needs=[need(settings.queries, 100, "queries")])
        asked(
            "parseval",
            "No query's squared correlations with all parities sum to more than its mean square.",
            largest((queries["total"] - queries["square"]).to_numpy(), sample="queries"),
            "largest Σ_S E[qχ_S]² − E[q²]",
            at_most=ROUNDING,
            source_value="Parseval",
        )
        for tolerance in settings.tolerances:
            allowed = int(sq_limit(settings.n, settings.k, tolerance)["parities_per_query"])
            asked(
                f"tolerance-{tolerance:g}",
                f"No query correlates beyond τ = {tolerance:g} with more than 1/τ² parities.",
                largest(queries[f"beyond_{tolerance:g}"].to_numpy(), sample=f"queries {tolerance}"),
                "largest number of parities",
                at_most=float(allowed),
                source_value=f"at most {allowed}",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        subsets = math.comb(settings.n, settings.k)
        chart = self.chart("kernel-floor", self.title, height=3.8)
        panel = chart.panel(x="norm R of the linear function", y="hinge loss on the worst parity", log="x")
        for kind, own in groups(tables["features"], "features").items():
            panel.ranges(own, "radius", "loss", kind, key="legend")
        radii = np.geomspace(settings.radii[0], settings.radii[-1], 50)
        panel.line(radii, np.maximum(0, 1 - radii / math.sqrt(subsets)), "floor 1 − R/√C(n,k)", key="legend")
        yield chart.figure(
            f"Least hinge loss found on the parity that an embedding sees least, {settings.draws} random embeddings of "
            f"each kind (means, and least to largest), n = {settings.n}, k = {settings.k}; below the dashed line "
            "nothing can be.",
            tables["features"],
        )


def _embeddings(settings: Settings) -> Iterable[tuple[str, int, np.ndarray]]:
    """Ψ [2^n, D] by kind and draw, of norm at most 1 everywhere."""
    x = cube(settings.n)
    supports = itertools.combinations(range(settings.n), settings.k)
    parities = np.stack([np.prod(x[:, support], axis=1) for support in supports], axis=1)
    yield ALL_PARITIES, 0, parities / math.sqrt(parities.shape[1])
    for draw in range(settings.draws):
        rng = np.random.default_rng(draw)
        w, b = (
            rng.uniform(-1, 1, shape) / math.sqrt(settings.n)
            for shape in ((settings.width, settings.n), settings.width)
        )
        u = rng.uniform(-1, 1, settings.width) / math.sqrt(settings.width)
        hidden = x @ w.T + b
        relu, slope = np.maximum(hidden, 0.0), (hidden > 0) * u
        tangent = np.concatenate([(slope[:, :, None] * x[:, None, :]).reshape(len(x), -1), slope, relu], axis=1)
        for kind, raw in zip(FEATURES, (relu, tangent), strict=True):
            yield kind, draw, raw / np.linalg.norm(raw, axis=1).max()


def _features(settings: Settings) -> pl.DataFrame:
    rows = []
    x = cube(settings.n)
    supports = list(itertools.combinations(range(settings.n), settings.k))
    masks = [subset_mask(support, settings.n) for support in supports]
    for kind, draw, psi in _embeddings(settings):
        norms = np.linalg.norm(fourier_coefficients(psi.T)[:, masks], axis=0)
        worst = int(np.argmin(norms))
        y = np.prod(x[:, supports[worst]], axis=1)
        head = {"features": kind, "draw": draw, "dimension": psi.shape[1], "least_norm": float(norms[worst])}
        for radius in settings.radii:
            loss = projected_hinge(psi, y, radius)
            rows.append(head | {"total": float((norms**2).sum()), "radius": radius, "loss": loss})
    return pl.DataFrame(rows)


def projected_hinge(psi: np.ndarray, y: np.ndarray, radius: float) -> float:
    """The least mean hinge loss that subgradient descent finds among w of norm at most `radius`."""
    w, best = np.zeros(psi.shape[1]), 1.0
    for step in range(DESCENT):
        margin = 1 - y * (psi @ w)
        best = min(best, float(np.maximum(margin, 0.0).mean()))
        gradient = -psi.T @ (y * (margin > 0)) / len(y)
        norm = float(np.linalg.norm(gradient))
        if norm == 0:
            break
        w = w - radius / math.sqrt(step + 1) * gradient / norm
        w *= min(1.0, radius / max(float(np.linalg.norm(w)), 1e-300))
    return best


def _queries(settings: Settings) -> pl.DataFrame:
    """Random queries q in [-1, 1]: signs of random neurons, and plain noise; their correlations with all k-parities."""
    rows = []
    x = cube(settings.n)
    masks = [subset_mask(support, settings.n) for support in itertools.combinations(range(settings.n), settings.k)]
    for draw in range(settings.queries):
        rng = np.random.default_rng(draw)
        kind = ("noise", "neuron", "parity")[draw % 3]
        if kind == "noise":
            q = rng.uniform(-1, 1, len(x))
        elif kind == "neuron":
            q = np.sign(x @ rng.normal(size=settings.n) + rng.normal())
        else:  # as much of one parity as a query can have
            q = np.prod(x[:, rng.choice(settings.n, settings.k, replace=False)], axis=1)
        found = fourier_coefficients(q)[masks]
        beyond = {f"beyond_{tau:g}": int((np.abs(found) > tau).sum()) for tau in settings.tolerances}
        rows.append(
            {"kind": kind, "draw": draw, "total": float((found**2).sum()), "square": float((q * q).mean())} | beyond
        )
    return pl.DataFrame(rows)
