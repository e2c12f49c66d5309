/* Copies and renumbers decoded tables. */
#include "serialize/copy.h"

#include <string.h>

#include "serialize/fields.h"

/* ---------------------------------------------------------------- copies */

static clave_status copy_field(mem_pool *pool, const ir_field *field, char *at);

static clave_status copy_fields(mem_pool *pool, const ir_table *table, void *base) {
  for (uint32_t i = 0; i < table->n_fields; i++)
    TRY(copy_field(pool, &table->fields[i], (char *)base + table->fields[i].offset));
  return NULL;
}

/* Copies the table that the pointer at `at` refers to, and updates the pointer. */
static clave_status copy_pointer(mem_pool *pool, const ir_table *table, char *at) {
  const void *from;
  memcpy(&from, at, sizeof from);
  if (!from) return NULL;
  void *made = mem_pool_alloc(pool, 1, table->size);
  if (!made) return status_no_memory();
  memcpy(at, &made, sizeof made);
  return table_copy(pool, table, from, made);
}

static clave_status copy_vector(mem_pool *pool, const ir_field *field, char *at) {
  ir_vector vector;
  size_t size = vector_item_size(field);
  memcpy(&vector, at, sizeof vector);
  void *made = mem_pool_alloc(pool, (size_t)vector.count + 1, size);
  if (!made) return status_no_memory();
  if (vector.count) memcpy(made, vector.items, vector.count * size);
  vector.items = made;
  memcpy(at, &vector, sizeof vector);
  for (uint32_t i = 0; i < vector.count && field->kind == IR_FIELD_TABLES; i++)
    TRY(copy_fields(pool, field->table, (char *)made + i * size));
  return NULL;
}

static clave_status copy_text(mem_pool *pool, char *at) {
  const char *from;
  memcpy(&from, at, sizeof from);
  const char *made = from ? mem_pool_strdup(pool, from, strlen(from)) : "";
  memcpy(at, &made, sizeof made);
  return made ? NULL : status_no_memory();
}

static clave_status copy_union(mem_pool *pool, const ir_field *field, char *at) {
  ir_op op;
  memcpy(&op, at - field->offset + field->type_offset, sizeof op);
  return ir_op_tables[op] ? copy_pointer(pool, ir_op_tables[op], at) : NULL;
}

/* Copies everything that the field refers to; the field itself is already a copy. */
static clave_status copy_field(mem_pool *pool, const ir_field *field, char *at) {
  if (field_is_vector(field->kind)) return copy_vector(pool, field, at);
  if (field->kind == IR_FIELD_STRING) return copy_text(pool, at);
  if (field->kind == IR_FIELD_TABLE) return copy_pointer(pool, field->table, at);
  return field->kind == IR_FIELD_UNION ? copy_union(pool, field, at) : NULL;
}

clave_status table_copy(mem_pool *pool, const ir_table *table, const void *from, void *to) {
  memcpy(to, from, table->size);
  return copy_fields(pool, table, to);
}

/* ---------------------------------------------------------------- numbers */

static void number(const uint32_t *numbers, uint32_t n, char *at) {
  uint32_t index;
  memcpy(&index, at, sizeof index);
  if (!numbers || index >= n) return;
  memcpy(at, &numbers[index], sizeof index);
}

static void number_field(const table_numbers *to, const ir_field *field, char *base) {
  char *at = base + field->offset;
  void *made;
  if (field->kind == IR_FIELD_TID) number(to->tensors, to->n_tensors, at);
  if (field->kind == IR_FIELD_VID) number(to->values, to->n_values, at);
  if (field_names_chain(field)) number(to->chains, to->n_chains, at);
  if (field->kind == IR_FIELD_INT_OR_VID)
    number(to->values, to->n_values, at + offsetof(ir_int_or_vid, vid));
  if (field->kind == IR_FIELD_FLOAT_OR_VID)
    number(to->values, to->n_values, at + offsetof(ir_float_or_vid, vid));
  if (field->kind != IR_FIELD_TABLE && field->kind != IR_FIELD_UNION) return;
  ir_op op = IR_OP_NONE;
  if (field->kind == IR_FIELD_UNION) memcpy(&op, base + field->type_offset, sizeof op);
  memcpy(&made, at, sizeof made);
  if (made) table_renumber(to, field->table ? field->table : ir_op_tables[op], made);
}

static void number_vector(const table_numbers *to, const ir_field *field, const void *base) {
  ir_field item = vector_item_field(field);
  ir_vector vector = vector_at(field, base);
  for (uint32_t i = 0; i < vector.count; i++) {
    char *at = (char *)vector.items + i * vector_item_size(field);
    if (field->kind == IR_FIELD_TABLES) {
      table_renumber(to, field->table, at);
    } else {
      number_field(to, &item, at);
    }
  }
}

void table_renumber(const table_numbers *to, const ir_table *table, void *base) {
  if (table == &ir_operand_table) {
    ir_operand *op = base;
    if (op->source == IR_OPERAND_SOURCE_VALUE) number(to->values, to->n_values, (char *)&op->index);
  }
  for (uint32_t i = 0; i < table->n_fields; i++) {
    if (field_is_vector(table->fields[i].kind)) {
      number_vector(to, &table->fields[i], base);
    } else {
      number_field(to, &table->fields[i], base);
    }
  }
}
