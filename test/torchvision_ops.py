"""torchvision's nms by the formula of its documentation, under its own name, where torchvision is not installed."""

import torch

if not hasattr(torch.ops.torchvision, "nms"):

    @torch.library.custom_op("torchvision::nms", mutates_args=())
    def nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
        """dets: (N, 4), as x1, y1, x2, y2; scores: (N). The boxes that no better kept one overlaps, best first."""
        areas = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
        order, kept = scores.sort(stable=True, descending=True)[1].tolist(), []
        for i in order:
            shared = torch.tensor([[0.0]], dtype=dets.dtype)
            if kept:
                low, high = torch.maximum(dets[kept, :2], dets[i, :2]), torch.minimum(dets[kept, 2:], dets[i, 2:])
                shared = (high - low).clamp(min=0).prod(1)
                shared = shared / (areas[kept] + areas[i] - shared)
            if not (shared.double() > iou_threshold).any():
                kept.append(i)
        return torch.tensor(kept, dtype=torch.int64)

    @nms.register_fake
    def _(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
        return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)
