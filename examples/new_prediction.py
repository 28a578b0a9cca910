"""A new prediction: how often a network that still makes mistakes passes a validation sample, beside a simulation."""

from __future__ import annotations

import numpy as np

import krogh


@krogh.prediction("validation/luck", source="a binomial law", constants="all explicit")
def validation_luck(error: float, validation: int, checks: int = 1):
    """Chance that a network of a given error makes no mistake on a validation sample.

    (1 - e)^v once, and at most c (1 - e)^v at one of c checks on fresh samples
    """
    krogh.require(0 <= error <= 1, f"error is a share between 0 and 1; got error={error}")
    once = (1 - error) ** validation
    return {"once": once, "at_most": min(1.0, checks * once), "mistakes_expected": error * validation}


predicted = krogh.predict("validation/luck", error=0.01, validation=128)
wider = krogh.predict("validation/luck", error="0.01", validation="1024", checks="100")  # text, as on a command line
simulated = (np.random.default_rng(0).binomial(128, 0.01, 10_000) == 0).mean()
print(f"an error of 1% passes 128 examples with probability {predicted['once']:.3f}; simulated {simulated:.3f}")
print(f"and 1024 examples at one of 100 checks with probability at most {wider['at_most']:.4f}")
assert abs(simulated - predicted["once"]) < 0.02
try:
    krogh.predict("validation/luck", eror=0.01, validation=128)
except krogh.KroghError as message:
    print(message)
