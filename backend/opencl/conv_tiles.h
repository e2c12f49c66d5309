#ifndef BACKEND_OPENCL_CONV_TILES_H
#define BACKEND_OPENCL_CONV_TILES_H
/* Convolutions of images as pairs of BF16 by AMX's tiles: kernels_cl/conv_tiles.cl. */
#include "backend/opencl/opencl.h"
#include "ops/conv.h"

/* Whether there are such tiles for it, where fewer digits will do. */
clave_status conv_tiles_usable(cl_recorder *s, const conv_form *f, bool *out) STATUS_CHECK;
/* Whether that is faster than other ways. */
bool conv_tiles_suit(const conv_form *f);
clave_status conv_tiles(cl_recorder *s, const node *n, const conv_form *f) STATUS_CHECK;

#endif
