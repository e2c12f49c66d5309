/* Rows of queries, keys and values of an attention. */
#include "backend/cpu/kernels/attention/attend_rows.h"

/* Offset of the matrix of flat head `head` in t, whose heads are shared by `group`. */
static int64_t head_offset(const attention *p, const ktensor *t, int64_t head, int64_t group) {
  const int heads = p->q->rank - 3;
  int64_t offset = 0;
  for (int d = heads; d >= 0; d--) {
    int64_t size = p->q->dims[d], i = head % size;
    if (t->dims[d] > 1) offset += (d == heads ? i / group : i) * t->strides[d];
    head /= size;
  }
  return offset;
}

query_row find_query(const attention *p, int64_t pair, int64_t r) {
  const attention_sizes *s = &p->sizes;
  query_row row = {.head = pair * s->share + r / s->n_queries, .query = r % s->n_queries};
  int64_t to = (p->positions ? p->positions[row.query] : p->before + row.query) + 1,
          from = to - p->window;
  row.to = p->causal && to < s->n_keys ? to : s->n_keys;
  row.from = p->window && from > 0 ? from : 0;
  return row;
}

int64_t query_offset(const attention *p, const ktensor *t, const query_row *r) {
  return head_offset(p, t, r->head, 1) + r->query * t->strides[p->q->rank - 2];
}

static key_rows find_rows(const attention *p, const ktensor *t, const ktensor *scale,
                          int64_t pair) {
  const int64_t share = p->sizes.share, head = pair * share;
  return (key_rows){t,
                    scale,
                    head_offset(p, t, head, share),
                    scale ? head_offset(p, scale, head, share) : 0,
                    p->first_row,
                    t->dims[p->q->rank - 2],
                    p->pages};
}

key_rows find_keys(const attention *p, int64_t pair) {
  return find_rows(p, p->k, p->k_scale, pair);
}
key_rows find_values(const attention *p, int64_t pair) {
  return find_rows(p, p->v, p->v_scale, pair);
}
