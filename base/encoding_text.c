/* Encodings by their names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"

bool block_format_find(const char *name, uint8_t *format) {
  const block_format *f;
  for (int i = 0; (f = block_format_at(i)); i++) {
    if (strcmp(f->name, name) != 0) continue;
    *format = (uint8_t)i;
    return true;
  }
  return false;
}

static const char *const code_names[CODE_COUNT] = {"int", "e4m3", "e5m2"};
static const char *const scale_names[] = {
    [DTYPE_F32] = ":f32", [DTYPE_F16] = ":f16", [DTYPE_BF16] = ":bf16"};
enum { N_SCALES = sizeof scale_names / sizeof *scale_names };

static uint8_t usual_scale(uint32_t group) { return group ? DTYPE_F16 : DTYPE_F32; }

const char *encoding_text(const encoding *e, char *buf, size_t size) {
  char bits[8] = "", group[16] = "";
  if (e->kind != ENCODING_GROUPS) {
    (void)snprintf(buf, size, "%s", e->kind ? block_format_at(e->format)->name : "plain");
    return buf;
  }
  if (e->code == CODE_INT) (void)snprintf(bits, sizeof bits, "%d", e->bits);
  if (e->group) (void)snprintf(group, sizeof group, ":%u", e->group);
  (void)snprintf(buf, size, "%s%s%s%s%s", code_names[e->code], bits, group,
                 e->has_zeros ? ":zeros" : "",
                 e->scale == usual_scale(e->group) ? "" : scale_names[e->scale]);
  return buf;
}

/* Whether *at begins with word, as a whole; then it is passed. */
static bool take_word(const char **at, const char *word) {
  size_t n = strlen(word);
  if (strncmp(*at, word, n) != 0 || ((*at)[n] && (*at)[n] != ':')) return false;
  *at += n;
  return true;
}

static bool take_code(const char **at, encoding *e) {
  e->bits = 8;
  for (e->code = CODE_E4M3; e->code < CODE_COUNT; e->code++)
    if (take_word(at, code_names[e->code])) return true;
  e->code = CODE_INT;
  if (strncmp(*at, "int", 3) != 0 || (*at)[3] < '2' || (*at)[3] > '8') return false;
  e->bits = (uint8_t)((*at)[3] - '0');
  *at += 4;
  return **at == 0 || **at == ':';
}

bool encoding_parse(const char *text, encoding *out) {
  encoding e = {.kind = ENCODING_BLOCKS};
  bool is_block = block_format_find(text, &e.format);
  if (!is_block) {
    e = (encoding){.kind = ENCODING_GROUPS};
    if (!take_code(&text, &e)) return false;
    if (text[0] == ':' && text[1] >= '1' && text[1] <= '9') {
      char *end;
      unsigned long group = strtoul(text + 1, &end, 10);
      if (group > INT32_MAX) return false;
      e.group = (uint32_t)group;
      text = end;
    }
    e.has_zeros = take_word(&text, ":zeros");
    e.scale = usual_scale(e.group);
    for (uint8_t s = 0; s < N_SCALES; s++)
      if (scale_names[s] && take_word(&text, scale_names[s])) e.scale = s;
  }
  *out = e;
  return is_block || *text == 0;
}
