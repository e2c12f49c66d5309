#ifndef IMPORT_EMIT_EXPERTS_H
#define IMPORT_EMIT_EXPERTS_H
/* Mixtures of experts: each token is computed by its best experts. The choices are sorted by
 * expert, so that each expert multiplies one group of rows. */
#include "import/emit.h"

typedef struct expert_choices {
  number tokens, k; /* T tokens, each with k experts */
  value *shares;    /* (T, k): weights of the choices; set by the caller */
  value *experts;   /* (T * k), I64: sorted */
  value *order;     /* (T * k), I64: which choice each sorted one is; token * k + rank */
  value *ends;      /* (E), I64: the end of each expert's rows */
} expert_choices;

/* Sets experts, order and ends. chosen: (T, k), I64. */
void emit_sort_choices(importer *im, value *chosen, number n_experts, expert_choices *out);
/* Returns the rows of input (T, size) in the order of the sorted choices: (T * k, size). */
value *emit_chosen_rows(importer *im, const expert_choices *choices, value *input);
/* Returns the product of each row with the weight of its expert: (T * k, N).
 * input: (T * k, K); weight: (E, N, K), also in codes. */
value *emit_expert_product(importer *im, const expert_choices *choices, value *input,
                           value *weight);
/* Returns the sums of each token's rows, weighted by the shares: (T, size). out: (T * k, size) in
 * the order of the sorted choices. */
value *emit_join_choices(importer *im, const expert_choices *choices, value *out);

#endif
