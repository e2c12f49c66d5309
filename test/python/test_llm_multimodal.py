"""Models with images or sounds: their text models, from folders and from memory; others are refused."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

import clave
from clave.llm import LLMExporter, export, use_kv_cache

IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
TEXT = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "head_dim": 8,
    **IDS,
}
EYE = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
IMAGE = {"image_size": 28, "patch_size": 14}
LLAMA4 = {"num_local_experts": 2, "intermediate_size_mlp": 48, "attention_chunk_size": 8}
LLAMA4_EYE = {"vision_output_dim": 16, "projector_input_dim": 16, "projector_output_dim": 16}
EAR = {"vocab_size": 97, "num_mel_bins": 8, "max_source_positions": 16}

# name: (class without its suffix, config of the text, config of the other input, its key)
FAMILIES = {
    "gemma3": ("Gemma3", {"sliding_window": 8}, IMAGE, "vision_config"),
    "llava": ("Llava", {"model_type": "llama"}, {"model_type": "clip_vision_model", **IMAGE}, "vision_config"),
    "mistral3": ("Mistral3", {"model_type": "mistral"}, {"model_type": "pixtral", **IMAGE}, "vision_config"),
    "idefics3": ("Idefics3", {"model_type": "llama"}, IMAGE, "vision_config"),
    "smolvlm": ("SmolVLM", {"model_type": "llama", "tie_word_embeddings": True}, IMAGE, "vision_config"),
    "llama4": ("Llama4", LLAMA4, IMAGE | LLAMA4_EYE, "vision_config"),
    "aya_vision": (
        "AyaVision",
        {"model_type": "cohere2", "sliding_window": 8},
        {"model_type": "siglip_vision_model", **IMAGE},
        "vision_config",
    ),
    "voxtral": ("Voxtral", {"model_type": "llama"}, EAR, "audio_config"),
}
pytestmark = pytest.mark.by_turn(9)


def model_of(name):
    kind, text, other, key = FAMILIES[name]
    parts = {"text_config": TEXT | text, key: EYE | other}
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**parts)
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config).eval()
    for p in model.parameters():
        p.data.add_(torch.randn_like(p) * (0.2 if p.dim() > 1 else 0.1))
    return model


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_the_text_model_gives_the_logits_of_the_whole(name, tmp_path, capsys):
    model, ids = model_of(name), torch.randint(3, 80, (1, 30), generator=torch.Generator().manual_seed(1))
    model.save_pretrained(tmp_path / "m")
    want = model(input_ids=ids, use_cache=False).logits[0]
    capsys.readouterr()
    out = tmp_path / "m.clv"
    assert export.main(["--model", str(tmp_path / "m"), "--output", str(out), "--max-context", "64"]) == 0
    said = capsys.readouterr().err
    assert f"is a {type(model).__name__}: exports the text model; images and sounds are not supported\n" in said
    assert not any("vision" in t.name or "audio" in t.name for t in clave.load(out).schema.tensors)
    for run in (clave.Session(out, "cpu"), use_kv_cache(model, 64)):
        at = 0
        for n in (11, 1, 18):
            got = run(ids[:, at : at + n], torch.tensor(at))[0]
            at += n
            torch.testing.assert_close(got, want[at - 1], rtol=0, atol=1e-4 * float(want.abs().max()))


SMALL = {"vocab_size": 97, "d_model": 32, "max_position_embeddings": 64, "decoder_start_token_id": 1, **IDS}
LAYERS = {f"{part}_{n}": v for part in ("encoder", "decoder") for n, v in (("layers", 1), ("attention_heads", 2))}
ENCODER_DECODERS = {
    "T5": ("T5ForConditionalGeneration", {"d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 2}),
    "Bart": ("BartForConditionalGeneration", LAYERS),
    "Marian": ("MarianMTModel", LAYERS),
    "Whisper": ("WhisperForConditionalGeneration", LAYERS | {"num_mel_bins": 8}),
    "Pegasus": ("PegasusForConditionalGeneration", LAYERS),
    "MBart": ("MBartForConditionalGeneration", LAYERS),
}


@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_encoder_decoders_are_refused_as_such(name, tmp_path):
    kind, more = ENCODER_DECODERS[name]
    model = getattr(transformers, kind)(getattr(transformers, f"{name}Config")(**SMALL | more)).eval()
    model.save_pretrained(tmp_path / "m")
    message = f"{kind}: expected a decoder alone, got an encoder-decoder; clave.export accepts an encoder and a decoder"
    for call in (lambda: LLMExporter(tmp_path / "m").capture(), lambda: use_kv_cache(model, 32)):
        with pytest.raises(clave.Error, match=message) as e:
            call()
        assert "\n" not in str(e.value)


def test_what_computes_text_in_another_way_is_refused(tmp_path):
    vision = EYE | IMAGE
    gemma = transformers.PaliGemmaConfig(text_config=TEXT | {"model_type": "gemma"}, vision_config=vision)
    rope = {"type": "mrope", "mrope_section": [1, 1, 2]}
    eye = {"depth": 1, "embed_dim": 16, "num_heads": 2, "hidden_size": 32}
    qwen = transformers.Qwen2VLConfig(text_config=TEXT | {"rope_scaling": rope}, vision_config=eye)
    for model, reason in (
        (transformers.PaliGemmaForConditionalGeneration(gemma), "tokens of a prompt see later ones"),
        (transformers.Qwen2VLForConditionalGeneration(qwen), "no causal language model .* .'qwen2_vl_text'"),
    ):
        folder = tmp_path / type(model).__name__
        model.eval().save_pretrained(folder)
        for call in (lambda f=folder: LLMExporter(f).capture(), lambda m=model: use_kv_cache(m, 32)):
            with pytest.raises(clave.Error, match=f"{type(model).__name__}: .*{reason}"):
                call()
