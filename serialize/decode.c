/* The descriptor-driven decoder, common to all formats. */
#include "serialize/decode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/number.h"
#include "base/utf8.h"
#include "serialize/fields.h"
#include "serialize/limits.h"

/* ---------------------------------------------------------------- errors */

static void append_path(const decode_path *p, char *out, size_t size) {
  if (!p) return;
  append_path(p->up, out, size);
  size_t n = strlen(out);
  if (p->name) {
    (void)snprintf(out + n, size - n, "%s%s", n ? "." : "", p->name);
  } else {
    (void)snprintf(out + n, size - n, "[%u]", p->index);
  }
}

clave_status decode_error(const decoder *d, const char *format, ...) {
  char path[512] = "", message[512];
  append_path(d->path, path, sizeof path);
  va_list args;
  va_start(args, format);
  (void)number_vprint(message, sizeof message, format, args);
  va_end(args);
  return path[0] ? INVALID("%s: %s", path, message) : INVALID("%s", message);
}

clave_status decode_unknown(const decoder *d, const ir_enum *e, const char *value) {
  const char *what = e == &ir_op_enum ? "op" : e->name;
  clave_status st = decode_error(d, "there is no %s '%.200s'", what, value);
  if (d->version > IR_SCHEMA_VERSION) {
    st = status_while(st, "the program needs schema version %u, this build knows %d", d->version,
                      (int)IR_SCHEMA_VERSION);
  }
  return st;
}

/* ---------------------------------------------------------------- memory */

static clave_status alloc_decoded(decoder *d, size_t count, size_t size, void *out_pointer) {
  size_t bytes, total;
  if (!mul_size(count, size, &bytes) || !add_size(bytes, mem_pool_bytes(d->pool), &total) ||
      total > d->budget) {
    return decode_error(d, "the file decodes to more than %zu bytes", d->budget);
  }
  void *p = mem_pool_alloc(d->pool, count, size);
  if (!p) return status_no_memory();
  memcpy(out_pointer, &p, sizeof p);
  return NULL;
}

/* ---------------------------------------------------------------- values */

static clave_status decode_table(decoder *d, decode_node n, const ir_table *table, void *out);

static clave_status decode_string(decoder *d, const decode_node *n, char *to) {
  const char *bytes;
  size_t size;
  TRY(d->source->read_string(d, n, &bytes, &size));
  if (size > LIMIT_STRING)
    return decode_error(d, "expected a string of at most %d bytes, got %zu", (int)LIMIT_STRING,
                        size);
  if (memchr(bytes, 0, size)) return decode_error(d, "string with a NUL character");
  if (!utf8_valid(bytes, size)) return decode_error(d, "string is not valid UTF-8");
  char *copy;
  TRY(alloc_decoded(d, size + 1, 1, &copy));
  memcpy(copy, bytes, size);
  memcpy(to, &copy, sizeof copy);
  return NULL;
}

static clave_status decode_scalar_field(decoder *d, const decode_node *n, const ir_field *f,
                                        char *to) {
  decode_scalar s = {0};
  TRY(d->source->read_scalar(d, n, f->kind, f->enum_, &s));
  if ((f->kind == IR_FIELD_TID || f->kind == IR_FIELD_VID) &&
      (s.i < 0 || s.i >= (int64_t)IR_NONE)) {
    return decode_error(d, "expected slot 0 to %u, got %lld", IR_NONE - 1, (long long)s.i);
  }
  bool real = f->kind == IR_FIELD_F64 || f->kind == IR_FIELD_OPT_F64;
  if (real && isnan(s.f)) s.f = (double)NAN; /* the same in every format: JSON has no payload */
  int32_t small = (int32_t)s.i;              /* in range: the source checked it for the kind */
  uint32_t word = (uint32_t)s.i;
  switch (f->kind) {
    case IR_FIELD_BOOL:
      *(bool *)(void *)to = s.i != 0;
      break;
    case IR_FIELD_I32:
    case IR_FIELD_ENUM:
      memcpy(to, &small, sizeof small);
      break;
    case IR_FIELD_U32:
    case IR_FIELD_TID:
    case IR_FIELD_VID:
      memcpy(to, &word, sizeof word);
      break;
    case IR_FIELD_OPT_I32:
      *(ir_opt_i32 *)(void *)to = (ir_opt_i32){small, true};
      break;
    case IR_FIELD_OPT_I64:
      *(ir_opt_i64 *)(void *)to = (ir_opt_i64){s.i, true};
      break;
    case IR_FIELD_OPT_F64:
      *(ir_opt_f64 *)(void *)to = (ir_opt_f64){s.f, true};
      break;
    default:
      memcpy(to, &s, sizeof s);
      break; /* I64 U64 F64 */
  }
  return NULL;
}

/* An entry of a vector or a field: everything but vectors and unions. */
static clave_status decode_value(decoder *d, const decode_node *n, const ir_field *f, char *to) {
  void *made;
  switch (f->kind) {
    case IR_FIELD_STRING:
      return decode_string(d, n, to);
    case IR_FIELD_INT_OR_VID:
      ((ir_int_or_vid *)(void *)to)->present = true;
      return decode_table(d, *n, &int_or_vid_table, to);
    case IR_FIELD_FLOAT_OR_VID:
      ((ir_float_or_vid *)(void *)to)->present = true;
      return decode_table(d, *n, &float_or_vid_table, to);
    case IR_FIELD_TABLE:
      TRY(alloc_decoded(d, 1, f->table->size, &made));
      memcpy(to, &made, sizeof made);
      return decode_table(d, *n, f->table, made);
    default:
      return decode_scalar_field(d, n, f, to);
  }
}

static clave_status decode_vector(decoder *d, const decode_node *n, const ir_field *f, char *to) {
  ir_field item = vector_item_field(f);
  ir_vector v = {0};
  decode_node at;
  size_t size = vector_item_size(f);
  TRY(d->source->open_vector(d, n, item.kind, &v.count, &at));
  if (v.count > LIMIT_ITEMS)
    return decode_error(d, "expected at most %d entries, got %u", (int)LIMIT_ITEMS, v.count);
  if (v.count == 0) return NULL;
  TRY(alloc_decoded(d, v.count, size, &v.items));
  memcpy(to, &v, sizeof v);
  decode_path here = {d->path, NULL, 0};
  d->path = &here;
  for (; here.index < v.count; here.index++) {
    char *entry = (char *)v.items + here.index * size;
    TRY(item.kind == IR_FIELD_TABLE ? decode_table(d, at, f->table, entry)
                                    : decode_value(d, &at, &item, entry));
    d->source->next_item(&at, item.kind);
  }
  d->path = here.up;
  return NULL;
}

/* The union of an instruction: first its type, which says what table the value is. */
static clave_status decode_union(decoder *d, const decode_node *table, const decode_node *n,
                                 const ir_field *f, char *base) {
  decode_node type_node;
  bool present;
  decode_scalar type = {0};
  TRY(d->source->find(d, table, f, true, &type_node, &present));
  if (!present) return decode_error(d, "its %s_type is missing", f->name);
  TRY(d->source->read_scalar(d, &type_node, IR_FIELD_ENUM, f->enum_, &type));
  ir_op op = (ir_op)type.i;
  memcpy(base + f->type_offset, &op, sizeof op);
  void *made;
  TRY(alloc_decoded(d, 1, ir_op_tables[op]->size, &made));
  memcpy(base + f->offset, &made, sizeof made);
  return decode_table(d, *n, ir_op_tables[op], made);
}

static clave_status decode_field(decoder *d, const decode_node *table, const ir_field *f,
                                 char *base) {
  decode_node n;
  bool present;
  field_set_default(f, base);
  TRY(d->source->find(d, table, f, false, &n, &present));
  if (!present) return f->flags & IR_REQUIRED ? decode_error(d, "is missing") : NULL;
  if (f->kind == IR_FIELD_UNION) return decode_union(d, table, &n, f, base);
  if (field_is_vector(f->kind)) return decode_vector(d, &n, f, base + f->offset);
  return decode_value(d, &n, f, base + f->offset);
}

static clave_status decode_table(decoder *d, decode_node n, const ir_table *table, void *out) {
  if (d->depth >= LIMIT_DEPTH) return decode_error(d, "nested deeper than %d", (int)LIMIT_DEPTH);
  d->depth++;
  TRY(d->source->open_table(d, table, &n));
  for (uint32_t i = 0; i < table->n_fields; i++) {
    decode_path here = {d->path, table->fields[i].name, 0};
    d->path = &here;
    TRY(decode_field(d, &n, &table->fields[i], out));
    d->path = here.up;
    if (table == &ir_program_table) d->version = ((const ir_program *)out)->version;
  }
  d->depth--;
  return NULL;
}

clave_status decode_root(decoder *d, decode_node root, size_t size, const ir_table *table,
                         void *out) {
  size_t budget;
  if (!mul_size(size, LIMIT_EXPANSION, &budget) ||
      !add_size(budget, LIMIT_EXPANSION_BASE, &budget) || budget > LIMIT_DECODED) {
    budget = LIMIT_DECODED;
  }
  d->budget = mem_pool_bytes(d->pool) + budget;
  return decode_table(d, root, table, out);
}
