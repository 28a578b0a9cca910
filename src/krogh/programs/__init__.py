"""What is computed, as formal objects: circuits, Turing machines, automata, groups."""
