/* Recognises handwritten digits and shows them in the terminal, with the network's confidence
 * (`make demo`). demo PROGRAM IMAGE.pgm...   (28 x 28, binary PGM, white on black) */
#include <clave.h>
#include <clave_files.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, DIGITS = 10, BAR = 30 };

typedef struct picture {
  unsigned char pixels[PIXELS];
  float probability[DIGITS];
  int digit;
} picture;

/* Abilities of the terminal: colours, half blocks, letters. */
typedef struct terminal {
  bool unicode, colour;
} terminal;

static double read_clock(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static bool read_picture(const char *path, picture *picture) {
  FILE *file = fopen(path, "rb");
  int width = 0, height = 0, white = 0;
  bool good = file && fscanf(file, "P5 %d %d %d", &width, &height, &white) == 3 &&
              fgetc(file) != EOF && width == SIDE && height == SIDE && white == 255 &&
              fread(picture->pixels, PIXELS, 1, file) == 1;
  if (file) (void)fclose(file);
  if (!good) (void)fprintf(stderr, "demo: %s: not a binary PGM of 28 x 28 pixels\n", path);
  return good;
}

/* ---------------------------------------------------------------- the network */

static void choose_digit(const float *logits, picture *picture) {
  float sum = 0;
  picture->digit = 0;
  for (int i = 1; i < DIGITS; i++)
    picture->digit = logits[i] > logits[picture->digit] ? i : picture->digit;
  for (int i = 0; i < DIGITS; i++)
    sum += picture->probability[i] = expf(logits[i] - logits[picture->digit]);
  for (int i = 0; i < DIGITS; i++) picture->probability[i] /= sum;
}

static clave_status recognise(clave_session *session, picture *picture) {
  float values[PIXELS];
  clave_tensor logits,
      image = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, SIDE, SIDE}, values);
  for (int i = 0; i < PIXELS; i++) values[i] = (float)picture->pixels[i] / 255;
  clave_status st = clave_session_set_input(session, "forward", 0, &image);
  if (!st) st = clave_session_run(session, "forward");
  if (!st) st = clave_session_output(session, "forward", 0, &logits);
  if (!st) choose_digit(logits.data, picture); /* (1, 10) */
  return st;
}

/* ---------------------------------------------------------------- drawing */

static int shade(const picture *picture, int x, int y) { return picture->pixels[y * SIDE + x]; }

/* Draws two pixels, one above the other. */
static void draw_cell(const terminal *terminal, int above, int below) {
  static const char *const halves[] = {" ", "\xe2\x96\x84", "\xe2\x96\x80", "\xe2\x96\x88"};
  if (terminal->colour) {
    (void)printf("\x1b[38;5;%d;48;5;%dm%s", 232 + above * 23 / 255, 232 + below * 23 / 255,
                 halves[2]);
  } else if (terminal->unicode) {
    (void)fputs(halves[(above > 96 ? 2 : 0) + (below > 96 ? 1 : 0)], stdout);
  } else {
    (void)putchar(" .:-=+*#%@"[(above + below) * 9 / 510]);
  }
}

static void draw_bar(const terminal *terminal, const picture *picture, int digit) {
  int length = (int)lroundf(picture->probability[digit] * BAR);
  bool chosen = digit == picture->digit;
  (void)printf("  %s%d ", terminal->colour && chosen ? "\x1b[1;32m" : "", digit);
  for (int i = 0; i < BAR; i++) {
    (void)fputs(i >= length ? " " : terminal->unicode ? "\xe2\x96\x88" : "#", stdout);
  }
  (void)printf(" %5.1f %%%s", 100 * (double)picture->probability[digit],
               terminal->colour && chosen ? "\x1b[0m" : "");
}

static void draw_picture(const terminal *terminal, const char *path, const picture *picture) {
  const int rows = SIDE / 2;
  for (int row = 0; row < rows; row++) {
    (void)fputs("  ", stdout);
    for (int x = 0; x < SIDE; x++)
      draw_cell(terminal, shade(picture, x, 2 * row), shade(picture, x, 2 * row + 1));
    if (terminal->colour) (void)fputs("\x1b[0m", stdout);
    if (row == 1) (void)printf("  %s: %d", path, picture->digit);
    if (row >= 3 && row < 3 + DIGITS) draw_bar(terminal, picture, row - 3);
    (void)putchar('\n');
  }
  (void)putchar('\n');
}

/* ---------------------------------------------------------------- the program */

static void print_note(void *ctx, const char *line) {
  (void)ctx;
  (void)fprintf(stderr, "demo: note: %s\n", line);
}

static void show_building(void *ctx, const char *what, int done, int total) {
  (void)ctx;
  if (!isatty(STDERR_FILENO)) return;
  (void)fprintf(stderr, done < total ? "\r%s %d/%d" : "\r\x1b[K", what, done, total);
}

static clave_status print_device(const clave_device *device) {
  clave_device_info info = {.size = sizeof info};
  clave_status st = clave_device_get_info(device, &info);
  if (st) return st;
  if (info.index < 0) {
    (void)printf("on %s: %s\n\n", info.kind, info.name);
  } else {
    (void)printf("on %s:%d: %s, %s\n\n", info.kind, info.index, info.name, info.platform);
  }
  return NULL;
}

static clave_status show_pictures(clave_session *session, int count, char **paths, bool *unread) {
  setlocale(LC_CTYPE, "");
  bool unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  terminal terminal = {.unicode = unicode, .colour = unicode && isatty(STDOUT_FILENO)};
  for (int i = 0; i < count; i++) {
    picture picture;
    if (!read_picture(paths[i], &picture)) *unread = true;
    if (*unread) return NULL;
    clave_status st = recognise(session, &picture);
    if (st) return st;
    draw_picture(&terminal, paths[i], &picture);
  }
  return NULL;
}

/* Describes the kernel cache on disk; path is NULL without one. */
static clave_cache_info read_cache(void) {
  clave_cache_info cache = {.size = sizeof cache};
  clave_status_free(clave_cache_get_info(&cache));
  return cache;
}

static void print_times(double start, double end, uint64_t files_before) {
  clave_cache_info cache = read_cache();
  bool built = cache.path && cache.files > files_before;
  (void)printf("%.0f ms, including opening the device%s loading the program%s\n", end - start,
               built ? "," : " and", built ? " and building its kernels" : "");
  if (built) (void)printf("the kernels are kept in %s: the next run starts faster\n", cache.path);
}

int main(int argc, char **argv) {
  clave_device *device = NULL;
  clave_program *program = NULL;
  clave_session *session = NULL;
  bool unread = false;
  if (argc < 3) return (void)fprintf(stderr, "usage: demo PROGRAM IMAGE.pgm...\n"), 2;
  uint64_t files = read_cache().files;
  double start = read_clock();
  clave_device_options on = {.size = sizeof on, .message = print_note};
  clave_session_options how = {.size = sizeof how, .progress = show_building};
  clave_status st = clave_device_open(NULL, &on, &device);
  if (!st) st = clave_program_load(argv[1], NULL, &program);
  if (!st) st = clave_session_create(program, device, &how, &session);
  if (!st) st = print_device(device);
  if (!st) st = show_pictures(session, argc - 2, argv + 2, &unread);
  if (!st && !unread) print_times(start, read_clock(), files);
  if (st) (void)fprintf(stderr, "demo: %s\n", clave_status_message(st));
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
  bool good = !st && !unread && !fflush(stdout);
  clave_status_free(st);
  return good ? 0 : 1;
}
