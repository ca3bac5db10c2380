/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * raw_loop - the physical limit for a client with one connection and one request in flight: a loop of
 * write() and read() that looks at nothing but the number of bytes.
 *
 * With "timed" it is the least that a latency client can be: each command is written for a fresh random key, the clock
 * is read before and after, and the difference goes to a histogram.
 *
 * usage: raw_loop PORT REQUESTS VALUE_SIZE KEY_COUNT [timed]
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define COMMANDS 4096 /* formatted before the clock runs, in random order of keys */

static struct {
    char text[64];
    size_t length;
} commands[COMMANDS];

static char reply[1 << 20];

static uint64_t histogram[64 << 7]; /* 128 steps in each doubling of a latency in ns */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void record(uint64_t latency)
{
    unsigned shift = 56u - (unsigned)__builtin_clzll(latency | 255);
    histogram[((uint64_t)shift << 7) + (latency >> shift)]++;
}

/* Writes the number with at least one digit; returns its end. */
static char *put_number(char *to, uint64_t number)
{
    char digits[20];
    size_t n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

static size_t put_command(char *to, uint64_t key)
{
    char digits[20], *end = put_number(digits, key);
    size_t length = (size_t)(end - digits);
    char *at = to;
    memcpy(at, "*2\r\n$3\r\nGET\r\n$", 14);
    at = put_number(at + 14, length);
    memcpy(at, "\r\n", 2);
    memcpy(at + 2, digits, length);
    memcpy(at + 2 + length, "\r\n", 2);
    return (size_t)(at + 4 + length - to);
}

static uint64_t random_state = 88172645463325252u;

/* xorshift64 (Marsaglia, 2003) */
static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("connect");
        exit(3);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static int exchange(int fd, const char *command, size_t length, size_t expected)
{
    size_t got = 0;
    if (write(fd, command, length) != (ssize_t)length)
        return 0;
    while (got < expected) {
        ssize_t n = read(fd, reply + got, sizeof reply - got);
        if (n <= 0 || reply[0] != '$' || reply[1] == '-')
            return 0;
        got += (size_t)n;
    }
    return 1;
}

static int run(int fd, long requests, size_t expected)
{
    for (long i = 0; i < requests; i++) {
        size_t at = (size_t)i % COMMANDS;
        if (!exchange(fd, commands[at].text, commands[at].length, expected))
            return 0;
    }
    return 1;
}

static int run_timed(int fd, long requests, size_t expected, uint64_t keys)
{
    char command[64];
    for (long i = 0; i < requests; i++) {
        size_t length = put_command(command, random_number() % keys);
        uint64_t begin = now_ns();
        if (!exchange(fd, command, length, expected))
            return 0;
        record(now_ns() - begin);
    }
    return 1;
}

int main(int argc, char **argv)
{
    int timed = argc == 6 && strcmp(argv[5], "timed") == 0;
    if (argc != 5 && !timed)
        return 2;
    long requests = atol(argv[2]);
    long keys = atol(argv[4]);
    size_t value_size = (size_t)atol(argv[3]);
    char head[32];
    size_t expected = (size_t)snprintf(head, sizeof head, "$%zu\r\n", value_size) + value_size + 2;
    if (requests < 1 || keys < 1 || expected > sizeof reply)
        return 2;
    for (size_t i = 0; i < COMMANDS; i++)
        commands[i].length = put_command(commands[i].text, random_number() % (uint64_t)keys);
    int fd = connect_to(atoi(argv[1]));
    return (timed ? run_timed(fd, requests, expected, (uint64_t)keys) : run(fd, requests, expected)) ? 0 : 4;
}
