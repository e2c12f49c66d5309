/* What Python's str does. Results keep, byte by byte, which of their text was written by people. */
#include <string.h>

#include "base/utf8.h"
#include "jinja/render.h"
#include "jinja/unicode.h"

size_t string_at(const string *s, size_t i) {
  size_t at = 0;
  while (at < s->size && i--) {
    at++;
    while (at < s->size && ((unsigned char)s->data[at] & 0xC0) == 0x80) at++;
  }
  return at;
}

/* ---------------------------------------------------------------- case */

/* Is there a cased character next to `at`, beyond those that do not count? */
static bool cased_before(const string *s, size_t at) {
  while (at > 0) {
    uint32_t c;
    do at--;
    while (at > 0 && ((unsigned char)s->data[at] & 0xC0) == 0x80);
    utf8_read(s->data + at, &c);
    if (!is_case_ignorable(c)) return is_cased(c);
  }
  return false;
}
static bool cased_after(const string *s, size_t at) {
  while (at < s->size) {
    uint32_t c;
    at += utf8_read(s->data + at, &c);
    if (!is_case_ignorable(c)) return is_cased(c);
  }
  return false;
}

/* The characters between which the filter title begins words. */
static bool begins_word(uint32_t c) { return is_space(c) || (c < 0x80 && strchr("-({[<", (int)c)); }

typedef struct case_state {
  bool first;  /* nothing was read */
  bool inside; /* of a word */
} case_state;

static case_form choose_form(case_change change, uint32_t c, case_state *state) {
  if (change == CHANGE_UPPER) return CASE_UPPER;
  if (change == CHANGE_LOWER) return CASE_LOWER;
  bool first = state->first, inside = state->inside;
  state->first = false;
  state->inside = change == CHANGE_TITLE ? is_cased(c) : c && !begins_word(c);
  switch (change) {
    case CHANGE_TITLE:
      return inside ? CASE_LOWER : CASE_TITLE;
    case CHANGE_WORDS:
      return inside ? CASE_LOWER : CASE_UPPER;
    case CHANGE_CAPITALIZE:
      return first ? CASE_TITLE : CASE_LOWER;
    case CHANGE_SWAP:
      return is_upper(c) ? CASE_LOWER : is_lower(c) ? CASE_UPPER : CASE_SAME;
    default:
      return CASE_LOWER;
  }
}

static size_t change_character(const string *s, size_t at, size_t n, uint32_t c, case_form form,
                               uint32_t out[3]) {
  if (form != CASE_LOWER || c != 0x3A3) return map_case(c, form, out);
  out[0] = cased_before(s, at) && !cased_after(s, at + n) ? 0x3C2 : 0x3C3;
  return 1;
}

static bool all_ascii(const string *s) {
  unsigned char any = 0;
  for (size_t i = 0; i < s->size; i++) any |= (unsigned char)s->data[i];
  return any < 0x80;
}

/* ASCII that one origin wrote. */
static clave_status change_ascii(render *r, const string *s, case_change change, value *out) {
  case_state state = {.first = true};
  char *bytes;
  TRY(arena_alloc(&r->arena, s->size, 1, &bytes));
  for (size_t i = 0; i < s->size; i++) {
    uint32_t c = (unsigned char)s->data[i], to[3];
    (void)map_case(c, choose_form(change, c, &state), to);
    bytes[i] = (char)to[0];
  }
  return make_borrowed(&r->arena, bytes, s->size, s->written, out);
}

clave_status string_case(render *r, const string *s, case_change change, value *out) {
  builder b = {0};
  if (!s->mask && all_ascii(s)) {
    TRY(arena_charge(&r->arena, s->size / 16));
    return change_ascii(r, s, change, out);
  }
  case_state state = {.first = true};
  clave_status st = arena_charge(&r->arena, s->size / 16);
  for (size_t at = 0, n; at < s->size && !st; at += n) {
    uint32_t c, to[3];
    n = utf8_read(s->data + at, &c);
    if (c == 0x3A3 && change == CHANGE_WORDS)
      st = UNSUPPORTED("the filter title of a text with a capital sigma is not supported");
    size_t count = change_character(s, at, n, c, choose_form(change, c, &state), to);
    string was = {.data = s->data + at,
                  .size = n,
                  .mask = s->mask ? s->mask + at : NULL,
                  .written = s->written};
    for (size_t i = 0; i < count; i++) {
      char bytes[4];
      builder_like(&b, bytes, utf8_write(to[i], bytes), &was);
    }
    if (c == 0x3A3 && !st) st = arena_charge(&r->arena, s->size / 64);
  }
  if (!st) return builder_string(&r->arena, &b, out);
  builder_free(&b);
  return st;
}

/* ---------------------------------------------------------------- strip, replace */

static size_t strips_at(const char *s, size_t size, const string *chars) {
  if (!chars) return space_at(s, size);
  size_t n = utf8_sequence(s, size);
  return n && memmem(chars->data, chars->size, s, n) ? n : 0;
}

static size_t strips_before(const char *s, size_t size, const string *chars) {
  size_t at = size;
  if (!chars) return space_before(s, size);
  while (at && ((unsigned char)s[at - 1] & 0xC0) == 0x80) at--;
  if (at) at--;
  return strips_at(s + at, size - at, chars);
}

clave_status string_strip(render *r, const string *s, const string *chars, strip_side side,
                          value *out) {
  size_t from = 0, to = s->size, n;
  if (side & STRIP_LEFT) {
    while (from < to && (n = strips_at(s->data + from, to - from, chars))) from += n;
  }
  if (side & STRIP_RIGHT) {
    while (to > from && (n = strips_before(s->data + from, to - from, chars))) to -= n;
  }
  TRY(arena_charge(&r->arena, (s->size - to + from) / 16));
  return make_part(&r->arena, s, from, to - from, out);
}

static string piece(const string *s, size_t at, size_t size) {
  return (string){.data = s->data + at,
                  .size = size,
                  .mask = s->mask ? s->mask + at : NULL,
                  .written = s->written};
}

static void add_piece(builder *b, const string *s, size_t at, size_t size) {
  string p = piece(s, at, size);
  if (size) builder_add(b, &p);
}

/* Before each character, and at the end. */
static void replace_between(builder *b, const string *s, const string *new, int64_t most) {
  for (size_t at = 0, n; at < s->size; at += n) {
    n = utf8_sequence(s->data + at, s->size - at);
    if (most-- > 0) builder_add(b, new);
    add_piece(b, s, at, n);
  }
  if (most > 0) builder_add(b, new);
}

clave_status string_replace(render *r, const string *s, const string *old, const string *new,
                            int64_t most, value *out) {
  builder b = {0};
  size_t from = 0, times = s->size / (old->size ? old->size : 1) + 1;
  TRY(arena_charge(&r->arena, s->size / 64));
  if (new->size && times > (4 * (size_t)JINJA_MAX_OUTPUT) / new->size &&
      !(old->size && !memmem(s->data, s->size, old->data, old->size)))
    return INVALID("replacing may make a text of more than %d bytes", JINJA_MAX_OUTPUT);
  if (most < 0) most = INT64_MAX;
  if (old->size == 0) {
    replace_between(&b, s, new, most);
    return builder_string(&r->arena, &b, out);
  }
  while (most-- > 0) {
    const char *at = memmem(s->data + from, s->size - from, old->data, old->size);
    if (!at) break;
    add_piece(&b, s, from, (size_t)(at - s->data) - from);
    builder_add(&b, new);
    from = (size_t)(at - s->data) + old->size;
  }
  add_piece(&b, s, from, s->size - from);
  return builder_string(&r->arena, &b, out);
}

/* ---------------------------------------------------------------- split, join */

static clave_status add_part(render *r, const string *s, size_t from, size_t to, list *l) {
  value part;
  TRY(make_part(&r->arena, s, from, to - from, &part));
  return list_add(&r->arena, l, part);
}

static void reverse_list(list *l) {
  for (size_t i = 0; i < l->count / 2; i++) {
    value v = l->items[i];
    l->items[i] = l->items[l->count - 1 - i];
    l->items[l->count - 1 - i] = v;
  }
}

static clave_status split_space(render *r, const string *s, int64_t most, list *l) {
  size_t at = 0, n;
  for (;;) {
    while (at < s->size && (n = space_at(s->data + at, s->size - at))) at += n;
    if (at == s->size) return NULL;
    size_t from = at;
    if (most-- == 0) return add_part(r, s, from, s->size, l);
    while (at < s->size && !space_at(s->data + at, s->size - at))
      at += utf8_sequence(s->data + at, s->size - at);
    TRY(add_part(r, s, from, at, l));
  }
}

static clave_status split_space_right(render *r, const string *s, int64_t most, list *l) {
  size_t end = s->size, n;
  for (;;) {
    while (end && (n = space_before(s->data, end))) end -= n;
    if (end == 0) return NULL;
    size_t to = end, from = 0;
    if (most-- == 0) {
      while (from < to && (n = space_at(s->data + from, to - from))) from += n;
      return add_part(r, s, from, to, l);
    }
    while (end && !space_before(s->data, end)) {
      do end--;
      while (end && ((unsigned char)s->data[end] & 0xC0) == 0x80);
    }
    TRY(add_part(r, s, end, to, l));
  }
}

static clave_status split_at(render *r, const string *s, const string *sep, int64_t most, list *l) {
  size_t from = 0;
  while (most-- != 0) {
    const char *at = memmem(s->data + from, s->size - from, sep->data, sep->size);
    if (!at) break;
    TRY(add_part(r, s, from, (size_t)(at - s->data), l));
    from = (size_t)(at - s->data) + sep->size;
  }
  return add_part(r, s, from, s->size, l);
}

/* Where the last `what` begins that ends at or before `end`; SIZE_MAX: nowhere. */
static size_t find_last(const string *s, size_t end, const string *what) {
  if (what->size > end) return SIZE_MAX;
  for (size_t at = end - what->size + 1; at-- > 0;) {
    if (memcmp(s->data + at, what->data, what->size) == 0) return at;
  }
  return SIZE_MAX;
}

static clave_status split_at_right(render *r, const string *s, const string *sep, int64_t most,
                                   list *l) {
  size_t end = s->size;
  while (most-- != 0) {
    size_t at = find_last(s, end, sep);
    if (at == SIZE_MAX) break;
    TRY(add_part(r, s, at + sep->size, end, l));
    end = at;
  }
  return add_part(r, s, 0, end, l);
}

clave_status string_split(render *r, const string *s, const string *sep, int64_t most,
                          bool from_right, value *out) {
  if (sep && sep->size == 0) return INVALID("empty separator");
  TRY(arena_charge(&r->arena, s->size / 16));
  TRY(make_list(&r->arena, VALUE_LIST, 0, out));
  list *l = out->u.list;
  if (!from_right) return sep ? split_at(r, s, sep, most, l) : split_space(r, s, most, l);
  TRY(sep ? split_at_right(r, s, sep, most, l) : split_space_right(r, s, most, l));
  reverse_list(l);
  return NULL;
}

/* Bytes of the line end at s, 0 if there is none. */
static size_t line_end(const char *s, size_t size) {
  uint32_t c;
  size_t n = utf8_read(s, &c);
  if (c == '\r') return size > 1 && s[1] == '\n' ? 2 : 1;
  bool ends = (c >= 0x0A && c <= 0x0C) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
              c == 0x2029;
  return ends ? n : 0;
}

clave_status string_lines(render *r, const string *s, bool keep_ends, value *out) {
  size_t from = 0;
  TRY(arena_charge(&r->arena, s->size / 16));
  TRY(make_list(&r->arena, VALUE_LIST, 0, out));
  for (size_t at = 0; at < s->size;) {
    size_t n = line_end(s->data + at, s->size - at);
    if (!n) {
      at += utf8_sequence(s->data + at, s->size - at);
      continue;
    }
    TRY(add_part(r, s, from, at + (keep_ends ? n : 0), out->u.list));
    from = at += n;
  }
  return from < s->size ? add_part(r, s, from, s->size, out->u.list) : NULL;
}

clave_status string_join(render *r, const string *separator, const list *items, bool as_text,
                         value *out) {
  builder b = {0};
  clave_status st = NULL;
  for (size_t i = 0; i < items->count && !st; i++) {
    value v = items->items[i];
    if (i) builder_add(&b, separator);
    if (!as_text && v.kind != VALUE_STRING)
      st = INVALID("sequence item %zu: expected str instance, %s found", i, value_type(v));
    if (!st) st = append_str(&r->arena, &b, v);
    if (!st && b.data.size > JINJA_MAX_OUTPUT)
      st = INVALID("a text of more than %d bytes", JINJA_MAX_OUTPUT);
  }
  if (!st) return builder_string(&r->arena, &b, out);
  builder_free(&b);
  return st;
}

/* ---------------------------------------------------------------- find */

static int64_t clamp_index(int64_t i, int64_t n) {
  if (i < 0) i = i < -n ? 0 : i + n;
  return i > n ? n : i;
}

clave_status string_find(render *r, const string *s, const string *what, const int64_t range[2],
                         bool last, int64_t *out) {
  int64_t n = (int64_t)string_length(s);
  int64_t start = clamp_index(range[0], n), end = clamp_index(range[1], n);
  *out = -1;
  TRY(arena_charge(&r->arena, s->size / 16));
  if (range[0] > n || start > end) return NULL;
  size_t from = string_at(s, (size_t)start), to = string_at(s, (size_t)end), at;
  string in = {.data = s->data + from, .size = to - from};
  if (last) {
    at = find_last(&in, in.size, what);
  } else {
    const char *found = what->size ? memmem(in.data, in.size, what->data, what->size) : in.data;
    at = found ? (size_t)(found - in.data) : SIZE_MAX;
  }
  if (at == SIZE_MAX) return NULL;
  string before = {.data = in.data, .size = at};
  *out = start + (int64_t)string_length(&before);
  return NULL;
}
