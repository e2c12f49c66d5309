/* The verifier's first half, the declarations: tensors, values, constants, initial states, and the
 * schema version. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "ops/epilogue.h"
#include "serialize/limits.h"
#include "serialize/verify.h"

clave_status tensor_error(const ir_program *program, uint32_t tid, const char *message) {
  return INVALID("tensor %u ('%.200s') %s", tid, program->tensors.items[tid].name, message);
}

static int compare_strings(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static clave_status check_name(const char *name, const char *what, uint32_t index) {
  size_t n = strlen(name);
  if (n == 0) return INVALID("%s %u has no name", what, index);
  return n <= LIMIT_NAME ? NULL
                         : INVALID("%s %u: expected a name of at most %d bytes, got %zu", what,
                                   index, (int)LIMIT_NAME, n);
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

static clave_status verify_types_check_dim(const ir_program *program, const ir_int_or_vid *value,
                                           int64_t *out) {
  if (value->vid == IR_NONE) {
    *out = value->literal;
    return value->literal >= 0
               ? NULL
               : INVALID("dimension of size %lld: expected 0 or more", (long long)value->literal);
  }
  *out = DIM_UNKNOWN;
  if (value->vid >= program->values.count)
    return INVALID("dimension is value %u, which is out of range: the program has %u", value->vid,
                   program->values.count);
  if (program->values.items[value->vid].type != IR_VALUE_TYPE_INT)
    return INVALID("dimension is value %u, which is not an int", value->vid);
  return NULL;
}

/* True if the product of the known dimensions does not overflow. Dimensions of 0 count as 1. */
static bool size_fits(const tensor *tensor) {
  int64_t bytes = (int64_t)dtype_size(tensor->type);
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] > 1 && !mul_i64(bytes, tensor->dims[i], &bytes)) return false;
  }
  return true;
}

static bool all_known(const tensor *tensor) {
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] == DIM_UNKNOWN) return false;
  }
  return true;
}

static bool verify_types_is_small_float(dtype t) {
  return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

static clave_status make_groups(const ir_encoding *format, encoding *out) {
  if (format->bits < 2 || format->bits > 8)
    return INVALID("codes: expected 2 to 8 bits, got %d", format->bits);
  if (format->code != IR_CODE_KIND_INT && format->bits != 8)
    return INVALID("floats: expected 8 bits, got %d", format->bits);
  if (format->group < 0 || format->group % 16)
    return INVALID("groups: expected a multiple of 16, or 0 for whole rows, got %d", format->group);
  if (!verify_types_is_small_float(format->scale))
    return INVALID("scales: expected F32, F16 or BF16, got %s", dtype_name(format->scale));
  out->kind = ENCODING_GROUPS;
  out->code = (uint8_t)format->code;
  out->bits = (uint8_t)format->bits;
  out->scale = (uint8_t)format->scale;
  out->has_zeros = format->has_zeros;
  out->group = (uint32_t)format->group;
  return NULL;
}

static clave_status make_blocks(const ir_encoding *format, const tensor *value, encoding *out) {
  if (!block_format_find(format->format, &out->format))
    return UNSUPPORTED("block format '%.40s' is not supported", format->format);
  out->kind = ENCODING_BLOCKS;
  int size = block_format_at(out->format)->elements;
  tensor rows = *value;
  rows.encoding = *out;
  if (tensor_row(&rows) % size == 0) return NULL;
  return INVALID("rows: expected a multiple of %s's %d, got %lld", format->format, size,
                 (long long)tensor_row(&rows));
}

/* Sets the tensor's encoding. Its other fields must be set. */
static clave_status make_encoding(const ir_encoding *format, tensor *tensor) {
  encoding encoding = {0};
  size_t bytes;
  if (format->kind == IR_ENCODING_KIND_PLAIN) return NULL;
  if (format->kind == IR_ENCODING_KIND_BLOCKED)
    return UNSUPPORTED("encoding blocked is not supported");
  if (!all_known(tensor)) return INVALID("is encoded, so its shape must be fixed");
  if (!verify_types_is_small_float(tensor->type))
    return INVALID("dtype: expected F32, F16 or BF16 as it is encoded, got %s",
                   dtype_name(tensor->type));
  if (format->axis < 0 || format->axis >= tensor->rank)
    return INVALID("rows: axis %d is out of range for rank %d", format->axis, tensor->rank);
  encoding.axis = (uint8_t)format->axis;
  TRY(format->kind == IR_ENCODING_KIND_BLOCK_FORMAT ? make_blocks(format, tensor, &encoding)
                                                    : make_groups(format, &encoding));
  tensor->encoding = encoding;
  return tensor_bytes(tensor, &bytes) ? NULL : INVALID("the size of the tensor overflows");
}

static clave_status make_type(const ir_program *program, const ir_tensor *declared, tensor *out) {
  if (strlen(declared->name) > LIMIT_NAME)
    return INVALID("expected a name of at most %d bytes, got %zu", (int)LIMIT_NAME,
                   strlen(declared->name));
  if (declared->shape.count > MAX_RANK)
    return INVALID("expected rank 0 to %d, got %u", (int)MAX_RANK, declared->shape.count);
  out->type = declared->dtype;
  out->rank = (int)declared->shape.count;
  for (int i = 0; i < out->rank; i++)
    TRY(verify_types_check_dim(program, &declared->shape.items[i], &out->dims[i]));
  if (!size_fits(out)) return INVALID("the size of the tensor overflows");
  if (all_known(out)) tensor_set_contiguous(out);
  return declared->encoding ? make_encoding(declared->encoding, out) : NULL;
}

/* Checks that at most one dimension is open (chosen by the session), with bounds. */
static clave_status check_state_shape(const ir_program *program, uint32_t tid) {
  const ir_int_or_vids *shape = &program->tensors.items[tid].shape;
  size_t bytes;
  int n_open = 0;
  for (uint32_t i = 0; i < shape->count; i++) {
    uint32_t vid = shape->items[i].vid;
    if (vid == IR_NONE) continue;
    const ir_value *value = &program->values.items[vid];
    if (!value->min.present || !value->max.present || value->min.value < 1)
      return INVALID("dimension %u is value %u ('%.200s'), which needs bounds of at least 1", i,
                     vid, value->name);
    n_open++;
  }
  if (n_open > 1) return INVALID("dimensions: expected at most one value, got %d", n_open);
  return program_state_bytes(program, tid, &bytes) ? NULL
                                                   : INVALID("the size of the tensor overflows");
}

static clave_status make_types(program *program) {
  const ir_tensors *tensors = &program->ir.tensors;
  program->types = mem_pool_alloc(program->pool, tensors->count, sizeof *program->types);
  if (!program->types) return status_no_memory();
  for (uint32_t i = 0; i < tensors->count; i++) {
    clave_status st = make_type(&program->ir, &tensors->items[i], &program->types[i]);
    if (st) return status_while(st, "tensor %u ('%.200s')", i, tensors->items[i].name);
    slot_kind kind = program_slot_kind(&program->ir, i);
    if (kind == SLOT_CONSTANT && !all_known(&program->types[i]))
      return tensor_error(&program->ir, i, "is a constant, so its shape must be fixed");
    if (kind == SLOT_STATE)
      TRY(status_while(check_state_shape(&program->ir, i), "state %u ('%.200s')", i,
                       tensors->items[i].name));
    if (kind != SLOT_CONSTANT && program->types[i].encoding.kind)
      return tensor_error(&program->ir, i, "is encoded, and only constants can be encoded");
  }
  return NULL;
}

/* ---------------------------------------------------------------- other parts */

static clave_status check_counts(const ir_program *program) {
  uint64_t slots = (uint64_t)program->constants.count + program->n_inputs + program->n_outputs +
                   program->n_state;
  if (slots <= program->tensors.count) return NULL;
  return INVALID(
      "the program declares %u constants, %u inputs, %u outputs and %u states, but only %u tensors",
      program->constants.count, program->n_inputs, program->n_outputs, program->n_state,
      program->tensors.count);
}

static clave_status check_values(const ir_values *values) {
  for (uint32_t i = 0; i < values->count; i++) {
    const ir_value *value = &values->items[i];
    if (strlen(value->name) > LIMIT_NAME)
      return INVALID("value %u has a name of %zu bytes", i, strlen(value->name));
    bool bounded = value->min.present || value->max.present;
    if (bounded && value->type != IR_VALUE_TYPE_INT)
      return INVALID("value %u ('%.200s') has bounds but is not an int", i, value->name);
    if (value->min.present && value->max.present && value->min.value > value->max.value) {
      return INVALID("value %u ('%.200s') has min %lld above max %lld", i, value->name,
                     (long long)value->min.value, (long long)value->max.value);
    }
  }
  return NULL;
}

static bool same_type(const tensor *left, const tensor *right) {
  return left->type == right->type && left->rank == right->rank &&
         memcmp(left->dims, right->dims, (size_t)left->rank * sizeof *left->dims) == 0;
}

static clave_status check_state_init(const program *program, const ir_state_init *init,
                                     bool *seen) {
  if (init->state >= program->ir.tensors.count ||
      program_slot_kind(&program->ir, init->state) != SLOT_STATE) {
    return INVALID("tensor %u is not a state", init->state);
  }
  if (init->constant >= program->ir.constants.count)
    return INVALID("tensor %u is not a constant", init->constant);
  bool *one = &seen[init->state];
  if (*one) return tensor_error(&program->ir, init->state, "has two initial values");
  *one = true;
  if (program->types[init->constant].encoding.kind)
    return INVALID("constant %u is encoded and cannot be an initial value", init->constant);
  if (same_type(&program->types[init->state], &program->types[init->constant])) return NULL;
  return INVALID("state %u and its initial value, constant %u, differ in dtype or shape",
                 init->state, init->constant);
}

static clave_status check_state_inits(const program *program) {
  const ir_state_inits *inits = &program->ir.state_inits;
  bool *seen = calloc((size_t)program->ir.tensors.count + 1, sizeof *seen);
  if (!seen) return status_no_memory();
  clave_status st = NULL;
  for (uint32_t i = 0; i < inits->count && !st; i++) {
    st = status_while(check_state_init(program, &inits->items[i], seen), "state_inits[%u]", i);
  }
  free(seen);
  return st;
}

/* ---------------------------------------------------------------- versions */

enum { ENCODINGS_SINCE = 3, BLOCK_ROWS_SINCE = 6 /* blocks of several dimensions */ };

static void need(version_need *need, int version, const char *what, const char *name) {
  if (version > need->version) *need = (version_need){version, what, name};
}
static void need_dtype(version_need *version_need, dtype t) {
  need(version_need, ir_dtype_since(t), "dtype ", dtype_name(t));
}

/* Raises the need if an operand is encoded and the op accepted only plain operands in its first
 * version. */
static void need_encoded(const ir_program *program, const ir_instruction *ins,
                         version_need *version_need) {
  const ir_table *table = op_table[ins->op_type].table;
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *field = &table->fields[i];
    uint32_t tid;
    if (!field->encoded_since) continue;
    memcpy(&tid, (const char *)ins->op + field->offset, sizeof tid);
    if (tid < program->tensors.count && tensor_is_encoded(&program->tensors.items[tid]))
      need(version_need, field->encoded_since, "an encoding of ", field->name);
  }
}

version_need instruction_needs(const ir_program *program, const ir_instruction *ins) {
  const op_info *info = &op_table[ins->op_type];
  version_need version_need = {info->since, "op ", info->name};
  const ir_elementwise *elementwise = ins->op;
  const ir_custom *custom = ins->op;
  const ir_steps *steps =
      ins->op_type == IR_OP_ELEMENTWISE ? &elementwise->steps : epilogue_of(ins);
  if (epilogue_of(ins))
    need(&version_need, epilogue_since(ins->op_type), "an epilogue of ", info->name);
  need_encoded(program, ins, &version_need);
  for (uint32_t i = 0; steps && i < steps->count; i++)
    need_dtype(&version_need, steps->items[i].dtype);
  for (uint32_t k = 0; ins->op_type == IR_OP_CUSTOM && k < custom->kernels.count; k++) {
    const ir_custom_parameters *all = &custom->kernels.items[k].parameters;
    for (uint32_t i = 0; i < all->count; i++) need_dtype(&version_need, all->items[i].dtype);
  }
  return version_need;
}

static bool has_block_rows(const ir_tensor *tensor) {
  return tensor->encoding && tensor->encoding->kind == IR_ENCODING_KIND_BLOCK_FORMAT &&
         (int64_t)tensor->encoding->axis + 1 < tensor->shape.count;
}

version_need tensor_needs(const ir_tensor *tensor) {
  version_need version_need = {0};
  need_dtype(&version_need, tensor->dtype);
  if (tensor_is_encoded(tensor)) need(&version_need, ENCODINGS_SINCE, "an encoding", "");
  if (has_block_rows(tensor))
    need(&version_need, BLOCK_ROWS_SINCE, "blocks in rows of several dimensions", "");
  return version_need;
}

static clave_status check_need(const ir_program *program, version_need need) {
  if ((uint32_t)need.version <= program->version) return NULL;
  return INVALID("%s%s needs schema version %d, the program says %u", need.what, need.name,
                 need.version, program->version);
}

/* Checks that nothing needs a later version than the program declares, and that this build
 * supports that version. */
static clave_status check_versions(const ir_program *program) {
  for (uint32_t c = 0; c < program->chains.count; c++) {
    const ir_instructions *list = &program->chains.items[c].instructions;
    for (uint32_t i = 0; i < list->count; i++)
      TRY(check_need(program, instruction_needs(program, &list->items[i])));
  }
  for (uint32_t i = 0; i < program->tensors.count; i++)
    TRY(check_need(program, tensor_needs(&program->tensors.items[i])));
  if (program->version <= IR_SCHEMA_VERSION) return NULL;
  return UNSUPPORTED("the program needs schema version %u, and this build supports version %d",
                     program->version, (int)IR_SCHEMA_VERSION);
}

clave_status verify_types(program *program) {
  const ir_constants *constants = &program->ir.constants;
  TRY(check_versions(&program->ir));
  TRY(check_counts(&program->ir));
  TRY(check_values(&program->ir.values));
  TRY(verify_names(constants->items, constants->count, sizeof *constants->items,
                   offsetof(ir_constant, name), "constant"));
  TRY(make_types(program));
  return check_state_inits(program);
}
