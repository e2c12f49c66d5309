"""Tiny models with random weights of the families that people export: a row per family, made from Hugging Face's
classes without a network. `make(name)` returns (module, args, kwargs), also for zoo.py's rows; it imports the
libraries."""

import torch

TEXT = dict(
    vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    max_position_embeddings=64,
)  # fmt: skip
GROUPED = dict(TEXT, num_key_value_heads=2, head_dim=8)
VISION = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8
)
ENCODER_DECODER = dict(
    vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
)  # fmt: skip
AUDIO = dict(
    TEXT, conv_dim=(16, 16), conv_kernel=(10, 3), conv_stride=(5, 2), num_feat_extract_layers=2, conv_bias=False,
    num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
)  # fmt: skip


class Tensors(torch.nn.Module):
    """A model that returns its output's tensors, the main one first."""

    def __init__(self, model, part=None):
        super().__init__()
        self.model = model
        self.part = part

    def forward(self, **kwargs):
        model = getattr(self.model, self.part) if self.part else self.model
        out = model(**kwargs, return_dict=True)
        return [v for v in out.values() if isinstance(v, torch.Tensor)]


def ids(length=11, batch=2, high=99, **more):
    return lambda: {"input_ids": torch.randint(3, high, (batch, length))} | {k: f() for k, f in more.items()}


def masked(length=11, **more):
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, length - 4 :] = 0
    return ids(length, attention_mask=lambda: mask.clone(), **more)


def left_padded(length=11):
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, :3] = 0
    return ids(length, attention_mask=lambda: mask.clone())


def pixels(size=32, name="pixel_values", batch=1, **more):
    return lambda: {name: torch.randn(batch, 3, size, size)} | {k: f() for k, f in more.items()}


def floats(name, *shape, **more):
    return lambda: {name: torch.randn(*shape)} | {k: f() for k, f in more.items()}


def decoder_ids():
    return torch.randint(3, 99, (2, 7))


# name: (model class, config class, config, inputs[, attention implementation]).
ROWS = {
    # text encoders
    "bert": ("BertModel", "BertConfig", TEXT, masked()),
    "bert_classifier": ("BertForSequenceClassification", "BertConfig", TEXT, masked()),
    "roberta": ("RobertaModel", "RobertaConfig", TEXT | dict(pad_token_id=1), masked()),
    "xlm_roberta": ("XLMRobertaForMaskedLM", "XLMRobertaConfig", TEXT | dict(pad_token_id=1), masked()),
    "distilbert": ("DistilBertModel", "DistilBertConfig", dict(vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64), masked()),
    "albert": ("AlbertModel", "AlbertConfig", TEXT | dict(embedding_size=16), masked()),
    "electra": ("ElectraModel", "ElectraConfig", TEXT | dict(embedding_size=16), masked()),
    "mpnet": ("MPNetModel", "MPNetConfig", TEXT, masked()),
    "deberta": ("DebertaModel", "DebertaConfig", TEXT | dict(relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=-1), masked()),
    "deberta_v2": ("DebertaV2Model", "DebertaV2Config", TEXT | dict(relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm"), masked()),
    "modernbert": ("ModernBertModel", "ModernBertConfig", TEXT | dict(global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2), masked()),
    "xlm": ("XLMModel", "XLMConfig", dict(vocab_size=99, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64), masked()),
    "funnel": ("FunnelModel", "FunnelConfig", dict(vocab_size=99, block_sizes=[1, 1], d_model=32, n_head=4, d_head=8, d_inner=64, num_decoder_layers=1), masked(12)),
    "convbert": ("ConvBertModel", "ConvBertConfig", TEXT, masked()),
    "squeezebert": ("SqueezeBertModel", "SqueezeBertConfig", TEXT | dict(embedding_size=32), masked()),
    "fnet": ("FNetModel", "FNetConfig", TEXT, ids()),
    "roformer": ("RoFormerModel", "RoFormerConfig", TEXT | dict(embedding_size=32), masked()),
    "esm": ("EsmModel", "EsmConfig", TEXT | dict(position_embedding_type="rotary", pad_token_id=1, mask_token_id=2), masked()),
    # encoder-decoders
    "t5_encoder": ("T5EncoderModel", "T5Config", dict(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4), masked()),
    "t5": ("T5Model", "T5Config", dict(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False), masked(decoder_input_ids=decoder_ids)),
    "mt5_encoder": ("MT5EncoderModel", "MT5Config", dict(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4), masked()),
    "umt5_encoder": ("UMT5EncoderModel", "UMT5Config", dict(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4), masked()),
    "bart": ("BartModel", "BartConfig", ENCODER_DECODER | dict(use_cache=False), masked(decoder_input_ids=decoder_ids)),
    "mbart": ("MBartModel", "MBartConfig", ENCODER_DECODER | dict(use_cache=False), masked(decoder_input_ids=decoder_ids)),
    "marian": ("MarianModel", "MarianConfig", ENCODER_DECODER | dict(use_cache=False, pad_token_id=0), masked(decoder_input_ids=decoder_ids)),
    "m2m_100": ("M2M100Model", "M2M100Config", ENCODER_DECODER | dict(use_cache=False), masked(decoder_input_ids=decoder_ids)),
    "pegasus": ("PegasusModel", "PegasusConfig", ENCODER_DECODER | dict(use_cache=False), masked(decoder_input_ids=decoder_ids)),
    # text decoders
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False), ids()),
    "gpt_neo": ("GPTNeoModel", "GPTNeoConfig", dict(vocab_size=99, hidden_size=32, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=4, window_size=4, max_position_embeddings=64, use_cache=False), ids()),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", TEXT | dict(use_cache=False), ids()),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4, use_cache=False), ids()),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", "GPTBigCodeConfig", dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False), ids()),
    "codegen": ("CodeGenForCausalLM", "CodeGenConfig", dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4, use_cache=False), ids()),
    "opt": ("OPTForCausalLM", "OPTConfig", TEXT | dict(ffn_dim=64, word_embed_proj_dim=32, use_cache=False), masked()),
    "bloom": ("BloomForCausalLM", "BloomConfig", dict(vocab_size=99, hidden_size=32, n_layer=2, n_head=4, use_cache=False), ids()),
    "mpt": ("MptForCausalLM", "MptConfig", dict(vocab_size=99, d_model=32, n_layers=2, n_heads=4, max_seq_len=64, use_cache=False), ids()),
    "falcon": ("FalconForCausalLM", "FalconConfig", TEXT | dict(use_cache=False, alibi=False), ids()),
    "falcon_alibi": ("FalconForCausalLM", "FalconConfig", TEXT | dict(use_cache=False, alibi=True), ids()),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED | dict(use_cache=False), ids()),
    "llama_eager": ("LlamaForCausalLM", "LlamaConfig", GROUPED | dict(use_cache=False), left_padded(), "eager"),
    "llama_bf16": ("LlamaForCausalLM", "LlamaConfig", GROUPED | dict(use_cache=False, dtype="bfloat16"), ids()),
    "mistral": ("MistralForCausalLM", "MistralConfig", GROUPED | dict(use_cache=False, sliding_window=4), ids()),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED | dict(use_cache=False), ids()),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", GROUPED | dict(use_cache=False), ids()),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", GROUPED | dict(use_cache=False), ids()),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", GROUPED | dict(use_cache=False, sliding_window=4), ids()),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", GROUPED | dict(use_cache=False, sliding_window=4), ids()),
    "phi": ("PhiForCausalLM", "PhiConfig", TEXT | dict(use_cache=False), ids()),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", TEXT | dict(num_key_value_heads=2, use_cache=False, pad_token_id=0), ids()),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", GROUPED | dict(use_cache=False), ids()),
    "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", GROUPED | dict(use_cache=False), ids()),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", GROUPED | dict(use_cache=False, pad_token_id=0), ids()),
    "cohere": ("CohereForCausalLM", "CohereConfig", GROUPED | dict(use_cache=False), ids()),
    "granite": ("GraniteForCausalLM", "GraniteConfig", GROUPED | dict(use_cache=False), ids()),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", GROUPED | dict(use_cache=False, pad_token_id=0), ids()),
    "glm": ("GlmForCausalLM", "GlmConfig", GROUPED | dict(use_cache=False, pad_token_id=0), ids()),
    "nemotron": ("NemotronForCausalLM", "NemotronConfig", GROUPED | dict(use_cache=False), ids()),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", GROUPED | dict(use_cache=False, num_local_experts=4), ids()),
    "deepseek_v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", TEXT | dict(use_cache=False, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, n_routed_experts=8, n_group=2, topk_group=1, num_experts_per_tok=3, moe_intermediate_size=16, first_k_dense_replace=1), ids()),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", GROUPED | dict(use_cache=False, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=20, decoder_sparse_step=1), ids()),
    "rwkv": ("RwkvModel", "RwkvConfig", dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, use_cache=False), ids()),
    "mamba": ("MambaModel", "MambaConfig", dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=4, use_cache=False, use_mambapy=False), ids(5)),
    "mamba2": ("Mamba2Model", "Mamba2Config", dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=4, num_heads=8, head_dim=8, n_groups=2, chunk_size=8, use_cache=False), ids(8)),
    # vision
    "vit": ("ViTModel", "ViTConfig", VISION, pixels()),
    "deit": ("DeiTModel", "DeiTConfig", VISION, pixels()),
    "beit": ("BeitModel", "BeitConfig", VISION | dict(use_relative_position_bias=True), pixels()),
    "dinov2": ("Dinov2Model", "Dinov2Config", VISION, pixels()),
    "dinov3_vit": ("DINOv3ViTModel", "DINOv3ViTConfig", VISION, pixels()),
    "swin": ("SwinModel", "SwinConfig", dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4), pixels()),
    "swinv2": ("Swinv2Model", "Swinv2Config", dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4), pixels()),
    "convnext": ("ConvNextModel", "ConvNextConfig", dict(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2), pixels()),
    "convnextv2": ("ConvNextV2Model", "ConvNextV2Config", dict(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2), pixels()),
    "resnet": ("ResNetModel", "ResNetConfig", dict(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1]), pixels()),
    "regnet": ("RegNetModel", "RegNetConfig", dict(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], groups_width=8), pixels()),
    "mobilenet_v1": ("MobileNetV1Model", "MobileNetV1Config", dict(depth_multiplier=0.25), pixels()),
    "mobilenet_v2": ("MobileNetV2Model", "MobileNetV2Config", dict(depth_multiplier=0.25), pixels()),
    "mobilevit": ("MobileViTModel", "MobileViTConfig", dict(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 64], num_attention_heads=4), pixels(64)),
    "efficientnet": ("EfficientNetModel", "EfficientNetConfig", dict(width_coefficient=0.25, depth_coefficient=0.25, image_size=64, hidden_dim=320), pixels(64)),
    "segformer": ("SegformerForSemanticSegmentation", "SegformerConfig", dict(hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 4, 4], decoder_hidden_size=32), pixels(64)),
    "pvt": ("PvtModel", "PvtConfig", dict(image_size=64, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 4, 4]), pixels(64)),
    "poolformer": ("PoolFormerModel", "PoolFormerConfig", dict(hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]), pixels(64)),
    "cvt": ("CvtModel", "CvtConfig", dict(embed_dim=[16, 32, 32], depth=[1, 2, 3], num_heads=[1, 2, 4]), pixels(64)),
    "levit": ("LevitModel", "LevitConfig", dict(image_size=64, hidden_sizes=[16, 32, 32], num_attention_heads=[2, 4, 4], depths=[1, 1, 1], key_dim=[8, 8, 8]), pixels(64)),
    "dpt": ("DPTForDepthEstimation", "DPTConfig", VISION | dict(num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[16, 16, 16, 16], fusion_hidden_size=16), pixels()),
    "detr": ("DetrModel", "DetrConfig", ENCODER_DECODER | dict(num_queries=5, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config="resnet"), pixels(64)),
    "yolos": ("YolosModel", "YolosConfig", VISION | dict(image_size=[32, 32], num_detection_tokens=5), pixels()),
    "vit_mae": ("ViTMAEModel", "ViTMAEConfig", VISION | dict(mask_ratio=0.0), pixels(noise=lambda: torch.rand(1, 16))),
    "hiera": ("HieraModel", "HieraConfig", dict(image_size=[32, 32], patch_size=[3, 3], patch_stride=[2, 2], patch_padding=[1, 1], masked_unit_size=[4, 4], embed_dim=16, depths=[1, 1], num_heads=[2, 4], num_query_pool=1, query_stride=[2, 2]), pixels()),
    "sam_vision": ("SamVisionModel", "SamVisionConfig", VISION | dict(output_channels=16, window_size=2, global_attn_indexes=[1], mlp_dim=64, num_pos_feats=8), pixels()),
    "clip": ("CLIPModel", "CLIPConfig", dict(text_config=TEXT | dict(eos_token_id=2), vision_config=VISION, projection_dim=16), ids(pixel_values=lambda: torch.randn(1, 3, 32, 32))),
    "siglip": ("SiglipModel", "SiglipConfig", dict(text_config=TEXT, vision_config=VISION), ids(pixel_values=lambda: torch.randn(1, 3, 32, 32))),
    "blip2_vision": ("Blip2VisionModel", "Blip2VisionConfig", VISION, pixels()),
    # sound
    "whisper_encoder": ("WhisperModel", "WhisperConfig", ENCODER_DECODER | dict(num_mel_bins=8, max_source_positions=20, max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1), floats("input_features", 1, 8, 40), "sdpa", "encoder"),
    "whisper": ("WhisperModel", "WhisperConfig", ENCODER_DECODER | dict(num_mel_bins=8, max_source_positions=20, max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False), floats("input_features", 2, 8, 40, decoder_input_ids=decoder_ids)),
    "wav2vec2": ("Wav2Vec2Model", "Wav2Vec2Config", AUDIO, floats("input_values", 1, 400)),
    "hubert": ("HubertModel", "HubertConfig", AUDIO, floats("input_values", 1, 400)),
    "wavlm": ("WavLMModel", "WavLMConfig", AUDIO, floats("input_values", 1, 400)),
    "sew": ("SEWModel", "SEWConfig", AUDIO, floats("input_values", 1, 400)),
    "ast": ("ASTModel", "ASTConfig", dict(TEXT, patch_size=4, max_length=24, num_mel_bins=16, frequency_stride=4, time_stride=4), floats("input_values", 1, 24, 16)),
    "encodec": ("EncodecModel", "EncodecConfig", dict(num_filters=8, hidden_size=16, codebook_size=32, upsampling_ratios=[4, 2], num_lstm_layers=1), floats("input_values", 1, 1, 64)),
    "vits": ("VitsModel", "VitsConfig", dict(TEXT, num_attention_heads=2, noise_scale=0.0, noise_scale_duration=0.0), ids()),
    # others
    "patchtst": ("PatchTSTModel", "PatchTSTConfig", dict(num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=32), floats("past_values", 1, 32, 2)),
    "time_series": ("TimesFmModel", "TimesFmConfig", dict(patch_length=8, context_length=32, horizon_length=8, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, head_dim=8), floats("past_values", 1, 32, past_values_padding=lambda: torch.zeros(1, 32), freq=lambda: torch.zeros(1, 1, dtype=torch.long))),
    "decision_transformer": ("DecisionTransformerModel", "DecisionTransformerConfig", dict(state_dim=3, act_dim=2, hidden_size=32, n_layer=1, n_head=2, max_ep_len=20), floats("states", 1, 4, 3, actions=lambda: torch.randn(1, 4, 2), rewards=lambda: torch.randn(1, 4, 1), returns_to_go=lambda: torch.randn(1, 4, 1), timesteps=lambda: torch.arange(4)[None], attention_mask=lambda: torch.ones(1, 4))),
    "layoutlm": ("LayoutLMModel", "LayoutLMConfig", TEXT, masked(bbox=lambda: torch.randint(0, 60, (2, 11, 4)).sort(-1).values)),
    "perceiver": ("PerceiverModel", "PerceiverConfig", dict(num_latents=4, d_latents=16, d_model=16, num_blocks=1, num_self_attends_per_block=1, num_self_attention_heads=2, num_cross_attention_heads=2), floats("inputs", 1, 7, 16)),
}  # fmt: skip


def awaken(model):
    """Sets weights, biases and statistics as after training: initial ones are 0, 1 or too small to test results."""
    for module in model.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.modules.conv._ConvNd):
            torch.nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
    for p in model.parameters():
        if p.dim() <= 1 and p.is_floating_point() and bool((p == p.view(-1)[0]).all()):
            base = 0.5 if 0 < abs(p.view(-1)[0].item()) < 0.2 else p
            p.data.copy_(base + 0.1 * torch.randn_like(p))
    for name, b in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            b.copy_(b + 0.3 * torch.rand_like(b))
    return model


@torch.no_grad()
def make(name, run=0, attention=None):
    """Returns (module in eval mode, args, kwargs) of a family: the module is always the same, inputs differ by run.

    attention: "eager" or "sdpa" instead of the row's; raises ValueError if the model does not have it."""
    if name not in ROWS:
        import zoo

        if attention == "sdpa":
            raise ValueError(f"{name} has one attention")
        return zoo.make(name, run)
    import transformers

    model_name, config_name, fields, inputs, *more = ROWS[name]
    implementation, part = (*more, None, None)[:2]
    fields = dict(fields)
    dtype = getattr(torch, fields.pop("dtype", "float32"))
    if fields.get("backbone_config") == "resnet":
        fields["backbone_config"] = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage4"]
        )
    config = getattr(transformers, config_name)(**fields)
    if attention or implementation:
        config._attn_implementation = attention or implementation
    torch.manual_seed(7)
    model = awaken(getattr(transformers, model_name)(config)).to(dtype).eval()
    torch.manual_seed(run)
    return Tensors(model, part).eval(), (), inputs()
