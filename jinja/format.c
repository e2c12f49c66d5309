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
  char fill[5], align, sign, type; /* '\0' if not given */
  bool alternate, zero, comma;
  int width, precision; /* -1 if not given */
} spec;

enum { MAX_WIDTH = 10000, MAX_PRECISION = 200 };

/* ---------------------------------------------------------------- one value */

/* Appends the text, padded. prefix: bytes of a sign or 0x, after which zeros are inserted. */
static void append_padded(builder *builder, const string *str, size_t prefix, const spec *spec,
                          char default_align) {
  size_t width = spec->width > 0 ? (size_t)spec->width : 0, n = string_length(str);
  size_t missing = width > n ? width - n : 0;
  char align = spec->align ? spec->align : spec->zero ? '=' : default_align;
  size_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  const char *fill = *spec->fill ? spec->fill : spec->zero ? "0" : " ";
  string head = {.data = str->data, .size = prefix, .mask = str->mask, .untrusted = str->untrusted};
  string rest = {.data = str->data + prefix,
                 .size = str->size - prefix,
                 .mask = str->mask ? str->mask + prefix : NULL,
                 .untrusted = str->untrusted};
  for (size_t i = 0; i < before; i++) builder_puts(builder, fill);
  if (prefix) builder_add(builder, &head);
  for (size_t i = 0; align == '=' && i < missing; i++) builder_puts(builder, fill);
  if (rest.size) builder_add(builder, &rest);
  for (size_t i = 0; align != '=' && i < missing - before; i++) builder_puts(builder, fill);
}

/* Inserts commas between groups of three digits of the integer part. out: must have twice the size
 * of the text. */
static void add_commas(const char *digits, char *out) {
  size_t n = strspn(digits, "0123456789"), k = 0;
  for (size_t i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0) out[k++] = ',';
    out[k++] = digits[i];
  }
  (void)strcpy(out + k, digits + n);
}

/* Appends the digits with sign and base prefix, padded. */
static void append_number(builder *builder, bool negative, const char *base, const char *digits,
                          const spec *spec) {
  char grouped[1200], all[1300];
  const char *sign = negative ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "";
  if (spec->comma) add_commas(digits, grouped);
  (void)snprintf(all, sizeof all, "%s%s%s", sign, base, spec->comma ? grouped : digits);
  string string = {.data = all, .size = strlen(all)};
  append_padded(builder, &string, strlen(sign) + strlen(base), spec, '>');
}

static clave_status append_whole(builder *builder, int64_t i, const spec *spec) {
  char digits[80], type = spec->type ? spec->type : 'd';
  uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
  size_t at = sizeof digits - 1;
  unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  digits[at] = '\0';
  do {
    unsigned d = (unsigned)(size % base);
    digits[--at] = (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[d];
    size /= base;
  } while (size || (int)(sizeof digits - 1 - at) < (spec->precision < 60 ? spec->precision : 60));
  const char prefix[] = {'0', type, '\0'};
  append_number(builder, i < 0, spec->alternate && base != 10 ? prefix : "", digits + at, spec);
  return NULL;
}

/* Writes the digits of |d|. out: must have 600 bytes. */
static clave_status real_digits(double d, const spec *spec, char *out) {
  int precision = spec->precision < 0 ? 6 : spec->precision;
  char type = spec->type ? spec->type : 'g', form[] = {'%', '.', '*', type, '\0'};
  if (isnan(d) || isinf(d)) {
    (void)strcpy(out, isnan(d) ? "nan" : "inf");
    for (char *c = out; *c && is_ascii_upper(type); c++) *c = ascii_upper(*c);
    return NULL;
  }
  if (spec->alternate) return UNSUPPORTED("# in the format of a float is not supported");
  if (type == '%') {
    (void)number_print(out, 600, "%.*f%%", precision, fabs(d) * 100);
  } else if (!spec->type && spec->precision < 0) {
    format_real(fabs(d), out);
  } else if (!spec->type) {
    return UNSUPPORTED("a precision without a type is not supported");
  } else {
    (void)number_print(out, 600, form, precision, fabs(d));
  }
  return NULL;
}

static clave_status append_real_format(builder *builder, double d, const spec *spec) {
  char digits[600];
  TRY(real_digits(d, spec, digits));
  append_number(builder, signbit(d) && !isnan(d), "", digits, spec);
  return NULL;
}

static clave_status append_text_format(render *render, builder *builder, const string *string,
                                       const spec *format) {
  value cut = value_string(string);
  if (format->precision >= 0)
    TRY(get_slice(render, cut, (value[]){value_none(), value_int(format->precision), value_none()},
                  &cut));
  spec text_ = *format; /* zero padding of text is on the right, unlike that of numbers */
  if (!text_.align) text_.align = '<';
  append_padded(builder, cut.u.text, 0, &text_, '<');
  return NULL;
}

/* ---------------------------------------------------------------- % */

typedef struct percent {
  render *render;
  const string *format;
  size_t at;
  value args;
  size_t used; /* number of items of a tuple that were used */
  builder out;
} percent;

static char format_peek(const percent *percent) {
  return percent->at < percent->format->size ? percent->format->data[percent->at] : '\0';
}

static clave_status next_argument(percent *percent, value *out) {
  if (percent->args.kind == VALUE_TUPLE) {
    if (percent->used >= percent->args.u.list->count)
      return INVALID("not enough arguments for format string");
    *out = percent->args.u.list->items[percent->used++];
    return NULL;
  }
  if (percent->used++) return INVALID("not enough arguments for format string");
  *out = percent->args;
  return NULL;
}

/* Reads the argument named by (name). */
static clave_status named_argument(percent *percent, value *out) {
  const char *begin = percent->format->data + percent->at + 1;
  const char *end = memchr(begin, ')', percent->format->size - percent->at - 1);
  if (!end) return INVALID("incomplete format key");
  value key, *found;
  TRY(make_string(&percent->render->arena, begin, (size_t)(end - begin), &key));
  percent->at += (size_t)(end - begin) + 2;
  if (percent->args.kind != VALUE_DICT) return INVALID("format requires a mapping");
  TRY(dict_find(percent->args.u.dict, key, &found));
  if (!found) return INVALID("'%.100s' is not among the values to format", key.u.text->data);
  *out = *found;
  return NULL;
}

static clave_status read_count(percent *percent, int most, int *out) {
  value value;
  int64_t i = 0;
  if (format_peek(percent) == '*') {
    percent->at++;
    TRY(next_argument(percent, &value));
    if (value.kind != VALUE_INT) return INVALID("* wants int");
    i = value.u.integer;
  }
  while (format_peek(percent) >= '0' && format_peek(percent) <= '9' && i <= most)
    i = i * 10 + (percent->format->data[percent->at++] - '0');
  if (i < 0 || i > most) return UNSUPPORTED("a width or precision of %lld", (long long)i);
  *out = (int)i;
  return NULL;
}

static clave_status read_percent_spec(percent *percent, spec *spec) {
  bool left = false;
  for (; format_peek(percent) && strchr("-+ #0", format_peek(percent)); percent->at++) {
    char c = format_peek(percent);
    left |= c == '-';
    spec->zero |= c == '0';
    spec->alternate |= c == '#';
    if (c == '+' || (c == ' ' && spec->sign != '+')) spec->sign = c;
  }
  if (left) spec->align = '<';
  if (left) spec->zero = false;
  TRY(read_count(percent, MAX_WIDTH, &spec->width));
  if (format_peek(percent) == '.') {
    percent->at++;
    TRY(read_count(percent, MAX_PRECISION, &spec->precision));
  }
  while (format_peek(percent) && strchr("hlL", format_peek(percent))) percent->at++;
  spec->type = format_peek(percent);
  percent->at++;
  return NULL;
}

static clave_status percent_whole(percent *percent, value value, const spec *format) {
  int64_t i;
  spec whole = *format;
  if (!value_number(value))
    return INVALID("%%%c format: a number is required, not %s", format->type, value_type(value));
  if (value.kind == VALUE_FLOAT) {
    if (!(fabs(value.u.real) < 0x1p63)) return INVALID("an integer of more than 64 bits");
    if (!strchr("diu", format->type))
      return INVALID("%%%c format: an integer is required", format->type);
    value = value_int((int64_t)value.u.real);
  }
  TRY(want_integer(value, &i));
  if (strchr("iu", format->type)) whole.type = 'd';
  return append_whole(&percent->out, i, &whole);
}

static clave_status percent_text(percent *percent, value result, const spec *format) {
  builder builder = {0};
  value value;
  clave_status st = format->type == 'r' ? append_repr(&percent->render->arena, &builder, result)
                                        : append_str(&percent->render->arena, &builder, result);
  if (st) {
    builder_free(&builder);
    return st;
  }
  TRY(builder_string(&percent->render->arena, &builder, &value));
  spec plain = *format;
  plain.zero = false;
  if (!plain.align) plain.align = '>';
  return append_text_format(percent->render, &percent->out, value.u.text, &plain);
}

static clave_status percent_value(percent *percent) {
  spec spec = {.precision = -1};
  value value = value_none();
  bool named = format_peek(percent) == '(';
  if (named) TRY(named_argument(percent, &value));
  TRY(read_percent_spec(percent, &spec));
  if (spec.type == '%') {
    if (spec.width || spec.precision >= 0 || spec.zero || spec.alternate || spec.sign ||
        spec.align || named)
      return UNSUPPORTED("%%%% with a width or flags is not supported");
    builder_puts(&percent->out, "%");
    return NULL;
  }
  if (!spec.type) return INVALID("incomplete format");
  if (!named) TRY(next_argument(percent, &value));
  if (strchr("diuxXo", spec.type)) return percent_whole(percent, value, &spec);
  if (strchr("sr", spec.type)) return percent_text(percent, value, &spec);
  if (!strchr("eEfFgG", spec.type))
    return strchr("ac", spec.type) ? UNSUPPORTED("%%%c is not supported", spec.type)
                                   : INVALID("unsupported format character '%c'", spec.type);
  if (!value_number(value)) return INVALID("must be real number, not %s", value_type(value));
  return append_real_format(&percent->out, value_real(value), &spec);
}

static clave_status run_percent(percent *percent) {
  while (percent->at < percent->format->size) {
    size_t from = percent->at;
    const char *sign = memchr(percent->format->data + from, '%', percent->format->size - from);
    percent->at = sign ? (size_t)(sign - percent->format->data) : percent->format->size;
    string plain = {.data = percent->format->data + from,
                    .size = percent->at - from,
                    .mask = percent->format->mask ? percent->format->mask + from : NULL,
                    .untrusted = percent->format->untrusted};
    if (plain.size) builder_add(&percent->out, &plain);
    if (!sign) break;
    percent->at++;
    TRY(percent_value(percent));
    TRY(arena_charge(&percent->render->arena, 1));
  }
  bool left = percent->args.kind == VALUE_TUPLE
                  ? percent->used < percent->args.u.list->count
                  : percent->used == 0 && percent->args.kind != VALUE_DICT &&
                        percent->args.kind != VALUE_LIST && percent->args.kind != VALUE_RANGE &&
                        percent->args.kind != VALUE_UNDEFINED;
  return left ? INVALID("not all arguments converted during string formatting") : NULL;
}

clave_status format_percent(render *render, const string *format, value args, value *out) {
  percent percent = {.render = render, .format = format, .args = args};
  clave_status st = run_percent(&percent);
  if (!st) return builder_string(&render->arena, &percent.out, out);
  builder_free(&percent.out);
  return st;
}

/* ---------------------------------------------------------------- {} */

static clave_status format_read_digits(const char **text, const char *end, int most, int *out) {
  *out = 0;
  while (*text < end && **text >= '0' && **text <= '9' && *out <= most)
    *out = *out * 10 + (*(*text)++ - '0');
  return *out > most ? UNSUPPORTED("a width or precision of %d", *out) : NULL;
}

/* Parses [[fill]align][sign][#][0][width][,][.precision][type]. */
static clave_status read_spec(const char *text, const char *end, spec *spec) {
  size_t n = text < end ? 1 : 0;
  while (text + n < end && ((unsigned char)text[n] & 0xC0) == 0x80) n++;
  if (text + n < end && strchr("<>^=", text[n])) {
    memcpy(spec->fill, text, n);
    text += n;
    spec->align = *text++;
  } else if (text < end && strchr("<>^=", *text)) {
    spec->align = *text++;
  }
  if (text < end && strchr("+- ", *text)) spec->sign = *text++;
  if (text < end && *text == '#') spec->alternate = *text++ == '#';
  if (text < end && *text == '0') spec->zero = *text++ == '0';
  TRY(format_read_digits(&text, end, MAX_WIDTH, &spec->width));
  if (text < end && *text == ',') spec->comma = *text++ == ',';
  if (text < end && *text == '.') {
    text++;
    if (text == end || !is_ascii_digit(*text))
      return INVALID("a format has no precision after '.'");
    TRY(format_read_digits(&text, end, MAX_PRECISION, &spec->precision));
  }
  if (text < end) spec->type = *text++;
  return text < end ? UNSUPPORTED("the format '%.*s' is not supported", (int)(end - text), text)
                    : NULL;
}

static clave_status append_formatted(render *render, builder *builder, value result,
                                     const spec *spec, bool bare) {
  value value;
  int64_t i;
  bool real = result.kind == VALUE_FLOAT || (spec->type && strchr("eEfFgG%", spec->type));
  if (result.kind == VALUE_STRING || bare) {
    if (spec->type && spec->type != 's')
      return INVALID("unknown format code '%c' for str", spec->type);
    if (spec->sign || spec->comma || spec->alternate || spec->align == '=')
      return INVALID("a sign, ',', '#' or '=' is not allowed in the format of a str");
    TRY(make_str(&render->arena, result, &value));
    return append_text_format(render, builder, value.u.text, spec);
  }
  if (!value_number(result)) return INVALID("unsupported format string for %s", value_type(result));
  if (result.kind == VALUE_BOOL && !spec->type)
    return UNSUPPORTED("the format of a bool without a type is not supported");
  if (spec->type && !strchr(result.kind == VALUE_FLOAT ? "eEfFgG%" : "eEfFgG%dxXob", spec->type))
    return INVALID("unknown format code '%c' for %s", spec->type, value_type(result));
  if (real) return append_real_format(builder, value_real(result), spec);
  if (spec->precision >= 0) return INVALID("precision not allowed in integer format");
  if (spec->comma && spec->type && spec->type != 'd')
    return INVALID("cannot specify ',' with '%c'", spec->type);
  TRY(want_integer(result, &i));
  return append_whole(builder, i, spec);
}

typedef struct braces {
  render *render;
  const call_args *args;
  size_t next;
  bool numbered;
  builder out;
} braces;

static clave_status format_find_field(braces *braces, const char *name, size_t n, value *out) {
  size_t i = 0;
  if (memchr(name, '.', n) || memchr(name, '[', n) || memchr(name, '!', n))
    return UNSUPPORTED("the field '%.*s' of format is not supported", (int)n, name);
  for (size_t k = 0; k < braces->args->n_named; k++) {
    if (strlen(braces->args->named[k].name) != n ||
        memcmp(braces->args->named[k].name, name, n) != 0)
      continue;
    *out = braces->args->named[k].v;
    return NULL;
  }
  bool digits = n > 0 && n < 6;
  for (size_t k = 0; k < n && digits; k++) {
    digits = name[k] >= '0' && name[k] <= '9';
    i = i * 10 + (size_t)(name[k] - '0');
  }
  if (n && !digits) return INVALID("'%.*s' is not among the values to format", (int)n, name);
  if ((digits && braces->next) || (!digits && braces->numbered))
    return INVALID("numbered and automatic fields of format are mixed");
  braces->numbered |= digits;
  if (!n) i = braces->next++;
  if (i >= braces->args->count) return INVALID("index %zu of format is out of range", i);
  *out = braces->args->items[i];
  return NULL;
}

static clave_status brace_field(braces *braces, const char *text, const char *end) {
  const char *colon = memchr(text, ':', (size_t)(end - text)), *name_end = colon ? colon : end;
  spec spec = {.precision = -1};
  value value;
  if (colon && memchr(colon, '{', (size_t)(end - colon)))
    return UNSUPPORTED("fields within the formats of fields are not supported");
  TRY(format_find_field(braces, text, (size_t)(name_end - text), &value));
  if (colon) TRY(read_spec(colon + 1, end, &spec));
  return append_formatted(braces->render, &braces->out, value, &spec, !colon || colon + 1 == end);
}

static clave_status run_braces(braces *braces, const string *format) {
  const char *text = format->data, *end = text + format->size;
  while (text < end) {
    string string = {.data = text,
                     .size = 1,
                     .mask = format->mask ? format->mask + (text - format->data) : NULL,
                     .untrusted = format->untrusted};
    bool twice = text + 1 < end && text[1] == *text;
    if ((*text != '{' && *text != '}') || twice) {
      builder_add(&braces->out, &string);
      text += twice && (*text == '{' || *text == '}') ? 2 : 1;
      continue;
    }
    const char *close = *text == '{' ? memchr(text, '}', (size_t)(end - text)) : NULL;
    if (!close) return INVALID("single '%c' encountered in format string", *text);
    TRY(brace_field(braces, text + 1, close));
    TRY(arena_charge(&braces->render->arena, 1));
    text = close + 1;
  }
  return NULL;
}

clave_status format_braces(render *render, const string *format, const call_args *args,
                           value *out) {
  braces braces = {.render = render, .args = args};
  clave_status st = run_braces(&braces, format);
  if (!st) return builder_string(&render->arena, &braces.out, out);
  builder_free(&braces.out);
  return st;
}
