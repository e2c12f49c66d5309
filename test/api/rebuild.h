#ifndef TEST_API_REBUILD_H
#define TEST_API_REBUILD_H
/* Rebuilds any program field by field through clave_builder.h. */
#include <stdlib.h>
#include <string.h>

#include "clave_builder.h"
#include "ops/ops.h"
#include "serialize/fields.h"
#include "serialize/program.h"

/* Ids in the new builder, indexed by the old program's numbers. */
typedef struct rebuilding {
  const ir_program *p;
  clave_builder *b;
  clave_id *tensors, *values, *bodies; /* by Tid, Vid, chain */
  uint32_t ops[IR_OP_COUNT];           /* how many of each */
} rebuilding;

static inline void *rebuild_array(size_t n) {
  void *memory = calloc(n + 1, sizeof(clave_id));
  if (!memory) abort();
  return memory;
}

/* Literals, followed by the ids of values (0 if absent). */
typedef struct rebuilt_ints {
  int64_t *literals;
  clave_id *values;
} rebuilt_ints;

static inline rebuilt_ints rebuild_ints(const rebuilding *rebuilding,
                                        const ir_int_or_vids *values) {
  rebuilt_ints out = {calloc((size_t)values->count + 1, sizeof *out.literals),
                      rebuild_array(values->count)};
  if (!out.literals) abort();
  for (uint32_t i = 0; i < values->count; i++) {
    out.literals[i] = values->items[i].literal;
    if (values->items[i].vid != IR_NONE) out.values[i] = rebuilding->values[values->items[i].vid];
  }
  return out;
}

static inline void rebuilt_free(rebuilt_ints ints) {
  free(ints.literals);
  free(ints.values);
}

static inline clave_id *rebuild_tids(const rebuilding *rebuilding, const ir_u32s *u32s) {
  clave_id *out = rebuild_array(u32s->count);
  for (uint32_t i = 0; i < u32s->count; i++) out[i] = rebuilding->tensors[u32s->items[i]];
  return out;
}

/* ---------------------------------------------------------------- declarations */

static inline void rebuild_tensor(rebuilding *rebuilding, const program *program, uint32_t i) {
  const ir_tensor *declared = &rebuilding->p->tensors.items[i];
  slot_kind kind = program_slot_kind(rebuilding->p, i);
  if (kind == SLOT_CONSTANT) {
    union {
      const void *in;
      void *out;
    } data = {program->constants[i]};
    const char *name = rebuilding->p->constants.items[i].name;
    const tensor stored = tensor_stored(&program->types[i]);
    clave_tensor value =
        clave_tensor_make((clave_dtype)stored.type, stored.rank, stored.dims, data.out);
    char text[64];
    rebuilding->tensors[i] =
        declared->encoding
            ? clave_builder_encoded(rebuilding->b, name,
                                    encoding_text(&program->types[i].encoding, text, sizeof text),
                                    (clave_dtype)declared->dtype, program->types[i].rank,
                                    program->types[i].dims, &value, i % 2)
            : clave_builder_constant(rebuilding->b, name, &value, i % 2);
    return;
  }
  rebuilt_ints dims = rebuild_ints(rebuilding, &declared->shape);
  rebuilding->tensors[i] = clave_builder_tensor(
      rebuilding->b, (clave_slot_kind)kind, declared->name, (clave_dtype)declared->dtype,
      (int)declared->shape.count, dims.literals, dims.values);
  rebuilt_free(dims);
}

static inline void rebuild_declared(rebuilding *rebuilding, const program *program) {
  static const clave_dtype types[] = {CLAVE_I64, CLAVE_F64, CLAVE_BOOL};
  clave_builder_producer(rebuilding->b, rebuilding->p->producer);
  clave_builder_metadata(rebuilding->b, rebuilding->p->metadata);
  for (uint32_t i = 0; i < rebuilding->p->values.count; i++) {
    const ir_value *value = &rebuilding->p->values.items[i];
    rebuilding->values[i] = clave_builder_value(rebuilding->b, value->name, types[value->type],
                                                value->min.present ? value->min.value : INT64_MIN,
                                                value->max.present ? value->max.value : INT64_MAX);
  }
  for (uint32_t i = 0; i < rebuilding->p->tensors.count; i++)
    rebuild_tensor(rebuilding, program, i);
  for (uint32_t i = 0; i < rebuilding->p->state_inits.count; i++) {
    const ir_state_init *init = &rebuilding->p->state_inits.items[i];
    clave_builder_initial(rebuilding->b, rebuilding->tensors[init->state],
                          rebuilding->tensors[init->constant]);
  }
}

/* ---------------------------------------------------------------- instructions */

static inline void rebuild_steps(const rebuilding *rebuilding, const ir_steps *steps) {
  for (uint32_t i = 0; i < steps->count; i++) {
    const ir_step *step = &steps->items[i];
    clave_operand operands[MAX_STEP_ARITY];
    for (uint32_t k = 0; k < step->operands.count; k++) {
      const ir_operand *op = &step->operands.items[k];
      bool value = op->source == IR_OPERAND_SOURCE_VALUE;
      operands[k] = (clave_operand){.source = (clave_operand_source)op->source,
                                    .index = op->index,
                                    .value = value ? rebuilding->values[op->index] : 0,
                                    .i = op->i,
                                    .f = op->f};
    }
    clave_builder_step(rebuilding->b, step_table[step->kind].name, (clave_dtype)step->dtype,
                       operands, step->operands.count);
  }
}

static inline void rebuild_lists(const rebuilding *rebuilding, const ir_field *field,
                                 const void *at) {
  if (field->kind == IR_FIELD_TIDS) {
    clave_id *ids = rebuild_tids(rebuilding, at);
    clave_builder_set_tensors(rebuilding->b, field->name, ids, ((const ir_u32s *)at)->count);
    free(ids);
  } else if (field->kind == IR_FIELD_INT_OR_VIDS) {
    rebuilt_ints sizes = rebuild_ints(rebuilding, at);
    clave_builder_set_sizes(rebuilding->b, field->name, sizes.literals, sizes.values,
                            ((const ir_int_or_vids *)at)->count);
    rebuilt_free(sizes);
  } else if (field->kind == IR_FIELD_I32S) {
    const ir_i32s *ints = at;
    clave_builder_set_ints(rebuilding->b, field->name, ints->items, ints->count);
  } else if (field->kind == IR_FIELD_TABLES) {
    rebuild_steps(rebuilding, at);
  } else {
    abort(); /* the builder lacks this kind of field */
  }
}

static inline void rebuild_or_value(const rebuilding *rebuilding, const ir_field *field,
                                    const void *at) {
  const ir_int_or_vid *value = at;
  const ir_float_or_vid *float_or_vid = at;
  uint32_t vid = field->kind == IR_FIELD_INT_OR_VID ? value->vid : float_or_vid->vid;
  if (vid != IR_NONE) {
    clave_builder_set_value(rebuilding->b, field->name, rebuilding->values[vid]);
  } else if (field->kind == IR_FIELD_INT_OR_VID) {
    clave_builder_set_int(rebuilding->b, field->name, value->literal);
  } else {
    clave_builder_set_float(rebuilding->b, field->name, float_or_vid->literal);
  }
}

static inline void rebuild_enum(const rebuilding *rebuilding, const ir_field *field,
                                const void *at) {
  int32_t number;
  memcpy(&number, at, sizeof number);
  clave_builder_set_text(rebuilding->b, field->name, enum_by_number(field->enum_, number)->name);
}

static inline void rebuild_u32(const rebuilding *rebuilding, const ir_field *field, uint32_t v,
                               bool control) {
  if (control) {
    clave_builder_set_body(rebuilding->b, field->name, rebuilding->bodies[v]);
  } else {
    clave_builder_set_int(rebuilding->b, field->name, v);
  }
}

static inline void rebuild_field(const rebuilding *rebuilding, const ir_field *field,
                                 const void *at, bool control) {
  switch (field->kind) {
    case IR_FIELD_BOOL:
      clave_builder_set_bool(rebuilding->b, field->name, *(const bool *)at);
      break;
    case IR_FIELD_I32:
      clave_builder_set_int(rebuilding->b, field->name, *(const int32_t *)at);
      break;
    case IR_FIELD_U32:
      rebuild_u32(rebuilding, field, *(const uint32_t *)at, control);
      break;
    case IR_FIELD_I64:
      clave_builder_set_int(rebuilding->b, field->name, *(const int64_t *)at);
      break;
    case IR_FIELD_F64:
      clave_builder_set_float(rebuilding->b, field->name, *(const double *)at);
      break;
    case IR_FIELD_ENUM:
      rebuild_enum(rebuilding, field, at);
      break;
    case IR_FIELD_TID:
      clave_builder_set_tensor(rebuilding->b, field->name,
                               rebuilding->tensors[*(const uint32_t *)at]);
      break;
    case IR_FIELD_VID:
      clave_builder_set_value(rebuilding->b, field->name,
                              rebuilding->values[*(const uint32_t *)at]);
      break;
    case IR_FIELD_STRING:
      clave_builder_set_text(rebuilding->b, field->name, *(const char *const *)at);
      break;
    case IR_FIELD_INT_OR_VID:
    case IR_FIELD_FLOAT_OR_VID:
      rebuild_or_value(rebuilding, field, at);
      break;
    case IR_FIELD_OPT_I32:
      clave_builder_set_int(rebuilding->b, field->name, ((const ir_opt_i32 *)at)->value);
      break;
    case IR_FIELD_OPT_I64:
      clave_builder_set_int(rebuilding->b, field->name, ((const ir_opt_i64 *)at)->value);
      break;
    case IR_FIELD_OPT_F64:
      clave_builder_set_float(rebuilding->b, field->name, ((const ir_opt_f64 *)at)->value);
      break;
    default:
      rebuild_lists(rebuilding, field, at);
      break;
  }
}

static inline void rebuild_chain(rebuilding *rebuilding, uint32_t chain);

static inline void rebuild_instruction(rebuilding *rebuilding, const ir_instruction *ins) {
  uint32_t chains[2];
  int n = control_chains(ins, chains);
  for (int i = 0; i < n; i++) {
    const ir_chain *chain = &rebuilding->p->chains.items[chains[i]];
    clave_id *args = rebuild_tids(rebuilding, &chain->args),
             *results = rebuild_tids(rebuilding, &chain->results);
    rebuilding->bodies[chains[i]] =
        clave_builder_body(rebuilding->b, chain->name, args, chain->args.count);
    rebuild_chain(rebuilding, chains[i]);
    clave_builder_end_body(rebuilding->b, results, chain->results.count);
    free(args);
    free(results);
  }
  const op_info *op = &op_table[ins->op_type];
  clave_builder_op(rebuilding->b, rebuilding->ops[ins->op_type]++ % 2 ? op->name : op->table->name,
                   ins->name);
  for (uint32_t i = 0; i < op->table->n_fields; i++) {
    const ir_field *field = &op->table->fields[i];
    /* A body is set even if it is 0, the default of numbers, because chain 0 is a body. */
    bool set = !field_is_default(field, ins->op) || (n && field->kind == IR_FIELD_U32);
    if (set) rebuild_field(rebuilding, field, (const char *)ins->op + field->offset, n > 0);
  }
}

static inline void rebuild_chain(rebuilding *rebuilding, uint32_t chain) {
  const ir_instructions *list = &rebuilding->p->chains.items[chain].instructions;
  for (uint32_t i = 0; i < list->count; i++) rebuild_instruction(rebuilding, &list->items[i]);
}

static inline clave_id rebuild_argument(const rebuilding *rebuilding, const ir_argument *argument) {
  return argument->tensor != IR_NONE ? rebuilding->tensors[argument->tensor]
                                     : rebuilding->values[argument->value];
}

static inline void rebuild_method(rebuilding *rebuilding, const ir_method *method) {
  clave_builder_method(rebuilding->b, method->name);
  clave_builder_method_metadata(rebuilding->b, method->metadata);
  for (uint32_t i = 0; i < method->inputs.count; i++)
    clave_builder_input(rebuilding->b, method->inputs.items[i].name,
                        rebuild_argument(rebuilding, &method->inputs.items[i]));
  rebuild_chain(rebuilding, method->chain);
  for (uint32_t i = 0; i < method->outputs.count; i++)
    clave_builder_output(rebuilding->b, method->outputs.items[i].name,
                         rebuild_argument(rebuilding, &method->outputs.items[i]));
  for (uint32_t i = 0; i < method->updates.count; i++) {
    const ir_state_update *update = &method->updates.items[i];
    clave_builder_update(rebuilding->b, rebuilding->tensors[update->state],
                         rebuilding->tensors[update->value]);
  }
}

/* Rebuilds a program. Constants are borrowed and copied in turn, so `program` must outlive the
 * result. ops: the number of nodes of each ir_op is added. */
static inline clave_status rebuild_program(const program *program, uint32_t *ops,
                                           clave_program **out) {
  rebuilding rebuilding = {.p = &program->ir};
  *out = NULL;
  clave_status st = clave_builder_create(&rebuilding.b);
  if (st) return st;
  rebuilding.tensors = rebuild_array(program->ir.tensors.count);
  rebuilding.values = rebuild_array(program->ir.values.count);
  rebuilding.bodies = rebuild_array(program->ir.chains.count);
  rebuild_declared(&rebuilding, program);
  for (uint32_t i = 0; i < program->ir.methods.count; i++)
    rebuild_method(&rebuilding, &program->ir.methods.items[i]);
  st = clave_builder_finish(rebuilding.b, out);
  clave_builder_destroy(rebuilding.b);
  for (int i = 0; i < IR_OP_COUNT; i++) ops[i] += rebuilding.ops[i];
  free(rebuilding.tensors);
  free(rebuilding.values);
  free(rebuilding.bodies);
  return st;
}

#endif
