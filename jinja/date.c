/* strftime_now: dates in English, regardless of the process's locale. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "jinja/render.h"

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* Writes the value of a directive. Returns false if the letter is not supported. */
static bool write_directive(char letter, const struct tm *date, char out[64]) {
  int hour = date->tm_hour % 12 ? date->tm_hour % 12 : 12, year = date->tm_year + 1900;
  const struct {
    char letter;
    const char *format;
    int number;
  } numbers[] = {{'d', "%02d", date->tm_mday},
                 {'e', "%2d", date->tm_mday},
                 {'m', "%02d", date->tm_mon + 1},
                 {'Y', "%d", year},
                 {'y', "%02d", year % 100},
                 {'H', "%02d", date->tm_hour},
                 {'I', "%02d", hour},
                 {'M', "%02d", date->tm_min},
                 {'S', "%02d", date->tm_sec},
                 {'j', "%03d", date->tm_yday + 1},
                 {'w', "%d", date->tm_wday},
                 {'u', "%d", date->tm_wday ? date->tm_wday : 7},
                 {'C', "%02d", year / 100},
                 {'f', "%06d", 0}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (numbers[i].letter != letter) continue;
    (void)snprintf(out, 64, numbers[i].format, numbers[i].number);
    return true;
  }
  const char *day = days[date->tm_wday], *month = months[date->tm_mon];
  if (letter == 'A' || letter == 'a')
    (void)snprintf(out, 64, "%.*s", letter == 'a' ? 3 : 9, day);
  else if (letter == 'B')
    (void)snprintf(out, 64, "%s", month);
  else if (letter == 'b' || letter == 'h')
    (void)snprintf(out, 64, "%.3s", month);
  else if (letter == 'p')
    (void)snprintf(out, 64, "%s", date->tm_hour < 12 ? "AM" : "PM");
  else if (letter == '%')
    (void)snprintf(out, 64, "%%");
  else if (letter == 'n' || letter == 't')
    (void)snprintf(out, 64, letter == 'n' ? "\n" : "\t");
  else if (letter == 'z' || letter == 'Z')
    *out = '\0';
  else
    return false;
  return true;
}

/* Returns the expansion of directives that combine several others, NULL for the rest. */
static const char *long_form(char letter) {
  static const struct {
    char letter;
    const char *format;
  } forms[] = {{'F', "%Y-%m-%d"},
               {'T', "%H:%M:%S"},
               {'D', "%m/%d/%y"},
               {'R', "%H:%M"},
               {'x', "%m/%d/%y"},
               {'X', "%H:%M:%S"},
               {'c', "%a %b %e %H:%M:%S %Y"},
               {'r', "%I:%M:%S %p"}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (forms[i].letter == letter) return forms[i].format;
  }
  return NULL;
}

static clave_status append_date(builder *builder, const char *text, size_t size,
                                const struct tm *date) {
  for (size_t i = 0; i < size; i++) {
    if (text[i] != '%' || i + 1 == size) {
      builder_bytes(builder, text + i, 1);
      continue;
    }
    char field[64], letter = text[++i];
    bool bare = letter == '-' && i + 1 < size; /* glibc: no padding */
    if (bare) letter = text[++i];
    const char *form = long_form(letter);
    if (form && !bare) {
      TRY(append_date(builder, form, strlen(form), date));
    } else if (write_directive(letter, date, field)) {
      const char *at = field;
      while (bare && (*at == '0' || *at == ' ') && at[1]) at++;
      builder_puts(builder, at);
    } else {
      return UNSUPPORTED("strftime_now's %%%c is not supported", letter);
    }
  }
  return NULL;
}

clave_status format_date(render *render, const string *format, value *out) {
  time_t now = render->options->now ? (time_t)render->options->now : time(NULL);
  struct tm t;
  builder builder = {0};
  if (!localtime_r(&now, &t)) return INVALID("the time is out of range");
  clave_status st = append_date(&builder, format->data, format->size, &t);
  if (!st) return builder_string(&render->arena, &builder, out);
  builder_free(&builder);
  return st;
}
