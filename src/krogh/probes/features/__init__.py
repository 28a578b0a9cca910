"""What a trained network of chapter 7 looks like, and how far it is from the maximum-margin family, in float64.

spectra.py    power of neurons at each frequency or irrep, and which neurons count
parity.py     supports, sign patterns and balance of parity networks
nearest.py    the optimal neuron nearest to a given one
distance.py   distance of a network from the family: neurons, shares, function
"""
