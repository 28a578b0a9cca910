"""The ladder of gates that tests of all-layer margins share."""

from __future__ import annotations

from ladders import ladder, network, round_parameters

__all__ = ["ladder", "network", "round_parameters"]
