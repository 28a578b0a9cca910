"""A kernel that XLA writes wrongly (seen with jaxlib 0.11.2 on an H200): a concatenation behind a layer norm.

    python benchmarks/wrong_fusion.py

prints the share of rows that a GPU computes otherwise than a CPU. XLA makes such concatenations by itself where it
merges two products that share a factor, if the factors take less than 32 MB and the products are not Triton's
(`xla_gpu_enable_triton_gemm=false`): the sparse Transformer's evaluation on batches of 512 or 1,000 examples was 10 to
80% off for that reason, on 10,000 it was not. `xla_gpu_dot_merger_threshold_mb=0` leaves products as they are.
"""

import jax
import jax.numpy as jnp
import numpy as np

NETWORKS, N, HEADS, K, LEVELS, D = 80, 100, 16, 4, 4, 64


def weights(value, score, seen, cls, offset, most):
    """e^score at several levels, and times the values, side by side: [NETWORKS, LEVELS·HEADS·(K + 1), 2N]."""
    centred = cls - jnp.mean(cls, axis=1, keepdims=True)
    cls = centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=1, keepdims=True) + 1e-5)  # without it all is well
    own = jnp.sum(seen * cls[:, :, None], axis=1) + offset
    top = jnp.maximum(most, own)
    difference = (score + offset[:, None, None, :] - top[:, None, None, :]).transpose(0, 3, 1, 2)
    level = jnp.arange(LEVELS, dtype=score.dtype)[None, :, None, None, None]
    weight = jnp.exp(jnp.minimum(difference[:, None] + level, 60.0))
    weighted = weight[:, :, :, None] * value[:, None]
    rows = LEVELS * HEADS
    return jnp.concatenate([weighted.reshape(NETWORKS, rows * K, 2 * N), weight.reshape(NETWORKS, rows, 2 * N)], axis=1)


def main() -> None:
    random = np.random.default_rng(0)
    shapes = ((HEADS, K, 2, N), (2, N, HEADS), (D, HEADS), (D,), (HEADS,), (HEADS,))
    given = [0.3 * random.normal(size=(NETWORKS, *shape)).astype(np.float32) for shape in shapes]
    results = []
    for device in (jax.devices()[0], jax.devices("cpu")[0]):
        results.append(np.asarray(jax.jit(weights)(*(jax.device_put(array, device) for array in given))))
    off = np.abs(results[0] - results[1]) > 1e-3 * np.abs(results[1])
    print(f"{jax.devices()[0]}: {off.any(axis=(0, 2)).mean():.0%} of the rows differ from a CPU's")


if __name__ == "__main__":
    main()
