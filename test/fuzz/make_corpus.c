/* Writes the committed corpus again: the small valid program in every format, programs with every
 * op and field, and small safetensors files. Built by hand when a format changes: cc -D_GNU_SOURCE
 * -I. -Ibuild/gen test/fuzz/make_corpus.c build/obj/internal.a -lcmocka -lpcre2-8
 * -lutf8proc -lpthread -ldl -lm
 * &&
 * ./a.out test/fuzz/corpus */
#include <sys/stat.h>

#include "test/serialize/sample.h"
#include "test/tokenizer/proto_writer.h"

static const char *root;

static void put_file(const char *target, const char *name, const void *bytes, size_t n) {
  char path[512];
  (void)snprintf(path, sizeof path, "%s/%s", root, target);
  (void)mkdir(path, 0777);
  (void)snprintf(path, sizeof path, "%s/%s/%s", root, target, name);
  write_bytes(path, bytes, n);
}

static void put_program(const ir_program *ir, const char *name) {
  text lines = {0}, bytes = {0};
  expect_good(encode_json(ir, &lines));
  expect_good(encode_flatbuffer(ir, &bytes));
  put_file("json", name, lines.data, lines.size);
  put_file("flatbuffer", name, bytes.data, bytes.size);
  text_free(&lines);
  text_free(&bytes);
}

/* Writes one program per op, so that each file is small. */
static void put_samples(void) {
  uint32_t next_op = 0;
  for (uint64_t seed = 1; seed < IR_OP_COUNT; seed++) {
    mem_pool *pool;
    ir_program ir = {0};
    char name[32];
    expect_good(mem_pool_create(&pool));
    sampler sampler = {.pool = pool, .seed = seed, .next_op = next_op};
    sample_table(&sampler, &ir_program_table, &ir);
    ir.version = 1;
    for (uint32_t c = 0; c < ir.chains.count; c++) {
      if (ir.chains.items[c].instructions.count > 1) ir.chains.items[c].instructions.count = 1;
    }
    ir.chains.count = 1;
    next_op++;
    (void)snprintf(name, sizeof name, "op_%02u", (unsigned)seed);
    put_program(&ir, name);
    mem_pool_destroy(pool);
  }
}

static void put_valid(void) {
  program *program;
  char path[] = "/tmp/clave_corpus.clv";
  size_t n;
  expect_good(sample_program(SAMPLE_PROGRAM, &program));
  put_program(&program->ir, "valid");
  expect_good(program_save(program, path));
  void *bytes = read_bytes(path, &n);
  put_file("clv", "valid", bytes, n);
  free(bytes);
  (void)file_remove(path);
  program_destroy(program);
}

/* Writes the valid program with two packed weights of a constant. */
static void put_packed(void) {
  program *program;
  char path[] = "/tmp/clave_corpus.clv";
  size_t n;
  expect_good(sample_program(SAMPLE_PROGRAM, &program));
  for (int kind = 0; kind < 2; kind++) {
    program_packed_weight desc = {
        .layout = "cpu 1 x86-64",
        .kind = kind,
        .view = {.type = DTYPE_F32, .rank = 2, .dims = {3, 4}, .strides = {4, 1}},
        .bytes = 64};
    desc.data = desc.own = calloc(1, desc.bytes);
    assert_non_null(desc.own);
    expect_good(program_add_packed_weight(program, &desc));
  }
  expect_good(program_save(program, path));
  void *bytes = read_bytes(path, &n);
  put_file("clv", "packed", bytes, n);
  free(bytes);
  (void)file_remove(path);
  program_destroy(program);
}

static void put_tensors(void) {
  static const char *const headers[] = {
      "{}",
      "{\"__metadata__\":{\"a\":\"b\"}}  ",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"BOOL\","
      "\"shape\":[],\"data_offsets\":[8,9]}}",
      "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"F64\","
      "\"shape\":[1],\"data_offsets\":[1,9]}}",
      "{\"a\":{\"dtype\":\"I16\",\"shape\":[0,3],\"data_offsets\":[0,0]},\"b\":{\"dtype\":\"F8_"
      "E5M2\",\"shape\":[9],\"data_offsets\":[0,9]}}",
  };
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    uint8_t bytes[256] = {0};
    char name[32];
    uint64_t length = strlen(headers[i]);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + 8, headers[i], length);
    (void)snprintf(name, sizeof name, "file_%zu", i);
    put_file("safetensors", name, bytes, 8 + length + (i >= 2 ? 9 : 0));
  }
}

/* Writes SentencePiece models of each algorithm, with a piece of every type. */
static void put_models(void) {
  for (uint64_t algorithm = 1; algorithm <= 4; algorithm++) {
    for (int bytes = 0; bytes < 2; bytes++) {
      text file = {0};
      char name[32];
      put_model(&file, algorithm, bytes);
      (void)snprintf(name, sizeof name, "model_%d%s", (int)algorithm, bytes ? "_bytes" : "");
      put_file("sentencepiece", name, file.data, file.size);
      text_free(&file);
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  root = argv[1];
  (void)mkdir(root, 0777);
  put_valid();
  put_packed();
  put_samples();
  put_tensors();
  put_models();
  return 0;
}
