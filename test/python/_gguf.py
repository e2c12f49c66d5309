"""Small GGUF files: transformers' models of random weights, in the format of llama.cpp's converter."""

import gguf
import numpy as np
import torch
import transformers
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

VOCAB = 160
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,  # so that the attention matters
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "attn_implementation": "eager",
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 500.0,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 100.0}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0 + 0.1 * i for i in range(6)],
    "long_factor": [1.5 + 0.3 * i for i in range(6)],
    "original_max_position_embeddings": 32,
    "factor": 4.0,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.75,
}
LINEAR = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0}
OF_GEMMA3 = {"full_attention": LINEAR, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
GEMMA = {"head_dim": 32, "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 7, "query_pre_attn_scalar": 32}
GEMMA3 = GEMMA | {"num_hidden_layers": 7}  # the sixth layer has no window
# name: (architecture in the file, class in transformers, config)
MODELS = {
    "llama": ("llama", "Llama", {"tie_word_embeddings": True}),
    "llama3": ("llama", "Llama", {"rope_parameters": LLAMA3, "attention_bias": True}),
    "llama_linear": ("llama", "Llama", {"rope_parameters": LINEAR, "head_dim": 24, "num_key_value_heads": 4}),
    "mistral": ("llama", "Mistral", {"sliding_window": 9}),
    "qwen2": ("qwen2", "Qwen2", {"rope_parameters": YARN}),
    "qwen2_tied": ("qwen2", "Qwen2", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "qwen3": ("qwen3", "Qwen3", {"head_dim": 32, "tie_word_embeddings": True}),
    "gemma2": ("gemma2", "Gemma2", GEMMA),
    "gemma3": ("gemma3", "Gemma3", GEMMA3),
    "gemma3_linear": ("gemma3", "Gemma3", GEMMA3 | {"rope_parameters": OF_GEMMA3, "tie_word_embeddings": False}),
    "phi3": ("phi3", "Phi3", {"rope_parameters": LONG, "original_max_position_embeddings": 32}),
    "phi3_window": ("phi3", "Phi3", {"sliding_window": 8}),
}


def model_of(name, **others):
    """Returns a seeded model. All parameters are random, also norms and biases, which would be ones and zeros."""
    _, kind, config = MODELS[name]
    config = getattr(transformers, f"{kind}TextConfig" if kind == "Gemma3" else f"{kind}Config")(
        **SMALL | config | others
    )
    torch.manual_seed(3)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * (0.1 if "norm" in key else 0.5))
    return model


def _sane_bytes(kind, rows, columns, random):
    """Returns blocks with any codes and scales, except that 16-bit factors are small."""
    elements, size = GGML_QUANT_SIZES[kind]
    data = random.integers(0, 256, (rows, columns // elements, size), np.uint8)
    at = {
        "Q4_K": (0, 2),
        "Q5_K": (0, 2),
        "Q6_K": (208,),
        "Q2_K": (80, 82),
        "Q3_K": (108,),
        "IQ4_NL": (0,),
        "IQ4_XS": (0,),
    }
    least = 2e-4 if kind.name in ("Q6_K", "IQ4_XS") else 2e-3
    for i in at[kind.name]:
        factor = np.float16(random.uniform(0.5, 1.0, data.shape[:2]) * least)
        data[..., i : i + 2] = factor[..., None].view(np.uint8)
    return data.reshape(rows, -1)


def encoded(weight, kind, random):
    """Returns the array that a file stores, and its decoded values."""
    if kind.name == "F32":
        return weight.astype(np.float32), weight
    if kind.name.endswith("_K") or kind.name.startswith("IQ4"):
        data = _sane_bytes(kind, *weight.shape, random)
    else:
        data = quants.quantize(weight, kind)
    return data, quants.dequantize(data, kind).reshape(weight.shape)


def _permuted(rows, n_heads):
    """Permutes the rows of q and k of a Llama as llama.cpp's converter does: pairs are neighbours."""
    return rows.reshape(n_heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


class Written:
    """A model and its tensors as in a file. `model` has the values of the file's tensors."""

    def __init__(self, name, kind="F32", output=None, **others):
        """kind: type of the matrices. output: type of the embedding and the output."""
        self.architecture, self.kind, self.output = MODELS[name][0], kind, output or kind
        self.model = model_of(name, **others)
        self.config = self.model.config
        self.tensors = {}  # name: (array, type)
        self.keys = {}  # name: (value, how GGUFWriter adds it)
        random = np.random.default_rng(5)
        arch = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[self.architecture]
        names = gguf.get_tensor_name_map(arch, self.config.num_hidden_layers)
        with torch.no_grad():
            for key, p in self.model.named_parameters():
                own = names.get_name(key, try_suffixes=(".weight", ".bias"))
                of = "F32" if p.dim() == 1 else self.output if own in ("token_embd.weight", "output.weight") else kind
                self._add(own, p, GGMLQuantizationType[of], random)
        if MODELS[name][1] == "Llama":
            self._add_frequencies()
        self._add_keys()

    def _add(self, name, p, kind, random):
        data, values = encoded(p.numpy(), kind, random)
        p.copy_(torch.from_numpy(np.array(values, np.float32)))
        heads = {"attn_q": self.config.num_attention_heads, "attn_k": self.config.num_key_value_heads}
        part = name.split(".")[-2]
        if self.architecture == "llama" and part in heads:
            data = _permuted(data, heads[part])
        if self.architecture.startswith("gemma") and "norm" in part:
            data = data + 1
        self.tensors[name] = (data, kind)

    def _add_frequencies(self):
        """Adds the converter's tensor for Llama 3's rope: the factor of each frequency."""
        rope = self.model.model.rotary_emb
        if rope.rope_type == "llama3":
            size = self.config.hidden_size // self.config.num_attention_heads
            plain = 1 / self.config.rope_parameters["rope_theta"] ** (np.arange(0, size, 2, dtype=np.float32) / size)
            self.tensors["rope_freqs.weight"] = (plain / rope.inv_freq.numpy(), GGMLQuantizationType.F32)

    def _add_keys(self):
        c, a = self.config, self.architecture
        rope = dict(c.rope_parameters)
        assert rope.get("original_max_position_embeddings", 32) == 32, "the original context is 32"
        size = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
        if a == "gemma3":
            assert rope["sliding_attention"]["rope_theta"] == 10000
            rope = rope["full_attention"]
        keys = {
            "vocab_size": (c.vocab_size, "uint32"),
            "block_count": (c.num_hidden_layers, "uint32"),
            "context_length": (c.max_position_embeddings, "uint32"),
            "embedding_length": (c.hidden_size, "uint32"),
            "feed_forward_length": (c.intermediate_size, "uint32"),
            "attention.head_count": (c.num_attention_heads, "uint32"),
            "attention.head_count_kv": (c.num_key_value_heads, "uint32"),
            "attention.layer_norm_rms_epsilon": (c.rms_norm_eps, "float32"),
            "rope.dimension_count": (int(size * rope.get("partial_rotary_factor", 1)), "uint32"),
            "rope.freq_base": (rope["rope_theta"], "float32"),
        }
        if a != "phi3":
            keys |= {"attention.key_length": (size, "uint32"), "attention.value_length": (size, "uint32")}
        if getattr(c, "sliding_window", None) and a != "qwen2" and a != "qwen3":
            keys["attention.sliding_window"] = (c.sliding_window, "uint32")
        if a == "gemma2":
            keys["attn_logit_softcapping"] = (c.attn_logit_softcapping, "float32")
            keys["final_logit_softcapping"] = (c.final_logit_softcapping, "float32")
        if rope["rope_type"] in ("yarn", "longrope", "linear"):
            keys["rope.scaling.type"] = (rope["rope_type"], "string")
        if rope["rope_type"] in ("yarn", "linear"):
            keys["rope.scaling.factor"] = (rope["factor"], "float32")
        if rope["rope_type"] in ("yarn", "longrope"):
            original = rope["original_max_position_embeddings"]
            keys["rope.scaling.original_context_length"] = (original, "uint32")
        if rope["rope_type"] == "longrope":
            keys["rope.scaling.attn_factor"] = (self.model.model.rotary_emb.attention_scaling, "float32")
            for w in ("long", "short"):
                factors = np.array(rope[f"{w}_factor"], np.float32)
                self.tensors[f"rope_factors_{w}.weight"] = (factors, GGMLQuantizationType.F32)
        self.keys |= {f"{a}.{k}": v for k, v in keys.items()}
        self.keys["tokenizer.ggml.model"] = ("no_vocab", "string")

    def write(self, path):
        writer = gguf.GGUFWriter(path, self.architecture)
        for key, (value, how) in self.keys.items():
            getattr(writer, f"add_{how}")(key, value)
        for name, (data, kind) in self.tensors.items():
            plain = kind.name in ("F32", "F16")
            writer.add_tensor(name, np.ascontiguousarray(data), raw_dtype=None if plain else kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path
