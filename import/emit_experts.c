/* Mixtures of experts, by one product of groups of rows. */
#include "import/emit_experts.h"

#include "import/coded.h"

void emit_sort_choices(importer *im, value *chosen, number n_experts, expert_choices *out) {
  const number n = number_mul(im, out->tokens, out->k);
  value *flat = emit_reshape(im, chosen, 1, &n);
  out->experts = emit_sort(im, flat, 0, n, false, &out->order);
  value *expert = emit_arange(im, CLAVE_I64, number_int(0), number_int(1), n_experts);
  value *column = out->experts ? emit_unsqueeze(im, out->experts, 1) : NULL;
  value *before = emit_cast(im, emit_binary(im, "le", column, expert), CLAVE_I64);
  const int axis = 0;
  out->ends = emit_reduce(im, "sum", before, &axis, 1, false);
}

value *emit_chosen_rows(importer *im, const expert_choices *choices, value *input) {
  value *token =
      emit_binary(im, "floor_divide", choices->order, value_of_number(im, CLAVE_I64, choices->k));
  return emit_index_select(im, input, 0, token);
}

value *emit_expert_product(importer *im, const expert_choices *choices, value *input,
                           value *weight) {
  const clave_id rows =
      input && weight && input->type == weight->type ? coded_rows(im, weight, false) : 0;
  value *b = rows ? weight : emit_transpose(im, weight, 1, 2);
  if (!emit_prepare(im, input) || !emit_prepare(im, choices->ends) ||
      (!rows && !emit_prepare(im, b)))
    return NULL;
  const number dims[] = {input->dims[0], weight->dims[1]};
  value *out = emit_begin(im, "GroupedMatmul", input->type, 2, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "a", input);
  if (rows)
    clave_builder_set_tensor(im->builder, "b", rows);
  else
    emit_set_tensor(im, "b", b);
  clave_builder_set_bool(im->builder, "b_transposed", rows != 0);
  emit_set_tensor(im, "ends", choices->ends);
  return out;
}

value *emit_join_choices(importer *im, const expert_choices *choices, value *out) {
  const number n = number_mul(im, choices->tokens, choices->k);
  value *back, *sorted = emit_sort(im, choices->order, 0, n, false, &back);
  if (!sorted || !out || !choices->shares) return NULL;
  out = emit_index_select(im, out, 0, back);
  const number dims[] = {choices->tokens, choices->k, out ? out->dims[1] : n};
  out = emit_reshape(im, out, 3, dims);
  value *shares =
      emit_cast(im, emit_unsqueeze(im, choices->shares, 2), out ? out->type : CLAVE_F32);
  const int axis = 1;
  return emit_reduce(im, "sum", emit_binary(im, "mul", out, shares), &axis, 1, false);
}
