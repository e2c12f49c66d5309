/* The FlatBuffers writer. It goes front to back: a table, then what its offsets point to, whose
 * places are filled in once they are known. Equal vtables are written once. */
#include <stdlib.h>
#include <string.h>

#include "serialize/encode.h"
#include "serialize/fields.h"

enum {
  MAX_SLOTS = 64,         /* of one table; the schema's widest has 14 */
  MAX_BYTES = 0x7FFFFFF0, /* offsets are 31 bits wide */
};

typedef struct writer {
  text *out;
  size_t *vtables; /* owned: positions of those written */
  size_t n_vtables, cap_vtables;
} writer;

static clave_status write_table(writer *w, const ir_table *table, const void *base,
                                size_t *position);

static void pad_to(writer *w, size_t alignment) {
  static const char zeros[16];
  size_t rest = w->out->size % alignment;
  if (rest) text_append(w->out, zeros, alignment - rest);
}

static void put_u32(writer *w, uint32_t v) { text_append(w->out, (const char *)&v, sizeof v); }

/* Makes the offset at `at` point to `target`. */
static void link_offset(writer *w, size_t at, size_t target) {
  uint32_t offset = (uint32_t)(target - at);
  if (!w->out->failed) memcpy(w->out->data + at, &offset, sizeof offset);
}

static size_t write_string(writer *w, const char *s) {
  size_t n = strlen(s);
  pad_to(w, 4);
  size_t position = w->out->size;
  put_u32(w, (uint32_t)n);
  text_append(w->out, s, n + 1);
  return position;
}

/* [int] or [Tid]: the same bytes. */
static size_t write_numbers(writer *w, ir_vector v) {
  pad_to(w, 4);
  size_t position = w->out->size;
  put_u32(w, v.count);
  text_append(w->out, v.items, v.count * sizeof(uint32_t));
  return position;
}

static clave_status write_tables(writer *w, const ir_table *table, ir_vector v, size_t *position) {
  pad_to(w, 4);
  *position = w->out->size;
  put_u32(w, v.count);
  for (uint32_t i = 0; i < v.count; i++) put_u32(w, 0);
  for (uint32_t i = 0; i < v.count; i++) {
    size_t at;
    TRY(write_table(w, table, (const char *)v.items + i * table->size, &at));
    link_offset(w, *position + 4 + 4 * (size_t)i, at);
  }
  return NULL;
}

/* ---------------------------------------------------------------- tables */

/* A value inside a table: the bytes themselves, or an offset to be linked to what `field` holds. */
typedef struct slot {
  unsigned char bytes[8];
  uint8_t size;          /* 0: absent */
  uint16_t offset;       /* in the table */
  const ir_field *field; /* of an offset, else NULL */
} slot;

typedef struct layout {
  slot slots[MAX_SLOTS];
  size_t n_slots, bytes, alignment;
} layout;

static void set_slot(layout *l, size_t index, const void *bytes, uint8_t size,
                     const ir_field *offset_of) {
  slot *s = &l->slots[index];
  if (bytes) memcpy(s->bytes, bytes, size);
  s->size = size;
  s->field = offset_of;
  if (index >= l->n_slots) l->n_slots = index + 1;
}

static void fill_slot(layout *l, const ir_field *f, const char *base) {
  const char *at = base + f->offset;
  ir_op op;
  uint8_t byte;
  switch (f->kind) {
    case IR_FIELD_BOOL:
      set_slot(l, f->slot, at, 1, NULL);
      break;
    case IR_FIELD_ENUM: /* little-endian: the low byte comes first */
      set_slot(l, f->slot, at, 1, NULL);
      break;
    case IR_FIELD_I32:
    case IR_FIELD_U32:
    case IR_FIELD_TID:
    case IR_FIELD_VID:
    case IR_FIELD_OPT_I32:
      set_slot(l, f->slot, at, 4, NULL);
      break;
    case IR_FIELD_I64:
    case IR_FIELD_U64:
    case IR_FIELD_F64:
    case IR_FIELD_OPT_I64:
    case IR_FIELD_OPT_F64:
      set_slot(l, f->slot, at, 8, NULL);
      break; /* opt: the value comes first */
    case IR_FIELD_UNION:
      memcpy(&op, base + f->type_offset, sizeof op);
      byte = (uint8_t)op;
      set_slot(l, f->slot, &byte, 1, NULL);
      set_slot(l, (size_t)f->slot + 1, NULL, 4, f);
      break;
    default:
      set_slot(l, f->slot, NULL, 4, f);
      break;
  }
}

/* Gives every slot of `size` bytes its offset. */
static void place_slots(layout *l, uint8_t size) {
  for (size_t i = 0; i < l->n_slots; i++) {
    slot *s = &l->slots[i];
    if (s->size != size) continue;
    if (l->bytes % size) l->bytes += size - l->bytes % size;
    s->offset = (uint16_t)l->bytes;
    l->bytes += size;
    if (size > l->alignment) l->alignment = size;
  }
}

static void lay_out(const ir_table *table, const char *base, layout *l) {
  *l = (layout){.bytes = 4, .alignment = 4};
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *f = &table->fields[i];
    if (!field_is_default(f, base) || (f->flags & IR_REQUIRED)) fill_slot(l, f, base);
  }
  place_slots(l, 4);
  place_slots(l, 8);
  place_slots(l, 1);
}

/* Position of a vtable for the layout: an equal one, or a new one at the end. */
static clave_status write_vtable(writer *w, const layout *l, size_t *position) {
  uint16_t v[2 + MAX_SLOTS] = {(uint16_t)(4 + 2 * l->n_slots), (uint16_t)l->bytes};
  for (size_t i = 0; i < l->n_slots; i++) v[2 + i] = l->slots[i].offset;
  if (w->out->failed) return status_no_memory();
  for (size_t i = 0; i < w->n_vtables; i++) {
    *position = w->vtables[i];
    if (v[0] <= w->out->size - *position && memcmp(w->out->data + *position, v, v[0]) == 0)
      return NULL;
  }
  if (!array_reserve(&w->vtables, &w->cap_vtables, w->n_vtables + 1, sizeof *w->vtables))
    return status_no_memory();
  pad_to(w, 2);
  *position = w->out->size;
  w->vtables[w->n_vtables++] = *position;
  text_append(w->out, (const char *)v, v[0]);
  return NULL;
}

/* Writes what an offset slot points to. */
static clave_status write_target(writer *w, const ir_field *f, const char *base, size_t *position) {
  const char *at = base + f->offset;
  const void *pointer;
  ir_op op;
  if (f->kind == IR_FIELD_INT_OR_VID || f->kind == IR_FIELD_FLOAT_OR_VID)
    return write_table(w, field_table(f), at, position);
  if (f->kind == IR_FIELD_INT_OR_VIDS)
    return write_tables(w, &int_or_vid_table, vector_at(f, base), position);
  if (f->kind == IR_FIELD_TABLES) return write_tables(w, f->table, vector_at(f, base), position);
  if (field_is_vector(f->kind)) {
    *position = write_numbers(w, vector_at(f, base));
    return NULL;
  }
  memcpy(&pointer, at, sizeof pointer);
  if (f->kind == IR_FIELD_STRING) {
    *position = write_string(w, pointer ? pointer : "");
    return NULL;
  }
  if (f->kind == IR_FIELD_TABLE) return write_table(w, f->table, pointer, position);
  memcpy(&op, base + f->type_offset, sizeof op);
  return write_table(w, ir_op_tables[op], pointer, position);
}

static clave_status write_table(writer *w, const ir_table *table, const void *base,
                                size_t *position) {
  layout l;
  size_t vtable;
  lay_out(table, base, &l);
  TRY(write_vtable(w, &l, &vtable));
  pad_to(w, l.alignment);
  *position = w->out->size;
  if (*position > MAX_BYTES) return INVALID("the program is larger than %d bytes", (int)MAX_BYTES);
  unsigned char bytes[8 * MAX_SLOTS] = {0};
  int32_t back = (int32_t)(*position - vtable);
  memcpy(bytes, &back, sizeof back);
  for (size_t i = 0; i < l.n_slots; i++) {
    if (l.slots[i].size) memcpy(bytes + l.slots[i].offset, l.slots[i].bytes, l.slots[i].size);
  }
  text_append(w->out, (const char *)bytes, l.bytes);
  for (size_t i = 0; i < l.n_slots; i++) {
    size_t target;
    if (!l.slots[i].field) continue;
    TRY(write_target(w, l.slots[i].field, base, &target));
    link_offset(w, *position + l.slots[i].offset, target);
  }
  return NULL;
}

clave_status encode_flatbuffer(const ir_program *p, text *out) {
  writer w = {.out = out};
  size_t root = 0;
  put_u32(&w, 0);
  text_append(out, IR_FILE_IDENTIFIER, 4);
  clave_status st = write_table(&w, &ir_program_table, p, &root);
  if (!st) {
    link_offset(&w, 0, root);
    pad_to(&w, 8);
    st = text_status(out);
    if (!st && out->size > MAX_BYTES)
      st = INVALID("the program is larger than %d bytes", (int)MAX_BYTES);
  }
  free(w.vtables);
  return st;
}
