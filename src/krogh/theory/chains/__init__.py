"""In-context Markov chains: Bayes predictors, exact population gradients, the first two steps, loss floors.

laws         expectations over a prior of chains: quadrature for two symbols, Monte Carlo beyond
bayes        posteriors, the exact predictor of a chain that starts stationary, losses of strategies
gradients    the population gradient of the minimal model under the margin loss, for any k (section 8.3, E.1)
steps        closed forms and leading orders of the first two steps (Lemmas 8.4 and E.1, Corollary E.2)
curriculum   two steps on two priors and their limit (Propositions 8.5 and E.3)
floors       what the constructions reach at best as logits (Fact 8.3, Proposition 8.2)
"""
