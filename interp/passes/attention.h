#ifndef INTERP_PASSES_ATTENTION_H
#define INTERP_PASSES_ATTENTION_H
/* A match of the attention pass, which the finder (attention.c) hands to the writer
 * (attention_write.c). */
#include "interp/passes/match.h"

enum { MAX_ADDED = 4 };

/* The scores, to which the softmax is applied. added_at, condition_at: tensors with the shape that
 * the scores had where the mask was applied. */
typedef struct scores {
  uint32_t q, kt; /* shapes (lead, Lq, D) and (lead, D, Lk) */
  double scale;
  uint32_t added[MAX_ADDED], added_at[MAX_ADDED];
  int n_added;
  uint32_t condition, condition_at; /* BOOL; IR_NONE if none exists */
  bool hides;  /* the condition is true for hidden keys; else for visible ones */
  double fill; /* score of a hidden key */
} scores;

typedef enum mask_kind { MASK_NONE, MASK_CONDITION, MASK_ADDED, MASK_SEEN } mask_kind;

typedef struct found_attention {
  scores scores;
  uint32_t probabilities; /* output of the softmax, whose leading sizes the new op has */
  uint32_t v;
  bool safe; /* a row whose scores are all -inf yields zeros */
  mask_kind mask;
  uint32_t seen; /* MASK_SEEN: a BOOL tensor that is true for visible keys, or a float constant that
                    is 0 for them and -inf for others */
} found_attention;

/* Adds the attention op and returns its result, reshaped to the root's shape. */
uint32_t add_attention(match *match, const found_attention *attention);

/* ---- shared helpers ---- */
bool draft_same_lead(const draft *draft, uint32_t a, uint32_t b);   /* all but the last two sizes */
bool draft_same_matrix(const draft *draft, uint32_t a, uint32_t b); /* the last two sizes */
/* True if x's leading sizes equal those of `lead`, can be reshaped to them, or broadcast. */
bool lead_fits(const draft *draft, uint32_t x, uint32_t lead);
/* True if all leading sizes of the mask are 1: it applies to the whole batch and all heads. */
bool is_one_mask(const draft *draft, uint32_t mask);
/* Returns the tensor (B, G, L, D) of which x (B, G n, L, D) repeats each head; else IR_NONE. */
uint32_t ungrouped(const draft *draft, uint32_t x);

#endif
