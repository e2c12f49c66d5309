"""Defines torchvision's ops by the formulas of its documentation, under their own names, unless it is installed."""

import itertools
import math

import torch

if not hasattr(torch.ops.torchvision, "nms"):

    @torch.library.custom_op("torchvision::nms", mutates_args=())
    def nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
        """dets: (N, 4), as x1, y1, x2, y2; scores: (N). Returns the boxes without a better kept one that overlaps."""
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


def _read(picture, y, x):
    """picture: (C, H, W). Returns the values (C) at a position, from its four neighbours, which are 0 outside."""
    low_y, low_x = math.floor(y), math.floor(x)
    total = torch.zeros(picture.shape[0], dtype=torch.float64)
    for i, j in itertools.product((low_y, low_y + 1), (low_x, low_x + 1)):
        if min(y, x) > -1 and 0 <= i < picture.shape[1] and 0 <= j < picture.shape[2]:
            total += (1 - abs(y - i)) * (1 - abs(x - j)) * picture[:, i, j]
    return total


def _aligned(picture, y, x):
    """Works like _read, but a position up to 1 outside the picture reads the elements of its edge."""
    h, w = picture.shape[1:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return torch.zeros(picture.shape[0], dtype=torch.float64)
    return _read(picture, min(max(y, 0), h - 1), min(max(x, 0), w - 1))


if not hasattr(torch.ops.torchvision, "roi_align"):

    @torch.library.custom_op("torchvision::roi_align", mutates_args=())
    def roi_align(
        input: torch.Tensor,
        rois: torch.Tensor,
        spatial_scale: float,
        pooled_height: int,
        pooled_width: int,
        sampling_ratio: int,
        aligned: bool,
    ) -> torch.Tensor:
        """rois: (K, 5), as picture, x1, y1, x2, y2. Returns the mean of each bin's samples: (K, C, *pooled)."""
        bins = (pooled_height, pooled_width)
        out = input.new_zeros(rois.shape[0], input.shape[1], *bins)
        for k, (picture, *sides) in enumerate(rois.double().tolist()):
            x1, y1, x2, y2 = (s * spatial_scale - (0.5 if aligned else 0) for s in sides)
            least = -math.inf if aligned else 1
            size = [max(y2 - y1, least) / bins[0], max(x2 - x1, least) / bins[1]]
            grid = [sampling_ratio if sampling_ratio > 0 else max(math.ceil(s), 0) for s in size]
            for i, j in itertools.product(*map(range, bins)):
                for a, b in itertools.product(*map(range, grid)):
                    y, x = y1 + size[0] * (i + (a + 0.5) / grid[0]), x1 + size[1] * (j + (b + 0.5) / grid[1])
                    out[k, :, i, j] += _aligned(input[int(picture)].double(), y, x) / (grid[0] * grid[1])
        return out

    @roi_align.register_fake
    def _(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
        return input.new_empty(rois.shape[0], input.shape[1], pooled_height, pooled_width)

    @torch.library.custom_op("torchvision::roi_pool", mutates_args=())
    def roi_pool(
        input: torch.Tensor, rois: torch.Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the largest element of each bin, or 0 for an empty bin; edges are integers. The argmax is 0 here."""
        bins = (pooled_height, pooled_width)
        out = input.new_zeros(rois.shape[0], input.shape[1], *bins)
        for k, (picture, *sides) in enumerate(rois.double().tolist()):
            x1, y1, x2, y2 = (int(math.copysign(math.floor(abs(s * spatial_scale) + 0.5), s)) for s in sides)
            size = [max(y2 - y1 + 1, 1) / bins[0], max(x2 - x1 + 1, 1) / bins[1]]
            for i, j in itertools.product(*map(range, bins)):
                edges = (y1 + math.floor(i * size[0]), y1 + math.ceil((i + 1) * size[0]))
                more = (x1 + math.floor(j * size[1]), x1 + math.ceil((j + 1) * size[1]))
                (top, bottom), (left, right) = (tuple(max(e, 0) for e in pair) for pair in (edges, more))
                part = input[int(picture), :, top:bottom, left:right].flatten(1)
                out[k, :, i, j] = part.amax(1) if part.numel() else 0
        return out, torch.zeros(out.shape, dtype=torch.int32)

    @roi_pool.register_fake
    def _(input, rois, spatial_scale, pooled_height, pooled_width):
        shape = (rois.shape[0], input.shape[1], pooled_height, pooled_width)
        return input.new_empty(shape), input.new_empty(shape, dtype=torch.int32)

    @torch.library.custom_op("torchvision::deform_conv2d", mutates_args=())
    def deform_conv2d(
        input: torch.Tensor,
        weight: torch.Tensor,
        offset: torch.Tensor,
        mask: torch.Tensor,
        bias: torch.Tensor,
        stride_h: int,
        stride_w: int,
        pad_h: int,
        pad_w: int,
        dilation_h: int,
        dilation_w: int,
        groups: int,
        offset_groups: int,
        use_mask: bool,
    ) -> torch.Tensor:
        """Computes a convolution whose taps read the picture at offset positions, multiplied by the mask."""
        (n, channels, *_), (kh, kw), (oh, ow) = input.shape, weight.shape[2:], offset.shape[2:]
        per = channels // offset_groups
        moved = offset.double().view(n, offset_groups, kh, kw, 2, oh, ow).tolist()
        read = torch.zeros(n, channels, kh, kw, oh, ow, dtype=torch.float64)
        for b, g, i, j, y, x in itertools.product(*map(range, (n, offset_groups, kh, kw, oh, ow))):
            down, right = moved[b][g][i][j][0][y][x], moved[b][g][i][j][1][y][x]
            at = y * stride_h - pad_h + i * dilation_h + down, x * stride_w - pad_w + j * dilation_w + right
            read[b, g * per : (g + 1) * per, i, j, y, x] = _read(input[b, g * per : (g + 1) * per].double(), *at)
        if use_mask:
            factors = mask.double().view(n, offset_groups, 1, kh, kw, oh, ow)
            read = (read.view(n, offset_groups, per, kh, kw, oh, ow) * factors).view(read.shape)
        columns = read.view(n, groups, -1, oh * ow)
        out = weight.double().view(groups, -1, columns.shape[2]) @ columns
        return (out.view(n, -1, oh, ow) + bias.double().view(-1, 1, 1)).to(input.dtype)

    @deform_conv2d.register_fake
    def _(input, weight, offset, *_):
        return input.new_empty(input.shape[0], weight.shape[0], *offset.shape[2:])
