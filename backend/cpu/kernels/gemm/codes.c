/* Packs an encoded constant as panels of codes, multiplies them by a few rows, and converts them to
 * floats. Products: out (m, n) = a * b in panels of CODE_PANEL columns (base/code_panels.h has the
 * layout). Loop order: batch, task of panels, panel, strip of rows. */
#include "backend/cpu/kernels/gemm/codes.h"

#include <string.h>

#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum {
  FEW_ROWS = 32, /* maximum number of rows that are multiplied by the codes in place */
  MULTIPLIES_PER_THREAD = 128 << 10, /* multiplications that justify waking a thread */
  TASKS_PER_THREAD = 4,
  TASK_SUMS = 4096, /* floats that a task writes, at most */
  PACK_GRAIN = 16 << 10
};

static int64_t codes_ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---------------------------------------------------------------- packing */

typedef struct packing {
  const encoding *e;
  code_bytes b;
  int64_t n, k;
  code_panels of;
  char *to;
} packing;

static void store_factor(const code_panels *panels, float v, char *to, int64_t i) {
  uint16_t half = f32_to_f16(v);
  if (panels->wide)
    memcpy(to + 4 * i, &v, sizeof v);
  else
    memcpy(to + 2 * i, &half, sizeof half);
}

/* Stores the factors of a part of a block. */
static void store_factors(const code_panels *panels, const code_factors *factors, int64_t part,
                          int lane, char *block) {
  for (int i = 0; i < panels->spans; i++) {
    const int64_t span = part * panels->spans + i, number = panels->row[span] * CODE_PANEL + lane;
    size_t at = (size_t)(span * CODE_PANEL + lane);
    if (!span || panels->row[span] != panels->row[span - 1]) {
      store_factor(panels, factors->d[i], block + panels->d_at, number);
      if (panels->has_lows) store_factor(panels, factors->m[i], block + panels->m_at, number);
    }
    if (!panels->has_subs) continue;
    block[panels->s_at + at] = (char)factors->s[i];
    if (panels->has_lows) block[panels->l_at + at] = (char)factors->l[i];
  }
}

/* Returns the bits that a panel stores for a code. */
static inline uint8_t stored_code(int code, int first, float x) {
  if (code == CODE_E4M3) return f32_to_f8_e4m3(x);
  if (code == CODE_E5M2) return f32_to_f8_e5m2(x);
  return (uint8_t)((int)x - first);
}

static inline void store_codes(int code, int first, const float *codes, uint8_t *to) {
  for (int i = 0; i < DECODED_AT_ONCE; i++) to[i] = stored_code(code, first, codes[i]);
}

/* Joins the low 4 bits of 8 bytes, the first byte's in the lowest bits. */
static inline uint32_t joined_nibbles(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  word = (word | word >> 4) & 0x00FF00FF00FF00FF;
  word = (word | word >> 8) & 0x0000FFFF0000FFFF;
  return (uint32_t)(word | word >> 16);
}

/* part: of the block */
static void store_panel_codes(const code_panels *panels, const float *codes, int64_t part, int lane,
                              char *block) {
  char *to = block + (part * panels->bits * CODE_PANEL + lane) * 4;
  uint8_t bytes[DECODED_AT_ONCE];
  if (panels->code == CODE_INT)
    store_codes(CODE_INT, panels->least, codes, bytes);
  else
    store_codes(panels->code, 0, codes, bytes);
  for (int v = 0; v < panels->bits; v++) {
    uint32_t word;
    if (panels->bits == 4)
      word = joined_nibbles(bytes + 8 * v);
    else
      memcpy(&word, bytes + 4 * v, sizeof word);
    memcpy(to + v * CODE_PANEL * 4, &word, sizeof word);
  }
}

/* Packs a row of b into a column of its panel. */
static void pack_lane(const packing *packing, code_bytes row, int lane, char *panel) {
  float codes[DECODED_AT_ONCE];
  int64_t within = 0; /* the part's place in its block */
  char *block = panel;
  for (int64_t part = 0; part < packing->of.parts; part++) {
    const code_factors factors = encoding_split(packing->e, row, packing->k, part, codes);
    int64_t last = min_i64(DECODED_AT_ONCE, packing->k - part * DECODED_AT_ONCE);
    for (int64_t k = last; k < DECODED_AT_ONCE; k++) codes[k] = (float)packing->of.least;
    store_panel_codes(&packing->of, codes, within, lane, block);
    store_factors(&packing->of, &factors, within, lane, block);
    if (++within < packing->of.block) continue;
    within = 0;
    block += packing->of.block_bytes;
  }
}

static void codes_pack_panels(void *ctx, int64_t begin, int64_t end) {
  const packing *packing = ctx;
  const code_panels *of = &packing->of;
  const size_t row_bytes = encoding_row_bytes(packing->e, packing->k);
  for (int64_t i = begin; i < end; i++) {
    char *panel = packing->to + (size_t)i * of->bytes;
    const int lanes = (int)min_i64(CODE_PANEL, packing->n - i * CODE_PANEL);
    const bool is_full = lanes == CODE_PANEL && of->parts % of->block == 0;
    const size_t cleared = is_full ? CODE_LINE : of->block_bytes; /* blocks end with padding */
    for (size_t end_at = of->block_bytes; end_at <= of->bytes; end_at += of->block_bytes)
      memset(panel + end_at - cleared, 0, cleared);
    for (int lane = 0; lane < lanes; lane++)
      pack_lane(packing, packing->b + (size_t)(i * CODE_PANEL + lane) * row_bytes, lane, panel);
  }
}

size_t codes_panels_bytes(const code_panels *panels, int64_t n) {
  return (size_t)codes_ceil_of(n, CODE_PANEL) * panels->bytes;
}

void codes_pack(const kernel_context *ctx, const encoding *encoding, const void *b, int64_t n,
                int64_t k, char *to) {
  packing packing = {.e = encoding, .b = b, .n = n, .k = k, .to = to};
  if (!code_panels_of(encoding, k, &packing.of)) return;
  ctx->parallel_for(ctx->pool, codes_ceil_of(n, CODE_PANEL),
                    PACK_GRAIN / (packing.of.parts * DECODED_AT_ONCE * CODE_PANEL) + 1,
                    codes_pack_panels, &packing);
}

/* ---------------------------------------------------------------- rows of b */

static float load_factor(const code_panels *panels, const char *from, int64_t i) {
  uint16_t half;
  float v;
  if (panels->wide) return memcpy(&v, from + 4 * i, sizeof v), v;
  memcpy(&half, from + 2 * i, sizeof half);
  return f16_to_f32(half);
}

/* Returns the factors that store_factors stored, in the form of base/decode.h. */
static code_factors load_factors(const code_panels *panels, int64_t part, int lane,
                                 const char *block) {
  code_factors factors;
  for (int half = 0; half < 2; half++) {
    const int64_t span = part * panels->spans + (panels->spans == 2 ? half : 0),
                  number = span / panels->period * CODE_PANEL + lane;
    const size_t at = (size_t)(span * CODE_PANEL + lane);
    factors.d[half] = load_factor(panels, block + panels->d_at, number);
    factors.m[half] = panels->has_lows ? load_factor(panels, block + panels->m_at, number) : -0.0F;
    factors.s[half] = panels->has_subs ? (signed char)block[panels->s_at + at] : 1;
    factors.l[half] =
        panels->has_subs && panels->has_lows ? (signed char)block[panels->l_at + at] : 1;
  }
  return factors;
}

static float load_code(const code_panels *panels, uint32_t code) {
  if (panels->code == CODE_E4M3) return f8_e4m3_to_f32((uint8_t)code);
  if (panels->code == CODE_E5M2) return f8_e5m2_to_f32((uint8_t)code);
  return (float)((int)code + panels->least);
}

void codes_decode(const code_panels *code_panels, const void *panels, int64_t row, int64_t part,
                  float *x) {
  const char *block = (const char *)panels + (size_t)(row / CODE_PANEL) * code_panels->bytes +
                      code_block_at(code_panels, part);
  const int lane = (int)(row % CODE_PANEL), each = 32 / code_panels->bits;
  const int64_t within = part % code_panels->block;
  const char *words = block + (within * code_panels->bits * CODE_PANEL + lane) * 4;
  for (int v = 0; v < code_panels->bits; v++) {
    uint32_t word;
    memcpy(&word, words + v * CODE_PANEL * 4, sizeof word);
    for (int j = 0; j < each; j++)
      x[v * each + j] =
          load_code(code_panels, word >> (j * code_panels->bits) & ((1U << code_panels->bits) - 1));
  }
  const code_factors factors = load_factors(code_panels, within, lane, block);
  encoding_apply(&factors, x);
}

/* ---------------------------------------------------------------- a few rows */

int64_t codes_few_rows(void) { return FEW_ROWS; }

/* The few rows of a product, in strips of equal heights, each (k, height), with zeros after k. The
 * sums of their spans follow, strip by strip. */
typedef struct few {
  const codes_product *p;
  codes_kernel kernel;
  int64_t height; /* rows of a strip; the last may have fewer */
  int64_t depth;  /* k, rounded up to whole parts */
  int64_t spans;  /* spans of a row */
  int64_t each;   /* panels of a task */
  int64_t work;   /* number of threads that the work justifies */
  int64_t batch;
  float *a, *sums; /* strips (depth, rows), and their sums (spans, rows) */
} few;

static int64_t codes_panel_count(const few *few) { return codes_ceil_of(few->p->g->n, CODE_PANEL); }
static int64_t codes_task_count(const few *few) {
  return codes_ceil_of(codes_panel_count(few), few->each);
}
static size_t codes_task_scratch(const few *few) {
  return (size_t)(few->p->g->m * few->each * CODE_PANEL) * sizeof(float);
}
static size_t codes_rounded(int64_t floats) {
  return ((size_t)floats * sizeof(float) + 63) / 64 * 64;
}
static size_t codes_a_bytes(const few *few) { return codes_rounded(few->p->g->m * few->depth); }
static size_t codes_sums_bytes(const few *few) {
  return few->p->of.has_lows ? codes_rounded(few->p->g->m * few->spans) : 0;
}

static few plan_few(const kernel_context *ctx, const codes_product *product) {
  const kgemm *kgemm = product->g;
  few few = {.p = product, .kernel = codes_kernel_for()};
  few.height = codes_ceil_of(kgemm->m, codes_ceil_of(kgemm->m, few.kernel.max_rows));
  few.depth = product->of.parts * DECODED_AT_ONCE;
  few.spans = product->of.parts * product->of.spans;
  few.work = kgemm->m * kgemm->n * kgemm->k / MULTIPLIES_PER_THREAD;
  int64_t tasks = few.work > 1 ? TASKS_PER_THREAD * ctx->n_threads : 1;
  few.each = min_i64(codes_panel_count(&few) / tasks, TASK_SUMS / CODE_PANEL / kgemm->m);
  if (few.each < 1) few.each = 1;
  return few;
}

/* Packs parts [begin, end) of all rows of a. */
static void codes_pack_rows(void *ctx, int64_t begin, int64_t end) {
  const few *few = ctx;
  const kgemm *kgemm = few->p->g;
  int64_t from = begin * DECODED_AT_ONCE, n = min_i64(end * DECODED_AT_ONCE, kgemm->k) - from;
  int64_t pad = end * DECODED_AT_ONCE - from - n, spans = few->p->of.spans;
  for (int64_t row = 0; row < kgemm->m; row += few->height) {
    int64_t rows = min_i64(few->height, kgemm->m - row);
    float *to = few->a + row * few->depth + from * rows;
    kgemm->pack_a(kgemm->user, few->batch, row, rows, from, n, rows, to);
    memset(to + n * rows, 0, (size_t)(pad * rows) * sizeof *to);
    float *sums = few->sums + row * few->spans + begin * spans * rows;
    for (int64_t span = 0; few->p->of.has_lows && span < (end - begin) * spans; span++)
      for (int64_t r = 0; r < rows; r++) {
        float sum = 0;
        for (int64_t k = 0; k < DECODED_AT_ONCE / spans; k++)
          sum += to[(span * (DECODED_AT_ONCE / spans) + k) * rows + r];
        sums[span * rows + r] = sum;
      }
  }
}

static void codes_run_task(const void *user, int64_t task, char *scratch) {
  const few *few = user;
  const kgemm *kgemm = few->p->g;
  float *out = (float *)(void *)scratch; /* (m, panels) */
  int64_t first = task * few->each, panels = min_i64(few->each, codes_panel_count(few) - first);
  int64_t ldc = panels * CODE_PANEL, column = first * CODE_PANEL;
  for (int64_t i = 0; i < panels; i++) {
    const char *panel = (const char *)few->p->panels + (size_t)(first + i) * few->p->of.bytes;
    for (int64_t row = 0; row < kgemm->m; row += few->height) {
      const codes_rows rows = {.p = &few->p->of,
                               .panel = panel,
                               .a = few->a + row * few->depth,
                               .sums = few->sums + row * few->spans,
                               .out = out + row * ldc + i * CODE_PANEL,
                               .ldc = ldc};
      few->kernel.run(&rows, (int)min_i64(few->height, kgemm->m - row));
    }
  }
  for (int64_t row = 0; row < kgemm->m; row++)
    kgemm->store(kgemm->user, few->batch, row, column, min_i64(ldc, kgemm->n - column),
                 out + row * ldc);
}

size_t codes_bytes(const kernel_context *ctx, const codes_product *product) {
  if (product->g->batch * product->g->m * product->g->n == 0) return 0;
  const few few = plan_few(ctx, product);
  return codes_a_bytes(&few) + codes_sums_bytes(&few) +
         slots_bytes(ctx, codes_task_count(&few), few.work, codes_task_scratch(&few));
}

void codes_run(const kernel_context *ctx, const codes_product *product, char *memory) {
  if (product->g->batch * product->g->m * product->g->n == 0) return;
  few few = plan_few(ctx, product);
  few.a = (float *)(void *)memory;
  few.sums = (float *)(void *)(memory + codes_a_bytes(&few));
  char *slots = memory + codes_a_bytes(&few) + codes_sums_bytes(&few);
  for (few.batch = 0; few.batch < product->g->batch; few.batch++) {
    ctx->parallel_for(ctx->pool, product->of.parts,
                      PACK_GRAIN / (product->g->m * DECODED_AT_ONCE) + 1, codes_pack_rows, &few);
    run_slots_in(ctx, codes_task_count(&few), few.work, codes_task_scratch(&few), codes_run_task,
                 &few, slots);
  }
}

/* ---------------------------------------------------------------- columns as floats */

/* Converts n of the k of a part of a block, for `lanes` of its columns from `lane` on. */
static void widen_some(const codes_product *product, const char *block, int part, int64_t lane,
                       int64_t lanes, int64_t n, float *to, int64_t width) {
  float x[DECODED_AT_ONCE * CODE_PANEL];
  codes_kernel_for().widen(&product->of, block, part, x, CODE_PANEL);
  for (int64_t k = 0; k < n; k++)
    memcpy(to + k * width, x + k * CODE_PANEL + lane, (size_t)lanes * sizeof *x);
}

void codes_widen(const codes_product *product, int64_t lane, int64_t lanes, int64_t k, int64_t kn,
                 int64_t width, float *to) {
  codes_kernel kernel = codes_kernel_for();
  for (int64_t some; lanes > 0; lanes -= some, lane += some, to += some) {
    const char *panel =
        (const char *)product->panels + (size_t)(lane / CODE_PANEL) * product->of.bytes;
    some = min_i64(lanes, CODE_PANEL - lane % CODE_PANEL);
    for (int64_t at = 0; at < kn; at += DECODED_AT_ONCE) {
      int64_t n = min_i64(DECODED_AT_ONCE, kn - at), number = (k + at) / DECODED_AT_ONCE;
      const char *block = panel + code_block_at(&product->of, number);
      int part = (int)(number % product->of.block);
      if (some == CODE_PANEL && n == DECODED_AT_ONCE)
        kernel.widen(&product->of, block, part, to + at * width, width);
      else
        widen_some(product, block, part, lane % CODE_PANEL, some, n, to + at * width, width);
    }
  }
}

/* ---------------------------------------------------------------- columns as strips */

/* Copies n k of columns of a panel (n, CODE_PANEL) to a strip. */
static void copy_columns(const float *from, int64_t n, int64_t height, float *to) {
  for (int64_t k = 0; k < n; k++, from += CODE_PANEL, to += height) {
    if (height == 8)
      memcpy(to, from, 8 * sizeof *to);
    else if (height == 4)
      memcpy(to, from, 4 * sizeof *to);
    else
      memcpy(to, from, (size_t)height * sizeof *to);
  }
}

/* Writes strips that start at a multiple of the height. Converts each panel once. */
static void codes_widen_strips(const codes_product *product, int64_t lane, int64_t lanes, int64_t k,
                               int64_t kn, int64_t height, float *to) {
  const codes_kernel kernel = codes_kernel_for();
  float x[DECODED_AT_ONCE * CODE_PANEL];
  for (int64_t at = lane, next; at < lane + lanes; at = next) {
    const char *panel =
        (const char *)product->panels + (size_t)(at / CODE_PANEL) * product->of.bytes;
    next = (at / CODE_PANEL + 1) * CODE_PANEL;
    for (int64_t i = 0; i < kn; i += DECODED_AT_ONCE) {
      int64_t n = min_i64(DECODED_AT_ONCE, kn - i), part = (k + i) / DECODED_AT_ONCE;
      kernel.widen(&product->of, panel + code_block_at(&product->of, part),
                   (int)(part % product->of.block), x, CODE_PANEL);
      for (int64_t s = at; s < min_i64(next, lane + lanes); s += height)
        copy_columns(x + s % CODE_PANEL, n, height, to + (s - lane) * kn + i * height);
    }
  }
}

void codes_strips(const codes_product *product, int64_t lane, int64_t lanes, int64_t k, int64_t kn,
                  int64_t height, float *to) {
  if (lane % height == 0) {
    codes_widen_strips(product, lane, lanes, k, kn, height, to);
    return;
  }
  for (int64_t at = 0; at < lanes; at += height, to += kn * height) {
    int64_t some = min_i64(height, lanes - at);
    if (some < height) memset(to, 0, (size_t)(kn * height) * sizeof *to);
    codes_widen(product, lane + at, some, k, kn, height, to);
  }
}
