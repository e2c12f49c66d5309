#ifndef SERIALIZE_LIMITS_H
#define SERIALIZE_LIMITS_H
/* Limits on the contents of a file. Programs beyond them are rejected; real models stay far below.
 */

enum {
  LIMIT_NAME = 4096,                /* bytes of a name */
  LIMIT_STRING = 64 << 20,          /* bytes of any other string (metadata) */
  LIMIT_ITEMS = 1 << 24,            /* entries of any vector: tensors, instructions, ... */
  LIMIT_DEPTH = 32,                 /* nesting of tables */
  LIMIT_JSON_BYTES = 256 << 20,     /* bytes of a .json program */
  LIMIT_TENSORS_HEADER = 100000000, /* bytes of a safetensors header: the format's own limit */
  LIMIT_SECTIONS = 64,              /* sections of a .clv file */
  LIMIT_CHAIN_DEPTH = 16,           /* nesting of bodies */
  /* Decoded bytes are limited to LIMIT_EXPANSION per byte of the file plus
   * LIMIT_EXPANSION_BASE, and to LIMIT_DECODED in all. This bounds the memory for sub-tables that a
   * file shares many times. */
  LIMIT_EXPANSION = 64,
  LIMIT_EXPANSION_BASE = 16 << 20,
  LIMIT_DECODED = 1 << 30
};

#endif
