"""Decoders written down from random weights: both forms, the derivative, the error of one layer, the reference."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.recurrence.decoders import (
    Recovery,
    SequenceDecoder,
    along,
    base_of,
    decoding_law,
    decoding_matrix,
    decoding_rows,
    inversion_errors,
    make_decoder,
    make_recovery,
    own_signs_rms,
    recovered,
    recovery_rms,
    relu_layer,
    single_step_error,
    some_sequences,
    token_decoder,
)
from krogh.networks.recurrence.random_network import random_rnn
from krogh.tasks.token_sequences import check_tokens

M, L, DX, EPS = 300, 5, 3, 0.1


@pytest.fixture(scope="module")
def network():
    return random_rnn(M, DX + 1, seed=3)


@pytest.fixture(scope="module")
def base(network):
    return network.run(base_of(L, DX, EPS))


def test_sequences_have_unit_tokens_and_ends():
    x = some_sequences(6, L, DX, EPS, seed=1)
    check_tokens(x[:, 1:-1, :-1] / EPS)
    assert x.shape == (6, L, DX + 1) and not x[:, 1:-1, -1].any()
    assert np.array_equal(x[:, [0, -1]], np.tile([0.0] * DX + [1.0], (6, 2, 1)))


def test_every_block_is_the_product_that_the_source_writes(network, base):
    """Block l of V^[L] is D_L W ... D_{l+1} W D_l A, multiplied out one factor at a time."""
    V, D = decoding_matrix(base), base.active[:, 0].astype(float)
    assert V.shape == (M, L * (DX + 1))
    for l in range(1, L + 1):  # noqa: E741
        block = D[l][:, None] * network.A
        for k in range(l + 1, L + 1):
            block = D[k][:, None] * (network.W @ block)
        assert np.allclose(V[:, (l - 1) * (DX + 1) : l * (DX + 1)], block, atol=1e-12)


def test_both_forms_are_one_matrix(base):
    """Claim E.3."""
    assert np.allclose(decoding_rows(base), decoding_matrix(base).T, atol=1e-12)
    assert np.allclose(decoding_rows(base, 3), decoding_matrix(base, last=3).T, atol=1e-12)


def test_the_state_at_the_base_sequence_is_the_decoder_times_it(base):
    """A network is linear where no sign changes."""
    assert np.allclose(decoding_matrix(base) @ base.x.ravel(), base.h[-1, 0], atol=1e-12)


def test_the_token_decoder_is_a_part_of_the_one_of_all_inputs(base):
    full = decoding_matrix(base, last=L - 1).reshape(M, L - 1, DX + 1)
    assert np.allclose(token_decoder(base), full[:, 1:, :-1].reshape(M, -1), atol=1e-12)
    w = np.random.default_rng(0).standard_normal((L - 2) * DX)
    assert np.allclose(along(base, w), token_decoder(base) @ w, atol=1e-12)


def test_inversion_errors_are_what_they_say(network, base):
    run = network.run(some_sequences(4, L, DX, EPS, seed=2))
    found, V = inversion_errors(run, base), decoding_matrix(base)
    decoded = np.stack([V.T @ h for h in run.h[-1]]).reshape(run.x.shape)
    off = decoded - run.x
    assert found.largest == pytest.approx(np.abs(off).max()) and found.rms == pytest.approx(np.sqrt((off**2).mean()))
    size = EPS * np.sqrt(L - 2)
    relative = [np.linalg.norm(one[1:-1, :-1]) / size for one in off]
    assert found.relative == pytest.approx(np.mean(relative))
    centred = decoded - (V.T @ base.h[-1, 0]).reshape(base.x.shape) - (run.x - base.x)
    assert found.centred_rms == pytest.approx(np.sqrt((centred**2).mean()))
    assert found.centred == pytest.approx(np.mean([np.linalg.norm(one[1:-1, :-1]) / size for one in centred]))
    at_base = (base.h[-1] @ V).reshape(base.x.shape) - base.x
    assert own_signs_rms(base) == pytest.approx(np.sqrt((at_base**2).mean())), "its own signs are the base's"


def test_the_errors_are_those_of_the_reference():
    """√m·RMS 2.61 to 3.17 and a centred relative error of .155 at L = 4, m = 2000, dx = 4, ε_x = .1."""
    scaled, centred = [], []
    for seed in range(4):
        network = random_rnn(2000, 5, seed=seed, dtype=np.float32)
        base = network.run(base_of(4, 4, 0.1, "float32"))
        found = inversion_errors(network.run(some_sequences(20, 4, 4, 0.1, seed, "float32")), base)
        scaled.append(found.rms * 2000**0.5)
        centred.append(found.centred)
    assert 2.3 < np.mean(scaled) < 3.6 and 0.7 < np.mean(scaled) / (2000**0.5 * decoding_law(2000, 4)) < 1.3
    assert 0.13 < np.mean(centred) < 0.22


def test_one_step_keeps_linear_functions(network, base):
    """u = [W, A] v reads v·[h, x] off the next state, with the error of one layer of T = √(m/2) [W, A]."""
    run, v = network.run(some_sequences(3, L, DX, EPS, seed=4)), np.random.default_rng(1).standard_normal(M + DX + 1)
    T = np.sqrt(M / 2) * np.concatenate([network.W, network.A], axis=1)
    for position in (1, 4):
        x = np.concatenate([run.h[position - 1], run.x[:, position - 1]], axis=1)
        expected = np.abs(recovered(T, np.tile(v, (3, 1)), x) - x @ v) / np.linalg.norm(v)
        assert np.allclose(single_step_error(run, position, v), expected, atol=1e-12)


def test_one_layer_errs_by_its_exact_law():
    """Over 4000 layers of 25 units: the mean is v·x and the mean square is the law's, at three angles."""
    T = relu_layer(100_000, 6, seed=5).reshape(4000, 25, 6)
    v = np.array([1.0, 2, 0, 0, -1, 0])
    for x in (v, np.array([2.0, -1, 1, 0, 0, 1]), np.array([0.0, 1, 0, 1, 0, 0])):
        found = np.array([recovered(layer, v, x) for layer in T])
        error, law = found - v @ x, recovery_rms(v, x, 25)
        assert abs(error.mean()) < 4 * law / 4000**0.5
        assert np.sqrt((error**2).mean()) == pytest.approx(law, rel=0.06)
    assert recovered(3 * T[0], v, v, spread=9.0) == pytest.approx(recovered(T[0], v, v)), "any variance"


@pytest.mark.parametrize("reads", ["sequence", "tokens"])
def test_a_decoder_decodes(reads):
    made = make_decoder(M, L, DX, EPS, reads)
    assert isinstance(made, SequenceDecoder)
    x = some_sequences(5, L, DX, EPS, seed=9)
    assert made.run(x).shape == made.truth(x).shape == ((5, L, DX + 1) if reads == "sequence" else (5, L - 2, DX))
    base = made.network.run(made.base)
    moved = made.run(x, centred=True) - (made.truth(x) - made.truth(made.base))
    errors = inversion_errors(made.network.run(x), base)
    if reads == "sequence":
        assert np.sqrt((moved**2).mean()) == pytest.approx(errors.centred_rms)
    checked = made.check()
    assert checked.holds and checked.details["off_derivative"] < 1e-12 and not checked.exhaustive


def test_the_certificate_bounds_the_error_where_no_sign_changes():
    made = make_decoder(M, L, DX, EPS)
    tiny = made.base + 1e-6 * np.random.default_rng(3).standard_normal(made.base.shape)
    assert np.array_equal(made.network.run(tiny).active, made.network.run(made.base).active)
    for x in (made.base, tiny):
        assert np.linalg.norm(made.run(x) - x) <= made.certificate().value * np.linalg.norm(x) + 1e-12


def test_recovery_of_one_layer():
    made = make_recovery(500, 8, seed=2)
    assert isinstance(made, Recovery) and made.check().holds
    x = np.random.default_rng(0).standard_normal((3, 8))
    assert np.allclose(made.run(x)[:, 2], recovered(made.parameters["T"], np.eye(8)[[2] * 3], x))


def test_bad_settings_are_said():
    with pytest.raises(KroghError, match=r"reads.*'token'.*tokens"):
        make_decoder(10, 4, reads="token")
    with pytest.raises(KroghError, match="eps_x must be above 0 and at most 1; got eps_x=0"):
        make_decoder(10, 4, eps_x=0.0)
    with pytest.raises(KroghError, match="dtype"):
        make_decoder(10, 4, dtype="float16")
    with pytest.raises(KroghError, match=r"a decoder reads \[batch, 5, 4\]; got"):
        make_decoder(10, 5, 3).run(np.zeros((2, 4, 4)))
    with pytest.raises(KroghError, match="spread"):
        relu_layer(4, 4, spread=0.0)


@pytest.mark.slow
def test_width_ten_thousand_fits_into_four_gigabytes():
    """In a process of its own: building, decoding and checking."""
    code = (
        "from peak_memory import peak_kilobytes\n"
        "from krogh.networks.recurrence.decoders import make_decoder\n"
        "made = make_decoder(10_000, 6, dtype='float32')\n"
        "assert made.check().holds\n"
        "print(peak_kilobytes())\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(ran.stdout) * 1024 < 4 * 2**30
