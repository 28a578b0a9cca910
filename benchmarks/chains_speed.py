"""Twenty transformers on Markov chains as one cohort, beside one of them and beside a plain PyTorch loop.

PYTHONPATH=src python3 benchmarks/chains_speed.py
PYTHONPATH=src python3 benchmarks/chains_speed.py --steps 40 --length 12 --dimension 8 --cohorts 1 2 --seconds 1
PYTHONPATH=src python3 benchmarks/chains_speed.py --check

The setting is that of `chains/phases` at paper scale with k = 3: two layers, length 100, batch 64, AdamW, 2,000 steps,
a check and probes every 20 steps on 1,000 sequences. A cohort is timed end to end (from the trials to their records)
after its program has been compiled and has run once; compilation is timed apart, and nothing is read from a cache on
disk unless KROGH_CACHE names one. The PyTorch loop trains one network and does not look at it; its time for all steps
is extrapolated from those it does in `--seconds`. A layer's forward pass counts as 8Btd² + 6Bt²d floating-point
operations, a step as three forward passes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from krogh.bench.baselines import available
from krogh.bench.table import write_section
from krogh.engine import Trials, Usage, run_cohort, sweep
from krogh.engine.compiling import request_program
from krogh.engine.executor import lanes_for
from krogh.engine.lane import Finished, Lane, Waiting
from krogh.engine.memory import Plan, plan
from krogh.experiments.chains.common import BETAS, DECAY
from krogh.experiments.chains.phases import AFTER, BEFORE, ChainPhases, Settings
from krogh.lab.phases import transition_time
from krogh.lab.sources import device_in_words, versions
from krogh.models import CausalTransformer
from krogh.models.parts import NORM_EPSILON
from krogh.tasks.base import Examples
from krogh.training.losses import find_loss

K, LAYERS, SEEDS = 3, 2, 20
MOST_SECONDS, MOST_RATIO = 60.0, 1.5  # what is asked of twenty seeds on an H200
WARM_UP = 5  # steps of the PyTorch loop before the clock starts


@dataclass(frozen=True)
class Timed:
    """A cohort's seconds, the median over repeats, and what they were spent on."""

    trials: int
    steps: int
    compilation: float
    seconds: float
    chosen: Plan
    lanes: int
    wasted: float
    moved: int  # trials through the transition
    peak: int | None  # bytes of the device that the process has used at most so far

    @property
    def trial_steps(self) -> float:
        """Per second."""
        return self.trials * self.steps / self.seconds

    @property
    def milliseconds(self) -> float:
        """Per step of the whole cohort."""
        return 1e3 * self.seconds / self.steps


@dataclass(frozen=True)
class Loop:
    """The PyTorch loop: milliseconds of a step, of drawing its sequences alone, and where it ran."""

    device: str
    milliseconds: float
    sampling: float
    measured: int  # steps


def step_flops(settings: Settings) -> int:
    """Floating-point operations of one training step of one network."""
    B, t, d = settings.batch_size, settings.length, settings.dimension
    return 3 * LAYERS * (8 * B * t * d**2 + 6 * B * t**2 * d)


# --- krogh ---


def time_cohort(settings: Settings, trials: int, repeats: int) -> Timed:
    """So many seeds as one cohort."""
    cohort = sweep(settings.trial(settings.chains(K)), seed=range(trials))[0]
    fitted, lanes = cohort.fitted(), lanes_for(trials, 0, outside=False)
    size = plan(fitted.template, -(-trials // len(lanes)), lanes[0])
    begun = time.perf_counter()
    program, _ = request_program(fitted.template, size, lanes[0])
    program.result()
    compilation = time.perf_counter() - begun
    lane = Lane(fitted, size, lanes[0])
    lane.refill(Waiting(np.arange(trials)))
    lane.advance(1)
    found = [_run(cohort) for _ in range(repeats)]
    finished, usage = found[-1][1:]
    return Timed(
        trials=trials,
        steps=settings.steps,
        compilation=compilation,
        seconds=statistics.median(seconds for seconds, _, _ in found),
        chosen=size,
        lanes=len(lanes),
        wasted=usage.wasted_share,
        moved=sum(math.isfinite(moved) for moved in _transitions(cohort, finished)),
        peak=(lanes[0].memory_stats() or {}).get("peak_bytes_in_use"),
    )


def _run(cohort: Trials) -> tuple[float, list[Finished], Usage]:
    usage, begun = Usage(), time.perf_counter()
    finished = list(run_cohort(cohort, usage=usage))
    seconds = time.perf_counter() - begun
    assert usage.compilations == 0, "the program should have been there"
    return seconds, finished, usage


def _transitions(cohort: Trials, finished: Sequence[Finished]) -> list[float]:
    """The step at which each trial left the unigram plateau; ∞ where it did not."""
    template = cohort.template
    steps = template.scheduled_steps()
    moved = []
    for part in finished:
        assert part.curves is not None
        for curve in part.curves:
            columns = dict(zip(template.curve_columns(), curve[: len(steps)].T, strict=True))
            moved.append(transition_time(columns | {"step": np.asarray(steps)}, BEFORE, AFTER))
    return moved


# --- PyTorch ---


def torch_network(settings: Settings) -> Any:
    """The same architecture as modules: pre-norm, one head, relative vectors that meet the query, W_O."""
    import torch
    from torch import nn

    d, t = settings.dimension, settings.length

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(d, eps=NORM_EPSILON)
            self.query, self.key, self.value, self.output = (nn.Linear(d, d, bias=False) for _ in range(4))
            self.relative = nn.Parameter(torch.empty(t, d))
            place = torch.arange(t)
            lag = place[:, None] - place[None, :]
            self.register_buffer("lag", lag.clamp(min=0))
            self.register_buffer("ahead", lag < 0)

        def forward(self, z: torch.Tensor) -> torch.Tensor:
            read = self.norm(z)
            query = self.query(read) / math.sqrt(d)
            scores = query @ self.key(read).transpose(1, 2)
            scores = scores + torch.einsum("bid,ijd->bij", query, self.relative[self.lag])
            weights = scores.masked_fill(self.ahead, -torch.inf).softmax(dim=-1)
            return z + self.output(weights @ self.value(read))

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(K, d)
            self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
            self.norm = nn.LayerNorm(d, eps=NORM_EPSILON)
            self.unembedding = nn.Linear(d, K, bias=False)
            for name, parameter in self.named_parameters():
                if "norm" not in name:
                    nn.init.normal_(parameter, std=0.01 if "output" in name else 0.02)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            z = self.embedding(tokens)
            for layer in self.layers:
                z = layer(z)
            return self.unembedding(self.norm(z))

    return Transformer()


def torch_optimiser(network: Any, rate: float) -> Any:
    """AdamW whose decay is for matrices: no embeddings, relative vectors or norms."""
    import torch

    matrices = [module.weight for module in network.modules() if isinstance(module, torch.nn.Linear)]
    chosen = {id(matrix) for matrix in matrices}
    rest = [parameter for parameter in network.parameters() if id(parameter) not in chosen]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=BETAS)


def torch_chains(settings: Settings, device: str) -> Any:
    """Tokens [batch, length + 1] of fresh chains with flat rows, from their stationary law."""
    import torch

    size = settings.batch_size
    P = torch.empty(size, K, K, device=device).exponential_()
    P = P / P.sum(dim=-1, keepdim=True)
    # π(P - I) = 0 with the last equation replaced by Σ π = 1.
    system = (P - torch.eye(K, device=device)).transpose(1, 2).clone()
    system[:, -1] = 1.0
    first = torch.zeros(size, K, device=device)
    first[:, -1] = 1.0
    law = torch.linalg.solve(system, first)
    sums, uniforms = P.cumsum(dim=-1), torch.rand(size, settings.length + 1, device=device)
    each = torch.arange(size, device=device)
    tokens = [(uniforms[:, :1] > law.cumsum(dim=-1)[:, :-1]).sum(dim=-1)]
    for place in range(1, settings.length + 1):
        tokens.append((uniforms[:, place, None] > sums[each, tokens[-1], :-1]).sum(dim=-1))
    return torch.stack(tokens, dim=1)


def time_torch(settings: Settings, seconds: float) -> Loop:
    """One network, module, autograd and optimiser as in a tutorial."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = torch_network(settings).to(device)
    optimiser = torch_optimiser(network, settings.rate)

    def step() -> None:
        tokens = torch_chains(settings, device)
        logits = network(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    whole, measured = _milliseconds(step, seconds, wait)
    sampling, _ = _milliseconds(lambda: torch_chains(settings, device), seconds / 4, wait)
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    return Loop(name, whole, sampling, measured)


def _milliseconds(step: Callable[[], Any], seconds: float, wait: Callable[[], Any]) -> tuple[float, int]:
    """Milliseconds per step after a warm-up, and of how many steps."""
    for _ in range(WARM_UP):
        step()
    wait()
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for _ in range(5):
            step()
        done += 5
        wait()
    return 1e3 * (time.perf_counter() - begun) / done, done


# --- both networks are the same ---


def check(settings: Settings) -> list[str]:
    """The largest differences of logits, gradients and one step of AdamW, both networks with the same weights.

    With the weights as they are drawn and with twentyfold ones: those as drawn hardly attend.
    """
    model, task = settings.model(), settings.chains(K)
    examples = task.batch(jax.random.key(1), settings.batch_size)
    drawn = model.init(jax.random.key(0), task)
    lines = []
    for factor in (1, 20):
        params = {name: leaf if name[0] in "gh" else factor * leaf for name, leaf in drawn.items()}
        found = _differences(settings, model, params, examples)
        for what, most in (("logits", 1e-5), ("gradients", 1e-4), ("AdamW's step", 1e-6)):
            if found[what] > most:
                sys.exit(f"weights × {factor}: {what} differ by {found[what]:.1e}, more than {most:.0e}")
        lines.append(
            f"weights × {factor}: " + ", ".join(f"{what} differ by {most:.1e}" for what, most in found.items())
        )
    return lines


def _differences(
    settings: Settings, model: CausalTransformer, params: dict[str, Any], examples: Examples
) -> dict[str, float]:
    """Of logits, of gradients as shares of an array's largest entry, and of weights after a step of AdamW."""
    import torch

    loss, optimiser = find_loss("cross-entropy"), settings.adam(model)
    with jax.default_matmul_precision("highest"):
        logits = model.predict(params, examples.x)
        gradient = jax.grad(lambda given: jnp.mean(loss(model.predict(given, examples.x), examples.y)))(params)
    stepped, _ = optimiser.update(gradient, optimiser.init(params), params, jnp.int32(0))

    network = torch_network(settings)
    theirs = _places(model, network)
    with torch.no_grad():
        for name, place in theirs.items():
            place.copy_(_to_torch(name, params))
    tokens, labels = (torch.from_numpy(np.array(part)).long() for part in (examples.x, examples.y))
    said = network(tokens)
    torch.nn.functional.cross_entropy(said.flatten(0, 1), labels.flatten()).backward()
    slopes = {name: _to_torch(name, gradient) for name in theirs}
    off = [float((place.grad - slopes[name]).abs().max() / slopes[name].abs().max()) for name, place in theirs.items()]
    # From the same gradients: Adam's first step is little more than their signs, and rounding changes those of
    # gradients that are almost nothing.
    for name, place in theirs.items():
        place.grad = slopes[name]
    torch_optimiser(network, settings.rate).step()
    own = {name: _to_torch(name, stepped) for name in theirs}
    return {
        "logits": float(np.max(np.abs(said.detach().numpy() - np.asarray(logits)))),
        "gradients": max(off),
        "AdamW's step": max(float((place.detach() - own[name]).abs().max()) for name, place in theirs.items()),
    }


def _places(model: CausalTransformer, network: Any) -> dict[tuple[str, int | None], Any]:
    """Our parameters, by name and layer, and the tensors of the PyTorch network that are theirs."""
    assert (model.layers, model.heads, model.norm, model.output) == (LAYERS, 1, True, True)
    found: dict[tuple[str, int | None], Any] = {
        ("E", None): network.embedding.weight,
        ("P", None): network.unembedding.weight,
        ("g3", None): network.norm.weight,
        ("h3", None): network.norm.bias,
    }
    for place, layer in enumerate(network.layers):
        found |= {
            ("Q", place): layer.query.weight,
            ("K", place): layer.key.weight,
            ("V", place): layer.value.weight,
            ("O", place): layer.output.weight,
            ("v", place): layer.relative,
            ("g1", place): layer.norm.weight,
            ("h1", place): layer.norm.bias,
        }
    assert len({id(tensor) for tensor in found.values()}) == len(list(network.parameters()))
    return found


def _to_torch(which: tuple[str, int | None], params: dict[str, Any]) -> Any:
    """One of our arrays as the tensor that a module would hold: a `Linear` keeps its matrix transposed."""
    import torch

    name, layer = which
    own = np.array(params[name] if layer is None else params[name][layer])
    return torch.from_numpy(own.T.copy() if name in "QKVOP" else own)


# --- what is printed ---


def markdown(found: dict[str, Any], timed: Sequence[Timed], loop: Loop | None, settings: Settings) -> list[str]:
    """The measurements as a Markdown section."""
    used = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    flops = step_flops(settings)
    lines = [
        f"### Transformers on Markov chains: {found['device']}",
        "",
        f"Measured {found['date']} in one run by `benchmarks/chains_speed.py`; {used}.",
        "",
        f"Two layers, k = {K}, length {settings.length}, d = {settings.dimension}, batch {settings.batch_size}, "
        f"{settings.steps:,} steps with checks and probes on {settings.validation:,} sequences every "
        f"{settings.look_every}; {flops / 1e9:.3g} GFLOP a step of one network. Times after compilation.",
        "",
        "| contestant | networks | seconds | ms a step | trial-steps/s | TFLOP/s | compilation, s | at once |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    if loop is not None:
        speed = 1e3 / loop.milliseconds
        lines.append(
            f"| PyTorch, eager loop, no looks | 1 | {loop.milliseconds * settings.steps / 1e3:,.1f} (from "
            f"{loop.measured:,} steps) | {loop.milliseconds:,.2f} ({loop.sampling:,.2f} drawing) | {speed:,.0f} | "
            f"{speed * flops / 1e12:.3g} | – | 1 |"
        )
    for one in timed:
        lines.append(
            f"| krogh, end to end | {one.trials:,} | {one.seconds:,.2f} | {one.milliseconds:,.2f} | "
            f"{one.trial_steps:,.0f} | {one.trial_steps * flops / 1e12:.3g} | {one.compilation:,.1f} | "
            f"{one.chosen.block * one.lanes:,} |"
        )
    return [*lines, "", *(f"{line}  " for line in found["verdicts"])]


def verdicts(timed: Sequence[Timed], loop: Loop | None, settings: Settings) -> list[str]:
    """The largest cohort of up to twenty seeds against one seed and the PyTorch loop, in words."""
    by_size = {one.trials: one for one in timed}
    many = by_size.get(SEEDS) or max((one for one in timed if one.trials > 1), key=lambda one: one.trials, default=None)
    said = []
    if many is not None:
        said.append(
            f"{many.trials} seeds, {many.steps:,} steps: {many.seconds:,.2f} s (at most {MOST_SECONDS:g} s is asked of "
            f"{SEEDS} seeds and 2,000 steps on an H200); {many.moved} of {many.trials} are through the transition."
        )
        if 1 in by_size:
            ratio = many.seconds / by_size[1].seconds
            said.append(f"{many.trials} seeds take {ratio:.2f} times as long as one (asked: at most {MOST_RATIO:g}).")
        if loop is not None:
            alone = loop.milliseconds * settings.steps / 1e3
            said.append(
                f"The PyTorch loop would need {alone:,.1f} s for one seed, {many.trials * alone / many.seconds:,.1f} "
                f"times as long per seed."
            )
    return said


def main() -> None:
    paper = ChainPhases.scales["paper"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohorts", type=int, nargs="+", default=[1, 5, SEEDS, 100], help="sizes of cohorts")
    parser.add_argument("--repeats", type=int, default=3, help="runs of every cohort, of which the median counts")
    parser.add_argument("--seconds", type=float, default=10.0, help="for which the PyTorch loop is measured")
    for name in ("steps", "length", "dimension", "batch_size", "validation", "look_every"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(paper, name))
    parser.add_argument("--check", action="store_true", help="only compare the two networks")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", type=Path, help="a Markdown file whose section of this device is replaced")
    given = parser.parse_args()
    changed = ("steps", "length", "dimension", "batch_size", "validation", "look_every")
    settings = replace(paper, **{name: getattr(given, name) for name in changed})
    settings.check_looks()
    os.environ.setdefault("KROGH_CACHE", "off")

    if given.check:
        print("\n".join(check(settings)) if available() else "PyTorch is not installed: nothing to compare with")
        return
    loop = None
    if available():
        loop = time_torch(settings, given.seconds)
        _say(f"PyTorch: {loop.milliseconds:,.2f} ms a step on {loop.device}")
    else:
        _say("PyTorch is not installed: its loop is left out")
    timed = []
    for trials in given.cohorts:
        timed.append(time_cohort(settings, trials, given.repeats))
        one = timed[-1]
        peak = "" if one.peak is None else f", {one.peak / 2**30:.1f} GiB at most"
        _say(
            f"{trials} networks: {one.seconds:.2f} s, compilation {one.compilation:.1f} s, blocks of "
            f"{one.chosen.block} in {one.chosen.slots} slots on {one.lanes} lanes, "
            f"{one.wasted:.0%} of the steps wasted{peak}"
        )
    found: dict[str, Any] = {
        "device": device_in_words(),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
        "flops_per_step": step_flops(settings),
        "steps": settings.steps,
        "cohorts": [
            {
                "networks": one.trials,
                "seconds": one.seconds,
                "ms_per_step": one.milliseconds,
                "trial_steps_per_second": one.trial_steps,
                "tflops": one.trial_steps * step_flops(settings) / 1e12,
                "compilation_seconds": one.compilation,
                "block": one.chosen.block,
                "slots": one.chosen.slots,
                "lanes": one.lanes,
                "wasted_share": one.wasted,
                "through_the_transition": one.moved,
                "peak_bytes": one.peak,
            }
            for one in timed
        ],
        "torch": None
        if loop is None
        else {
            "device": loop.device,
            "ms_per_step": loop.milliseconds,
            "ms_drawing": loop.sampling,
            "steps_measured": loop.measured,
            "seconds_extrapolated": loop.milliseconds * settings.steps / 1e3,
        },
        "verdicts": verdicts(timed, loop, settings),
    }
    lines = markdown(found, timed, loop, settings)
    print(json.dumps(found, indent=2) if given.json else "\n".join(lines))
    if given.out is not None:
        write_section(given.out, f"chains, {found['device']}", lines)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
