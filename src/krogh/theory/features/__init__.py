"""What a trained network of chapter 7 looks like, and how far it is from the maximum-margin family, in float64.

spectra.py          frequencies: normalised power of u, v, w, and phases
parts.py            neurons and ν-norm shares per frequency or irrep
transforms.py       coefficient matrices, and what of the function is signal
parity.py           sign patterns and off-support weights of parity networks
nearest_neurons.py  the optimal neuron nearest to a given one
nearest_fits.py     the phases, signs or vectors behind it
distance.py         distance of a network from the family: neurons, shares, function
"""

from krogh.theory.features import distance, nearest_fits, nearest_neurons, parity, parts, spectra, transforms

__all__ = ["distance", "nearest_fits", "nearest_neurons", "parity", "parts", "spectra", "transforms"]
