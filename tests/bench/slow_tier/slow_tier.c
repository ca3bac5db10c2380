/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A file in memory whose reads take a known time: a FUSE file system with the one file `tier`. A loop device makes it a
 * drive to swap to, of which the truth is known.
 *
 *     slow_tier MOUNTPOINT MEBIBYTES READ_US SLOW_READ_US EVERY
 *
 * A read takes READ_US, and every EVERYth one SLOW_READ_US instead; reads do not wait for each other. A write takes as
 * long as it takes. Runs in the foreground until it is unmounted.
 */
// Build: cc -std=c11 -O2 slow_tier.c $(pkg-config --cflags --libs fuse3) -o slow_tier
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fuse.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

static char *store;
static size_t store_size;
static long read_ns, slow_read_ns;
static uint64_t every;
static _Atomic uint64_t reads;

static int tier_getattr(const char *path, struct stat *found, struct fuse_file_info *info)
{
    (void)info;
    memset(found, 0, sizeof *found);
    if (strcmp(path, "/") == 0) {
        found->st_mode = S_IFDIR | 0700;
        found->st_nlink = 2;
        return 0;
    }
    if (strcmp(path, "/tier") != 0)
        return -ENOENT;
    found->st_mode = S_IFREG | 0600;
    found->st_nlink = 1;
    found->st_size = (off_t)store_size;
    return 0;
}

static void wait_until(struct timespec start, long ns)
{
    int64_t end = start.tv_nsec + ns;
    start.tv_sec += end / 1000000000;
    start.tv_nsec = end % 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL) == EINTR)
        ;
}

/* The part of a transfer that lies within the store. */
static size_t within(size_t size, off_t offset)
{
    size_t left = (uint64_t)offset < store_size ? store_size - (size_t)offset : 0;
    return size < left ? size : left;
}

static int tier_read(const char *path, char *to, size_t size, off_t offset, struct fuse_file_info *info)
{
    struct timespec start;
    (void)path;
    (void)info;
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    size = within(size, offset);
    memcpy(to, store + offset, size);
    wait_until(start, atomic_fetch_add(&reads, 1) % every == every - 1 ? slow_read_ns : read_ns);
    return (int)size;
}

static int tier_write(const char *path, const char *from, size_t size, off_t offset, struct fuse_file_info *info)
{
    (void)path;
    (void)info;
    size = within(size, offset);
    if (size == 0)
        return -ENOSPC;
    memcpy(store + offset, from, size);
    return (int)size;
}

static int tier_open(const char *path, struct fuse_file_info *info)
{
    info->direct_io = 1; /* no page cache between the loop device and this program */
    return strcmp(path, "/tier") == 0 ? 0 : -ENOENT;
}

static int tier_sync(const char *path, int only_data, struct fuse_file_info *info)
{
    (void)path;
    (void)only_data;
    (void)info;
    return 0;
}

static void *tier_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    (void)connection;
    config->direct_io = 1;
    return NULL;
}

static const struct fuse_operations operations = {
    .getattr = tier_getattr,
    .open = tier_open,
    .read = tier_read,
    .write = tier_write,
    .fsync = tier_sync,
    .init = tier_init,
};

/* Returns a number of an argument; ends the program if it is none from `least` to `most`. */
static long parse(const char *name, const char *text, long least, long most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most) {
        (void)fprintf(stderr, "slow_tier: %s is %s; it must be from %ld to %ld\n", name, text, least, most);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        (void)fprintf(stderr, "usage: slow_tier MOUNTPOINT MEBIBYTES READ_US SLOW_READ_US EVERY\n");
        return 2;
    }
    store_size = (size_t)parse("MEBIBYTES", argv[2], 1, 65536) << 20;
    read_ns = parse("READ_US", argv[3], 0, 1000000) * 1000;
    slow_read_ns = parse("SLOW_READ_US", argv[4], 0, 1000000) * 1000;
    every = (uint64_t)parse("EVERY", argv[5], 1, 1000000);
    store = mmap(NULL, store_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Reclaim waits for this program, which therefore must not wait for reclaim. A sleep must end on time. */
    if (store == MAP_FAILED || mlockall(MCL_CURRENT) != 0 || prctl(PR_SET_TIMERSLACK, 1UL) != 0) {
        perror("slow_tier: its memory cannot be locked");
        return 1;
    }
    char *arguments[] = {argv[0], argv[1], "-f", "-o", "auto_unmount,max_idle_threads=64", NULL};
    return fuse_main(5, arguments, &operations, NULL);
}
