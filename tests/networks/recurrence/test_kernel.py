"""The tangent kernel against explicit gradients, its width, and regression with it against the primal problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.elman import elman_states
from krogh.networks.recurrence.kernel import (
    kernel_between,
    kernel_predictions,
    kernel_regression,
    kernel_regressions,
    tangent_kernels,
)
from krogh.networks.recurrence.random_network import random_rnn
from krogh.tasks.token_sequences import draw_tokens, normalise_tokens


def sequences(count: int, length: int = 5, seed: int = 0) -> np.ndarray:
    tokens = draw_tokens(jax.random.key(seed), count, length - 2, 3)
    return np.asarray(normalise_tokens(tokens, 0.7, "eps"), np.float64)


def gradients(network, x, j):
    """∂y_{j,o}/∂W and ∂y_{j,o}/∂A of every sequence by autodiff: [batch, outputs, numbers], in float64."""
    with jax.enable_x64(True):
        B = jnp.asarray(network.B)

        def answers(W, A):
            return jnp.einsum("om,bm->bo", B, elman_states(W, A, jnp.asarray(x))[j - 1])

        jacobian = jax.jacobian(answers, argnums=(0, 1))(jnp.asarray(network.W), jnp.asarray(network.A))
        return [np.asarray(one).reshape(*one.shape[:2], -1) for one in jacobian]


@pytest.mark.parametrize(("j", "other_j"), [(5, 5), (4, 5), (3, 3)])
def test_tangent_kernels_are_products_of_gradients(j, other_j):
    network = random_rnn(12, 4, outputs=2, seed=1)
    x, other = sequences(4), sequences(3, seed=1)
    kernels = tangent_kernels(network.run(x), network.run(other), j, other_j)
    for kernel, left, right in zip(
        (kernels.W, kernels.A), gradients(network, x, j), gradients(network, other, other_j), strict=True
    ):
        np.testing.assert_allclose(kernel, np.einsum("aop,brp->aobr", left, right), rtol=1e-9, atol=1e-12)


def test_kernel_between_orders_answers_by_sequence_position_and_output():
    network = random_rnn(10, 4, outputs=2, seed=2)
    x, positions = sequences(3), (3, 5)
    rows = np.stack(
        [np.concatenate(gradients(network, x, j), axis=-1) for j in positions], axis=1
    )  # [b, j, o, numbers]
    flat = rows.reshape(12, -1)
    run = network.run(x)
    np.testing.assert_allclose(kernel_between(run, run, positions, ("W", "A")), flat @ flat.T, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_terms_of_unequal_places_fall_like_the_root_of_the_width():
    x = sequences(6)
    sizes = []
    for width in (100, 1600):
        left_out = []
        for seed in range(8):
            run = random_rnn(width, 4, seed=seed).run(x)
            whole, aligned = (tangent_kernels(run, run, aligned=flag).W for flag in (False, True))
            left_out.append(np.linalg.norm(whole - aligned) / np.linalg.norm(aligned))
        sizes.append(np.mean(left_out))
    assert 2.5 < sizes[0] / sizes[1] < 6.5  # 4 = √16
    assert sizes[1] < 0.1


@pytest.mark.parametrize("trained", [("W",), ("W", "A")])
@pytest.mark.slow
def test_kernel_regression_is_ridge_regression_on_the_gradients(trained):
    network, positions, ridge = random_rnn(9, 4, seed=3), (4, 5), 1e-2
    x, fresh, y = sequences(7), sequences(5, seed=9), np.random.default_rng(0).standard_normal((7, 2, 1))
    fit = kernel_regression(network, x, y, positions, trained, ridge)

    def features(given):
        kept = [np.stack([gradients(network, given, j)["WA".index(name)] for j in positions], 1) for name in trained]
        return np.concatenate(kept, axis=-1).reshape(2 * len(given), -1)

    def initial(given):
        run = network.run(given)
        return np.stack([run.output(j) for j in positions], axis=1)

    F = features(x)
    rho = ridge * np.mean(np.sum(F**2, axis=1))
    theta = np.linalg.solve(F.T @ F + rho * np.eye(F.shape[1]), F.T @ (y - initial(x)).ravel())
    np.testing.assert_allclose(
        fit.predict(fresh), initial(fresh) + (features(fresh) @ theta).reshape(5, 2, 1), rtol=1e-7, atol=1e-9
    )
    assert fit.norm == pytest.approx(np.linalg.norm(theta), rel=1e-7)


def test_several_ridges_are_fitted_and_asked_at_once():
    network, x, fresh = random_rnn(8, 4, seed=5), sequences(6), sequences(4, seed=2)
    y = np.random.default_rng(1).standard_normal((6, 1, 1))
    fits = kernel_regressions(network, x, y, ridges=(1e-3, 1.0))
    for ridge, fit, said in zip((1e-3, 1.0), fits, kernel_predictions(fits, fresh), strict=True):
        alone = kernel_regression(network, x, y, ridge=ridge)
        assert np.allclose(said, alone.predict(fresh)) and fit.norm == pytest.approx(alone.norm)
    assert fits[1].norm < fits[0].norm
    with pytest.raises(KroghError, match="fits to the same data"):
        kernel_predictions([fits[0], kernel_regression(network, x, y)], fresh)


def test_kernel_refuses_other_networks_places_and_names():
    one, two, x = random_rnn(4, 4), random_rnn(4, 4, seed=1), sequences(2)
    with pytest.raises(KroghError, match="one network"):
        tangent_kernels(one.run(x), two.run(x))
    with pytest.raises(KroghError, match="j must be an integer between 1 and 5; got j=6"):
        tangent_kernels(one.run(x), one.run(x), 6)
    with pytest.raises(KroghError, match="unknown trained weights 'B'"):
        kernel_regression(one, x, np.zeros((2, 1, 1)), trained=("B",))
    with pytest.raises(KroghError, match=r"labels have the shape \[2, 1, 1\]; got \[2\]"):
        kernel_regression(one, x, np.zeros(2))
    with pytest.raises(KroghError, match="ridge must be a number"):
        kernel_regression(one, x, np.zeros((2, 1, 1)), ridge=-1.0)
