/* Products that round what they multiply (recording.rounds), for the CPU backend, which in a check
 * reads b as it is stored, in floats: it multiplies operands that were rounded before, so that both
 * results are the same but for how sums are rounded in f32. What the rounding itself costs is its
 * caller's choice, and bounded (base/rounded.h; half a step of BF16). */
#include "interp/check/rounded.h"

#include <math.h>
#include <stdlib.h>

#include "base/rounded.h"
#include "interp/host_copy.h"

static float load_float(dtype t, const void *data, int64_t i) {
  if (t == DTYPE_F32) return ((const float *)data)[i];
  uint16_t half = ((const uint16_t *)data)[i];
  return t == DTYPE_F16 ? f16_to_f32(half) : bf16_to_f32(half);
}

/* What F16 has no number for, as 65,280 and more are rounded to BF16's next, is the largest that it
 * has. */
static void store_float(dtype t, void *data, int64_t i, float x) {
  const float largest = 65504;
  if (t == DTYPE_F16 && isfinite(x)) x = fminf(fmaxf(x, -largest), largest);
  if (t == DTYPE_F32)
    ((float *)data)[i] = x;
  else
    ((uint16_t *)data)[i] = t == DTYPE_F16 ? f32_to_f16(x) : f32_to_bf16(x);
}

static void round_floats(rounding how, float scale, float *row, int64_t n) {
  if (how == ROUNDS_ROWS) rounded_row(row, n);
  for (int64_t i = 0; how == ROUNDS_TO_BF16 && i < n; i++)
    row[i] = bf16_to_f32(f32_to_bf16(row[i] * scale)) / scale;
}

typedef struct row_memory {
  void *all, *elements, *rounded; /* owned: the region's bytes; the operand's elements; the same */
  float *row;                     /* owned */
  size_t bytes;                   /* of what is rounded */
} row_memory;

static clave_status read_elements(const oracle *o, const bound_tensor *x, dtype to, row_memory *m) {
  size_t bytes;
  TRY(known_bytes(&x->t, &bytes));
  m->bytes = bytes / dtype_size(x->t.type) * dtype_size(to);
  m->all = malloc(x->buf->bytes);
  m->elements = malloc(bytes);
  m->rounded = malloc(m->bytes);
  m->row = malloc(sizeof(float) * (size_t)x->t.dims[x->t.rank - 1]);
  if (!m->all || !m->elements || !m->rounded || !m->row) return status_no_memory();
  TRY(o->cpu->vt->read(o->queue, x->buf, 0, m->all, x->buf->bytes));
  copy_to_contiguous(&x->t, m->all, m->elements);
  return NULL;
}

/* Row by row. */
static void round_elements(rounding how, float scale, const tensor *x, dtype to, row_memory *m) {
  int64_t n = x->dims[x->rank - 1], count = tensor_numel(x);
  for (int64_t at = 0; at < count; at += n) {
    for (int64_t i = 0; i < n; i++) m->row[i] = load_float(x->type, m->elements, at + i);
    round_floats(how, scale, m->row, n);
    for (int64_t i = 0; i < n; i++) store_float(to, m->rounded, at + i, m->row[i]);
  }
}

clave_status bind_rounded(checking *c, const bound_tensor *x, dtype to, double scale, buffer **made,
                          bound_tensor *out) {
  const oracle *o = c->s->oracle;
  row_memory m = {0};
  *out = *x;
  if (!x->buf || x->t.encoding.kind) return NULL; /* of no elements; codes stay as they are */
  clave_status st = read_elements(o, x, to, &m);
  if (!st) round_elements(c->rounds, (float)scale != 0 ? (float)scale : 1, &x->t, to, &m);
  if (!st && !*made) st = o->cpu->vt->buffer_create(o->cpu, m.bytes, made);
  if (!st) st = o->cpu->vt->write(o->queue, *made, 0, m.rounded, m.bytes);
  out->buf = *made;
  out->buffer_offset = 0;
  out->t.offset = 0;
  out->t.type = to;
  tensor_set_contiguous(&out->t);
  free(m.all);
  free(m.elements);
  free(m.rounded);
  free(m.row);
  return st;
}
