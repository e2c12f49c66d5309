/* Queries on descriptors: sizes, defaults, enum values. */
#include "serialize/fields.h"

#include <string.h>

static const ir_field int_or_vid_fields[] = {
    {.name = "literal",
     .kind = IR_FIELD_I64,
     .offset = offsetof(ir_int_or_vid, literal),
     .slot = 0},
    {.name = "vid", .kind = IR_FIELD_VID, .offset = offsetof(ir_int_or_vid, vid), .slot = 1},
};
static const ir_field float_or_vid_fields[] = {
    {.name = "literal",
     .kind = IR_FIELD_F64,
     .offset = offsetof(ir_float_or_vid, literal),
     .slot = 0},
    {.name = "vid", .kind = IR_FIELD_VID, .offset = offsetof(ir_float_or_vid, vid), .slot = 1},
};
const ir_table int_or_vid_table = {"IntOrVid", sizeof(ir_int_or_vid), int_or_vid_fields, 2};
const ir_table float_or_vid_table = {"FloatOrVid", sizeof(ir_float_or_vid), float_or_vid_fields, 2};

_Static_assert(sizeof(ir_vector) == sizeof(ir_tensors) &&
                   offsetof(ir_vector, count) == offsetof(ir_tensors, count),
               "vectors are read and written as ir_vector");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "files are little-endian and read in place");

bool field_is_vector(ir_field_kind kind) {
  return kind == IR_FIELD_I32S || kind == IR_FIELD_TIDS || kind == IR_FIELD_INT_OR_VIDS ||
         kind == IR_FIELD_TABLES;
}

bool field_names_chain(const ir_field *field) {
  size_t n = strlen(field->name), tail = strlen("_chain");
  return field->kind == IR_FIELD_U32 && n > tail && strcmp(field->name + n - tail, "_chain") == 0;
}

ir_field vector_item_field(const ir_field *field) {
  ir_field item = {.name = field->name, .table = field->table};
  switch (field->kind) {
    case IR_FIELD_I32S:
      item.kind = IR_FIELD_I32;
      break;
    case IR_FIELD_TIDS:
      item.kind = IR_FIELD_TID;
      break;
    case IR_FIELD_INT_OR_VIDS:
      item.kind = IR_FIELD_INT_OR_VID;
      break;
    default:
      item.kind = IR_FIELD_TABLE;
      break;
  }
  return item;
}

size_t vector_item_size(const ir_field *field) {
  switch (field->kind) {
    case IR_FIELD_TABLES:
      return field->table->size;
    case IR_FIELD_INT_OR_VIDS:
      return sizeof(ir_int_or_vid);
    default:
      return sizeof(uint32_t);
  }
}

const ir_table *field_table(const ir_field *field) {
  if (field->kind == IR_FIELD_INT_OR_VID) return &int_or_vid_table;
  if (field->kind == IR_FIELD_FLOAT_OR_VID) return &float_or_vid_table;
  return field->kind == IR_FIELD_TABLE ? field->table : NULL;
}

ir_vector vector_at(const ir_field *field, const void *base) {
  ir_vector vector;
  memcpy(&vector, (const char *)base + field->offset, sizeof vector);
  return vector;
}

/* Stores the field's default as the bytes of its struct member and returns their number. Returns 0
 * for kinds whose absence is a flag or NULL. */
static size_t default_bytes(const ir_field *field, unsigned char out[8]) {
  uint32_t none = IR_NONE;
  int32_t small = (int32_t)field->default_int;
  switch (field->kind) {
    case IR_FIELD_BOOL:
      out[0] = field->default_int != 0;
      return 1;
    case IR_FIELD_ENUM:
    case IR_FIELD_I32:
    case IR_FIELD_U32:
      memcpy(out, &small, 4);
      return 4;
    case IR_FIELD_I64:
    case IR_FIELD_U64:
      memcpy(out, &field->default_int, 8);
      return 8;
    case IR_FIELD_F64:
      memcpy(out, &field->default_float, 8);
      return 8;
    case IR_FIELD_TID:
    case IR_FIELD_VID:
      memcpy(out, &none, 4);
      return 4;
    default:
      return 0;
  }
}

bool field_is_default(const ir_field *field, const void *base) {
  const char *at = (const char *)base + field->offset;
  const char *string;
  void *pointer;
  unsigned char bytes[8];
  switch (field->kind) {
    case IR_FIELD_STRING:
      memcpy(&string, at, sizeof string);
      return !string || !string[0];
    case IR_FIELD_TABLE:
    case IR_FIELD_UNION:
      memcpy(&pointer, at, sizeof pointer);
      return !pointer;
    case IR_FIELD_INT_OR_VID:
      return !((const ir_int_or_vid *)(const void *)at)->present;
    case IR_FIELD_FLOAT_OR_VID:
      return !((const ir_float_or_vid *)(const void *)at)->present;
    case IR_FIELD_OPT_I32:
      return !((const ir_opt_i32 *)(const void *)at)->present;
    case IR_FIELD_OPT_I64:
      return !((const ir_opt_i64 *)(const void *)at)->present;
    case IR_FIELD_OPT_F64:
      return !((const ir_opt_f64 *)(const void *)at)->present;
    default:
      break;
  }
  if (field_is_vector(field->kind)) return vector_at(field, base).count == 0;
  return memcmp(at, bytes, default_bytes(field, bytes)) == 0;
}

void field_set_default(const ir_field *field, void *base) {
  char *at = (char *)base + field->offset;
  unsigned char bytes[8];
  const char *empty = "";
  if (field->kind == IR_FIELD_STRING) {
    memcpy(at, &empty, sizeof empty);
  } else if (field->kind == IR_FIELD_INT_OR_VID) {
    ((ir_int_or_vid *)(void *)at)->vid = IR_NONE;
  } else if (field->kind == IR_FIELD_FLOAT_OR_VID) {
    ((ir_float_or_vid *)(void *)at)->vid = IR_NONE;
  } else {
    memcpy(at, bytes, default_bytes(field, bytes));
  }
}

const ir_enum_value *enum_by_number(const ir_enum *values, int64_t number) {
  for (uint32_t i = 0; i < values->count; i++) {
    if (values->values[i].number == number) return &values->values[i];
  }
  return NULL;
}

const ir_enum_value *enum_by_name(const ir_enum *values, const char *name) {
  for (uint32_t i = 0; i < values->count; i++) {
    if (strcmp(values->values[i].name, name) == 0) return &values->values[i];
  }
  return NULL;
}
