"""The same computation in another arithmetic: exactly, or with every rounding of a device, drawn at random.

A float32 function is traced as it is, and its operations are carried out one by one in float64. Integers, keys and
random bits are left alone, so examples are the same bit for bit. On the way all may be rounded as a device would:

    operands of a product      to `operands` bits of mantissa (8: bf16, 11: TF32, 24: float32)
    sums of n terms t_i        off by up to √n · 2^-24 · (Σ t_i²)^½ · 3^½, the size of a random walk of partial sums
    results of operations      to 24 bits

To round to p bits is to add a random fraction of a unit in the last place, uniform in [0, lean], and to cut off the
rest. lean = 1 is stochastic rounding, without bias; lean = 0 cuts off towards zero, whose errors all have one sign, as
tensor cores may do; rounding to the nearest lies between. What p bits can hold stays as it is. Draws with several leans
say how far from the exact result a device's result may be (Monte-Carlo arithmetic: Parker 1997), however rounding
errors grow on the way: through layers, through steps, through a division by a small gradient. A lean below 0 rounds
nothing, so that one program gives the exact result too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

BF16, KERNEL, TF32, FLOAT32 = 8, 22, 11, 24
"""Bits of mantissa, the leading one among them; the resident kernel splits factors into two halves of 11 bits."""
WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}
INLINE = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
# These move numbers or choose among them: nothing is rounded.
EXACT = frozenset(
    {"abs", "broadcast_in_dim", "clamp", "concatenate", "convert_element_type", "copy", "dynamic_slice", "expand_dims"}
    | {"dynamic_update_slice", "gather", "imag", "max", "min", "neg", "optimization_barrier", "pad", "real", "select_n"}
    | {"reduce_max", "reduce_min", "reduce_precision", "reshape", "rev", "sign", "slice", "sort", "split", "squeeze"}
    | {"stop_gradient", "transpose", "scatter", "scatter-min", "scatter-max", "copy_p", "device_put"}
)
SCATTERS: dict[str, Callable[..., Any]] = {
    "scatter": jax.lax.scatter,
    "scatter-add": jax.lax.scatter_add,
    "scatter-mul": jax.lax.scatter_mul,
    "scatter-min": jax.lax.scatter_min,
    "scatter-max": jax.lax.scatter_max,
}
SUMS = {"reduce_sum": "axes", "cumsum": "axis"}


EXACT_LEAN = -1.0


def carried_out(function: Callable[..., Any], operands: int, *arguments: Any) -> Callable[..., Any]:
    """`function`, traced on `arguments`, in float64, rounded: g(leans, *arguments) with a result for each of the leans.

    Each of them has roundings of its own, but for those below 0, which have none.
    """
    traced = _retraced(function, arguments)

    def carry_out(leans: Any, *given: Any) -> Any:
        numbered = (leans, jnp.arange(leans.shape[0], dtype=jnp.uint64))
        return jax.lax.map(lambda draw: traced(given, _Rounded(operands, *draw)), numbered)

    program = jax.jit(carry_out)

    def called(leans: Any, *given: Any) -> Any:
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, program(np.asarray(leans, np.float64), *given))

    return called


def with_short_operands(function: Callable[..., Any], operands: int) -> Callable[..., Any]:
    """`function` in float32, the operands of its products rounded to the nearest of so many bits: a GPU's TF32 on any
    device, up to the order of sums."""

    def shortened(*arguments: Any) -> Any:
        return _retraced(function, arguments)(arguments, _Short(operands))

    return shortened


class _Arithmetic:
    """Float64 or float32, nothing rounded beyond."""

    wide = True

    def operand(self, value: Any, highest: bool) -> Any:
        return value

    def result(self, value: Any) -> Any:
        return value

    def sum(self, total: Any, squares: Callable[[], Any], terms: int) -> Any:
        return total


class _Short(_Arithmetic):
    """Float32, but for the operands of products."""

    wide = False

    def __init__(self, operands: int):
        self._operands = operands

    def operand(self, value: Any, highest: bool) -> Any:
        return value if highest else jax.lax.reduce_precision(value, 8, self._operands - 1)


class _Rounded(_Arithmetic):
    """Float64, rounded; every operation's results in another way, by its number."""

    def __init__(self, operands: int, lean: Any, seed: Any):
        self._operands, self._lean, self._seed = operands, lean, seed
        self._number = 0

    def operand(self, value: Any, highest: bool) -> Any:
        return self._cut(value, FLOAT32 if highest else self._operands)

    def result(self, value: Any) -> Any:
        return self._cut(value, FLOAT32)

    def sum(self, total: Any, squares: Callable[[], Any], terms: int) -> Any:
        if jnp.iscomplexobj(total):
            return self.result(total)
        walked = np.sqrt(3.0 * terms) * 2.0**-FLOAT32 * jnp.sqrt(squares()) * (2.0 * self._uniform(total) - 1.0)
        return self.result(jnp.where(self._lean < 0, total, total + walked))

    def _cut(self, value: Any, bits: int) -> Any:
        if jnp.iscomplexobj(value):
            return jax.lax.complex(self._cut(jnp.real(value), bits), self._cut(jnp.imag(value), bits))
        cut = 53 - bits
        added = (self._uniform(value) * jnp.maximum(self._lean, 0.0) * 2.0**cut).astype(jnp.uint64)
        word = jax.lax.bitcast_convert_type(value, jnp.uint64) + jnp.minimum(added, jnp.uint64(2**cut - 1))
        kept = jax.lax.bitcast_convert_type(word & jnp.uint64(2**64 - 2**cut), jnp.float64)
        return jnp.where(self._lean < 0, value, kept)

    def _uniform(self, value: Any) -> Any:
        """A number in [0, 1) for each of `value`, by a hash of its bits."""
        self._number += 1
        salt = jnp.uint64(zlib.crc32(self._number.to_bytes(4, "little")) << 20) + self._seed
        word = jax.lax.bitcast_convert_type(value, jnp.uint64) + salt * jnp.uint64(0x9E3779B97F4A7C15)
        for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
            word = (word ^ (word >> jnp.uint64(30))) * jnp.uint64(factor)
        return (word >> jnp.uint64(12)).astype(jnp.float64) * 2.0**-52


def _retraced(function: Callable[..., Any], arguments: Any) -> Callable[[Any, _Arithmetic], Any]:
    with jax.enable_x64(False):
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    treedef = jax.tree.structure(shapes)

    def evaluated(given: Any, how: _Arithmetic) -> Any:
        return jax.tree.unflatten(
            treedef, _evaluate(closed, [_taken(leaf, how) for leaf in jax.tree.leaves(given)], how)
        )

    return evaluated


def _taken(value: Any, how: _Arithmetic) -> Any:
    """A number from outside: as wide as the arithmetic."""
    value = value if hasattr(value, "dtype") else np.asarray(value)
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value
    wider = WIDER.get(value.dtype) if how.wide else None
    return jnp.asarray(value) if wider is None else jnp.asarray(value).astype(wider)


def _evaluate(closed: ClosedJaxpr, arguments: list[Any], how: _Arithmetic) -> list[Any]:
    """The program's results, operation by operation."""
    jaxpr = closed.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, [_taken(value, how) for value in closed.consts], strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(variable: Any) -> Any:
        if isinstance(variable, Literal):
            return _taken(np.asarray(variable.val, getattr(variable.aval, "dtype", None)), how)
        return known[variable]

    for equation in jaxpr.eqns:
        given = [read(variable) for variable in equation.invars]
        known.update(zip(equation.outvars, _operate(equation, given, how), strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _operate(equation: Any, given: list[Any], how: _Arithmetic) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    if name in INLINE:
        inner = next(params[word] for word in ("jaxpr", "call_jaxpr", "fun_jaxpr") if word in params)
        return _evaluate(inner if hasattr(inner, "consts") else ClosedJaxpr(inner, ()), given, how)
    if name in LOOPS:
        return list(LOOPS[name](equation, given, how))
    if name == "bitcast_convert_type" and how.wide:  # bits are those of 32-bit numbers, on both sides
        narrow = {wide: dtype for dtype, wide in WIDER.items()}
        given = [value.astype(narrow.get(value.dtype, value.dtype)) for value in given]
        return [_taken(equation.primitive.bind(*given, **params), how)]
    if name in EXACT or not any(_is_real(value) for value in given):
        return _bound(equation, given, how)
    if name in ("dot_general", "conv_general_dilated"):
        highest = "HIGHEST" in str(params.get("precision"))
        given = [how.operand(value, highest) for value in given]
        (total,) = _bound(equation, given, how)
        return [how.sum(total, lambda: _bound(equation, [x * x for x in given], how)[0], _terms(params, given))]
    (*results,) = _bound(equation, given, how)
    if name in SUMS:
        terms = int(np.prod([given[0].shape[axis] for axis in np.atleast_1d(params[SUMS[name]])]))
        return [how.sum(results[0], lambda: _bound(equation, [given[0] * given[0]], how)[0], terms)]
    return [how.result(value) if _is_real(value) else value for value in results]


def _is_real(value: Any) -> bool:
    """Whether these are numbers that are rounded: neither integers nor keys."""
    return value.dtype in WIDER or value.dtype in WIDER.values()


def _terms(params: Any, given: list[Any]) -> int:
    """How many terms each entry of a product sums."""
    numbers = params["dimension_numbers"]
    if hasattr(numbers, "rhs_spec"):  # a convolution: all of a filter but its outputs
        return max(1, given[1].size // given[1].shape[numbers.rhs_spec[0]])
    (left, _), _ = numbers
    return int(np.prod([given[0].shape[axis] for axis in left], initial=1))


def _bound(equation: Any, given: list[Any], how: _Arithmetic) -> list[Any]:
    params = equation.params
    if how.wide:  # where a parameter names a dtype, it names the wider one
        params = {
            key: WIDER.get(np.dtype(value), value) if _is_dtype(value) else value for key, value in params.items()
        }
    if equation.primitive.name in SCATTERS:  # their programs hold another one, of how two numbers are put together
        words = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
        return [SCATTERS[equation.primitive.name](*given, **{word: params[word] for word in words})]
    results = equation.primitive.bind(*given, **params)
    return list(results) if equation.primitive.multiple_results else [results]


def _is_dtype(parameter: Any) -> bool:
    return isinstance(parameter, np.dtype) or (isinstance(parameter, type) and issubclass(parameter, np.generic))


def _scan(equation: Any, given: list[Any], how: _Arithmetic) -> list[Any]:
    # What is carried has the body's shape, what is scanned one axis more; parameters that count them change with JAX.
    params, body_of = equation.params, equation.params["jaxpr"].jaxpr
    carried = sum(o.aval.ndim == i.aval.ndim for o, i in zip(equation.outvars, body_of.outvars, strict=True))
    scanned = sum(o.aval.ndim > i.aval.ndim for o, i in zip(equation.invars, body_of.invars, strict=True))
    constants = len(given) - scanned - carried
    fixed, begun, fed = given[:constants], given[constants : constants + carried], given[constants + carried :]

    def body(carry: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
        out = _evaluate(params["jaxpr"], [*fixed, *carry, *slices], how)
        return out[:carried], out[carried:]

    ended, collected = jax.lax.scan(body, begun, fed, params["length"], params["reverse"])
    return [*ended, *collected]


def _while(equation: Any, given: list[Any], how: _Arithmetic) -> list[Any]:
    params = equation.params
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    return jax.lax.while_loop(
        lambda carry: _evaluate(params["cond_jaxpr"], [*given[:first], *carry], how)[0],
        lambda carry: _evaluate(params["body_jaxpr"], [*given[first:second], *carry], how),
        given[second:],
    )


def _cond(equation: Any, given: list[Any], how: _Arithmetic) -> list[Any]:
    params = equation.params
    branches = [lambda *values, own=branch: _evaluate(own, list(values), how) for branch in params["branches"]]
    return jax.lax.switch(given[0].astype(jnp.int32), branches, *given[1:])


LOOPS: dict[str, Callable[[Any, list[Any], _Arithmetic], list[Any]]] = {"scan": _scan, "while": _while, "cond": _cond}
