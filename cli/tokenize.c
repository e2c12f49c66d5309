/* clave tokenize: encodes lines of text to lines of ids, and decodes them. */
#include <stdlib.h>
#include <string.h>

#include "clave_llm.h"
#include "cli/command.h"
#include "cli/files.h"
#include "json/json.h"
#include "json/writer.h"

typedef struct tokenize_arguments {
  const char *tokenizer, *pattern;
  bool encode, decode, bos, eos, special, skip_special;
} tokenize_arguments;

#define FIELD(name) offsetof(tokenize_arguments, name)

static const flag tokenize_flags[] = {
    {"--tokenizer", FLAG_PATH, FIELD(tokenizer), "T",
     "a tokenizer.json, SentencePiece model or tiktoken rank file, a Hugging Face model folder, or "
     "a .clv with a tokenizer",
     0, 0},
    {"--encode", FLAG_SWITCH, FIELD(encode), NULL,
     "reads one JSON string per line, prints lists of token ids", 0, 0},
    {"--decode", FLAG_SWITCH, FIELD(decode), NULL,
     "reads one JSON list of token ids per line, prints strings", 0, 0},
    {"--bos", FLAG_SWITCH, FIELD(bos), NULL, "adds the tokens that the format puts before a text",
     0, 0},
    {"--eos", FLAG_SWITCH, FIELD(eos), NULL, "adds the tokens that the format puts after a text", 0,
     0},
    {"--special", FLAG_SWITCH, FIELD(special), NULL,
     "recognises special tokens in the text (always on for tokenizer.json)", 0, 0},
    {"--skip-special", FLAG_SWITCH, FIELD(skip_special), NULL, "omits special tokens from the text",
     0, 0},
    {"--pattern", FLAG_TEXT, FIELD(pattern), "NAME",
     "split pattern of a tiktoken rank file: cl100k (default), gpt2, o200k or llama3", 0, 0},
};

typedef struct work {
  const tokenize_arguments *arguments;
  clave_tokenizer *tokenizer;
  text line;     /* the input for encoding */
  uint32_t *ids; /* owned (capacity); the input for decoding */
  size_t n_ids, capacity;
  page *out;
} work;

static int fail_line(size_t number, clave_status status) {
  (void)fail("standard input, line %zu: %s", number, clave_status_message(status));
  clave_status_free(status);
  return EXIT_FAILED;
}

static int encode_line(work *work, const char *line, size_t size, size_t number) {
  const tokenize_arguments *arguments = work->arguments;
  clave_encode_options options = {
      .size = sizeof options,
      .bos = arguments->bos,
      .eos = arguments->eos,
      .special = arguments->special ? CLAVE_SPECIAL_MATCH : CLAVE_SPECIAL_DEFAULT};
  clave_ids ids;
  text_clear(&work->line);
  clave_status st = json_read_string(line, size, &work->line);
  if (!st)
    st = clave_tokenizer_encode(work->tokenizer, work->line.data, work->line.size, &options, &ids);
  if (st) return fail_line(number, st);
  json_writer writer = {.out = work->out};
  emit_list(&writer, NULL);
  for (size_t i = 0; i < ids.count; i++) emit_size(&writer, NULL, ids.items[i]);
  emit_end_array(&writer);
  clave_ids_free(&ids);
  return EXIT_GOOD;
}

static clave_status read_ids(work *work, const char *line, size_t size) {
  if (!array_reserve(&work->ids, &work->capacity, size / 2 + 1, sizeof *work->ids))
    return status_no_memory();
  return json_read_u32s(line, size, work->ids, &work->n_ids);
}

static int decode_line(work *work, const char *line, size_t size, size_t number) {
  char *back;
  size_t text_size;
  clave_status st = read_ids(work, line, size);
  if (!st)
    st = clave_tokenizer_decode(work->tokenizer, work->ids, work->n_ids,
                                work->arguments->skip_special, &back, &text_size);
  if (st) return fail_line(number, st);
  json_writer writer = {.out = work->out};
  emit_text(&writer, NULL, back, text_size);
  text_puts(work->out, "\n");
  clave_text_free(back);
  return EXIT_GOOD;
}

static int do_lines(work *work) {
  page in = {0};
  int result = read_file("-", &in);
  const char *at = in.data ? in.data : "", *end = at + in.size;
  for (size_t number = 1; at < end && !result; number++) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    size_t size = (size_t)((newline ? newline : end) - at);
    result = (work->arguments->encode ? encode_line : decode_line)(work, at, size, number);
    at += size + (newline != NULL);
  }
  text_free(&in);
  return result;
}

static int check_flags(const tokenize_arguments *arguments) {
  if (!arguments->tokenizer) return fail_usage("tokenize needs --tokenizer");
  if (!arguments->encode && !arguments->decode)
    return fail_usage("tokenize needs --encode or --decode");
  if (arguments->encode && arguments->decode)
    return fail_usage("--encode and --decode exclude each other");
  if (arguments->decode && (arguments->bos || arguments->eos || arguments->special)) {
    return fail_usage("--bos, --eos and --special need --encode");
  }
  return arguments->encode && arguments->skip_special ? fail_usage("--skip-special needs --decode")
                                                      : EXIT_GOOD;
}

/* Loads the tokenizer from its file, or from a .clv. */
static int tokenize_load(const tokenize_arguments *arguments, clave_tokenizer **out) {
  clave_tokenizer_options options = {.size = sizeof options, .pattern = arguments->pattern};
  const char *ending = strrchr(arguments->tokenizer, '.');
  clave_program *program;
  if (!ending || strcmp(ending, ".clv") != 0) {
    TRY_STATUS(clave_tokenizer_load(arguments->tokenizer, &options, out));
    return EXIT_GOOD;
  }
  if (arguments->pattern)
    return fail_usage("--pattern applies to rank files, and a .clv stores its own pattern");
  TRY_STATUS(clave_program_load(arguments->tokenizer, NULL, &program));
  clave_status st = clave_tokenizer_of_program(program, out);
  clave_program_destroy(program);
  if (!st) return EXIT_GOOD;
  int result = fail("%s: %s", arguments->tokenizer, clave_status_message(st));
  clave_status_free(st);
  return result;
}

static int run_tokenize(const void *arguments, page *out) {
  work work = {.arguments = arguments, .out = out};
  TRY_EXIT(check_flags(work.arguments));
  TRY_EXIT(tokenize_load(work.arguments, &work.tokenizer));
  int result = do_lines(&work);
  clave_tokenizer_destroy(work.tokenizer);
  text_free(&work.line);
  free(work.ids);
  return result;
}

const command tokenize_command = {
    .name = "tokenize",
    .usage = "tokenize --tokenizer T (--encode or --decode)",
    .summary = "Encodes text to token ids, or decodes token ids to text, line by line.",
    .more = "Reads standard input. Each line of input and output is one JSON value.\n",
    .flags = tokenize_flags,
    .n_flags = LENGTH(tokenize_flags),
    .arguments_size = sizeof(tokenize_arguments),
    .run = run_tokenize,
};
