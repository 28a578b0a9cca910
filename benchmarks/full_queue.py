"""A product that comes out wrong on a CPU (seen with jaxlib 0.10.2): its threads' queues are full.

    python benchmarks/full_queue.py                     # two programs at once, sums of 400 terms: wrong
    python benchmarks/full_queue.py 2 300               # sums of 300 terms: right
    NPROC=1 python benchmarks/full_queue.py             # a pool of one thread: right

Each program repeats a product [terms, rows]ᵀ·[terms, 60] in a scan and compares it with the right one, from float64.

XLA shares large operations among the threads of one pool. Those that are not products (here: the comparison, the sum
of bits, the next left factor) go on as soon as all parts are done, and leave a task behind that has come too late to do
anything. A thread takes its newest task first, so the old ones stay until an idle thread takes them away; where none is
idle they pile up. Eigen's queue holds 1,024: with three such operations a step that is step 342. From then on a new
task is not queued but executed on the spot, in the middle of the one that made it. Eigen's product does not bear that:
a thread packs a panel of one part of the sum into a buffer of its own, announces it, and goes on to multiply it; the
announcement now packs the next part's panel first, into the same buffer (`pack_rhs` and `signal_switch` in Eigen's
TensorContractionThreadPool.h, where a comment warns of this order).

So it takes a sum of several parts (up to 300 terms are one, 330 are two) and rows for at least 8 shares per thread (up
to four threads; a share had 216 rows). What is wrong is no rounding: a share of the rows is another product.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

COLUMNS, STEPS = 60, 450
ROWS = 225 * 8  # for each thread of the pool


def main(programs: int = 2, terms: int = 400) -> None:
    jax.devices()
    pool = [task.read_text() for task in Path("/proc/self/task").glob("*/comm")].count("tf_XLAEigen\n")
    random = np.random.default_rng(0)
    left, right = (jnp.asarray(random.normal(size=(terms, m)), jnp.float32) for m in (ROWS * max(2, pool), COLUMNS))
    expected = jnp.asarray(np.asarray(left, np.float64).T @ np.asarray(right, np.float64), jnp.float32)

    def step(left, _):
        product = jnp.matmul(left.T, right)
        bits = jnp.sum(jax.lax.bitcast_convert_type(product, jnp.uint32))
        return left + 1e-30 * product[0, 0], (bits, jnp.max(jnp.abs(product - expected)))

    program = jax.jit(lambda left: jax.lax.scan(step, left, length=STEPS)[1]).lower(left).compile()
    print(f"{pool} threads, {STEPS} products of sums of {terms} terms, entries up to {np.max(np.abs(expected)):.0f}")
    for together in (1, programs):
        with ThreadPoolExecutor(together) as lanes:
            runs = [lanes.submit(lambda: np.asarray(program(left)[1])) for _ in range(together)]
        for error in (run.result() for run in runs):
            wrong = np.flatnonzero(error > 1e-2)
            said = f"{len(wrong)} wrong, from number {wrong[0] + 1} on" if len(wrong) else "none wrong"
            print(f"  {'alone' if together == 1 else f'one of {together}'}: {said}; off by up to {error.max():.1e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
