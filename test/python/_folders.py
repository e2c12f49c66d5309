"""Hugging Face folders of small seeded models, by family, in the format of save_pretrained."""

import json

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

VOCAB, CONTEXT = 97, 160
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,  # so that the attention matters
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
SLIDING = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 10, **SLIDING}
MAMBA2 = {"num_heads": 8, "head_dim": 8, "state_size": 16, "n_groups": 2}
SSM = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_chunk_size": 8}
NEMOTRON = {"mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2, "head_dim": 8, "num_hidden_layers": 3}
HYBRID = {"layer_types": ["mamba", "attention"]}


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


YARN = rope("yarn", factor=4.0, original_max_position_embeddings=64)
LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
LONG = rope(
    "longrope",
    original_max_position_embeddings=256,
    long_factor=[1.0, 2.0, 4.0, 8.0],
    short_factor=[1.0, 1.1, 1.3, 1.5],
)

# name: (classes, config)
FAMILIES = {
    "llama": ("Llama", {}),
    "llama_tied": ("Llama", {"tie_word_embeddings": True, "attention_bias": True}),
    "llama_linear": ("Llama", rope("linear", factor=4.0)),
    "llama_dynamic": ("Llama", rope("dynamic", factor=4.0)),
    "llama_yarn": ("Llama", YARN),
    "llama_3": ("Llama", LLAMA3 | {"num_key_value_heads": 1}),
    "mistral": ("Mistral", {"sliding_window": 8, "head_dim": 16}),
    "ministral": ("Ministral", SLIDING | {"head_dim": 8}),
    "mixtral": ("Mixtral", LOCAL),
    "qwen2": ("Qwen2", {}),
    "qwen2_moe": ("Qwen2Moe", EXPERTS | {"shared_expert_intermediate_size": 20}),
    "qwen3": ("Qwen3", {"head_dim": 12, "tie_word_embeddings": True}),
    "qwen3_moe": ("Qwen3Moe", EXPERTS | {"head_dim": 8}),
    "gemma2": ("Gemma2", GEMMA | {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}),
    "gemma3": ("Gemma3Text", GEMMA),
    "phi3": ("Phi3", LONG | {"original_max_position_embeddings": 256}),
    "phi3_partial": ("Phi3", {"sliding_window": 8, **rope("default", partial_rotary_factor=0.5)}),
    "smollm3": ("SmolLM3", {"no_rope_layer_interval": 2}),
    "olmo2": ("Olmo2", {}),
    "granite": ("Granite", {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "logits_scaling": 2.0}),
    "stablelm": ("StableLm", {"qk_layernorm": True}),
    "gpt2": ("GPT2", GPT),
    "gpt_neox": ("GPTNeoX", {}),
    "falcon": ("Falcon", {"alibi": False, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon_alibi": ("Falcon", {"alibi": True}),
    "bloom": ("Bloom", {"n_layer": 2, "n_head": 4}),
    "opt": ("OPT", {"ffn_dim": 48, "word_embed_proj_dim": 32, "init_std": 0.3}),
    "cohere2": ("Cohere2", SLIDING),
    "gpt_oss": ("GptOss", LOCAL | {"head_dim": 16} | SLIDING),
    "exaone4": ("Exaone4", SLIDING),
    "mamba": ("Mamba", {"state_size": 5}),
    "falcon_mamba": ("FalconMamba", {"state_size": 16, "conv_kernel": 3}),
    "mamba2": ("Mamba2", MAMBA2),
    "mamba2_limits": ("Mamba2", MAMBA2 | {"time_step_limit": (0.1, 0.9)}),  # which transformers ignores for one token
    "falcon_h1": ("FalconH1", SSM | {"mamba_d_ssm": 64, "head_dim": 8, "ssm_multipliers": [0.5, 1.5, 0.8, 1.2, 0.9]}),
    "falcon_h1_norm": ("FalconH1", SSM | {"mamba_d_ssm": 64, "mamba_rms_norm": True, "mamba_norm_before_gate": False}),
    "bamba": ("Bamba", SSM | {"attn_layer_indices": [1]}),
    "jamba": ("Jamba", {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, **LOCAL, "num_experts": 4}),
    "granite_hybrid": ("GraniteMoeHybrid", SSM | HYBRID | LOCAL | {"shared_intermediate_size": 40}),
    "nemotron_h": ("NemotronH", {"layers_block_type": ["mamba", "attention", "mlp"], "mamba_num_heads": 8, **NEMOTRON}),
    "rwkv": ("Rwkv", {"num_hidden_layers": 3, "rescale_every": 2}),  # its weights are halved after a number of layers
    "lfm2": ("Lfm2", {"layer_types": ["conv", "full_attention"]}),
}
_CLASSES = {"Gemma3Text": "Gemma3", "GPT2": "GPT2LMHead"}


def model_of(name, **others):
    """Returns a seeded model. All parameters are random, also norms and biases, which would be ones and zeros."""
    kind, config = FAMILIES[name]
    config = getattr(transformers, f"{kind}Config")(**SMALL | config | others)
    torch.manual_seed(0)
    classes = [_CLASSES.get(kind, kind) + end for end in ("ForCausalLM", "Model")]
    model = next(getattr(transformers, c) for c in classes if hasattr(transformers, c))(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.1)
    return model


def folder_of(path, name="llama", **others):
    """Returns (folder, model)."""
    model = model_of(name, **others)
    model.save_pretrained(path)
    return path, model


def mxfp4_folder(path, **others):
    """Returns (folder, model) of a gpt-oss whose experts are stored as MXFP4; the model has the decoded values."""
    folder, model = folder_of(path, "gpt_oss", **others)
    tensors, random = load_file(folder / "model.safetensors"), torch.Generator().manual_seed(5)
    for name, p in model.named_parameters():
        if name.endswith("_proj") and p.dim() == 3:
            n_experts, k, n = p.shape
            blocks = torch.randint(256, (n_experts, n, k // 32, 16), generator=random, dtype=torch.uint8)
            scales = torch.randint(120, 125, (n_experts, n, k // 32), generator=random, dtype=torch.uint8)
            p.data = convert_moe_packed_tensors(blocks, scales, dtype=p.dtype)
            del tensors[name]
            tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config))
    return folder, model
