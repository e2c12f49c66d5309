/* Recognises the picture in flash, and reports the digit and the stack size used. */
#include <stdint.h>

#include "digit.h"
#include "startup.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, DIGITS = 10 };
extern const float picture[PIXELS]; /* picture.S */

/* ---------------------------------------------------------------- semihosting */

enum { SYS_WRITE0 = 0x04, SYS_EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026 };

static void call_host(int operation, const void *argument) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void say(const char *text) { call_host(SYS_WRITE0, text); }

static void say_number(uint32_t n) {
  char digits[12], *at = &digits[11];
  *at = '\0';
  do {
    *--at = (char)('0' + n % 10);
    n /= 10;
  } while (n);
  say(at);
}

void end(const char *text, int code) {
  const uint32_t reason[2] = {APPLICATION_EXIT, (uint32_t)code};
  say(text);
  call_host(SYS_EXIT_EXTENDED, reason);
  for (;;) {
  }
}

/* ---------------------------------------------------------------- the program */

static uint32_t stack_used(void) {
  const uint32_t *at = stack_begin;
  while (at < stack_end && *at == STACK_PAINT) at++;
  return (uint32_t)((const char *)stack_end - (const char *)at);
}

int main(void) {
  static float scores[DIGITS];
  const int code = digit_run(picture, scores);
  if (code) {
    say(digit_error(code));
    end("\n", 1);
  }
  int best = 0;
  for (int i = 1; i < DIGITS; i++) best = scores[i] > scores[best] ? i : best;
  say("digit ");
  say_number((uint32_t)best);
  say(", stack ");
  say_number(stack_used());
  end(" bytes\n", 0);
}
