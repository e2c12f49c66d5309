/* The FlatBuffers writer. It writes front to back: a table, then the targets of its offsets, which
 * are filled in once the positions are known. Equal vtables are written once. */
#include <stdlib.h>
#include <string.h>

#include "serialize/encode.h"
#include "serialize/fields.h"

enum {
  MAX_SLOTS = 64,         /* fields per table; the schema's widest table has 14 */
  MAX_BYTES = 0x7FFFFFF0, /* so that offsets fit into 31 bits */
};

typedef struct writer {
  text *out;
  size_t *vtables; /* owned: positions of the vtables written so far */
  size_t n_vtables, cap_vtables;
} writer;

static clave_status encode_flatbuffer_write_table(writer *writer, const ir_table *table,
                                                  const void *base, size_t *position);

static void pad_to(writer *writer, size_t alignment) {
  static const char zeros[16];
  size_t rest = writer->out->size % alignment;
  if (rest) text_append(writer->out, zeros, alignment - rest);
}

static void put_u32(writer *writer, uint32_t v) {
  text_append(writer->out, (const char *)&v, sizeof v);
}

/* Sets the offset at `at` to point to `target`. */
static void link_offset(writer *writer, size_t at, size_t target) {
  uint32_t offset = (uint32_t)(target - at);
  if (!writer->out->failed) memcpy(writer->out->data + at, &offset, sizeof offset);
}

static size_t encode_flatbuffer_write_string(writer *writer, const char *text) {
  size_t n = strlen(text);
  pad_to(writer, 4);
  size_t position = writer->out->size;
  put_u32(writer, (uint32_t)n);
  text_append(writer->out, text, n + 1);
  return position;
}

/* Writes [int] or [Tid], which have the same encoding. */
static size_t encode_flatbuffer_write_numbers(writer *writer, ir_vector vector) {
  pad_to(writer, 4);
  size_t position = writer->out->size;
  put_u32(writer, vector.count);
  text_append(writer->out, vector.items, vector.count * sizeof(uint32_t));
  return position;
}

static clave_status encode_flatbuffer_write_tables(writer *writer, const ir_table *table,
                                                   ir_vector vector, size_t *position) {
  pad_to(writer, 4);
  *position = writer->out->size;
  put_u32(writer, vector.count);
  for (uint32_t i = 0; i < vector.count; i++) put_u32(writer, 0);
  for (uint32_t i = 0; i < vector.count; i++) {
    size_t at;
    TRY(encode_flatbuffer_write_table(writer, table, (const char *)vector.items + i * table->size,
                                      &at));
    link_offset(writer, *position + 4 + 4 * (size_t)i, at);
  }
  return NULL;
}

/* ---------------------------------------------------------------- tables */

/* A field inside a table: its inline bytes, or an offset that is linked to the value of `field`
 * later. */
typedef struct slot {
  unsigned char bytes[8];
  uint8_t size;          /* 0: absent */
  uint16_t offset;       /* position in the table */
  const ir_field *field; /* set for offsets, else NULL */
} slot;

typedef struct layout {
  slot slots[MAX_SLOTS];
  size_t n_slots, bytes, alignment;
} layout;

static void set_slot(layout *layout, size_t index, const void *bytes, uint8_t size,
                     const ir_field *offset_of) {
  slot *slot = &layout->slots[index];
  if (bytes) memcpy(slot->bytes, bytes, size);
  slot->size = size;
  slot->field = offset_of;
  if (index >= layout->n_slots) layout->n_slots = index + 1;
}

static void fill_slot(layout *layout, const ir_field *field, const char *base) {
  const char *at = base + field->offset;
  ir_op op;
  uint8_t byte;
  switch (field->kind) {
    case IR_FIELD_BOOL:
      set_slot(layout, field->slot, at, 1, NULL);
      break;
    case IR_FIELD_ENUM: /* little-endian: the low byte comes first */
      set_slot(layout, field->slot, at, 1, NULL);
      break;
    case IR_FIELD_I32:
    case IR_FIELD_U32:
    case IR_FIELD_TID:
    case IR_FIELD_VID:
    case IR_FIELD_OPT_I32:
      set_slot(layout, field->slot, at, 4, NULL);
      break;
    case IR_FIELD_I64:
    case IR_FIELD_U64:
    case IR_FIELD_F64:
    case IR_FIELD_OPT_I64:
    case IR_FIELD_OPT_F64:
      set_slot(layout, field->slot, at, 8, NULL);
      break; /* opt: the value comes first */
    case IR_FIELD_UNION:
      memcpy(&op, base + field->type_offset, sizeof op);
      byte = (uint8_t)op;
      set_slot(layout, field->slot, &byte, 1, NULL);
      set_slot(layout, (size_t)field->slot + 1, NULL, 4, field);
      break;
    default:
      set_slot(layout, field->slot, NULL, 4, field);
      break;
  }
}

/* Assigns offsets to all slots of `size` bytes. */
static void place_slots(layout *layout, uint8_t size) {
  for (size_t i = 0; i < layout->n_slots; i++) {
    slot *slot = &layout->slots[i];
    if (slot->size != size) continue;
    if (layout->bytes % size) layout->bytes += size - layout->bytes % size;
    slot->offset = (uint16_t)layout->bytes;
    layout->bytes += size;
    if (size > layout->alignment) layout->alignment = size;
  }
}

static void encode_flatbuffer_lay_out(const ir_table *table, const char *base, layout *placed) {
  *placed = (layout){.bytes = 4, .alignment = 4};
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *field = &table->fields[i];
    if (!field_is_default(field, base) || (field->flags & IR_REQUIRED))
      fill_slot(placed, field, base);
  }
  place_slots(placed, 4);
  place_slots(placed, 8);
  place_slots(placed, 1);
}

/* Sets *position to that of a vtable for the layout: an equal one, or else a new one at the end. */
static clave_status write_vtable(writer *writer, const layout *layout, size_t *position) {
  uint16_t v[2 + MAX_SLOTS] = {(uint16_t)(4 + 2 * layout->n_slots), (uint16_t)layout->bytes};
  for (size_t i = 0; i < layout->n_slots; i++) v[2 + i] = layout->slots[i].offset;
  if (writer->out->failed) return status_no_memory();
  for (size_t i = 0; i < writer->n_vtables; i++) {
    *position = writer->vtables[i];
    if (v[0] <= writer->out->size - *position &&
        memcmp(writer->out->data + *position, v, v[0]) == 0)
      return NULL;
  }
  if (!array_reserve(&writer->vtables, &writer->cap_vtables, writer->n_vtables + 1,
                     sizeof *writer->vtables))
    return status_no_memory();
  pad_to(writer, 2);
  *position = writer->out->size;
  writer->vtables[writer->n_vtables++] = *position;
  text_append(writer->out, (const char *)v, v[0]);
  return NULL;
}

/* Writes the value that an offset slot points to. */
static clave_status write_target(writer *writer, const ir_field *field, const char *base,
                                 size_t *position) {
  const char *at = base + field->offset;
  const void *pointer;
  ir_op op;
  if (field->kind == IR_FIELD_INT_OR_VID || field->kind == IR_FIELD_FLOAT_OR_VID)
    return encode_flatbuffer_write_table(writer, field_table(field), at, position);
  if (field->kind == IR_FIELD_INT_OR_VIDS)
    return encode_flatbuffer_write_tables(writer, &int_or_vid_table, vector_at(field, base),
                                          position);
  if (field->kind == IR_FIELD_TABLES)
    return encode_flatbuffer_write_tables(writer, field->table, vector_at(field, base), position);
  if (field_is_vector(field->kind)) {
    *position = encode_flatbuffer_write_numbers(writer, vector_at(field, base));
    return NULL;
  }
  memcpy(&pointer, at, sizeof pointer);
  if (field->kind == IR_FIELD_STRING) {
    *position = encode_flatbuffer_write_string(writer, pointer ? pointer : "");
    return NULL;
  }
  if (field->kind == IR_FIELD_TABLE)
    return encode_flatbuffer_write_table(writer, field->table, pointer, position);
  memcpy(&op, base + field->type_offset, sizeof op);
  return encode_flatbuffer_write_table(writer, ir_op_tables[op], pointer, position);
}

static clave_status encode_flatbuffer_write_table(writer *writer, const ir_table *table,
                                                  const void *base, size_t *position) {
  layout l;
  size_t vtable;
  encode_flatbuffer_lay_out(table, base, &l);
  TRY(write_vtable(writer, &l, &vtable));
  pad_to(writer, l.alignment);
  *position = writer->out->size;
  if (*position > MAX_BYTES) return INVALID("the program is larger than %d bytes", (int)MAX_BYTES);
  unsigned char bytes[8 * MAX_SLOTS] = {0};
  int32_t back = (int32_t)(*position - vtable);
  memcpy(bytes, &back, sizeof back);
  for (size_t i = 0; i < l.n_slots; i++) {
    if (l.slots[i].size) memcpy(bytes + l.slots[i].offset, l.slots[i].bytes, l.slots[i].size);
  }
  text_append(writer->out, (const char *)bytes, l.bytes);
  for (size_t i = 0; i < l.n_slots; i++) {
    size_t target;
    if (!l.slots[i].field) continue;
    TRY(write_target(writer, l.slots[i].field, base, &target));
    link_offset(writer, *position + l.slots[i].offset, target);
  }
  return NULL;
}

clave_status encode_flatbuffer(const ir_program *program, text *out) {
  writer writer = {.out = out};
  size_t root = 0;
  put_u32(&writer, 0);
  text_append(out, IR_FILE_IDENTIFIER, 4);
  clave_status st = encode_flatbuffer_write_table(&writer, &ir_program_table, program, &root);
  if (!st) {
    link_offset(&writer, 0, root);
    pad_to(&writer, 8);
    st = text_status(out);
    if (!st && out->size > MAX_BYTES)
      st = INVALID("the program is larger than %d bytes", (int)MAX_BYTES);
  }
  free(writer.vtables);
  return st;
}
