/* Writes files through a buffer. */
#include <string.h>

#include "base/file.h"
#include "base/file_guard.h"
#include "base/file_target.h"
#include "base/small_alloc.h"

#if MEMORY_STATIC
enum { WRITE_BUFFER = 4 * 1024 };
#else
enum { WRITE_BUFFER = 64 * 1024 };
#endif

struct file_writer {
  file_target target;
  size_t size; /* bytes appended */
  size_t buffered;
  bool is_cut; /* zeros may have been appended from a file that was cut short */
  uint8_t buffer[WRITE_BUFFER];
};

clave_status file_writer_create(const char *path, file_writer **out) {
  *out = NULL;
  file_writer *writer = small_alloc(sizeof *writer);
  if (!writer) return status_no_memory();
  clave_status st = file_target_open(&writer->target, path);
  if (st) {
    file_writer_destroy(writer);
    return st;
  }
  *out = writer;
  return NULL;
}

clave_status file_writer_flush(file_writer *writer) {
  size_t n = writer->buffered;
  writer->buffered = 0;
  return file_target_write(&writer->target, writer->buffer, n);
}

clave_status file_writer_append(file_writer *writer, const void *bytes, size_t n) {
  if (n == 0) return NULL;
  writer->size += n;
  if (n > WRITE_BUFFER - writer->buffered) TRY(file_writer_flush(writer));
  if (n > WRITE_BUFFER) {
    TRY(file_target_write(&writer->target, bytes, n));
  } else {
    memcpy(writer->buffer + writer->buffered, bytes, n);
    writer->buffered += n;
  }
  const file_guard *guard = file_guard_of(bytes);
  writer->is_cut = writer->is_cut || (guard && file_guard_is_cut(guard));
  return NULL;
}

clave_status file_writer_pad(file_writer *writer, size_t alignment) {
  size_t n = (alignment - writer->size % alignment) % alignment;
  writer->size += n;
  for (size_t piece; n > 0; n -= piece) {
    if (writer->buffered == WRITE_BUFFER) TRY(file_writer_flush(writer));
    piece = n < WRITE_BUFFER - writer->buffered ? n : WRITE_BUFFER - writer->buffered;
    memset(writer->buffer + writer->buffered, 0, piece);
    writer->buffered += piece;
  }
  return NULL;
}

size_t file_writer_size(const file_writer *writer) { return writer->size; }

bool file_writer_replaces(const file_writer *writer) { return writer->target.temporary[0] != '\0'; }

clave_status file_writer_commit(file_writer *writer) {
  TRY(file_writer_flush(writer));
  if (writer->is_cut)
    return status_new(STATUS_IO, "%s: a source file was cut short while this file was written",
                      writer->target.path);
  return file_target_commit(&writer->target);
}

void file_writer_destroy(file_writer *writer) {
  if (!writer) return;
  file_target_destroy(&writer->target);
  small_free(writer);
}

clave_status file_write(const char *path, const void *bytes, size_t n) {
  file_writer *writer;
  TRY(file_writer_create(path, &writer));
  clave_status st = file_writer_append(writer, bytes, n);
  if (!st) st = file_writer_commit(writer);
  file_writer_destroy(writer);
  return st;
}
