"""All-layer margins of handmade networks: how far all weights may move before an output changes (SM paper, D).

    search, attack               upper bounds: perturbations that flip the output, and trials that could refute a bound
    layers                       what a certificate has to know of a network
    circuits, automata, machines lower bounds by certificate, from Theorem D.6 and its proof layer by layer
    worst_cases                  what holds for all circuits or machines of a size, and the samples they ask for
    corrected                    the generic network with corrections and shared parameters
    report                       both bounds at once

The definition, the theorem and the toy chain are in `krogh.theory.programs`.
"""
