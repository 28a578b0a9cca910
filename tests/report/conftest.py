"""Synthetic studies, with figures drawn by the real figure code."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import drawings
import pytest

from krogh.files import STUDY_SCHEMA

Builder = Callable[..., Path]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def figure_entry(name: str, **changes: Any) -> dict[str, Any]:
    entry = {
        "name": name,
        "svg": f"figures/{name}.svg",
        "pdf": f"figures/{name}.pdf",
        "data": f"figures/{name}.csv",
        "title": "Convergence time grows as a power of n, with an exponent near k/2",
        "caption": "Median over 100 trials; the band is the 95 % interval from 1000 bootstrap resamples. "
        "An open triangle marks a median that was not reached within the budget.",
        "alt": "Three rising curves on logarithmic axes: steps against input length for k = 2, 3 and 4.",
    }
    return entry | changes


def claim_entry(**changes: Any) -> dict[str, Any]:
    entry = {
        "name": "exponent",
        "statement": "The convergence time grows as a power of n with exponent at most k.",
        "source": "dissertation, Figure 5.1 right",
        "statistic": "fitted exponent at k = 3",
        "value": 1.2412,
        "low": 1.18,
        "high": 1.3096,
        "unit": "",
        "threshold": "upper end at most 3",
        "source_value": "about 1.3",
        "verdict": "reproduced",
        "reason": "The whole interval lies below the threshold.",
        "trials": 600,
    }
    return entry | changes


def study_entry(name: str, **changes: Any) -> dict[str, Any]:
    entry = {
        "schema": STUDY_SCHEMA,
        "name": name,
        "title": "How convergence time scales with the input length",
        "question": "Does SGD learn an (n, k)-parity in n^O(k) steps, without ever being told where to look?",
        "source": "dissertation, Section 5.3",
        "scale": "laptop",
        "settings": {
            "n": [10, 15, 20, 30],
            "k": 3,
            "width": 100,
            "learning_rate": 0.1,
            "loss": "hinge",
            "seed": None,
        },
        "command": f"krogh run {name} --scale laptop --out results/{name}",
        "versions": {"krogh": "0.1.0", "jax": "0.4.38", "python": "3.11.9"},
        "device": "2 CPU cores",
        "started": "2025-03-01T10:00:00+00:00",
        "finished": "2025-03-01T10:06:12+00:00",
        "seconds": 372.4,
        "status": "complete",
        "engine": {
            "trials": 1800,
            "converged": 1741,
            "failed": 57,
            "diverged": 2,
            "path_xla": 1200,
            "path_resident": 600,
            "trained_steps": 41_234_000,
            "useful_steps": 39_800_000,
            "wasted_share": 0.0348,
            "compilations": 12,
            "trial_steps_per_second": 110_700.0,
        },
        "figures": [],
        "notes": [],
    }
    return entry | changes


def write_study(
    root: Path,
    name: str,
    claims: list[dict[str, Any]] | None = None,
    draw: tuple[Any, ...] = (),
    **changes: Any,
) -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.json").write_text(json.dumps(study_entry(name, **changes)), encoding="utf-8")
    if claims is not None:
        (folder / "claims.json").write_text(json.dumps({"schema": STUDY_SCHEMA, "claims": claims}), encoding="utf-8")
    (folder / "trials.parquet").write_bytes(b"PAR1")
    for function in draw:
        function(folder)
    return folder


def write_gallery(root: Path) -> Path:
    """Three studies that between them show every state the page knows."""
    write_study(
        root,
        "parity/scaling",
        [
            claim_entry(),
            claim_entry(
                name="convergence",
                statement="Every trial converges within the budget.",
                value=0.967,
                low=0.958,
                high=0.975,
                statistic="share of trials that converged",
                threshold="lower end at least 0.99",
                source_value="1.00",
                verdict="not reproduced",
                trials=1800,
                reason="57 of 1800 trials, all at n = 30 and k = 4, did not converge within the budget.",
            ),
            claim_entry(
                name="tail",
                statement="The distribution of convergence times has an exponential tail.",
                value="inf",
                low=4210,
                high="inf",
                unit="steps",
                statistic="99th percentile at n = 30",
                verdict="inconclusive",
                threshold="finite at this scale",
                source_value="—",
                reason="Too few trials to see the tail; the paper scale decides.",
                trials=100,
            ),
        ],
        draw=(drawings.draw_scaling,),
        figures=[figure_entry("scaling")],
        notes=["The source does not give the initial scale; ours is 1/√n.", "Budget: 10⁵ steps per trial."],
    )
    write_study(
        root,
        "parity/hidden-progress",
        [
            claim_entry(
                name="gap",
                statement="The Fourier gap grows while the loss stands still.",
                value=12_346.0,
                low=11_900.4,
                high=12_801.0,
                unit="steps",
                statistic="lead of the gap over the loss",
                threshold="lower end above 0",
                source="dissertation, Figure 5.3",
                source_value="“long before”",
            )
        ],
        draw=(drawings.draw_panels,),
        title="Progress that the loss does not show",
        question="Is there a quantity that grows steadily while the loss stands still?",
        figures=[figure_entry("progress", title="The gap grows long before the error falls", alt="Two panels.")],
    )
    write_study(
        root,
        "retrieval",
        None,
        title="Sample complexity of sparse retrieval",
        status="interrupted",
        finished=None,
        question="How many samples does attention need to find one token among many?",
        engine={"trials": 40, "converged": 31, "failed": 0, "diverged": 0, "trained_steps": 2_300_000_000},
        figures=[figure_entry("samples", title="Samples against length")],
    )
    return root


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gallery(tmp_path_factory.mktemp("drawn") / "results")


@pytest.fixture
def gallery(drawn: Path, tmp_path: Path) -> Path:
    """A fresh copy for every test; drawing the figures once is enough."""
    return Path(shutil.copytree(drawn, tmp_path / "results"))


@pytest.fixture
def make_study(tmp_path: Path) -> Builder:
    def make(name: str = "one", *args: Any, **changes: Any) -> Path:
        return write_study(tmp_path / "results", name, *args, **changes)

    return make


@pytest.fixture
def write() -> Builder:
    """A study into a folder, its claims by what is particular to them."""

    def make(root: Path, name: str, claims: list[dict[str, Any]], **changes: Any) -> Path:
        return write_study(root, name, [claim_entry(**own) for own in claims], **changes)

    return make


@pytest.fixture
def claim() -> Callable[..., dict[str, Any]]:
    return claim_entry


@pytest.fixture
def figure() -> Callable[..., dict[str, Any]]:
    return figure_entry


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright (pip install -e '.[dev]')")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no browser found; `make browser` installs chromium on Debian")
    with playwright.sync_playwright() as running:
        sandbox = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
        chromium = running.chromium.launch(executable_path=found, args=sandbox)
        yield chromium
        chromium.close()
