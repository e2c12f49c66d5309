/* Rows of queries, keys and values of an attention. */
#include "backend/cpu/kernels/attention/attend_rows.h"

/* Returns the offset in t of head `head`, counted over batches; `group` heads share one of t. */
static int64_t head_offset(const attention *attention, const ktensor *t, int64_t head,
                           int64_t group) {
  const int heads = attention->q->rank - 3;
  int64_t offset = 0;
  for (int d = heads; d >= 0; d--) {
    int64_t size = attention->q->dims[d], i = head % size;
    if (t->dims[d] > 1) offset += (d == heads ? i / group : i) * t->strides[d];
    head /= size;
  }
  return offset;
}

query_row find_query(const attention *attention, int64_t pair, int64_t r) {
  const attention_sizes *sizes = &attention->sizes;
  query_row row = {.head = pair * sizes->share + r / sizes->n_queries,
                   .query = r % sizes->n_queries};
  int64_t to = (attention->positions ? attention->positions[row.query]
                                     : attention->before + row.query) +
               1,
          from = to - attention->window;
  row.to = attention->causal && to < sizes->n_keys ? to : sizes->n_keys;
  row.from = attention->window && from > 0 ? from : 0;
  return row;
}

int64_t query_offset(const attention *attention, const ktensor *t, const query_row *row) {
  return head_offset(attention, t, row->head, 1) + row->query * t->strides[attention->q->rank - 2];
}

static key_rows find_key_rows(const attention *attention, const ktensor *t, const ktensor *scale,
                              int64_t pair) {
  const int64_t share = attention->sizes.share, head = pair * share;
  return (key_rows){t,
                    scale,
                    head_offset(attention, t, head, share),
                    scale ? head_offset(attention, scale, head, share) : 0,
                    attention->first_row,
                    t->dims[attention->q->rank - 2],
                    attention->pages};
}

key_rows find_keys(const attention *attention, int64_t pair) {
  return find_key_rows(attention, attention->k, attention->k_scale, pair);
}
key_rows find_values(const attention *attention, int64_t pair) {
  return find_key_rows(attention, attention->v, attention->v_scale, pair);
}
