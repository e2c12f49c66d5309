/* Translates patterns from the syntax of Oniguruma (and Rust's regex) to PCRE2 where the two
 * differ:
 *
 *   \s \d \w \b   White_Space; Nd; Alphabetic, M, Nd, Pc and, outside of brackets, the six numbers
 *                 of Latin-1. PCRE2's \s includes U+180E, its \w no marks
 *   [:space:] ... the same sets within brackets
 *   \p{Han}       Script=Han; PCRE2 reads a bare script as Script_Extensions, which has U+3001 too
 *   \p{Letter}    long names of the general categories
 *   ^ $           at each line; (?m) is PCRE2's (?s)
 *   \h \v \uHHHH  a hexadecimal digit; U+000B; a code point
 *   x{2}+ x{2}?   the + repeats x{2}, the ? makes it optional; not possessive, not lazy
 *   x{,2}         from 0
 *   [a&&[^b]]     intersection
 *   a(?i)b|c      a(?i:b|c)
 *
 * Syntax that PCRE2 reads differently and that cannot be translated is rejected by name. One
 * difference remains: (?i) folds character by character, without Oniguruma's "ss" for U+00DF. */
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

enum { MAX_DEPTH = 100 };

typedef struct translator {
  span in;
  size_t at;
  text *out;
  size_t atom; /* position in out of the last atom */
  struct level {
    size_t begin;      /* position in out of the group */
    bool caseless;     /* state before the group */
    size_t flags;      /* number of groups that (?i) opened, to be closed with this one */
  } levels[MAX_DEPTH]; /* [0]: the whole pattern; [depth]: the innermost open group */
  bool caseless;
  size_t depth;
  clave_status (*is_script)(span name, bool *is_known);
} translator;

#define WORD_IN "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD_SET WORD_IN "\\xb2\\xb3\\xb9\\xbc-\\xbe"
#define SPACE_SET                                                                                  \
  "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{" \
  "3000}"
#define WORD_AFTER "(?=[" WORD_SET "])"
#define WORD_BEFORE "(?<=[" WORD_SET "])"
#define NO_WORD_AFTER "(?![" WORD_SET "])"
#define NO_WORD_BEFORE "(?<![" WORD_SET "])"

typedef struct escape {
  char letter;
  const char *outside, *inside; /* texts of brackets; NULL: not supported */
} escape;
static const escape escapes[] = {
    {'s', "[" SPACE_SET "]", SPACE_SET},
    {'S', "[^" SPACE_SET "]", "\\P{White_Space}"},
    {'d', "\\p{Nd}", "\\p{Nd}"},
    {'D', "\\P{Nd}", "\\P{Nd}"},
    {'w', "[" WORD_SET "]", WORD_IN},
    {'W', "[^" WORD_SET "]", NULL},
    {'h', "[0-9A-Fa-f]", "0-9A-Fa-f"},
    {'H', "[^0-9A-Fa-f]", NULL},
    {'b', "(?:" WORD_BEFORE NO_WORD_AFTER "|" NO_WORD_BEFORE WORD_AFTER ")", "\\x08"},
    {'B', "(?:" WORD_BEFORE WORD_AFTER "|" NO_WORD_BEFORE NO_WORD_AFTER ")", NULL},
    {'v', "\\x0b", "\\x0b"},
    {'n', "\\n", "\\n"},
    {'r', "\\r", "\\r"},
    {'t', "\\t", "\\t"},
    {'f', "\\f", "\\f"},
    {'a', "\\a", "\\a"},
    {'e', "\\e", "\\e"},
    {'A', "\\A", NULL},
    {'z', "\\z", NULL},
    {'Z', "\\Z", NULL},
    {'G', "\\G", NULL},
    {'R', "(?>\\r\\n|[\\n-\\r\\x85\\x{2028}\\x{2029}])", NULL},
    {'K', "\\K", NULL},
};

typedef struct alias {
  const char *name, *set;
} alias;
static const alias posix_sets[] = {/* [:name:] and \p{name} */
                                   {"alnum", "\\p{Alphabetic}\\p{Nd}"},
                                   {"alpha", "\\p{Alphabetic}"},
                                   {"blank", "\\t\\p{Zs}"},
                                   {"cntrl", "\\p{Cc}"},
                                   {"digit", "\\p{Nd}"},
                                   {"lower", "\\p{Lowercase}"},
                                   {"space", SPACE_SET},
                                   {"upper", "\\p{Uppercase}"},
                                   {"word", WORD_IN},
                                   {"xdigit", "0-9A-Fa-f"},
                                   {"punct", "\\p{P}\\p{S}"},
                                   {"ascii", "\\x00-\\x7f"}};
static const alias categories[] = {{"letter", "L"},
                                   {"uppercaseletter", "Lu"},
                                   {"lowercaseletter", "Ll"},
                                   {"titlecaseletter", "Lt"},
                                   {"modifierletter", "Lm"},
                                   {"otherletter", "Lo"},
                                   {"mark", "M"},
                                   {"nonspacingmark", "Mn"},
                                   {"spacingmark", "Mc"},
                                   {"enclosingmark", "Me"},
                                   {"number", "N"},
                                   {"decimalnumber", "Nd"},
                                   {"letternumber", "Nl"},
                                   {"othernumber", "No"},
                                   {"punctuation", "P"},
                                   {"punct", "P"},
                                   {"symbol", "S"},
                                   {"mathsymbol", "Sm"},
                                   {"currencysymbol", "Sc"},
                                   {"modifiersymbol", "Sk"},
                                   {"othersymbol", "So"},
                                   {"separator", "Z"},
                                   {"spaceseparator", "Zs"},
                                   {"lineseparator", "Zl"},
                                   {"paragraphseparator", "Zp"},
                                   {"other", "C"},
                                   {"control", "Cc"},
                                   {"format", "Cf"},
                                   {"privateuse", "Co"},
                                   {"unassigned", "Cn"}};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static void pattern_syntax_put(translator *translator, const char *text) {
  text_append(translator->out, text, strlen(text));
}

static void pattern_syntax_copy(translator *translator, size_t n) {
  text_append(translator->out, translator->in.data + translator->at, n);
  translator->at += n;
}

static int pattern_syntax_peek(const translator *translator, size_t ahead) { /* -1 at the end */
  return ahead < translator->in.size - translator->at
             ? (uint8_t)translator->in.data[translator->at + ahead]
             : -1;
}

static bool looking_at(const translator *translator, const char *text) {
  size_t n = strlen(text);
  return translator->in.size - translator->at >= n &&
         memcmp(translator->in.data + translator->at, text, n) == 0;
}

static clave_status pattern_syntax_refuse(const translator *translator, const char *what) {
  return UNSUPPORTED("%s at byte %zu is not supported", what, translator->at);
}

static const char *find_alias(const alias *table, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(table[i].name, name) == 0) return table[i].set;
  }
  return NULL;
}

static bool is_hex(int c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
static bool pattern_syntax_is_number(int c) { return c >= '0' && c <= '9'; }
static bool is_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* ---------------------------------------------------------------- escapes */

enum { NAME_MAX_SIZE = 64 };

/* Folds a property's name to lower case, without spaces, hyphens and underscores. */
static clave_status fold_name(const translator *translator, span name,
                              char *out /* [NAME_MAX_SIZE] */) {
  size_t n = 0;
  for (size_t i = 0; i < name.size; i++) {
    char c = name.data[i];
    if (c == ' ' || c == '-' || c == '_') continue;
    if (n + 1 >= NAME_MAX_SIZE ||
        (!is_letter(c) && !pattern_syntax_is_number(c) && c != '=' && c != '&')) {
      return pattern_syntax_refuse(translator, "this property's name");
    }
    out[n++] = c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
  }
  out[n] = '\0';
  return NULL;
}

static void put_property(translator *translator, bool negated, const char *prefix,
                         const char *name) {
  pattern_syntax_put(translator, negated ? "\\P{" : "\\p{");
  pattern_syntax_put(translator, prefix);
  pattern_syntax_put(translator, name);
  pattern_syntax_put(translator, "}");
}

/* Rejects case properties in brackets under (?i), where Oniguruma adds the other case and PCRE2
 * does not. */
static clave_status check_case(const translator *translator, const char *name) {
  static const char *const cased[] = {"lu", "ll", "lt", "upper", "lower", "uppercase", "lowercase"};
  for (size_t i = 0; translator->caseless && i < LENGTH(cased); i++) {
    if (equal_ascii(cased[i], name))
      return pattern_syntax_refuse(translator, "case in brackets under (?i)");
  }
  return NULL;
}

/* Translates \p{name}, \p{^name}, \P{name}; translator->at is after the p. */
static clave_status translate_property(translator *translator, bool negated, bool inside) {
  char name[NAME_MAX_SIZE];
  span given = {translator->in.data + translator->at, 1};
  if (pattern_syntax_peek(translator, 0) == '{') {
    const char *close =
        memchr(translator->in.data + translator->at, '}', translator->in.size - translator->at);
    if (!close) return INVALID("\\p{ at byte %zu has no closing }", translator->at);
    given = (span){given.data + 1, (size_t)(close - given.data) - 1};
    if (given.size > 0 && given.data[0] == '^') {
      negated = !negated;
      given = (span){given.data + 1, given.size - 1};
    }
    translator->at = (size_t)(close - translator->in.data) + 1;
  } else {
    return pattern_syntax_refuse(translator, "\\p without braces");
  }
  TRY(fold_name(translator, given, name));
  const char *category = find_alias(categories, LENGTH(categories), name);
  const char *set = category ? NULL : find_alias(posix_sets, LENGTH(posix_sets), name);
  if (inside) TRY(check_case(translator, category ? category : name));
  if (set) {
    if (negated && inside)
      return pattern_syntax_refuse(translator, "a negated POSIX property within brackets");
    if (!inside) pattern_syntax_put(translator, negated ? "[^" : "[");
    pattern_syntax_put(translator, set);
    if (!inside) pattern_syntax_put(translator, "]");
  } else if (category) {
    put_property(translator, negated, "", category);
  } else {
    bool script = false;
    if (strlen(name) > 2) TRY(translator->is_script((span){name, strlen(name)}, &script));
    put_property(translator, negated, script ? "sc:" : "", name);
  }
  return NULL;
}

/* Translates \xHH, \x{...}, \uHHHH; translator->at is at the letter. */
static clave_status translate_code_point(translator *translator) {
  bool braces = pattern_syntax_peek(translator, 1) == '{';
  size_t begin = braces ? 2 : 1,
         most = braces                                       ? 8
                : translator->in.data[translator->at] == 'u' ? 4
                                                             : 2,
         n = 0;
  char digits[9];
  while (n < most && is_hex(pattern_syntax_peek(translator, begin + n))) {
    digits[n] = translator->in.data[translator->at + begin + n];
    n++;
  }
  digits[n] = '\0';
  bool whole = braces ? n > 0 && pattern_syntax_peek(translator, begin + n) == '}' : n == most;
  if (!whole) return pattern_syntax_refuse(translator, "this notation of a character number");
  if (most == 2 && digits[0] >= '8')
    return pattern_syntax_refuse(translator, "a byte that is not a character");
  translator->at += begin + n + braces;
  pattern_syntax_put(translator, "\\x{");
  pattern_syntax_put(translator, digits);
  pattern_syntax_put(translator, "}");
  return NULL;
}

/* Translates an escape; translator->at is at the backslash. */
static clave_status translate_escape(translator *translator, bool inside) {
  int c = pattern_syntax_peek(translator, 1);
  if (c < 0) return INVALID("the pattern ends in a backslash");
  for (size_t i = 0; i < LENGTH(escapes); i++) {
    if (escapes[i].letter != c) continue;
    const char *as = inside ? escapes[i].inside : escapes[i].outside;
    if (!as) break;
    translator->at += 2;
    pattern_syntax_put(translator, as);
    return NULL;
  }
  if (c == 'p' || c == 'P') {
    translator->at += 2;
    return translate_property(translator, c == 'P', inside);
  }
  if (c == 'x' || c == 'u') {
    translator->at++;
    return translate_code_point(translator);
  }
  if (is_letter(c) && (inside || c != 'k')) {
    char what[] = "\\?";
    what[1] = (char)c;
    return pattern_syntax_refuse(translator, what);
  }
  uint32_t code_point;
  pattern_syntax_copy(translator, 1);
  pattern_syntax_copy(translator, utf8_read(translator->in.data + translator->at,
                                            &code_point)); /* punctuation, \1, \k<name> */
  return NULL;
}

/* ---------------------------------------------------------------- brackets */

static clave_status translate_posix(translator *translator) {
  char name[16] = "";
  size_t n = 0;
  bool negated = pattern_syntax_peek(translator, 2) == '^';
  for (translator->at += negated ? 3 : 2;
       is_letter(pattern_syntax_peek(translator, 0)) && n + 1 < sizeof name; translator->at++) {
    name[n++] = translator->in.data[translator->at];
  }
  const char *set = find_alias(posix_sets, LENGTH(posix_sets), name);
  if (!set || negated || !looking_at(translator, ":]"))
    return pattern_syntax_refuse(translator, "this POSIX bracket");
  TRY(check_case(translator, name));
  translator->at += 2;
  pattern_syntax_put(translator, set);
  return NULL;
}

static clave_status translate_class(translator *translator);

/* Translates "&&[" in a class that began at `begin`. [A&&[B]] matches A with a lookahead for B. */
static clave_status translate_intersection(translator *translator, size_t begin) {
  text left = {0}, *whole = translator->out;
  text_append(&left, whole->data + begin, whole->size - begin);
  whole->size = begin;
  translator->at += 2;
  pattern_syntax_put(translator, "(?:(?=");
  size_t depth = translator->depth;
  translator->depth++;
  clave_status st = translator->depth >= MAX_DEPTH
                        ? pattern_syntax_refuse(translator, "this depth of nesting")
                        : translate_class(translator);
  translator->depth = depth;
  pattern_syntax_put(translator, ")");
  text_append(translator->out, left.data, left.size);
  pattern_syntax_put(translator, "])");
  if (left.failed) translator->out->failed = 1;
  text_free(&left);
  if (st) return st;
  if (pattern_syntax_peek(translator, 0) != ']')
    return pattern_syntax_refuse(translator, "an intersection of more than two sets");
  translator->at++;
  return NULL;
}

/* Translates a class, from its opening bracket to after its closing one. */
static clave_status translate_class(translator *translator) {
  size_t begin = translator->out->size;
  pattern_syntax_copy(translator, 1);
  if (pattern_syntax_peek(translator, 0) == '^') pattern_syntax_copy(translator, 1);
  if (pattern_syntax_peek(translator, 0) == ']') {
    translator->at++;
    pattern_syntax_put(translator, "\\]");
  }
  for (int c; (c = pattern_syntax_peek(translator, 0)) != ']';) {
    if (c < 0) return INVALID("a bracket has no closing bracket");
    if (c == '\\') {
      TRY(translate_escape(translator, true));
    } else if (looking_at(translator, "[:")) {
      TRY(translate_posix(translator));
    } else if (looking_at(translator, "&&[")) {
      return translate_intersection(translator, begin);
    } else if (c == '[' || looking_at(translator, "&&")) {
      return pattern_syntax_refuse(translator, "a set within a set");
    } else {
      pattern_syntax_copy(translator, 1);
    }
  }
  pattern_syntax_copy(translator, 1);
  return NULL;
}

/* ---------------------------------------------------------------- groups and repetitions */

/* Translates (?i-m: and (?i-m), at the parenthesis. m is PCRE2's s. The scope of (?i) extends to
 * the end of the group including its alternatives: a(?i)b|c is a(?i:b|c). */
static clave_status translate_flags(translator *translator, bool *opens) {
  bool on = true;
  pattern_syntax_copy(translator, 2);
  for (int c; (c = pattern_syntax_peek(translator, 0)) != ')' && c != ':';) {
    if (c != 'i' && c != 'm' && c != '-')
      return pattern_syntax_refuse(translator, "this kind of group");
    translator->at++;
    on &= c != '-';
    if (c == 'i') translator->caseless = on;
    pattern_syntax_put(translator, c == 'm' ? "s" : c == 'i' ? "i" : "-");
  }
  *opens = pattern_syntax_peek(translator, 0) == ':';
  translator->at++;
  pattern_syntax_put(translator, ":");
  return NULL;
}

static clave_status translate_start(translator *translator, bool *opens) {
  static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
  if (pattern_syntax_peek(translator, 1) == '*') return pattern_syntax_refuse(translator, "(*");
  if (pattern_syntax_peek(translator, 1) != '?') {
    pattern_syntax_copy(translator, 1);
    return NULL;
  }
  for (size_t i = 0; i < LENGTH(kinds); i++) {
    if (!looking_at(translator, kinds[i])) continue;
    pattern_syntax_copy(translator, strlen(kinds[i]));
    return NULL;
  }
  if (looking_at(translator, "(?<") && is_letter(pattern_syntax_peek(translator, 3))) {
    pattern_syntax_copy(translator, 3);
    return NULL;
  }
  return translate_flags(translator, opens);
}

static clave_status pattern_syntax_open_group(translator *translator) {
  struct level inner = {.begin = translator->out->size, .caseless = translator->caseless};
  bool opens = true;
  TRY(translate_start(translator, &opens));
  if (!opens) {
    translator->levels[translator->depth].flags++;
    return NULL;
  }
  if (translator->depth + 1 == MAX_DEPTH)
    return pattern_syntax_refuse(translator, "this depth of nesting");
  translator->levels[++translator->depth] = inner;
  return NULL;
}

static void close_flags(translator *translator) {
  for (size_t i = 0; i < translator->levels[translator->depth].flags; i++)
    pattern_syntax_put(translator, ")");
}

static clave_status pattern_syntax_close_group(translator *translator) {
  if (translator->depth == 0)
    return INVALID("unexpected closing parenthesis at byte %zu", translator->at);
  close_flags(translator);
  pattern_syntax_copy(translator, 1);
  translator->atom = translator->levels[translator->depth].begin;
  translator->caseless = translator->levels[translator->depth--].caseless;
  return NULL;
}

static void wrap_atom(translator *translator) {
  text tail = {0};
  text_append(&tail, translator->out->data + translator->atom,
              translator->out->size - translator->atom);
  translator->out->size = translator->atom;
  pattern_syntax_put(translator, "(?:");
  text_append(translator->out, tail.data, tail.size);
  pattern_syntax_put(translator, ")");
  if (tail.failed) translator->out->failed = 1;
  text_free(&tail);
}

/* Translates a brace: {n}, {n,}, {n,m}, {,m}, or an ordinary character. */
static void translate_interval(translator *translator) {
  size_t n = 1, low, high;
  while (pattern_syntax_is_number(pattern_syntax_peek(translator, n))) n++;
  low = n - 1;
  bool comma = pattern_syntax_peek(translator, n) == ',';
  if (comma) n++;
  size_t before = n;
  while (pattern_syntax_is_number(pattern_syntax_peek(translator, n))) n++;
  high = n - before;
  if (pattern_syntax_peek(translator, n) != '}' || (low == 0 && high == 0)) {
    translator->atom = translator->out->size;
    pattern_syntax_put(translator, "\\{");
    translator->at++;
    return;
  }
  pattern_syntax_copy(translator, 1);
  if (low == 0) pattern_syntax_put(translator, "0");
  pattern_syntax_copy(translator, n);
  if (pattern_syntax_peek(translator, 0) == '+' ||
      (pattern_syntax_peek(translator, 0) == '?' && !comma))
    wrap_atom(translator);
}

static clave_status translate_one(translator *translator) {
  int c = pattern_syntax_peek(translator, 0);
  if (c == '*' || c == '+' || c == '?') {
    pattern_syntax_copy(translator, 1);
    return NULL;
  }
  if (c == '{') {
    translate_interval(translator);
    return NULL;
  }
  if (c == ')') return pattern_syntax_close_group(translator);
  translator->atom = translator->out->size;
  if (c == '(') return pattern_syntax_open_group(translator);
  if (c == '\\') return translate_escape(translator, false);
  if (c == '[') return translate_class(translator);
  if (c == '^' || c == '$') {
    pattern_syntax_put(translator, c == '^' ? "(?m:^)" : "(?m:$)");
    translator->at++;
    return NULL;
  }
  uint32_t code_point;
  pattern_syntax_copy(translator, utf8_read(translator->in.data + translator->at, &code_point));
  return NULL;
}

clave_status pattern_translate(span source, clave_status (*is_script)(span name, bool *is_known),
                               text *out) {
  translator translator = {.in = source, .out = out, .is_script = is_script};
  while (translator.at < source.size) TRY(translate_one(&translator));
  if (translator.depth > 0) return INVALID("a parenthesis has no closing parenthesis");
  close_flags(&translator);
  return text_status(out);
}
