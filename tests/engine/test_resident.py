"""The kernel's side that a CPU can see: its constants, its numbering of inputs and samples, its random words, and the
program around it, with the reference in the kernel's place. The kernel itself is tested on a GPU (tests/gpu)."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine import resident, run_cohort
from krogh.engine.checking import RUNNING, check_block, constants_of
from krogh.engine.lane import Lane, Waiting
from krogh.engine.memory import Plan, plan
from krogh.engine.round import over_block, train_block
from krogh.errors import KroghError
from krogh.training.optimisers import Piecewise

SOURCE = resident.source()


def trial(
    n=10, k=2, width=20, batch=16, regime=None, loss="hinge", model=None, task=None, sgd=None, stopping=None, **more
):
    training = krogh.Training(
        krogh.Sgd(0.1, **(sgd or {})),
        regime or krogh.Online(batch),
        stopping or krogh.Stopping(budget=400, validation=256),
        loss=loss,
    )
    return krogh.Trial(task or krogh.Parity(n, k), model or krogh.Mlp(20), training, **more)


def macro(name: str):
    """A macro of the kernel as a Python function of its arguments."""
    found = re.search(rf"#define {name}\((\w+)\) (.+)", SOURCE)
    assert found is not None
    return lambda value: eval(found[2].replace(found[1], "value"), {"value": value})


def input_at(tile: int, column: int) -> int:
    """The kernel's own formula, read from its source."""
    body = re.search(r"int input_at\(int tile, int column\) \{(.+?)\n\}", SOURCE, re.DOTALL)
    assert body is not None
    s_text = re.search(r"const int s = (.+);", body[1])
    result = re.search(r"return (.+) \+ \(\(column & 1\) \? (.+) : (.+)\);", body[1])
    assert s_text is not None and result is not None
    s = eval(s_text[1])
    names = {"tile": tile, "column": column, "s": s}
    return eval(result[1], names) + eval(result[2] if column & 1 else result[3], names)


@pytest.mark.parametrize("n", [1, 4, 15, 16, 20, 31, 32, 33, 50, 63, 64, 100, 127, 128])
def test_every_input_and_the_bias_have_one_place(n):
    tiles = resident.constants(trial(n=n, k=1))["TILES"]
    places = [input_at(tile, column) for tile in range(tiles) for column in range(8)]
    assert len(set(places)) == len(places) and set(range(n + 1)) <= set(places)
    tile_of, column_of = macro("BIT_TILE"), macro("BIT_COLUMN")
    for i in range(n + 1):
        assert input_at(4 * (i // 32) + tile_of(i % 32), column_of(i % 32)) == i


def test_a_shift_and_a_mask_give_the_signs_of_a_tile():
    """Lane (g, t) takes columns 2t and 2t + 1 of a tile from the two halves of a shifted word, as the kernel does."""
    word = int(np.random.default_rng(0).integers(2**32))
    for tile in range(4):
        for t in range(4):
            pair = ((word << t << (12 - 4 * tile)) & 0x80008000) ^ 0x3C003C00
            halves = np.array([pair & 0xFFFF, pair >> 16], np.uint16).view(np.float16)
            assert halves.tolist() == [1 - 2.0 * (word >> input_at(tile, 2 * t + h) & 1) for h in range(2)]


def test_products_in_the_layouts_of_the_instruction():
    """W in the layout of sums is the first factor of the next product, and G·X comes out in the layout of W."""
    random = np.random.default_rng(1)
    W = random.normal(size=(16, 16))
    x = random.choice([-1.0, 1.0], size=(16, 8))
    sums = {(g, t): [[W[g + 8 * (e >> 1), 8 * c + 2 * t + (e & 1)] for e in range(4)] for c in range(2)]
            for g in range(8) for t in range(4)}  # fmt: skip
    first = np.zeros((16, 16))  # PTX: a0 (g, 2t..), a1 (g + 8, 2t..), a2 (g, 2t + 8..), a3 (g + 8, 2t + 8..)
    for (g, t), tiles in sums.items():
        for q in range(4):
            low, high = tiles[q >> 1][(q & 1) * 2], tiles[q >> 1][(q & 1) * 2 + 1]
            first[g + 8 * (q & 1), 8 * (q >> 1) + 2 * t : 8 * (q >> 1) + 2 * t + 2] = low, high
    assert np.array_equal(first, W) and np.allclose(first @ x, W @ x)


def test_words_are_those_of_jax():
    """Threefry with the constants of the source, counted as `jax.random.bits` counts."""
    rotations = [int(r) for r in re.findall(r"ROUND\((\d+)\)", SOURCE.split("// ")[0] + SOURCE)]
    assert rotations == [13, 15, 26, 6, 17, 29, 16, 24] * 2 + [13, 15, 26, 6]

    def threefry(key, x):
        mask = 0xFFFFFFFF
        keys = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
        x = [(x[0] + keys[0]) & mask, (x[1] + keys[1]) & mask]
        for number, r in enumerate(rotations):
            x[0] = (x[0] + x[1]) & mask
            x[1] = ((x[1] << r | x[1] >> (32 - r)) & mask) ^ x[0]
            if number % 4 == 3:
                group = number // 4 + 1
                x = [(x[0] + keys[group % 3]) & mask, (x[1] + keys[(group + 1) % 3] + group) & mask]
        return x

    key = jax.random.key(7)
    words = [int(word) for word in jax.random.key_data(key)]
    folded = threefry(words, [0, 130])
    assert folded == jax.random.key_data(jax.random.fold_in(key, 130)).tolist()
    bits = jax.random.bits(jax.random.fold_in(key, 130), (5, 2), jnp.uint32).ravel().tolist()
    assert bits == [a ^ b for a, b in (threefry(folded, [0, place]) for place in range(10))]


def test_two_halves_keep_what_single_precision_keeps():
    w = np.random.default_rng(2).normal(size=10_000).astype(np.float32) * 0.3
    high = (16 * w).astype(np.float16)
    low = (16 * w - high.astype(np.float32)).astype(np.float16)
    kept = (high.astype(np.float64) + low.astype(np.float64)) / 16
    assert np.abs(kept - w).max() < 2e-9 + 2.0**-23 * np.abs(w).max()


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"task": krogh.Parity(320, 2)}, "no parity of at most 319 bits"),
        ({"task": krogh.Parity(150, 2), "model": krogh.Mlp(3000)}, "need the registers of more than 8"),
        ({"model": krogh.power_mlp(8, 2)}, "no two-layer ReLU network"),
        ({"batch": 129}, "at most 128"),
        ({"regime": krogh.FullBatch(m=20)}, "not Online or Offline"),
        ({"loss": "cross-entropy"}, "one of the losses"),
        ({"stopping": krogh.Stopping(budget=100, validation=64, restarts=2)}, "begins again"),
    ],
)
def test_what_is_not_covered_says_why(other, reason):
    assert reason in str(resident.obstacle(trial(**other)))
    assert resident.obstacle(trial()) is None


@pytest.mark.parametrize("n", [4, 30, 50, 100, 150, 300])
@pytest.mark.parametrize("width", [4, 100, 384, 1000])
@pytest.mark.parametrize(("batch", "loss"), [(1, "hinge"), (32, "hinge"), (128, "square")])
def test_a_layout_has_room_for_every_neuron(n, width, batch, loss):
    given = trial(n=n, model=krogh.Mlp(width), batch=batch, loss=loss)
    found = resident.layout(given)
    if found is None:
        assert width == 1000 and n >= 150 and batch > 32
        return
    assert found.members * found.warps * found.deep * 16 >= width
    assert 8 * found.tiles > n, "the bias is one more input"
    registers = 4 * found.deep * found.tiles  # of a thread, for its weights alone
    assert found.blocks * found.warps * 32 * registers <= resident.REGISTERS and registers < 255
    assert found.warps <= resident.MOST_WARPS and found.members <= resident.MOST_MEMBERS


class Gpu:
    platform = "gpu"

    def __init__(self, capability):
        self.compute_capability = capability


def test_clusters_need_a_newer_device(monkeypatch):
    monkeypatch.setattr(resident, "_compiler", lambda: None)
    narrow, wide = trial(), trial(n=50, model=krogh.Mlp(1000))
    assert "compute capability 7.5; the kernel needs 8.0" in str(resident.missing(narrow, Gpu("7.5")))
    assert resident.missing(narrow, Gpu("8.0")) is None
    assert "needs 9.0" in str(resident.missing(wide, Gpu("8.0"))) and resident.missing(wide, Gpu("9.0")) is None


class Doubled(krogh.Mlp):
    """Predicts something else than what it inherits."""

    def predict(self, params, x):
        return 2 * super().predict(params, x)


class Negated(krogh.Parity):
    def truth(self, x, bits):
        return -super().truth(x, bits)


class Slow(krogh.Sgd):
    """Moves by another rule."""


def test_what_inherits_is_something_else():
    """The kernel knows nothing of methods that a class of one's own has replaced."""
    assert "no two-layer ReLU" in str(resident.obstacle(trial(model=Doubled(20))))
    assert "no parity" in str(resident.obstacle(trial(task=Negated(10, 2))))
    given = trial()
    slow = krogh.Training(Slow(0.1), krogh.Online(16), krogh.Stopping(budget=400))
    assert "not trained by SGD" in str(resident.obstacle(krogh.Trial(given.task, given.model, slow)))


def test_who_asks_for_the_kernel_gets_it_or_an_error(monkeypatch):
    monkeypatch.setenv(resident.PATH, "resident")
    with pytest.raises(KroghError, match="cannot be used: no GPU"):
        plan(trial(), 1, jax.local_devices()[0])
    monkeypatch.setenv(resident.PATH, "residnet")
    with pytest.raises(KroghError, match="did you mean 'resident'"):
        plan(trial(), 1, jax.local_devices()[0])


def test_a_cpu_is_not_asked(monkeypatch, capsys):
    assert not resident.covers(trial(), jax.local_devices()[0])
    assert capsys.readouterr().err == ""


class Reference(resident.ResidentProgram):
    """The program with the reference in the kernel's place."""

    def _visit(self, trials, states, until):
        def one(trial, state, stop):
            alone, here = jax.tree.map(lambda leaf: leaf[None], (trial, state))
            constants = jax.tree.map(lambda leaf: leaf[None], constants_of(trial, 1))

            def round_(here):
                return check_block(alone, constants, train_block(alone, constants, here, over_block(1)), 1)

            def going(here):
                return (here.status[0] == RUNNING) & (here.step[0] < stop)

            return jax.tree.map(lambda leaf: leaf[0], jax.lax.while_loop(going, round_, here))

        return jax.jit(lambda *given: jax.lax.map(lambda each: one(*each), given))(trials, states, until)


@pytest.fixture
def visited(monkeypatch):
    """Records of a cohort on a lane whose program is the reference."""
    monkeypatch.setattr(resident, "build", lambda template, device: None)

    def run(cohort, slots=3):
        class ReferenceLane(Lane):
            def _open(self, plan):
                super()._open(Plan(plan.slots, 1))  # an XLA program of the same shape, to be replaced
                self.plan, self._advance = plan, Reference(self.cohort.template, plan.slots, self.device)

        lane = ReferenceLane(cohort, Plan(slots, 1, resident=True), jax.local_devices()[0], keep_weights=True)
        lane._rounds = 7
        waiting, records = Waiting(np.arange(len(cohort))), {}
        while True:
            lane.refill(waiting)
            if not len(lane.in_flight):
                return records, lane.usage
            if (finished := lane.advance()) is not None:
                records |= by_position(finished)

    return run


def by_position(finished):
    return {
        int(position): (
            int(finished.status[i]),
            int(finished.steps[i]),
            int(finished.reached[i]),
            float(finished.error[i]),
            finished.weights["W"][i],
            None if finished.curves is None else finished.curves[i],
            None if finished.snapshots is None else finished.snapshots["W"][i],
        )
        for i, position in enumerate(finished.position)
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        trial(),
        trial(probes=(krogh.Error(),), probe_every=100, snapshots=(50, 300)),
        trial(
            stopping=krogh.Stopping(budget=300, validation=256, early=False), probes=(krogh.Error(),), probe_every=50
        ),
        trial(regime=krogh.Offline(64, 16), snapshots=(20,)),
        trial(sgd={"schedule": Piecewise([50], [1.0, 0.5]), "decay": 1e-3}),
    ],
    ids=["plain", "probes and snapshots", "not early", "offline", "scheduled"],
)
def test_visits_lead_to_the_records_of_the_reference(given, visited, monkeypatch):
    monkeypatch.setattr(resident, "FACTOR_BYTES", 8 * 3 * 60)  # visits of a schedule end after 60 steps
    (cohort,) = krogh.sweep(given, seed=range(5))
    cohort = cohort.fitted()
    expected = {}
    for finished in run_cohort(cohort, keep_weights=True):
        expected |= by_position(finished)
    records, usage = visited(cohort)
    assert records.keys() == expected.keys()
    for position, record in records.items():
        for one, other in zip(record, expected[position], strict=True):
            assert (one is None and other is None) or np.array_equal(one, other, equal_nan=True)
    assert usage.executed_steps == usage.useful_steps == sum(record[1] for record in records.values())


def test_kept_kernels_are_read_only_as_they_were_written(tmp_path):
    path = tmp_path / "kernels" / "one.cubin"
    assert resident._read(path) is None and resident._read(None) is None
    resident._keep(path, b"machine code")
    assert resident._read(path) == b"machine code"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert resident._read(path) is None, "damaged"
    resident._keep(path, b"machine code")
    path.chmod(0o666)
    assert resident._read(path) is None, "anybody may have written it"
    resident._keep(None, b"nowhere")


def test_where_nothing_can_be_compiled_one_line_says_so(monkeypatch, capsys):
    def failing(template, device):
        raise RuntimeError("NVRTC_ERROR_INVALID_OPTION\nwith details")

    monkeypatch.setattr(resident, "_compiler", lambda: None)
    monkeypatch.setattr(resident, "build", failing)
    monkeypatch.setattr(resident, "_TRIED", {})
    monkeypatch.setattr(resident, "_SAID", set())
    device = Gpu("9.0")
    device.local_hardware_id = 0
    assert not resident.covers(trial(), device) and not resident.covers(trial(n=20), device)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "cannot be compiled (NVRTC_ERROR_INVALID_OPTION)" in said
