/* Convolutions on AMX: out = min(max(weight * x + bias + added, low), high) per group, then steps.
 * A task gathers words of x, multiplies tiles of them with the packed weight (conv_amx_weight.h)
 * and stores the sums. The three ways to gather differ only in the plan (conv_amx_gather.h). Loop
 * order: image, task (group, place, strips), pass over blocks of words, columns. */
#include "backend/cpu/kernels/conv/conv_amx.h"

#include "backend/cpu/kernels/conv/conv_amx_gather.h"
#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum {
  TASKS = 4,           /* minimum per thread, so that all threads end at about the same time */
  WORK = 1024 * 1024,  /* multiplications that justify waking a thread */
  COPY_WORK = 8 * 1024 /* copied elements that justify waking a thread */
};

bool conv_amx_accepts_transposed(const conv_args *args) {
  const conv_dim *dim = args->dims;
  bool apart = dim[0].kernel == 1 && dim[2].stride == 2 && in_size(args) >= AMX_COLUMNS;
  for (int i = 0; i < CONV_DIMS; i++)
    apart &= dim[i].kernel == dim[i].stride && dim[i].padding == 0 && dim[i].dilation == 1 &&
             dim[i].out == dim[i].in * dim[i].stride;
  return args->transposed && args->type == DTYPE_F32 && !is_encoded(&args->encoding) && apart &&
         !conv_is_by_rows(args) && conv_tiles_fit(args->channels, dim);
}

/* Cuts slices of outputs into patches of several whole rows or of part of one row. A slice has at
 * least `min_patches` vertical patches if it has that many rows. */
static void cut_slices(conv_amx *amx, int64_t min_patches) {
  const conv_dim *dim = amx->args->dims;
  amx->column_patches = ceil_div(dim[2].out, amx->max_columns);
  amx->columns = ceil_div(dim[2].out, max_i64(amx->column_patches, 1));
  const int64_t max_rows = max_i64(amx->max_columns / max_i64(amx->row_stride, 1), 1),
                patches = min_i64(max_i64(ceil_div(dim[1].out, max_rows), min_patches), dim[1].out);
  amx->rows = ceil_div(dim[1].out, max_i64(patches, 1));
  amx->row_patches = ceil_div(dim[1].out, max_i64(amx->rows, 1));
  amx->places = dim[0].out * amx->row_patches * amx->column_patches;
  amx->sum_stride = round_up((amx->rows - 1) * amx->row_stride + amx->columns, AMX_COLUMNS);
}

static void find_patch(const conv_amx *amx, int64_t place, conv_amx_patch *patch) {
  const conv_dim *dim = amx->args->dims;
  patch->column = place % amx->column_patches * amx->columns;
  patch->row = place / amx->column_patches % amx->row_patches * amx->rows;
  patch->z = place / amx->column_patches / amx->row_patches;
  patch->rows = min_i64(amx->rows, dim[1].out - patch->row);
  patch->columns = min_i64(amx->columns, dim[2].out - patch->column);
}

static conv_amx conv_amx_plan(const kernel_context *ctx, const conv_args *args) {
  conv_amx amx = {.args = args, .products = args->groups, .strips = conv_tiled_strips(args)};
  const int64_t tasks = TASKS * ctx->n_threads;
  if (args->transposed) {
    conv_amx_plan_transposed(&amx);
    const int64_t shares = ceil_div(tasks, max_i64(amx.products * amx.places, 1));
    amx.strip_shares = min_i64(shares, max_i64(amx.strips, 1));
    return amx;
  }
  (conv_is_by_rows(args) ? conv_amx_plan_rows : conv_amx_plan_planes)(&amx);
  cut_slices(&amx,
             ceil_div(tasks, max_i64(args->groups * amx.strip_shares * args->dims[0].out, 1)));
  if (amx.step > 0) return amx;
  amx.step = amx.sum_stride;
  amx.panel_words = amx.words * amx.step;
  return amx;
}

static bool conv_amx_is_empty(const conv_args *args) {
  return args->images * args->groups * args->outputs * out_size(args) == 0;
}
static int64_t conv_amx_task_count(const conv_amx *amx) {
  return amx->products * amx->strip_shares * amx->places;
}
static int64_t conv_amx_work_of(const conv_amx *amx) {
  return amx->products * out_size(amx->args) * amx->args->outputs * amx->depth / WORK;
}
static size_t conv_amx_copy_bytes(const conv_amx *amx) {
  return kernel_scratch_size((size_t)amx->copied_words * sizeof(uint32_t));
}
/* A task has a panel, sums, and memory for conv_amx_store(). */
static size_t conv_amx_task_bytes(const conv_amx *amx) {
  const int64_t sums = AMX_OUTPUTS * (amx->sum_stride + amx->rows * amx->columns);
  return (size_t)(amx->panel_words + sums) * sizeof(float);
}

/* Finds the patch of a task and its first strip. Returns the strip after its last one. */
static int64_t find_task(const conv_amx *amx, int64_t task, conv_amx_patch *patch) {
  const int64_t product = task / (amx->strip_shares * amx->places),
                in_product = task % (amx->strip_shares * amx->places);
  const int64_t n = amx->strips_first ? amx->strip_shares : amx->places, slow = in_product / n,
                fast = in_product % n;
  const int64_t share = amx->strips_first ? fast : slow, place = amx->strips_first ? slow : fast;
  *patch = (conv_amx_patch){.image = amx->image + product / amx->args->groups,
                            .group = product % amx->args->groups,
                            .strip = amx->strips * share / amx->strip_shares};
  (amx->find_place ? amx->find_place : find_patch)(amx, place, patch);
  return amx->strips * (share + 1) / amx->strip_shares;
}

/* Computes sums (AMX_OUTPUTS, sum_stride) of a strip and n columns of x, pass by pass. */
static void conv_amx_multiply(const conv_amx *amx, const conv_amx_patch *patch, const uint32_t *x,
                              int64_t n, float *sums) {
  const int64_t blocks = amx->words / AMX_WORDS;
  const uint32_t *weight =
      (const uint32_t *)amx->args->packed +
      (patch->group * amx->strips + patch->strip) * conv_strip_words(amx->args);
  const bool whole = amx->store || patch->outputs > AMX_OUTPUTS / 2;
  amx_sums amx_sums = {.taps = amx->taps,
                       .b_stride = amx->step,
                       .offsets = amx->offsets,
                       .c_stride = amx->sum_stride};
  for (int64_t block = 0; block < blocks; block += amx->blocks_at_once) {
    amx_sums.blocks = min_i64(amx->blocks_at_once, blocks - block);
    amx_sums.a = weight + block * amx->taps * 2 * AMX_TILE_WORDS;
    amx_sums.adds = block > 0;
    for (int64_t at = 0; at < n; at += AMX_COLUMNS) {
      amx_sums.prefetches = amx->prefetches && at == 0;
      amx_sums.b = x + block * AMX_WORDS * amx->step + at;
      amx_sums.c = sums + at;
      amx_sums_run(&amx_sums, whole ? AMX_OUTPUTS : AMX_OUTPUTS / 2,
                   n - at > AMX_COLUMNS / 2 ? AMX_COLUMNS : AMX_COLUMNS / 2);
    }
  }
}

/* ---------------------------------------------------------------- stored sums */

/* Sums of `rows` rows of each output. Between two rows there may be other sums. */
typedef struct stored_sums {
  const float *sums; /* outputs are sums_stride apart, rows row_stride */
  int64_t sums_stride, row_stride;
  const float *bias; /* (outputs), or NULL */
  const void *added; /* laid out like out, may be NULL */
  void *out;         /* (outputs, rows, columns): outputs out_stride apart */
  int64_t out_stride;
  int64_t outputs, rows, columns;
  bool added_is_bf16, out_is_bf16; /* otherwise F32 */
  float low, high;
} stored_sums;

#if KERNEL_X86
TARGET_AVX512_BF16 KERNEL_INLINE void conv_amx_store_some(const stored_sums *sums,
                                                          const float *from, __m512 bias,
                                                          int64_t at, __mmask16 valid) {
  __m512 sum = _mm512_maskz_loadu_ps(valid, from) + bias;
  if (sums->added && sums->added_is_bf16)
    sum += load_bf16_avx512(valid, (const uint16_t *)sums->added + at);
  else if (sums->added)
    sum += _mm512_maskz_loadu_ps(valid, (const float *)sums->added + at);
  sum = _mm512_min_ps(_mm512_set1_ps(sums->high), _mm512_max_ps(_mm512_set1_ps(sums->low), sum));
  if (sums->out_is_bf16)
    _mm256_mask_storeu_epi16((uint16_t *)sums->out + at, valid, (__m256i)_mm512_cvtneps_pbh(sum));
  else
    _mm512_mask_storeu_ps((float *)sums->out + at, valid, sum);
}

TARGET_AVX512_BF16 static void conv_amx_store_sums(const stored_sums *of) {
  enum { LANES = 16 };
  const stored_sums sums = *of; /* a copy that no store can change */
  for (int64_t o = 0; o < sums.outputs; o++) {
    const __m512 bias = _mm512_set1_ps(sums.bias ? sums.bias[o] : -0.0F);
    for (int64_t row = 0; row < sums.rows; row++) {
      const float *from = sums.sums + o * sums.sums_stride + row * sums.row_stride;
      const int64_t at = o * sums.out_stride + row * sums.columns;
      int64_t i = 0;
      for (; i + LANES <= sums.columns; i += LANES)
        conv_amx_store_some(&sums, from + i, bias, at + i, 0xffff);
      if (i < sums.columns)
        conv_amx_store_some(&sums, from + i, bias, at + i,
                            (__mmask16)bits_between(0, sums.columns - i));
    }
  }
}
#else
static void conv_amx_store_sums(const stored_sums *of) { (void)of; }
#endif

/* Stores a patch of a strip with bias, epilogue and steps. If out is BF16 and has steps, they run
 * on F32 in `memory` (outputs, rows, columns) before rounding. */
static void conv_amx_store(const conv_amx *amx, const conv_amx_patch *patch, const float *sums,
                           float *memory) {
  const conv_args *args = amx->args;
  const bool bf16 = is_bf16(args->out_type), apart = bf16 && args->steps.head.n_steps > 0;
  const int64_t output = patch->group * args->outputs + patch->strip * AMX_OUTPUTS,
                cells = out_size(args), n = patch->rows * patch->columns;
  const int64_t to = (patch->image * args->groups * args->outputs + output) * cells +
                     (patch->z * args->dims[1].out + patch->row) * args->dims[2].out +
                     patch->column;
  void *out = (char *)args->out + (size_t)to * (bf16 ? sizeof(uint16_t) : sizeof(float));
  const bool added_bf16 = is_bf16(args->epilogue.added_type);
  conv_amx_store_sums(&(stored_sums){
      .sums = sums,
      .sums_stride = amx->sum_stride,
      .row_stride = amx->row_stride,
      .bias = args->bias ? (const float *)args->bias + output : NULL,
      .added = args->epilogue.added ? float_at(args->epilogue.added, added_bf16, to) : NULL,
      .out = apart ? memory : out,
      .out_stride = apart ? n : cells,
      .outputs = patch->outputs,
      .rows = patch->rows,
      .columns = patch->columns,
      .added_is_bf16 = added_bf16,
      .out_is_bf16 = bf16 && !apart,
      .low = args->epilogue.low,
      .high = args->epilogue.high});
  if (!bf16) steps_in_place(&args->steps, out, to, n, patch->outputs, cells);
  if (!apart) return;
  bf16_steps(&args->steps, memory, n * patch->outputs);
  rows_to_bf16(memory, patch->outputs, n, out, cells);
}

/* ---------------------------------------------------------------- the kernel */

static void conv_amx_run_task(const void *user, int64_t task, char *scratch) {
  const conv_amx *amx = user;
  conv_amx_patch patch;
  const int64_t end = find_task(amx, task, &patch),
                n = (patch.rows - 1) * amx->row_stride + patch.columns;
  uint32_t *panel = (uint32_t *)(void *)scratch;
  float *sums = (float *)(void *)(panel + amx->panel_words);
  const uint32_t *x = amx->gather(amx, &patch, panel);
  amx_sums_begin();
  for (; patch.strip < end; patch.strip++) {
    if (!amx->store) {
      patch.outputs = min_i64(AMX_OUTPUTS, amx->args->outputs - patch.strip * AMX_OUTPUTS);
      conv_amx_multiply(amx, &patch, x, n, sums);
      conv_amx_store(amx, &patch, sums, sums + AMX_OUTPUTS * amx->sum_stride);
    }
    for (int64_t at = 0; amx->store && at < n; at += AMX_COLUMNS) {
      conv_amx_multiply(amx, &patch, x + at * amx->words, min_i64(AMX_COLUMNS, n - at), sums);
      amx->store(amx, &patch, at, sums);
    }
  }
  amx_sums_end();
}

size_t conv_amx_scratch(const kernel_context *ctx, const conv_args *args) {
  const conv_amx amx = conv_amx_plan(ctx, args);
  if (conv_amx_is_empty(args)) return 0;
  return conv_amx_copy_bytes(&amx) + slots_bytes(ctx, conv_amx_task_count(&amx),
                                                 conv_amx_work_of(&amx), conv_amx_task_bytes(&amx));
}

void conv_amx_run(const kernel_context *ctx, const conv_args *args, char *memory) {
  conv_amx amx = conv_amx_plan(ctx, args);
  amx.copied = (uint32_t *)(void *)memory;
  /* Images run one after the other if they are copied; otherwise their tasks run together. */
  for (amx.image = 0; amx.image < args->images; amx.image += amx.products / args->groups) {
    if (amx.copy_rows)
      ctx->parallel_for(ctx->pool, amx.copied_rows,
                        ceil_div(COPY_WORK, max_i64(2 * amx.row_words, 1)), amx.copy_rows, &amx);
    run_slots_in(ctx, conv_amx_task_count(&amx), conv_amx_work_of(&amx), conv_amx_task_bytes(&amx),
                 conv_amx_run_task, &amx, memory + conv_amx_copy_bytes(&amx));
  }
}
