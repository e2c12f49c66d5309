/* Reads lines from a terminal, with or without editing, and joins them to messages. */
#include "cli/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/editor.h"
#include "cli/interrupts.h"

struct line_reader {
  editor *editor; /* owned; NULL: no line editing */
  bool color;
  page line;
};

static const char fence[] = "\"\"\"", paste_begin[] = "\x1b[200~", paste_end[] = "\x1b[201~";

/* ---------------------------------------------------------------- plain input */

static bool ends_with(const page *line, const char *end) {
  size_t n = strlen(end);
  return line->size >= n && memcmp(line->data + line->size - n, end, n) == 0;
}

/* Removes the paste markers. */
static void remove_markers(page *line) {
  const char *const markers[] = {paste_begin, paste_end};
  for (size_t at = 0; at < line->size; at++) {
    for (int i = 0; i < 2; i++) {
      size_t n = strlen(markers[i]);
      if (line->size - at < n || memcmp(line->data + at, markers[i], n) != 0) continue;
      memmove(line->data + at, line->data + at + n, line->size - at - n + 1);
      line->size -= n;
    }
  }
}

/* Reads a line without its newline, or several pasted lines. */
static int lines_read_plain(page *line) {
  bool pasting = false;
  for (char c;; text_append(line, &c, 1)) {
    if (!wait_for_input()) return -1;
    if (read(STDIN_FILENO, &c, 1) <= 0) return line->size ? EXIT_GOOD : -1;
    if (ends_with(line, paste_begin)) pasting = true;
    if (ends_with(line, paste_end)) pasting = false;
    if (c != '\n' || pasting) continue;
    remove_markers(line);
    return line->failed ? fail_memory() : EXIT_GOOD;
  }
}

static int read_plain(const char *prompt, page *line) {
  bool markers = isatty(STDERR_FILENO);
  text_clear(line);
  if (markers) (void)fputs("\x1b[?2004h", stderr);
  (void)fputs(prompt, stderr);
  int result = lines_read_plain(line);
  if (markers) (void)fputs("\x1b[?2004l", stderr);
  return result;
}

/* ---------------------------------------------------------------- messages */

int open_lines(bool color, line_reader **out) {
  line_reader *reader = calloc(1, sizeof *reader);
  if (!reader) return fail_memory();
  reader->editor = open_editor();
  reader->color = color && isatty(STDERR_FILENO);
  *out = reader;
  return EXIT_GOOD;
}

void close_lines(line_reader *reader) {
  if (!reader) return;
  close_editor(reader->editor);
  text_free(&reader->line);
  free(reader);
}

static int lines_read_with_prompt(line_reader *reader, const char *prompt) {
  if (reader->color) (void)fputs("\x1b[1;32m", stderr);
  int result = reader->editor ? edit_line(reader->editor, prompt, &reader->line)
                              : read_plain(prompt, &reader->line);
  if (reader->color) (void)fputs("\x1b[0m", stderr);
  return result;
}

/* Reads lines up to one that ends in """; the newlines next to the fences are not part of the
 * message. */
static int read_fenced(line_reader *reader, page *out) {
  text_append(out, reader->line.data + strlen(fence), reader->line.size - strlen(fence));
  while (!ends_with(out, fence)) {
    TRY_EXIT(lines_read_with_prompt(reader, ". "));
    text_puts(out, "\n");
    text_append(out, reader->line.data ? reader->line.data : "", reader->line.size);
    if (out->failed) return fail_memory();
  }
  out->size -= strlen(fence);
  if (out->size && out->data[out->size - 1] == '\n') out->size--;
  if (out->size && out->data[0] == '\n') memmove(out->data, out->data + 1, --out->size);
  out->data[out->size] = '\0';
  return EXIT_GOOD;
}

int read_message(line_reader *reader, page *out) {
  text_clear(out);
  TRY_EXIT(lines_read_with_prompt(reader, "> "));
  if (reader->line.size >= strlen(fence) && strncmp(reader->line.data, fence, strlen(fence)) == 0)
    return read_fenced(reader, out);
  while (ends_with(&reader->line, "\\")) {
    text_append(out, reader->line.data, reader->line.size - 1);
    text_puts(out, "\n");
    TRY_EXIT(lines_read_with_prompt(reader, ". "));
  }
  text_append(out, reader->line.data ? reader->line.data : "", reader->line.size);
  return out->failed ? fail_memory() : EXIT_GOOD;
}
