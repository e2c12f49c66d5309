/* JSON of the schema's shape as a source for the decoder: enums by name, unions as op_type and op,
 * slots as {"idx": 1}. */
#include <stdio.h>
#include <string.h>

#include "json/json.h"
#include "serialize/decode.h"
#include "serialize/fields.h"
#include "serialize/limits.h"

static const json *item_of(const decode_node *n) { return n->item; }

static clave_status expect_kind(const decoder *d, const decode_node *n, json_kind kind) {
  json_kind is = json_kind_of(item_of(n));
  return is == kind
             ? NULL
             : decode_error(d, "expected %s, got %s", json_kind_name(kind), json_kind_name(is));
}

/* Does `key` say `name`, or with of_type the type of the union `name`? */
static bool is_key_of(const char *key, const char *name, bool of_type) {
  size_t n = strlen(name);
  return strncmp(key, name, n) == 0 && strcmp(key + n, of_type ? "_type" : "") == 0;
}

static bool is_key_of_table(const char *key, const ir_table *table) {
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *f = &table->fields[i];
    if (is_key_of(key, f->name, false) ||
        (f->kind == IR_FIELD_UNION && is_key_of(key, f->name, true)))
      return true;
  }
  return false;
}

static clave_status open_table(decoder *d, const ir_table *table, decode_node *n) {
  TRY(expect_kind(d, n, JSON_OBJECT));
  for (const json *m = json_first(item_of(n)); m; m = json_next(m)) {
    if (!is_key_of_table(json_key(m), table)) {
      clave_status st = decode_error(d, "%s has no field \"%.200s\"", table->name, json_key(m));
      if (d->version <= IR_SCHEMA_VERSION) return st;
      return status_while(st, "the program needs schema version %u, this build knows %d",
                          d->version, (int)IR_SCHEMA_VERSION);
    }
  }
  return NULL;
}

static clave_status find(decoder *d, const decode_node *table, const ir_field *f, bool of_type,
                         decode_node *out, bool *present) {
  (void)d;
  out->item = NULL;
  for (const json *m = json_first(item_of(table)); m && !out->item; m = json_next(m)) {
    if (is_key_of(json_key(m), f->name, of_type)) out->item = m;
  }
  *present = out->item != NULL;
  return NULL;
}

static clave_status read_enum(decoder *d, const decode_node *n, const ir_enum *e,
                              decode_scalar *out) {
  const json *v = item_of(n);
  const ir_enum_value *found = NULL;
  char digits[32] = "";
  const char *what = digits;
  if (json_kind_of(v) == JSON_STRING) {
    what = json_string(v);
    found = enum_by_name(e, what);
  } else if (json_i64(v, &out->i)) {
    (void)snprintf(digits, sizeof digits, "%lld", (long long)out->i);
    found = enum_by_number(e, out->i);
  } else {
    return decode_error(d, "expected a name of %s, got %s", e->name,
                        json_kind_name(json_kind_of(v)));
  }
  if (!found) return decode_unknown(d, e, what);
  out->i = found->number;
  return NULL;
}

/* A Tid or Vid: {"idx": 1}. */
static clave_status read_slot(decoder *d, const decode_node *n, decode_scalar *out) {
  TRY(expect_kind(d, n, JSON_OBJECT));
  const json *idx = json_first(item_of(n));
  if (!idx || json_next(idx) || strcmp(json_key(idx), "idx") != 0) {
    return decode_error(d, "a slot has the field \"idx\" and no other");
  }
  return json_i64(idx, &out->i) ? NULL : decode_error(d, "idx is not an integer");
}

static clave_status read_int(decoder *d, const decode_node *n, int64_t low, int64_t high,
                             decode_scalar *out) {
  const json *v = item_of(n);
  if (!json_i64(v, &out->i)) {
    return decode_error(d, "is not an integer (from 2^53 on it must be a string)");
  }
  if (out->i < low || out->i > high) {
    return decode_error(d, "expected %lld to %lld, got %lld", (long long)low, (long long)high,
                        (long long)out->i);
  }
  return NULL;
}

static clave_status read_scalar(decoder *d, const decode_node *n, ir_field_kind kind,
                                const ir_enum *e, decode_scalar *out) {
  switch (kind) {
    case IR_FIELD_ENUM:
      return read_enum(d, n, e, out);
    case IR_FIELD_TID:
    case IR_FIELD_VID:
      return read_slot(d, n, out);
    case IR_FIELD_BOOL:
      TRY(expect_kind(d, n, JSON_BOOL));
      out->i = json_is_true(item_of(n));
      return NULL;
    case IR_FIELD_I32:
    case IR_FIELD_OPT_I32:
      return read_int(d, n, INT32_MIN, INT32_MAX, out);
    case IR_FIELD_U32:
      return read_int(d, n, 0, UINT32_MAX, out);
    case IR_FIELD_U64:
      return json_u64(item_of(n), &out->u)
                 ? NULL
                 : decode_error(d, "is not an integer from 0 (from 2^53 on as a string)");
    case IR_FIELD_F64:
    case IR_FIELD_OPT_F64:
      return json_f64(item_of(n), &out->f)
                 ? NULL
                 : decode_error(d, "is not a number (or \"nan\", \"inf\", \"-inf\")");
    default:
      return read_int(d, n, INT64_MIN, INT64_MAX, out);
  }
}

static clave_status read_string(decoder *d, const decode_node *n, const char **out, size_t *size) {
  TRY(expect_kind(d, n, JSON_STRING));
  *out = json_string(item_of(n));
  *size = strlen(*out);
  return NULL;
}

static clave_status open_vector(decoder *d, const decode_node *n, ir_field_kind kind,
                                uint32_t *count, decode_node *first) {
  (void)kind;
  TRY(expect_kind(d, n, JSON_ARRAY));
  *count = json_count(item_of(n));
  first->item = json_first(item_of(n));
  return NULL;
}

static void next_item(decode_node *n, ir_field_kind kind) {
  (void)kind;
  n->item = json_next(item_of(n));
}

static const decode_source json_source = {open_table,  find,        read_scalar,
                                          read_string, open_vector, next_item};

clave_status decode_json(const char *bytes, size_t size, mem_pool *pool, ir_program *out) {
  if (size > LIMIT_JSON_BYTES)
    return INVALID("expected at most %d bytes of JSON, got %zu", (int)LIMIT_JSON_BYTES, size);
  json *document;
  TRY(json_parse(bytes, size, &document));
  decoder d = {.source = &json_source, .pool = pool};
  clave_status st = decode_root(&d, (decode_node){0, document}, size, &ir_program_table, out);
  json_free(document);
  return st;
}
