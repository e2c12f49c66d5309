/* Operations of Python's str. Results record, byte by byte, which text is untrusted. */
#include <string.h>

#include "base/utf8.h"
#include "jinja/render.h"
#include "jinja/unicode.h"

size_t string_at(const string *string, size_t i) {
  size_t at = 0;
  while (at < string->size && i--) {
    at++;
    while (at < string->size && ((unsigned char)string->data[at] & 0xC0) == 0x80) at++;
  }
  return at;
}

/* ---------------------------------------------------------------- case */

/* True if the nearest character before `at` that is not case-ignorable is cased. */
static bool cased_before(const string *string, size_t at) {
  while (at > 0) {
    uint32_t c;
    do at--;
    while (at > 0 && ((unsigned char)string->data[at] & 0xC0) == 0x80);
    utf8_read(string->data + at, &c);
    if (!is_case_ignorable(c)) return is_cased(c);
  }
  return false;
}
static bool cased_after(const string *string, size_t at) {
  while (at < string->size) {
    uint32_t c;
    at += utf8_read(string->data + at, &c);
    if (!is_case_ignorable(c)) return is_cased(c);
  }
  return false;
}

/* True for characters after which the filter `title` begins a word. */
static bool begins_word(uint32_t c) { return is_space(c) || (c < 0x80 && strchr("-({[<", (int)c)); }

typedef struct case_state {
  bool first;  /* no character was read yet */
  bool inside; /* within a word */
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

static size_t change_character(const string *string, size_t at, size_t n, uint32_t c,
                               case_form form, uint32_t out[3]) {
  if (form != CASE_LOWER || c != 0x3A3) return map_case(c, form, out);
  out[0] = cased_before(string, at) && !cased_after(string, at + n) ? 0x3C2 : 0x3C3;
  return 1;
}

static bool all_ascii(const string *string) {
  unsigned char any = 0;
  for (size_t i = 0; i < string->size; i++) any |= (unsigned char)string->data[i];
  return any < 0x80;
}

/* Fast path for ASCII text that has no mask. */
static clave_status change_ascii(render *render, const string *string, case_change change,
                                 value *out) {
  case_state state = {.first = true};
  char *bytes;
  TRY(arena_alloc(&render->arena, string->size, 1, &bytes));
  for (size_t i = 0; i < string->size; i++) {
    uint32_t c = (unsigned char)string->data[i], to[3];
    (void)map_case(c, choose_form(change, c, &state), to);
    bytes[i] = (char)to[0];
  }
  return make_borrowed(&render->arena, bytes, string->size, string->untrusted, out);
}

clave_status string_case(render *render, const string *str, case_change change, value *out) {
  builder builder = {0};
  if (!str->mask && all_ascii(str)) {
    TRY(arena_charge(&render->arena, str->size / 16));
    return change_ascii(render, str, change, out);
  }
  case_state state = {.first = true};
  clave_status st = arena_charge(&render->arena, str->size / 16);
  for (size_t at = 0, n; at < str->size && !st; at += n) {
    uint32_t c, to[3];
    n = utf8_read(str->data + at, &c);
    if (c == 0x3A3 && change == CHANGE_WORDS)
      st = UNSUPPORTED("the filter title of a text with a capital sigma is not supported");
    size_t count = change_character(str, at, n, c, choose_form(change, c, &state), to);
    string original = {.data = str->data + at,
                       .size = n,
                       .mask = str->mask ? str->mask + at : NULL,
                       .untrusted = str->untrusted};
    for (size_t i = 0; i < count; i++) {
      char bytes[4];
      builder_like(&builder, bytes, utf8_write(to[i], bytes), &original);
    }
    if (c == 0x3A3 && !st) st = arena_charge(&render->arena, str->size / 64);
  }
  if (!st) return builder_string(&render->arena, &builder, out);
  builder_free(&builder);
  return st;
}

/* ---------------------------------------------------------------- strip, replace */

static size_t strips_at(const char *text, size_t size, const string *chars) {
  if (!chars) return space_at(text, size);
  size_t n = utf8_sequence(text, size);
  return n && memmem(chars->data, chars->size, text, n) ? n : 0;
}

static size_t strips_before(const char *text, size_t size, const string *chars) {
  size_t at = size;
  if (!chars) return space_before(text, size);
  while (at && ((unsigned char)text[at - 1] & 0xC0) == 0x80) at--;
  if (at) at--;
  return strips_at(text + at, size - at, chars);
}

clave_status string_strip(render *render, const string *subject, const string *chars,
                          strip_side side, value *out) {
  size_t from = 0, to = subject->size, n;
  if (side & STRIP_LEFT) {
    while (from < to && (n = strips_at(subject->data + from, to - from, chars))) from += n;
  }
  if (side & STRIP_RIGHT) {
    while (to > from && (n = strips_before(subject->data + from, to - from, chars))) to -= n;
  }
  TRY(arena_charge(&render->arena, (subject->size - to + from) / 16));
  return make_part(&render->arena, subject, from, to - from, out);
}

static string piece(const string *str, size_t at, size_t size) {
  return (string){.data = str->data + at,
                  .size = size,
                  .mask = str->mask ? str->mask + at : NULL,
                  .untrusted = str->untrusted};
}

static void strings_add_piece(builder *builder, const string *whole, size_t at, size_t size) {
  string part = piece(whole, at, size);
  if (size) builder_add(builder, &part);
}

/* Inserts `new` before each character and at the end. */
static void replace_between(builder *builder, const string *subject, const string *new,
                            int64_t most) {
  for (size_t at = 0, n; at < subject->size; at += n) {
    n = utf8_sequence(subject->data + at, subject->size - at);
    if (most-- > 0) builder_add(builder, new);
    strings_add_piece(builder, subject, at, n);
  }
  if (most > 0) builder_add(builder, new);
}

clave_status string_replace(render *render, const string *subject, const string *old,
                            const string *new, int64_t most, value *out) {
  builder builder = {0};
  size_t from = 0, times = subject->size / (old->size ? old->size : 1) + 1;
  TRY(arena_charge(&render->arena, subject->size / 64));
  if (new->size && times > (4 * (size_t)JINJA_MAX_OUTPUT) / new->size &&
      !(old->size && !memmem(subject->data, subject->size, old->data, old->size)))
    return INVALID("the result of replace may be longer than %d bytes", JINJA_MAX_OUTPUT);
  if (most < 0) most = INT64_MAX;
  if (old->size == 0) {
    replace_between(&builder, subject, new, most);
    return builder_string(&render->arena, &builder, out);
  }
  while (most-- > 0) {
    const char *at = memmem(subject->data + from, subject->size - from, old->data, old->size);
    if (!at) break;
    strings_add_piece(&builder, subject, from, (size_t)(at - subject->data) - from);
    builder_add(&builder, new);
    from = (size_t)(at - subject->data) + old->size;
  }
  strings_add_piece(&builder, subject, from, subject->size - from);
  return builder_string(&render->arena, &builder, out);
}

/* ---------------------------------------------------------------- split, join */

static clave_status strings_add_part(render *render, const string *string, size_t from, size_t to,
                                     list *list) {
  value part;
  TRY(make_part(&render->arena, string, from, to - from, &part));
  return list_add(&render->arena, list, part);
}

static void reverse_list(list *list) {
  for (size_t i = 0; i < list->count / 2; i++) {
    value value = list->items[i];
    list->items[i] = list->items[list->count - 1 - i];
    list->items[list->count - 1 - i] = value;
  }
}

static clave_status split_space(render *render, const string *string, int64_t most, list *list) {
  size_t at = 0, n;
  for (;;) {
    while (at < string->size && (n = space_at(string->data + at, string->size - at))) at += n;
    if (at == string->size) return NULL;
    size_t from = at;
    if (most-- == 0) return strings_add_part(render, string, from, string->size, list);
    while (at < string->size && !space_at(string->data + at, string->size - at))
      at += utf8_sequence(string->data + at, string->size - at);
    TRY(strings_add_part(render, string, from, at, list));
  }
}

static clave_status split_space_right(render *render, const string *string, int64_t most,
                                      list *list) {
  size_t end = string->size, n;
  for (;;) {
    while (end && (n = space_before(string->data, end))) end -= n;
    if (end == 0) return NULL;
    size_t to = end, from = 0;
    if (most-- == 0) {
      while (from < to && (n = space_at(string->data + from, to - from))) from += n;
      return strings_add_part(render, string, from, to, list);
    }
    while (end && !space_before(string->data, end)) {
      do end--;
      while (end && ((unsigned char)string->data[end] & 0xC0) == 0x80);
    }
    TRY(strings_add_part(render, string, end, to, list));
  }
}

static clave_status split_at(render *render, const string *subject, const string *sep, int64_t most,
                             list *list) {
  size_t from = 0;
  while (most-- != 0) {
    const char *at = memmem(subject->data + from, subject->size - from, sep->data, sep->size);
    if (!at) break;
    TRY(strings_add_part(render, subject, from, (size_t)(at - subject->data), list));
    from = (size_t)(at - subject->data) + sep->size;
  }
  return strings_add_part(render, subject, from, subject->size, list);
}

/* Returns the start of the last occurrence of `what` that ends at or before `end`, or SIZE_MAX. */
static size_t find_last(const string *subject, size_t end, const string *what) {
  if (what->size > end) return SIZE_MAX;
  for (size_t at = end - what->size + 1; at-- > 0;) {
    if (memcmp(subject->data + at, what->data, what->size) == 0) return at;
  }
  return SIZE_MAX;
}

static clave_status split_at_right(render *render, const string *subject, const string *sep,
                                   int64_t most, list *list) {
  size_t end = subject->size;
  while (most-- != 0) {
    size_t at = find_last(subject, end, sep);
    if (at == SIZE_MAX) break;
    TRY(strings_add_part(render, subject, at + sep->size, end, list));
    end = at;
  }
  return strings_add_part(render, subject, 0, end, list);
}

clave_status string_split(render *render, const string *subject, const string *sep, int64_t most,
                          bool from_right, value *out) {
  if (sep && sep->size == 0) return INVALID("empty separator");
  TRY(arena_charge(&render->arena, subject->size / 16));
  TRY(make_list(&render->arena, VALUE_LIST, 0, out));
  list *list = out->u.list;
  if (!from_right)
    return sep ? split_at(render, subject, sep, most, list)
               : split_space(render, subject, most, list);
  TRY(sep ? split_at_right(render, subject, sep, most, list)
          : split_space_right(render, subject, most, list));
  reverse_list(list);
  return NULL;
}

/* Returns the bytes of the line end at text, 0 if none exists. */
static size_t line_end(const char *text, size_t size) {
  uint32_t c;
  size_t n = utf8_read(text, &c);
  if (c == '\r') return size > 1 && text[1] == '\n' ? 2 : 1;
  bool ends = (c >= 0x0A && c <= 0x0C) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
              c == 0x2029;
  return ends ? n : 0;
}

clave_status string_lines(render *render, const string *string, bool keep_ends, value *out) {
  size_t from = 0;
  TRY(arena_charge(&render->arena, string->size / 16));
  TRY(make_list(&render->arena, VALUE_LIST, 0, out));
  for (size_t at = 0; at < string->size;) {
    size_t n = line_end(string->data + at, string->size - at);
    if (!n) {
      at += utf8_sequence(string->data + at, string->size - at);
      continue;
    }
    TRY(strings_add_part(render, string, from, at + (keep_ends ? n : 0), out->u.list));
    from = at += n;
  }
  return from < string->size ? strings_add_part(render, string, from, string->size, out->u.list)
                             : NULL;
}

clave_status string_join(render *render, const string *separator, const list *items, bool as_text,
                         value *out) {
  builder builder = {0};
  clave_status st = NULL;
  for (size_t i = 0; i < items->count && !st; i++) {
    value value = items->items[i];
    if (i) builder_add(&builder, separator);
    if (!as_text && value.kind != VALUE_STRING)
      st = INVALID("sequence item %zu: expected str instance, %s found", i, value_type(value));
    if (!st) st = append_str(&render->arena, &builder, value);
    if (!st && builder.data.size > JINJA_MAX_OUTPUT)
      st = INVALID("the result is longer than %d bytes", JINJA_MAX_OUTPUT);
  }
  if (!st) return builder_string(&render->arena, &builder, out);
  builder_free(&builder);
  return st;
}

/* ---------------------------------------------------------------- find */

static int64_t strings_clamp_index(int64_t i, int64_t n) {
  if (i < 0) i = i < -n ? 0 : i + n;
  return i > n ? n : i;
}

clave_status string_find(render *render, const string *subject, const string *what,
                         const int64_t range[2], bool last, int64_t *out) {
  int64_t n = (int64_t)string_length(subject);
  int64_t start = strings_clamp_index(range[0], n), end = strings_clamp_index(range[1], n);
  *out = -1;
  TRY(arena_charge(&render->arena, subject->size / 16));
  if (range[0] > n || start > end) return NULL;
  size_t from = string_at(subject, (size_t)start), to = string_at(subject, (size_t)end), at;
  string in = {.data = subject->data + from, .size = to - from};
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
