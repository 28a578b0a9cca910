"""What may be asked of a compiled network on the command line, from whatever it is compiled.

Nothing here imports JAX (see `krogh.cli`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from krogh.errors import require, require_integer

Flag = Annotated[bool, Parameter(negative="")]


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted:
    """What is asked of a compiled network.

    Args:
        check: compare what the network computes with the program.
        margin: bound the all-layer margin from below (certificate) and from above (attack).
        restarts: of the attack; as many as take some seconds unless given.
        refinements: of the attack, for each restart.
        out: a safetensors file for the weights.
        json: print JSON.
    """

    check: Flag = False
    margin: Flag = False
    restarts: int | None = None
    refinements: int | None = None
    out: Path | None = None
    json: Flag = False

    def require_possible(self) -> None:
        """Refuse what cannot work before anything is compiled."""
        for name, least in (("restarts", 1), ("refinements", 0)):
            if getattr(self, name) is not None:
                require_integer(name, getattr(self, name), least)
                require(self.margin, f"--{name} belongs to --margin; got {name}={getattr(self, name)}")
        if self.out is not None:
            named = self.out.name not in ("", "..") and not self.out.is_dir()
            suggested = str(self.out / "weights.safetensors")
            require(named, f"weights are written to a file; got {str(self.out)!r} (try {suggested!r})")
            there = self.out.parent.is_dir()
            require(there, f"the weights cannot be written to {str(self.out)!r}: no folder {str(self.out.parent)!r}")
