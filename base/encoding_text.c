/* Names of encodings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"

bool block_format_find(const char *name, uint8_t *format) {
  const block_format *found;
  for (int i = 0; (found = block_format_at(i)); i++) {
    if (strcmp(found->name, name) != 0) continue;
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

const char *encoding_text(const encoding *encoding, char *buf, size_t size) {
  char bits[8] = "", group[16] = "";
  if (encoding->kind != ENCODING_GROUPS) {
    (void)snprintf(buf, size, "%s",
                   encoding->kind ? block_format_at(encoding->format)->name : "plain");
    return buf;
  }
  if (encoding->code == CODE_INT) (void)snprintf(bits, sizeof bits, "%d", encoding->bits);
  if (encoding->group) (void)snprintf(group, sizeof group, ":%u", encoding->group);
  (void)snprintf(
      buf, size, "%s%s%s%s%s", code_names[encoding->code], bits, group,
      encoding->has_zeros ? ":zeros" : "",
      encoding->scale == usual_scale(encoding->group) ? "" : scale_names[encoding->scale]);
  return buf;
}

/* If *at begins with the whole word, skips it and returns true. */
static bool take_word(const char **at, const char *word) {
  size_t n = strlen(word);
  if (strncmp(*at, word, n) != 0 || ((*at)[n] && (*at)[n] != ':')) return false;
  *at += n;
  return true;
}

static bool take_code(const char **at, encoding *encoding) {
  encoding->bits = 8;
  for (encoding->code = CODE_E4M3; encoding->code < CODE_COUNT; encoding->code++)
    if (take_word(at, code_names[encoding->code])) return true;
  encoding->code = CODE_INT;
  if (strncmp(*at, "int", 3) != 0 || (*at)[3] < '2' || (*at)[3] > '8') return false;
  encoding->bits = (uint8_t)((*at)[3] - '0');
  *at += 4;
  return **at == 0 || **at == ':';
}

bool encoding_parse(const char *text, encoding *out) {
  encoding code = {.kind = ENCODING_BLOCKS};
  bool is_block = block_format_find(text, &code.format);
  if (!is_block) {
    code = (encoding){.kind = ENCODING_GROUPS};
    if (!take_code(&text, &code)) return false;
    if (text[0] == ':' && text[1] >= '1' && text[1] <= '9') {
      char *end;
      unsigned long group = strtoul(text + 1, &end, 10);
      if (group > INT32_MAX) return false;
      code.group = (uint32_t)group;
      text = end;
    }
    code.has_zeros = take_word(&text, ":zeros");
    code.scale = usual_scale(code.group);
    for (uint8_t s = 0; s < N_SCALES; s++)
      if (scale_names[s] && take_word(&text, scale_names[s])) code.scale = s;
  }
  *out = code;
  return is_block || *text == 0;
}
