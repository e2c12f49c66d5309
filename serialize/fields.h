#ifndef SERIALIZE_FIELDS_H
#define SERIALIZE_FIELDS_H
/* Queries on the generated descriptors, shared by decoders and writers. */
#include <stdbool.h>
#include <stddef.h>

#include "ir.h"

/* Descriptors of the two unions that are stored by value, as tables with the fields `literal` and
 * `vid`. */
extern const ir_table int_or_vid_table, float_or_vid_table;

/* The layout that every vector {items, count} in ir.h has. */
typedef struct ir_vector {
  void *items;
  uint32_t count;
} ir_vector;

bool field_is_vector(ir_field_kind kind);
/* True if the field is a body of a control op: then_chain, body_chain, ... */
bool field_names_chain(const ir_field *field);
/* Returns a field descriptor for one entry of a vector field, at offset 0. */
ir_field vector_item_field(const ir_field *field);
size_t vector_item_size(const ir_field *field);
/* Returns the table of a TABLE, INT_OR_VID or FLOAT_OR_VID field, else NULL. */
const ir_table *field_table(const ir_field *field);

/* Returns the vector that a vector field of the struct at `base` holds. */
ir_vector vector_at(const ir_field *field, const void *base);
/* True if the field of the struct at `base` equals the value that an absent field decodes to. */
bool field_is_default(const ir_field *field, const void *base);
/* Sets the field to the value that an absent field decodes to. */
void field_set_default(const ir_field *field, void *base);

/* Returns NULL if there is no such number or name. */
const ir_enum_value *enum_by_number(const ir_enum *values, int64_t number);
const ir_enum_value *enum_by_name(const ir_enum *values, const char *name);

#endif
