"""What experiments of chapter 5 share: online training on fresh batches until every validation example is right."""

from __future__ import annotations

from dataclasses import dataclass

from krogh.lab import setting
from krogh.training import Online, Optimiser, Stopping, Training

CHECK_EVERY = 10


@dataclass(frozen=True)
class OnlineSettings:
    """When a trial has succeeded, and when it has failed."""

    budget: int = setting(100_000, "steps after which a trial has failed", least=1)
    validation: int = setting(128, "validation examples, all of which must be right", least=1)

    def training(self, optimiser: Optimiser, batch_size: int) -> Training:
        stopping = Stopping(budget=self.budget, validation=self.validation, check_every=CHECK_EVERY)
        return Training(optimiser, Online(batch_size), stopping)
