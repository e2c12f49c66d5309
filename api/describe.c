/* Describes nodes: attributes as one line, and operands, from the schema's descriptors alone. */
#include <inttypes.h>
#include <string.h>

#include "api/internal.h"

static void append_int(text *text, const ir_program *program, const ir_int_or_vid *value) {
  if (value->vid == IR_NONE) {
    text_printf(text, "%" PRId64, value->literal);
  } else {
    text_printf(text, "%s", program->values.items[value->vid].name);
  }
}

static void append_float(text *text, const ir_program *program, const ir_float_or_vid *value) {
  if (value->vid == IR_NONE) {
    text_printf(text, "%.9g", value->literal);
  } else {
    text_printf(text, "%s", program->values.items[value->vid].name);
  }
}

static const char *enum_text(const ir_enum *values, int64_t number) {
  for (uint32_t i = 0; i < values->count; i++)
    if (values->values[i].number == number) return values->values[i].name;
  return "?";
}

static int64_t enum_number(const void *field) {
  unsigned v;
  memcpy(&v, field, sizeof v);
  return v;
}

static void append_step_operand(text *text, const ir_program *program, const ir_operand *op) {
  switch (op->source) {
    case IR_OPERAND_SOURCE_INPUT:
      text_printf(text, "x%u", op->index);
      break;
    case IR_OPERAND_SOURCE_STEP:
      text_printf(text, "s%u", op->index);
      break;
    case IR_OPERAND_SOURCE_INT:
      text_printf(text, "%" PRId64, op->i);
      break;
    case IR_OPERAND_SOURCE_FLOAT:
      text_printf(text, "%.9g", op->f);
      break;
    default:
      text_printf(text, "%s", program->values.items[op->index].name);
      break;
  }
}

/* Appends "mul(x0, 2) F32; ...". */
static void append_steps(text *text, const ir_program *program, const ir_steps *steps) {
  for (uint32_t i = 0; i < steps->count; i++) {
    const ir_step *step = &steps->items[i];
    text_printf(text, "%s%s(", i ? "; " : "", step_table[step->kind].name);
    for (uint32_t k = 0; k < step->operands.count; k++) {
      if (k) text_printf(text, ", ");
      append_step_operand(text, program, &step->operands.items[k]);
    }
    text_printf(text, ") %s", dtype_name(step->dtype));
  }
}

static void append_ints(text *text, const ir_i32s *ints) {
  text_printf(text, "[");
  for (uint32_t i = 0; i < ints->count; i++)
    text_printf(text, "%s%d", i ? ", " : "", ints->items[i]);
  text_printf(text, "]");
}

static void describe_append_sizes(text *text, const ir_program *program,
                                  const ir_int_or_vids *values) {
  text_printf(text, "[");
  for (uint32_t i = 0; i < values->count; i++) {
    if (i) text_printf(text, ", ");
    append_int(text, program, &values->items[i]);
  }
  text_printf(text, "]");
}

/* False for fields that are operands or absent. */
static bool describe_has_value(const ir_field *member, const void *field) {
  switch (member->kind) {
    case IR_FIELD_TID:
    case IR_FIELD_TIDS:
      return false;
    case IR_FIELD_TABLE:
      return false;
    case IR_FIELD_TABLES:
      return member->table == &ir_step_table;
    case IR_FIELD_STRING:
      return **(const char *const *)field != 0;
    case IR_FIELD_VID:
      return *(const uint32_t *)field != IR_NONE;
    case IR_FIELD_INT_OR_VID:
      return ((const ir_int_or_vid *)field)->present;
    case IR_FIELD_FLOAT_OR_VID:
      return ((const ir_float_or_vid *)field)->present;
    case IR_FIELD_OPT_I32:
      return ((const ir_opt_i32 *)field)->present;
    case IR_FIELD_OPT_I64:
      return ((const ir_opt_i64 *)field)->present;
    case IR_FIELD_OPT_F64:
      return ((const ir_opt_f64 *)field)->present;
    default:
      return member->kind != IR_FIELD_UNION;
  }
}

static void describe_append_field(text *text, const ir_program *program, const ir_field *field,
                                  const void *value) {
  switch (field->kind) {
    case IR_FIELD_BOOL:
      text_printf(text, "%s", *(const bool *)value ? "true" : "false");
      break;
    case IR_FIELD_I32:
      text_printf(text, "%d", *(const int32_t *)value);
      break;
    case IR_FIELD_U32:
      text_printf(text, "%u", *(const uint32_t *)value);
      break;
    case IR_FIELD_I64:
      text_printf(text, "%" PRId64, *(const int64_t *)value);
      break;
    case IR_FIELD_U64:
      text_printf(text, "%" PRIu64, *(const uint64_t *)value);
      break;
    case IR_FIELD_F64:
      text_printf(text, "%.9g", *(const double *)value);
      break;
    case IR_FIELD_ENUM:
      text_printf(text, "%s", enum_text(field->enum_, enum_number(value)));
      break;
    case IR_FIELD_VID:
      text_printf(text, "%s", program->values.items[*(const uint32_t *)value].name);
      break;
    case IR_FIELD_STRING:
      text_printf(text, "'%s'", *(const char *const *)value);
      break;
    case IR_FIELD_INT_OR_VID:
      append_int(text, program, value);
      break;
    case IR_FIELD_FLOAT_OR_VID:
      append_float(text, program, value);
      break;
    case IR_FIELD_OPT_I32:
      text_printf(text, "%d", ((const ir_opt_i32 *)value)->value);
      break;
    case IR_FIELD_OPT_I64:
      text_printf(text, "%" PRId64, ((const ir_opt_i64 *)value)->value);
      break;
    case IR_FIELD_OPT_F64:
      text_printf(text, "%.9g", ((const ir_opt_f64 *)value)->value);
      break;
    case IR_FIELD_I32S:
      append_ints(text, value);
      break;
    case IR_FIELD_INT_OR_VIDS:
      describe_append_sizes(text, program, value);
      break;
    case IR_FIELD_TABLES:
      append_steps(text, program, value);
      break;
    default:
      break;
  }
}

static void append_detail(text *text, const ir_program *program, const ir_instruction *ins) {
  const ir_table *table = ir_op_tables[ins->op_type];
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *field = &table->fields[i];
    const void *value = (const char *)ins->op + field->offset;
    if (!describe_has_value(field, value)) continue;
    text_printf(text, "%s%s=", text->size ? " " : "", field->name);
    describe_append_field(text, program, field, value);
  }
}

static clave_status make_detail(clave_program *program, uint32_t chain, uint32_t index,
                                const char **out) {
  const ir_chains *chains = &program->program->ir.chains;
  if (!program->detail)
    program->detail = mem_pool_alloc(program->pool, chains->count + 1, sizeof *program->detail);
  if (!program->detail) return status_no_memory();
  if (!program->detail[chain])
    program->detail[chain] =
        mem_pool_alloc(program->pool, chains->items[chain].instructions.count + 1, sizeof(char *));
  if (!program->detail[chain]) return status_no_memory();
  const char **slot = &program->detail[chain][index];
  if (!*slot) {
    text text = {0};
    append_detail(&text, &program->program->ir, &chains->items[chain].instructions.items[index]);
    clave_status st = text_status(&text);
    if (!st && !(*slot = mem_pool_strdup(program->pool, text.data ? text.data : "", text.size)))
      st = status_no_memory();
    text_free(&text);
    TRY(st);
  }
  *out = *slot;
  return NULL;
}

static void list_operand(clave_node_info *info, const operand *operand) {
  uint32_t *list = operand->flags & IR_OUT ? info->writes : info->reads,
           *count = operand->flags & IR_OUT ? &info->n_writes : &info->n_reads;
  if (*count < CLAVE_MAX_OPERANDS) list[*count] = operand->tid;
  ++*count;
}

clave_status clave_program_node(const clave_program *program, const char *method, uint32_t index,
                                clave_node_info *out) {
  union {
    const clave_program *in;
    clave_program *out;
  } cast = {program}; /* changes only the texts that are made on request, under their lock */
  uint32_t m;
  TRY(program_find_method(program, method, &m));
  uint32_t chain = program->program->ir.methods.items[m].chain, at = 0;
  uint32_t count = program_count_nodes(&program->program->ir, chain);
  if (index >= count)
    return INVALID("index %u is out of range: the method has %u nodes", index, count);
  program_find_node(&program->program->ir, index, &chain, &at);
  const ir_instruction *ins = &program->program->ir.chains.items[chain].instructions.items[at];
  clave_node_info info = {.op = op_table[ins->op_type].name, .name = ins->name};
  mutex_lock(program->lock);
  clave_status st = make_detail(cast.out, chain, at, &info.detail);
  mutex_unlock(program->lock);
  for (operand_iter i = operands_of(ins); !st && next_operand(&i);) list_operand(&info, &i.operand);
  return st ? st : sized_write(&info, out, SIZED(clave_node_info, writes));
}
