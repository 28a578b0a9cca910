"""What trained networks look like and how far they are from those that theory writes down (chapters 7 and 8).

spectra.py    power of neurons at each frequency or irrep, and which neurons count
parity.py     supports, sign patterns and balance of parity networks
nearest.py    the optimal neuron nearest to a given one
distance.py   distance of a network from the family: neurons, shares, function
induction.py  how near a transformer of chapter 8 is to the induction head written by hand
"""
