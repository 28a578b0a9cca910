"""What is observed: numbers measured on a model while it trains.

A probe lives in one module here and registers itself with `@probe("name")`. The contract is `Probe` in
`base.py`.
"""

from krogh.probes.base import Moment, Probe, probe
from krogh.probes.progress import BatchLoss, Error, Movement, SupportWeight

__all__ = ["BatchLoss", "Error", "Moment", "Movement", "Probe", "SupportWeight", "probe"]
