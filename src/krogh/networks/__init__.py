"""What is written by hand: networks constructed from a formula or compiled from a program, and what is said of them.

handmade                                                               the contract; `construct`, `load_network`
parity, one_step, sparse_heads, sparse_functions, memoriser, tokens/, groups/    constructed, registered by name
head_inputs                                                            what handmade heads read
compiled, circuits, automata, counting, machines/                      compiled from programs
relu, weight_files                                                     what they are made of, and files of them
margins/                                                               how far their weights may move
"""

from krogh.networks.handmade import (
    Checked,
    Construction,
    Constructor,
    Handmade,
    Oracle,
    construct,
    construction,
    handmade,
    load_network,
)

__all__ = [
    "Checked",
    "Construction",
    "Constructor",
    "Handmade",
    "Oracle",
    "construct",
    "construction",
    "handmade",
    "load_network",
]
