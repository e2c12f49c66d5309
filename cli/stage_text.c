/* Describes a comparison: the first node that differs, by how much, and where the error arose. */
#include <inttypes.h>
#include <math.h>

#include "cli/stages.h"

/* "F32 [3, 4] at element 7: expected 0.25, got 0.5 (2.5e-05 allowed)" */
static void describe_difference(page *page, const clave_tensor *got, const difference *difference,
                                const char *right) {
  page_shape(page, got);
  text_printf(page, " at element %" PRIu64 ": %s %.9g, got %.9g (%.3g allowed)",
              difference->element, right, difference->expected, difference->got,
              difference->allowed);
}

static void describe_range(page *page, const clave_tensor *value) {
  const tensor_summary summary = summarise_tensor(value);
  text_puts(page, " ");
  page_shape(page, value);
  if (summary.count > summary.n_nan)
    text_printf(page, " in [%.4g, %.4g]", summary.min, summary.max);
  if (summary.n_nan) text_printf(page, " with %" PRIu64 " NaN", summary.n_nan);
}

/* Finds the value that the compared run has for a slot that a node reads. Returns false if it is
 * unknown. */
static bool stage_text_find_operand(const verification *verification, const stage *stage, size_t at,
                                    uint32_t slot, clave_tensor *out) {
  const uint32_t stored = find_viewed(&verification->graph, slot);
  const clave_tensor_info *info = &verification->graph.slots[stored];
  const size_t from = find_written(&verification->base, at, stored);
  if (from != SIZE_MAX) {
    *out = stage->pointers[from] ? *stage->pointers[from] : verification->base.items[from].value;
    return true;
  }
  for (uint32_t i = 0; i < verification->inputs.count; i++) {
    if (verification->graph.inputs[i].is_scalar || verification->graph.inputs[i].slot != stored)
      continue;
    *out = verification->inputs.items[i].value;
    return true;
  }
  if (info->kind != CLAVE_SLOT_CONSTANT || info->encoding != CLAVE_ENCODING_PLAIN) return false;
  clave_status st = clave_program_constant(verification->model->program, stored, out);
  clave_status_free(st);
  return !st;
}

/* ": x F32 [3, 4] in [0, 2.75], weight F32 [4, 4] in [-1, 1]" */
static void describe_operands(const verification *verification, const stage *stage, size_t at,
                              page *out) {
  const graph_node *node = &verification->graph.nodes[verification->base.items[at].node];
  for (uint32_t k = 0; k < node->n_reads; k++) {
    clave_tensor value;
    text_puts(out, k ? ", " : ": ");
    page_visible(out, verification->graph.slots[node->slots[k]].name);
    if (stage_text_find_operand(verification, stage, at, node->slots[k], &value))
      describe_range(out, &value);
  }
}

static void describe_origin(const verification *verification, const stage *stage, size_t at,
                            page *out) {
  const node_error *error = &stage->pair.errors[at];
  const graph_node *node = &verification->graph.nodes[verification->base.items[at].node];
  if (error->verdict == NODE_WRONG) {
    text_printf(out, "; the error arises there: from the same operands%s",
                node->n_reads ? "" : ", none");
  } else {
    text_printf(out,
                "; amplified: from the same operands, the node is within its bound (off by %.3g); "
                "the operands are off by %.3g",
                error->own.largest, error->inputs_error);
  }
  describe_operands(verification, stage, at, out);
}

static void describe_node(const verification *verification, const stage *stage, size_t at,
                          page *out) {
  const record *record = &verification->base.items[at];
  const node_error *error = &stage->pair.errors[at];
  const graph_node *node = &verification->graph.nodes[record->node];
  const difference *difference = error->verdict == NODE_WRONG ? &error->own : &error->total;
  text_printf(out, "node %" PRIu32 " (%s ", record->node, node->op);
  page_visible(out, node->name);
  text_printf(out, ") is the first that differs from %s: ", stage->against);
  page_visible(out, verification->graph.slots[record->slot].name);
  text_puts(out, " ");
  if (error->verdict == NODE_OTHER_SHAPE) {
    page_shape(out, &record->value);
    text_puts(out, " there, and another shape or dtype here");
    return;
  }
  describe_difference(out, &record->value, difference, stage->right);
  describe_origin(verification, stage, at, out);
}

/* Appends an output and its difference. got: the output, or NULL if its dtype or shape is wrong. */
static void describe_output(const verification *verification, const stage *stage, uint32_t index,
                            const clave_tensor *got, const clave_tensor *expected,
                            const difference *difference, page *out) {
  text_printf(out, "output_%" PRIu32 " (", index);
  page_visible(out, verification->graph.outputs[index].name);
  text_printf(out, ") differs from %s: ", stage->against);
  if (same_shape(got, expected)) {
    describe_difference(out, got, difference, stage->right);
    return;
  }
  text_puts(out, "expected ");
  page_shape(out, expected);
  text_puts(out, ", got ");
  page_shape(out, got);
}

/* Describes outputs of fused runs, which have no nodes to name. */
static void describe_others(const verification *verification, const stage *stage, page *out) {
  const run_pair *pair = &stage->pair;
  for (uint32_t i = 0; i < pair->n_others && !out->size; i++) {
    const size_t at = verification->base.count - pair->n_others + i;
    const clave_tensor *right =
        pair->subject_is_right ? stage->pointers[at] : &verification->base.items[at].value;
    if (!right && pair->subject_is_right)
      right = stage->values[at].data ? &stage->values[at] : NULL;
    if (!right || !stage->others[i].data) continue;
    if (!same_shape(&stage->others[i], right) || pair->other_errors[i].found)
      describe_output(verification, stage, i, &stage->others[i], right, &pair->other_errors[i],
                      out);
  }
}

void describe_stage(const verification *verification, const stage *stage, page *out) {
  const size_t at = first_beyond(&stage->pair), n = verification->base.count;
  const bool is_node = at < n && verification->base.items[at].node < verification->graph.n_nodes;
  if (is_node) {
    describe_node(verification, stage, at, out);
    return;
  }
  describe_others(verification, stage, out);
  if (at == n || out->size) return;
  const record *record = &verification->base.items[at];
  const clave_tensor *subject = stage->pointers[at] ? stage->pointers[at] : &stage->values[at];
  const bool right = stage->pair.subject_is_right;
  describe_output(verification, stage, record->node - verification->graph.n_nodes,
                  right ? &record->value : subject, right ? subject : &record->value,
                  &stage->pair.errors[at].total, out);
}
