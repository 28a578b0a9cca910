"""What is known of learning recurrent networks by SGD before anything is trained.

complexity      what smooth functions cost: C_ε and C_s, in logarithms
scales          ρ and ϱ, orders of magnitude, and what happens outside a theorem's range
gram            a random network of infinite width: inner products of states, flipped signs
initialisation  lemmas on a random network: sizes, stability, near-linearity, inversion
sums            sums of functions of single tokens are learned
whole           functions of the whole sequence are learned
additive        what sums of functions of single tokens cannot do
"""
