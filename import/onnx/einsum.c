/* Einsum: operands are joined from left to right, each time by a product of matrices or, for
 * integers and outer products, by a product of broadcast elements. */
#include <string.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"

enum {
  MAX_LABEL = 128, /* 1 to CLAVE_MAX_RANK: dimensions of the ellipsis; others: letters */
  NO_ELLIPSIS = -1
};

/* An operand, or the output, with a label for each dimension. */
typedef struct einsum_term {
  value *x;
  int labels[CLAVE_MAX_RANK], n;
} einsum_term;

typedef struct einsum {
  importer *im;
  einsum_term *terms; /* (n_terms) */
  int n_terms;
  einsum_term out;
  int ellipsis; /* dimensions of the longest ellipsis */
} einsum;

static int label_place(const einsum_term *term, int label) {
  for (int i = 0; i < term->n; i++)
    if (term->labels[i] == label) return i;
  return -1;
}

static bool label_add(importer *im, einsum_term *term, int label) {
  if (term->n == CLAVE_MAX_RANK) {
    import_unsupported(im, "a term of more than %d dimensions", CLAVE_MAX_RANK);
    return false;
  }
  term->labels[term->n++] = label;
  return true;
}

/* ---------------------------------------------------------------- the equation */

/* Returns the number of letters of a term, which ends at ',', '-' or 0. Sets *ellipsis to the
 * position of its dots, or NO_ELLIPSIS. */
static int count_letters(importer *im, const char *text, int *ellipsis, const char **end) {
  int letters = 0;
  *ellipsis = NO_ELLIPSIS;
  for (; *text && *text != ',' && *text != '-'; text++) {
    const char lower = (char)(*text | 32);
    if (lower >= 'a' && lower <= 'z') {
      letters++;
    } else if (strncmp(text, "...", 3) == 0 && *ellipsis == NO_ELLIPSIS) {
      *ellipsis = letters;
      text += 2;
    } else {
      import_invalid(im, "the equation has an unexpected '%c'", *text);
      break;
    }
  }
  *end = text;
  return letters;
}

/* Sets the labels of a term: letters, and `dots` dimensions for the ellipsis. */
static void read_labels(einsum *einsum, const char *text, int dots, einsum_term *term) {
  for (; *text && *text != ',' && *text != '-' && import_ok(einsum->im); text++) {
    if (*text != '.') {
      (void)label_add(einsum->im, term, *text);
      continue;
    }
    for (int i = 0; i < dots; i++)
      (void)label_add(einsum->im, term, einsum->ellipsis - dots + i + 1);
    text += 2;
  }
}

static const char *read_input_labels(einsum *einsum, const char *text) {
  const char *starts = text;
  int dots[MAX_LABEL] = {0};
  for (int i = 0; i < einsum->n_terms && import_ok(einsum->im); i++) {
    int ellipsis;
    const int letters = count_letters(einsum->im, text, &ellipsis, &text);
    dots[i] = einsum->terms[i].x->rank - letters;
    if (dots[i] < 0 || (dots[i] > 0 && ellipsis == NO_ELLIPSIS))
      import_invalid(einsum->im, "term %d has %d letters for rank %d", i, letters,
                     einsum->terms[i].x->rank);
    if (dots[i] > einsum->ellipsis) einsum->ellipsis = dots[i];
    if (i + 1 < einsum->n_terms && *text++ != ',')
      import_invalid(einsum->im, "the equation has fewer terms than inputs");
  }
  for (int i = 0; i < einsum->n_terms && import_ok(einsum->im); i++) {
    read_labels(einsum, starts, dots[i], &einsum->terms[i]);
    starts += strcspn(starts, ",-");
    starts += *starts == ',';
  }
  return text;
}

/* The output without "->": the ellipsis, then the letters that occur once, in order. */
static void imply_output(einsum *einsum) {
  int counts[MAX_LABEL] = {0};
  for (int i = 0; i < einsum->n_terms; i++)
    for (int k = 0; k < einsum->terms[i].n; k++) counts[einsum->terms[i].labels[k]]++;
  for (int label = 1; label < MAX_LABEL; label++)
    if (label <= einsum->ellipsis || counts[label] == 1)
      (void)label_add(einsum->im, &einsum->out, label);
}

static void read_output_labels(einsum *einsum, const char *text) {
  int ellipsis;
  const char *end;
  if (!*text) {
    imply_output(einsum);
    return;
  }
  if (strncmp(text, "->", 2) != 0) {
    import_invalid(einsum->im, "the equation has more terms than inputs, or is wrong");
    return;
  }
  (void)count_letters(einsum->im, text + 2, &ellipsis, &end);
  if (*end) import_invalid(einsum->im, "the equation has more than one output");
  if (ellipsis == NO_ELLIPSIS && einsum->ellipsis)
    import_unsupported(einsum->im, "an output without the ellipsis of the inputs");
  read_labels(einsum, text + 2, einsum->ellipsis, &einsum->out);
  for (int i = 0; i < einsum->out.n; i++) {
    bool known = label_place(&einsum->out, einsum->out.labels[i]) == i;
    bool given = false;
    for (int k = 0; k < einsum->n_terms; k++)
      given = given || label_place(&einsum->terms[k], einsum->out.labels[i]) >= 0;
    if (!known || !given) import_invalid(einsum->im, "the equation's output is wrong");
  }
}

/* ---------------------------------------------------------------- one operand */

/* Replaces two dimensions with the same label by their diagonal. */
static void take_diagonals(importer *im, einsum_term *term) {
  for (int i = 0; i < term->n && import_ok(im); i++) {
    const int label = term->labels[i];
    int other = i + 1;
    while (other < term->n && term->labels[other] != label) other++;
    if (other >= term->n || !term->x) continue;
    const number a = term->x->dims[i], b = term->x->dims[other];
    if (!a.id && !b.id && a.i != b.i) {
      import_invalid(im, "label '%c' has the sizes %lld and %lld", label, (long long)a.i,
                     (long long)b.i);
      return;
    }
    term->x = emit_diagonal(im, term->x, i, other);
    int n = 0;
    for (int k = 0; k < term->n; k++)
      if (k != i && k != other) term->labels[n++] = term->labels[k];
    term->labels[n++] = label;
    term->n = n;
    i = -1;
  }
}

/* True if the output, or an operand from `from` on, has the label. */
static bool is_label_needed(const einsum *einsum, int from, int label) {
  bool needed = label_place(&einsum->out, label) >= 0;
  for (int i = from; i < einsum->n_terms; i++)
    needed = needed || label_place(&einsum->terms[i], label) >= 0;
  return needed;
}

/* Sums over the dimensions of operand i that neither the output nor another operand has. */
static void sum_alone(einsum *einsum, int i) {
  einsum_term *term = &einsum->terms[i];
  int axes[CLAVE_MAX_RANK], n_axes = 0, n = 0;
  for (int k = 0; k < term->n; k++) {
    bool needed = is_label_needed(einsum, i + 1, term->labels[k]);
    for (int other = 0; other < i; other++)
      needed = needed || label_place(&einsum->terms[other], term->labels[k]) >= 0;
    if (needed)
      term->labels[n++] = term->labels[k];
    else
      axes[n_axes++] = k;
  }
  term->n = n;
  if (n_axes) term->x = emit_reduce(einsum->im, "sum", term->x, axes, n_axes, false);
}

/* ---------------------------------------------------------------- two operands */

typedef enum label_group { GROUP_BATCH, GROUP_LEFT, GROUP_SUMMED, GROUP_RIGHT, GROUPS } label_group;

typedef struct einsum_pair {
  importer *im;
  const einsum_term *left, *right;
  int labels[GROUPS][CLAVE_MAX_RANK], n[GROUPS];
} einsum_pair;

static void add_label_to_group(einsum_pair *pair, label_group group, int label) {
  pair->labels[group][pair->n[group]++] = label;
}

static void group_labels(const einsum *einsum, int next, einsum_pair *pair) {
  for (int k = 0; k < pair->left->n; k++) {
    const int label = pair->left->labels[k];
    const bool both = label_place(pair->right, label) >= 0;
    add_label_to_group(pair,
                       !both                                      ? GROUP_LEFT
                       : is_label_needed(einsum, next + 1, label) ? GROUP_BATCH
                                                                  : GROUP_SUMMED,
                       label);
  }
  for (int k = 0; k < pair->right->n; k++)
    if (label_place(pair->left, pair->right->labels[k]) < 0)
      add_label_to_group(pair, GROUP_RIGHT, pair->right->labels[k]);
}

/* Permutes a term to these groups of labels, expanded to the sizes that both terms have. */
static value *align_term(const einsum_pair *pair, const einsum_term *term,
                         const label_group *groups) {
  int order[CLAVE_MAX_RANK], n = 0;
  number dims[CLAVE_MAX_RANK];
  const einsum_term *other = term == pair->left ? pair->right : pair->left;
  if (!term->x || !other->x || !import_ok(pair->im)) return NULL;
  for (int g = 0; g < 3; g++) {
    for (int k = 0; k < pair->n[groups[g]]; k++) {
      const int label = pair->labels[groups[g]][k], place = label_place(term, label),
                match = label_place(other, label);
      order[n] = place;
      dims[n] = term->x->dims[place];
      if (match >= 0) {
        value own = {.rank = 1, .dims = {dims[n]}},
              its = {.rank = 1, .dims = {other->x->dims[match]}};
        (void)emit_broadcast(pair->im, (value *[]){&own, &its}, 2, &dims[n]);
      }
      n++;
    }
  }
  return emit_expand(pair->im, emit_permute(pair->im, term->x, order), n, dims);
}

/* Joins the dimensions of the last two of three groups, each to one. */
static value *join_groups(const einsum_pair *pair, value *input, const label_group *groups) {
  number dims[CLAVE_MAX_RANK + 2];
  int n = 0;
  if (!input) return NULL;
  for (; n < pair->n[groups[0]]; n++) dims[n] = input->dims[n];
  for (int g = 1, at = n; g < 3; g++, n++) {
    dims[n] = number_int(1);
    for (int k = 0; k < pair->n[groups[g]]; k++)
      dims[n] = number_mul(pair->im, dims[n], input->dims[at++]);
  }
  return emit_reshape(pair->im, input, n, dims);
}

static value *multiply_matrices(const einsum_pair *pair, einsum_term *out) {
  static const label_group left_groups[] = {GROUP_BATCH, GROUP_LEFT, GROUP_SUMMED},
                           right_groups[] = {GROUP_BATCH, GROUP_SUMMED, GROUP_RIGHT};
  number dims[2 * CLAVE_MAX_RANK];
  int n = 0;
  value *left = align_term(pair, pair->left, left_groups),
        *right = align_term(pair, pair->right, right_groups);
  if (!left || !right) return NULL;
  for (int k = 0; k < pair->n[GROUP_BATCH] + pair->n[GROUP_LEFT]; k++) dims[n++] = left->dims[k];
  for (int k = right->rank - pair->n[GROUP_RIGHT]; k < right->rank; k++) dims[n++] = right->dims[k];
  value *product = emit_matmul(pair->im, join_groups(pair, left, left_groups),
                               join_groups(pair, right, right_groups), NULL, 1, 0);
  return emit_reshape(pair->im, product, out->n, dims);
}

/* Adds all dimensions of the groups to a term; those that it lacks have size 1. */
static value *spread_term(const einsum_pair *pair, const einsum_term *term, const int *labels,
                          int n) {
  int order[CLAVE_MAX_RANK], rank = 0;
  number dims[CLAVE_MAX_RANK];
  for (int k = 0; term->x && k < n; k++) {
    const int place = label_place(term, labels[k]);
    dims[k] = place < 0 ? number_int(1) : term->x->dims[place];
    if (place >= 0) order[rank++] = place;
  }
  return term->x ? emit_reshape(pair->im, emit_permute(pair->im, term->x, order), n, dims) : NULL;
}

static value *multiply_elements(const einsum_pair *pair, einsum_term *out) {
  static const label_group groups[] = {GROUP_BATCH, GROUP_LEFT, GROUP_RIGHT, GROUP_SUMMED};
  int labels[2 * CLAVE_MAX_RANK], axes[CLAVE_MAX_RANK], n = 0;
  for (int g = 0; g < GROUPS; g++)
    for (int k = 0; k < pair->n[groups[g]]; k++) labels[n++] = pair->labels[groups[g]][k];
  if (n > CLAVE_MAX_RANK) {
    import_unsupported(pair->im, "a product of %d dimensions", n);
    return NULL;
  }
  value *product = emit_binary(pair->im, "mul", spread_term(pair, pair->left, labels, n),
                               spread_term(pair, pair->right, labels, n));
  for (int k = 0; k < pair->n[GROUP_SUMMED]; k++) axes[k] = out->n + k;
  if (!pair->n[GROUP_SUMMED]) return product;
  return emit_reduce(pair->im, "sum", product, axes, pair->n[GROUP_SUMMED], false);
}

/* Joins the result so far with operand `next`. */
static void join_terms(const einsum *einsum, int next, einsum_term *left) {
  einsum_term out = {0};
  einsum_pair pair = {.im = einsum->im, .left = left, .right = &einsum->terms[next]};
  group_labels(einsum, next, &pair);
  for (int g = 0; g < GROUPS; g++)
    for (int k = 0; g != GROUP_SUMMED && k < pair.n[g]; k++)
      if (!label_add(einsum->im, &out, pair.labels[g][k])) return;
  if (!left->x || !pair.right->x) return;
  const bool matrices = pair.n[GROUP_SUMMED] && dtype_is_float((dtype)left->x->type) &&
                        pair.n[GROUP_BATCH] + 2 <= CLAVE_MAX_RANK;
  out.x = matrices ? multiply_matrices(&pair, &out) : multiply_elements(&pair, &out);
  *left = out;
}

/* ---------------------------------------------------------------- the node */

static const char *read_equation(node *node) {
  const char *text = node_text(node, "equation", NULL);
  char *out = text ? import_alloc(node->im, strlen(text) + 1, 1) : NULL;
  if (!text) import_invalid(node->im, "attribute 'equation' is missing");
  for (size_t i = 0; out && *text; text++)
    if (*text != ' ') out[i++] = *text;
  return out;
}

/* Intermediate sums of small dtypes are not rounded. */
static clave_dtype einsum_type(clave_dtype type, int n_terms) {
  if (!dtype_is_float((dtype)type)) return CLAVE_I64;
  return n_terms > 2 && type != CLAVE_F64 ? CLAVE_F32 : type;
}

void onnx_einsum(node *node) {
  const char *text = read_equation(node);
  einsum einsum = {.im = node->im, .n_terms = node->n_inputs};
  value *first = node_required(node, 0);
  if (!text || !first) return;
  einsum.terms = import_alloc(node->im, (size_t)node->n_inputs, sizeof *einsum.terms);
  const clave_dtype type = einsum_type(first->type, node->n_inputs);
  for (int i = 0; i < node->n_inputs && einsum.terms; i++) {
    einsum.terms[i].x = emit_cast(node->im, node_required(node, i), type);
    if (!einsum.terms[i].x) return;
  }
  if (node->n_inputs > MAX_LABEL) import_unsupported(node->im, "%d inputs", node->n_inputs);
  if (!import_ok(node->im)) return;
  read_output_labels(&einsum, read_input_labels(&einsum, text));
  for (int i = 0; i < einsum.n_terms && import_ok(node->im); i++)
    take_diagonals(node->im, &einsum.terms[i]);
  for (int i = 0; i < einsum.n_terms && import_ok(node->im); i++) sum_alone(&einsum, i);
  einsum_term out = einsum.terms[0];
  for (int i = 1; i < einsum.n_terms && import_ok(node->im); i++) join_terms(&einsum, i, &out);
  if (!import_ok(node->im)) return;
  int order[CLAVE_MAX_RANK];
  for (int k = 0; k < einsum.out.n; k++) order[k] = label_place(&out, einsum.out.labels[k]);
  node_set(node, 0, emit_cast(node->im, emit_permute(node->im, out.x, order), first->type));
}
