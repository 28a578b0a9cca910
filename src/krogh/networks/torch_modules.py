"""The Python modules that load networks by hand into PyTorch without krogh, with gaps for names and sizes."""

CHAIN = '''\
"""{name}: {statement}.

`load()` is a torch.nn.Sequential in float64 with the weights of {file}; inputs are [batch, {inputs}], outputs
[batch, {outputs}]. Inputs in order: {input_names}. Outputs in order: {output_names}.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file

SHAPES = {shapes}  # (out, in) of every Linear; a ReLU stands between two of them


def build():
    """The network without its weights."""
    parts = []
    for out, into in SHAPES:
        parts += [torch.nn.Linear(into, out, dtype=torch.float64), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def load(path=Path(__file__).with_suffix(".safetensors")):
    """The network with the weights of a file."""
    network = build()
    network.load_state_dict(load_file(path))
    return network
'''


READER = '''\
"""{name}: {statement}.

`load()` is a torch.nn.Module in float64 with the weights of {file}: a torch.nn.RNN with ReLU and a Linear that
reads its last state. It takes one-hot symbols [batch, length, {symbols}], as `encode` makes them of words, and returns
1 for every word that is accepted and -1 for every other, [batch].
"""

from pathlib import Path

import torch
from safetensors.torch import load_file

ALPHABET = {alphabet}


class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.RNN({symbols}, {width}, nonlinearity="relu", batch_first=True, dtype=torch.float64)
        self.readout = torch.nn.Linear({width}, 1, bias=False, dtype=torch.float64)
        self.register_buffer("initial", torch.zeros({width}, dtype=torch.float64))

    def forward(self, symbols):
        hidden = self.initial.repeat(1, len(symbols), 1)
        if symbols.shape[1]:
            _, hidden = self.rnn(symbols, hidden)
        return self.readout(hidden[0])[:, 0]


def encode(*words):
    """Words of one length as one-hot symbols."""
    numbers = torch.tensor([[ALPHABET.index(symbol) for symbol in word] for word in words])
    return torch.eye(len(ALPHABET), dtype=torch.float64)[numbers.long()]


def build():
    """The network without its weights."""
    return Reader()


def load(path=Path(__file__).with_suffix(".safetensors")):
    """The network with the weights of a file."""
    network = build()
    network.load_state_dict(load_file(path))
    return network
'''


MACHINE = '''\
"""{name}: {statement}.

`load()` is a torch.nn.Module in float64 with the weights of {file}: a transformer that writes a vector at every step
and reads what it has written.

    network = load()
    outputs = network(*encode("..."))   # the vectors after decoder steps 1, 2, ..., [words, steps, width]
    decode(outputs)                     # for every word: (state, symbol under the head, cell) at times 0, 1, ...
    network.classify(outputs)           # for every word: 1 where the machine has accepted, -1 rejected, 0 neither
"""

from pathlib import Path

import torch
from safetensors.torch import load_file

STATES = {states}
ALPHABET = {alphabet}  # the first one is blank
STEPS = {steps}  # of the decoder: a step to begin with, then those of the machine
WIDTH, HIGHEST_CELL, BITS = {width}, {highest}, {bits}
STATE, SYMBOL, CELL = slice({state}), slice({symbol}), slice({cell})  # where an output has what
INVERSE_TEMPERATURE = {temperature}  # None: attention is hard
LAYERS = [
{layers}
]  # the sizes of queries to what was written and to the input, 0 where a layer does not attend


def linear(into, out):
    return torch.nn.Linear(into, out, dtype=torch.float64)


def parameter(*shape):
    return torch.nn.Parameter(torch.zeros(*shape, dtype=torch.float64))


class Attention(torch.nn.Module):
    """h + sum_j p_j v_j over what is remembered and one slot of its own; p is uniform on the best, or a softmax."""

    def __init__(self, size):
        super().__init__()
        self.query, self.key, self.value = linear(WIDTH, size), linear(WIDTH, size), linear(WIDTH, WIDTH)
        self.null_key, self.null_value = parameter(size), parameter(WIDTH)

    def forward(self, h, keys, values, mask=0.0):
        query = self.query(h)
        scores = torch.einsum("bd,bnd->bn", query, keys) + mask
        scores = torch.cat([(query @ self.null_key)[:, None], scores], 1)
        if INVERSE_TEMPERATURE is None:
            best = scores == torch.amax(scores, 1, True)
            share = torch.where(best, torch.ones_like(scores), torch.zeros_like(scores))
            share = share / torch.sum(share, 1, True)
        else:
            share = torch.softmax(INVERSE_TEMPERATURE * scores, 1)
        return h + share[:, :1] * self.null_value + torch.einsum("bn,bnw->bw", share[:, 1:], values)


class Layer(torch.nn.Module):
    """Attention to what was written, attention to the input, and three layers of ReLU."""

    def __init__(self, written, given):
        super().__init__()
        self.decoder = Attention(written) if written else None
        self.encoder = Attention(given) if given else None
        sizes = [(WIDTH, WIDTH), (WIDTH, 2 * WIDTH), (2 * WIDTH, WIDTH)]
        self.feedforward = torch.nn.ModuleList([linear(into, out) for into, out in sizes])


class Machine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.first, self.readout = parameter(WIDTH, len(ALPHABET)), parameter(WIDTH), parameter(WIDTH)
        self.layers = torch.nn.ModuleList([Layer(written, given) for written, given in LAYERS])
        self.register_buffer("positions", torch.zeros({rows}, WIDTH, dtype=torch.float64))

    def forward(self, symbols, lengths, steps=STEPS):
        words, letters = symbols.shape
        encoded = self.embedding.T[symbols] + self.positions[1 : letters + 1]
        absent = torch.arange(letters, device=symbols.device) >= lengths[:, None]
        mask = torch.where(absent, -float("inf"), 0.0)
        given = [
            layer.encoder and (layer.encoder.key(encoded), layer.encoder.value(encoded), mask) for layer in self.layers
        ]
        written = [([], []) for _ in self.layers]
        output, outputs = torch.tile(self.first, (words, 1)), []
        for step in range(1, steps + 1):
            h = output + self.positions[step]
            for layer, (keys, values), memory in zip(self.layers, written, given, strict=True):
                if layer.decoder:
                    keys.append(layer.decoder.key(h))
                    values.append(layer.decoder.value(h))
                    h = layer.decoder(h, torch.stack(keys, 1), torch.stack(values, 1))
                if layer.encoder:
                    h = layer.encoder(h, *memory)
                for part in layer.feedforward:
                    h = torch.relu(part(h))
            output = h
            outputs.append(output)
        return torch.stack(outputs, 1)

    def classify(self, outputs):
        return outputs[:, -1] @ self.readout


def encode(*words):
    """Words, texts or lists of symbols, as numbers filled up with blanks, and their lengths."""
    longest = max(1, *map(len, words))
    numbers = [[ALPHABET.index(symbol) for symbol in word] + [0] * (longest - len(word)) for word in words]
    return torch.tensor(numbers), torch.tensor([len(word) for word in words])


def decode(outputs):
    """State, symbol under the head and cell of the head, for every word at every time."""
    return [[tuple(read(one)) for one in steps] for steps in outputs.tolist()]


def read(output):
    for names, where in ((STATES, STATE), (ALPHABET, SYMBOL)):
        marked = [name for name, value in zip(names, output[where], strict=True) if value > 0.5]
        yield marked[0] if len(marked) == 1 else None
    cell = int("".join("01"[bit > 0.5] for bit in output[CELL]), 2)
    yield cell if cell <= HIGHEST_CELL else cell - 2**BITS


def build():
    """The network without its weights."""
    return Machine()


def load(path=Path(__file__).with_suffix(".safetensors")):
    """The network with the weights of a file."""
    network = build()
    network.load_state_dict(load_file(path))
    return network
'''
