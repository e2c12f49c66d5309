/* Copies of a node's operands for the CPU backend. Constants are read where the program's file is
 * mapped. Of large operands a part is taken: the last rows along the first dimension that the op
 * works on row by row, which are those with the largest indices and the tails of all loops. */
#include "interp/check/operands.h"

#include <stdlib.h>
#include <string.h>

#include "interp/check/reference.h"
#include "interp/check/rounded.h"
#include "interp/host_copy.h"
#include "ops/attention.h"
#include "ops/epilogue.h"

/* More than PART_BYTES are compared in part, and whole up to WHOLE_BYTES where the op has no
 * independent rows. */
#ifndef CLAVE_PART_BYTES /* tests make it small */
#define CLAVE_PART_BYTES ((int64_t)64 << 20)
#endif
static const int64_t PART_BYTES = CLAVE_PART_BYTES, WHOLE_BYTES = (int64_t)512 << 20;

/* ---------------------------------------------------------------- parts */

static int axis_from_start(int32_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

/* Which leading dimensions of its results an op treats row by row: nothing in one row depends on
 * another row of any operand. */
typedef enum row_kind {
  ROWS_NONE,
  ROWS_FIRST,     /* the first one */
  ROWS_BUT,       /* all but the last `n` */
  ROWS_BUT_AXES,  /* all but as many of the last as the field says */
  ROWS_TO_AXIS,   /* those before the field's axis */
  ROWS_TO_AXES,   /* those before the first of the field's axes */
  ROWS_TO_OPTION, /* those before the field's axis; without one, none */
} row_kind;

static const struct {
  uint8_t kind, n;
  size_t field; /* its offset in the op */
} row_rules[IR_OP_COUNT] = {
    [IR_OP_ELEMENTWISE] = {ROWS_BUT, 0, 0},
    [IR_OP_COPY] = {ROWS_BUT, 0, 0},
    [IR_OP_MATMUL] = {ROWS_BUT, 1, 0},
    [IR_OP_MATMUL_INTEGER] = {ROWS_BUT, 1, 0},
    [IR_OP_TRIANGLE] = {ROWS_BUT, 2, 0},
    [IR_OP_DISTANCE] = {ROWS_BUT, 2, 0},
    [IR_OP_ATTENTION] = {ROWS_BUT, 3, 0},
    [IR_OP_ROPE] = {ROWS_BUT, 3, 0},
    [IR_OP_LAYER_NORM] = {ROWS_BUT_AXES, 0, offsetof(ir_layer_norm, n_axes)},
    [IR_OP_RMS_NORM] = {ROWS_BUT_AXES, 0, offsetof(ir_rms_norm, n_axes)},
    [IR_OP_CAT] = {ROWS_TO_AXIS, 0, offsetof(ir_cat, axis)},
    [IR_OP_SOFTMAX] = {ROWS_TO_AXIS, 0, offsetof(ir_softmax, axis)},
    [IR_OP_CUMULATE] = {ROWS_TO_AXIS, 0, offsetof(ir_cumulate, axis)},
    [IR_OP_SORT] = {ROWS_TO_AXIS, 0, offsetof(ir_sort, axis)},
    [IR_OP_REDUCE] = {ROWS_TO_AXES, 0, offsetof(ir_reduce, axes)},
    [IR_OP_ARG_REDUCE] = {ROWS_TO_OPTION, 0, offsetof(ir_arg_reduce, axis)},
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

/* rank: of the results; in_rank: of the first operand, which a reduction's axes are of. */
static int independent_dims(const ir_instruction *ins, int rank, int in_rank) {
  const void *field = (const char *)ins->op + row_rules[ins->op_type].field;
  const ir_opt_i32 *option = field;
  switch ((row_kind)row_rules[ins->op_type].kind) {
    case ROWS_NONE:
      return 0;
    case ROWS_FIRST:
      return 1;
    case ROWS_BUT:
      return rank - row_rules[ins->op_type].n;
    case ROWS_BUT_AXES:
      return rank - *(const int32_t *)field;
    case ROWS_TO_AXIS:
      return axis_from_start(*(const int32_t *)field, rank);
    case ROWS_TO_AXES:
      return first_axis(field, in_rank);
    case ROWS_TO_OPTION:
      return option->present ? axis_from_start(option->value, in_rank) : 0;
  }
  return 0;
}

static bool broadcasts(const ir_instruction *ins) {
  return ins->op_type == IR_OP_ELEMENTWISE || ins->op_type == IR_OP_COPY ||
         ins->op_type == IR_OP_MATMUL || ins->op_type == IR_OP_ATTENTION;
}

/* What every row reads all of. */
static bool is_shared(const char *field) {
  static const char *const fields[] = {"weight", "mean", "var", "cos", "sin"};
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (strcmp(field, fields[i]) == 0) return true;
  return false;
}

/* No slot is twice among the operands. */
static bool all_differ(const ir_instruction *ins) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    for (operand_iter k = i; next_operand(&k);)
      if (k.o.tid == i.o.tid) return false;
  return true;
}

/* Whether b is one matrix for all rows. */
static bool has_one_matrix(const ir_instruction *ins, int axis, int out_rank) {
  if (ins->op_type == IR_OP_MATMUL_INTEGER) return true;
  return ins->op_type == IR_OP_MATMUL && axis == out_rank - 2;
}

/* The dimension of the operand that goes with the part's axis; -1: every row reads all of it. */
static int axis_of_operand(const checking *c, const operand *o) {
  const ir_instruction *ins = c->nd->instruction;
  const tensor *t = &c->nd->tensors[o->tid].t;
  int axis = c->part.axis, out_rank = c->nd->tensors[first_slot(ins, true)].t.rank;
  if (o->flags & IR_OUT) return axis;
  if (is_shared(o->field)) return -1;
  if (strcmp(o->field, "b") == 0 && has_one_matrix(ins, axis, out_rank)) return -1;
  if (!broadcasts(ins) && !is_epilogue_input(o)) return strcmp(o->field, "bias") == 0 ? -1 : axis;
  axis -= out_rank - t->rank;
  return axis >= 0 && t->dims[axis] != 1 ? axis : -1;
}

/* The bytes of operands that every row reads, and of one row of the others. False: an operand has
 * no such rows. */
static bool measure_rows(const checking *c, int64_t *shared, int64_t *row) {
  *shared = *row = 0;
  for (operand_iter i = operands_of(c->nd->instruction); next_operand(&i);) {
    const tensor *t = &c->nd->tensors[i.o.tid].t;
    int64_t bytes = tensor_numel(t) * (int64_t)dtype_size(t->type);
    int axis = axis_of_operand(c, &i.o);
    if (axis >= t->rank || (axis >= 0 && t->dims[axis] != c->part.rows)) return false;
    if (axis < 0) *shared += bytes;
    if (axis >= 0) *row += bytes / c->part.rows;
  }
  return true;
}

/* Chooses the last rows that fit. False: the op has no independent rows. */
static bool choose_part(checking *c) {
  const ir_instruction *ins = c->nd->instruction;
  if (!all_differ(ins)) return false;
  const tensor *out = &c->nd->tensors[first_slot(ins, true)].t;
  uint32_t in = first_slot(ins, false);
  int in_rank = in == IR_NONE ? 0 : c->nd->tensors[in].t.rank;
  int axis = 0, independent = independent_dims(ins, out->rank, in_rank);
  while (axis < independent && axis < out->rank && out->dims[axis] == 1) axis++;
  if (axis >= independent || axis >= out->rank) return false;
  int64_t shared, row;
  c->part = (part){.axis = axis, .rows = out->dims[axis]};
  if (!measure_rows(c, &shared, &row)) return false;
  int64_t fit = row ? (PART_BYTES - shared) / row : 1;
  c->part.count = fit < 1 ? 1 : fit > c->part.rows ? c->part.rows : fit;
  c->part.from = c->part.rows - c->part.count;
  return true;
}

/* Fills in the views: all of the operands, or the part. */
static void make_views(checking *c) {
  for (operand_iter i = operands_of(c->nd->instruction); next_operand(&i);) {
    bound_tensor *b = &c->view[i.o.tid];
    *b = c->nd->tensors[i.o.tid];
    b->slot = i.o.tid;
    int axis = c->part.axis < 0 ? -1 : axis_of_operand(c, &i.o);
    if (axis < 0) continue;
    b->t.offset += c->part.from * b->t.strides[axis];
    b->t.dims[axis] = c->part.count;
  }
}

/* ---------------------------------------------------------------- regions */

/* The bytes that a tensor's elements span, from the start of its buffer's stretch. */
static void find_extent(const tensor *t, int64_t *low, int64_t *high) {
  int64_t first = t->offset, last = t->offset;
  for (int i = 0; i < t->rank; i++) {
    int64_t reach = (t->dims[i] - 1) * t->strides[i];
    if (reach < 0) first += reach;
    if (reach > 0) last += reach;
  }
  int64_t size = (int64_t)dtype_size(t->type);
  *low = first * size;
  *high = (last + 1) * size;
}

static region *region_of(const checking *c, const bound_tensor *t) {
  for (uint32_t i = 0; i < c->n_regions; i++)
    if (c->regions[i].first->buf == t->buf &&
        c->regions[i].first->buffer_offset == t->buffer_offset)
      return &c->regions[i];
  return NULL;
}

static clave_status collect(checking *c, const operand *o) {
  const bound_tensor *t = &c->view[o->tid];
  if (tensor_numel(&t->t) == 0) return NULL;
  int64_t low, high;
  find_extent(&t->t, &low, &high);
  region *r = region_of(c, t);
  if (!r) {
    if (!array_reserve(&c->regions, &c->cap_regions, (size_t)c->n_regions + 1, sizeof *r))
      return status_no_memory();
    r = &c->regions[c->n_regions++];
    *r = (region){.first = t, .low = low, .high = high, .is_narrow = t->t.is_narrow};
    r->constant = constant_store_host(c->s->stores[c->backend], t->buf);
  }
  if (low < r->low) r->low = low;
  if (high > r->high) r->high = high;
  bool is_out = o->flags & IR_OUT;
  if (is_out) r->is_written = true;
  if (is_out && o->reuses == IR_NONE) return NULL;
  r->is_read = true; /* a result that reuses an operand lies where the planner has put that */
  r->type = tensor_own_type(&t->t);
  return NULL;
}

static clave_status find_regions(checking *c, int64_t *bytes) {
  c->n_regions = 0;
  make_views(c);
  for (operand_iter i = operands_of(c->nd->instruction); next_operand(&i);) TRY(collect(c, &i.o));
  *bytes = 0;
  for (uint32_t i = 0; i < c->n_regions; i++) {
    region *r = &c->regions[i];
    if (r->constant)
      r->low = 0; /* where the file is aligned */
    else
      *bytes += r->high - r->low;
  }
  return NULL;
}

static clave_status read_region(checking *c, region *r) {
  size_t n = (size_t)(r->high - r->low);
  r->host = malloc(region_bytes(r));
  if (!r->host) return status_no_memory();
  TRY(c->s->devices.backends[c->backend]->vt->read(c->s->streams[c->backend], r->first->buf,
                                                   r->first->buffer_offset + (size_t)r->low,
                                                   r->host, n));
  if (r->is_narrow) widen_bf16(r->host, (int64_t)(n / sizeof(uint16_t)));
  return NULL;
}

static clave_status copy_region(checking *c, region *r) {
  backend *cpu = c->s->oracle->cpu;
  size_t n = region_bytes(r);
  if (r->constant)
    return cpu->vt->buffer_wrap(cpu, (const char *)r->constant + r->first->buffer_offset, n, false,
                                &r->copy);
  TRY(cpu->vt->buffer_create(cpu, n, &r->copy));
  if (!r->is_read) return NULL;
  TRY(read_region(c, r));
  return cpu->vt->write(c->s->oracle->queue, r->copy, 0, r->host, n);
}

static void bind_copy(const checking *c, uint32_t tid) {
  const bound_tensor *t = &c->view[tid];
  bound_tensor *copy = &c->copy[tid];
  *copy = *t;
  copy->buffer_offset = 0;
  copy->buf = NULL; /* of no elements */
  const region *r = region_of(c, t);
  if (!r || tensor_numel(&t->t) == 0) return;
  copy->buf = r->copy;
  copy->t.offset -= r->low / (int64_t)dtype_size(t->t.type);
  copy->t.type = tensor_own_type(&t->t);
  copy->t.is_narrow = false;
}

/* Chooses the part unless it is given; *fits: not too much. */
static clave_status choose_extent(checking *c, bool *fits) {
  int64_t bytes;
  *fits = true;
  bool given = c->part.count > 0;
  if (!given) c->part.axis = -1;
  TRY(find_regions(c, &bytes));
  if (given || bytes <= PART_BYTES) return NULL;
  if (!choose_part(c)) c->part.axis = -1;
  TRY(find_regions(c, &bytes));
  *fits = bytes <= WHOLE_BYTES;
  return NULL;
}

clave_status copy_operands(checking *c, bool *fits) {
  size_t slots = (size_t)slot_count(c->s->prog) + 2;
  c->view = calloc(slots, sizeof *c->view);
  c->copy = calloc(slots, sizeof *c->copy);
  if (!c->view || !c->copy) return status_no_memory();
  TRY(choose_extent(c, fits));
  if (!*fits) return NULL;
  for (uint32_t i = 0; i < c->n_regions; i++) TRY(copy_region(c, &c->regions[i]));
  for (operand_iter i = operands_of(c->nd->instruction); next_operand(&i);) bind_copy(c, i.o.tid);
  return NULL;
}

clave_status restore_copies(checking *c) {
  const oracle *o = c->s->oracle;
  for (uint32_t i = 0; i < c->n_regions; i++) {
    region *r = &c->regions[i];
    if (r->host) TRY(o->cpu->vt->write(o->queue, r->copy, 0, r->host, region_bytes(r)));
  }
  return NULL;
}

static clave_status run_recording(const checking *c, const recording *r) {
  const oracle *o = c->s->oracle;
  const backend_vtable *vt = o->cpu->vt;
  run_operands now = {.tensors = c->copy, .random = c->s->random};
  void *state = NULL;
  TRY(vt->buffer_create(o->cpu, r->scratch_bytes, &now.scratch));
  clave_status st = vt->run(o->queue, r, &state, &now, c->number);
  vt->state_destroy(o->queue, state);
  vt->buffer_destroy(o->cpu, now.scratch);
  return st;
}

static clave_status run_instruction(const checking *c, const ir_instruction *ins, bool *faulty) {
  const oracle *o = c->s->oracle;
  const backend_vtable *vt = o->cpu->vt;
  device_fault fault = {0};
  recording *recorded;
  node copy = *c->nd;
  copy.instruction = ins;
  copy.tensors = c->copy;
  TRY(vt->record(o->cpu, &copy, false, &recorded));
  clave_status st = run_recording(c, recorded);
  vt->recording_destroy(o->cpu, recorded);
  TRY(st);
  TRY(vt->finish(o->queue, &fault));
  *faulty = fault.present;
  return NULL;
}

/* What rounds, and its two factors. */
typedef struct rounding_op {
  union {
    ir_matmul matmul;
    ir_grouped_matmul grouped;
    ir_conv conv;
    ir_conv_transpose conv_transpose;
    ir_attention attention;
  } op;
  uint32_t *a, *b;
  double scale; /* of a, before it is rounded */
} rounding_op;

static void copy_op(const node *n, rounding_op *to) {
  const ir_instruction *ins = n->instruction;
  to->scale = 1;
  if (ins->op_type == IR_OP_ATTENTION) {
    attention_form f;
    describe_attention(n, &f);
    to->op.attention = *(const ir_attention *)ins->op;
    to->a = &to->op.attention.q;
    to->b = &to->op.attention.k;
    to->scale = f.scale;
  } else if (ins->op_type == IR_OP_CONV) {
    to->op.conv = *(const ir_conv *)ins->op;
    to->a = &to->op.conv.x;
    to->b = &to->op.conv.weight;
  } else if (ins->op_type == IR_OP_CONV_TRANSPOSE) {
    to->op.conv_transpose = *(const ir_conv_transpose *)ins->op;
    to->a = &to->op.conv_transpose.x;
    to->b = &to->op.conv_transpose.weight;
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

/* What holds a product's second factor, once it is rounded; attention's three have one type. */
static dtype factor_type(const checking *c, uint32_t slot) {
  return c->nd->instruction->op_type == IR_OP_ATTENTION ? c->copy[slot].t.type : DTYPE_F32;
}

/* In slots of their own, behind the program's: what else reads an operand sees it as it is. */
static clave_status run_rounded(checking *c, bool *faulty) {
  ir_instruction ins = *c->nd->instruction;
  rounding_op r;
  uint32_t slot = slot_count(c->s->prog);
  bound_tensor *a = &c->copy[slot], *b = &c->copy[slot + 1];
  copy_op(c->nd, &r);
  TRY(bind_rounded(c, &c->copy[*r.a], c->copy[*r.a].t.type, r.scale, &c->rounded[0], a));
  a->slot = *r.a = slot;
  if (c->rounds == ROUNDS_TO_BF16) {
    TRY(bind_rounded(c, &c->copy[*r.b], factor_type(c, *r.b), 1, &c->rounded[1], b));
    b->slot = *r.b = slot + 1;
  }
  ins.op = &r.op;
  return run_instruction(c, &ins, faulty);
}

clave_status run_oracle(checking *c, bool *faulty) {
  const ir_instruction *ins = c->nd->instruction;
  if (ins->op_type == IR_OP_CUSTOM) return run_reference(c, faulty);
  return c->rounds ? run_rounded(c, faulty) : run_instruction(c, ins, faulty);
}

void free_copies(checking *c) {
  for (int i = 0; i < 2; i++)
    if (c->rounded[i]) c->s->oracle->cpu->vt->buffer_destroy(c->s->oracle->cpu, c->rounded[i]);
  for (uint32_t i = 0; i < c->n_regions; i++) {
    if (c->regions[i].copy)
      c->s->oracle->cpu->vt->buffer_destroy(c->s->oracle->cpu, c->regions[i].copy);
    free(c->regions[i].host);
  }
  free(c->regions);
  free(c->view);
  free(c->copy);
}
