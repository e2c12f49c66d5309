/* DeformConv: a product of the weight with elements that are read at the offset positions. */
#include "import/emit_bags.h"
#include "import/onnx/converters.h"
#include "import/onnx/window.h"

/* The sizes of one call, rows before columns. */
typedef struct deform {
  number n, size[2], out[2];
  int64_t channels, filters, groups, offset_groups, taps;
  onnx_window window;
  number places[5]; /* rows of channels that are read: (N, OH, OW, taps, offset_groups) */
} deform;

/* Returns (N * (H + 2) * (W + 2) * groups, channels / groups): the images with a border of zeros.
 */
static value *deform_table(importer *im, value *input, const deform *call) {
  const number zero = number_int(0), one = number_int(1);
  const number border[4] = {zero, zero, one, one};
  value *framed = emit_pad(im, input, border, border, "constant", 0);
  value *rows = emit_channel_rows(im, framed);
  if (!rows) return NULL;
  const number dims[2] = {number_mul(im, rows->dims[0], number_int(call->offset_groups)),
                          number_int(call->channels / call->offset_groups)};
  return emit_reshape(im, rows, 2, dims);
}

/* Returns (places, 1): the position of each tap of each window along a spatial axis. A position of
 * -1 or less is moved to the end, where both neighbours are in the border. */
static value *deform_positions(importer *im, value *offset, const deform *call, int axis) {
  static const int order[5] = {0, 3, 4, 2, 1};
  const int64_t columns = call->window.window.kernel[1];
  const number taps = number_int(call->taps), groups = number_int(call->offset_groups);
  const number split[6] = {call->n, groups, taps, number_int(2), call->out[0], call->out[1]};
  const number wide[5] = {number_int(1), number_int(1), number_int(1), taps, number_int(1)};
  value *tap = emit_positions(im, taps, 0, 1);
  tap = emit_binary_number(im, axis ? "remainder" : "floor_divide", tap, number_int(columns));
  tap = emit_binary_number(im, "mul", tap, number_int(call->window.window.dilation[axis]));
  tap = emit_binary_number(im, "sub", tap, call->window.before[axis]);
  value *begin = emit_positions(im, call->out[axis], 1 + axis, 5);
  begin = emit_binary_number(im, "mul", begin, number_int(call->window.window.stride[axis]));
  begin = emit_binary(im, "add", begin, emit_reshape(im, tap, 5, wide));
  value *moved = emit_select(im, emit_reshape(im, offset, 6, split), 3, number_int(axis));
  moved = emit_permute(im, moved, order);
  if (!moved) return NULL;
  value *at = emit_binary(im, "add", emit_cast(im, begin, moved->type), moved);
  value *end = value_of_number(im, moved->type, number_to_float(im, call->size[axis]));
  at = emit_where(im, emit_binary_float(im, "gt", at, -1), at, end);
  return emit_unsqueeze(im, at, 5);
}

/* Returns (bags, channels / groups): the row of channels of each place, times its mask. */
static value *deform_columns(importer *im, value *input, value *offset, value *mask,
                             const deform *call) {
  static const int order[5] = {0, 3, 4, 2, 1};
  const number one = number_int(1), two = number_int(2), groups = number_int(call->offset_groups);
  value *side[2], *weight[2] = {NULL, NULL};
  number all[7];
  for (int i = 0; i < 2; i++)
    side[i] =
        emit_neighbours(im, deform_positions(im, offset, call, i), -1, call->size[i], &weight[i]);
  for (int d = 0; d < 7; d++) all[d] = d < 5 ? call->places[d] : two;
  value *rows = emit_unsqueeze(im, side[0], 6), *columns = emit_unsqueeze(im, side[1], 5);
  value *factor =
      emit_binary(im, "mul", emit_unsqueeze(im, weight[0], 6), emit_unsqueeze(im, weight[1], 5));
  if (mask) {
    const number split[5] = {call->n, groups, number_int(call->taps), call->out[0], call->out[1]};
    number wide[7];
    for (int d = 0; d < 7; d++) wide[d] = d < 5 ? call->places[d] : one;
    value *own = emit_permute(im, emit_reshape(im, mask, 5, split), order);
    factor = emit_binary(im, "mul", factor, emit_reshape(im, own, 7, wide));
  }
  value *at = emit_binary_number(im, "mul", emit_positions(im, call->n, 0, 7),
                                 number_add(im, call->size[0], two));
  at = emit_binary_number(im, "mul", emit_binary(im, "add", at, rows),
                          number_add(im, call->size[1], two));
  at = emit_binary_number(im, "mul", emit_binary(im, "add", at, columns), groups);
  at = emit_binary(im, "add", at, emit_positions(im, groups, 4, 7));
  number count = number_int(1);
  for (int d = 0; d < 5; d++) count = number_mul(im, count, call->places[d]);
  value *first =
      emit_binary_number(im, "mul", emit_positions(im, count, 0, 1), number_int(CORNERS));
  return emit_bags(im, deform_table(im, input, call), emit_flat_as(im, at, 7, all), first,
                   emit_flat_as(im, factor, 7, all));
}

/* Returns (N, groups, filters / groups, OH * OW): the weight's rows times the elements read. */
static value *deform_product(importer *im, value *read, value *weight, value *bias,
                             const deform *call) {
  static const int by_tap[5] = {0, 3, 2, 4, 1}, filters_last[4] = {0, 1, 3, 2};
  const int64_t per = call->channels / call->groups, filters = call->filters / call->groups;
  const number groups = number_int(call->groups), taps = number_int(call->taps),
               area = number_mul(im, call->out[0], call->out[1]),
               depth = number_mul(im, number_int(call->taps), number_int(per));
  const number split[5] = {call->n, area, taps, groups, number_int(per)},
               columns[4] = {call->n, groups, depth, area},
               kernel[4] = {groups, number_int(filters), number_int(per), taps},
               rows[3] = {groups, number_int(filters), depth},
               added[3] = {groups, number_int(filters), number_int(1)};
  value *elements = emit_permute(im, emit_reshape(im, read, 5, split), by_tap);
  value *factors = emit_permute(im, emit_reshape(im, weight, 4, kernel), filters_last);
  if (bias) bias = emit_reshape(im, bias, 3, added);
  return emit_matmul(im, emit_reshape(im, factors, 3, rows), emit_reshape(im, elements, 4, columns),
                     bias, 1, 1);
}

/* Sets the sizes of the call. False after an error. */
static bool deform_read(node *node, const value *input, const value *weight, deform *call) {
  importer *im = node->im;
  call->groups = node_int(node, "group", 1);
  call->offset_groups = node_int(node, "offset_group", 1);
  if (input->rank != 4 || weight->rank != 4) {
    import_unsupported(im, "%d spatial dimensions (2)", input->rank - 2);
    return false;
  }
  if (!onnx_read_window(node, input, weight, &call->window)) return false;
  const number channels = number_mul(im, weight->dims[1], number_int(call->groups));
  if (channels.id || weight->dims[0].id) import_unsupported(im, "an open number of channels");
  emit_check(im, NUMBER_EQ, input->dims[1], channels, "the weight is for other channels");
  call->channels = channels.i;
  call->filters = weight->dims[0].i;
  const int64_t *kernel = call->window.window.kernel;
  call->taps = number_mul(im, number_int(kernel[0]), number_int(kernel[1])).i;
  if (call->groups < 1 || call->offset_groups < 1 || call->channels % call->groups ||
      call->channels % call->offset_groups || call->filters % call->groups || call->channels < 1)
    import_invalid(im, "the channels cannot be divided into groups");
  if (!import_ok(im)) return false;
  call->n = input->dims[0];
  for (int d = 0; d < 2; d++) {
    const window *window = &call->window.window;
    const int64_t extent = (window->kernel[d] - 1) * window->dilation[d] + 1;
    call->size[d] = input->dims[2 + d];
    const number pads = number_add(im, call->window.before[d], call->window.after[d]);
    const number room = number_sub(im, number_add(im, call->size[d], pads), number_int(extent));
    call->out[d] =
        number_add(im, number_floor_div(im, room, number_int(window->stride[d])), number_int(1));
    call->out[d].no_sign = true;
  }
  const number places[5] = {call->n, call->out[0], call->out[1], number_int(call->taps),
                            number_int(call->offset_groups)};
  for (int d = 0; d < 5; d++) call->places[d] = places[d];
  return import_ok(im);
}

void onnx_deform_conv(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *weight = node_required(node, 1),
        *offset = node_required(node, 2), *bias = node_input(node, 3), *mask = node_input(node, 4);
  deform call = {0};
  if (!x || !weight || !offset || !deform_read(node, x, weight, &call)) return;
  const clave_dtype type = x->type, computed = type == CLAVE_F64 ? CLAVE_F64 : CLAVE_F32;
  value *read = deform_columns(im, emit_cast(im, x, computed), emit_cast(im, offset, computed),
                               mask ? emit_cast(im, mask, computed) : NULL, &call);
  const number dims[4] = {call.n, number_int(call.filters), call.out[0], call.out[1]};
  value *out = deform_product(im, emit_cast(im, read, type), weight, bias, &call);
  node_set(node, 0, emit_reshape(im, out, 4, dims));
}
