/* LinearAttention: a Scan over the tokens, whose carry is the state (B, H, K, V) of H heads with
 * keys of K and values of V numbers. It is computed in F32. */
#include <math.h>

#include "import/emit_scan.h"
#include "import/onnx/converters.h"

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA };

/* The operands of one token. query: (B, H, G, K), the G query heads that share a state; key: (B, H,
 * 1, K); value: (B, H, 1, V); decay: (B, H, K or 1, 1), NULL: none; beta: (B, H or 1, 1, 1), NULL:
 * the new value is added as it is. */
typedef struct linear_token {
  value *query, *key, *value, *decay, *beta;
} linear_token;

/* Which of xs has decay and beta; 0: none has. */
typedef struct linear_rule {
  int decay, beta;
} linear_rule;

/* Returns (T, B, heads, width, last) of input (B, T, ...), in F32. */
static value *linear_tokens(node *node, int i, number heads, number width, number last) {
  importer *im = node->im;
  value *input = node_required(node, i);
  if (!input || !import_ok(im)) return NULL;
  if (input->rank != 3) {
    import_invalid(im, "input %d has rank %d, expected 3", i, input->rank);
    return NULL;
  }
  const number dims[] = {input->dims[0], input->dims[1], heads, width, last};
  return emit_permute(im, emit_reshape(im, emit_cast(im, input, CLAVE_F32), 5, dims),
                      (const int[]){1, 0, 2, 3, 4});
}

static value *linear_step(void *ctx, importer *im, value *const *xs, value **carries) {
  const linear_rule *rule = ctx;
  const linear_token now = {xs[QUERY], xs[KEY], xs[VALUE], rule->decay ? xs[rule->decay] : NULL,
                            rule->beta ? xs[rule->beta] : NULL};
  value *state = carries[0], *added = now.value;
  if (now.decay) state = emit_binary(im, "mul", state, now.decay);
  if (now.beta) {
    value *known = emit_matmul(im, now.key, state, NULL, 1, 1);
    added = emit_binary(im, "mul", now.beta, emit_binary(im, "sub", added, known));
  }
  added = emit_binary(im, "mul", emit_transpose(im, now.key, 2, 3), added);
  carries[0] = emit_binary(im, "add", state, added);
  return emit_matmul(im, now.query, carries[0], NULL, 1, 1);
}

/* Reads the tokens. Returns their number of operands, 0 after an error. */
static int linear_read(node *node, number heads, number group, linear_rule *rule, value **xs) {
  static const char *const rules[] = {"gated_delta", "linear", "gated", "delta"};
  importer *im = node->im;
  const int kind = node_choice(node, "update_rule", rules, 4);
  const bool decays = kind == 0 || kind == 2, corrects = kind == 0 || kind == 3;
  const number one = number_int(1);
  value *q = node_required(node, QUERY), *v = node_required(node, VALUE);
  if (!q || !v || !import_ok(im) || q->rank != 3 || v->rank != 3) return 0;
  const number all = number_mul(im, heads, group), k = number_floor_div(im, q->dims[2], all);
  int n = 3;
  xs[QUERY] = linear_tokens(node, QUERY, heads, group, k);
  xs[KEY] = linear_tokens(node, KEY, heads, one, k);
  xs[VALUE] = linear_tokens(node, VALUE, heads, one, number_floor_div(im, v->dims[2], heads));
  const value *decay = node_input(node, DECAY), *beta = node_input(node, BETA);
  if ((decay != NULL) != decays || (beta != NULL) != corrects)
    import_invalid(im, "decay or beta does not fit update_rule");
  if (decay && decay->rank == 3 && import_ok(im)) {
    const number width = number_floor_div(im, decay->dims[2], heads);
    xs[rule->decay = n++] = emit_unary(im, "exp", linear_tokens(node, DECAY, heads, width, one));
  }
  if (beta && beta->rank == 3 && import_ok(im))
    xs[rule->beta = n++] = linear_tokens(node, BETA, beta->dims[2], one, one);
  return import_ok(im) ? n : 0;
}

void onnx_linear_attention(node *node) {
  importer *im = node->im;
  const int64_t n_query = node_int(node, "q_num_heads", 0),
                n_kv = node_int(node, "kv_num_heads", 0);
  value *xs[SCAN_OPERANDS], *past = node_input(node, PAST);
  linear_rule rule = {0};
  (void)node_int(node, "chunk_size", 0); /* the result does not depend on it */
  if (n_query < 1 || n_kv < 1 || n_query % n_kv)
    import_invalid(im, "q_num_heads is %lld, kv_num_heads %lld", (long long)n_query,
                   (long long)n_kv);
  if (!import_ok(im)) return;
  const int n = linear_read(node, number_int(n_kv), number_int(n_query / n_kv), &rule, xs);
  if (!n || !xs[QUERY] || !xs[VALUE]) return;
  const number *q = xs[QUERY]->dims, last = xs[VALUE]->dims[4];
  const number state[] = {q[1], q[2], q[4], last};
  value *carry =
      past ? emit_cast(im, past, CLAVE_F32) : emit_full(im, CLAVE_F32, 4, state, number_float(0));
  const scan_call call = {"token", xs, &carry, n, 1, linear_step, &rule};
  value *out = carry ? emit_scan_steps(im, &call) : NULL;
  double scale = node_float(node, "scale", 0);
  if (scale == 0 && q[4].id) import_unsupported(im, "keys of an open size");
  if (scale == 0) scale = 1 / sqrt((double)q[4].i);
  out =
      out ? emit_permute(im, emit_binary_float(im, "mul", out, scale), (const int[]){1, 0, 2, 3, 4})
          : NULL;
  const number dims[] = {q[1], q[0], number_mul(im, number_int(n_query), last)};
  out = emit_reshape(im, out, 3, dims);
  if (!out || !import_ok(im)) return;
  node_set(node, 0, emit_cast(im, out, node_input(node, QUERY)->type));
  node_set(node, 1, emit_cast(im, carry, past ? past->type : node_input(node, QUERY)->type));
}
