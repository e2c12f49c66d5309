#ifndef SERIALIZE_LIMITS_H
#define SERIALIZE_LIMITS_H
/* What a file may hold at most. A program beyond these is refused; none of them is near what a real
 * model needs. */

enum {
  LIMIT_NAME = 4096,                /* bytes of a name */
  LIMIT_STRING = 64 << 20,          /* bytes of any other string: metadata */
  LIMIT_ITEMS = 1 << 24,            /* entries of any vector: tensors, instructions, ... */
  LIMIT_DEPTH = 32,                 /* nesting of tables */
  LIMIT_JSON_BYTES = 256 << 20,     /* of a .json program */
  LIMIT_TENSORS_HEADER = 100000000, /* bytes of a safetensors header: the format's own limit */
  LIMIT_SECTIONS = 64,              /* of a .clv file */
  LIMIT_CHAIN_DEPTH = 16,           /* bodies within bodies */
  /* Decoded bytes per byte of file, and a constant, but never more than DECODED: bounds what a file
   * can make of shared sub-tables. */
  LIMIT_EXPANSION = 64,
  LIMIT_EXPANSION_BASE = 16 << 20,
  LIMIT_DECODED = 1 << 30
};

#endif
