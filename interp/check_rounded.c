/* Products that round their rows to 8 bits (recording.rounds), for the CPU backend, which in a
 * check reads b as it is stored, in floats: it multiplies rows that were rounded before, so that
 * both results are the same but for how sums are rounded in f32. What the rounding itself costs is
 * its caller's choice, and bounded (base/rounded.h). */
#include <stdlib.h>

#include "base/rounded.h"
#include "interp/checking.h"
#include "interp/host_copy.h"

/* Contiguous elements of a small float dtype, by rows of n. */
static void round_elements(dtype t, void *data, int64_t count, int64_t n, float *row) {
  float *f32 = data;
  uint16_t *half = data;
  for (int64_t at = 0; at < count; at += n) {
    for (int64_t i = 0; i < n; i++)
      row[i] = t == DTYPE_F32   ? f32[at + i]
               : t == DTYPE_F16 ? f16_to_f32(half[at + i])
                                : bf16_to_f32(half[at + i]);
    rounded_row(row, n);
    for (int64_t i = 0; i < n; i++) {
      if (t == DTYPE_F32)
        f32[at + i] = row[i];
      else
        half[at + i] = t == DTYPE_F16 ? f32_to_f16(row[i]) : f32_to_bf16(row[i]);
    }
  }
}

typedef struct row_memory {
  void *all, *elements; /* owned: the region's bytes; the operand's elements */
  float *row;           /* owned */
  size_t bytes;         /* of the elements */
} row_memory;

static clave_status read_rows(const oracle *o, const bound_tensor *a, row_memory *m) {
  TRY(known_bytes(&a->t, &m->bytes));
  m->all = malloc(a->buf->bytes);
  m->elements = malloc(m->bytes);
  m->row = malloc(sizeof(float) * (size_t)a->t.dims[a->t.rank - 1]);
  if (!m->all || !m->elements || !m->row) return status_no_memory();
  TRY(o->cpu->vt->read(o->queue, a->buf, 0, m->all, a->buf->bytes));
  copy_to_contiguous(&a->t, m->all, m->elements);
  return NULL;
}

clave_status bind_rounded(checking *c, const bound_tensor *a, bound_tensor *out) {
  const oracle *o = c->s->oracle;
  row_memory m = {0};
  *out = *a;
  if (!a->buf) return NULL; /* of no elements */
  clave_status st = read_rows(o, a, &m);
  if (!st) {
    round_elements(a->t.type, m.elements, tensor_numel(&a->t), a->t.dims[a->t.rank - 1], m.row);
    if (!c->rounded) st = o->cpu->vt->buffer_create(o->cpu, m.bytes, &c->rounded);
  }
  if (!st) st = o->cpu->vt->write(o->queue, c->rounded, 0, m.elements, m.bytes);
  out->buf = c->rounded;
  out->buffer_offset = 0;
  out->t.offset = 0;
  tensor_set_contiguous(&out->t);
  free(m.all);
  free(m.elements);
  free(m.row);
  return st;
}
