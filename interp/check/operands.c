/* Copies a node's operands to the CPU backend; constants are read from the mapped program file. Of
 * large operands, only the last rows are copied, along the first dimension of size > 1 that the op
 * processes independently. The last rows have the largest indices and exercise the remainders of
 * all loops. */
#include "interp/check/operands.h"

#include <stdlib.h>
#include <string.h>

#include "interp/check/reference.h"
#include "interp/check/rounded.h"
#include "interp/host_copy.h"
#include "ops/attention.h"
#include "ops/epilogue.h"

/* If the operands have more bytes than COMPARED_BYTES, only some rows are compared. If the op has
 * no independent rows, the whole results are compared, up to WHOLE_BYTES. */
#ifndef CLAVE_COMPARED_BYTES /* tests make it small */
#define CLAVE_COMPARED_BYTES ((int64_t)64 << 20)
#endif
static const int64_t COMPARED_BYTES = CLAVE_COMPARED_BYTES, WHOLE_BYTES = (int64_t)512 << 20;

/* ---------------------------------------------------------------- compared rows */

static int axis_from_start(int32_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

/* The leading dimensions of the results that an op processes row by row: a row of the results
 * depends only on the same row of the operands. */
typedef enum row_kind {
  ROWS_NONE,
  ROWS_FIRST,         /* the first dimension */
  ROWS_ALL_BUT_LAST,  /* all except the last `n` */
  ROWS_ALL_BUT_AXES,  /* all except the last dimensions, whose number is in the field */
  ROWS_BEFORE_AXIS,   /* dimensions before the axis in the field */
  ROWS_BEFORE_AXES,   /* dimensions before the first of the axes in the field */
  ROWS_BEFORE_OPTION, /* dimensions before the axis in the field; none if the field is absent */
} row_kind;

static const struct {
  uint8_t kind, n;
  size_t field; /* offset in the op's struct */
} row_rules[IR_OP_COUNT] = {
    [IR_OP_ELEMENTWISE] = {ROWS_ALL_BUT_LAST, 0, 0},
    [IR_OP_COPY] = {ROWS_ALL_BUT_LAST, 0, 0},
    [IR_OP_MATMUL] = {ROWS_ALL_BUT_LAST, 1, 0},
    [IR_OP_MATMUL_INTEGER] = {ROWS_ALL_BUT_LAST, 1, 0},
    [IR_OP_TRIANGLE] = {ROWS_ALL_BUT_LAST, 2, 0},
    [IR_OP_DISTANCE] = {ROWS_ALL_BUT_LAST, 2, 0},
    [IR_OP_ATTENTION] = {ROWS_ALL_BUT_LAST, 3, 0},
    [IR_OP_ROPE] = {ROWS_ALL_BUT_LAST, 3, 0},
    [IR_OP_LAYER_NORM] = {ROWS_ALL_BUT_AXES, 0, offsetof(ir_layer_norm, n_axes)},
    [IR_OP_RMS_NORM] = {ROWS_ALL_BUT_AXES, 0, offsetof(ir_rms_norm, n_axes)},
    [IR_OP_CAT] = {ROWS_BEFORE_AXIS, 0, offsetof(ir_cat, axis)},
    [IR_OP_SOFTMAX] = {ROWS_BEFORE_AXIS, 0, offsetof(ir_softmax, axis)},
    [IR_OP_CUMULATE] = {ROWS_BEFORE_AXIS, 0, offsetof(ir_cumulate, axis)},
    [IR_OP_SORT] = {ROWS_BEFORE_AXIS, 0, offsetof(ir_sort, axis)},
    [IR_OP_REDUCE] = {ROWS_BEFORE_AXES, 0, offsetof(ir_reduce, axes)},
    [IR_OP_ARG_REDUCE] = {ROWS_BEFORE_OPTION, 0, offsetof(ir_arg_reduce, axis)},
    [IR_OP_GROUP_NORM] = {ROWS_FIRST, 0, 0},
    [IR_OP_BATCH_NORM] = {ROWS_FIRST, 0, 0},
    [IR_OP_CONV] = {ROWS_FIRST, 0, 0},
    [IR_OP_CONV_TRANSPOSE] = {ROWS_FIRST, 0, 0},
    [IR_OP_CONV_INTEGER] = {ROWS_FIRST, 0, 0},
    [IR_OP_POOL] = {ROWS_FIRST, 0, 0},
    [IR_OP_ADAPTIVE_POOL] = {ROWS_FIRST, 0, 0},
    [IR_OP_UPSAMPLE] = {ROWS_FIRST, 0, 0},
    [IR_OP_GRID_SAMPLE] = {ROWS_FIRST, 0, 0},
    [IR_OP_IM2COL] = {ROWS_FIRST, 0, 0},
    [IR_OP_COL2IM] = {ROWS_FIRST, 0, 0},
};

static int first_axis(const ir_i32s *axes, int rank) {
  int first = axes->count ? rank : 0;
  for (uint32_t i = 0; i < axes->count; i++) {
    int axis = axis_from_start(axes->items[i], rank);
    if (axis < first) first = axis;
  }
  return first;
}

/* Returns the number of independent leading dimensions. rank: of the results; in_rank: of the first
 * operand, to which the axes of a reduction refer. */
static int independent_dims(const ir_instruction *ins, int rank, int in_rank) {
  const void *field = (const char *)ins->op + row_rules[ins->op_type].field;
  const ir_opt_i32 *option = field;
  switch ((row_kind)row_rules[ins->op_type].kind) {
    case ROWS_NONE:
      return 0;
    case ROWS_FIRST:
      return 1;
    case ROWS_ALL_BUT_LAST:
      return rank - row_rules[ins->op_type].n;
    case ROWS_ALL_BUT_AXES:
      return rank - *(const int32_t *)field;
    case ROWS_BEFORE_AXIS:
      return axis_from_start(*(const int32_t *)field, rank);
    case ROWS_BEFORE_AXES:
      return first_axis(field, in_rank);
    case ROWS_BEFORE_OPTION:
      return option->present ? axis_from_start(option->value, in_rank) : 0;
  }
  return 0;
}

static bool broadcasts(const ir_instruction *ins) {
  return ins->op_type == IR_OP_ELEMENTWISE || ins->op_type == IR_OP_COPY ||
         ins->op_type == IR_OP_MATMUL || ins->op_type == IR_OP_ATTENTION;
}

/* True if every row reads the whole operand. */
static bool is_shared(const char *field) {
  static const char *const fields[] = {"weight", "mean", "var", "cos", "sin"};
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (strcmp(field, fields[i]) == 0) return true;
  return false;
}

/* True if no slot occurs twice among the operands. */
static bool all_differ(const ir_instruction *ins) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    for (operand_iter k = i; next_operand(&k);)
      if (k.operand.tid == i.operand.tid) return false;
  return true;
}

/* True if b is one matrix for all rows. */
static bool has_one_matrix(const ir_instruction *ins, int axis, int out_rank) {
  if (ins->op_type == IR_OP_MATMUL_INTEGER) return true;
  return ins->op_type == IR_OP_MATMUL && axis == out_rank - 2;
}

/* Returns the operand's dimension along the compared axis; -1 if every row reads all of it. */
static int axis_of_operand(const checking *checking, const operand *operand) {
  const ir_instruction *ins = checking->nd->instruction;
  const tensor *tensor = &checking->nd->tensors[operand->tid].tensor;
  int axis = checking->compared.axis,
      out_rank = checking->nd->tensors[first_slot(ins, true)].tensor.rank;
  if (operand->flags & IR_OUT) return axis;
  if (is_shared(operand->field)) return -1;
  if (strcmp(operand->field, "b") == 0 && has_one_matrix(ins, axis, out_rank)) return -1;
  if (!broadcasts(ins) && !is_epilogue_input(operand))
    return strcmp(operand->field, "bias") == 0 ? -1 : axis;
  axis -= out_rank - tensor->rank;
  return axis >= 0 && tensor->dims[axis] != 1 ? axis : -1;
}

/* Sets *shared to the bytes of the operands that every row reads, and *row to the bytes of one row
 * of the other operands. Returns false if one of these has no rows along the compared axis. */
static bool measure_rows(const checking *checking, int64_t *shared, int64_t *row) {
  *shared = *row = 0;
  for (operand_iter i = operands_of(checking->nd->instruction); next_operand(&i);) {
    const tensor *tensor = &checking->nd->tensors[i.operand.tid].tensor;
    int64_t bytes = tensor_numel(tensor) * (int64_t)dtype_size(tensor->type);
    int axis = axis_of_operand(checking, &i.operand);
    if (axis >= tensor->rank || (axis >= 0 && tensor->dims[axis] != checking->compared.rows))
      return false;
    if (axis < 0) *shared += bytes;
    if (axis >= 0) *row += bytes / checking->compared.rows;
  }
  return true;
}

/* Sets checking->compared to as many of the last rows as fit. Returns false if the op has no
 * independent rows. */
static bool choose_compared_rows(checking *checking) {
  const ir_instruction *ins = checking->nd->instruction;
  if (!all_differ(ins)) return false;
  const tensor *out = &checking->nd->tensors[first_slot(ins, true)].tensor;
  uint32_t in = first_slot(ins, false);
  int in_rank = in == IR_NONE ? 0 : checking->nd->tensors[in].tensor.rank;
  int axis = 0, independent = independent_dims(ins, out->rank, in_rank);
  while (axis < independent && axis < out->rank && out->dims[axis] == 1) axis++;
  if (axis >= independent || axis >= out->rank) return false;
  int64_t shared, row;
  checking->compared = (row_range){.axis = axis, .rows = out->dims[axis]};
  if (!measure_rows(checking, &shared, &row)) return false;
  int64_t fit = row ? (COMPARED_BYTES - shared) / row : 1;
  checking->compared.count = fit < 1                         ? 1
                             : fit > checking->compared.rows ? checking->compared.rows
                                                             : fit;
  checking->compared.from = checking->compared.rows - checking->compared.count;
  return true;
}

/* Sets the views to the whole operands, or to their compared rows. */
static void make_views(checking *checking) {
  for (operand_iter i = operands_of(checking->nd->instruction); next_operand(&i);) {
    bound_tensor *tensor = &checking->view[i.operand.tid];
    *tensor = checking->nd->tensors[i.operand.tid];
    tensor->slot = i.operand.tid;
    int axis = checking->compared.axis < 0 ? -1 : axis_of_operand(checking, &i.operand);
    if (axis < 0) continue;
    tensor->tensor.offset += checking->compared.from * tensor->tensor.strides[axis];
    tensor->tensor.dims[axis] = checking->compared.count;
  }
}

/* ---------------------------------------------------------------- regions */

/* Finds the range of bytes that a tensor's elements span, relative to its buffer_offset. */
static void find_extent(const tensor *tensor, int64_t *low, int64_t *high) {
  int64_t first = tensor->offset, last = tensor->offset;
  for (int i = 0; i < tensor->rank; i++) {
    int64_t reach = (tensor->dims[i] - 1) * tensor->strides[i];
    if (reach < 0) first += reach;
    if (reach > 0) last += reach;
  }
  int64_t size = (int64_t)dtype_size(tensor->type);
  *low = first * size;
  *high = (last + 1) * size;
}

static region *region_of(const checking *checking, const bound_tensor *tensor) {
  for (uint32_t i = 0; i < checking->n_regions; i++)
    if (checking->regions[i].first->buf == tensor->buf &&
        checking->regions[i].first->buffer_offset == tensor->buffer_offset)
      return &checking->regions[i];
  return NULL;
}

static clave_status check_operands_collect(checking *checking, const operand *operand) {
  const bound_tensor *tensor = &checking->view[operand->tid];
  if (tensor_numel(&tensor->tensor) == 0) return NULL;
  int64_t low, high;
  find_extent(&tensor->tensor, &low, &high);
  region *area = region_of(checking, tensor);
  if (!area) {
    if (!array_reserve(&checking->regions, &checking->cap_regions, (size_t)checking->n_regions + 1,
                       sizeof *area))
      return status_no_memory();
    area = &checking->regions[checking->n_regions++];
    *area = (region){.first = tensor, .low = low, .high = high};
    area->constant = constant_store_host(checking->session->stores[checking->backend], tensor->buf);
  }
  if (low < area->low) area->low = low;
  if (high > area->high) area->high = high;
  bool is_out = operand->flags & IR_OUT;
  if (is_out) area->is_written = true;
  if (is_out && operand->reuses == IR_NONE) return NULL;
  area->is_read = true; /* a result that reuses an operand already contains its data */
  area->type = tensor->tensor.type;
  return NULL;
}

static clave_status find_regions(checking *checking, int64_t *bytes) {
  checking->n_regions = 0;
  make_views(checking);
  for (operand_iter i = operands_of(checking->nd->instruction); next_operand(&i);)
    TRY(check_operands_collect(checking, &i.operand));
  *bytes = 0;
  for (uint32_t i = 0; i < checking->n_regions; i++) {
    region *region = &checking->regions[i];
    if (region->constant)
      region->low = 0; /* keeps the alignment of the file */
    else
      *bytes += region->high - region->low;
  }
  return NULL;
}

static clave_status read_region(checking *checking, region *region) {
  size_t n = (size_t)(region->high - region->low);
  region->host = malloc(region_bytes(region));
  if (!region->host) return status_no_memory();
  TRY(checking->session->devices.backends[checking->backend]->vt->read(
      checking->session->streams[checking->backend], region->first->buf,
      region->first->buffer_offset + (size_t)region->low, region->host, n));
  return NULL;
}

static clave_status copy_region(checking *checking, region *region) {
  backend *cpu = checking->session->oracle->cpu;
  size_t n = region_bytes(region);
  if (region->constant)
    return cpu->vt->buffer_wrap(cpu, (const char *)region->constant + region->first->buffer_offset,
                                n, false, &region->copy);
  TRY(cpu->vt->buffer_create(cpu, n, &region->copy));
  if (!region->is_read) return NULL;
  TRY(read_region(checking, region));
  return cpu->vt->write(checking->session->oracle->queue, region->copy, 0, region->host, n);
}

static void bind_copy(const checking *checking, uint32_t tid) {
  const bound_tensor *tensor = &checking->view[tid];
  bound_tensor *copy = &checking->copy[tid];
  *copy = *tensor;
  copy->buffer_offset = 0;
  copy->buf = NULL; /* if it has no elements */
  const region *region = region_of(checking, tensor);
  if (!region || tensor_numel(&tensor->tensor) == 0) return;
  copy->buf = region->copy;
  copy->tensor.offset -= region->low / (int64_t)dtype_size(tensor->tensor.type);
}

/* Chooses the rows to compare, unless checking->compared is set already. Sets *fits to false if
 * even the chosen rows are too large. */
static clave_status choose_extent(checking *checking, bool *fits) {
  int64_t bytes;
  *fits = true;
  bool given = checking->compared.count > 0;
  if (!given) checking->compared.axis = -1;
  TRY(find_regions(checking, &bytes));
  if (given || checking->is_whole || bytes <= COMPARED_BYTES) return NULL;
  if (!choose_compared_rows(checking)) checking->compared.axis = -1;
  TRY(find_regions(checking, &bytes));
  *fits = bytes <= WHOLE_BYTES;
  return NULL;
}

clave_status copy_operands(checking *checking, bool *fits) {
  size_t slots = (size_t)slot_count(checking->session->prog) + 2;
  checking->view = calloc(slots, sizeof *checking->view);
  checking->copy = calloc(slots, sizeof *checking->copy);
  if (!checking->view || !checking->copy) return status_no_memory();
  TRY(choose_extent(checking, fits));
  if (!*fits) return NULL;
  for (uint32_t i = 0; i < checking->n_regions; i++)
    TRY(copy_region(checking, &checking->regions[i]));
  for (operand_iter i = operands_of(checking->nd->instruction); next_operand(&i);)
    bind_copy(checking, i.operand.tid);
  return NULL;
}

clave_status restore_copies(checking *checking) {
  const oracle *oracle = checking->session->oracle;
  for (uint32_t i = 0; i < checking->n_regions; i++) {
    region *region = &checking->regions[i];
    if (region->host)
      TRY(oracle->cpu->vt->write(oracle->queue, region->copy, 0, region->host,
                                 region_bytes(region)));
  }
  return NULL;
}

static clave_status run_recording(const checking *checking, const recording *recording) {
  const oracle *oracle = checking->session->oracle;
  const backend_vtable *vt = oracle->cpu->vt;
  run_operands now = {.tensors = checking->copy, .random = checking->session->random};
  void *state = NULL;
  TRY(vt->buffer_create(oracle->cpu, recording->scratch_bytes, &now.scratch));
  clave_status st = vt->run(oracle->queue, recording, &state, &now, checking->number);
  vt->state_destroy(oracle->queue, state);
  vt->buffer_destroy(oracle->cpu, now.scratch);
  return st;
}

static clave_status check_operands_run_instruction(const checking *checking,
                                                   const ir_instruction *ins, device_fault *fault) {
  const oracle *oracle = checking->session->oracle;
  const backend_vtable *vt = oracle->cpu->vt;
  recording *recorded;
  node copy = *checking->nd;
  copy.instruction = ins;
  copy.tensors = checking->copy;
  TRY(vt->record(oracle->cpu, &copy, false, &recorded));
  clave_status st = run_recording(checking, recorded);
  vt->recording_destroy(oracle->cpu, recorded);
  TRY(st);
  return vt->finish(oracle->queue, fault);
}

/* A copy of an op that rounds its factors, with pointers to the two factors. */
typedef struct rounding_op {
  union {
    ir_matmul matmul;
    ir_grouped_matmul grouped;
    ir_conv conv;
  } op;
  uint32_t *a, *b;
} rounding_op;

static void copy_op(const ir_instruction *ins, rounding_op *to) {
  if (ins->op_type == IR_OP_CONV) {
    to->op.conv = *(const ir_conv *)ins->op;
    to->a = &to->op.conv.x;
    to->b = &to->op.conv.weight;
  } else if (ins->op_type == IR_OP_GROUPED_MATMUL) {
    to->op.grouped = *(const ir_grouped_matmul *)ins->op;
    to->a = &to->op.grouped.a;
    to->b = &to->op.grouped.b;
  } else {
    to->op.matmul = *(const ir_matmul *)ins->op;
    to->a = &to->op.matmul.a;
    to->b = &to->op.matmul.b;
  }
}

/* Binds the rounded factors to the two extra slots, so that other operands are not rounded. */
static clave_status run_rounded(checking *checking, device_fault *fault) {
  ir_instruction ins = *checking->nd->instruction;
  rounding_op op;
  uint32_t slot = slot_count(checking->session->prog);
  bound_tensor *tensor = &checking->copy[slot], *operand = &checking->copy[slot + 1];
  copy_op(checking->nd->instruction, &op);
  TRY(bind_rounded(checking, &checking->copy[*op.a], checking->copy[*op.a].tensor.type,
                   &checking->rounded[0], tensor));
  tensor->slot = *op.a = slot;
  if (checking->rounds == ROUNDS_TO_BF16) {
    TRY(bind_rounded(checking, &checking->copy[*op.b], DTYPE_F32, &checking->rounded[1], operand));
    operand->slot = *op.b = slot + 1;
  }
  ins.op = &op.op;
  return check_operands_run_instruction(checking, &ins, fault);
}

clave_status run_oracle(checking *checking, device_fault *fault) {
  const ir_instruction *ins = checking->nd->instruction;
  *fault = (device_fault){0};
  if (ins->op_type == IR_OP_CUSTOM) return run_reference(checking, fault);
  /* Which sums are halves depends on the kernel: results.c allows for them. */
  return checking->rounds == ROUNDS_NOTHING || checking->rounds == ROUNDS_TO_F16
             ? check_operands_run_instruction(checking, ins, fault)
             : run_rounded(checking, fault);
}

void free_copies(checking *checking) {
  for (int i = 0; i < 2; i++)
    if (checking->rounded[i])
      checking->session->oracle->cpu->vt->buffer_destroy(checking->session->oracle->cpu,
                                                         checking->rounded[i]);
  for (uint32_t i = 0; i < checking->n_regions; i++) {
    if (checking->regions[i].copy)
      checking->session->oracle->cpu->vt->buffer_destroy(checking->session->oracle->cpu,
                                                         checking->regions[i].copy);
    free(checking->regions[i].host);
  }
  free(checking->regions);
  free(checking->view);
  free(checking->copy);
}
