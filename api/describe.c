/* One line about a node's attributes, and its operands, from the schema's descriptors alone. */
#include <inttypes.h>
#include <string.h>

#include "api/internal.h"

static void append_int(text *t, const ir_program *p, const ir_int_or_vid *v) {
  if (v->vid == IR_NONE) {
    text_printf(t, "%" PRId64, v->literal);
  } else {
    text_printf(t, "%s", p->values.items[v->vid].name);
  }
}

static void append_float(text *t, const ir_program *p, const ir_float_or_vid *v) {
  if (v->vid == IR_NONE) {
    text_printf(t, "%.9g", v->literal);
  } else {
    text_printf(t, "%s", p->values.items[v->vid].name);
  }
}

static const char *enum_text(const ir_enum *e, int64_t number) {
  for (uint32_t i = 0; i < e->count; i++)
    if (e->values[i].number == number) return e->values[i].name;
  return "?";
}

static int64_t enum_number(const void *field) {
  unsigned v;
  memcpy(&v, field, sizeof v);
  return v;
}

static void append_step_operand(text *t, const ir_program *p, const ir_operand *o) {
  switch (o->source) {
    case IR_OPERAND_SOURCE_INPUT:
      text_printf(t, "x%u", o->index);
      break;
    case IR_OPERAND_SOURCE_STEP:
      text_printf(t, "s%u", o->index);
      break;
    case IR_OPERAND_SOURCE_INT:
      text_printf(t, "%" PRId64, o->i);
      break;
    case IR_OPERAND_SOURCE_FLOAT:
      text_printf(t, "%.9g", o->f);
      break;
    default:
      text_printf(t, "%s", p->values.items[o->index].name);
      break;
  }
}

/* "s0 = mul(x0, 2) F32; ..." */
static void append_steps(text *t, const ir_program *p, const ir_steps *steps) {
  for (uint32_t i = 0; i < steps->count; i++) {
    const ir_step *s = &steps->items[i];
    text_printf(t, "%s%s(", i ? "; " : "", step_table[s->kind].name);
    for (uint32_t k = 0; k < s->operands.count; k++) {
      if (k) text_printf(t, ", ");
      append_step_operand(t, p, &s->operands.items[k]);
    }
    text_printf(t, ") %s", dtype_name(s->dtype));
  }
}

static void append_ints(text *t, const ir_i32s *v) {
  text_printf(t, "[");
  for (uint32_t i = 0; i < v->count; i++) text_printf(t, "%s%d", i ? ", " : "", v->items[i]);
  text_printf(t, "]");
}

static void append_sizes(text *t, const ir_program *p, const ir_int_or_vids *v) {
  text_printf(t, "[");
  for (uint32_t i = 0; i < v->count; i++) {
    if (i) text_printf(t, ", ");
    append_int(t, p, &v->items[i]);
  }
  text_printf(t, "]");
}

/* False for fields that are operands or absent: nothing to say. */
static bool has_value(const ir_field *f, const void *field) {
  switch (f->kind) {
    case IR_FIELD_TID:
    case IR_FIELD_TIDS:
      return false;
    case IR_FIELD_TABLE:
      return false;
    case IR_FIELD_TABLES:
      return f->table == &ir_step_table;
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
      return f->kind != IR_FIELD_UNION;
  }
}

static void append_field(text *t, const ir_program *p, const ir_field *f, const void *v) {
  switch (f->kind) {
    case IR_FIELD_BOOL:
      text_printf(t, "%s", *(const bool *)v ? "true" : "false");
      break;
    case IR_FIELD_I32:
      text_printf(t, "%d", *(const int32_t *)v);
      break;
    case IR_FIELD_U32:
      text_printf(t, "%u", *(const uint32_t *)v);
      break;
    case IR_FIELD_I64:
      text_printf(t, "%" PRId64, *(const int64_t *)v);
      break;
    case IR_FIELD_U64:
      text_printf(t, "%" PRIu64, *(const uint64_t *)v);
      break;
    case IR_FIELD_F64:
      text_printf(t, "%.9g", *(const double *)v);
      break;
    case IR_FIELD_ENUM:
      text_printf(t, "%s", enum_text(f->enum_, enum_number(v)));
      break;
    case IR_FIELD_VID:
      text_printf(t, "%s", p->values.items[*(const uint32_t *)v].name);
      break;
    case IR_FIELD_STRING:
      text_printf(t, "'%s'", *(const char *const *)v);
      break;
    case IR_FIELD_INT_OR_VID:
      append_int(t, p, v);
      break;
    case IR_FIELD_FLOAT_OR_VID:
      append_float(t, p, v);
      break;
    case IR_FIELD_OPT_I32:
      text_printf(t, "%d", ((const ir_opt_i32 *)v)->value);
      break;
    case IR_FIELD_OPT_I64:
      text_printf(t, "%" PRId64, ((const ir_opt_i64 *)v)->value);
      break;
    case IR_FIELD_OPT_F64:
      text_printf(t, "%.9g", ((const ir_opt_f64 *)v)->value);
      break;
    case IR_FIELD_I32S:
      append_ints(t, v);
      break;
    case IR_FIELD_INT_OR_VIDS:
      append_sizes(t, p, v);
      break;
    case IR_FIELD_TABLES:
      append_steps(t, p, v);
      break;
    default:
      break;
  }
}

static void append_detail(text *t, const ir_program *p, const ir_instruction *ins) {
  const ir_table *table = ir_op_tables[ins->op_type];
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *f = &table->fields[i];
    const void *v = (const char *)ins->op + f->offset;
    if (!has_value(f, v)) continue;
    text_printf(t, "%s%s=", t->size ? " " : "", f->name);
    append_field(t, p, f, v);
  }
}

static clave_status make_detail(clave_program *c, uint32_t chain, uint32_t index,
                                const char **out) {
  const ir_chains *chains = &c->p->ir.chains;
  if (!c->detail) c->detail = mem_pool_alloc(c->pool, chains->count + 1, sizeof *c->detail);
  if (!c->detail) return status_no_memory();
  if (!c->detail[chain])
    c->detail[chain] =
        mem_pool_alloc(c->pool, chains->items[chain].instructions.count + 1, sizeof(char *));
  if (!c->detail[chain]) return status_no_memory();
  const char **slot = &c->detail[chain][index];
  if (!*slot) {
    text t = {0};
    append_detail(&t, &c->p->ir, &chains->items[chain].instructions.items[index]);
    clave_status st = text_status(&t);
    if (!st && !(*slot = mem_pool_strdup(c->pool, t.data ? t.data : "", t.size)))
      st = status_no_memory();
    text_free(&t);
    TRY(st);
  }
  *out = *slot;
  return NULL;
}

static void list_operand(clave_node_info *info, const operand *o) {
  uint32_t *list = o->flags & IR_OUT ? info->writes : info->reads,
           *n = o->flags & IR_OUT ? &info->n_writes : &info->n_reads;
  if (*n < CLAVE_MAX_OPERANDS) list[*n] = o->tid;
  ++*n;
}

clave_status clave_program_node(const clave_program *c, const char *method, uint32_t index,
                                clave_node_info *out) {
  union {
    const clave_program *in;
    clave_program *out;
  } cast = {c}; /* only the texts made on request change, under their lock */
  uint32_t m;
  TRY(program_find_method(c, method, &m));
  uint32_t chain = c->p->ir.methods.items[m].chain, at = 0;
  uint32_t count = program_count_nodes(&c->p->ir, chain);
  if (index >= count) return INVALID("node %u of a method with %u", index, count);
  program_find_node(&c->p->ir, index, &chain, &at);
  const ir_instruction *ins = &c->p->ir.chains.items[chain].instructions.items[at];
  clave_node_info info = {.op = op_table[ins->op_type].name, .name = ins->name};
  mutex_lock(c->lock);
  clave_status st = make_detail(cast.out, chain, at, &info.detail);
  mutex_unlock(c->lock);
  for (operand_iter i = operands_of(ins); !st && next_operand(&i);) list_operand(&info, &i.o);
  return st ? st : sized_write(&info, out, SIZED(clave_node_info, writes));
}
