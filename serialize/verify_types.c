/* The verifier's first half: what is declared. Tensors, values, constants, initial states, the
 * schema version. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "ops/ops.h"
#include "serialize/limits.h"
#include "serialize/verify.h"

clave_status tensor_error(const ir_program *p, uint32_t tid, const char *message) {
  return INVALID("tensor %u ('%.200s') %s", tid, p->tensors.items[tid].name, message);
}

static int compare_strings(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static clave_status check_name(const char *name, const char *what, uint32_t index) {
  size_t n = strlen(name);
  if (n == 0) return INVALID("%s %u has no name", what, index);
  return n <= LIMIT_NAME ? NULL
                         : INVALID("%s %u has a name of %zu bytes, expected at most %d", what,
                                   index, n, (int)LIMIT_NAME);
}

clave_status verify_names(const void *items, uint32_t count, size_t size, size_t offset,
                          const char *what) {
  if (count == 0) return NULL;
  const char **names = calloc(count, sizeof *names);
  if (!names) return status_no_memory();
  clave_status st = NULL;
  for (uint32_t i = 0; i < count && !st; i++) {
    memcpy(&names[i], (const char *)items + i * size + offset, sizeof names[i]);
    st = check_name(names[i], what, i);
  }
  if (!st) qsort(names, count, sizeof *names, compare_strings);
  for (uint32_t i = 1; i < count && !st; i++) {
    if (strcmp(names[i - 1], names[i]) == 0)
      st = INVALID("two %ss are named '%.200s'", what, names[i]);
  }
  free(names);
  return st;
}

/* ---------------------------------------------------------------- tensors */

static clave_status check_dim(const ir_program *p, const ir_int_or_vid *d, int64_t *out) {
  if (d->vid == IR_NONE) {
    *out = d->literal;
    return d->literal >= 0 ? NULL : INVALID("dimension of size %lld", (long long)d->literal);
  }
  *out = DIM_UNKNOWN;
  if (d->vid >= p->values.count)
    return INVALID("dimension is value %u, the program has %u", d->vid, p->values.count);
  if (p->values.items[d->vid].type != IR_VALUE_TYPE_INT)
    return INVALID("dimension is value %u, which is no int", d->vid);
  return NULL;
}

/* The known dimensions alone must not overflow, an empty one counted as 1. */
static bool size_fits(const tensor *t) {
  int64_t bytes = (int64_t)dtype_size(t->type);
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] > 1 && !mul_i64(bytes, t->dims[i], &bytes)) return false;
  }
  return true;
}

static bool all_known(const tensor *t) {
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] == DIM_UNKNOWN) return false;
  }
  return true;
}

static clave_status make_type(const ir_program *p, const ir_tensor *d, tensor *out) {
  if (strlen(d->name) > LIMIT_NAME)
    return INVALID("a name of %zu bytes, expected at most %d", strlen(d->name), (int)LIMIT_NAME);
  if (d->encoding && d->encoding->kind != IR_ENCODING_KIND_PLAIN) {
    return UNSUPPORTED("encoding %s is not one of this build's",
                       ir_encoding_kind_enum.values[d->encoding->kind].name);
  }
  if (d->shape.count > MAX_RANK)
    return INVALID("rank %u, expected at most %d", d->shape.count, (int)MAX_RANK);
  out->type = d->dtype;
  out->rank = (int)d->shape.count;
  for (int i = 0; i < out->rank; i++) TRY(check_dim(p, &d->shape.items[i], &out->dims[i]));
  if (!size_fits(out)) return INVALID("its size overflows");
  if (all_known(out)) tensor_set_contiguous(out);
  return NULL;
}

static clave_status make_types(program *p) {
  const ir_tensors *tensors = &p->ir.tensors;
  p->types = mem_pool_alloc(p->pool, tensors->count, sizeof *p->types);
  if (!p->types) return status_no_memory();
  for (uint32_t i = 0; i < tensors->count; i++) {
    clave_status st = make_type(&p->ir, &tensors->items[i], &p->types[i]);
    if (st) return status_while(st, "tensor %u ('%.200s')", i, tensors->items[i].name);
    slot_kind kind = program_slot_kind(&p->ir, i);
    if ((kind == SLOT_CONSTANT || kind == SLOT_STATE) && !all_known(&p->types[i])) {
      return tensor_error(&p->ir, i, "is a constant or state, so its shape must be of numbers");
    }
  }
  return NULL;
}

/* ---------------------------------------------------------------- the rest */

static clave_status check_counts(const ir_program *p) {
  uint64_t slots = (uint64_t)p->constants.count + p->n_inputs + p->n_outputs + p->n_state;
  if (slots <= p->tensors.count) return NULL;
  return INVALID("%u constants, %u inputs, %u outputs and %u states, but only %u tensors",
                 p->constants.count, p->n_inputs, p->n_outputs, p->n_state, p->tensors.count);
}

static clave_status check_values(const ir_values *values) {
  for (uint32_t i = 0; i < values->count; i++) {
    const ir_value *v = &values->items[i];
    if (strlen(v->name) > LIMIT_NAME)
      return INVALID("value %u has a name of %zu bytes", i, strlen(v->name));
    bool bounded = v->min.present || v->max.present;
    if (bounded && v->type != IR_VALUE_TYPE_INT)
      return INVALID("value %u ('%.200s') has bounds but is no int", i, v->name);
    if (v->min.present && v->max.present && v->min.value > v->max.value) {
      return INVALID("value %u ('%.200s') has min %lld above max %lld", i, v->name,
                     (long long)v->min.value, (long long)v->max.value);
    }
  }
  return NULL;
}

static bool same_type(const tensor *a, const tensor *b) {
  return a->type == b->type && a->rank == b->rank &&
         memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static clave_status check_state_init(const program *p, const ir_state_init *s, bool *seen) {
  if (s->state >= p->ir.tensors.count || program_slot_kind(&p->ir, s->state) != SLOT_STATE) {
    return INVALID("tensor %u is no state", s->state);
  }
  if (s->constant >= p->ir.constants.count) return INVALID("tensor %u is no constant", s->constant);
  bool *one = &seen[s->state];
  if (*one) return tensor_error(&p->ir, s->state, "gets two initial values");
  *one = true;
  if (same_type(&p->types[s->state], &p->types[s->constant])) return NULL;
  return INVALID("state %u and its initial value, constant %u, differ in dtype or shape", s->state,
                 s->constant);
}

static clave_status check_state_inits(const program *p) {
  const ir_state_inits *inits = &p->ir.state_inits;
  bool *seen = calloc((size_t)p->ir.tensors.count + 1, sizeof *seen);
  if (!seen) return status_no_memory();
  clave_status st = NULL;
  for (uint32_t i = 0; i < inits->count && !st; i++) {
    st = status_while(check_state_init(p, &inits->items[i], seen), "state_inits[%u]", i);
  }
  free(seen);
  return st;
}

/* Every op is of a version that the program says it needs, and that one is known here. */
static clave_status check_versions(const ir_program *p) {
  for (uint32_t c = 0; c < p->chains.count; c++) {
    const ir_instructions *list = &p->chains.items[c].instructions;
    for (uint32_t i = 0; i < list->count; i++) {
      const op_info *op = &op_table[list->items[i].op_type];
      if ((uint32_t)op->since > p->version) {
        return INVALID("op %s needs schema version %d, the program says %u", op->name, op->since,
                       p->version);
      }
    }
  }
  if (p->version <= IR_SCHEMA_VERSION) return NULL;
  return UNSUPPORTED("the program needs schema version %u, this build knows %d", p->version,
                     (int)IR_SCHEMA_VERSION);
}

clave_status verify_types(program *p) {
  const ir_constants *constants = &p->ir.constants;
  TRY(check_versions(&p->ir));
  TRY(check_counts(&p->ir));
  TRY(check_values(&p->ir.values));
  TRY(verify_names(constants->items, constants->count, sizeof *constants->items,
                   offsetof(ir_constant, name), "constant"));
  TRY(make_types(p));
  return check_state_inits(p);
}
