/* ConvInteger: sums (outputs, cells) = begin + weight (outputs, k) * patches (k, cells), by
 * conv_integer_kernels.h or, with a packed weight, conv_integer_tiles.h. If the kernel needs the
 * other signedness than x has, patch bytes are x +- 128, and begin subtracts +-128 times the sum of
 * the weight's row.
 *
 * x is laid out as planes with padding, split by phases of the strides (row y is in phase y %
 * stride, at y / stride). Cell (z, y, x) is position (z rows + y) columns + x for every tap, so a
 * tap reads contiguous bytes for neighbouring cells. Positions after the end of an output row are
 * computed and dropped. Without padding and strides, x is used in place. Loop order: image, group,
 * block, tile. */
#include "backend/cpu/kernels/conv/conv_integer.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_integer_dots.h"
#include "backend/cpu/kernels/conv/conv_integer_kernels.h"
#include "backend/cpu/kernels/conv/conv_integer_planes.h"
#include "backend/cpu/kernels/conv/conv_integer_tiles.h"
#include "backend/cpu/kernels/conv/depthwise_integer.h"
#include "backend/cpu/kernels/elementwise/requantise.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum {
  TILE = INTEGER_TILE,
  ROWS = INTEGER_ROWS,
  MIN_BLOCK = 64,           /* minimum outputs of a task, if there are few tiles */
  SHARES = 12,              /* minimum shares per thread, if there are enough tiles */
  CACHED_BYTES = 32 * 1024, /* maximum size of a group's planes that a task lays out itself */
  LINE_WORDS = 16           /* words per cache line */
};
static const int64_t MULTIPLIES_PER_TASK = 512 * 1024, BYTES_PER_TASK = 64 * 1024,
                     WORDS_PER_TASK = 16 * 1024;

/* A dimension of the planes: size of one phase, and number of phases. */
typedef struct plane_dim {
  int64_t size, phases;
} plane_dim;

typedef struct integer_conv {
  const conv_args *args;
  const conv_integer_args *integer;
  int padding_value;
  integer_kernel kernel;
  int64_t k, taps, cells; /* elements of a patch; taps per channel; outputs per channel */
  plane_dim d[CONV_DIMS];
  int64_t plane;                /* all phases of a channel, in bytes, or words if packed */
  int64_t positions;            /* positions up to the last cell */
  int64_t tiles, shares, share; /* tiles of positions, in shares of `share` tiles */
  int64_t blocks, block;        /* blocks of outputs; outputs per block */
  bool from_x, by_group;        /* planes are x itself; each task lays out its own planes */
  int32_t *begin;               /* (groups * outputs): initial values of the sums */
  unsigned char *rest;          /* (groups * outputs, step): the bytes of integer_rest */
  const int64_t *tap_at;        /* (taps): offset from a position to the byte that the tap reads */
  unsigned char *planes;        /* (images, groups * channels, plane), and TILE more bytes */
  uint32_t *words; /* if packed: (images, blocks of channels * 16, plane), and TILE more words */
} integer_conv;

/* Returns 1 or -1 if patch bytes are x + 128 or x - 128, otherwise 0. */
static int patch_shift(const integer_conv *conv) {
  bool is_signed = conv->args->type == DTYPE_I8;
  if (conv->args->is_packed) return 0;
  return is_signed == conv->kernel.is_signed ? 0 : is_signed ? 1 : -1;
}

/* Returns the number of word planes per image, for a packed weight. */
static int64_t word_planes(const integer_conv *conv) {
  return integer_blocks(conv->args) * INTEGER_BLOCK / 4;
}

/* Returns the words per patch, rounded up to whole tiles if the weight is packed. */
static int64_t patch_words(const integer_conv *conv) {
  return conv->args->is_packed ? word_planes(conv) : integer_words(&conv->kernel, conv->k);
}

/* True if a packed weight reads planes of words. Patches packed from x are words already. */
static bool has_word_planes(const integer_conv *conv) {
  return conv->args->is_packed && !conv->from_x;
}

/* ---------------------------------------------------------------- planes */

/* Lays out n elements of a row x (in), every stride-th from `first` on. NULL: a row of padding. */
static void lay_out_row(const integer_conv *conv, const unsigned char *x, int64_t first, int64_t n,
                        unsigned char *to) {
  const conv_dim *dim = &conv->args->dims[2];
  int64_t begin = n, end = n;
  if (x) columns_within(dim->in, dim->stride, first, 0, n, &begin, &end);
  fill_few(to, conv->padding_value, begin);
  if (begin < end)
    copy_strided(x + first + begin * dim->stride, dim->stride, end - begin, to + begin);
  fill_few(to + end, conv->padding_value, n - end);
}

/* Returns the index in x of index i of a phase, in one dimension; -1: padding. */
static int64_t phase_source(const conv_dim *dim, int64_t i, int64_t phase) {
  int64_t at = i * dim->stride + phase - dim->padding;
  return at >= 0 && at < dim->in ? at : -1;
}

/* Lays out one phase of a channel. */
static unsigned char *lay_out_phase(const integer_conv *conv, const unsigned char *x,
                                    const int64_t phase[CONV_DIMS], unsigned char *to) {
  const conv_dim *dim = conv->args->dims;
  for (int64_t z = 0; z < conv->d[0].size; z++)
    for (int64_t y = 0; y < conv->d[1].size; y++, to += conv->d[2].size) {
      int64_t in_z = phase_source(&dim[0], z, phase[0]), in_y = phase_source(&dim[1], y, phase[1]);
      bool is_inside = in_z >= 0 && in_y >= 0;
      lay_out_row(conv, is_inside ? x + (in_z * dim[1].in + in_y) * dim[2].in : NULL,
                  phase[2] - dim[2].padding, conv->d[2].size, to);
    }
  return to;
}

/* Lays out channels [first, first + n) of all images. */
static void lay_out_planes(const integer_conv *conv, int64_t first, int64_t n, unsigned char *to) {
  int64_t phase[CONV_DIMS], size = in_size(conv->args);
  for (int64_t c = first; c < first + n; c++) {
    const unsigned char *x = (const unsigned char *)conv->args->x + c * size;
    for (phase[0] = 0; phase[0] < conv->d[0].phases; phase[0]++)
      for (phase[1] = 0; phase[1] < conv->d[1].phases; phase[1]++)
        for (phase[2] = 0; phase[2] < conv->d[2].phases; phase[2]++)
          to = lay_out_phase(conv, x, phase, to);
  }
}

static void lay_out_channels(void *ctx, int64_t begin, int64_t end) {
  const integer_conv *conv = ctx;
  lay_out_planes(conv, begin, end - begin, conv->planes + begin * conv->plane);
}

/* Lays out words of four channels of an image, from `channel` on, in one phase. */
static uint32_t *lay_out_word_phase(const integer_conv *conv, int64_t image, int64_t channel,
                                    const int64_t phase[CONV_DIMS], uint32_t *to) {
  const conv_args *args = conv->args;
  const conv_dim *dim = args->dims;
  const int64_t first = phase[2] - dim[2].padding, width = conv->d[2].size, size = in_size(args);
  const unsigned char *x =
      (const unsigned char *)args->x + (image * args->channels + channel) * size;
  int64_t begin, end;
  columns_within(dim[2].in, dim[2].stride, first, 0, width, &begin, &end);
  integer_row row = {
      .step = dim[2].stride, .left = begin, .width = width, .padding = conv->padding_value};
  for (int64_t z = 0; z < conv->d[0].size; z++)
    for (int64_t y = 0; y < conv->d[1].size; y++, to += width) {
      const int64_t in_z = phase_source(&dim[0], z, phase[0]),
                    in_y = phase_source(&dim[1], y, phase[1]),
                    at = (in_z * dim[1].in + in_y) * dim[2].in + first + begin * dim[2].stride;
      row.n = in_z >= 0 && in_y >= 0 ? end - begin : 0;
      for (int c = 0; c < 4; c++)
        row.x[c] = row.n > 0 && channel + c < args->channels ? x + c * size + at : NULL;
      row.to = to;
      integer_join_row(&row);
    }
  return to;
}

/* Lays out word planes [begin, end) of all images. Planes after the last channel are undefined. */
static void lay_out_words(void *ctx, int64_t begin, int64_t end) {
  const integer_conv *conv = ctx;
  int64_t phase[CONV_DIMS];
  for (int64_t i = begin; i < end; i++) {
    const int64_t image = i / word_planes(conv), channel = i % word_planes(conv) * 4;
    uint32_t *to = conv->words + i * conv->plane;
    if (channel >= conv->args->channels) continue;
    for (phase[0] = 0; phase[0] < conv->d[0].phases; phase[0]++)
      for (phase[1] = 0; phase[1] < conv->d[1].phases; phase[1]++)
        for (phase[2] = 0; phase[2] < conv->d[2].phases; phase[2]++)
          to = lay_out_word_phase(conv, image, channel, phase, to);
  }
}

static void conv_integer_find_taps(const integer_conv *conv, int64_t *to) {
  const conv_dim *dim = conv->args->dims;
  int64_t one = conv->d[0].size * conv->d[1].size * conv->d[2].size;
  for (int64_t t = 0; t < conv->taps; t++) {
    int64_t tap[CONV_DIMS], phase = 0, at = 0;
    split_index(t, dim[1].kernel, dim[2].kernel, tap);
    for (int i = 0; i < CONV_DIMS; i++) {
      int64_t from = tap[i] * dim[i].dilation;
      phase = phase * conv->d[i].phases + from % dim[i].stride;
      at = at * conv->d[i].size + from / dim[i].stride;
    }
    to[t] = phase * one + at;
  }
}

/* ---------------------------------------------------------------- patches */

/* The planes of a group's channels, and the bytes of x readable from a plane's start on. */
typedef struct source {
  const unsigned char *planes;
  int64_t n_readable;
} source;

/* Returns TILE bytes from `at` on. Bytes after the plane's n_readable ones are undefined. */
static const unsigned char *row_or_copy(const unsigned char *plane, int64_t at, int64_t n_readable,
                                        unsigned char *copy) {
  if (at + TILE <= n_readable) return plane + at;
  if (at < n_readable) memcpy(copy, plane + at, (size_t)(n_readable - at));
  return copy;
}

/* Packs patches (words, TILE) of positions [at, at + TILE). */
static void pack_tile(const integer_conv *conv, const source *source, int64_t at,
                      uint32_t *patches) {
  unsigned char copies[4][TILE];
  const unsigned char *rows[4], *plane = source->planes;
  const uint32_t flip = patch_shift(conv) ? 0x80808080U : 0;
  int64_t k = 0;
  if (source->n_readable < INT64_MAX) memset(copies, 0, sizeof copies);
  for (int64_t c = 0; c < conv->args->channels; c++, plane += conv->plane)
    for (int64_t t = 0; t < conv->taps; t++) {
      rows[k % 4] = row_or_copy(plane, at + conv->tap_at[t], source->n_readable, copies[k % 4]);
      if (++k % 4) continue;
      conv->kernel.pack(rows, flip, patches);
      patches += TILE;
    }
  if (k % 4 == 0) return;
  for (int64_t i = k % 4; i < 4; i++) rows[i] = rows[0]; /* their weights are 0 */
  conv->kernel.pack(rows, flip, patches);
}

/* ---------------------------------------------------------------- products */

/* Finds the runs of cells in positions [at, at + TILE). Returns their number. */
static int find_runs(const integer_conv *conv, int64_t at, cell_run runs[TILE]) {
  const conv_dim *dim = conv->args->dims;
  int64_t end = at + TILE < conv->positions ? at + TILE : conv->positions;
  int64_t cell[CONV_DIMS];
  int count = 0;
  split_index(at, conv->d[1].size, conv->d[2].size, cell);
  for (int64_t p = at, n; p < end; p += n, cell[2] = 0, cell[1]++) {
    if (cell[1] == conv->d[1].size) cell[1] = 0, cell[0]++;
    n = conv->d[2].size - cell[2] < end - p ? conv->d[2].size - cell[2] : end - p;
    if (cell[1] >= dim[1].out || cell[2] >= dim[2].out) continue;
    const cell_run run = {.from = (int)(p - at),
                          .cell = (cell[0] * dim[1].out + cell[1]) * dim[2].out + cell[2],
                          .n = dim[2].out - cell[2] < n ? dim[2].out - cell[2] : n};
    cell_run *last = count ? &runs[count - 1] : NULL;
    if (last && last->from + last->n == run.from && last->cell + last->n == run.cell)
      last->n += run.n;
    else
      runs[count++] = run;
  }
  return count;
}

/* Returns the number of elements of a tile up to its last cell. */
static int cells_of(const cell_run *runs, int n_runs) {
  return (int)(runs[n_runs - 1].from + runs[n_runs - 1].n);
}

/* Stores rows of tiles as codes or decoded. at: as in conv_integer_store_codes. */
static void scatter_codes(const integer_conv *conv, int rows, int64_t at,
                          unsigned char tiles[][TILE], const cell_run *runs, int n_runs) {
  const int64_t size = conv->integer->decodes ? sizeof(float) : 1;
  float decoded[TILE];
  for (int r = 0; r < rows; r++) {
    const void *tile = tiles[r];
    if (conv->integer->decodes)
      conv_integer_decode(conv->integer, tiles[r], TILE, decoded), tile = decoded;
    conv->kernel.scatter(tile, size, runs, n_runs,
                         (char *)conv->args->out + (at + r * conv->cells) * size);
  }
}

/* Stores codes of `rows` outputs of a tile. If the tile is one whole run, out and codes.terms[1]
 * are used in place. at: index in out of the first output's first element. */
static void conv_integer_store_codes(const integer_conv *conv, int64_t output, int rows, int64_t at,
                                     const int32_t *sums, const cell_run *runs, int n_runs) {
  const conv_integer_args *args = conv->integer;
  const requantise_term *term = &args->codes.terms[1];
  const bool is_whole = n_runs == 1 && runs->n == TILE, has_other = term->x != NULL,
             is_stored = is_whole && !args->decodes;
  const int64_t size = has_other ? (int64_t)dtype_size(term->type) : 0;
  unsigned char tiles[ROWS][TILE], *codes[ROWS], *out = conv->args->out;
  char others[ROWS][TILE * sizeof(int32_t)];
  const void *other[ROWS] = {NULL};
  for (int r = 0; r < rows; r++) {
    const int64_t row = at + r * conv->cells;
    codes[r] = is_stored ? out + row + runs->cell : tiles[r];
    if (!has_other) continue;
    const char *x = (const char *)term->x + row * size;
    other[r] = is_whole ? x + runs->cell * size : others[r];
    if (!is_whole) memset(others[r], 0, (size_t)(TILE * size));
    if (!is_whole) conv->kernel.gather(x, size, runs, n_runs, others[r]);
  }
  requantise_sums(&args->codes, output, rows, cells_of(runs, n_runs), sums, other, codes);
  if (!is_stored) scatter_codes(conv, rows, at, tiles, runs, n_runs);
}

static void conv_integer_store_tile(const integer_conv *conv, int64_t output, int rows, int64_t at,
                                    const int32_t *sums, const cell_run *runs, int n_runs) {
  if (conv->integer->makes_codes) {
    conv_integer_store_codes(conv, output, rows, at, sums, runs, n_runs);
    return;
  }
  for (int r = 0; r < rows; r++)
    conv->kernel.scatter((const char *)(sums + r * TILE), sizeof *sums, runs, n_runs,
                         (char *)((int32_t *)conv->args->out + at + r * conv->cells));
}

/* Prefetches what conv_integer_store_tile will read of terms[1] and write, except codes. */
static void conv_integer_prefetch_tile(const integer_conv *conv, int rows, int64_t at,
                                       const cell_run *runs) {
  const requantise_term *term = &conv->integer->codes.terms[1];
  const bool makes_codes = conv->integer->makes_codes;
  const int64_t other = (int64_t)dtype_size(term->type),
                made = makes_codes && !conv->integer->decodes ? 1 : sizeof(int32_t);
  for (int r = 0; r < rows; r++) {
    const int64_t first = at + r * conv->cells + runs->cell;
    if (makes_codes && term->x)
      prefetch_bytes((const char *)term->x + first * other, runs->n * other);
    if (made > 1) prefetch_bytes((const char *)conv->args->out + first * made, runs->n * made);
  }
}

/* Computes a tile of outputs [output, last), counted over all groups. */
static void conv_integer_multiply_tile(const integer_conv *conv, int64_t image, int64_t output,
                                       int64_t last, const uint32_t *patches, const cell_run *runs,
                                       int n_runs) {
  const int cells = cells_of(runs, n_runs);
  const conv_args *args = conv->args;
  for (int64_t o = output; o < last; o += conv->kernel.rows) {
    _Alignas(64) int32_t sums[ROWS * TILE];
    const int rows = (int)min_i64(conv->kernel.rows, last - o);
    /* Recomputes earlier outputs if a full set is faster. */
    const int64_t from = conv->kernel.fills && last - output >= conv->kernel.rows
                             ? min_i64(o, last - conv->kernel.rows)
                             : o;
    const weight_rows weights =
        integer_weight(&conv->kernel, args->weight, conv->rest, conv->k, from);
    const int64_t at = (image * args->groups * args->outputs + o) * conv->cells;
    conv_integer_prefetch_tile(conv, rows, at, runs);
    conv->kernel.multiply((int)(o - from) + rows, cells, &weights, patches, conv->begin + from,
                          sums);
    conv_integer_store_tile(conv, o, rows, at, sums + (o - from) * TILE, runs, n_runs);
  }
}

/* Works like conv_integer_multiply_tile, for a packed weight. words: the words of the first
 * position. prefetches: prefetches the weight. */
static void multiply_strips(const integer_conv *conv, int64_t image, int64_t first, int64_t last,
                            bool prefetches, const uint32_t *words, const cell_run *runs,
                            int n_runs) {
  const conv_args *args = conv->args;
  const int64_t bytes = integer_strip_bytes(args);
  integer_strip strip = {.strip_bytes = bytes,
                         .words = words,
                         .plane = conv->from_x ? TILE : conv->plane,
                         .blocks = integer_blocks(args),
                         .taps = conv->taps,
                         .tap_at = conv->tap_at,
                         .cells = cells_of(runs, n_runs),
                         .is_signed = args->type == DTYPE_I8,
                         .prefetches = prefetches};
  for (int64_t o = first; o < last; o += MAX_INTEGER_OUTPUTS) {
    _Alignas(64) int32_t sums[MAX_INTEGER_OUTPUTS * TILE];
    const int64_t at = (image * args->outputs + o) * conv->cells;
    strip.outputs = (int)min_i64(MAX_INTEGER_OUTPUTS, last - o);
    strip.weight = (const unsigned char *)args->packed + o / INTEGER_OUTPUTS * bytes;
    strip.begin = args->bias ? (const int32_t *)args->bias + o : NULL;
    for (int r = 0; r < strip.outputs; r += ROWS)
      conv_integer_prefetch_tile(conv, (int)min_i64(ROWS, strip.outputs - r), at + r * conv->cells,
                                 runs);
    integer_strip_multiply(&strip, sums);
    for (int r = 0; r < strip.outputs; r += ROWS)
      conv_integer_store_tile(conv, o + r, (int)min_i64(ROWS, strip.outputs - r),
                              at + r * conv->cells, sums + r * TILE, runs, n_runs);
  }
}

static void conv_integer_run_tile(const integer_conv *conv, int64_t image, int64_t group,
                                  int64_t block, int64_t tile, const source *source,
                                  uint32_t *patches) {
  const conv_args *args = conv->args;
  cell_run runs[TILE];
  int n_runs = find_runs(conv, tile * TILE, runs);
  int64_t first = block * conv->block,
          last = first + conv->block < args->outputs ? first + conv->block : args->outputs;
  if (n_runs == 0) return;
  const uint32_t *words = patches;
  if (has_word_planes(conv))
    words = conv->words + image * word_planes(conv) * conv->plane + tile * TILE;
  else
    pack_tile(conv, source, tile * TILE, patches);
  if (args->is_packed)
    multiply_strips(conv, image, first, last, tile % conv->share == 0, words, runs, n_runs);
  else
    conv_integer_multiply_tile(conv, image, group * args->outputs + first,
                               group * args->outputs + last, patches, runs, n_runs);
}

/* Runs tiles [first, last) of a block of outputs. plane: number of the group over all images. */
static void conv_integer_run_tiles(const integer_conv *conv, int64_t plane, int64_t block,
                                   int64_t first, int64_t last, const source *source,
                                   uint32_t *patches) {
  const int64_t groups = conv->args->groups;
  if (conv->kernel.begin) conv->kernel.begin();
  for (int64_t tile = first; tile < last; tile++)
    conv_integer_run_tile(conv, plane / groups, plane % groups, block, tile, source, patches);
  if (conv->kernel.end) conv->kernel.end();
}

/* Runs a task: one share of the tiles of a block of outputs, in a group of an image. */
static void conv_integer_run_task(const void *user, int64_t task, char *scratch) {
  const integer_conv *conv = user;
  const conv_args *args = conv->args;
  int64_t first = task % conv->shares * conv->share, block = task / conv->shares % conv->blocks,
          plane = task / conv->shares / conv->blocks,
          size = conv->from_x ? in_size(args) : conv->plane;
  const unsigned char *planes = conv->from_x ? args->x : conv->planes;
  const source source = {.planes = planes + plane * args->channels * size,
                         .n_readable = conv->from_x ? size : INT64_MAX};
  conv_integer_run_tiles(conv, plane, block, first, min_i64(first + conv->share, conv->tiles),
                         &source, (uint32_t *)(void *)scratch);
}

/* Runs a task: one group of an image, whose planes stay in the first-level cache. */
static void run_group(const void *user, int64_t task, char *scratch) {
  const integer_conv *conv = user;
  const conv_args *args = conv->args;
  uint32_t *patches = (uint32_t *)(void *)scratch;
  unsigned char *planes = (unsigned char *)(patches + patch_words(conv) * TILE);
  const source source = {.planes = planes, .n_readable = INT64_MAX};
  lay_out_planes(conv, task * args->channels, args->channels, planes);
  conv_integer_run_tiles(conv, task, 0, 0, conv->tiles, &source, patches);
}

/* ---------------------------------------------------------------- the kernel */

static void describe_planes(integer_conv *conv) {
  const conv_dim *dim = conv->args->dims;
  conv->plane = conv->positions = 1;
  conv->from_x = !conv->args->is_packed || conv->taps == 1; /* patches are channel by channel */
  int64_t last = 0;
  for (int i = 0; i < CONV_DIMS; i++) {
    conv->d[i].phases = conv_dim_phases(&dim[i]);
    conv->d[i].size = conv_dim_phase_size(&dim[i]);
    conv->plane *= conv->d[i].phases * conv->d[i].size;
    conv->from_x &= dim[i].stride == 1 && dim[i].padding == 0 && conv->d[i].size == dim[i].in;
    last = last * conv->d[i].size + dim[i].out - 1;
  }
  conv->positions = last + 1;
  /* Planes have an odd number of cache lines, so that few of a tile's rows evict each other. */
  if (has_word_planes(conv)) conv->plane = round_up(conv->plane, 2 * LINE_WORDS) + LINE_WORDS;
}

/* Plans a convolution. Only its sizes are set if it has no outputs or another kernel computes it.
 */
static integer_conv make_conv(const kernel_context *ctx, const conv_integer_args *args) {
  const conv_args *own = &args->conv;
  integer_conv conv = {.args = own,
                       .integer = args,
                       .padding_value = args->padding_value & 255,
                       .taps = kernel_size(own),
                       .cells = out_size(own)};
  conv.k = own->channels * conv.taps;
  conv.kernel = choose_integer_kernel(own->is_packed ? INTEGER_BLOCK : conv.k);
  if (own->images * own->groups * own->outputs * conv.cells == 0 || conv_integer_is_dots(own) ||
      depthwise_integer_fits(args))
    return conv;
  describe_planes(&conv);
  conv.tiles = ceil_div(conv.positions, TILE);
  conv.by_group = own->groups > 1 && !conv.from_x && own->channels * conv.plane <= CACHED_BYTES;
  int64_t tasks = own->images * own->groups * conv.tiles,
          wanted = conv.by_group ? 1 : 2 * (int64_t)ctx->n_threads / tasks;
  conv.block = round_up(wanted > 1 ? ceil_div(own->outputs, wanted) : own->outputs, MIN_BLOCK);
  conv.blocks = ceil_div(own->outputs, conv.block);
  conv.share = max_i64(tasks / (SHARES * (int64_t)ctx->n_threads), 1);
  if (conv.share > conv.tiles) conv.share = conv.tiles;
  conv.shares = ceil_div(conv.tiles, conv.share);
  return conv;
}

static int64_t conv_integer_task_count(const integer_conv *conv) {
  int64_t groups = conv->args->images * conv->args->groups;
  return conv->by_group ? groups : groups * conv->blocks * conv->shares;
}

static int64_t conv_integer_work_of(const integer_conv *conv) {
  const conv_args *args = conv->args;
  return args->images * args->groups * args->outputs * conv->tiles * TILE * conv->k /
         MULTIPLIES_PER_TASK;
}

/* Returns a + b * c, all non-negative; on overflow SIZE_MAX / 2, which cannot be allocated. */
static size_t plus_product(size_t a, int64_t b, int64_t c) {
  size_t bytes;
  if (__builtin_mul_overflow((size_t)b, (size_t)c, &bytes) ||
      __builtin_add_overflow(a, bytes, &bytes) || bytes > SIZE_MAX / 2)
    return SIZE_MAX / 2;
  return bytes;
}

static size_t conv_integer_task_bytes(const integer_conv *conv) {
  if (has_word_planes(conv)) return 0;
  size_t patches = plus_product(0, patch_words(conv), TILE * (int64_t)sizeof(uint32_t));
  return conv->by_group ? plus_product(patches + TILE, conv->args->channels, conv->plane) : patches;
}

/* Byte offsets in scratch memory, which has `begin` at 0, and the tasks' memory at the end. */
typedef struct layout {
  size_t rest, taps, planes, tasks, all;
} layout;

static int64_t conv_integer_rest_step(const integer_conv *conv) {
  return conv->args->is_packed || conv->k % conv->kernel.step == 0 ? 0 : conv->kernel.step;
}

/* Returns the byte offset at which `words` ends, if it begins at byte `from`. */
static size_t words_end(const integer_conv *conv, size_t from) {
  const int64_t planes = conv->args->images * word_planes(conv), word = sizeof(uint32_t);
  return plus_product(plus_product(from, TILE, word), planes, conv->plane * word);
}

static layout conv_integer_find_layout(const kernel_context *ctx, const integer_conv *conv) {
  const conv_args *args = conv->args;
  int64_t planes = conv->from_x || conv->by_group ? 0 : conv->plane;
  layout layout;
  layout.rest = kernel_scratch_size(plus_product(0, args->groups * args->outputs, sizeof(int32_t)));
  layout.taps = kernel_scratch_size(
      plus_product(layout.rest, args->groups * args->outputs, conv_integer_rest_step(conv)));
  layout.planes = kernel_scratch_size(plus_product(layout.taps, conv->taps, sizeof(int64_t)));
  layout.tasks = has_word_planes(conv)
                     ? words_end(conv, layout.planes)
                     : plus_product(layout.planes + (planes ? TILE : 0),
                                    args->images * args->groups * args->channels, planes);
  layout.tasks = kernel_scratch_size(layout.tasks);
  layout.all = kernel_scratch_size(layout.tasks + slots_bytes(ctx, conv_integer_task_count(conv),
                                                              conv_integer_work_of(conv),
                                                              conv_integer_task_bytes(conv)));
  return layout;
}

static size_t conv_integer_scratch(const kernel_context *ctx, const void *args) {
  const integer_conv conv = make_conv(ctx, args);
  return conv.tiles ? conv_integer_find_layout(ctx, &conv).all : 0;
}

/* Computes conv->begin (with the correction for patch_shift) and rest of some outputs. */
static void conv_integer_find_begin(void *ctx, int64_t begin, int64_t end) {
  const integer_conv *conv = ctx;
  const conv_args *args = conv->args;
  const signed char *weight = args->weight;
  int shift = patch_shift(conv);
  for (int64_t o = begin; o < end; o++) {
    int32_t sum = 0;
    for (int64_t k = 0; k < conv->k && shift; k++) sum += weight[o * conv->k + k];
    conv->begin[o] = (args->bias ? ((const int32_t *)args->bias)[o] : 0) - 128 * shift * sum;
    if (conv_integer_rest_step(conv))
      integer_rest(&conv->kernel, weight + o * conv->k, conv->k,
                   conv->rest + o * conv->kernel.step);
  }
}

static bool conv_integer(const kernel_context *ctx, const void *args) {
  integer_conv conv = make_conv(ctx, args);
  const conv_args *own = conv.args;
  if (conv_integer_dots_run(args)) return true;
  if (depthwise_integer_fits(args)) depthwise_integer_run(ctx, args);
  if (!conv.tiles) return true;
  const layout layout = conv_integer_find_layout(ctx, &conv);
  char *memory = ctx->scratch(ctx->pool, layout.all);
  if (!memory) return false;
  int64_t *tap_at = (int64_t *)(void *)(memory + layout.taps);
  conv_integer_find_taps(&conv, tap_at);
  conv.begin = (int32_t *)(void *)memory;
  conv.rest = (unsigned char *)memory + layout.rest;
  conv.tap_at = tap_at;
  conv.planes = (unsigned char *)memory + layout.planes;
  conv.words = (uint32_t *)(void *)conv.planes;
  if (!own->is_packed)
    ctx->parallel_for(
        ctx->pool, own->groups * own->outputs,
        BYTES_PER_TASK / ((patch_shift(&conv) ? conv.k : conv_integer_rest_step(&conv)) + 1) + 1,
        conv_integer_find_begin, &conv);
  if (has_word_planes(&conv))
    ctx->parallel_for(ctx->pool, own->images * word_planes(&conv),
                      WORDS_PER_TASK / (conv.plane + 1) + 1, lay_out_words, &conv);
  else if (!conv.from_x && !conv.by_group)
    ctx->parallel_for(ctx->pool, own->images * own->groups * own->channels,
                      BYTES_PER_TASK / (conv.plane + 1) + 1, lay_out_channels, &conv);
  run_slots_in(ctx, conv_integer_task_count(&conv), conv_integer_work_of(&conv),
               conv_integer_task_bytes(&conv), conv.by_group ? run_group : conv_integer_run_task,
               &conv, memory + layout.tasks);
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
