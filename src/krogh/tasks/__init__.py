"""What is learned: distributions over examples whose structure is known exactly.

A task lives in one module here and registers itself with `@task("name")`. Nothing here knows how a
network is trained. The contract is `Task` in `base.py`.
"""

from krogh.tasks.base import Examples, Task, task
from krogh.tasks.boolean import BooleanTask
from krogh.tasks.parity import DisjointParity, Parity, ParityControl

__all__ = ["BooleanTask", "DisjointParity", "Examples", "Parity", "ParityControl", "Task", "task"]
