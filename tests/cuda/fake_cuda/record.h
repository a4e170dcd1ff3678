// The log of a CUDA that computes nothing: one line for each call that a test may ask about.
#pragma once
#include <stdio.h>
#include <stdlib.h>

static FILE *record_file(void) {
  static FILE *file;
  if (!file) {
    const char *path = getenv("FAKE_CUDA_LOG");
    file = path ? fopen(path, "a") : stderr;
    setvbuf(file, NULL, _IOLBF, 0);
  }
  return file;
}

#define RECORD(...) fprintf(record_file(), __VA_ARGS__)
