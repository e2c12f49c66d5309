/* JSON with the schema's structure as a source for the decoder: enums by name, unions as op_type
 * and op, slots as {"idx": 1}. */
#include <stdio.h>
#include <string.h>

#include "json/json.h"
#include "serialize/decode.h"
#include "serialize/fields.h"
#include "serialize/limits.h"

static const json *item_of(const decode_node *node) { return node->item; }

static clave_status expect_kind(const decoder *decoder, const decode_node *node, json_kind kind) {
  json_kind is = json_kind_of(item_of(node));
  return is == kind ? NULL
                    : decode_error(decoder, "expected %s, got %s", json_kind_name(kind),
                                   json_kind_name(is));
}

/* True if `key` is the key of the field `name` or, if of_type, the key of the type of the union
 * `name`. */
static bool is_key_of(const char *key, const char *name, bool of_type) {
  size_t n = strlen(name);
  return strncmp(key, name, n) == 0 && strcmp(key + n, of_type ? "_type" : "") == 0;
}

static bool is_key_of_table(const char *key, const ir_table *table) {
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *field = &table->fields[i];
    if (is_key_of(key, field->name, false) ||
        (field->kind == IR_FIELD_UNION && is_key_of(key, field->name, true)))
      return true;
  }
  return false;
}

static clave_status decode_json_open_table(decoder *decoder, const ir_table *table,
                                           decode_node *node) {
  TRY(expect_kind(decoder, node, JSON_OBJECT));
  for (const json *m = json_first(item_of(node)); m; m = json_next(m)) {
    if (!is_key_of_table(json_key(m), table)) {
      clave_status st =
          decode_error(decoder, "%s has no field \"%.200s\"", table->name, json_key(m));
      if (decoder->version <= IR_SCHEMA_VERSION) return st;
      return status_while(st,
                          "the program needs schema version %u, and this build supports version %d",
                          decoder->version, (int)IR_SCHEMA_VERSION);
    }
  }
  return NULL;
}

static clave_status decode_json_find(decoder *decoder, const decode_node *table,
                                     const ir_field *field, bool of_type, decode_node *out,
                                     bool *present) {
  (void)decoder;
  out->item = NULL;
  for (const json *m = json_first(item_of(table)); m && !out->item; m = json_next(m)) {
    if (is_key_of(json_key(m), field->name, of_type)) out->item = m;
  }
  *present = out->item != NULL;
  return NULL;
}

static clave_status decode_json_read_enum(decoder *decoder, const decode_node *node,
                                          const ir_enum *values, decode_scalar *out) {
  const json *json = item_of(node);
  const ir_enum_value *found = NULL;
  char digits[32] = "";
  const char *what = digits;
  if (json_kind_of(json) == JSON_STRING) {
    what = json_string(json);
    found = enum_by_name(values, what);
  } else if (json_i64(json, &out->i)) {
    (void)snprintf(digits, sizeof digits, "%lld", (long long)out->i);
    found = enum_by_number(values, out->i);
  } else {
    return decode_error(decoder, "expected a name of %s, got %s", values->name,
                        json_kind_name(json_kind_of(json)));
  }
  if (!found) return decode_unknown(decoder, values, what);
  out->i = found->number;
  return NULL;
}

/* Reads a Tid or Vid: {"idx": 1}. */
static clave_status read_slot(decoder *decoder, const decode_node *node, decode_scalar *out) {
  TRY(expect_kind(decoder, node, JSON_OBJECT));
  const json *idx = json_first(item_of(node));
  if (!idx || json_next(idx) || strcmp(json_key(idx), "idx") != 0) {
    return decode_error(decoder, "a slot must have the field \"idx\" and no other field");
  }
  return json_i64(idx, &out->i) ? NULL : decode_error(decoder, "idx is not an integer");
}

static clave_status decode_json_read_int(decoder *decoder, const decode_node *node, int64_t low,
                                         int64_t high, decode_scalar *out) {
  const json *json = item_of(node);
  if (!json_i64(json, &out->i)) {
    return decode_error(decoder, "expected an integer (from 2^53 on, as a string)");
  }
  if (out->i < low || out->i > high) {
    return decode_error(decoder, "expected %lld to %lld, got %lld", (long long)low, (long long)high,
                        (long long)out->i);
  }
  return NULL;
}

static clave_status decode_json_read_scalar(decoder *decoder, const decode_node *node,
                                            ir_field_kind kind, const ir_enum *values,
                                            decode_scalar *out) {
  switch (kind) {
    case IR_FIELD_ENUM:
      return decode_json_read_enum(decoder, node, values, out);
    case IR_FIELD_TID:
    case IR_FIELD_VID:
      return read_slot(decoder, node, out);
    case IR_FIELD_BOOL:
      TRY(expect_kind(decoder, node, JSON_BOOL));
      out->i = json_is_true(item_of(node));
      return NULL;
    case IR_FIELD_I32:
    case IR_FIELD_OPT_I32:
      return decode_json_read_int(decoder, node, INT32_MIN, INT32_MAX, out);
    case IR_FIELD_U32:
      return decode_json_read_int(decoder, node, 0, UINT32_MAX, out);
    case IR_FIELD_U64:
      return json_u64(item_of(node), &out->u)
                 ? NULL
                 : decode_error(decoder,
                                "expected an integer of at least 0 (from 2^53 on, as a string)");
    case IR_FIELD_F64:
    case IR_FIELD_OPT_F64:
      return json_f64(item_of(node), &out->f)
                 ? NULL
                 : decode_error(decoder, "expected a number, \"nan\", \"inf\" or \"-inf\"");
    default:
      return decode_json_read_int(decoder, node, INT64_MIN, INT64_MAX, out);
  }
}

static clave_status decode_json_read_string(decoder *decoder, const decode_node *node,
                                            const char **out, size_t *size) {
  TRY(expect_kind(decoder, node, JSON_STRING));
  *out = json_string(item_of(node));
  *size = strlen(*out);
  return NULL;
}

static clave_status decode_json_open_vector(decoder *decoder, const decode_node *node,
                                            ir_field_kind kind, uint32_t *count,
                                            decode_node *first) {
  (void)kind;
  TRY(expect_kind(decoder, node, JSON_ARRAY));
  *count = json_count(item_of(node));
  first->item = json_first(item_of(node));
  return NULL;
}

static void decode_json_next_item(decode_node *node, ir_field_kind kind) {
  (void)kind;
  node->item = json_next(item_of(node));
}

static const decode_source json_source = {decode_json_open_table,  decode_json_find,
                                          decode_json_read_scalar, decode_json_read_string,
                                          decode_json_open_vector, decode_json_next_item};

clave_status decode_json(const char *bytes, size_t size, mem_pool *pool, ir_program *out) {
  if (size > LIMIT_JSON_BYTES)
    return INVALID("expected at most %d bytes of JSON, got %zu", (int)LIMIT_JSON_BYTES, size);
  json *document;
  TRY(json_parse(bytes, size, &document));
  decoder decoder = {.source = &json_source, .pool = pool};
  clave_status st = decode_root(&decoder, (decode_node){0, document}, size, &ir_program_table, out);
  json_free(document);
  return st;
}
