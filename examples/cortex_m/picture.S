/* The pixels of a .npy file of 28 x 28 floats, whose header has 128 bytes: the program's input, in flash. */
  .section .rodata
  .balign 8
  .globl picture
picture:
  .incbin PICTURE, 128
