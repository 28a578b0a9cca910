"""Networks that the theory of recurrent networks writes down, and the random ones that it writes them into.

random_network.py   `RandomRnn`: the ReLU Elman network at initialisation, its signs, backward matrices and expansion
hermite.py          a weight by which threshold neurons compute a smooth function
selector.py         which picks one function of one token off the signs of a random network
good_shift.py       the shift of the recurrent matrix that makes a sum over tokens of such functions
counting.py         an exact network of four units that counts letters
measures.py         errors of constructions, gains, movement, and how linear a network is
kernel.py           `tangent_kernels` and `kernel_regression`: what training near initialisation comes to
decoders.py         linear decoders from the weights themselves: what the last state still knows of the inputs
learned_decoder.py  the best linear decoder in closed form, by ridge regression
pseudo_network.py   a shift of A that makes the expansion a function of the whole sequence
neurons.py          languages by a few smooth neurons that see a whole word
twin.py             the same network with some rows drawn anew; norms.py: sizes that the theory rests on
"""
