#ifndef TEST_API_REBUILD_H
#define TEST_API_REBUILD_H
/* Any program, built again field by field through clave_builder.h. */
#include <stdlib.h>
#include <string.h>

#include "clave_builder.h"
#include "ops/ops.h"
#include "serialize/fields.h"
#include "serialize/program.h"

/* Ids of the new builder by the old program's numbers. */
typedef struct rebuilding {
  const ir_program *p;
  clave_builder *b;
  clave_id *tensors, *values, *bodies; /* by Tid, Vid, chain */
  uint32_t ops[IR_OP_COUNT];           /* how many of each */
} rebuilding;

static inline void *rebuild_array(size_t n) {
  void *p = calloc(n + 1, sizeof(clave_id));
  if (!p) abort();
  return p;
}

/* Literals, and behind them the ids of values, 0 where there is none. */
typedef struct rebuilt_ints {
  int64_t *literals;
  clave_id *values;
} rebuilt_ints;

static inline rebuilt_ints rebuild_ints(const rebuilding *r, const ir_int_or_vids *v) {
  rebuilt_ints out = {calloc((size_t)v->count + 1, sizeof *out.literals), rebuild_array(v->count)};
  if (!out.literals) abort();
  for (uint32_t i = 0; i < v->count; i++) {
    out.literals[i] = v->items[i].literal;
    if (v->items[i].vid != IR_NONE) out.values[i] = r->values[v->items[i].vid];
  }
  return out;
}

static inline void rebuilt_free(rebuilt_ints v) {
  free(v.literals);
  free(v.values);
}

static inline clave_id *rebuild_tids(const rebuilding *r, const ir_u32s *v) {
  clave_id *out = rebuild_array(v->count);
  for (uint32_t i = 0; i < v->count; i++) out[i] = r->tensors[v->items[i]];
  return out;
}

/* ---------------------------------------------------------------- what is declared */

static inline void rebuild_tensor(rebuilding *r, const program *p, uint32_t i) {
  const ir_tensor *t = &r->p->tensors.items[i];
  slot_kind kind = program_slot_kind(r->p, i);
  if (kind == SLOT_CONSTANT) {
    union {
      const void *in;
      void *out;
    } data = {p->constants[i]};
    const char *name = r->p->constants.items[i].name;
    const tensor stored = tensor_stored(&p->types[i]);
    clave_tensor c =
        clave_tensor_make((clave_dtype)stored.type, stored.rank, stored.dims, data.out);
    char text[64];
    r->tensors[i] = t->encoding
                        ? clave_builder_encoded(
                              r->b, name, encoding_text(&p->types[i].encoding, text, sizeof text),
                              (clave_dtype)t->dtype, p->types[i].rank, p->types[i].dims, &c, i % 2)
                        : clave_builder_constant(r->b, name, &c, i % 2);
    return;
  }
  rebuilt_ints dims = rebuild_ints(r, &t->shape);
  r->tensors[i] = clave_builder_tensor(r->b, (clave_slot_kind)kind, t->name, (clave_dtype)t->dtype,
                                       (int)t->shape.count, dims.literals, dims.values);
  rebuilt_free(dims);
}

static inline void rebuild_declared(rebuilding *r, const program *p) {
  static const clave_dtype types[] = {CLAVE_I64, CLAVE_F64, CLAVE_BOOL};
  clave_builder_producer(r->b, r->p->producer);
  clave_builder_metadata(r->b, r->p->metadata);
  for (uint32_t i = 0; i < r->p->values.count; i++) {
    const ir_value *v = &r->p->values.items[i];
    r->values[i] = clave_builder_value(r->b, v->name, types[v->type],
                                       v->min.present ? v->min.value : INT64_MIN,
                                       v->max.present ? v->max.value : INT64_MAX);
  }
  for (uint32_t i = 0; i < r->p->tensors.count; i++) rebuild_tensor(r, p, i);
  for (uint32_t i = 0; i < r->p->state_inits.count; i++) {
    const ir_state_init *s = &r->p->state_inits.items[i];
    clave_builder_initial(r->b, r->tensors[s->state], r->tensors[s->constant]);
  }
}

/* ---------------------------------------------------------------- instructions */

static inline void rebuild_steps(const rebuilding *r, const ir_steps *steps) {
  for (uint32_t i = 0; i < steps->count; i++) {
    const ir_step *s = &steps->items[i];
    clave_operand operands[MAX_STEP_ARITY];
    for (uint32_t k = 0; k < s->operands.count; k++) {
      const ir_operand *o = &s->operands.items[k];
      bool value = o->source == IR_OPERAND_SOURCE_VALUE;
      operands[k] = (clave_operand){.source = (clave_operand_source)o->source,
                                    .index = o->index,
                                    .value = value ? r->values[o->index] : 0,
                                    .i = o->i,
                                    .f = o->f};
    }
    clave_builder_step(r->b, step_table[s->kind].name, (clave_dtype)s->dtype, operands,
                       s->operands.count);
  }
}

static inline void rebuild_lists(const rebuilding *r, const ir_field *f, const void *at) {
  if (f->kind == IR_FIELD_TIDS) {
    clave_id *ids = rebuild_tids(r, at);
    clave_builder_set_tensors(r->b, f->name, ids, ((const ir_u32s *)at)->count);
    free(ids);
  } else if (f->kind == IR_FIELD_INT_OR_VIDS) {
    rebuilt_ints sizes = rebuild_ints(r, at);
    clave_builder_set_sizes(r->b, f->name, sizes.literals, sizes.values,
                            ((const ir_int_or_vids *)at)->count);
    rebuilt_free(sizes);
  } else if (f->kind == IR_FIELD_I32S) {
    const ir_i32s *v = at;
    clave_builder_set_ints(r->b, f->name, v->items, v->count);
  } else if (f->kind == IR_FIELD_TABLES) {
    rebuild_steps(r, at);
  } else {
    abort(); /* a kind of field that the builder does not know */
  }
}

static inline void rebuild_or_value(const rebuilding *r, const ir_field *f, const void *at) {
  const ir_int_or_vid *i = at;
  const ir_float_or_vid *d = at;
  uint32_t vid = f->kind == IR_FIELD_INT_OR_VID ? i->vid : d->vid;
  if (vid != IR_NONE) {
    clave_builder_set_value(r->b, f->name, r->values[vid]);
  } else if (f->kind == IR_FIELD_INT_OR_VID) {
    clave_builder_set_int(r->b, f->name, i->literal);
  } else {
    clave_builder_set_float(r->b, f->name, d->literal);
  }
}

static inline void rebuild_enum(const rebuilding *r, const ir_field *f, const void *at) {
  int32_t number;
  memcpy(&number, at, sizeof number);
  clave_builder_set_text(r->b, f->name, enum_by_number(f->enum_, number)->name);
}

static inline void rebuild_u32(const rebuilding *r, const ir_field *f, uint32_t v, bool control) {
  if (control) {
    clave_builder_set_body(r->b, f->name, r->bodies[v]);
  } else {
    clave_builder_set_int(r->b, f->name, v);
  }
}

static inline void rebuild_field(const rebuilding *r, const ir_field *f, const void *at,
                                 bool control) {
  switch (f->kind) {
    case IR_FIELD_BOOL:
      clave_builder_set_bool(r->b, f->name, *(const bool *)at);
      break;
    case IR_FIELD_I32:
      clave_builder_set_int(r->b, f->name, *(const int32_t *)at);
      break;
    case IR_FIELD_U32:
      rebuild_u32(r, f, *(const uint32_t *)at, control);
      break;
    case IR_FIELD_I64:
      clave_builder_set_int(r->b, f->name, *(const int64_t *)at);
      break;
    case IR_FIELD_F64:
      clave_builder_set_float(r->b, f->name, *(const double *)at);
      break;
    case IR_FIELD_ENUM:
      rebuild_enum(r, f, at);
      break;
    case IR_FIELD_TID:
      clave_builder_set_tensor(r->b, f->name, r->tensors[*(const uint32_t *)at]);
      break;
    case IR_FIELD_VID:
      clave_builder_set_value(r->b, f->name, r->values[*(const uint32_t *)at]);
      break;
    case IR_FIELD_STRING:
      clave_builder_set_text(r->b, f->name, *(const char *const *)at);
      break;
    case IR_FIELD_INT_OR_VID:
    case IR_FIELD_FLOAT_OR_VID:
      rebuild_or_value(r, f, at);
      break;
    case IR_FIELD_OPT_I32:
      clave_builder_set_int(r->b, f->name, ((const ir_opt_i32 *)at)->value);
      break;
    case IR_FIELD_OPT_I64:
      clave_builder_set_int(r->b, f->name, ((const ir_opt_i64 *)at)->value);
      break;
    case IR_FIELD_OPT_F64:
      clave_builder_set_float(r->b, f->name, ((const ir_opt_f64 *)at)->value);
      break;
    default:
      rebuild_lists(r, f, at);
      break;
  }
}

static inline void rebuild_chain(rebuilding *r, uint32_t chain);

static inline void rebuild_instruction(rebuilding *r, const ir_instruction *ins) {
  uint32_t chains[2];
  int n = control_chains(ins, chains);
  for (int i = 0; i < n; i++) {
    const ir_chain *c = &r->p->chains.items[chains[i]];
    clave_id *args = rebuild_tids(r, &c->args), *results = rebuild_tids(r, &c->results);
    r->bodies[chains[i]] = clave_builder_body(r->b, c->name, args, c->args.count);
    rebuild_chain(r, chains[i]);
    clave_builder_end_body(r->b, results, c->results.count);
    free(args);
    free(results);
  }
  const op_info *op = &op_table[ins->op_type];
  clave_builder_op(r->b, r->ops[ins->op_type]++ % 2 ? op->name : op->table->name, ins->name);
  for (uint32_t i = 0; i < op->table->n_fields; i++) {
    const ir_field *f = &op->table->fields[i];
    /* A body may be chain 0, which is a number's default. */
    bool set = !field_is_default(f, ins->op) || (n && f->kind == IR_FIELD_U32);
    if (set) rebuild_field(r, f, (const char *)ins->op + f->offset, n > 0);
  }
}

static inline void rebuild_chain(rebuilding *r, uint32_t chain) {
  const ir_instructions *list = &r->p->chains.items[chain].instructions;
  for (uint32_t i = 0; i < list->count; i++) rebuild_instruction(r, &list->items[i]);
}

static inline clave_id rebuild_argument(const rebuilding *r, const ir_argument *a) {
  return a->tensor != IR_NONE ? r->tensors[a->tensor] : r->values[a->value];
}

static inline void rebuild_method(rebuilding *r, const ir_method *m) {
  clave_builder_method(r->b, m->name);
  clave_builder_method_metadata(r->b, m->metadata);
  for (uint32_t i = 0; i < m->inputs.count; i++)
    clave_builder_input(r->b, m->inputs.items[i].name, rebuild_argument(r, &m->inputs.items[i]));
  rebuild_chain(r, m->chain);
  for (uint32_t i = 0; i < m->outputs.count; i++)
    clave_builder_output(r->b, m->outputs.items[i].name, rebuild_argument(r, &m->outputs.items[i]));
  for (uint32_t i = 0; i < m->updates.count; i++) {
    const ir_state_update *u = &m->updates.items[i];
    clave_builder_update(r->b, r->tensors[u->state], r->tensors[u->value]);
  }
}

/* Constants are borrowed and copied in turn: p outlives what is made. ops: how many of each there
 * were is added, by ir_op. */
static inline clave_status rebuild_program(const program *p, uint32_t *ops, clave_program **out) {
  rebuilding r = {.p = &p->ir};
  *out = NULL;
  clave_status st = clave_builder_create(&r.b);
  if (st) return st;
  r.tensors = rebuild_array(p->ir.tensors.count);
  r.values = rebuild_array(p->ir.values.count);
  r.bodies = rebuild_array(p->ir.chains.count);
  rebuild_declared(&r, p);
  for (uint32_t i = 0; i < p->ir.methods.count; i++) rebuild_method(&r, &p->ir.methods.items[i]);
  st = clave_builder_finish(r.b, out);
  clave_builder_destroy(r.b);
  for (int i = 0; i < IR_OP_COUNT; i++) ops[i] += r.ops[i];
  free(r.tensors);
  free(r.values);
  free(r.bodies);
  return st;
}

#endif
