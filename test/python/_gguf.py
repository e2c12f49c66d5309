"""Small GGUF files: transformers' models of random weights, in the format of llama.cpp's converter."""

import copy

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
OF_OLMO3 = {"full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
GEMMA = {"head_dim": 32, "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 7, "query_pre_attn_scalar": 32}
GEMMA3 = GEMMA | {"num_hidden_layers": 7}  # the sixth layer has no window
GRANITE = {"attention_multiplier": 0.3, "embedding_multiplier": 3.0, "residual_multiplier": 0.5, "logits_scaling": 2.0}
HALF = {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}
FALCON = {"alibi": False, "parallel_attn": True, "bias": False}
LOCAL = {"num_hidden_layers": 5, "sliding_window": 7}  # the fourth layer has no window
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 3}
SMALL_EXPERTS = EXPERTS | {"moe_intermediate_size": 32}
ROUTED = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "first_k_dense_replace": 1}
ROUTED |= {"n_group": 1, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.5}
HYBRID = {"layer_types": ["linear_attention", "full_attention", "linear_attention"], "shared_intermediate_size": 96}
SCANS = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 24, "mamba_n_groups": 1, "mamba_d_conv": 4}
HYBRID |= SCANS
NEMOTRON = {"num_hidden_layers": 4, "head_dim": 16, "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 24}
NEMOTRON |= {"time_step_min": 1e-9}  # the minimum is for initial values; only transformers limits time steps to it
NEMOTRON |= {"n_groups": 2, "conv_kernel": 4, "moe_shared_expert_intermediate_size": 48}
CONVS = {
    "layer_types": ["conv", "full_attention", "conv", "conv"],
    "conv_L_cache": 4,
    "block_auto_adjust_ff_dim": False,
}
# name: (architecture in the file, class in transformers, config)
MODELS = {
    "llama": ("llama", "Llama", {"tie_word_embeddings": True}),
    "llama3": ("llama", "Llama", {"rope_parameters": LLAMA3, "attention_bias": True}),
    "llama_linear": ("llama", "Llama", {"rope_parameters": LINEAR, "head_dim": 24, "num_key_value_heads": 4}),
    "mistral": ("llama", "Mistral", {"sliding_window": 9}),
    "mixtral": ("llama", "Mixtral", {"num_local_experts": 8, "num_experts_per_tok": 3, "sliding_window": None}),
    "qwen2": ("qwen2", "Qwen2", {"rope_parameters": YARN}),
    "qwen2_tied": ("qwen2", "Qwen2", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "qwen2moe": ("qwen2moe", "Qwen2Moe", SMALL_EXPERTS | {"shared_expert_intermediate_size": 48}),
    "qwen3": ("qwen3", "Qwen3", {"head_dim": 32, "tie_word_embeddings": True}),
    "qwen3moe": ("qwen3moe", "Qwen3Moe", SMALL_EXPERTS | {"head_dim": 32, "norm_topk_prob": True}),
    "gemma": ("gemma", "Gemma", {"head_dim": 32}),
    "gemma2": ("gemma2", "Gemma2", GEMMA),
    "gemma3": ("gemma3", "Gemma3", GEMMA3),
    "gemma3_linear": ("gemma3", "Gemma3", GEMMA3 | {"rope_parameters": OF_GEMMA3, "tie_word_embeddings": False}),
    "phi2": ("phi2", "Phi", {"rope_parameters": HALF, "num_key_value_heads": 4}),
    "phi3": ("phi3", "Phi3", {"rope_parameters": LONG, "original_max_position_embeddings": 32}),
    "phi3_window": ("phi3", "Phi3", {"sliding_window": 8}),
    "smollm3": ("smollm3", "SmolLM3", {"num_hidden_layers": 5}),
    "olmo2": ("olmo2", "Olmo2", {}),
    "olmo3": ("olmo2", "Olmo3", LOCAL | {"rope_parameters": OF_OLMO3}),
    "olmoe": ("olmoe", "Olmoe", EXPERTS | {"num_key_value_heads": 4}),
    "granite": ("granite", "Granite", GRANITE),
    "granitemoe": ("granitemoe", "GraniteMoe", GRANITE | {"num_local_experts": 8, "num_experts_per_tok": 3}),
    "granitemoe_shared": (
        "granitemoe",
        "GraniteMoeShared",
        GRANITE | {"num_local_experts": 8, "num_experts_per_tok": 3, "shared_intermediate_size": 48},
    ),
    "granitehybrid": (
        "granitehybrid",
        "GraniteMoeHybrid",
        GRANITE | HYBRID | {"num_local_experts": 0, "position_embedding_type": "nope"},
    ),
    "granitehybrid_moe": (
        "granitehybrid",
        "GraniteMoeHybrid",
        GRANITE | HYBRID | {"num_local_experts": 8, "num_experts_per_tok": 3, "position_embedding_type": "rope"},
    ),
    "falcon-h1": ("falcon-h1", "FalconH1", SCANS | {"mamba_d_ssm": 128}),
    "nemotron_h": (
        "nemotron_h",
        "NemotronH",
        NEMOTRON | {"layers_block_type": ["linear_attention", "mlp", "full_attention", "linear_attention"]},
    ),
    "nemotron_h_moe": (
        "nemotron_h_moe",
        "NemotronH",
        NEMOTRON | ROUTED | {"layers_block_type": ["linear_attention", "moe", "full_attention", "moe"]},
    ),
    "mamba2": ("mamba2", "Mamba2", {"num_heads": 8, "head_dim": 16, "state_size": 24, "n_groups": 1}),
    "minicpm": ("minicpm", "Granite", GRANITE | {"attention_multiplier": 0.25}),
    "stablelm": ("stablelm", "StableLm", {"rope_parameters": HALF}),
    "stablelm_parallel": (
        "stablelm",
        "StableLm",
        {"rope_parameters": HALF, "qk_layernorm": True, "use_parallel_residual": True, "use_qkv_bias": True},
    ),
    "gpt2": ("gpt2", "GPT2", {}),
    "starcoder": ("starcoder", "GPTBigCode", {}),
    "starcoder2": ("starcoder2", "Starcoder2", {"sliding_window": 8}),
    "gptneox": ("gptneox", "GPTNeoX", {"rope_parameters": HALF}),
    "gptneox_sequential": ("gptneox", "GPTNeoX", {"rope_parameters": HALF, "use_parallel_residual": False}),
    "falcon": ("falcon", "Falcon", FALCON | {"multi_query": True, "new_decoder_architecture": False}),
    "falcon_40b": ("falcon", "Falcon", FALCON | {"num_kv_heads": 2, "new_decoder_architecture": True}),
    "command-r": ("command-r", "Cohere", {"logit_scale": 0.25}),
    "command-r_plus": ("command-r", "Cohere", {"logit_scale": 0.25, "use_qk_norm": True}),
    "cohere2": ("cohere2", "Cohere2", LOCAL | {"logit_scale": 0.25}),
    "glm4": ("glm4", "Glm4", {"head_dim": 32, "rope_parameters": HALF}),
    "glm4moe": (
        "glm4moe",
        "Glm4Moe",
        ROUTED | {"head_dim": 32, "rope_parameters": HALF, "n_shared_experts": 1, "use_qk_norm": True},
    ),
    "glm4moe_air": ("glm4moe", "Glm4Moe", ROUTED | {"n_shared_experts": 1, "attention_bias": True}),
    "exaone": ("exaone", "Llama", {"rope_parameters": LLAMA3}),
    "exaone4": ("exaone4", "Exaone4", LOCAL | {"sliding_window_pattern": 4}),
    "exaone4_small": ("exaone4", "Exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 3}),
    "nemotron": ("nemotron", "Nemotron", {"rope_parameters": HALF}),
    "arcee": ("arcee", "Arcee", {}),
    "internlm2": ("internlm2", "Llama", {}),
    "ernie4_5": ("ernie4_5", "Ernie4_5", {"head_dim": 16}),
    "ernie4_5-moe": (
        "ernie4_5-moe",
        "Ernie4_5_Moe",
        {"moe_num_experts": 8, "moe_k": 3, "moe_intermediate_size": 32, "moe_num_shared_experts": 1},
    ),
    "hunyuan-dense": ("hunyuan-dense", "HunYuanDenseV1", {"head_dim": 16}),
    "hunyuan-moe": (
        "hunyuan-moe",
        "HunYuanMoEV1",
        {"head_dim": 16, "num_experts": 8, "moe_topk": [3] * 3, "num_shared_expert": [1] * 3},
    ),
    "seed_oss": ("seed_oss", "SeedOss", {"head_dim": 16}),
    "dots1": ("dots1", "Dots1", ROUTED | {"head_dim": 16, "n_shared_experts": 2, "num_key_value_heads": 4}),
    "gpt-oss": (
        "gpt-oss",
        "GptOss",
        {"num_local_experts": 8, "num_experts_per_tok": 3, "head_dim": 16, "sliding_window": 7}
        | {"rope_parameters": YARN | {"truncate": False, "beta_fast": 32.0, "beta_slow": 1.0}},
    ),
    "lfm2": ("lfm2", "Lfm2", CONVS | {"num_hidden_layers": 4}),
    "lfm2moe": (
        "lfm2moe",
        "Lfm2Moe",
        CONVS | SMALL_EXPERTS | {"num_hidden_layers": 4, "num_dense_layers": 1, "use_expert_bias": True},
    ),
    "bailingmoe": (
        "bailingmoe",
        "GraniteMoeShared",
        {
            "num_local_experts": 8,
            "num_experts_per_tok": 3,
            "shared_intermediate_size": 96,
            "attention_multiplier": 0.25,
        },
    ),
}
_EPS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
SCANNING = ("mamba2", "granitehybrid", "falcon-h1", "nemotron_h", "nemotron_h_moe")  # architectures with scans
BIASES = ("e_score_correction_bias", "expert_bias")  # names of experts' biases, which transformers has in buffers
_LAYER_NORMS = (
    "phi2",
    "stablelm",
    "gpt2",
    "starcoder",
    "starcoder2",
    "gptneox",
    "falcon",
    "command-r",
    "cohere2",
    "nemotron",
)
_SCALES = {
    "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logits_scaling",
}
# Rows of q and k are in pairs in the files of these, and in halves in transformers.
PERMUTED = ("llama", "granite", "granitemoe", "granitehybrid", "minicpm", "smollm3", "arcee", "internlm2", "bailingmoe")


def model_of(name, **others):
    """Returns a seeded model. All parameters are random, also norms and biases, which would be ones and zeros."""
    _, kind, config = MODELS[name]
    config = getattr(transformers, f"{kind}TextConfig" if kind == "Gemma3" else f"{kind}Config")(
        **copy.deepcopy(SMALL | config | others)  # transformers changes some of them
    )
    torch.manual_seed(3)
    of_kind = {"GPT2": "GPT2LMHeadModel"}.get(kind, f"{kind}ForCausalLM")
    model = getattr(transformers, of_kind)(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() == 1 or "norm" in key:
                p.add_(torch.randn_like(p) * (0.1 if "norm" in key or "ln_" in key else 0.5))
        for key, p in model.named_buffers():
            if key.endswith(BIASES):
                p.copy_(torch.randn_like(p) * 0.3)
    return model


def _n_kv(architecture, c):
    if architecture in ("gpt2", "gptneox"):
        return c.num_attention_heads
    if architecture == "starcoder" or (architecture == "falcon" and not c.new_decoder_architecture):
        return 1
    return getattr(c, "num_kv_heads", None) or c.num_key_value_heads


def _qkv_rows(architecture, c):
    """Returns the order of the rows of q, k and v that are merged in groups, one of each head or of each key's."""
    heads, size = c.num_attention_heads, c.hidden_size // c.num_attention_heads
    n_kv = _n_kv(architecture, c)
    rows = np.arange((heads + 2 * n_kv) * size).reshape(n_kv, heads // n_kv + 2, size)
    return np.concatenate([rows[:, :-2].ravel(), rows[:, -2].ravel(), rows[:, -1].ravel()])


def _pieces(architecture, model):
    """Yields (name in the file, parameter, index): the tensors in a file are parts of the parameters."""
    c = model.config
    arch = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    names = gguf.get_tensor_name_map(arch, c.num_hidden_layers)
    biases = [(k, b) for k, b in model.named_buffers() if k.endswith(BIASES)]
    for key, p in [*model.named_parameters(), *biases]:
        at, _, part = key.rpartition("layers.")[2].partition(".")
        key = key.replace("model.", "backbone.") if ".mixer." in key else key  # as in the authors' files
        own = names.get_name(key, try_suffixes=(".weight", ".bias"))
        if architecture == "gpt-oss" and "experts.gate_up_proj" in part:  # rows alternate
            p, of = (p, "bias") if part.endswith("bias") else (p.transpose(1, 2), "weight")
            yield f"blk.{at}.ffn_gate_exps.{of}", p, np.s_[:, ::2]
            yield f"blk.{at}.ffn_up_exps.{of}", p, np.s_[:, 1::2]
        elif architecture == "gpt-oss" and "experts.down_proj" in part:
            p, of = (p, "bias") if part.endswith("bias") else (p.transpose(1, 2), "weight")
            yield f"blk.{at}.ffn_down_exps.{of}", p, np.s_[:]
        elif part.endswith("sinks"):
            yield f"{own}.weight", p, np.s_[:]
        elif part.endswith("experts.gate_up_proj"):
            yield f"blk.{at}.ffn_gate_exps.weight", p, np.s_[:, : p.shape[1] // 2]
            yield f"blk.{at}.ffn_up_exps.weight", p, np.s_[:, p.shape[1] // 2 :]
        elif part.endswith("experts.up_proj"):
            yield f"blk.{at}.ffn_up_exps.weight", p, np.s_[:]
        elif part.endswith("experts.down_proj"):
            yield f"blk.{at}.ffn_down_exps.weight", p, np.s_[:]
        elif part.endswith("shared_mlp.input_linear.weight"):
            suffix = "_shexp" if c.num_local_experts else ""
            yield f"blk.{at}.ffn_gate{suffix}.weight", p, np.s_[: len(p) // 2]
            yield f"blk.{at}.ffn_up{suffix}.weight", p, np.s_[len(p) // 2 :]
        elif part.endswith("shared_mlp.output_linear.weight") and not c.num_local_experts:
            yield f"blk.{at}.ffn_down.weight", p, np.s_[:]
        elif part.endswith("dt_bias"):
            yield f"blk.{at}.ssm_dt.bias", p, np.s_[:]
        elif part.endswith("router.weight"):
            yield f"blk.{at}.ffn_gate_inp.weight", p, np.s_[:]
        elif part.endswith(BIASES):
            yield f"blk.{at}.exp_probs_b.bias", p, np.s_[:]
        elif part.endswith(("conv.conv.weight", "conv1d.weight")):
            yield own, p.squeeze(1), np.s_[:]
        elif "_layernorm.norms." in part:
            yield f"blk.{at}.attn_{part.split('self_attn.')[1][0]}_norm.weight.{part.split('.')[-2]}", p, np.s_[:]
        elif architecture == "gpt2" and part.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            yield own, p.t(), np.s_[:]
        elif architecture in ("gptneox", "falcon") and "query_key_value" in part:
            yield own, p, _qkv_rows(architecture, c)
        else:
            yield own, p, np.s_[:]


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
    }.get(kind.name, (0,))
    least = 2e-4 if kind.name in ("Q6_K", "IQ4_XS") else 2e-3
    for i in at:
        factor = np.float16(random.uniform(0.5, 1.0, data.shape[:2]) * least)
        if kind.name == "IQ1_M":  # its nibbles are in four bytes
            for n in range(4):
                data[..., 49 + 2 * n] = data[..., 49 + 2 * n] & 15 | (factor.view(np.uint16) >> 4 * n & 15) << 4
        else:
            data[..., i : i + 2] = factor[..., None].view(np.uint8)
    return data.reshape(rows, -1)


def encoded(weight, kind, random):
    """Returns the array that a file stores, and its decoded values."""
    if kind.name == "F32":
        return weight.astype(np.float32), weight
    if kind.name.endswith("_K") or kind.name.startswith("IQ"):
        data = _sane_bytes(kind, weight.size // weight.shape[-1], weight.shape[-1], random)
        data = data.reshape(*weight.shape[:-1], -1)
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
        self.hidden = 0  # inner size of the dense feed-forward networks, or else of the experts
        random = np.random.default_rng(5)
        with torch.no_grad():
            for own, p, index in _pieces(self.architecture, self.model):
                plain = (
                    p.dim() == 1
                    or "norm" in own
                    or own.endswith(".bias")
                    or "_inp" in own
                    or "conv" in own.split(".")[-2]
                    or own == "position_embd.weight"
                )
                of = "F32" if plain else self.output if own in ("token_embd.weight", "output.weight") else kind
                self._add(own, p, index, GGMLQuantizationType[of], random)
        self._stack_norms()
        if MODELS[name][1] == "Llama":
            self._add_frequencies()
        self._add_keys()

    def _add(self, name, p, index, kind, random):
        data, values = encoded(np.ascontiguousarray(p.numpy()[index]), kind, random)
        if "ffn_down.w" in name or ("ffn_down_exps" in name and not self.hidden):
            self.hidden = values.shape[-1]
        p[index] = torch.from_numpy(np.array(values, np.float32))
        heads = {"attn_q": self.config.num_attention_heads, "attn_k": _n_kv(self.architecture, self.config)}
        part = name.split(".")[-2]
        if self.architecture in PERMUTED and part in heads:
            data = _permuted(data, heads[part])
        if part == "ssm_norm":
            data = data.reshape(self.keys_of_scan()["ssm.group_count"], -1)
        if name.endswith(("ssm_a", "ssm_d")):
            data = (-np.exp(data) if name.endswith("a") else data)[:, None]
        if (
            self.architecture in ("gemma", "gemma2", "gemma3", "nemotron")
            and "norm" in part
            and name.endswith(".weight")
        ):
            data = data + 1
        self.tensors[name] = (data, kind)

    def keys_of_scan(self):
        """Returns the keys of Mamba-2's sizes."""
        c = self.config
        names = ("num_heads", "head_dim", "state_size", "n_groups", "conv_kernel")
        if self.architecture.startswith("nemotron"):
            names = ("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel")
        elif self.architecture != "mamba2":
            names = ("mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv")
        heads, size, state, groups, taps = (getattr(c, n) for n in names)
        keys = {"inner_size": heads * size, "time_step_rank": heads, "state_size": state, "group_count": groups}
        return {f"ssm.{k}": v for k, v in (keys | {"conv_kernel": taps}).items()}

    def _stack_norms(self):
        """Makes one tensor of the norms of heads, whose names end with the head."""
        for name in [n for n in self.tensors if n.endswith("_norm.weight.0")]:
            own, rows = name.removesuffix(".0"), []
            while f"{own}.{len(rows)}" in self.tensors:
                rows.append(self.tensors[f"{own}.{len(rows)}"][0])
            for i in range(len(rows)):
                del self.tensors[f"{own}.{i}"]
            self.tensors[own] = (np.stack(rows), GGMLQuantizationType.F32)

    def _add_frequencies(self):
        """Adds the converter's tensor for Llama 3's rope: the factor of each frequency."""
        rope = self.model.model.rotary_emb
        if rope.rope_type == "llama3":
            size = self.config.hidden_size // self.config.num_attention_heads
            plain = 1 / self.config.rope_parameters["rope_theta"] ** (np.arange(0, size, 2, dtype=np.float32) / size)
            self.tensors["rope_freqs.weight"] = (plain / rope.inv_freq.numpy(), GGMLQuantizationType.F32)

    def _add_keys(self):
        c, a = self.config, self.architecture
        rope = dict(getattr(c, "rope_parameters", None) or {"rope_theta": 10000.0, "rope_type": "default"})
        assert rope.get("original_max_position_embeddings", 32) == 32, "the original context is 32"
        size = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
        if a == "gemma3":
            assert rope["sliding_attention"]["rope_theta"] == 10000
        rope = rope.get("full_attention", rope)
        eps = next(v for n in _EPS if (v := getattr(c, n, None)))
        keys = {
            "vocab_size": (c.vocab_size, "uint32"),
            "block_count": (c.num_hidden_layers, "uint32"),
            "context_length": (c.max_position_embeddings, "uint32"),
            "embedding_length": (c.hidden_size, "uint32"),
            "feed_forward_length": (self.hidden, "uint32"),
            "attention.head_count": (c.num_attention_heads, "uint32"),
            "attention.head_count_kv": (_n_kv(a, c), "uint32"),
            f"attention.layer_norm_{'' if a in _LAYER_NORMS else 'rms_'}epsilon": (eps, "float32"),
            "rope.dimension_count": (int(size * rope.get("partial_rotary_factor", 1)), "uint32"),
            "rope.freq_base": (rope["rope_theta"], "float32"),
        }
        if a != "phi3":
            keys |= {"attention.key_length": (size, "uint32"), "attention.value_length": (size, "uint32")}
        if getattr(c, "sliding_window", None) and not a.startswith(("qwen", "dots")):
            keys["attention.sliding_window"] = (c.sliding_window, "uint32")
        if a == "gemma2":
            keys["attn_logit_softcapping"] = (c.attn_logit_softcapping, "float32")
            keys["final_logit_softcapping"] = (c.final_logit_softcapping, "float32")
        if a in ("granite", "granitemoe", "granitehybrid", "minicpm"):
            keys |= {k: (getattr(c, n), "float32") for k, n in _SCALES.items()}
        if a in ("command-r", "cohere2"):
            keys["logit_scale"] = (c.logit_scale, "float32")
        if a == "minicpm":
            del keys["attention.scale"]
        self._add_recurrence(keys)
        if a in ("gptneox", "stablelm"):
            keys["use_parallel_residual"] = (c.use_parallel_residual, "bool")
        self._add_experts(keys)
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

    def _add_recurrence(self, keys):
        """Adds the keys of convolutions and scans, if the model has them."""
        c, a = self.config, self.architecture
        types = getattr(c, "layers_block_type", None) or getattr(c, "layer_types", None)
        if a in ("lfm2", "lfm2moe", "granitehybrid", "nemotron_h", "nemotron_h_moe"):
            kv = [c.num_key_value_heads * (t == "full_attention") for t in types]
            keys["attention.head_count_kv"] = (kv, "array")
        if a in ("lfm2", "lfm2moe"):
            keys["shortconv.l_cache"] = (c.conv_L_cache, "uint32")
        if a in SCANNING:
            keys |= {k: (v, "uint32") for k, v in self.keys_of_scan().items()}
        if a.startswith("nemotron_h"):
            keys["feed_forward_length"] = ([self.hidden * (t in ("mlp", "moe")) for t in types], "array")
            keys["attention.layer_norm_epsilon"] = keys.pop("attention.layer_norm_rms_epsilon")
        if a == "granitehybrid":
            keys["rope.scaling.finetuned"] = (c.position_embedding_type == "rope", "bool")
        if a == "mamba2":
            for name in [
                k for k in keys if k.startswith(("attention.head", "attention.key", "attention.value", "rope"))
            ]:
                del keys[name]
            keys |= {"attention.head_count": (0, "uint32"), "context_length": (2**20, "uint32")}

    def _add_experts(self, keys):
        """Adds the keys of a mixture of experts, if the model is one."""
        c, a = self.config, self.architecture
        gate = next((k for k in self.tensors if "ffn_up_exps" in k), None)
        if gate is None:
            return
        used = next(v for n in ("num_experts_per_tok", "moe_k", "moe_topk") if (v := getattr(c, n, None)))
        experts, width, _ = self.tensors[gate][0].shape
        keys["expert_count"], keys["expert_feed_forward_length"] = (experts, "uint32"), (width, "uint32")
        keys["expert_used_count"] = (used if isinstance(used, int) else used[0], "uint32")
        if a in ("dots1", "glm4moe", "nemotron_h_moe"):
            keys["expert_weights_norm"] = (c.norm_topk_prob, "bool")
            keys["expert_weights_scale"] = (c.routed_scaling_factor, "float32")
            keys["expert_gating_func"] = (2, "uint32")
        if a in ("dots1", "glm4moe"):
            keys["leading_dense_block_count"] = (c.first_k_dense_replace, "uint32")
        if a == "lfm2moe":
            keys["expert_gating_func"] = (2, "uint32")
            keys["leading_dense_block_count"] = (c.num_dense_layers, "uint32")
        if a == "bailingmoe":
            keys["expert_weights_norm"] = (True, "bool")
        if a == "ernie4_5-moe":
            keys["interleave_moe_layer_step"] = (1, "uint32")
            keys["leading_dense_block_count"] = (c.moe_layer_start_index, "uint32")
        shared = next((t.shape[0] for k, (t, _) in self.tensors.items() if "ffn_up_shexp" in k), 0)
        if shared:
            keys["expert_shared_feed_forward_length"] = (shared, "uint32")
            keys["expert_shared_count"] = (max(1, shared // width), "uint32")

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
