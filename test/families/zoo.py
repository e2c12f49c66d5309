"""More families, of torchvision, timm and diffusers, without weights: rows like those of models.py.

They run if the libraries are installed. The models need none of torchvision's compiled ops, so a torchvision built for
another torch works.
"""

import importlib

import torch
from models import awaken, floats


def pictures(size=64, batch=1, name="x"):
    return floats(name, batch, 3, size, size)


def _steps(name):
    return lambda: torch.tensor([7]) if name == "timestep" else torch.randn(1, 5, 16)


UNET = dict(
    sample_size=8, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4, cross_attention_dim=16,
    attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
)  # fmt: skip
VAE = dict(
    block_out_channels=(16, 32), norm_num_groups=4, down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4,
)  # fmt: skip
GUIDED = floats("sample", 1, 4, 8, 8, timestep=_steps("timestep"), encoder_hidden_states=_steps(""))

# name: (library, class or model name, its arguments, inputs).
ROWS = {
    # diffusers
    "unet_condition": ("diffusers", "UNet2DConditionModel", UNET, GUIDED),
    "unet_2d": ("diffusers", "UNet2DModel", dict(sample_size=8, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4, attention_head_dim=8, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D")), floats("sample", 1, 3, 8, 8, timestep=_steps("timestep"))),
    "vae_kl": ("diffusers", "AutoencoderKL", VAE, floats("sample", 1, 3, 16, 16)),
    "vq_model": ("diffusers", "VQModel", dict(block_out_channels=(16, 32), norm_num_groups=4, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, num_vq_embeddings=32), floats("sample", 1, 3, 16, 16)),
    "dit": ("diffusers", "DiTTransformer2DModel", dict(sample_size=8, num_layers=1, num_attention_heads=2, attention_head_dim=8, num_embeds_ada_norm=10), floats("hidden_states", 1, 4, 8, 8, timestep=_steps("timestep"), class_labels=lambda: torch.tensor([3]))),
    "pixart": ("diffusers", "PixArtTransformer2DModel", dict(sample_size=8, num_layers=1, num_attention_heads=2, attention_head_dim=8, cross_attention_dim=16, caption_channels=16), floats("hidden_states", 1, 4, 8, 8, timestep=_steps("timestep"), encoder_hidden_states=_steps(""))),
    "sd3": ("diffusers", "SD3Transformer2DModel", dict(sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=16, caption_projection_dim=16, pooled_projection_dim=16, out_channels=4, pos_embed_max_size=8), floats("hidden_states", 1, 4, 8, 8, timestep=_steps("timestep"), encoder_hidden_states=_steps(""), pooled_projections=lambda: torch.randn(1, 16))),
    "flux": ("diffusers", "FluxTransformer2DModel", dict(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=(4, 4, 8)), floats("hidden_states", 1, 16, 4, timestep=_steps("timestep"), encoder_hidden_states=_steps(""), pooled_projections=lambda: torch.randn(1, 16), img_ids=lambda: torch.rand(16, 3), txt_ids=lambda: torch.zeros(5, 3))),
    # torchvision
    "alexnet": ("torchvision", "alexnet", {}, pictures(64)),
    "squeezenet": ("torchvision", "squeezenet1_1", {}, pictures(64)),
    "shufflenet": ("torchvision", "shufflenet_v2_x0_5", {}, pictures(64)),
    "mnasnet": ("torchvision", "mnasnet0_5", {}, pictures(64)),
    "mobilenet_v3": ("torchvision", "mobilenet_v3_small", {}, pictures(64)),
    "googlenet": ("torchvision", "googlenet", dict(init_weights=False, aux_logits=False), pictures(64)),
    "inception": ("torchvision", "inception_v3", dict(init_weights=False, aux_logits=False), pictures(96)),
    "densenet": ("torchvision", "densenet121", {}, pictures(64)),
    "lraspp": ("torchvision", "lraspp_mobilenet_v3_large", dict(weights_backbone=None), pictures(64, name="input")),
    "deeplab": ("torchvision", "deeplabv3_mobilenet_v3_large", dict(weights_backbone=None), pictures(64)),
    "maxvit": ("torchvision", "maxvit_t", {}, pictures(224)),
    "r3d": ("torchvision", "r3d_18", {}, floats("x", 1, 3, 4, 32, 32)),
    "s3d": ("torchvision", "s3d", {}, floats("x", 1, 3, 16, 224, 224)),
    "raft": ("torchvision", "raft_small", {}, floats("image1", 1, 3, 128, 128, image2=lambda: torch.randn(1, 3, 128, 128), num_flow_updates=lambda: 2)),
    # timm
    **{f"timm_{n}": ("timm", n, {}, pictures(size)) for n, size in {
        "test_vit": 160, "test_byobnet": 96, "test_efficientnet": 96, "test_convnext": 96, "test_nfnet": 96,
        "test_resnet": 96, "test_mambaout": 96, "ghostnet_100": 64, "mixer_s32_224": 224, "edgenext_xx_small": 64,
        "xcit_nano_12_p16_224": 224, "crossvit_tiny_240": 240, "coat_lite_tiny": 224, "pit_ti_224": 224,
        "efficientformer_l1": 224, "gcvit_xxtiny": 224, "tiny_vit_5m_224": 224, "mobilevitv2_050": 64,
        "hrnet_w18_small": 64, "volo_d1_224": 224, "resnest14d": 64, "skresnet18": 64, "eca_resnext26ts": 64,
        "mobilenetv4_conv_small": 64, "regnetz_005": 64, "lambda_resnet26t": 64, "halonet26t": 256, "botnet26t_256": 256,
    }.items()},
}  # fmt: skip


# torchvision describes these ops even if its compiled ops do not load.
OPS = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, _name):
        OPS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def load(library):
    """Returns the module that defines the names of the rows."""
    return importlib.import_module("torchvision.models" if library == "torchvision" else library)


class Tensors(torch.nn.Module):
    """A model that returns its output's tensors."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **kwargs):
        out = self.model(**kwargs)
        leaves = torch.utils._pytree.tree_leaves(out.to_tuple() if hasattr(out, "to_tuple") else out)
        return [v for v in leaves if isinstance(v, torch.Tensor)]


def make(name, run=0):
    """Makes a family like models.make."""
    library, model, arguments, inputs = ROWS[name]
    torch.manual_seed(7)
    made = load(library)
    if library == "timm":
        module = made.create_model(model, pretrained=False)
    elif library == "torchvision":
        where = next(m for m in (made, made.segmentation, made.video, made.optical_flow) if hasattr(m, model))
        module = getattr(where, model)(weights=None, **arguments)
    else:
        module = getattr(made, model)(**arguments)
    torch.manual_seed(run)
    return Tensors(awaken(module).eval()), (), inputs()
