/* clave cache: shows and trims the kernel binaries and tuning tables on disk. */
#include <inttypes.h>

#include "clave_files.h"
#include "cli/command.h"
#include "json/writer.h"

typedef struct cache_arguments {
  bool clear, json;
  int64_t max_mb; /* -1: not given */
} cache_arguments;

static const flag cache_flags[] = {
    {"--clear", FLAG_SWITCH, offsetof(cache_arguments, clear), NULL,
     "removes all files of the cache", 0, 0},
    {"--max-mb", FLAG_INT, offsetof(cache_arguments, max_mb), "N",
     "removes the least recently used files until at most N MB remain", 0, 1000000000},
    {"--json", FLAG_SWITCH, offsetof(cache_arguments, json), NULL, "machine-readable output", 0, 0},
};

static const cache_arguments cache_defaults = {.max_mb = -1};

static void cli_cache_write_json(const clave_cache_info *info, uint64_t removed, page *out) {
  json_writer writer = {.out = out};
  emit_object(&writer, NULL);
  emit_string(&writer, "path", info->path);
  emit_size(&writer, "bytes", info->bytes);
  emit_size(&writer, "files", info->files);
  emit_size(&writer, "limit_bytes", info->limit_bytes);
  emit_size(&writer, "tables", info->tables);
  emit_size(&writer, "removed_bytes", removed);
  emit_end_object(&writer);
}

static void cli_cache_write_text(const clave_cache_info *info, uint64_t removed, page *out) {
  if (!info->path) {
    text_puts(out, "no kernel cache\n");
    return;
  }
  if (removed) {
    text_puts(out, "removed  ");
    page_size(out, removed);
    text_puts(out, "\n");
  }
  text_puts(out, "path     ");
  page_visible(out, info->path);
  text_printf(out, "\nfiles    %" PRIu64 "\n", info->files);
  if (info->tables) text_printf(out, "tables   %" PRIu64 " of them, of clave tune\n", info->tables);
  text_puts(out, "size     ");
  page_size(out, info->bytes);
  text_puts(out, "\nlimit    ");
  page_size(out, info->limit_bytes);
  text_puts(out, "\n");
}

static int show_cache(const void *given, page *out) {
  const cache_arguments *arguments = given;
  clave_cache_info info = {.size = sizeof info};
  uint64_t removed = 0;
  if (arguments->clear && arguments->max_mb >= 0)
    return fail_usage("--clear and --max-mb exclude each other");
  if (arguments->clear || arguments->max_mb >= 0) {
    TRY_STATUS(
        clave_cache_trim(arguments->clear ? 0 : (uint64_t)arguments->max_mb * 1000000, &removed));
  }
  TRY_STATUS(clave_cache_get_info(&info));
  (arguments->json ? cli_cache_write_json : cli_cache_write_text)(&info, removed, out);
  return EXIT_GOOD;
}

const command cache_command = {
    .name = "cache",
    .usage = "cache [--clear | --max-mb N] [--json]",
    .summary = "Shows, limits or clears the cache of kernel binaries and tuning tables on disk.",
    .more = "CLAVE_CACHE_DIR sets the cache folder; off: nothing is cached.\n",
    .flags = cache_flags,
    .n_flags = LENGTH(cache_flags),
    .arguments_size = sizeof(cache_arguments),
    .defaults = &cache_defaults,
    .run = show_cache,
};
