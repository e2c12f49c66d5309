/* Makes the zeros around a convolution's input the convolution's own padding. TFLite models and
 * some exporters to ONNX write them as a separate op. */
#include <string.h>

#include "interp/passes/passes.h"

/* The padding of a dimension; negative if it is not a number of zeros. */
typedef struct sides {
  int64_t before, after;
} sides;

static int64_t zeros_of(const ir_int_or_vid *size) {
  return size->vid == IR_NONE && size->literal <= INT16_MAX ? size->literal : -1;
}
static sides sides_of(const ir_pad *pad, size_t axis) {
  return (sides){zeros_of(&pad->before.items[axis]), zeros_of(&pad->after.items[axis])};
}

/* Images whose channels may come last, and zeros around them. */
typedef struct padded {
  const ir_pad *pad;
  const ir_permute *order; /* applied after the padding; NULL if the channels come first */
} padded;

/* Returns the dimension of the padding that is dimension `axis` of the convolution's input. */
static size_t padded_axis(const padded *padded, size_t axis) {
  return padded->order ? (size_t)padded->order->dims.items[axis] : axis;
}

/* Finds the padding of images by a number that writes x, perhaps before a permutation. */
static bool find_padded(const draft *draft, uint32_t x, int zero, padded *out) {
  out->order = draft_op(draft, x, IR_OP_PERMUTE);
  const ir_pad *pad = draft_op(draft, out->order ? out->order->x : x, IR_OP_PAD);
  out->pad = pad;
  if (!pad || pad->mode != IR_PAD_MODE_CONSTANT || pad->value != (double)zero) return false;
  const size_t rank = (size_t)draft_rank(draft, x);
  if (pad->before.count != rank || pad->after.count != rank) return false;
  for (size_t i = 0; i < rank; i++) {
    const sides sides = sides_of(pad, padded_axis(out, i));
    if (sides.before < 0 || sides.after < 0) return false;
    if (i < 2 && sides.before + sides.after > 0) return false;
  }
  return true;
}

/* Adds the padding of images to a convolution's. Returns false if memory runs out. */
static bool add_padding(draft *draft, const padded *padded, ir_i32s *before, ir_i32s *after) {
  const uint32_t n = before->count;
  int32_t *items = draft_alloc(draft, 2 * (size_t)n, sizeof *items);
  bool is_even = true;
  for (uint32_t i = 0; items && i < n; i++) {
    const sides sides = sides_of(padded->pad, padded_axis(padded, 2 + i));
    items[i] = before->items[i] + (int32_t)sides.before;
    items[n + i] = (after->count ? after : before)->items[i] + (int32_t)sides.after;
    is_even &= items[i] == items[n + i];
  }
  if (!items) return false;
  before->items = items;
  *after = is_even ? (ir_i32s){0} : (ir_i32s){items + n, n};
  return true;
}

/* Returns the images without their padding. */
static uint32_t unpadded_images(draft *draft, draft_node *before, const padded *padded) {
  int dims[MAX_RANK] = {0};
  if (!padded->order) return padded->pad->x;
  for (size_t i = 0; i < padded->order->dims.count; i++) dims[i] = padded->order->dims.items[i];
  return draft_permute(draft, before, padded->pad->x, dims);
}

/* A copy of a convolution, of floats or of integers, and the fields that its padding changes. */
typedef struct convolution {
  union {
    ir_conv plain;
    ir_conv_integer integer;
  } op;
  size_t size; /* the size of the op, in bytes */
  uint32_t *x, *out;
  ir_i32s *padding, *padding_after;
  int zero; /* the number that pads */
} convolution;

/* Returns false if the node is no convolution. */
static bool copy_convolution(const draft_node *node, convolution *made) {
  const bool is_integer = node->ins.op_type == IR_OP_CONV_INTEGER;
  ir_conv *plain = &made->op.plain;
  ir_conv_integer *integer = &made->op.integer;
  if (!is_integer && node->ins.op_type != IR_OP_CONV) return false;
  made->size = is_integer ? sizeof *integer : sizeof *plain;
  memcpy(&made->op, node->ins.op, made->size);
  made->x = is_integer ? &integer->x : &plain->x;
  made->out = is_integer ? &integer->out : &plain->out;
  made->padding = is_integer ? &integer->padding : &plain->padding;
  made->padding_after = is_integer ? &integer->padding_after : &plain->padding_after;
  made->zero = is_integer ? integer->padding_value : 0;
  return true;
}

bool find_padding(match *match, uint32_t *out) {
  draft *draft = match->draft;
  convolution made;
  padded padded;
  if (!copy_convolution(match->root, &made) || !find_padded(draft, *made.x, made.zero, &padded) ||
      !match_is_closed(match) || !add_padding(draft, &padded, made.padding, made.padding_after))
    return false;
  *made.x = unpadded_images(draft, match->root, &padded);
  *made.out = *out = draft_slot_like(draft, match->out, match->root->ins.name);
  memcpy(draft_add(draft, match->root, match->root->ins.op_type), &made.op, made.size);
  draft_note(draft, match->root);
  return true;
}
