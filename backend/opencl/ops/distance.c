/* Distances between rows: kernels_cl/distance.cl. */
#include "ops/distance.h"

#include <math.h>

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { KIND_INFINITE = 4, KIND_ANY = 5, CPU_ROWS = 4, CPU_WIDTH = 16 };
/* distance_panels: rows per work-item, and rows per tile. */
enum { CHUNK = 120, WIDE_TILE = 8, NARROW_TILE = 4 };
/* distance_products: minimum sizes, and rows and vectors per tile. */
enum { PRODUCT_ROWS = 32, PRODUCT_TERMS = 32, PRODUCT_TILE = 6, PRODUCT_VECTORS = 4 };

static int opencl_distance_kind_of(double p) {
  if (p == 0 || p == 1 || p == 2 || p == 3) return (int)p;
  return isinf(p) ? KIND_INFINITE : KIND_ANY;
}

/* With fewer rows, a tile would waste most of its work. */
static bool opencl_distance_accepts_panels(const cl_recorder *recorder, const distance_desc *desc,
                                           int kind) {
  const bool usual = kind == 1 || kind == 2 || kind == KIND_INFINITE;
  return recorder_traits(recorder)->is_cpu && usual && desc->a->tensor.type != DTYPE_F64 &&
         desc->m > 0 && desc->n_a >= NARROW_TILE && desc->n_b >= NARROW_TILE;
}

/* With fewer terms, rows are often close together, where products lose precision. */
static bool opencl_distance_accepts_products(const distance_desc *desc, int kind) {
  return kind == 2 && desc->a->tensor.type == DTYPE_F32 && desc->m >= PRODUCT_TERMS &&
         desc->n_a >= PRODUCT_ROWS && desc->n_b >= PRODUCT_ROWS;
}

static clave_status launch_panels(cl_recorder *recorder, const node *node,
                                  const distance_desc *desc, int kind) {
  const bool is_wide = recorder_traits(recorder)->vector_width >= CPU_WIDTH,
             products = opencl_distance_accepts_products(desc, kind);
  const int tile = !is_wide ? NARROW_TILE : products ? PRODUCT_TILE : WIDE_TILE;
  const int vectors = is_wide && products ? PRODUCT_VECTORS : 1;
  const int64_t chunks = ceil_div(desc->n_a, CHUNK),
                panels = ceil_div(desc->n_b, vectors * CPU_WIDTH),
                items = desc->n_out / (desc->n_a * desc->n_b) * chunks * panels;
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", desc->a->tensor.type);
  launch_compute(&launch, desc->a->tensor.type);
  launch_define(&launch, "KIND", kind);
  launch_define(&launch, "W", CPU_WIDTH);
  launch_define(&launch, "TILE", tile);
  launch_define(&launch, "CHUNK", CHUNK);
  if (products) {
    launch_define(&launch, "VECTORS", vectors);
    launch_args(&launch, &(distance_products_args){.a = buffer_arg(desc->a),
                                                   .b = buffer_arg(desc->b),
                                                   .out = buffer_arg(desc->out),
                                                   .items = items,
                                                   .n_a = desc->n_a,
                                                   .n_b = desc->n_b,
                                                   .m = desc->m});
    return launch_loops(&launch, items, 1, desc->m * min_i64(desc->n_a, CHUNK) * vectors);
  }
  launch_args(&launch, &(distance_panels_args){.a = buffer_arg(desc->a),
                                               .b = buffer_arg(desc->b),
                                               .out = buffer_arg(desc->out),
                                               .items = items,
                                               .n_a = desc->n_a,
                                               .n_b = desc->n_b,
                                               .m = desc->m});
  return launch_loops(&launch, items, 1, desc->m * min_i64(desc->n_a, CHUNK) * 2);
}

clave_status opencl_distance(cl_recorder *recorder, const node *node) {
  distance_desc desc;
  describe_distance(node, &desc);
  if (desc.n_out == 0) return NULL;
  int kind = opencl_distance_kind_of(desc.p);
  if (opencl_distance_accepts_panels(recorder, &desc, kind))
    return launch_panels(recorder, node, &desc, kind);
  bool vector =
      recorder_traits(recorder)->is_cpu && kind != KIND_ANY; /* PoCL's pow of double16 is wrong */
  int rows = vector ? CPU_ROWS : 1;
  int64_t items = desc.n_out / desc.n_b * ceil_div(desc.n_b, rows);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", desc.a->tensor.type);
  launch_compute(&launch, desc.a->tensor.type);
  launch_define(&launch, "KIND", kind);
  launch_define(&launch, "W", vector ? CPU_WIDTH : 1);
  launch_define(&launch, "ROWS", rows);
  launch_args(&launch, &(distance_rows_args){.a = buffer_arg(desc.a),
                                             .b = buffer_arg(desc.b),
                                             .out = buffer_arg(desc.out),
                                             .items = items,
                                             .n_a = desc.n_a,
                                             .n_b = desc.n_b,
                                             .m = desc.m,
                                             .p = kind == KIND_ANY ? desc.p : 0});
  return launch_loops(&launch, items, 1, (2 * desc.m + 8) * rows);
}
