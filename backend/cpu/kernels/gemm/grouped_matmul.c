/* Multiplies each group of rows by its matrix. Scratch memory suffices for any group size. */
#include "backend/cpu/kernels/gemm/grouped_matmul.h"

#include <string.h>

#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/gemm/matmul.h"
#include "backend/cpu/kernels/index.h"

enum { MAX_ROWS = 512 /* rows of a product; bounds the scratch memory */ };

/* Returns the bytes of the panels of one matrix. */
static size_t panels_bytes(const grouped_matmul_args *args) {
  code_panels of;
  bool has_panels = is_encoded(&args->encoding) && args->n > 0 && args->k > 0 &&
                    code_panels_of(&args->encoding, args->k, &of);
  return has_panels ? codes_panels_bytes(&of, args->n) : 0;
}

static const void *panels_at(const grouped_matmul_args *args, int64_t group) {
  return args->is_packed ? (const char *)args->panels + (size_t)group * panels_bytes(args) : NULL;
}

static const void *matrix_at(const grouped_matmul_args *args, int64_t group) {
  if (!is_encoded(&args->encoding)) return element_at(args->b, args->b_type, group * args->b_group);
  return (const char *)args->b +
         (size_t)(group * args->n) * encoding_row_bytes(&args->encoding, args->k);
}

/* Describes the product of rows [from, from + m) of a and b[group]. */
static matmul_args product_of_rows(const grouped_matmul_args *args, int64_t group, int64_t from,
                                   int64_t m) {
  const ktensor *a = &args->a;
  return (matmul_args){.a = element_at(a->data, a->type, from * a->strides[0]),
                       .b = args->is_packed ? NULL : matrix_at(args, group),
                       .panels = panels_at(args, group),
                       .is_packed = args->is_packed,
                       .rounds = args->rounds,
                       .out = element_at(args->out.data, a->type, from * args->n),
                       .type = a->type,
                       .a_type = a->type,
                       .out_type = a->type,
                       .b_type = args->b_type,
                       .encoding = args->encoding,
                       .m = m,
                       .n = args->n,
                       .k = args->k,
                       .batches = 1,
                       .a_m = a->strides[0],
                       .a_k = a->strides[1],
                       .b_k = args->b_k,
                       .b_n = args->b_n,
                       .alpha = 1,
                       .epilogue = conv_epilogue_none};
}

static int64_t grouped_matmul_max_rows(const grouped_matmul_args *args) {
  return args->a.dims[0] < MAX_ROWS ? args->a.dims[0] : MAX_ROWS;
}

/* Returns the most scratch memory that a product of any number of rows needs. */
static size_t grouped_scratch(const kernel_context *ctx, const void *args) {
  size_t most = 0;
  for (int64_t m = 1; m <= grouped_matmul_max_rows(args); m++) {
    const matmul_args rows = product_of_rows(args, 0, 0, m);
    size_t bytes = matmul_scratch(ctx, &rows);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* Returns the end of the group that begins at `start`. */
static int64_t end_of_group(const kernel_context *ctx, const grouped_matmul_args *args,
                            int64_t group, int64_t start) {
  int64_t end = load_index(&args->ends, group * args->ends.strides[0]), rows = args->a.dims[0];
  if (end >= start && end <= rows) return end;
  kernel_fault_set(ctx->fault, KERNEL_FAULT_INDEX, end, start, rows);
  return start;
}

static bool grouped_matmul(const kernel_context *ctx, const void *args) {
  const grouped_matmul_args *own = args;
  int64_t rows = own->a.dims[0], n = own->n, start = 0;
  if (rows * n == 0) return true;
  char *memory = ctx->scratch(ctx->pool, grouped_scratch(ctx, args));
  if (!memory) return false;
  for (int64_t group = 0; group < own->groups; group++) {
    int64_t end = end_of_group(ctx, own, group, start);
    while (start < end) {
      int64_t m =
          end - start < grouped_matmul_max_rows(own) ? end - start : grouped_matmul_max_rows(own);
      const matmul_args some = product_of_rows(own, group, start, m);
      matmul_multiply(ctx, &some, memory);
      start += m;
    }
  }
  memset(element_at(own->out.data, own->out.type, start * n), 0,
         (size_t)((rows - start) * n) * dtype_size(own->out.type));
  return true;
}

const kernel_desc kernel_grouped_matmul = {
    .name = "grouped_matmul",
    .run = grouped_matmul,
    .scratch = grouped_scratch,
    .args_size = sizeof(grouped_matmul_args),
    .operands = {OPERAND(grouped_matmul_args, a), OPERAND(grouped_matmul_args, b),
                 OPERAND(grouped_matmul_args, panels), OPERAND(grouped_matmul_args, ends),
                 OPERAND(grouped_matmul_args, out)}};

bool grouped_matmul_packs(const grouped_matmul_args *args) { return panels_bytes(args) > 0; }

bool grouped_matmul_rounds(const grouped_matmul_args *args) {
  const matmul_args one = product_of_rows(args, 0, 0, 1);
  return grouped_matmul_packs(args) && matmul_rounds(&one);
}

static size_t pack_groups_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  const grouped_matmul_args *own = args;
  return kernel_scratch_size((size_t)own->groups * panels_bytes(own));
}

static bool grouped_matmul_pack_groups(const kernel_context *ctx, const void *args) {
  const grouped_matmul_args *own = args;
  char *to = ctx->scratch(ctx->pool, pack_groups_scratch(ctx, args));
  for (int64_t i = 0; to && i < own->groups; i++)
    codes_pack(ctx, &own->encoding, matrix_at(own, i), own->n, own->k,
               to + (size_t)i * panels_bytes(own));
  return to != NULL;
}

const kernel_desc kernel_grouped_matmul_pack = {.name = "grouped_matmul_pack",
                                                .run = grouped_matmul_pack_groups,
                                                .scratch = pack_groups_scratch,
                                                .args_size = sizeof(grouped_matmul_args),
                                                .operands = {OPERAND(grouped_matmul_args, b)}};
