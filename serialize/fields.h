#ifndef SERIALIZE_FIELDS_H
#define SERIALIZE_FIELDS_H
/* What decoders and writers know in common about the generated descriptors. */
#include <stdbool.h>
#include <stddef.h>

#include "ir.h"

/* The two by-value unions as tables: fields `literal` and `vid`. */
extern const ir_table int_or_vid_table, float_or_vid_table;

/* Every {items, count} of ir.h has this layout. */
typedef struct ir_vector {
  void *items;
  uint32_t count;
} ir_vector;

bool field_is_vector(ir_field_kind kind);
/* A control op's body: then_chain, body_chain, ... */
bool field_names_chain(const ir_field *field);
/* One entry of a vector field as a field of its own, at offset 0. */
ir_field vector_item_field(const ir_field *field);
size_t vector_item_size(const ir_field *field);
/* The table of a TABLE, INT_OR_VID or FLOAT_OR_VID field, else NULL. */
const ir_table *field_table(const ir_field *field);

/* The vector stored at a vector field. */
ir_vector vector_at(const ir_field *field, const void *base);
/* Does the struct at `base` hold what an absent field would decode to? */
bool field_is_default(const ir_field *field, const void *base);
/* Sets the field to what it is when absent. */
void field_set_default(const ir_field *field, void *base);

/* NULL if there is no such number or name. */
const ir_enum_value *enum_by_number(const ir_enum *values, int64_t number);
const ir_enum_value *enum_by_name(const ir_enum *values, const char *name);

#endif
