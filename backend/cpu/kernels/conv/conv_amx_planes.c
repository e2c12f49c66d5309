/* Rounded convolutions by tiles. An image is copied as planes of words with the padding around
 * them, which are one long row: a tile's columns are neighbours in it, so that those between two
 * rows of outputs are computed, too, and left out where sums are stored. Of a stride planes of each
 * phase lie apart: what neighbouring outputs see of it are neighbours. */
#include "backend/cpu/kernels/conv/conv_amx_planes.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_amx_sums.h"
#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/conv/conv_words.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/narrow.h"
#include "backend/cpu/kernels/support/slots.h"

enum {
  MOST_COLUMNS = 256,   /* of a task: their sums stay in the second-level cache */
  STEPS = 9,            /* of a pass: its weights stay in the first-level cache */
  TASKS = 4,            /* of a thread, at least, so that all end at about the same time */
  WORK = 1024 * 1024,   /* multiplications that are worth waking a thread up */
  COPY_WORK = 8 * 1024, /* elements, the same */
  SAME_SETS = 1024      /* words from a row of a tile to the next whose lines displace each other */
};

typedef struct direct {
  const conv_args *p;
  int64_t phases[CONV_DIMS], seen[CONV_DIMS]; /* of the planes; elements of one along it */
  int64_t plane, words;                       /* words of a plane; planes of a phase */
  int64_t offsets[CONV_MOST_TAPS];
  int64_t strips, blocks;
  conv_cut cut; /* a patch is a task */
  int64_t image;
  uint32_t *copied; /* (groups, phases, words, plane) */
} direct;

static int64_t phase_count(const direct *t) { return t->phases[0] * t->phases[1] * t->phases[2]; }
static int64_t group_words(const direct *t) { return phase_count(t) * t->words * t->plane; }
static size_t copy_bytes(const direct *t) {
  return kernel_scratch_size((size_t)(t->p->groups * group_words(t) + 2 * AMX_COLUMNS) *
                             sizeof(uint32_t));
}

/* Where each tap's words begin. */
static void find_offsets(direct *t) {
  const conv_args *p = t->p;
  for (int64_t i = 0; i < kernel_size(p); i++) {
    int64_t tap[CONV_DIMS], phase = 0, at = 0;
    split_index(i, p->dims[1].kernel, p->dims[2].kernel, tap);
    for (int d = 0; d < CONV_DIMS; d++) {
      const int64_t from = tap[d] * p->dims[d].dilation;
      phase = phase * t->phases[d] + from % p->dims[d].stride;
      at = at * t->seen[d] + from / p->dims[d].stride;
    }
    t->offsets[i] = phase * t->words * t->plane + at;
  }
}

static direct plan(const kernel_context *ctx, const conv_args *p) {
  direct t = {.p = p,
              .words = conv_tiled_words(p),
              .strips = conv_tiled_strips(p),
              .blocks = conv_tiled_words(p) / AMX_WORDS};
  t.plane = 1;
  for (int d = 0; d < CONV_DIMS; d++) {
    const conv_dim *k = &p->dims[d];
    t.phases[d] = conv_dim_phases(k);
    t.seen[d] = k->out > 0 ? conv_dim_phase_size(k) : 0;
    t.plane *= t.seen[d];
  }
  if (t.plane % SAME_SETS == 0) t.plane += AMX_WORDS;
  find_offsets(&t);
  const int64_t slices = p->groups * t.strips * p->dims[0].out;
  t.cut = conv_cut_slices(p->dims, MOST_COLUMNS, t.seen[2],
                          ceil_div(TASKS * ctx->n_threads, at_least(slices, 1)));
  return t;
}

static bool is_empty(const direct *t) {
  return t->p->images * t->p->groups * t->p->outputs * out_size(t->p) == 0;
}
static int64_t task_count(const direct *t) {
  return t->p->groups * t->strips * t->p->dims[0].out * conv_cut_patches(&t->cut);
}
static int64_t work_of(const direct *t) {
  const int64_t sums = t->p->groups * out_size(t->p) * t->p->outputs;
  return sums * (t->p->channels * kernel_size(t->p)) / WORK;
}

/* Columns of a task with those between its rows, in whole tiles. */
static int64_t wide_columns(const direct *t) {
  return round_up((t->cut.rows - 1) * t->seen[2] + t->cut.columns, AMX_COLUMNS);
}
static size_t task_bytes(const direct *t) {
  return (size_t)(AMX_OUTPUTS * (wide_columns(t) + t->cut.rows * t->cut.columns)) * sizeof(float);
}

/* ---------------------------------------------------------------- inputs */

/* ceil_div(n, stride): a division takes as long as a short row. */
static int64_t strides_to(const conv_dim *d, int64_t n) {
  return d->stride == 1 ? n : d->stride == 2 ? (n + 1) >> 1 : ceil_div(n, d->stride);
}

/* A row of a phase's planes: zeros in front of the image, words, and the first one's element. */
typedef struct phase_row {
  int64_t left, n, first;
} phase_row;

static phase_row find_phase_row(const direct *t, int64_t phase) {
  const conv_dim *d = &t->p->dims[2];
  const int64_t width = t->seen[2], begin = d->padding - phase, end = begin + d->in;
  const int64_t left = least(begin > 0 ? strides_to(d, begin) : 0, width);
  const int64_t stop = end > 0 ? least(strides_to(d, end), width) : left;
  return (phase_row){left, at_least(stop - left, 0), left * d->stride - begin};
}

/* Of one plane; from: a row of x, NULL: none. */
static void copy_row(const direct *t, phase_row r, const void *from, const void *odd,
                     uint32_t *to) {
  const int64_t width = t->seen[2], n = from ? r.n : 0;
  const bool narrow = is_narrow(t->p->x_is_narrow);
  memset(to, 0, (size_t)r.left * sizeof *to);
  if (n > 0)
    conv_join_row(narrow, narrow_at(from, narrow, r.first),
                  odd ? narrow_at(odd, narrow, r.first) : NULL, t->p->dims[2].stride, n,
                  to + r.left);
  memset(to + r.left + n, 0, (size_t)(width - r.left - n) * sizeof *to);
}

/* A row of planes, of all phases along the last dimension. */
typedef struct plane_row {
  int64_t from; /* of an image's plane where it begins, -1: padding */
  int64_t to;   /* of a group's copy, of the first phase and word */
} plane_row;

/* The row-th, counted over the phases of the other two dimensions. */
static plane_row find_row(const direct *t, int64_t row) {
  const conv_dim *d = t->p->dims;
  const int64_t y = row % t->seen[1], py = row / t->seen[1] % t->phases[1],
                z = row / t->seen[1] / t->phases[1] % t->seen[0],
                pz = row / t->seen[1] / t->phases[1] / t->seen[0];
  const int64_t at_z = z * d[0].stride + pz - d[0].padding,
                at_y = y * d[1].stride + py - d[1].padding;
  const bool inside = at_z >= 0 && at_z < d[0].in && at_y >= 0 && at_y < d[1].in;
  return (plane_row){inside ? (at_z * d[1].in + at_y) * d[2].in : -1,
                     (pz * t->phases[1] + py) * t->phases[2] * t->words * t->plane +
                         (z * t->seen[1] + y) * t->seen[2]};
}

/* Of planes [word, word + words) of a group those of a phase, which begin at `to`. */
static void copy_planes(const direct *t, int64_t group, int64_t word, int64_t words, int64_t from,
                        phase_row r, uint32_t *to) {
  const conv_args *p = t->p;
  const int64_t size = in_size(p), channels = p->channels - 2 * word,
                at = ((t->image * p->groups + group) * p->channels + 2 * word) * size + from;
  const bool narrow = is_narrow(p->x_is_narrow), inside = from >= 0 && channels > 0;
  if (narrow && p->dims[2].stride <= 2) {
    conv_join_planes(&(conv_planes){.x = inside ? (const uint16_t *)p->x + at + r.first : NULL,
                                    .channels = channels,
                                    .channel = size,
                                    .step = p->dims[2].stride,
                                    .left = r.left,
                                    .n = r.n,
                                    .width = t->seen[2],
                                    .words = words,
                                    .to = to,
                                    .plane = t->plane});
    return;
  }
  for (int64_t i = 0; i < words; i++) {
    const bool even = inside && 2 * i < channels, odd = inside && 2 * i + 1 < channels;
    copy_row(t, r, even ? narrow_at(p->x, narrow, at + 2 * i * size) : NULL,
             odd ? narrow_at(p->x, narrow, at + (2 * i + 1) * size) : NULL, to + i * t->plane);
  }
}

static int64_t copied_rows(const direct *t) {
  return t->phases[0] * t->seen[0] * t->phases[1] * t->seen[1];
}

/* Rows of all words of all groups, one after the other. */
static void copy_rows(void *ctx, int64_t begin, int64_t end) {
  const direct *t = ctx;
  const int64_t planes = t->p->groups * t->words;
  for (int64_t i = begin, n; i < end; i += n) {
    const plane_row row = find_row(t, i / planes);
    const int64_t group = i % planes / t->words, word = i % t->words;
    n = least(end - i, t->words - word);
    uint32_t *to = t->copied + group * group_words(t) + row.to + word * t->plane;
    for (int64_t px = 0; px < t->phases[2]; px++, to += t->words * t->plane)
      copy_planes(t, group, word, n, row.from, find_phase_row(t, px), to);
  }
}

static void copy_image(const kernel_context *ctx, direct *t) {
  ctx->parallel_for(ctx->pool, t->p->groups * t->words * copied_rows(t),
                    ceil_div(COPY_WORK, at_least(2 * t->seen[2] * t->phases[2], 1)), copy_rows, t);
}

/* ---------------------------------------------------------------- outputs */

/* What tasks that follow each other share: the larger of the weight and the planes of a group. */
static bool copied_is_larger(const direct *t) {
  return group_words(t) > t->strips * conv_strip_words(t->p);
}

static conv_patch patch_of(const direct *t, int64_t task) {
  const conv_args *p = t->p;
  const int64_t places = p->dims[0].out * conv_cut_patches(&t->cut);
  const int64_t in_group = task % (t->strips * places);
  int64_t place = in_group % places;
  conv_patch k = {
      .image = t->image, .group = task / (t->strips * places), .strip = in_group / places};
  if (copied_is_larger(t)) {
    place = in_group / t->strips;
    k.strip = in_group % t->strips;
  }
  k.outputs = least(AMX_OUTPUTS, p->outputs - k.strip * AMX_OUTPUTS);
  conv_cut_place(&t->cut, p->dims, place, &k);
  return k;
}

/* sums (AMX_OUTPUTS, wide) of n columns, in passes over some of k. */
static void sum_patch(const direct *t, const conv_patch *k, int64_t n, float *sums) {
  const conv_args *p = t->p;
  const int64_t taps = kernel_size(p), some = at_least(STEPS / taps, 1);
  const uint32_t *weight =
      (const uint32_t *)p->packed + (k->group * t->strips + k->strip) * conv_strip_words(p);
  const uint32_t *x =
      t->copied + k->group * group_words(t) + (k->z * t->seen[1] + k->row) * t->seen[2] + k->column;
  const int outputs = k->outputs > AMX_OUTPUTS / 2 ? AMX_OUTPUTS : AMX_OUTPUTS / 2;
  amx_sums s = {.taps = taps, .b_step = t->plane, .offsets = t->offsets, .c_step = wide_columns(t)};
  amx_sums_begin();
  for (int64_t block = 0; block < t->blocks; block += some) {
    s.blocks = least(some, t->blocks - block);
    s.a = weight + block * taps * 2 * AMX_TILE_WORDS;
    s.adds = block > 0;
    for (int64_t at = 0; at < n; at += AMX_COLUMNS) {
      s.asks = at == 0;
      s.b = x + block * AMX_WORDS * t->plane + at;
      s.c = sums + at;
      amx_sums_run(&s, outputs, n - at > AMX_COLUMNS / 2 ? AMX_COLUMNS : AMX_COLUMNS / 2);
    }
  }
  amx_sums_end();
}

static void run_task(const void *user, int64_t task, char *scratch) {
  const direct *t = user;
  const conv_patch k = patch_of(t, task);
  float *sums = (float *)(void *)scratch;
  sum_patch(t, &k, (k.rows - 1) * t->seen[2] + k.columns, sums);
  conv_sums_store(t->p, &k, sums, wide_columns(t), t->seen[2],
                  sums + AMX_OUTPUTS * wide_columns(t));
}

/* ---------------------------------------------------------------- the kernel */

size_t direct_tiles_scratch(const kernel_context *ctx, const conv_args *p) {
  const direct t = plan(ctx, p);
  if (is_empty(&t)) return 0;
  return copy_bytes(&t) + slots_bytes(ctx, task_count(&t), work_of(&t), task_bytes(&t));
}

void direct_tiles_run(const kernel_context *ctx, const conv_args *p, char *memory) {
  direct t = plan(ctx, p);
  t.copied = (uint32_t *)(void *)memory;
  for (t.image = 0; t.image < p->images; t.image++) {
    copy_image(ctx, &t);
    run_slots_in(ctx, task_count(&t), work_of(&t), task_bytes(&t), run_task, &t,
                 memory + copy_bytes(&t));
  }
}
