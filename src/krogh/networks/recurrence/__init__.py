"""Networks that the theory of recurrent networks writes down, and the random ones that it writes them into.

random_network.py   `RandomRnn`: the ReLU Elman network at initialisation, its signs, backward matrices and expansion
kernel.py           `tangent_kernels` and `kernel_regression`: what training near initialisation comes to
"""
