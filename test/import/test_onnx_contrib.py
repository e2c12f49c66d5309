"""The com.microsoft ops of optimised, quantised and generative models, and quantised models, against onnxruntime."""

import numpy as np
import pytest

import clave

pytest.importorskip("onnxruntime", reason="no onnxruntime is installed")
from _peer import F16, F32, Case, T, compare, h, node, peer

rng = np.random.default_rng(6)
floats = lambda *shape: rng.standard_normal(shape).astype(F32)
positive = lambda *shape: (rng.random(shape) * 0.02 + 0.01).astype(F32)
i32 = lambda *values: np.array(values, np.int32)
RECTIFIED, EPSILON = {"activation": "Relu"}, {"epsilon": 1e-5}


def integers(dtype, *shape):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def op(name, given, constants=None, inputs=None, outputs="y", half=False, **more):
    """Returns the case of one com.microsoft node, whose inputs are the arrays, in order. half: of f16."""
    settings = {k: more.pop(k) for k in ("want", "tolerance", "codes", "defined", "open_sizes") if k in more}
    settings["tolerance"] = settings.get("tolerance", 5e-3 if half else 1e-4)
    constants = constants or {}
    inputs = inputs or " ".join((*given, *constants))
    if half:
        given, constants = (
            {n: a.astype(F16) if a.dtype == F32 else a for n, a in x.items()} for x in (given, constants)
        )
    return Case([node(name, inputs, outputs, "com.microsoft", **more)], given, constants, **settings)


def layers():
    """Activations, norms with skips, embeddings and fused products."""
    x, wide = floats(2, 3, 16) * 3, floats(16)
    norm = {"g": floats(16), "b": floats(16), "c": floats(16)}
    for half in (False, True):
        for name in ("Gelu", "FastGelu", "QuickGelu"):
            yield op(name, {"x": x}, half=half, open_sizes=("x",))
        for skip, outputs in ((floats(2, 3, 16), "y"), (floats(3, 16), "y - - s"), (floats(1, 3, 16), "y - - s")):
            given = {"x": x, "k": skip}
            yield op("SkipLayerNormalization", given, norm, outputs=outputs, half=half, **EPSILON)
        yield op("SkipLayerNormalization", given, norm, "x k g - c", half=half, open_sizes=("x",))
        for inputs in ("x k g", "x k g c"):
            given = {"x": x[0], "k": floats(3, 16)}
            yield op("SkipSimplifiedLayerNormalization", given, norm, inputs, "y - - s", half, **EPSILON)
    yield op("FastGelu", {"x": x}, {"b": wide})
    yield op("BiasGelu", {"x": x}, {"b": wide}, open_sizes=("x",))
    yield op("QuickGelu", {"x": x}, alpha=0.7)
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        sides = {"a": floats(2, 5, 4) if a else floats(2, 4, 5), "b": floats(2, 6, 5) if b else floats(2, 5, 6)}
        flat = {"a": sides["a"][0], "b": sides["b"][0], "c": floats(6)}
        moved = {n: np.ascontiguousarray(s.swapaxes(0, 1)) for n, s in sides.items()}
        yield op("FusedMatMul", sides, transA=a, transB=b, alpha=0.3, open_sizes=("a", "b"))
        yield op("FusedMatMul", moved, transA=a, transB=b, transBatchA=1, transBatchB=1)
        yield op("FusedGemm", flat, transA=a, transB=b, alpha=0.3, beta=0.5, **RECTIFIED)
    yield op("TransposeMatMul", {"a": floats(3, 4, 5), "b": floats(6, 5)}, transB=1)
    yield op("FusedGemm", flat, transA=1, transB=1, activation="LeakyRelu", activation_alpha=0.1)
    image, weights = {"x": floats(1, 3, 6, 6)}, {"w": floats(4, 3, 3, 3), "b": floats(4)}
    activations = {"Relu": (), "Tanh": (), "LeakyRelu": (0.1,), "Clip": (-0.5, 0.7), "HardSigmoid": (0.3, 0.4)}
    for name, values in activations.items():
        more = {"activation_params": values} if values else {}
        yield op("FusedConv", image, weights, activation=name, pads=[1, 1, 1, 1], **more)
    yield op("FusedConv", image, {**weights, "z": floats(1, 4, 6, 6)}, pads=[1, 1, 1, 1], **RECTIFIED)
    ids, kinds = rng.integers(0, 20, (2, 7)).astype(np.int32), rng.integers(0, 2, (2, 7)).astype(np.int32)
    table = {"w": floats(20, 16), "p": floats(10, 16), "s": floats(2, 16), "g": wide, "b": wide}
    mask = i32([1, 1, 1, 0, 0, 0, 0], [1] * 7)
    for inputs, given, outputs in (
        ("i t w p s g b m", {"i": ids, "t": kinds, "m": mask}, "y n"),
        ("i - w p - g b - q", {"i": ids, "q": np.flip(rng.integers(0, 10, (2, 7))).astype(np.int32)}, "y n e"),
    ):
        yield op("EmbedLayerNormalization", given, table, inputs, outputs, **EPSILON)


def codes():
    """Ops on codes: QLinear*, QGemm and the dynamic products."""
    for dtype in (np.uint8, np.int8):
        zero = lambda v, dtype=dtype: np.array(v + np.iinfo(dtype).min, dtype)
        q = lambda *shape, dtype=dtype: integers(dtype, *shape)
        one = {"as": F32(0.04), "az": zero(120), "cs": F32(0.03), "cz": zero(100)}
        unit = {**one, "cs": F32(1 / 256), "cz": zero(0)}
        two = {"as": F32(0.02), "az": zero(120), "bs": F32(0.0317), "bz": zero(90), "cs": F32(0.0429), "cz": zero(110)}
        both = "a as az b bs bz cs cz"
        for shape in ((2, 3, 8), (8,), (1, 3, 1)):
            for name in ("QLinearAdd", "QLinearMul"):
                yield op(name, {"a": q(2, 3, 8), "b": q(*shape)}, two, both, codes=0.02)
        given = {"a": q(2, 3, 8), "b": q(2, 3, 8), "c": rng.random((2, 3, 8)) < 0.5}
        zeros = op("QLinearAdd", given, {n: v * (v.dtype != dtype) for n, v in two.items()}, both)
        yield op("QLinearAdd", given, two, "a as - b bs - cs -", codes=0.02, want=peer(zeros.model(), given))
        yield op("QLinearConcat", given, two, "cs cz a as az b bs bz", codes=0.02, axis=1)
        yield op("QLinearWhere", given, two, "c " + both, codes=0.02)
        yield op("QLinearSigmoid", {"a": q(2, 300)}, unit, codes=0.02)
        yield op("QLinearLeakyRelu", {"a": q(2, 300)}, one, codes=0.02, alpha=0.2)
        for opset, axis in ((13, -1), (13, 1), (12, 1)):
            yield op("QLinearSoftmax", {"a": q(2, 8, 5)}, unit, codes=0.03, axis=axis, opset=opset)
        for last in (0, 1):
            image = {"a": q(2, 6, 6, 4)}
            yield op("QLinearGlobalAveragePool", image, one, codes=0.05, channels_last=last)
            window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": last}
            yield op("QLinearAveragePool", image, one, codes=0.03, channels_last=last, **window)
        for a, b, plain in ((0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 1, 1)):
            constants = {"as": F32(0.02), "az": zero(120), "b": q(6, 5) if b else q(5, 6), "bs": positive(6),
                         "bz": np.full(6, zero(100)), "c": integers(np.int16, 6).astype(np.int32) // 64,
                         "ys": F32(0.05), "yz": zero(128)}  # fmt: skip
            inputs = "a as az b bs bz c" + " ys yz" * (not plain)
            given = {"a": q(5, 4) if a else q(4, 5)}
            yield op("QGemm", given, constants, inputs, codes=0.05, transA=a, transB=b, alpha=0.5 if plain else 1.0)
        weights = {"b": q(32, 6), "bs": positive(6), "bz": np.full(6, 5, dtype), "c": floats(6)}
        for inputs in ("a b bs bz c", "a b bs"):
            yield op("DynamicQuantizeMatMul", {"a": floats(2, 4, 32)}, weights, inputs, tolerance=1e-3)
        given, more = {"a": q(2, 4, 32)}, {**weights, "as": F32(0.02), "az": zero(120)}
        for inputs in ("a b as bs az bz c", "a b as bs"):
            yield op("MatMulIntegerToFloat", given, more, inputs)
    for dtype in (np.uint8, np.int8, np.uint16, np.int16):
        yield op("QuantizeLinear", {"x": floats(4, 8) * 3}, {"s": F32(0.02), "z": np.array(5, dtype)})
        given = {"x": integers(dtype, 4, 8)}
        yield op("DequantizeLinear", given, {"s": positive(4), "z": np.arange(4).astype(dtype)}, axis=0)


def blocks():
    """Weights of 2 to 8 bits in blocks."""
    sizes = ((4, 64, 8, 16), (4, 100, 6, 16), (4, 256, 16, 128), (8, 64, 7, 32), (8, 80, 5, 32), (2, 64, 8, 16))
    for bits, k, n, block in sizes:
        count = -(-k // block)
        weights = {"b": integers(np.uint8, n, count, block * bits // 8), "s": positive(n, count),
                   "z": integers(np.uint8, n, -(-count * bits // 8)), "f": rng.random((n, count), F32) * F32(2**bits),
                   "g": rng.permutation(np.arange(k) // block).astype(np.int32), "c": floats(n)}  # fmt: skip
        for inputs, half in (("a b s", 0), ("a b s z", 0), ("a b s z - c", bits > 2), ("a b s f", 0), ("a b s - g", 0)):
            if ("g" in inputs and (k, bits) != (64, 4)) or ("f" in inputs and bits == 8):
                continue  # onnxruntime has no float zero points of 8 bits
            more = {"K": k, "N": n, "bits": bits, "block_size": block}
            open_sizes = ("a",) * (inputs == "a b s")
            yield op("MatMulNBits", {"a": floats(2, 3, k)}, weights, inputs, half=half, open_sizes=open_sizes, **more)
    for kind, k, n, block in ((0, 64, 8, 16), (1, 30, 7, 64), (1, 33, 5, 16)):
        weights = {"b": integers(np.uint8, (n * k + 1) // 2), "s": positive(-(-n * k // block))}
        yield op("MatMulBnb4", {"a": floats(2, 3, k)}, weights, K=k, N=n, block_size=block, quant_type=kind)
    for bits, zeros in ((4, 1), (8, 0), (8, 1), (2, 0)):
        weights = {"s": positive(20, 4), "z": integers(np.uint8, 20, bits // 2), "d": integers(np.uint8, 20, 8 * bits)}
        more = {"bits": bits, "block_size": 16, "quantize_axis": 1, "gather_axis": 0}
        given = {"i": rng.integers(-20, 20, (2, 5))}
        yield op("GatherBlockQuantized", given, weights, "d i s" + " z" * zeros, **more)
    for kind, gathered, quantized in ((T.INT4, 0, 2), (T.UINT4, 1, 2), (T.UINT4, 0, 1), (T.INT4, 1, 0)):
        low, shape, scaled = -8 * (kind == T.INT4), (16, 16, 32), [16, 16, 32]
        scaled[quantized] //= 16
        four = lambda size, kind=kind, low=low: h.make_tensor("", kind, size, rng.integers(low, low + 16, size).ravel())
        weights = {"d": four(shape), "s": positive(*scaled), "z": four(scaled)}
        more = {"block_size": 16, "quantize_axis": quantized, "gather_axis": gathered}
        yield op("GatherBlockQuantized", {"i": i32([3, 0, 4])}, weights, "d i s z", **more)


def mixtures():
    """Mixtures of experts."""
    experts, k, wide = 4, 32, 48
    for name, swiglu, norm in (("relu", 1, 0), ("gelu", 1, 1), ("silu", 1, 0), ("swiglu", 2, 1)):
        more = {"k": 2, "activation_type": name, "normalize_routing_weights": norm}
        if name == "swiglu":
            more |= {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 2.0}
        given = {"x": floats(5, k), "r": floats(5, experts)}
        bias = {"c": floats(experts, swiglu * wide), "d": floats(experts, k)}
        weights = {"v": floats(experts, swiglu * wide, k) * F32(0.2), "w": floats(experts, k, wide) * F32(0.2), **bias}
        yield op("MoE", given, weights, "x r v c w d" if norm else "x r v - w", open_sizes=("x", "r"), **more)
        bits, block = (4, 16) if norm else (8, 0)
        scales = lambda n, k, block=block: positive(*(experts, n, k // (block or k))[: 3 if block else 2])
        packed = {"v": integers(np.uint8, experts, swiglu * wide, k * bits // 8), "s": scales(swiglu * wide, k),
                  "w": integers(np.uint8, experts, k, wide * bits // 8), "t": scales(k, wide), **bias}  # fmt: skip
        more |= {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
        yield op("QMoE", given, packed, "x r v s c w t d", **more)


def attention():
    """Attention, MultiHeadAttention, QAttention and RotaryEmbedding."""
    b, heads, d, s = 2, 2, 8, 4
    masks = {"-": None, "keys": i32([1, 1, 1, 0, 1, 1, 1], [1, 0, 1, 1, 1, 0, 1]), "lengths": i32(3, 2),
             "pairs": (rng.random((b, s, 7)) < 0.7).astype(np.int32) | np.eye(1, 7, dtype=np.int32)}  # fmt: skip
    cut = lambda m, n: m if m is None or m.ndim == 1 else np.ascontiguousarray(m[..., :n])
    rows = [  # form, mask, past, other inputs, attributes
        ("apart", "-", 0, "", {}), ("apart", "keys", 0, "bias", {}), ("apart", "lengths", 0, "", {"scale": 0.3}),
        ("apart", "pairs", 0, "added", {}), ("apart", "-", 3, "bias", {}), ("apart", "keys", 3, "added", {}),
        ("apart", "-", 0, "bias", {"unidirectional": 1}), ("heads", "-", 0, "added", {}), ("packed", "-", 0, "", {}),
        ("apart", "keys", 0, "", {"mask_filter_value": -5000.0}), ("half", "-", 0, "bias", {}),
    ]  # fmt: skip
    for form, mask, past, others, more in rows:
        n, width = s + past, heads * d
        keys = {"apart": (b, s, width), "half": (b, s, width), "heads": (b, heads, s, d), "packed": (b, s, heads, 2, d)}
        given = {"q": floats(b, s, width), "k": floats(*keys[form])}
        given |= {"v": floats(*keys[form])} if form != "packed" else {}
        given |= {"m": cut(masks[mask], n)} if mask != "-" else {}
        given |= {"a": floats(1, heads, s, n)} if others == "added" else {}
        given |= {"pk": floats(b, heads, past, d), "pv": floats(b, heads, past, d)} if past else {}
        constants = {"c": floats(3 * width)} if others == "bias" else {}
        inputs = " ".join(
            n if n in given or n in constants else "-" for n in ("q", "k", "v", "c", "m", "a", "pk", "pv")
        )
        outputs = "y nk nv" if past else "y"
        if form == "packed":  # which onnxruntime does not compute on the CPU
            k, v = (np.ascontiguousarray(given["k"][..., i, :]).reshape(b, s, width) for i in (0, 1))
            apart = op("MultiHeadAttention", {"q": given["q"], "k": k, "v": v}, num_heads=heads)
            more = {"want": peer(apart.model(), apart.given)}
        yield op("MultiHeadAttention", given, constants, inputs, outputs, form == "half", num_heads=heads, **more)
    rows = [  # mask, past, attributes
        ("-", 0, {}), ("keys", 0, {}), ("lengths", 0, {"unidirectional": 1}), ("pairs", 0, {"scale": 0.3}),
        ("-", 3, {"unidirectional": 1}), ("keys", 3, {}),
    ]  # fmt: skip
    for mask, past, more in rows:
        n, width, outputs = s + past, heads * d, "y np" if past else "y"
        given = {"x": floats(b, s, 16), "p": floats(2, b, heads, past, d), "m": cut(masks[mask], n)}
        given = {k: v for k, v in given.items() if v is not None and v.size}
        inputs = [n if n in given else "-" for n in "mp"]
        constants = {"w": floats(16, 3 * width) * F32(0.3), "c": floats(3 * width)}
        opened = ("x",) * (mask == "-" and not past)
        joined, more = "x w c " + " ".join(inputs), {"num_heads": heads, **more}
        yield op("Attention", given, constants, joined, outputs, open_sizes=opened, **more)
        wide = np.ndim(more.get("scale", [0]))  # scales of weights for each column, or one
        given = {**given, "x": integers(np.uint8, b, s, 16)}
        constants = {**constants, "w": integers(np.int8, 16, 3 * width), "xs": F32(0.01), "xz": np.uint8(120)}
        constants |= {"ws": positive(3 * width) if wide else F32(0.01), "wz": np.zeros((3 * width,) * wide, np.int8)}
        inputs = f"x w c xs ws {inputs[0]} xz wz {inputs[1]}"
        yield op("QAttention", given, constants, inputs, outputs, **more)
    for shape, part, whole in (((2, 4, 16), 8, 0), ((2, 2, 4, 8), 8, 1), ((2, 4, 16), 4, 1), ((2, 4, 16), 8, 1)):
        for where in (rng.integers(0, 20, (2, 4)), np.array([3])):
            given = {"x": floats(*shape), "p": where}
            more = {"num_heads": 2, "interleaved": whole} | ({"rotary_embedding_dim": part} if part != 8 else {})
            yield op("RotaryEmbedding", given, {"c": floats(20, part // 2), "s": floats(20, part // 2)}, **more)


def grouped(totals, new, room, groups=1, packed=False, others="", half=False, **more):
    """Returns a case of GroupQueryAttention. totals: keys of each batch with the new ones. room: of the caches."""
    b, d, heads = len(totals), 16, 2 * groups
    caches = {"pk": floats(b, groups, room, d), "pv": floats(b, groups, room, d)}
    given = {"q": floats(b, new, (heads + 2 * groups * packed) * d), **caches}
    given |= {"sl": np.array(totals, np.int32) - 1, "tl": np.array(max(*totals, new), np.int32)}
    given |= {} if packed else {n: floats(b, new, groups * d) for n in "kv"}
    given |= {"a": floats(1, 1, new, max(totals))} if others == "added" else {}
    constants = {"cos": floats(20, d // 2), "sin": floats(20, d // 2)} if more.get("do_rotary") else {}
    constants |= {"h": floats(heads)} if others == "sinks" else {}
    names = ("q", "k", "v", "pk", "pv", "sl", "tl", "cos", "sin", "-", "a", "h")
    inputs = " ".join(n if n in given or n in constants else "-" for n in names)
    used = [min(new, t) for t in totals] if room in (0, 12) and min(totals) <= new else [new] * b

    def defined(outputs):
        y = [outputs[0][i, :n] for i, n in enumerate(used)]
        return y + [o[i, :, :t] for o in outputs[1:] for i, t in enumerate(totals)]

    more = {"num_heads": heads, "kv_num_heads": groups, "defined": defined, **more}
    return op("GroupQueryAttention", given, constants, inputs, "y nk nv", half, **more)


ROTARY = {"do_rotary": 1}
GROUPED = [
    ([6, 6], 6, 0, {}), ([6, 4], 6, 0, {"groups": 2, **ROTARY}), ([4], 4, 12, {"packed": True, **ROTARY}),
    ([5], 1, 4, {"groups": 2}), ([7, 3, 5], 1, 12, {**ROTARY}), ([9], 3, 12, {"rotary_interleaved": 1, **ROTARY}),
    ([6], 6, 12, {"local_window_size": 2}), ([6], 1, 12, {"local_window_size": 3, "packed": True}),
    ([6, 6], 6, 12, {"softcap": 2.0, "scale": 0.3}), ([5, 5], 1, 12, {"smooth_softmax": 1}),
    ([5, 5], 1, 12, {"others": "sinks"}), ([4], 4, 0, {"others": "added"}), ([5], 1, 12, {"others": "added"}),
    ([5, 3], 1, 12, {"half": True, **ROTARY}), ([3, 3], 3, 0, {"half": True, "softcap": 2.0}),
]  # fmt: skip
CASES = [c for rows in (layers, codes, blocks, mixtures, attention) for c in rows()]
CASES += [grouped(*row, **more) for *row, more in GROUPED]
NAMES = [f"{c.nodes[0].op_type}_{i}" for i, c in enumerate(CASES)]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_cpu(case):
    compare(case)


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_opencl(case):
    compare(case, "opencl")


def quantized_conv(per_channel, kind, groups=1):
    """Returns a case of a convolution between QuantizeLinear and DequantizeLinear."""
    many = (16,) if per_channel else ()
    scale, zero = positive(*many) if per_channel else F32(0.01), np.array(120 if kind == np.uint8 else -7, kind)
    constants = {
        "xs": F32(0.02), "ys": F32(0.05), "z": zero, "w": integers(np.int8, 16, 16 // groups, 3, 3), "ws": scale,
        "wz": np.zeros(many, np.int8), "b": integers(np.int16, 16).astype(np.int32), "bs": scale * F32(0.02),
        "bz": np.zeros(many, np.int32),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x xs z", "q"), node("DequantizeLinear", "q xs z", "d"),
        node("DequantizeLinear", "w ws wz", "v", axis=0), node("DequantizeLinear", "b bs bz", "c", axis=0),
        node("Conv", "d v c", "e", pads=[0, 1, 2, 1], group=groups), node("Relu", "e", "f"),
        node("QuantizeLinear", "f ys z"),
    ]  # fmt: skip
    return Case(nodes, {"x": floats(2, 16, 9, 9)}, constants, codes=0.01)


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("form", ["channels", "tensor", "depthwise"])
def test_quantized_conv(form, kind, device):
    program = compare(quantized_conv(form != "tensor", kind, 16 if form == "depthwise" else 1), device)
    assert program.report.methods[0].ops["ConvInteger"] == 1


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_dynamic_matmul(kind, device):
    """The results are quantised again, so that they are codes."""
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"), node("MatMulInteger", "q w z wz", "i"),
        node("Cast", "i", "f", to=T.FLOAT), node("Mul", "s ws", "t"), node("Mul", "f t", "p"), node("Add", "p b", "r"),
        node("QuantizeLinear", "r ys yz"),
    ]  # fmt: skip
    constants = {"w": integers(kind, 64, 24), "wz": np.array(3, kind), "ws": positive(24), "b": floats(24)}
    constants |= {"ys": F32(0.2), "yz": np.int8(0)}
    program = compare(Case(nodes, {"x": floats(2, 5, 64)}, constants, codes=0.01, open_sizes=("x",)), device)
    assert program.report.methods[0].ops["MatmulInteger"] == 1


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_quantized_lstm(direction, channels):
    """onnxruntime rounds inputs and states to 8 bits, too; the same LSTM of decoded weights is exact."""
    n, hidden, size, kind = 2 if direction[0] == "b" else 1, 6, 5, np.int8 if channels else np.uint8
    many, zero = ((n, 4 * hidden) if channels else (n,)), 0 if channels else 131
    given = {"x": floats(7, 3, size)}
    constants = {"w": integers(kind, n, size, 4 * hidden), "r": integers(kind, n, hidden, 4 * hidden)}
    constants |= {"b": floats(n, 8 * hidden), "h": floats(n, 3, hidden), "c": floats(n, 3, hidden)}
    constants |= {f"{k}s": (positive(*many) / 100).astype(np.float32) for k in "wr"}
    constants |= {f"{k}z": np.full(many, zero, kind) for k in "wr"}
    options = {"direction": direction, "hidden_size": hidden}
    made = node("DynamicQuantizeLSTM", "x w r b - h c - ws wz rs rz", domain="com.microsoft", **options)
    case = Case([made], given, constants, tolerance=3e-2)
    compare(case)
    decoded = {k: ((constants[k].astype(np.float32) - zero) * constants[f"{k}s"].reshape(n, 1, -1)) for k in "wr"}
    plain = node("LSTM", "x w r b - h c", **options)
    more = {k: constants[k] for k in "bhc"} | {
        k: np.ascontiguousarray(v.transpose(0, 2, 1)) for k, v in decoded.items()
    }
    results = [clave.Session(clave.from_onnx(c.model()), device="cpu").run(given["x"])[0]
               for c in (case, Case([plain], given, more))]  # fmt: skip
    np.testing.assert_allclose(results[0], results[1], 1e-5, 1e-6)
