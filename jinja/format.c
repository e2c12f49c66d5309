/* "..." % values and "...".format(values). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "jinja/render.h"

typedef struct spec {
  char fill[5], align, sign, type; /* '\0': not given */
  bool alternate, zero, comma;
  int width, precision; /* -1: not given */
} spec;

enum { MAX_WIDTH = 10000, MAX_PRECISION = 200 };

/* ---------------------------------------------------------------- one value */

/* Appends the bytes, with sign and padding. prefix: bytes of a sign or 0x, behind which zeros go.
 */
static void append_padded(builder *b, const string *s, size_t prefix, const spec *f,
                          char default_align) {
  size_t width = f->width > 0 ? (size_t)f->width : 0, n = string_length(s);
  size_t missing = width > n ? width - n : 0;
  char align = f->align ? f->align : f->zero ? '=' : default_align;
  size_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  const char *fill = *f->fill ? f->fill : f->zero ? "0" : " ";
  string head = {.data = s->data, .size = prefix, .mask = s->mask, .written = s->written};
  string rest = {.data = s->data + prefix,
                 .size = s->size - prefix,
                 .mask = s->mask ? s->mask + prefix : NULL,
                 .written = s->written};
  for (size_t i = 0; i < before; i++) builder_puts(b, fill);
  if (prefix) builder_add(b, &head);
  for (size_t i = 0; align == '=' && i < missing; i++) builder_puts(b, fill);
  if (rest.size) builder_add(b, &rest);
  for (size_t i = 0; align != '=' && i < missing - before; i++) builder_puts(b, fill);
}

/* Commas between groups of three digits of the whole part; out: room for twice the text. */
static void add_commas(const char *digits, char *out) {
  size_t n = strspn(digits, "0123456789"), k = 0;
  for (size_t i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0) out[k++] = ',';
    out[k++] = digits[i];
  }
  (void)strcpy(out + k, digits + n);
}

/* The digits with sign and base. */
static void append_number(builder *b, bool negative, const char *base, const char *digits,
                          const spec *f) {
  char grouped[1200], all[1300];
  const char *sign = negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
  if (f->comma) add_commas(digits, grouped);
  (void)snprintf(all, sizeof all, "%s%s%s", sign, base, f->comma ? grouped : digits);
  string s = {.data = all, .size = strlen(all)};
  append_padded(b, &s, strlen(sign) + strlen(base), f, '>');
}

static clave_status append_whole(builder *b, int64_t i, const spec *f) {
  char digits[80], type = f->type ? f->type : 'd';
  uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
  size_t at = sizeof digits - 1;
  unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  digits[at] = '\0';
  do {
    unsigned d = (unsigned)(size % base);
    digits[--at] = (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[d];
    size /= base;
  } while (size || (int)(sizeof digits - 1 - at) < (f->precision < 60 ? f->precision : 60));
  const char prefix[] = {'0', type, '\0'};
  append_number(b, i < 0, f->alternate && base != 10 ? prefix : "", digits + at, f);
  return NULL;
}

/* The digits of |d|; out: of 600 bytes. */
static clave_status real_digits(double d, const spec *f, char *out) {
  int precision = f->precision < 0 ? 6 : f->precision;
  char type = f->type ? f->type : 'g', form[] = {'%', '.', '*', type, '\0'};
  if (isnan(d) || isinf(d)) {
    (void)strcpy(out, isnan(d) ? "nan" : "inf");
    for (char *c = out; *c && is_ascii_upper(type); c++) *c = ascii_upper(*c);
    return NULL;
  }
  if (f->alternate) return UNSUPPORTED("# in the format of a float is not supported");
  if (type == '%') {
    (void)number_print(out, 600, "%.*f%%", precision, fabs(d) * 100);
  } else if (!f->type && f->precision < 0) {
    format_real(fabs(d), out);
  } else if (!f->type) {
    return UNSUPPORTED("a precision without a type is not supported");
  } else {
    (void)number_print(out, 600, form, precision, fabs(d));
  }
  return NULL;
}

static clave_status append_real_format(builder *b, double d, const spec *f) {
  char digits[600];
  TRY(real_digits(d, f, digits));
  append_number(b, signbit(d) && !isnan(d), "", digits, f);
  return NULL;
}

static clave_status append_text_format(render *r, builder *b, const string *s, const spec *f) {
  value cut = value_string(s);
  if (f->precision >= 0)
    TRY(get_slice(r, cut, (value[]){value_none(), value_int(f->precision), value_none()}, &cut));
  spec text_ = *f; /* a text is padded with zeros after it, unlike a number */
  if (!text_.align) text_.align = '<';
  append_padded(b, cut.u.text, 0, &text_, '<');
  return NULL;
}

/* ---------------------------------------------------------------- % */

typedef struct percent {
  render *r;
  const string *format;
  size_t at;
  value args;
  size_t used; /* of a tuple */
  builder out;
} percent;

static char peek(const percent *p) {
  return p->at < p->format->size ? p->format->data[p->at] : '\0';
}

static clave_status next_argument(percent *p, value *out) {
  if (p->args.kind == VALUE_TUPLE) {
    if (p->used >= p->args.u.list->count) return INVALID("not enough arguments for format string");
    *out = p->args.u.list->items[p->used++];
    return NULL;
  }
  if (p->used++) return INVALID("not enough arguments for format string");
  *out = p->args;
  return NULL;
}

/* (name) */
static clave_status named_argument(percent *p, value *out) {
  const char *begin = p->format->data + p->at + 1;
  const char *end = memchr(begin, ')', p->format->size - p->at - 1);
  if (!end) return INVALID("incomplete format key");
  value key, *found;
  TRY(make_string(&p->r->arena, begin, (size_t)(end - begin), &key));
  p->at += (size_t)(end - begin) + 2;
  if (p->args.kind != VALUE_DICT) return INVALID("format requires a mapping");
  TRY(dict_find(p->args.u.dict, key, &found));
  if (!found) return INVALID("'%.100s' is not among the values to format", key.u.text->data);
  *out = *found;
  return NULL;
}

static clave_status read_count(percent *p, int most, int *out) {
  value v;
  int64_t i = 0;
  if (peek(p) == '*') {
    p->at++;
    TRY(next_argument(p, &v));
    if (v.kind != VALUE_INT) return INVALID("* wants int");
    i = v.u.integer;
  }
  while (peek(p) >= '0' && peek(p) <= '9' && i <= most)
    i = i * 10 + (p->format->data[p->at++] - '0');
  if (i < 0 || i > most) return UNSUPPORTED("a width or precision of %lld", (long long)i);
  *out = (int)i;
  return NULL;
}

static clave_status read_percent_spec(percent *p, spec *f) {
  bool left = false;
  for (; peek(p) && strchr("-+ #0", peek(p)); p->at++) {
    char c = peek(p);
    left |= c == '-';
    f->zero |= c == '0';
    f->alternate |= c == '#';
    if (c == '+' || (c == ' ' && f->sign != '+')) f->sign = c;
  }
  if (left) f->align = '<';
  if (left) f->zero = false;
  TRY(read_count(p, MAX_WIDTH, &f->width));
  if (peek(p) == '.') {
    p->at++;
    TRY(read_count(p, MAX_PRECISION, &f->precision));
  }
  while (peek(p) && strchr("hlL", peek(p))) p->at++;
  f->type = peek(p);
  p->at++;
  return NULL;
}

static clave_status percent_whole(percent *p, value v, const spec *f) {
  int64_t i;
  spec whole = *f;
  if (!value_number(v))
    return INVALID("%%%c format: a number is required, not %s", f->type, value_type(v));
  if (v.kind == VALUE_FLOAT) {
    if (!(fabs(v.u.real) < 0x1p63)) return INVALID("an integer of more than 64 bits");
    if (!strchr("diu", f->type)) return INVALID("%%%c format: an integer is required", f->type);
    v = value_int((int64_t)v.u.real);
  }
  TRY(want_integer(v, &i));
  if (strchr("iu", f->type)) whole.type = 'd';
  return append_whole(&p->out, i, &whole);
}

static clave_status percent_text(percent *p, value v, const spec *f) {
  builder b = {0};
  value s;
  clave_status st =
      f->type == 'r' ? append_repr(&p->r->arena, &b, v) : append_str(&p->r->arena, &b, v);
  if (st) {
    builder_free(&b);
    return st;
  }
  TRY(builder_string(&p->r->arena, &b, &s));
  spec plain = *f;
  plain.zero = false;
  if (!plain.align) plain.align = '>';
  return append_text_format(p->r, &p->out, s.u.text, &plain);
}

static clave_status percent_value(percent *p) {
  spec f = {.precision = -1};
  value v = value_none();
  bool named = peek(p) == '(';
  if (named) TRY(named_argument(p, &v));
  TRY(read_percent_spec(p, &f));
  if (f.type == '%') {
    if (f.width || f.precision >= 0 || f.zero || f.alternate || f.sign || f.align || named)
      return UNSUPPORTED("%%%% with a width or flags is not supported");
    builder_puts(&p->out, "%");
    return NULL;
  }
  if (!f.type) return INVALID("incomplete format");
  if (!named) TRY(next_argument(p, &v));
  if (strchr("diuxXo", f.type)) return percent_whole(p, v, &f);
  if (strchr("sr", f.type)) return percent_text(p, v, &f);
  if (!strchr("eEfFgG", f.type))
    return strchr("ac", f.type) ? UNSUPPORTED("%%%c is not supported", f.type)
                                : INVALID("unsupported format character '%c'", f.type);
  if (!value_number(v)) return INVALID("must be real number, not %s", value_type(v));
  return append_real_format(&p->out, value_real(v), &f);
}

static clave_status run_percent(percent *p) {
  while (p->at < p->format->size) {
    size_t from = p->at;
    const char *sign = memchr(p->format->data + from, '%', p->format->size - from);
    p->at = sign ? (size_t)(sign - p->format->data) : p->format->size;
    string plain = {.data = p->format->data + from,
                    .size = p->at - from,
                    .mask = p->format->mask ? p->format->mask + from : NULL,
                    .written = p->format->written};
    if (plain.size) builder_add(&p->out, &plain);
    if (!sign) break;
    p->at++;
    TRY(percent_value(p));
    TRY(arena_charge(&p->r->arena, 1));
  }
  bool left = p->args.kind == VALUE_TUPLE
                  ? p->used < p->args.u.list->count
                  : p->used == 0 && p->args.kind != VALUE_DICT && p->args.kind != VALUE_LIST &&
                        p->args.kind != VALUE_RANGE && p->args.kind != VALUE_UNDEFINED;
  return left ? INVALID("not all arguments converted during string formatting") : NULL;
}

clave_status format_percent(render *r, const string *format, value args, value *out) {
  percent p = {.r = r, .format = format, .args = args};
  clave_status st = run_percent(&p);
  if (!st) return builder_string(&r->arena, &p.out, out);
  builder_free(&p.out);
  return st;
}

/* ---------------------------------------------------------------- {} */

static clave_status read_digits(const char **s, const char *end, int most, int *out) {
  *out = 0;
  while (*s < end && **s >= '0' && **s <= '9' && *out <= most) *out = *out * 10 + (*(*s)++ - '0');
  return *out > most ? UNSUPPORTED("a width or precision of %d", *out) : NULL;
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static clave_status read_spec(const char *s, const char *end, spec *f) {
  size_t n = s < end ? 1 : 0;
  while (s + n < end && ((unsigned char)s[n] & 0xC0) == 0x80) n++;
  if (s + n < end && strchr("<>^=", s[n])) {
    memcpy(f->fill, s, n);
    s += n;
    f->align = *s++;
  } else if (s < end && strchr("<>^=", *s)) {
    f->align = *s++;
  }
  if (s < end && strchr("+- ", *s)) f->sign = *s++;
  if (s < end && *s == '#') f->alternate = *s++ == '#';
  if (s < end && *s == '0') f->zero = *s++ == '0';
  TRY(read_digits(&s, end, MAX_WIDTH, &f->width));
  if (s < end && *s == ',') f->comma = *s++ == ',';
  if (s < end && *s == '.') {
    s++;
    if (s == end || !is_ascii_digit(*s)) return INVALID("a format has no precision behind '.'");
    TRY(read_digits(&s, end, MAX_PRECISION, &f->precision));
  }
  if (s < end) f->type = *s++;
  return s < end ? UNSUPPORTED("the format '%.*s' is not supported", (int)(end - s), s) : NULL;
}

static clave_status append_formatted(render *r, builder *b, value v, const spec *f, bool bare) {
  value s;
  int64_t i;
  bool real = v.kind == VALUE_FLOAT || (f->type && strchr("eEfFgG%", f->type));
  if (v.kind == VALUE_STRING || bare) {
    if (f->type && f->type != 's') return INVALID("unknown format code '%c' for str", f->type);
    if (f->sign || f->comma || f->alternate || f->align == '=')
      return INVALID("a sign, ',', '#' or '=' is not allowed in the format of a str");
    TRY(make_str(&r->arena, v, &s));
    return append_text_format(r, b, s.u.text, f);
  }
  if (!value_number(v)) return INVALID("unsupported format string for %s", value_type(v));
  if (v.kind == VALUE_BOOL && !f->type)
    return UNSUPPORTED("the format of a bool without a type is not supported");
  if (f->type && !strchr(v.kind == VALUE_FLOAT ? "eEfFgG%" : "eEfFgG%dxXob", f->type))
    return INVALID("unknown format code '%c' for %s", f->type, value_type(v));
  if (real) return append_real_format(b, value_real(v), f);
  if (f->precision >= 0) return INVALID("precision not allowed in integer format");
  if (f->comma && f->type && f->type != 'd')
    return INVALID("cannot specify ',' with '%c'", f->type);
  TRY(want_integer(v, &i));
  return append_whole(b, i, f);
}

typedef struct braces {
  render *r;
  const call_args *args;
  size_t next;
  bool numbered;
  builder out;
} braces;

static clave_status find_field(braces *p, const char *name, size_t n, value *out) {
  size_t i = 0;
  if (memchr(name, '.', n) || memchr(name, '[', n) || memchr(name, '!', n))
    return UNSUPPORTED("the field '%.*s' of format is not supported", (int)n, name);
  for (size_t k = 0; k < p->args->n_named; k++) {
    if (strlen(p->args->named[k].name) != n || memcmp(p->args->named[k].name, name, n) != 0)
      continue;
    *out = p->args->named[k].v;
    return NULL;
  }
  bool digits = n > 0 && n < 6;
  for (size_t k = 0; k < n && digits; k++) {
    digits = name[k] >= '0' && name[k] <= '9';
    i = i * 10 + (size_t)(name[k] - '0');
  }
  if (n && !digits) return INVALID("'%.*s' is not among the values to format", (int)n, name);
  if ((digits && p->next) || (!digits && p->numbered))
    return INVALID("numbered and automatic fields of format are mixed");
  p->numbered |= digits;
  if (!n) i = p->next++;
  if (i >= p->args->count) return INVALID("index %zu of format is out of range", i);
  *out = p->args->items[i];
  return NULL;
}

static clave_status brace_field(braces *p, const char *s, const char *end) {
  const char *colon = memchr(s, ':', (size_t)(end - s)), *name_end = colon ? colon : end;
  spec f = {.precision = -1};
  value v;
  if (colon && memchr(colon, '{', (size_t)(end - colon)))
    return UNSUPPORTED("fields within the formats of fields are not supported");
  TRY(find_field(p, s, (size_t)(name_end - s), &v));
  if (colon) TRY(read_spec(colon + 1, end, &f));
  return append_formatted(p->r, &p->out, v, &f, !colon || colon + 1 == end);
}

static clave_status run_braces(braces *p, const string *format) {
  const char *s = format->data, *end = s + format->size;
  while (s < end) {
    string c = {.data = s,
                .size = 1,
                .mask = format->mask ? format->mask + (s - format->data) : NULL,
                .written = format->written};
    bool twice = s + 1 < end && s[1] == *s;
    if ((*s != '{' && *s != '}') || twice) {
      builder_add(&p->out, &c);
      s += twice && (*s == '{' || *s == '}') ? 2 : 1;
      continue;
    }
    const char *close = *s == '{' ? memchr(s, '}', (size_t)(end - s)) : NULL;
    if (!close) return INVALID("single '%c' encountered in format string", *s);
    TRY(brace_field(p, s + 1, close));
    TRY(arena_charge(&p->r->arena, 1));
    s = close + 1;
  }
  return NULL;
}

clave_status format_braces(render *r, const string *format, const call_args *args, value *out) {
  braces p = {.r = r, .args = args};
  clave_status st = run_braces(&p, format);
  if (!st) return builder_string(&r->arena, &p.out, out);
  builder_free(&p.out);
  return st;
}
