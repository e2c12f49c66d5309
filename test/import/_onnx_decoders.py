"""Small language models with seeded weights, as ONNX graphs with past and present key-value tensors."""

import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import onnxruntime
import tokenizers
import torch
import transformers

SIZES = {
    "vocab_size": 264,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
WINDOW = dict(SIZES, head_dim=16, sliding_window=16)
LONGROPE = {
    "type": "longrope",
    "short_factor": [1.0 + 0.05 * i for i in range(8)],
    "long_factor": [1.0 + 0.5 * i for i in range(8)],
}
# name: transformers' model, its configuration
MODELS = {
    "llama": ("Llama", SIZES),
    "qwen2": ("Qwen2", SIZES),
    "qwen3": ("Qwen3", dict(SIZES, head_dim=16)),
    "phi3": ("Phi3", dict(SIZES, original_max_position_embeddings=256)),
    "phi3_long": ("Phi3", dict(SIZES, original_max_position_embeddings=64, rope_scaling=LONGROPE)),
    "gemma2": ("Gemma2", dict(WINDOW, query_pre_attn_scalar=16)),
    "smollm3": ("SmolLM3", SIZES),
    "granite": ("Granite", SIZES),
    "gpt_oss": ("GptOss", WINDOW | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "gpt2": (
        "GPT2",
        {"vocab_size": 264, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256, "eos_token_id": 2},
    ),
    "falcon": ("Falcon", {k: v for k, v in SIZES.items() if k != "num_key_value_heads"}),
}


SPECIAL = ["<pad>", "<s>", "</s>", "<|im_end|>"]
TEMPLATE = "{% for m in messages %}{{ m['role'] + ':' + m['content'] + '<|im_end|>' }}{% endfor %}"


def save_tokenizer(folder):
    """Saves a tokenizer of bytes: ids 0 to 3 are special tokens."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {t: i for i, t in enumerate(SPECIAL + letters)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(SPECIAL)
    whole = transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")
    whole.chat_template = TEMPLATE
    whole.save_pretrained(folder)


def save_model(name, folder):
    """Saves a model whose weights are large enough that its answers vary, and a tokenizer. Returns the model."""
    stem, options = MODELS[name]
    config = getattr(transformers, stem + "Config")(**options)
    torch.manual_seed(1)
    kind = getattr(transformers, stem + ("LMHeadModel" if stem == "GPT2" else "ForCausalLM"))
    model = kind(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.mul_(4)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return model


def build_genai(package, name, precision, provider, folder):
    """Makes a folder of onnxruntime-genai by its own builder. package: the folder of its files."""
    save_model(name, folder / "torch")
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", folder / "torch", "-o", folder / "genai"]
    command += ["-p", precision, "-e", provider, "--extra_options", "hf_token=false"]
    paths = ":".join([str(package), *sys.path])
    env = os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
    p = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env)
    assert p.returncode == 0, p.stderr[-2000:]
    return folder / "genai"


class WithPast(torch.nn.Module):
    """forward(input_ids, attention_mask, position_ids, keys, values, ...) of a causal model."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = transformers.DynamicCache(config=self.model.config)
        for i in range(len(past) // 2):
            cache.update(past[2 * i], past[2 * i + 1], i)
        inputs = {"attention_mask": attention_mask, "position_ids": position_ids, "past_key_values": cache}
        out = self.model(input_ids=input_ids, use_cache=True, **inputs)
        return (out.logits, *(x for layer in out.past_key_values.layers for x in (layer.keys, layer.values)))


def build_transformers_js(name, folder, dynamo=False):
    """Makes a folder as transformers.js expects it, with the graph that torch exports."""
    model = save_model(name, folder / "torch")
    config = model.config
    n, heads = config.num_hidden_layers, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if name == "falcon":
        heads = 1
    past = [torch.randn(1, heads, 4, 16) for _ in range(2 * n)]
    args = (torch.ones(1, 3, dtype=torch.int64), torch.ones(1, 7, dtype=torch.int64), torch.arange(4, 7)[None], *past)
    inputs = ["input_ids", "attention_mask", "position_ids"]
    inputs += [f"past_key_values.{i}.{k}" for i in range(n) for k in ("key", "value")]
    outputs = [i.replace("past_key_values", "present") for i in inputs[3:]]
    axes = {i: {0: "batch", 1: "length" if i != "attention_mask" else "total"} for i in inputs[:3]}
    axes |= {i: {0: "batch", 2: "past"} for i in inputs[3:]} | {o: {0: "batch", 2: "total"} for o in outputs}
    (folder / "js/onnx").mkdir(parents=True)
    for path in folder.glob("torch/*.j*"):
        shutil.copy(path, folder / "js")
    options = {"input_names": inputs, "output_names": ["logits", *outputs]}
    if dynamo:
        length, rows = torch.export.Dim("length", min=1, max=256), torch.export.Dim("past", min=1, max=256)
        dims = ({1: length}, {1: torch.export.Dim.DYNAMIC}, {1: length}, tuple({2: rows} for _ in past))
        options |= {"dynamo": True, "dynamic_shapes": dims, "external_data": False}
    else:
        options |= {"dynamo": False, "dynamic_axes": axes | {"logits": {0: "batch", 1: "length"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(WithPast(model), args, str(folder / "js/onnx/model.onnx"), **options)
    return folder / "js"


class Reference:
    """The same graph in onnxruntime, with past and present as arrays."""

    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(str(path))
        self.inputs = {i.name: i for i in self.session.get_inputs()}
        self.outputs = [o.name for o in self.session.get_outputs()]
        past = {n: i for n, i in self.inputs.items() if n.startswith("past")}
        kind = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
        sizes = {
            n: [1 if k == 0 else d if isinstance(d, int) else 0 for k, d in enumerate(i.shape)] for n, i in past.items()
        }
        self.past = {n: np.zeros(sizes[n], kind[i.type]) for n, i in past.items()}
        for x in self.past.values():  # genai's files name the size of a head
            if x.shape[-1] == 0:
                x.resize((*x.shape[:-1], 16), refcheck=False)
        self.position = 0

    def run(self, ids):
        """Returns the logits after the ids, in f32."""
        n = self.position + len(ids)
        feed = {
            "input_ids": np.array([ids]),
            "attention_mask": np.ones((1, n), np.int64),
            "position_ids": np.arange(self.position, n)[None],
            "use_cache_branch": np.array([True]),
        }
        feed = {k: v for k, v in feed.items() if k in self.inputs}
        found = dict(zip(self.outputs, self.session.run(None, feed | self.past), strict=True))
        self.past = {k: found[k.replace("past_key_values", "present")] for k in self.past}
        self.position = n
        return found["logits"][0, -1].astype(np.float32)
