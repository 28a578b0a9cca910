"""Networks that the theory of recurrent networks writes down, and the random ones that it writes them into.

random_network.py   `RandomRnn`: the ReLU Elman network at initialisation, its signs, backward matrices and expansion
kernel.py           `tangent_kernels` and `kernel_regression`: what training near initialisation comes to
decoders.py         linear decoders from the weights themselves: what the last state still knows of the inputs
learned_decoder.py  the best linear decoder in closed form, by ridge regression
pseudo_network.py   a shift of A that makes the expansion a function of the whole sequence
neurons.py          languages by a few smooth neurons that see a whole word
twin.py             the same network with some rows drawn anew; norms.py: sizes that the theory rests on
"""
