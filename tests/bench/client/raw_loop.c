/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * raw_loop - the physical limit for a client with one connection and one request in flight: a loop of
 * write() and read() that looks at nothing but the number of bytes.
 *
 * usage: raw_loop PORT REQUESTS VALUE_SIZE KEY_COUNT
 * Prints: requests per second, CPU microseconds per request.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define COMMANDS 4096 /* formatted before the clock runs, in random order of keys */

static struct {
    char text[64];
    size_t length;
} commands[COMMANDS];

static char reply[1 << 20];

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
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

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    long requests = atol(argv[2]);
    long keys = atol(argv[4]);
    size_t value_size = (size_t)atol(argv[3]);
    char head[32];
    size_t expected = (size_t)snprintf(head, sizeof head, "$%zu\r\n", value_size) + value_size + 2;
    if (requests < 1 || keys < 1 || expected > sizeof reply)
        return 2;
    for (size_t i = 0; i < COMMANDS; i++) {
        char key[24];
        int n = snprintf(key, sizeof key, "%ld", random() % keys);
        commands[i].length = (size_t)snprintf(commands[i].text, sizeof commands[i].text,
                                              "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", n, key);
    }
    int fd = connect_to(atoi(argv[1]));
    double start = seconds(), cpu = cpu_seconds();
    for (long i = 0; i < requests; i++) {
        size_t at = (size_t)i % COMMANDS, got = 0;
        if (write(fd, commands[at].text, commands[at].length) != (ssize_t)commands[at].length)
            return 4;
        while (got < expected) {
            ssize_t n = read(fd, reply + got, sizeof reply - got);
            if (n <= 0 || reply[0] != '$' || reply[1] == '-')
                return 4;
            got += (size_t)n;
        }
    }
    start = seconds() - start;
    cpu = cpu_seconds() - cpu;
    printf("%.0f %.4f\n", (double)requests / start, cpu / (double)requests * 1e6);
    return 0;
}
