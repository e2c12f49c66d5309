"""Reads an image or a volume at the positions of a grid."""

from __future__ import annotations

from clave import schema
from clave.lowering.registry import Context, Tensor, lower


@lower("aten.grid_sampler.default", "aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sample(c: Context, x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    """Lowers grid_sampler. torch numbers modes and paddings as the schema does."""
    return c.emit(
        "GridSample",
        x=c.tensor(x),
        grid=c.tensor(grid),
        mode=schema.GridSampleMode(mode),
        padding=schema.GridSamplePadding(padding),
        align_corners=align_corners,
    )
