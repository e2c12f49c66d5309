/* Where what is in a panel of codes. */
#include "base/code_panels.h"

static void of_blocks(const block_format *f, code_panels *p) {
  p->bits = f->bits <= 4 ? 4 : 8;
  p->least = f->least;
  p->spans = f->spans;
  p->has_subs = f->has_subs;
  p->has_lows = f->has_lows;
  p->wide = f->wide;
  p->period = f->elements / DECODED_AT_ONCE * f->spans;
}

static void of_groups(const encoding *e, code_panels *p) {
  p->spans = e->group % DECODED_AT_ONCE ? 2 : 1;
  p->code = e->code;
  p->bits = e->bits <= 4 ? 4 : 8;
  p->least = e->has_zeros || e->code != CODE_INT ? 0 : -(1 << (e->bits - 1));
  p->has_lows = e->has_zeros;
  p->wide = e->has_zeros || e->scale != DTYPE_F16;
  p->period = e->group ? (int64_t)e->group * p->spans / DECODED_AT_ONCE : p->parts;
}

bool code_panels_of(const encoding *e, int64_t k, code_panels *p) {
  if (e->kind == ENCODING_PLAIN || k > INT32_MAX) return false;
  *p = (code_panels){.parts = (k + DECODED_AT_ONCE - 1) / DECODED_AT_ONCE};
  if (e->kind == ENCODING_GROUPS)
    of_groups(e, p);
  else
    of_blocks(block_format_at(e->format), p);
  size_t parts = (size_t)p->parts, spans = parts * (size_t)p->spans;
  size_t periods = (spans + (size_t)p->period - 1) / (size_t)p->period;
  size_t factors = periods * CODE_PANEL * (p->wide ? 4 : 2),
         subs = p->has_subs ? spans * CODE_PANEL : 0;
  p->d_at = parts * DECODED_AT_ONCE * CODE_PANEL * (size_t)p->bits / 8;
  p->m_at = p->d_at + factors;
  p->s_at = p->m_at + (p->has_lows ? factors : 0);
  p->l_at = p->s_at + subs;
  p->bytes = (p->l_at + (p->has_lows ? subs : 0) + 63) / 64 * 64;
  return true;
}
