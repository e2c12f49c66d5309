/* Stores quantised constants as encoded constants of the program. */
#include "import/coded.h"

#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "import/emit.h"

struct coded {
  coded_source source; /* codes NULL: only `rows` are known */
  const uint8_t *codes, *scales, *zeros;
  int bits, offset; /* offset: added to codes and zeros to make them unsigned */
  bool has_zeros;
  clave_dtype type;
  int rank;
  int64_t dims[CLAVE_MAX_RANK];
  clave_id rows[2]; /* encoded constants: of the rows, of the columns; 0: not made */
};

/* ---------------------------------------------------------------- packing */

void coded_store(uint8_t *codes, int64_t i, int bits, unsigned code) {
  const int64_t at = i * bits;
  code <<= at % 8;
  codes[at / 8] |= (uint8_t)code;
  if (code >> 8) codes[at / 8 + 1] |= (uint8_t)(code >> 8);
}

static void coded_store_zeros(clave_dtype type, const float *zeros, int64_t n, uint8_t *to) {
  for (int64_t i = 0; i < n; i++) {
    const uint16_t half = type == CLAVE_BF16 ? f32_to_bf16(zeros[i]) : f32_to_f16(zeros[i]);
    if (type == CLAVE_F32)
      memcpy(to + 4 * i, &zeros[i], 4);
    else
      memcpy(to + 2 * i, &half, 2);
  }
}

static encoding coded_encoding(const coded_layout *layout) {
  return (encoding){.kind = ENCODING_GROUPS,
                    .axis = (uint8_t)layout->axis,
                    .code = CODE_INT,
                    .bits = (uint8_t)layout->bits,
                    .scale = (uint8_t)layout->type,
                    .has_zeros = layout->has_zeros,
                    .group = (uint32_t)layout->group};
}

/* Writes the bytes of all rows, which are zeroed. */
static bool coded_fill(const coded_layout *layout, size_t row_bytes, coded_reader read,
                       const void *context, uint8_t *to) {
  const encoding encoding = coded_encoding(layout);
  const size_t groups = (size_t)encoding_groups(&encoding, layout->row);
  const size_t scales = encoding_code_bytes(&encoding, layout->row),
               zeros = scales + groups * clave_dtype_size(layout->type);
  float *zero = malloc((groups + 1) * sizeof *zero);
  for (int64_t r = 0; zero && r < layout->rows; r++, to += row_bytes) {
    read(context, r, to, to + scales, layout->has_zeros ? zero : NULL);
    if (layout->has_zeros) coded_store_zeros(layout->type, zero, (int64_t)groups, to + zeros);
  }
  const bool good = zero != NULL;
  free(zero);
  return good;
}

clave_id coded_add(importer *im, const coded_layout *layout, int rank, const int64_t *dims,
                   coded_reader read, const void *context) {
  char text[64];
  const encoding encoding = coded_encoding(layout);
  const size_t row_bytes = encoding_row_bytes(&encoding, layout->row);
  uint8_t *bytes = import_ok(im) ? calloc((size_t)layout->rows + 1, row_bytes) : NULL;
  clave_id id = 0;
  if (!import_ok(im)) return 0;
  if (bytes && coded_fill(layout, row_bytes, read, context, bytes)) {
    int64_t shape[CLAVE_MAX_RANK];
    memcpy(shape, dims, (size_t)layout->axis * sizeof *dims);
    shape[layout->axis] = (int64_t)row_bytes;
    const clave_tensor rows = clave_tensor_make(CLAVE_U8, layout->axis + 1, shape, bytes);
    const char *name = import_text(im, "#%u", im->n_names++);
    id = clave_builder_encoded(im->builder, name, encoding_text(&encoding, text, sizeof text),
                               layout->type, rank, dims, &rows, true);
  } else {
    import_fail(im, status_no_memory());
  }
  free(bytes);
  return id;
}

/* ---------------------------------------------------------------- codes and scales */

/* Rows of a constant's codes: those of its first axis, or its columns. */
typedef struct coded_view {
  const coded *coded;
  bool transposed;
  int64_t rows, row, groups;
} coded_view;

static int64_t coded_factor(const coded_view *view, int64_t row, int64_t group) {
  const coded_source *source = &view->coded->source;
  if (source->axis < 0) return 0;
  if (!source->group) return row;
  return view->transposed ? group * view->rows + row : row * view->groups + group;
}

static void coded_read(const void *context, int64_t row, uint8_t *codes, uint8_t *scales,
                       float *zeros) {
  const coded_view *view = context;
  const coded *coded = view->coded;
  const size_t size = clave_dtype_size(coded->type);
  const unsigned mask = (1U << coded->bits) - 1;
  for (int64_t k = 0; k < view->row; k++) {
    const int64_t at = view->transposed ? k * view->rows + row : row * view->row + k;
    coded_store(codes, k, coded->bits, (coded->codes[at] + (unsigned)coded->offset) & mask);
  }
  for (int64_t g = 0; g < view->groups; g++) {
    const int64_t at = coded_factor(view, row, g);
    memcpy(scales + (size_t)g * size, coded->scales + (size_t)at * size, size);
    if (!zeros) continue;
    const int zero = coded->zeros ? coded->zeros[at] + coded->offset : coded->offset;
    zeros[g] = (float)(zero & ((1 << coded->bits) - 1));
  }
}

/* True if the codes can be stored along rows, or columns, with their scales. */
static bool coded_fits(const coded *coded, bool transposed) {
  const int axis = coded->source.axis, last = coded->rank - 1;
  if (!coded->source.codes || (transposed && coded->rank != 2)) return false;
  if (axis < 0) return true;
  if (!coded->source.group) return axis == (transposed ? 1 : 0);
  return coded->rank == 2 && axis == (transposed ? 0 : last);
}

static clave_id coded_make(importer *im, const coded *coded, bool transposed) {
  coded_view view = {.coded = coded, .transposed = transposed, .rows = coded->dims[0], .row = 1};
  int64_t dims[CLAVE_MAX_RANK];
  for (int d = 1; d < coded->rank; d++) view.row *= coded->dims[d];
  memcpy(dims, coded->dims, sizeof dims);
  if (transposed) {
    view.rows = dims[0] = coded->dims[1];
    view.row = dims[1] = coded->dims[0];
  }
  const coded_layout layout = {.axis = 1,
                               .rows = view.rows,
                               .row = view.row,
                               .group = coded->source.axis < 0 ? 0 : coded->source.group,
                               .bits = coded->bits,
                               .has_zeros = coded->has_zeros,
                               .type = coded->type};
  view.groups = layout.group ? (view.row + layout.group - 1) / layout.group : 1;
  return coded_add(im, &layout, coded->rank, dims, coded_read, &view);
}

/* ---------------------------------------------------------------- values */

static value *coded_value(importer *im, coded *coded) {
  number dims[CLAVE_MAX_RANK];
  for (int d = 0; d < coded->rank; d++) dims[d] = number_int(coded->dims[d]);
  value *out = value_new(im, coded->type, coded->rank, dims);
  if (out) out->coded = coded;
  return out;
}

/* True if all zeros are half the number of codes, which an encoding subtracts anyway. */
static bool coded_is_centred(const coded *coded, int64_t n) {
  const int mask = (1 << coded->bits) - 1, half = 1 << (coded->bits - 1);
  for (int64_t i = 0; coded->zeros && i < n; i++)
    if (((coded->zeros[i] + coded->offset) & mask) != half) return false;
  return coded->zeros ? true : (coded->offset & mask) == half;
}

/* True if there is one scale, one for each index of the axis, or one for each group. */
static bool coded_has_scales(const coded_source *source) {
  const value *codes = source->codes, *scale = source->scale;
  if (source->axis < 0) return value_count(scale) == 1;
  if (!source->group)
    return scale->rank == 1 && number_is_same(scale->dims[0], codes->dims[source->axis]);
  for (int d = 0; d < codes->rank && scale->rank == codes->rank; d++) {
    const int64_t size = codes->dims[d].i,
                  groups = size / source->group + (size % source->group != 0);
    if (!number_is(scale->dims[d], d == source->axis ? groups : size)) return false;
  }
  return scale->rank == codes->rank;
}

static bool coded_source_fits(const coded_source *source) {
  const value *codes = source->codes, *scale = source->scale;
  const int64_t n = value_count(codes);
  if (codes->type != CLAVE_I8 && codes->type != CLAVE_U8) return false;
  if (scale->type != CLAVE_F32 && scale->type != CLAVE_F16 && scale->type != CLAVE_BF16)
    return false;
  if (!value_is_constant(codes) || !value_is_constant(scale) || codes->rank < 2 || n < 1)
    return false;
  if (source->zero && (!value_is_constant(source->zero) || source->zero->type != codes->type ||
                       value_count(source->zero) != value_count(scale)))
    return false;
  return source->group % 16 == 0 && source->group < INT32_MAX && coded_has_scales(source);
}

value *coded_constant(importer *im, const coded_source *source) {
  if (!source->codes || !source->scale || !import_ok(im) || !coded_source_fits(source)) return NULL;
  coded *made = import_alloc(im, 1, sizeof *made);
  if (!made) return NULL;
  const int bits = source->codes->bits ? source->codes->bits : 8;
  *made = (coded){.source = *source,
                  .codes = value_bytes(im, source->codes),
                  .scales = value_bytes(im, source->scale),
                  .zeros = source->zero ? value_bytes(im, source->zero) : NULL,
                  .bits = bits,
                  .offset = source->codes->type == CLAVE_I8 ? 1 << (bits - 1) : 0,
                  .type = source->scale->type,
                  .rank = source->codes->rank};
  for (int d = 0; d < made->rank; d++) made->dims[d] = source->codes->dims[d].i;
  made->has_zeros = !coded_is_centred(made, value_count(source->scale));
  if (!coded_fits(made, false) && !coded_fits(made, true)) return NULL;
  return coded_value(im, made);
}

value *coded_of_rows(importer *im, clave_id rows, clave_dtype type, int rank, const int64_t *dims) {
  coded *made = import_alloc(im, 1, sizeof *made);
  if (!made || !rows) return NULL;
  *made = (coded){.type = type, .rank = rank, .rows = {rows, 0}};
  memcpy(made->dims, dims, (size_t)rank * sizeof *dims);
  return coded_value(im, made);
}

clave_id coded_rows(importer *im, const value *input, bool transposed) {
  if (!input || !input->coded || !import_ok(im)) return 0;
  const bool columns = transposed != input->is_transposed;
  clave_id *rows = &input->coded->rows[columns];
  if (!*rows && coded_fits(input->coded, columns)) *rows = coded_make(im, input->coded, columns);
  return *rows;
}

value *coded_transpose(importer *im, const value *input) {
  value *out = value_new(im, input->type, 2, (const number[]){input->dims[1], input->dims[0]});
  if (!out) return NULL;
  out->coded = input->coded;
  out->is_transposed = !input->is_transposed;
  return out;
}

clave_id coded_decode(importer *im, const value *input) {
  const bool has_rows = input->coded->rows[input->is_transposed] != 0;
  const bool has_columns = input->coded->rows[!input->is_transposed] != 0;
  bool transposed = has_columns && !has_rows;
  clave_id rows = coded_rows(im, input, transposed);
  if (!rows) rows = coded_rows(im, input, transposed = !transposed);
  number dims[CLAVE_MAX_RANK];
  for (int d = 0; d < input->rank; d++) dims[d] = input->dims[transposed ? input->rank - 1 - d : d];
  value *out = rows ? emit_begin(im, "Dequantize", input->type, input->rank, dims) : NULL;
  if (!out) return 0;
  clave_builder_set_tensor(im->builder, "x", rows);
  if (transposed) out = emit_transpose(im, out, 0, 1);
  return out ? out->tensor : 0;
}
