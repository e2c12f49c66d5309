"""A family's inputs at other batches and lengths, and the sizes that an export keeps dynamic."""

import models
import torch
from torch.utils import _pytree as pytree

# How a family is run. fixed: with the sizes of its row; eager, sdpa: with dynamic batch and length, and that attention.
MODES = ("fixed", "eager", "sdpa")

# Inputs whose second dimension is a sequence of tokens.
SEQUENCES = {"input_ids", "attention_mask", "token_type_ids", "bbox", "decoder_input_ids", "decoder_attention_mask"}
RUNS = 5  # more than the largest batch of SIZES, since a row has one or two
SIZES = ((2, 0), (5, 3), (3, -1), (2, 0))  # (batch, tokens more than the row's) of the example and of the runs


def _name(path):
    return path[-1].key if path and isinstance(path[-1], pytree.MappingKey) else ""


def _grown(path, tensors, batch, more):
    """Joins the inputs of several runs, as rows, to one input, and appends further tokens."""
    first = tensors[0]
    if not isinstance(first, torch.Tensor) or first.dim() == 0:
        return first
    if _name(path) in SEQUENCES:
        size = first.shape[1] + more
        tensors = [torch.cat([a, b], 1)[:, :size] for a, b in zip(tensors, tensors[1:] + tensors[:1], strict=True)]
    return torch.cat(tensors)[:batch]


class Flat(torch.nn.Module):
    """A module with positional inputs: torch.export does not support dynamic sizes in **kwargs."""

    def __init__(self, module, structure):
        super().__init__()
        self.module = module
        self.structure = structure

    def forward(self, *leaves):
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return self.module(*args, **kwargs)


def _open(path, x):
    """Makes the batch of every tensor and the length of every sequence dynamic."""
    if not isinstance(x, torch.Tensor):
        return None
    axes = [0, 1] if _name(path) in SEQUENCES else [0]
    return {a: torch.export.Dim.DYNAMIC for a in axes if a < x.dim()}


def family(name, attention):
    """Returns (module, its inputs at each of SIZES, torch.export's dynamic_shapes)."""
    module = models.make(name, attention=attention)[0]
    runs = [models.make(name, run, attention)[1:] for run in range(RUNS)]
    leaves, structure = pytree.tree_leaves_with_path(runs[0]), pytree.tree_structure(runs[0])
    paths, each = [path for path, _ in leaves], list(zip(*map(pytree.tree_leaves, runs), strict=True))
    grown = [[_grown(p, list(e), *sizes) for p, e in zip(paths, each, strict=True)] for sizes in SIZES]
    shapes = (tuple(_open(p, x) for p, x in zip(paths, grown[0], strict=True)),)
    return Flat(module, structure).eval(), [(tuple(g), {}) for g in grown], shapes
