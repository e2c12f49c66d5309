/* Recognises one handwritten digit with clave's C API: embed PROGRAM IMAGE.pgm */
#include <clave.h>
#include <stdio.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE };

/* Any call may fail: a status that is not NULL says why. */
static int report(clave_status status) {
  fprintf(stderr, "embed: %s\n", clave_status_message(status));
  clave_status_free(status);
  return 1;
}

/* Reads a binary PGM image of 28 x 28 pixels, white on black, as numbers from 0 to 1. */
static int read_image(const char *path, float *pixels) {
  unsigned char bytes[PIXELS];
  FILE *file = fopen(path, "rb");
  int width = 0, height = 0, white = 0;
  int good = file && fscanf(file, "P5 %d %d %d", &width, &height, &white) == 3 &&
             fgetc(file) != EOF && width == SIDE && height == SIDE && white == 255 &&
             fread(bytes, PIXELS, 1, file) == 1;
  if (file) fclose(file);
  for (int i = 0; good && i < PIXELS; i++) pixels[i] = (float)bytes[i] / 255;
  return good;
}

static clave_status classify(clave_session *session, float *pixels, clave_tensor *scores) {
  clave_tensor image = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, SIDE, SIDE}, pixels);
  clave_status status = clave_session_set_input(session, "forward", 0, &image);
  if (!status) status = clave_session_run(session, "forward");
  if (!status) status = clave_session_output(session, "forward", 0, scores);
  return status;
}

int main(int argc, char **argv) {
  clave_device *device = NULL;
  clave_program *program = NULL;
  clave_session *session = NULL;
  clave_tensor scores;
  clave_device_info info = {.size = sizeof info};
  float pixels[PIXELS];
  if (argc != 3 || !read_image(argv[2], pixels)) {
    fprintf(stderr, "usage: embed PROGRAM IMAGE.pgm (28 x 28, binary)\n");
    return 2;
  }
  clave_status status = clave_device_open(NULL, NULL, &device);
  if (!status) status = clave_device_get_info(device, &info);
  if (!status) status = clave_program_load(argv[1], NULL, &program);
  if (!status) status = clave_session_create(program, device, NULL, &session);
  if (!status) status = classify(session, pixels, &scores);
  if (!status) {
    const float *score = scores.data; /* (1, 10), contiguous */
    int digit = 0;
    for (int i = 1; i < 10; i++) digit = score[i] > score[digit] ? i : digit;
    printf("%s is a %d, says %s\n", argv[2], digit, info.name);
  }
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
  return status ? report(status) : 0;
}
