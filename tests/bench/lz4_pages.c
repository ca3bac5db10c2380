/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Compresses each page of a file with LZ4, and takes it apart again: a line per page with its
 * compressed size in bytes, and the shortest of nine times for each, in microseconds.
 *
 *     gcc -O2 tests/bench/lz4_pages.c -l:liblz4.so.1 -o lz4_pages && ./lz4_pages FILE
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAGE = 4096, ROOM = 2 * PAGE, PASSES = 9 };

int LZ4_compress_default(const char *from, char *to, int size, int room);
int LZ4_decompress_safe(const char *from, char *to, int size, int room);

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

struct page {
    char bytes[PAGE], compressed[ROOM];
    int size;
    double compress_us, decompress_us;
};

static void look_at(struct page *p)
{
    char back[PAGE];
    double start = now_us();
    p->size = LZ4_compress_default(p->bytes, p->compressed, PAGE, ROOM);
    double middle = now_us();
    int length = LZ4_decompress_safe(p->compressed, back, p->size, PAGE);
    double end = now_us();
    if (length != PAGE)
        abort();
    if (p->compress_us == 0 || middle - start < p->compress_us)
        p->compress_us = middle - start;
    if (p->decompress_us == 0 || end - middle < p->decompress_us)
        p->decompress_us = end - middle;
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    struct page *pages = NULL;
    size_t count = 0;
    if (file == NULL) {
        fputs("usage: lz4_pages FILE\n", stderr);
        return 2;
    }
    for (;;) {
        struct page *more = realloc(pages, (count + 1) * sizeof *pages);
        if (more == NULL)
            return 1;
        pages = more;
        pages[count].compress_us = pages[count].decompress_us = 0;
        if (fread(pages[count].bytes, PAGE, 1, file) != 1)
            break;
        count++;
    }
    fclose(file);
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t i = 0; i < count; i++)
            look_at(&pages[i]);
    for (size_t i = 0; i < count; i++)
        printf("%d %.3f %.3f\n", pages[i].size, pages[i].compress_us, pages[i].decompress_us);
    free(pages);
    return 0;
}
