"""GGUF files of Llama models with seeded random weights, and programs made from them, for llama_bench.py. Their sizes
are those of real models. Blocks are random codes whose scales make the standard deviation of all weights equal."""

import gguf
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

CONTEXT = 2304  # cache capacity in tokens
SPREAD = 0.02  # standard deviation of a weight
# name: layers, hidden, heads, KV heads, intermediate, vocabulary. The second has the sizes of TinyLlama.
SHAPES = {
    "110 M": (12, 768, 12, 12, 2048, 32000),
    "1.1 B": (22, 2048, 32, 4, 5632, 32000),
    "small": (2, 256, 4, 2, 512, 320),
}
TIED = ("110 M",)  # models with tied embeddings
TYPES = ("F16", "Q8_0", "Q4_0", "Q4_K")
# {offset of an f16 scale in a block: its value relative to the first scale}. The scale of minima puts the mean near 0.
FACTORS = {"Q8_0": {0: 1}, "Q4_0": {0: 1}, "Q4_K": {0: 1, 2: 7.5}}


def config(shape, **more):
    """Returns the transformers configuration of a Llama of that shape."""
    import transformers

    layers, size, heads, kv, hidden, vocabulary = shape
    return transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=size,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        **more,
    )


def _blocks(random, kind, n):
    """Returns random blocks (n, bytes of a block) with scales of 1."""
    data = random.integers(0, 256, (n, GGML_QUANT_SIZES[kind][1]), np.uint8)
    _set_factors(data, kind, 1)
    return data


def _set_factors(data, kind, factor):
    for at, share in FACTORS[kind.name].items():
        data[:, at : at + 2] = np.array([factor * share], np.float16).view(np.uint8)


def matrix(random, kind, rows, columns):
    """Returns (rows, columns) of f16, or (rows, bytes per row) of blocks."""
    if kind.name == "F16":
        return (random.standard_normal((rows, columns), np.float32) * np.float32(SPREAD)).astype(np.float16)
    data = _blocks(random, kind, rows * columns // GGML_QUANT_SIZES[kind][0])
    _set_factors(data, kind, SPREAD / quants.dequantize(data[:1000], kind).std())
    return data.reshape(rows, -1)


def tensors(name):
    """Returns (name, rows, columns) of each tensor. A vector has 0 rows."""
    layers, size, heads, kv, hidden, vocabulary = SHAPES[name]
    yield from (("token_embd", vocabulary, size), ("output_norm", 0, size))
    if name not in TIED:
        yield "output", vocabulary, size
    for i in range(layers):
        keys = size // heads * kv
        parts = [("attn_norm", 0, size), ("attn_q", size, size), ("attn_k", keys, size), ("attn_v", keys, size)]
        parts += [("attn_output", size, size), ("ffn_norm", 0, size), ("ffn_gate", hidden, size)]
        parts += [("ffn_up", hidden, size), ("ffn_down", size, hidden)]
        yield from ((f"blk.{i}.{name}", rows, columns) for name, rows, columns in parts)


def _add_keys(writer, shape):
    layers, size, heads, kv, hidden, vocabulary = shape
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(vocabulary)
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(size)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(size // heads)


def write(path, name, kind):
    """Writes a GGUF file of the named shape with matrices of the given type."""
    random, kind = np.random.default_rng(7), GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(path, "llama")
    _add_keys(writer, SHAPES[name])
    for tensor, rows, columns in tensors(name):
        data = matrix(random, kind, rows, columns) if rows else np.ones(columns, np.float32)
        blocks = kind if rows and kind.name != "F16" else None
        writer.add_tensor(f"{tensor}.weight", data, raw_dtype=blocks)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def files(folder, name, kind):
    """Returns (the GGUF file, the program made from it); writes them if absent."""
    import clave

    stem = f"llama_{name.replace(' ', '').replace('.', '_')}_{kind}"
    model, program = folder / f"{stem}.gguf", folder / f"{stem}.clv"
    folder.mkdir(parents=True, exist_ok=True)
    if not program.exists():
        write(model, name, kind)
        clave.from_gguf(model, max_context=CONTEXT).save(str(program))
    return model, program
