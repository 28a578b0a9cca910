"""Frames of a study: every snapshot that was kept, quantised within half a level, compact, or one clear error."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from dataclasses import dataclass

import numpy as np
import pytest
from replays import CHAINS, STEPS, invented, trials
from support import retell

import krogh
from krogh.errors import KroghError
from krogh.lab import Experiment, run_study, setting
from krogh.lab.frames import _encoded, _labels, film, known_errors, spread_steps, write_frames
from krogh.probes.views import HeatMap, Numbers, panels_of
from krogh.registry import EXPERIMENTS


@dataclass(frozen=True)
class Settings:
    snapshots: int = setting(3, "snapshots", least=0)
    seeds: int = setting(2, "seeds", least=1)


class Little(Experiment[Settings]):
    """A transformer and the minimal model on little chains."""

    name = "test/little"
    title, question, source = "Little chains", "Do they learn?", "nobody"
    scales = {"smoke": Settings(), "laptop": Settings(), "paper": Settings()}

    def trials(self, settings):
        steps = spread_steps(60, settings.snapshots, 10)
        for model in (krogh.CausalTransformer(dimension=4), krogh.MinimalInduction()):
            trial = krogh.Trial(krogh.MarkovChains(2, 12), model, CHAINS, snapshots=steps)
            yield from krogh.sweep(trial, seed=range(settings.seeds))

    def claims(self, tables, say):
        pass

    def figures(self, tables):
        return ()


@pytest.fixture(scope="module")
def filed():
    EXPERIMENTS.load()
    EXPERIMENTS._things["test/little"] = Little
    yield
    del EXPERIMENTS._things["test/little"]


@pytest.fixture(scope="module")
def folder(filed, tmp_path_factory):
    return run_study(Little(), "smoke", tmp_path_factory.mktemp("little")).folder


@pytest.fixture(scope="module")
def frames(folder):
    return json.loads(write_frames(folder).read_text())


def test_a_study_with_snapshots_keeps_weights_and_becomes_frames(frames):
    labels = [trial["label"] for trial in frames["trials"]]
    assert labels == [
        f"model {kind} · seed {seed}" for kind in ("causal-transformer", "minimal-induction") for seed in (0, 1)
    ]
    for trial in frames["trials"]:
        assert trial["steps"] == [0, 30, 60] and trial["batch"] == 8 and trial["unit"] == "sequences"
        assert trial["strategies"] == ["uniform", "unigram", "bigram"] and len(trial["phases"]) == 3
        assert set(trial["error"]["references"]) == {"uniform", "unigram", "bigram"}
        assert trial["error"]["name"] == "loss" and all(value > 0 for value in trial["error"]["values"])


def test_phases_are_the_nearest_strategies(frames):
    for trial in frames["trials"]:
        (distances,) = [panel for panel in trial["panels"] if panel["name"] == "Distance to strategies"]
        assert trial["phases"] == [int(np.argmin(row)) for row in distances["values"]]


def test_the_first_of_every_structure_comes_before_the_second_of_any(folder):
    labels = [trial["label"] for trial in json.loads(write_frames(folder, trials=2).read_text())["trials"]]
    assert labels == ["model causal-transformer · seed 0", "model minimal-induction · seed 0"]


def decoded(panel) -> np.ndarray:
    levels = np.frombuffer(zlib.decompress(base64.b64decode(panel["data"])), np.uint8).reshape(-1, *panel["shape"])
    levels = np.cumsum(levels, axis=0, dtype=np.uint8)  # modulo 256, as the page adds
    shown = panel["low"] + (panel["high"] - panel["low"]) * levels.astype(np.float64) / 255
    return shown**2 if panel["root"] else shown


@pytest.mark.parametrize(("root", "signed"), [(False, False), (True, False), (False, True)])
def test_matrices_come_back_within_half_a_level(root, signed):
    values = np.random.default_rng(1).normal(size=(7, 5, 4))
    values = values if signed else np.abs(values)
    panel = _encoded([HeatMap("m", one, root=root, signed=signed) for one in values])
    back = decoded(panel)
    shown, want = (np.sqrt(back), np.sqrt(values)) if root else (back, values)
    assert np.abs(shown - want).max() <= 0.51 * (panel["high"] - panel["low"]) / 255 + 1e-3
    if signed:
        assert panel["low"] == -panel["high"]


def test_two_hundred_frames_of_two_maps_stay_below_two_megabytes():
    """Attention that sharpens from uniform to the token before, with noise: not the easiest thing to deflate."""
    rng, panels = np.random.default_rng(0), []
    i, j = np.indices((100, 100))
    for _ in range(2):
        noise = rng.normal(size=(100, 100))
        maps = []
        for share in np.linspace(0, 1, 200):
            scores = np.where(j <= i, noise + 6 * share * (j == i - 1) + 0.02 * rng.normal(size=(100, 100)), -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            maps.append(HeatMap("a", weights / weights.sum(axis=1, keepdims=True), root=True))
        panels.append(_encoded(maps))
    assert len(json.dumps(panels)) < 2_000_000


@pytest.mark.parametrize("kind", ["parity", "group"])  # those on chains are in the study
def test_a_film_of_every_kind_of_network_is_json_with_a_frame_for_every_moment(kind):
    network = invented(trials()[kind])
    told = film(network, kind, 4, known_errors(network.trial.task))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["steps"][0] == 0 and told["steps"][-1] == 60 and len(told["steps"]) == 4
    lengths = {len(panel["values"]) for panel in told["panels"] if panel["kind"] in ("bars", "numbers")}
    assert lengths == {4} and len(told["error"]["values"]) == 4
    assert all(decoded(panel).shape[0] == 4 for panel in told["panels"] if panel["kind"] == "heat")


def test_panels_must_be_the_same_at_every_step(monkeypatch):
    def moody(look):
        return [*panels_of(look), *([Numbers("sometimes", {"one": 1.0})] if look.step == 20 else [])]

    monkeypatch.setattr("krogh.lab.frames.panels_of", moody)
    with pytest.raises(KroghError, match="the same panels at every step; at step 20 it gave"):
        film(invented(trials()["parity"]), "", 10, {})


def test_steps_are_spread_over_the_checks():
    assert spread_steps(100, 0, 10) == () and spread_steps(100, 3, 10) == (0, 50, 100)
    assert spread_steps(95, 100, 10) == tuple(range(0, 91, 10)), "no step twice, none beyond the end"
    assert spread_steps(50, 6, 10) == STEPS and spread_steps(100, 5, 1, power=2) == (0, 6, 25, 56, 100)


def test_labels_say_what_differs_and_no_more():
    rows = [
        {"id": 1, "task": "a", "task.n": n, "panel": "x", "width": n, "seed": seed, "outcome": "failed", "steps": n}
        for n in (3, 4)
        for seed in (0, 1)
    ]
    assert _labels(rows) == ["width 3 · seed 0", "width 3 · seed 1", "width 4 · seed 0", "width 4 · seed 1"]


@pytest.fixture
def without(folder, tmp_path):
    """The study as it would be without snapshots."""
    copy = tmp_path / "study"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("weights", "replay.json"))

    def told(**settings):
        retell(copy, settings=settings)
        return copy

    return told


def test_a_study_without_snapshots_says_what_to_do(without, tmp_path, monkeypatch):
    with pytest.raises(KroghError, match="its weights were removed"):
        write_frames(without(snapshots=3, seeds=2))
    with pytest.raises(
        KroghError,
        match=r"keeps no snapshots.*krogh run test/little --plugin \S+test_frames\.py --scale smoke --set snapshots=50",
    ):
        write_frames(without(snapshots=0, seeds=2))
    with pytest.raises(KroghError, match="holds no study"):
        write_frames(tmp_path)

    @dataclass(frozen=True)
    class Bare:
        seeds: int = setting(2, "seeds", least=1)

    class Keeping(Little):
        scales = dict.fromkeys(("smoke", "laptop", "paper"), Bare())

        def trials(self, settings):
            return ()

    monkeypatch.setitem(EXPERIMENTS._things, "test/little", Keeping)
    with pytest.raises(KroghError, match=r"has no setting for them; .*algebra/cyclic, .*parity/hidden-progress"):
        write_frames(without(seeds=2))
    assert not list(tmp_path.rglob("replay.json"))


def test_what_another_source_trained_is_not_shown_as_if_it_were_this_ones(folder, without):
    study = without(snapshots=4, seeds=2)
    shutil.copytree(folder / "weights", study / "weights")
    with pytest.raises(KroghError, match="its source has changed"):
        write_frames(study)
