"""Quantises, by rows, the weights of a program that is being built: the weights of products (including products of
grouped rows, as of experts), embeddings and convolutions.

If another op also reads such a weight, the weight is decoded for this op. A choice, the argument `quantize` of
clave.export, is a text for all weights (which does not store convolutions in llama.cpp's blocks), or a function of a
weight's name and tensor. The function returns a text, bytes that are already quantised (encodings.Stored), or None to
leave the weight unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from clave import schema
from clave.arguments import refused
from clave.builder import Body, MethodBuilder, Node, ProgramBuilder, Slot
from clave.encodings import Blocks, Groups, Stored, parse
from clave.errors import Error

Choice = str | Callable[[str, torch.Tensor], str | Stored | None] | None
_CONVOLUTIONS = ("Conv", "ConvTranspose")
_PRODUCTS = {"Matmul": 2, "GroupedMatmul": 3}  # dimensions of an operand b that may be encoded
_FLOATS = (schema.DType.F32, schema.DType.F16, schema.DType.BF16)


def check_choice(choice: Any) -> None:
    """Raises Error if the choice is not a text, a function or None."""
    if choice is not None and not callable(choice) and not isinstance(choice, str):
        raise refused("quantize", "a text such as 'int8', a function of a weight's name and tensor, or None", choice)


def quantize(builder: ProgramBuilder, choice: Choice) -> list[str]:
    """Encodes constants in place and returns their names. Raises Error for an unknown encoding, or if a weight cannot
    have its encoding."""
    if not callable(choice):
        parse(choice)
    users = _Users(builder)
    done = []
    for i, (slot, data) in enumerate(builder.constants):
        if slot.encoding or slot.rank < 2 or slot.dtype not in _FLOATS:
            continue
        transposed = users.products_with_columns(slot)
        multiplied = transposed or users.reads_rows(slot)
        if not (users.convolves(slot) or multiplied):
            continue
        text = _chosen(choice, slot.name, data) if callable(choice) else choice
        if text is None or (text is choice and not multiplied and isinstance(parse(text), Blocks)):
            continue
        axis = slot.rank - 1 if multiplied else 1
        made = _encoded(slot, data.mT if transposed else data, parse(text), axis)
        builder.constants[i] = made
        users.replace(slot, made[0], bool(transposed))
        done.append(slot.name)
    return done


def _chosen(choice: Callable[[str, torch.Tensor], Any], name: str, data: torch.Tensor) -> Any:
    try:
        return choice(name, data)
    except Error:
        raise
    except Exception as e:
        raise Error(f"quantize: the function raised {type(e).__name__} for {name!r}: {e}") from e


def join(builder: ProgramBuilder) -> None:
    """Makes products, embeddings and convolutions read encoded constants instead of the result of a Dequantize."""
    users = _Users(builder)
    for node in [n for chain in users.chains for n in chain.nodes if n.op == "Dequantize"]:
        plain = node.fields["out"]
        if id(plain) not in users.kept:
            node.dead = True
            users.replace(plain, node.fields["x"], transposed=False)


def _encoded(
    slot: Slot, data: torch.Tensor, encoding: Groups | Blocks | Stored, axis: int
) -> tuple[Slot, torch.Tensor]:
    """Encodes a constant. A row consists of the dimensions from `axis` on."""
    made = Slot(slot.dtype, tuple(data.shape), "constant", slot.name)
    made.encoding = dataclasses.replace(encoding.table(), axis=axis)
    shape = (data.shape[:axis].numel(), data.shape[axis:].numel())
    if isinstance(encoding, Stored):
        weight = np.broadcast_to(np.float32(0), shape)
    else:
        weight = data.detach().cpu().float().reshape(shape).numpy()
    try:
        rows = encoding.encode(weight)
    except Error as e:
        raise Error(f"weight {slot.name!r} cannot be quantised: it {e}") from None
    return made, torch.from_numpy(rows).reshape(*data.shape[:axis], rows.shape[1])


class _Users:
    """The nodes that read each slot, in all chains."""

    def __init__(self, builder: ProgramBuilder) -> None:
        self.chains = [*builder.methods, *(b for m in builder.methods for b in _bodies(m.nodes))]
        self.nodes: dict[int, list[Node]] = {}
        self.kept = {id(s) for _, s in builder.state if s} | {
            id(s) for c in self.chains for s in _ends(c) if isinstance(s, Slot)
        }
        for chain in self.chains:
            for node in chain.nodes:
                for slot in _read(node):
                    self.nodes.setdefault(id(slot), []).append(node)

    def of(self, slot: Slot) -> list[Node]:
        return self.nodes.get(id(slot), [])

    def convolves(self, slot: Slot) -> bool:
        return id(slot) not in self.kept and any(_convolves(n, slot) for n in self.of(slot))

    def reads_rows(self, slot: Slot) -> bool:
        """True if a product reads the slot as (*, N, K), or an embedding reads it."""
        return id(slot) not in self.kept and any(self.products(n) or _picks(n, slot) for n in self.of(slot))

    def products_with_columns(self, slot: Slot) -> list[Node]:
        """Returns the products that read the slot as (*, K, N), or [] if anything else reads it."""
        users = self.of(slot)
        return users if id(slot) not in self.kept and all(_multiplies(n, slot) for n in users) else []

    def products(self, node: Node) -> list[Node]:
        """Returns the products that read a transposed weight, or [] if anything else reads it."""
        out = node.fields["out"]
        if node.op != "Permute" or list(node.fields["dims"]) != [*range(out.rank - 2), out.rank - 1, out.rank - 2]:
            return []
        users = self.of(out)
        return users if id(out) not in self.kept and all(_multiplies(n, out) for n in users) else []

    def replace(self, old: Slot, new: Slot, transposed: bool) -> None:
        plain: Slot | None = None
        for node in self.of(old):
            products = [node] if transposed else self.products(node)
            for product in products:
                product.fields.update(b=new, b_transposed=True)
            if products or transposed:
                node.dead = not transposed
            elif _picks(node, old):
                node.fields["x"] = new
            elif _convolves(node, old) and new.encoding.axis == 1:
                node.fields["weight"] = new
            else:
                plain = plain or Slot(old.dtype, old.shape)
                _put(node, old, plain)
        for chain in self.chains:
            chain.nodes[:] = [n for n in chain.nodes if not n.dead]
        if plain is not None:
            self._decode(new, plain)

    def _decode(self, encoded: Slot, plain: Slot) -> None:
        """Inserts a Dequantize before the first node that reads the slot, in each chain."""
        for chain in self.chains:
            first = next((i for i, n in enumerate(chain.nodes) if any(s is plain for s in _read(n))), None)
            if first is not None:
                own = Slot(plain.dtype, plain.shape)
                for node in chain.nodes[first:]:
                    _put(node, plain, own)
                chain.nodes.insert(first, Node("Dequantize", {"x": encoded, "out": own}, encoded.name))


def _ends(chain: MethodBuilder | Body) -> list[Any]:
    if isinstance(chain, Body):
        return [*chain.args, *chain.results]
    return [*(s for _, s in chain.outputs), *(s for pair in chain.updates for s in pair)]


def _bodies(nodes: list[Node]) -> list[Body]:
    own = [x for n in nodes for x in _flat(n.fields.values()) if isinstance(x, Body)]
    return [*own, *(b for body in own for b in _bodies(body.nodes))]


def _flat(values: Any) -> list[Any]:
    found = []
    for v in values:
        found += _flat(v) if isinstance(v, list | tuple) else _flat(v.fields.values()) if isinstance(v, Node) else [v]
    return found


def _read(node: Node) -> list[Slot]:
    return [x for x in _flat(v for k, v in node.fields.items() if k != "out") if isinstance(x, Slot)]


def _multiplies(node: Node, slot: Slot) -> bool:
    f = node.fields
    others = (f.get("a"), f.get("bias"))
    return _PRODUCTS.get(node.op) == slot.rank and f["b"] is slot and not any(x is slot for x in others)


def _convolves(node: Node, slot: Slot) -> bool:
    f = node.fields
    others = (f.get("x"), f.get("bias"))
    return node.op in _CONVOLUTIONS and f["weight"] is slot and not any(x is slot for x in others)


def _picks(node: Node, slot: Slot) -> bool:
    return node.op == "IndexSelect" and node.fields["x"] is slot and node.fields["axis"] == 0


def _put(node: Node, old: Slot, new: Slot) -> None:
    def put(v: Any) -> Any:
        if isinstance(v, list | tuple):
            return type(v)(put(x) for x in v)
        if isinstance(v, Node):
            _put(v, old, new)
        return new if v is old else v

    node.fields.update({k: put(v) for k, v in node.fields.items()})
