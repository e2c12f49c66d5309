/* Distances between rows: kernels_cl/distance.cl. */
#include "ops/distance.h"

#include <math.h>

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { KIND_INFINITE = 4, KIND_ANY = 5, CPU_ROWS = 4, CPU_WIDTH = 16 };
/* Of distance_panels: rows of a work-item, and of a tile. */
enum { CHUNK = 120, WIDE_TILE = 8, NARROW_TILE = 4 };
/* Of distance_products: least sizes, and a tile's rows and vectors. */
enum { PRODUCT_ROWS = 32, PRODUCT_TERMS = 32, PRODUCT_TILE = 6, PRODUCT_VECTORS = 4 };

static int kind_of(double p) {
  if (p == 0 || p == 1 || p == 2 || p == 3) return (int)p;
  return isinf(p) ? KIND_INFINITE : KIND_ANY;
}

/* A tile of few rows is mostly done for nothing. */
static bool takes_panels(const cl_recorder *s, const distance_form *f, int kind) {
  const bool usual = kind == 1 || kind == 2 || kind == KIND_INFINITE;
  return recorder_traits(s)->is_cpu && usual && f->a->t.type != DTYPE_F64 && f->m > 0 &&
         f->n_a >= NARROW_TILE && f->n_b >= NARROW_TILE;
}

/* Fewer terms are often near to each other. */
static bool takes_products(const distance_form *f, int kind) {
  return kind == 2 && f->a->t.type == DTYPE_F32 && f->m >= PRODUCT_TERMS &&
         f->n_a >= PRODUCT_ROWS && f->n_b >= PRODUCT_ROWS;
}

static clave_status launch_panels(cl_recorder *s, const node *n, const distance_form *f, int kind) {
  const bool is_wide = recorder_traits(s)->vector_width >= CPU_WIDTH,
             products = takes_products(f, kind);
  const int tile = !is_wide ? NARROW_TILE : products ? PRODUCT_TILE : WIDE_TILE;
  const int vectors = is_wide && products ? PRODUCT_VECTORS : 1;
  const int64_t chunks = ceil_div(f->n_a, CHUNK), panels = ceil_div(f->n_b, vectors * CPU_WIDTH),
                items = f->n_out / (f->n_a * f->n_b) * chunks * panels;
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", f->a->t.type);
  launch_compute(&l, f->a->t.type);
  launch_define(&l, "KIND", kind);
  launch_define(&l, "W", CPU_WIDTH);
  launch_define(&l, "TILE", tile);
  launch_define(&l, "CHUNK", CHUNK);
  if (products) {
    launch_define(&l, "VECTORS", vectors);
    launch_args(&l, &(distance_products_args){.a = buffer_arg(f->a),
                                              .b = buffer_arg(f->b),
                                              .out = buffer_arg(f->out),
                                              .items = items,
                                              .n_a = f->n_a,
                                              .n_b = f->n_b,
                                              .m = f->m});
    return launch_loops(&l, items, 1, f->m * min_i64(f->n_a, CHUNK) * vectors);
  }
  launch_args(&l, &(distance_panels_args){.a = buffer_arg(f->a),
                                          .b = buffer_arg(f->b),
                                          .out = buffer_arg(f->out),
                                          .items = items,
                                          .n_a = f->n_a,
                                          .n_b = f->n_b,
                                          .m = f->m});
  return launch_loops(&l, items, 1, f->m * min_i64(f->n_a, CHUNK) * 2);
}

clave_status opencl_distance(cl_recorder *s, const node *n) {
  distance_form f;
  describe_distance(n, &f);
  if (f.n_out == 0) return NULL;
  int kind = kind_of(f.p);
  if (takes_panels(s, &f, kind)) return launch_panels(s, n, &f, kind);
  bool vector = recorder_traits(s)->is_cpu && kind != KIND_ANY; /* PoCL: pow of double16 is wrong */
  int rows = vector ? CPU_ROWS : 1;
  int64_t items = f.n_out / f.n_b * ceil_div(f.n_b, rows);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", f.a->t.type);
  launch_compute(&l, f.a->t.type);
  launch_define(&l, "KIND", kind);
  launch_define(&l, "W", vector ? CPU_WIDTH : 1);
  launch_define(&l, "ROWS", rows);
  launch_args(&l, &(distance_rows_args){.a = buffer_arg(f.a),
                                        .b = buffer_arg(f.b),
                                        .out = buffer_arg(f.out),
                                        .items = items,
                                        .n_a = f.n_a,
                                        .n_b = f.n_b,
                                        .m = f.m,
                                        .p = kind == KIND_ANY ? f.p : 0});
  return launch_loops(&l, items, 1, (2 * f.m + 8) * rows);
}
