/* Where what is in a panel of codes. */
#include "base/code_panels.h"

enum { LINE = 64 /* bytes */ };

static void of_blocks(const block_format *f, code_panels *p) {
  p->bits = f->bits <= 4 ? 4 : 8;
  p->least = f->least;
  p->spans = f->spans;
  p->has_subs = f->has_subs;
  p->has_lows = f->has_lows;
  p->wide = f->wide;
}

static void of_groups(const encoding *e, code_panels *p) {
  p->spans = e->group % DECODED_AT_ONCE ? 2 : 1;
  p->code = e->code;
  p->bits = e->bits <= 4 ? 4 : 8;
  p->least = e->has_zeros || e->code != CODE_INT ? 0 : -(1 << (e->bits - 1));
  p->has_lows = e->has_zeros;
  p->wide = e->has_zeros || e->scale != DTYPE_F16;
}

/* Spans that share factors in all of a row. */
static int64_t shared_spans(const encoding *e, const code_panels *p) {
  int64_t elements = e->group;
  if (e->kind == ENCODING_BLOCKS) elements = block_format_at(e->format)->elements;
  return elements ? elements * p->spans / DECODED_AT_ONCE : p->parts * p->spans;
}

/* Groups that begin and end elsewhere than blocks have their factors again for each span. */
static int period_of_block(const code_panels *p, int64_t shared) {
  const int spans = p->block * p->spans;
  if (spans % shared == 0) return (int)shared;
  return shared % spans == 0 || shared >= p->parts * p->spans ? spans : 1;
}

bool code_panels_of(const encoding *e, int64_t k, code_panels *p) {
  if (e->kind == ENCODING_PLAIN || k > INT32_MAX) return false;
  *p = (code_panels){.parts = (k + DECODED_AT_ONCE - 1) / DECODED_AT_ONCE};
  if (e->kind == ENCODING_GROUPS)
    of_groups(e, p);
  else
    of_blocks(block_format_at(e->format), p);
  p->block = p->parts < BLOCK_PARTS ? (int)p->parts : BLOCK_PARTS;
  p->period = period_of_block(p, shared_spans(e, p));
  for (int i = 0; i < p->block * p->spans; i++) p->row[i] = (uint8_t)(i / p->period);
  const size_t parts = (size_t)p->block, spans = parts * (size_t)p->spans,
               factors = spans / (size_t)p->period * CODE_PANEL * (p->wide ? 4 : 2),
               subs = p->has_subs ? spans * CODE_PANEL : 0;
  p->d_at = parts * DECODED_AT_ONCE * CODE_PANEL * (size_t)p->bits / 8;
  p->m_at = p->d_at + factors;
  p->s_at = p->m_at + (p->has_lows ? factors : 0);
  p->l_at = p->s_at + subs;
  p->block_bytes = (p->l_at + (p->has_lows ? subs : 0) + LINE - 1) / LINE * LINE;
  p->bytes = code_block_at(p, p->parts + p->block - 1);
  return true;
}
