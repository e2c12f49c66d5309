#ifndef INTERP_PASSES_ATTENTION_H
#define INTERP_PASSES_ATTENTION_H
/* What the attention pass knows of a match, between finding (attention.c) and writing it
 * (attention_write.c). */
#include "interp/passes/match.h"

enum { MAX_ADDED = 4 };

/* What stands inside of the softmax. "at": a tensor with the leading sizes of the scores where a
 * mask was applied. */
typedef struct scores {
  uint32_t q, kt; /* (lead, Lq, D), (lead, D, Lk) */
  double scale;
  uint32_t added[MAX_ADDED], added_at[MAX_ADDED];
  int n_added;
  uint32_t condition, condition_at; /* BOOL; IR_NONE */
  bool hides;  /* the condition is true where a key is hidden, else where it is seen */
  double fill; /* what a hidden key's score is */
} scores;

typedef enum mask_form { MASK_NONE, MASK_CONDITION, MASK_ADDED, MASK_SEEN } mask_form;

typedef struct found_attention {
  scores scores;
  uint32_t probabilities; /* the softmax: its leading sizes are those of all */
  uint32_t v;
  bool safe; /* a row of -inf becomes 0 */
  mask_form mask;
  uint32_t seen; /* MASK_SEEN: BOOL, or the float constant that is 0 where it would be true */
} found_attention;

/* The replacement, under the root's own shape. */
uint32_t add_attention(match *match, const found_attention *attention);

/* ---- for both ---- */
bool draft_same_lead(const draft *draft, uint32_t a, uint32_t b);   /* all sizes but the last two */
bool draft_same_matrix(const draft *draft, uint32_t a, uint32_t b); /* the last two sizes */
/* Comes x to the leading sizes of `lead` by a reshape, or has it those already, or 1 for some? */
bool lead_fits(const draft *draft, uint32_t x, uint32_t lead);
/* Are all its leading sizes 1: is it the same for all heads of the whole batch? */
bool is_one_mask(const draft *draft, uint32_t mask);
/* y (B, G, L, D) of x (B, G n, L, D) that repeats each head of y n times; IR_NONE. */
uint32_t ungrouped(const draft *draft, uint32_t x);

#endif
