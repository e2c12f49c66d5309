/* What a comparison found, in words: the first node that differs, by how much, and where from. */
#include <inttypes.h>
#include <math.h>

#include "cli/stages.h"

/* "F32 [3, 4] at element 7: expected 0.25, got 0.5 (2.5e-05 allowed)" */
static void describe_difference(page *t, const clave_tensor *got, const difference *d,
                                const char *right) {
  page_shape(t, got);
  text_printf(t, " at element %" PRIu64 ": %s %.9g, got %.9g (%.3g allowed)", d->element, right,
              d->expected, d->got, d->allowed);
}

static void describe_range(page *t, const clave_tensor *value) {
  const tensor_summary s = summarise_tensor(value);
  text_puts(t, " ");
  page_shape(t, value);
  if (s.count > s.n_nan) text_printf(t, " in [%.4g, %.4g]", s.min, s.max);
  if (s.n_nan) text_printf(t, " with %" PRIu64 " NaN", s.n_nan);
}

/* The value of a slot that a node reads, as the compared run has it. False: it is not known. */
static bool find_operand(const verification *v, const stage *s, size_t at, uint32_t slot,
                         clave_tensor *out) {
  const uint32_t stored = find_viewed(&v->g, slot);
  const clave_tensor_info *info = &v->g.slots[stored];
  const size_t from = find_written(&v->base, at, stored);
  if (from != SIZE_MAX) {
    *out = s->pointers[from] ? *s->pointers[from] : v->base.items[from].value;
    return true;
  }
  for (uint32_t i = 0; i < v->inputs.count; i++) {
    if (v->g.inputs[i].is_scalar || v->g.inputs[i].slot != stored) continue;
    *out = v->inputs.items[i].value;
    return true;
  }
  if (info->kind != CLAVE_SLOT_CONSTANT || info->encoding != CLAVE_ENCODING_PLAIN) return false;
  clave_status st = clave_program_constant(v->m->program, stored, out);
  clave_status_free(st);
  return !st;
}

/* ": x F32 [3, 4] in [0, 2.75], weight F32 [4, 4] in [-1, 1]" */
static void describe_operands(const verification *v, const stage *s, size_t at, page *out) {
  const graph_node *n = &v->g.nodes[v->base.items[at].node];
  for (uint32_t k = 0; k < n->n_reads; k++) {
    clave_tensor value;
    text_puts(out, k ? ", " : ": ");
    page_visible(out, v->g.slots[n->slots[k]].name);
    if (find_operand(v, s, at, n->slots[k], &value)) describe_range(out, &value);
  }
}

static void describe_origin(const verification *v, const stage *s, size_t at, page *out) {
  const node_error *e = &s->pair.errors[at];
  const graph_node *n = &v->g.nodes[v->base.items[at].node];
  if (e->verdict == NODE_WRONG) {
    text_printf(out, "; made there: from the same operands%s", n->n_reads ? "" : ", none");
  } else {
    text_printf(out,
                "; amplified: from the same operands it is within its bound (off by %.3g), those "
                "are off by %.3g",
                e->own.largest, e->inputs_error);
  }
  describe_operands(v, s, at, out);
}

static void describe_node(const verification *v, const stage *s, size_t at, page *out) {
  const record *r = &v->base.items[at];
  const node_error *e = &s->pair.errors[at];
  const graph_node *n = &v->g.nodes[r->node];
  const difference *d = e->verdict == NODE_WRONG ? &e->own : &e->total;
  text_printf(out, "node %" PRIu32 " (%s ", r->node, n->op);
  page_visible(out, n->name);
  text_printf(out, ") is the first that differs from %s: ", s->against);
  page_visible(out, v->g.slots[r->slot].name);
  text_puts(out, " ");
  if (e->verdict == NODE_OTHER_FORM) {
    page_shape(out, &r->value);
    text_puts(out, " there, another shape or dtype here");
    return;
  }
  describe_difference(out, &r->value, d, s->right);
  describe_origin(v, s, at, out);
}

/* got: NULL: of another form. */
static void describe_output(const verification *v, const stage *s, uint32_t index,
                            const clave_tensor *got, const clave_tensor *expected,
                            const difference *d, page *out) {
  text_printf(out, "output_%" PRIu32 " (", index);
  page_visible(out, v->g.outputs[index].name);
  text_printf(out, ") differs from %s: ", s->against);
  if (same_form(got, expected)) {
    describe_difference(out, got, d, s->right);
    return;
  }
  text_puts(out, "expected ");
  page_shape(out, expected);
  text_puts(out, ", got ");
  page_shape(out, got);
}

/* Of fused runs: they have no nodes to name. */
static void describe_others(const verification *v, const stage *s, page *out) {
  const run_pair *p = &s->pair;
  for (uint32_t i = 0; i < p->n_others && !out->size; i++) {
    const size_t at = v->base.count - p->n_others + i;
    const clave_tensor *right = p->subject_is_right ? s->pointers[at] : &v->base.items[at].value;
    if (!right && p->subject_is_right) right = s->values[at].data ? &s->values[at] : NULL;
    if (!right || !s->others[i].data) continue;
    if (!same_form(&s->others[i], right) || p->other_errors[i].found)
      describe_output(v, s, i, &s->others[i], right, &p->other_errors[i], out);
  }
}

void describe_stage(const verification *v, const stage *s, page *out) {
  const size_t at = first_beyond(&s->pair), n = v->base.count;
  const bool is_node = at < n && v->base.items[at].node < v->g.n_nodes;
  if (is_node) {
    describe_node(v, s, at, out);
    return;
  }
  describe_others(v, s, out);
  if (at == n || out->size) return;
  const record *r = &v->base.items[at];
  const clave_tensor *subject = s->pointers[at] ? s->pointers[at] : &s->values[at];
  const bool right = s->pair.subject_is_right;
  describe_output(v, s, r->node - v->g.n_nodes, right ? &r->value : subject,
                  right ? subject : &r->value, &s->pair.errors[at].total, out);
}
