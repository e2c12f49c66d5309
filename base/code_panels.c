/* Computes the layout of code panels. */
#include "base/code_panels.h"

static void set_from_blocks(const block_format *format, code_panels *panels) {
  panels->bits = format->bits <= 4 ? 4 : 8;
  panels->least = format->least;
  panels->spans = format->spans;
  panels->has_subs = format->has_subs;
  panels->has_lows = format->has_lows;
  panels->wide = format->wide;
}

static void set_from_groups(const encoding *encoding, code_panels *panels) {
  panels->spans = encoding->group % DECODED_AT_ONCE ? 2 : 1;
  panels->code = encoding->code;
  panels->bits = encoding->bits <= 4 ? 4 : 8;
  panels->least =
      encoding->has_zeros || encoding->code != CODE_INT ? 0 : -(1 << (encoding->bits - 1));
  panels->has_lows = encoding->has_zeros;
  panels->wide = encoding->has_zeros || encoding->scale != DTYPE_F16;
}

/* Returns how many consecutive spans of a row share d and m. */
static int64_t shared_spans(const encoding *encoding, const code_panels *panels) {
  int64_t elements = encoding->group;
  if (encoding->kind == ENCODING_BLOCKS) elements = block_format_at(encoding->format)->elements;
  return elements ? elements * panels->spans / DECODED_AT_ONCE : panels->parts * panels->spans;
}

/* Returns code_panels.period for rows in which `shared` spans share d and m. If neither a group nor
 * a block is a multiple of the other, each span has its own factors: period 1. */
static int period_of_block(const code_panels *panels, int64_t shared) {
  const int spans = panels->block * panels->spans;
  if (spans % shared == 0) return (int)shared;
  return shared % spans == 0 || shared >= panels->parts * panels->spans ? spans : 1;
}

bool code_panels_of(const encoding *encoding, int64_t k, code_panels *panels) {
  if (encoding->kind == ENCODING_PLAIN || k > INT32_MAX) return false;
  *panels = (code_panels){.parts = (k + DECODED_AT_ONCE - 1) / DECODED_AT_ONCE};
  if (encoding->kind == ENCODING_GROUPS)
    set_from_groups(encoding, panels);
  else
    set_from_blocks(block_format_at(encoding->format), panels);
  panels->block = panels->parts < BLOCK_PARTS ? (int)panels->parts : BLOCK_PARTS;
  panels->period = period_of_block(panels, shared_spans(encoding, panels));
  for (int i = 0; i < panels->block * panels->spans; i++)
    panels->row[i] = (uint8_t)(i / panels->period);
  const size_t parts = (size_t)panels->block, spans = parts * (size_t)panels->spans,
               factors = spans / (size_t)panels->period * CODE_PANEL * (panels->wide ? 4 : 2),
               subs = panels->has_subs ? spans * CODE_PANEL : 0;
  panels->d_at = parts * DECODED_AT_ONCE * CODE_PANEL * (size_t)panels->bits / 8;
  panels->m_at = panels->d_at + factors;
  panels->s_at = panels->m_at + (panels->has_lows ? factors : 0);
  panels->l_at = panels->s_at + subs;
  panels->block_bytes =
      (panels->l_at + (panels->has_lows ? subs : 0) + CODE_LINE - 1) / CODE_LINE * CODE_LINE;
  panels->bytes = code_block_at(panels, panels->parts + panels->block - 1);
  return true;
}
