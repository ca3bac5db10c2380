/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Runs a fuzz target on the given files and on a number of mutants of them, the same each time, so that tests need no
 * libFuzzer. The first argument is the number. Each input is allocated alone, for the sanitizer to find a read beyond it.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "solotest/random.h"

enum { LARGEST = 1 << 20, MOST_FILES = 64, MOST_CHANGES = 8, MOST_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct input {
    uint8_t *data;
    size_t size;
} inputs[MOST_FILES];

static void run_alone(const uint8_t *data, size_t size)
{
    uint8_t *alone = malloc(size);
    if (size > 0)
        memcpy(alone, data, size);
    (void)LLVMFuzzerTestOneInput(alone, size);
    free(alone);
}

/* Replaces, removes or repeats some bytes, or copies a part of another input over them. */
static size_t change(struct rng *r, uint8_t *data, size_t size, const struct input *other)
{
    static const uint8_t special[] = "\r\n$*:+-0919";
    size_t at = size > 0 ? rng_next(r) % size : 0, n = size > at ? 1 + rng_next(r) % (size - at) : 0;
    switch (rng_next(r) % 5) {
    case 0:
        if (size > 0)
            data[at] = (uint8_t)rng_next(r);
        return size;
    case 1:
        if (size > 0)
            data[at] = special[rng_next(r) % (sizeof special - 1)];
        return size;
    case 2:
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    case 3:
        if (size + n > MOST_BYTES)
            return size;
        memmove(data + at + n, data + at, size - at);
        return size + n;
    default:
        n = n < other->size ? n : other->size;
        if (n > 0)
            memcpy(data + at, other->data + other->size - n, n);
        return size;
    }
}

static void run_mutants(size_t files, unsigned long count)
{
    static uint8_t data[LARGEST];
    struct rng r;
    rng_seed(&r, 1, 0);
    for (unsigned long i = 0; i < count; i++) {
        const struct input *from = &inputs[rng_next(&r) % files];
        size_t size = from->size, changes = 1 + rng_next(&r) % MOST_CHANGES;
        memcpy(data, from->data, size);
        for (size_t k = 0; k < changes; k++)
            size = change(&r, data, size, &inputs[rng_next(&r) % files]);
        run_alone(data, size);
    }
}

int main(int argc, char **argv)
{
    size_t files = 0;
    unsigned long mutants = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    for (int i = 2; i < argc && files < MOST_FILES; i++) {
        FILE *file = fopen(argv[i], "rb");
        struct input *input = &inputs[files++];
        if (file == NULL) {
            perror(argv[i]);
            return 1;
        }
        input->data = malloc(LARGEST);
        input->size = fread(input->data, 1, LARGEST, file);
        (void)fclose(file);
        run_alone(input->data, input->size);
    }
    if (files > 0)
        run_mutants(files, mutants);
    for (size_t i = 0; i < files; i++)
        free(inputs[i].data);
    (void)printf("%zu inputs, %lu mutants\n", files, mutants);
    return 0;
}
