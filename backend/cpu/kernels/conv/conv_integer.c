/* ConvInteger: products of patches by conv_integer_kernels.h. Where bytes of patches have the other
 * sign than x's they are 128 more or less, which 128 times the sum of the weight's row makes up
 * for.
 *
 * What a tap sees for neighbouring cells lies side by side: a plane is laid out with its padding
 * around it, by phases of the strides (row y in phase y % stride, at y / stride), and cell (z, y,
 * x) is position (z rows + y) columns + x of it, whatever tap. Positions beyond the end of a row of
 * outputs are computed and dropped. Without padding and strides x is such planes already. Of a
 * packed weight planes are words of four channels, which its tiles meet where they lie. */
#include "backend/cpu/kernels/conv/conv_integer.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_integer_kernels.h"
#include "backend/cpu/kernels/conv/conv_integer_planes.h"
#include "backend/cpu/kernels/conv/conv_integer_tiles.h"
#include "backend/cpu/kernels/conv/depthwise_integer.h"
#include "backend/cpu/kernels/elementwise/requantise.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/slots.h"

enum {
  TILE = INTEGER_TILE,
  ROWS = INTEGER_ROWS,
  LEAST_BLOCK = 64,         /* outputs of a task at least, where there are few tiles */
  SHARES = 12,              /* of all tiles a thread has so many or more, if there are */
  CACHED_BYTES = 32 * 1024, /* planes of a group that a task lays out for itself */
  LINE_WORDS = 16           /* of the cache */
};
static const int64_t MULTIPLIES_PER_TASK = 512 * 1024, BYTES_PER_TASK = 64 * 1024,
                     WORDS_PER_TASK = 16 * 1024;

/* A dimension of the planes: of one phase, and how many there are. */
typedef struct plane_dim {
  int64_t size, phases;
} plane_dim;

typedef struct integer_conv {
  const conv_args *p;
  const conv_integer_args *args;
  int padding_value;
  integer_kernel kernel;
  int64_t k, taps, cells; /* elements of a patch; taps of a channel; outputs of one */
  plane_dim d[CONV_DIMS];
  int64_t plane;                /* bytes of all phases of a channel; words of four, where packed */
  int64_t positions;            /* that have cells; those of an image's planes */
  int64_t tiles, shares, share; /* of positions; of tiles, so many each */
  int64_t blocks, block;        /* of outputs, so many each */
  bool from_x, by_group;        /* planes: x itself; laid out by each task */
  int32_t *begin;               /* (groups * outputs): what sums begin with */
  unsigned char *rest;          /* (groups * outputs, step): what steps leave of k */
  const int64_t *tap_at;        /* (taps): from a position to what the tap sees */
  unsigned char *planes;        /* (images, groups * channels, plane), and TILE bytes */
  uint32_t *words; /* where packed, (images, blocks of channels * 16, plane), and TILE words */
} integer_conv;

/* 1, -1: bytes of patches are 128 more, less than x's. */
static int shift_of(const integer_conv *a) {
  bool is_signed = a->p->type == DTYPE_I8;
  if (a->p->is_packed) return 0;
  return is_signed == a->kernel.is_signed ? 0 : is_signed ? 1 : -1;
}

/* Of an image, where the weight is packed. */
static int64_t word_planes(const integer_conv *a) {
  return integer_blocks(a->p) * INTEGER_BLOCK / 4;
}

/* Words of patches: whole tiles where the weight is packed. */
static int64_t word_count(const integer_conv *a) {
  return a->p->is_packed ? word_planes(a) : integer_words(&a->kernel, a->k);
}

/* Whether planes of words are what a packed weight meets: patches of x itself are words already. */
static bool has_word_planes(const integer_conv *a) { return a->p->is_packed && !a->from_x; }

/* ---------------------------------------------------------------- planes */

static inline void fill_few(unsigned char *to, int value, int64_t n) {
  if (n > 16)
    memset(to, value, (size_t)n);
  else
    for (int64_t i = 0; i < n; i++) to[i] = (unsigned char)value;
}

static void copy_row(const unsigned char *restrict x, int64_t stride, int64_t n,
                     unsigned char *restrict to) {
  if (stride == 1)
    copy_few(to, x, n);
  else if (stride == 2)
    for (int64_t i = 0; i < n; i++) to[i] = x[2 * i];
  else
    for (int64_t i = 0; i < n; i++) to[i] = x[i * stride];
}

/* Elements first, first + stride, ... of a row of x (in), n of them; NULL: a row of padding. */
static void lay_out_row(const integer_conv *a, const unsigned char *x, int64_t first, int64_t n,
                        unsigned char *to) {
  const conv_dim *d = &a->p->dims[2];
  int64_t begin = n, end = n;
  if (x) columns_within(d->in, d->stride, first, 0, n, &begin, &end);
  fill_few(to, a->padding_value, begin);
  if (begin < end) copy_row(x + first + begin * d->stride, d->stride, end - begin, to + begin);
  fill_few(to + end, a->padding_value, n - end);
}

/* The element of x that index i of a phase is, in one dimension; -1: padding. */
static int64_t source_of(const conv_dim *d, int64_t i, int64_t phase) {
  int64_t at = i * d->stride + phase - d->padding;
  return at >= 0 && at < d->in ? at : -1;
}

/* One phase of a channel. */
static unsigned char *lay_out_phase(const integer_conv *a, const unsigned char *x,
                                    const int64_t phase[CONV_DIMS], unsigned char *to) {
  const conv_dim *d = a->p->dims;
  for (int64_t z = 0; z < a->d[0].size; z++)
    for (int64_t y = 0; y < a->d[1].size; y++, to += a->d[2].size) {
      int64_t in_z = source_of(&d[0], z, phase[0]), in_y = source_of(&d[1], y, phase[1]);
      bool is_inside = in_z >= 0 && in_y >= 0;
      lay_out_row(a, is_inside ? x + (in_z * d[1].in + in_y) * d[2].in : NULL,
                  phase[2] - d[2].padding, a->d[2].size, to);
    }
  return to;
}

/* Channels [first, first + n) of all images. */
static void lay_out(const integer_conv *a, int64_t first, int64_t n, unsigned char *to) {
  int64_t phase[CONV_DIMS], size = in_size(a->p);
  for (int64_t c = first; c < first + n; c++) {
    const unsigned char *x = (const unsigned char *)a->p->x + c * size;
    for (phase[0] = 0; phase[0] < a->d[0].phases; phase[0]++)
      for (phase[1] = 0; phase[1] < a->d[1].phases; phase[1]++)
        for (phase[2] = 0; phase[2] < a->d[2].phases; phase[2]++)
          to = lay_out_phase(a, x, phase, to);
  }
}

static void lay_out_channels(void *ctx, int64_t begin, int64_t end) {
  const integer_conv *a = ctx;
  lay_out(a, begin, end - begin, a->planes + begin * a->plane);
}

/* Words of four channels of an image from number `channel` on, of one phase. */
static uint32_t *lay_out_word_phase(const integer_conv *a, int64_t image, int64_t channel,
                                    const int64_t phase[CONV_DIMS], uint32_t *to) {
  const conv_args *p = a->p;
  const conv_dim *d = p->dims;
  const int64_t first = phase[2] - d[2].padding, width = a->d[2].size, size = in_size(p);
  const unsigned char *x = (const unsigned char *)p->x + (image * p->channels + channel) * size;
  int64_t begin, end;
  columns_within(d[2].in, d[2].stride, first, 0, width, &begin, &end);
  integer_row row = {
      .step = d[2].stride, .left = begin, .width = width, .padding = a->padding_value};
  for (int64_t z = 0; z < a->d[0].size; z++)
    for (int64_t y = 0; y < a->d[1].size; y++, to += width) {
      const int64_t in_z = source_of(&d[0], z, phase[0]), in_y = source_of(&d[1], y, phase[1]),
                    at = (in_z * d[1].in + in_y) * d[2].in + first + begin * d[2].stride;
      row.n = in_z >= 0 && in_y >= 0 ? end - begin : 0;
      for (int c = 0; c < 4; c++)
        row.x[c] = row.n > 0 && channel + c < p->channels ? x + c * size + at : NULL;
      row.to = to;
      integer_join_row(&row);
    }
  return to;
}

/* Planes [begin, end) of all images; behind the last channel they are of any value. */
static void lay_out_words(void *ctx, int64_t begin, int64_t end) {
  const integer_conv *a = ctx;
  int64_t phase[CONV_DIMS];
  for (int64_t i = begin; i < end; i++) {
    const int64_t image = i / word_planes(a), channel = i % word_planes(a) * 4;
    uint32_t *to = a->words + i * a->plane;
    if (channel >= a->p->channels) continue;
    for (phase[0] = 0; phase[0] < a->d[0].phases; phase[0]++)
      for (phase[1] = 0; phase[1] < a->d[1].phases; phase[1]++)
        for (phase[2] = 0; phase[2] < a->d[2].phases; phase[2]++)
          to = lay_out_word_phase(a, image, channel, phase, to);
  }
}

static void find_taps(const integer_conv *a, int64_t *to) {
  const conv_dim *d = a->p->dims;
  int64_t one = a->d[0].size * a->d[1].size * a->d[2].size;
  for (int64_t t = 0; t < a->taps; t++) {
    int64_t tap[CONV_DIMS], phase = 0, at = 0;
    split_index(t, d[1].kernel, d[2].kernel, tap);
    for (int i = 0; i < CONV_DIMS; i++) {
      int64_t from = tap[i] * d[i].dilation;
      phase = phase * a->d[i].phases + from % d[i].stride;
      at = at * a->d[i].size + from / d[i].stride;
    }
    to[t] = phase * one + at;
  }
}

/* ---------------------------------------------------------------- patches */

/* Where the planes of a group's channels are, and what there is of x behind position 0 of one. */
typedef struct source {
  const unsigned char *planes;
  int64_t there;
} source;

/* TILE bytes from `at` on, of which `there` are in a plane, the rest of any value. */
static const unsigned char *row_at(const unsigned char *plane, int64_t at, int64_t there,
                                   unsigned char *copy) {
  if (at + TILE <= there) return plane + at;
  if (at < there) memcpy(copy, plane + at, (size_t)(there - at));
  return copy;
}

/* patches (words, TILE) of positions [at, at + TILE). */
static void pack_tile(const integer_conv *a, const source *s, int64_t at, uint32_t *patches) {
  unsigned char copies[4][TILE];
  const unsigned char *rows[4], *plane = s->planes;
  const uint32_t flip = shift_of(a) ? 0x80808080U : 0;
  int64_t k = 0;
  if (s->there < INT64_MAX) memset(copies, 0, sizeof copies);
  for (int64_t c = 0; c < a->p->channels; c++, plane += a->plane)
    for (int64_t t = 0; t < a->taps; t++) {
      rows[k % 4] = row_at(plane, at + a->tap_at[t], s->there, copies[k % 4]);
      if (++k % 4) continue;
      a->kernel.pack(rows, flip, patches);
      patches += TILE;
    }
  if (k % 4 == 0) return;
  for (int64_t i = k % 4; i < 4; i++) rows[i] = rows[0]; /* times 0 */
  a->kernel.pack(rows, flip, patches);
}

/* ---------------------------------------------------------------- products */

/* Those of positions [at, at + TILE); their number. */
static int find_runs(const integer_conv *a, int64_t at, cell_run runs[TILE]) {
  const conv_dim *d = a->p->dims;
  int64_t end = at + TILE < a->positions ? at + TILE : a->positions;
  int64_t cell[CONV_DIMS];
  int count = 0;
  split_index(at, a->d[1].size, a->d[2].size, cell);
  for (int64_t p = at, n; p < end; p += n, cell[2] = 0, cell[1]++) {
    if (cell[1] == a->d[1].size) cell[1] = 0, cell[0]++;
    n = a->d[2].size - cell[2] < end - p ? a->d[2].size - cell[2] : end - p;
    if (cell[1] >= d[1].out || cell[2] >= d[2].out) continue;
    const cell_run some = {.from = (int)(p - at),
                           .cell = (cell[0] * d[1].out + cell[1]) * d[2].out + cell[2],
                           .n = d[2].out - cell[2] < n ? d[2].out - cell[2] : n};
    cell_run *last = count ? &runs[count - 1] : NULL;
    if (last && last->from + last->n == some.from && last->cell + last->n == some.cell)
      last->n += some.n;
    else
      runs[count++] = some;
  }
  return count;
}

/* Of a tile: those behind are nobody's. */
static int cells_of(const cell_run *runs, int n_runs) {
  return (int)(runs[n_runs - 1].from + runs[n_runs - 1].n);
}

static void decode_tile(const conv_integer_args *p, const unsigned char *codes, float *out) {
  const bool is_signed = p->codes.type == DTYPE_I8;
  for (int i = 0; i < TILE; i++) {
    const float code = is_signed ? (float)(signed char)codes[i] : (float)codes[i];
    out[i] = (code - p->decode_zero) * p->decode_scale;
  }
}

/* Rows of tiles where they belong, as codes or decoded. at: as of store_codes. */
static void scatter_codes(const integer_conv *a, int rows, int64_t at, unsigned char tiles[][TILE],
                          const cell_run *runs, int n_runs) {
  const int64_t size = a->args->decodes ? sizeof(float) : 1;
  float decoded[TILE];
  for (int r = 0; r < rows; r++) {
    const void *tile = tiles[r];
    if (a->args->decodes) decode_tile(a->args, tiles[r], decoded), tile = decoded;
    a->kernel.scatter(tile, size, runs, n_runs, (char *)a->p->out + (at + r * a->cells) * size);
  }
}

/* Codes of `rows` outputs of a tile; a tile of one run is stored, and read of codes.terms[1], where
 * it is. at: the number of the first output's first element in out. */
static void store_codes(const integer_conv *a, int64_t output, int rows, int64_t at,
                        const int32_t *sums, const cell_run *runs, int n_runs) {
  const conv_integer_args *args = a->args;
  const requantise_term *t = &args->codes.terms[1];
  const bool is_whole = n_runs == 1 && runs->n == TILE, has_other = t->x != NULL,
             is_stored = is_whole && !args->decodes;
  const int64_t size = has_other ? (int64_t)dtype_size(t->type) : 0;
  unsigned char tiles[ROWS][TILE], *codes[ROWS], *out = a->p->out;
  char others[ROWS][TILE * sizeof(int32_t)];
  const void *other[ROWS] = {NULL};
  for (int r = 0; r < rows; r++) {
    const int64_t row = at + r * a->cells;
    codes[r] = is_stored ? out + row + runs->cell : tiles[r];
    if (!has_other) continue;
    const char *x = (const char *)t->x + row * size;
    other[r] = is_whole ? x + runs->cell * size : others[r];
    if (!is_whole) memset(others[r], 0, (size_t)(TILE * size));
    if (!is_whole) a->kernel.gather(x, size, runs, n_runs, others[r]);
  }
  requantise_sums(&args->codes, output, rows, cells_of(runs, n_runs), sums, other, codes);
  if (!is_stored) scatter_codes(a, rows, at, tiles, runs, n_runs);
}

static void store_tile(const integer_conv *a, int64_t output, int rows, int64_t at,
                       const int32_t *sums, const cell_run *runs, int n_runs) {
  if (a->args->makes_codes) {
    store_codes(a, output, rows, at, sums, runs, n_runs);
    return;
  }
  for (int r = 0; r < rows; r++)
    a->kernel.scatter((const char *)(sums + r * TILE), sizeof *sums, runs, n_runs,
                      (char *)((int32_t *)a->p->out + at + r * a->cells));
}

/* Asks for what store_tile will read of the same outputs, and write but codes: it lies apart. */
static void ask_for_tile(const integer_conv *a, int rows, int64_t at, const cell_run *runs) {
  const requantise_term *t = &a->args->codes.terms[1];
  const bool makes_codes = a->args->makes_codes;
  const int64_t other = (int64_t)dtype_size(t->type),
                made = makes_codes && !a->args->decodes ? 1 : sizeof(int32_t);
  for (int r = 0; r < rows; r++) {
    const int64_t first = at + r * a->cells + runs->cell;
    if (makes_codes && t->x) ask_for_bytes((const char *)t->x + first * other, runs->n * other);
    if (made > 1) ask_for_bytes((const char *)a->p->out + first * made, runs->n * made);
  }
}

/* A tile's outputs [first, last) of a group: `output` is the first one's number of all. */
static void multiply_tile(const integer_conv *a, int64_t image, int64_t output, int64_t last,
                          const uint32_t *patches, const cell_run *runs, int n_runs) {
  const int cells = cells_of(runs, n_runs);
  const conv_args *p = a->p;
  for (int64_t o = output; o < last; o += a->kernel.rows) {
    _Alignas(64) int32_t sums[ROWS * TILE];
    const int rows = (int)least(a->kernel.rows, last - o);
    /* Those before them once more, where that is faster. */
    const int64_t from =
        a->kernel.fills && last - output >= a->kernel.rows ? least(o, last - a->kernel.rows) : o;
    const weight_rows w = integer_weight(&a->kernel, p->weight, a->rest, a->k, from);
    const int64_t at = (image * p->groups * p->outputs + o) * a->cells;
    ask_for_tile(a, rows, at, runs);
    a->kernel.multiply((int)(o - from) + rows, cells, &w, patches, a->begin + from, sums);
    store_tile(a, o, rows, at, sums + (o - from) * TILE, runs, n_runs);
  }
}

/* The same of a packed weight; words: from the tile's first position on; asks: for the weight. */
static void multiply_strips(const integer_conv *a, int64_t image, int64_t first, int64_t last,
                            bool asks, const uint32_t *words, const cell_run *runs, int n_runs) {
  const conv_args *p = a->p;
  const int64_t bytes = integer_strip_bytes(p);
  integer_strip s = {.strip_bytes = bytes,
                     .words = words,
                     .plane = a->from_x ? TILE : a->plane,
                     .blocks = integer_blocks(p),
                     .taps = a->taps,
                     .tap_at = a->tap_at,
                     .cells = cells_of(runs, n_runs),
                     .is_signed = p->type == DTYPE_I8,
                     .asks = asks};
  for (int64_t o = first; o < last; o += MOST_INTEGER_OUTPUTS) {
    _Alignas(64) int32_t sums[MOST_INTEGER_OUTPUTS * TILE];
    const int64_t at = (image * p->outputs + o) * a->cells;
    s.outputs = (int)least(MOST_INTEGER_OUTPUTS, last - o);
    s.weight = (const unsigned char *)p->packed + o / INTEGER_OUTPUTS * bytes;
    s.begin = p->bias ? (const int32_t *)p->bias + o : NULL;
    for (int r = 0; r < s.outputs; r += ROWS)
      ask_for_tile(a, (int)least(ROWS, s.outputs - r), at + r * a->cells, runs);
    integer_strip_multiply(&s, sums);
    for (int r = 0; r < s.outputs; r += ROWS)
      store_tile(a, o + r, (int)least(ROWS, s.outputs - r), at + r * a->cells, sums + r * TILE,
                 runs, n_runs);
  }
}

static void run_tile(const integer_conv *a, int64_t image, int64_t group, int64_t block,
                     int64_t tile, const source *s, uint32_t *patches) {
  const conv_args *p = a->p;
  cell_run runs[TILE];
  int n_runs = find_runs(a, tile * TILE, runs);
  int64_t first = block * a->block,
          last = first + a->block < p->outputs ? first + a->block : p->outputs;
  if (n_runs == 0) return;
  const uint32_t *words = patches;
  if (has_word_planes(a))
    words = a->words + image * word_planes(a) * a->plane + tile * TILE;
  else
    pack_tile(a, s, tile * TILE, patches);
  if (p->is_packed)
    multiply_strips(a, image, first, last, tile % a->share == 0, words, runs, n_runs);
  else
    multiply_tile(a, image, group * p->outputs + first, group * p->outputs + last, patches, runs,
                  n_runs);
}

/* Tiles [first, last) of a block of a group of an image. */
static void run_tiles(const integer_conv *a, int64_t plane, int64_t block, int64_t first,
                      int64_t last, const source *s, uint32_t *patches) {
  const int64_t groups = a->p->groups;
  if (a->kernel.begin) a->kernel.begin();
  for (int64_t tile = first; tile < last; tile++)
    run_tile(a, plane / groups, plane % groups, block, tile, s, patches);
  if (a->kernel.end) a->kernel.end();
}

/* Some tiles of a block of a group of an image. */
static void run_task(const void *user, int64_t task, char *scratch) {
  const integer_conv *a = user;
  const conv_args *p = a->p;
  int64_t first = task % a->shares * a->share, block = task / a->shares % a->blocks,
          plane = task / a->shares / a->blocks, size = a->from_x ? in_size(p) : a->plane;
  const unsigned char *planes = a->from_x ? p->x : a->planes;
  const source s = {.planes = planes + plane * p->channels * size,
                    .there = a->from_x ? size : INT64_MAX};
  run_tiles(a, plane, block, first, least(first + a->share, a->tiles), &s,
            (uint32_t *)(void *)scratch);
}

/* All of a group of an image, whose planes stay in the first cache. */
static void run_group(const void *user, int64_t task, char *scratch) {
  const integer_conv *a = user;
  const conv_args *p = a->p;
  uint32_t *patches = (uint32_t *)(void *)scratch;
  unsigned char *planes = (unsigned char *)(patches + word_count(a) * TILE);
  const source s = {.planes = planes, .there = INT64_MAX};
  lay_out(a, task * p->channels, p->channels, planes);
  run_tiles(a, task, 0, 0, a->tiles, &s, patches);
}

/* ---------------------------------------------------------------- the kernel */

static void describe_planes(integer_conv *a) {
  const conv_dim *d = a->p->dims;
  a->plane = a->positions = 1;
  a->from_x = !a->p->is_packed || a->taps == 1; /* patches are channel by channel */
  int64_t last = 0;
  for (int i = 0; i < CONV_DIMS; i++) {
    a->d[i].phases = conv_dim_phases(&d[i]);
    a->d[i].size = conv_dim_phase_size(&d[i]);
    a->plane *= a->d[i].phases * a->d[i].size;
    a->from_x = a->from_x && d[i].stride == 1 && d[i].padding == 0;
    last = last * a->d[i].size + d[i].out - 1;
  }
  a->positions = last + 1;
  /* An odd number of lines, so that few of a tile's rows displace each other. */
  if (has_word_planes(a)) a->plane = round_up(a->plane, 2 * LINE_WORDS) + LINE_WORDS;
}

static integer_conv make_conv(const kernel_context *ctx, const conv_integer_args *args) {
  const conv_args *p = &args->conv;
  integer_conv a = {.p = p,
                    .args = args,
                    .padding_value = args->padding_value & 255,
                    .taps = kernel_size(p),
                    .cells = out_size(p)};
  a.k = p->channels * a.taps;
  a.kernel = choose_integer_kernel(p->is_packed ? INTEGER_BLOCK : a.k);
  if (p->images * p->groups * p->outputs * a.cells == 0 || depthwise_integer_fits(args)) return a;
  describe_planes(&a);
  a.tiles = ceil_div(a.positions, TILE);
  a.by_group = p->groups > 1 && !a.from_x && p->channels * a.plane <= CACHED_BYTES;
  int64_t tasks = p->images * p->groups * a.tiles,
          wanted = a.by_group ? 1 : 2 * (int64_t)ctx->n_threads / tasks;
  a.block = round_up(wanted > 1 ? ceil_div(p->outputs, wanted) : p->outputs, LEAST_BLOCK);
  a.blocks = ceil_div(p->outputs, a.block);
  a.share = at_least(tasks / (SHARES * (int64_t)ctx->n_threads), 1);
  if (a.share > a.tiles) a.share = a.tiles;
  a.shares = ceil_div(a.tiles, a.share);
  return a;
}

static int64_t task_count(const integer_conv *a) {
  int64_t groups = a->p->images * a->p->groups;
  return a->by_group ? groups : groups * a->blocks * a->shares;
}

static int64_t work_of(const integer_conv *a) {
  const conv_args *p = a->p;
  return p->images * p->groups * p->outputs * a->tiles * TILE * a->k / MULTIPLIES_PER_TASK;
}

/* a + b * c of what is not negative; SIZE_MAX / 2: more than there is. */
static size_t plus_product(size_t a, int64_t b, int64_t c) {
  size_t bytes;
  if (__builtin_mul_overflow((size_t)b, (size_t)c, &bytes) ||
      __builtin_add_overflow(a, bytes, &bytes) || bytes > SIZE_MAX / 2)
    return SIZE_MAX / 2;
  return bytes;
}

static size_t task_bytes(const integer_conv *a) {
  if (has_word_planes(a)) return 0;
  size_t patches = plus_product(0, word_count(a), TILE * (int64_t)sizeof(uint32_t));
  return a->by_group ? plus_product(patches + TILE, a->p->channels, a->plane) : patches;
}

/* The parts of scratch memory, one behind the other: begin, rest, tap_at, planes, what tasks have.
 */
typedef struct parts {
  size_t rest, taps, planes, tasks, all;
} parts;

static int64_t rest_step(const integer_conv *a) {
  return a->p->is_packed || a->k % a->kernel.step == 0 ? 0 : a->kernel.step;
}

/* Where words that begin at `from` end. */
static size_t words_end(const integer_conv *a, size_t from) {
  const int64_t planes = a->p->images * word_planes(a), word = sizeof(uint32_t);
  return plus_product(plus_product(from, TILE, word), planes, a->plane * word);
}

static parts find_parts(const kernel_context *ctx, const integer_conv *a) {
  const conv_args *p = a->p;
  int64_t planes = a->from_x || a->by_group ? 0 : a->plane;
  parts s;
  s.rest = kernel_scratch_size(plus_product(0, p->groups * p->outputs, sizeof(int32_t)));
  s.taps = kernel_scratch_size(plus_product(s.rest, p->groups * p->outputs, rest_step(a)));
  s.planes = kernel_scratch_size(plus_product(s.taps, a->taps, sizeof(int64_t)));
  s.tasks = has_word_planes(a) ? words_end(a, s.planes)
                               : plus_product(s.planes + (planes ? TILE : 0),
                                              p->images * p->groups * p->channels, planes);
  s.tasks = kernel_scratch_size(s.tasks);
  s.all = kernel_scratch_size(s.tasks + slots_bytes(ctx, task_count(a), work_of(a), task_bytes(a)));
  return s;
}

static size_t conv_integer_scratch(const kernel_context *ctx, const void *args) {
  const integer_conv a = make_conv(ctx, args);
  return a.tiles ? find_parts(ctx, &a).all : 0;
}

/* The bias, and what makes up for bytes that are 128 more or less; what steps leave. */
static void find_begin(void *ctx, int64_t begin, int64_t end) {
  const integer_conv *a = ctx;
  const conv_args *p = a->p;
  const signed char *weight = p->weight;
  int shift = shift_of(a);
  for (int64_t o = begin; o < end; o++) {
    int32_t sum = 0;
    for (int64_t k = 0; k < a->k && shift; k++) sum += weight[o * a->k + k];
    a->begin[o] = (p->bias ? ((const int32_t *)p->bias)[o] : 0) - 128 * shift * sum;
    if (rest_step(a))
      integer_rest(&a->kernel, weight + o * a->k, a->k, a->rest + o * a->kernel.step);
  }
}

static bool conv_integer(const kernel_context *ctx, const void *args) {
  integer_conv a = make_conv(ctx, args);
  const conv_args *p = a.p;
  if (depthwise_integer_fits(args)) depthwise_integer_run(ctx, args);
  if (!a.tiles) return true;
  const parts s = find_parts(ctx, &a);
  char *memory = ctx->scratch(ctx->pool, s.all);
  if (!memory) return false;
  int64_t *tap_at = (int64_t *)(void *)(memory + s.taps);
  find_taps(&a, tap_at);
  a.begin = (int32_t *)(void *)memory;
  a.rest = (unsigned char *)memory + s.rest;
  a.tap_at = tap_at;
  a.planes = (unsigned char *)memory + s.planes;
  a.words = (uint32_t *)(void *)a.planes;
  if (!p->is_packed)
    ctx->parallel_for(ctx->pool, p->groups * p->outputs,
                      BYTES_PER_TASK / ((shift_of(&a) ? a.k : rest_step(&a)) + 1) + 1, find_begin,
                      &a);
  if (has_word_planes(&a))
    ctx->parallel_for(ctx->pool, p->images * word_planes(&a), WORDS_PER_TASK / (a.plane + 1) + 1,
                      lay_out_words, &a);
  else if (!a.from_x && !a.by_group)
    ctx->parallel_for(ctx->pool, p->images * p->groups * p->channels,
                      BYTES_PER_TASK / (a.plane + 1) + 1, lay_out_channels, &a);
  run_slots_in(ctx, task_count(&a), work_of(&a), task_bytes(&a), a.by_group ? run_group : run_task,
               &a, memory + s.tasks);
  return true;
}

const kernel_desc kernel_conv_integer = {
    .name = "conv_integer",
    .run = conv_integer,
    .scratch = conv_integer_scratch,
    .args_size = sizeof(conv_integer_args),
    .operands = {OPERAND(conv_integer_args, conv.x), OPERAND(conv_integer_args, conv.weight),
                 OPERAND(conv_integer_args, conv.bias), OPERAND(conv_integer_args, conv.packed),
                 OPERAND(conv_integer_args, conv.out),
                 REQUANTISE_OPERANDS(conv_integer_args, codes)}};
