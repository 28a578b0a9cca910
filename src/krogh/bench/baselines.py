"""What a researcher would write instead, in PyTorch: an eager loop, and `torch.func` over many networks.

Neither validates or stops; both draw fresh examples every step, on the device that PyTorch finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec

from krogh.bench.workload import BATCH, RATE, WIDTH, K, Measured, N


def available() -> bool:
    """Whether PyTorch is installed."""
    return find_spec("torch") is not None


def eager(seconds: float) -> Measured:
    """One network, module, autograd and optimiser as in a tutorial."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = torch.nn.Sequential(torch.nn.Linear(N, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 1, bias=False)).to(
        device
    )
    optimiser = torch.optim.SGD(network.parameters(), lr=RATE)

    def step() -> None:
        x = torch.randint(0, 2, (BATCH, N), device=device).float() * 2 - 1
        y = x[:, :K].prod(dim=1)
        loss = torch.clamp(1 - y * network(x).squeeze(1), min=0).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return Measured("PyTorch, eager loop, one network", _rate(step, seconds, _wait(device)), 1, device)


def vmapped(seconds: float, networks: int | None = None) -> Measured:
    """Many networks at once through `torch.func.vmap` of `grad`."""
    import torch
    from torch.func import grad, vmap

    device = "cuda" if torch.cuda.is_available() else "cpu"
    count = networks or (4096 if device == "cuda" else 64)
    params = {
        "W": (torch.rand(count, WIDTH, N, device=device) * 2 - 1) / N**0.5,
        "b": (torch.rand(count, WIDTH, device=device) * 2 - 1) / N**0.5,
        "u": (torch.rand(count, WIDTH, device=device) * 2 - 1) / WIDTH**0.5,
    }

    def loss(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(x @ params["W"].T + params["b"])
        return torch.clamp(1 - y * (hidden @ params["u"]), min=0).mean()

    gradient = vmap(grad(loss))

    def step() -> None:
        x = torch.randint(0, 2, (count, BATCH, N), device=device).float() * 2 - 1
        y = x[:, :, :K].prod(dim=2)
        for name, slope in gradient(params, x, y).items():
            params[name] -= RATE * slope

    return Measured(
        f"PyTorch, torch.func, {count} networks", count * _rate(step, seconds, _wait(device)), count, device
    )


def _wait(device: str) -> Callable[[], None]:
    import torch

    return torch.cuda.synchronize if device == "cuda" else lambda: None


def _rate(step: Callable[[], None], seconds: float, wait: Callable[[], None]) -> float:
    """Steps per second, after a warm-up."""
    for _ in range(20):
        step()
    wait()
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for _ in range(10):
            step()
        done += 10
        wait()
    return done / (time.perf_counter() - begun)
