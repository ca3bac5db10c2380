/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transport: what stands between a connection and its socket, by a table of functions. NULL stands for nothing: then
 * text itself is sent and received. The socket stays with the connection: seal turns a command into what is sent,
 * and open turns what was received into text. So a request is encrypted before it is due, the kernel's receive time
 * stamps stay known, and nothing here waits.
 */
#ifndef SOLOTEST_TRANSPORT_H
#define SOLOTEST_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "failure.h"
#include "options.h"

#define READ_SIZE 65536 /* bytes that one read of a socket returns at most */

enum handshake { HANDSHAKE_DONE, HANDSHAKE_WAITS, HANDSHAKE_FAILED };

struct transport;

struct transport_functions {
    const char *failure_kind; /* of a connection that did not come about */
    enum handshake (*shake_hands)(struct transport *t, size_t received);
    size_t (*output)(struct transport *t, char *to, size_t size);
    bool (*fail_handshake)(const struct transport *t, const struct settings *s, struct failure *f);
    size_t (*sealed_size)(size_t size);
    size_t (*seal)(struct transport *t, char *data, size_t size);
    struct iovec (*room)(struct transport *t);
    ssize_t (*open)(struct transport *t, size_t received, char *to, bool *whole);
    const char *(*problem)(const struct transport *t);
    void (*free)(struct transport *t);
};

/* The first member of each kind. */
struct transport {
    const struct transport_functions *does;
};

/* Continues the handshake with what was received. Then the caller sends what transport_output() returns, in any
 * case. */
static inline enum handshake transport_shake_hands(struct transport *t, size_t received)
{
    return t == NULL ? HANDSHAKE_DONE : t->does->shake_hands(t, received);
}

/* Moves what is to be sent to `to`, up to `size` bytes, and returns how many. */
static inline size_t transport_output(struct transport *t, char *to, size_t size)
{
    return t == NULL ? 0 : t->does->output(t, to, size);
}

/* How large transport_seal() makes `size` bytes at most. */
static inline size_t transport_sealed_size(const struct transport *t, size_t size)
{
    return t == NULL ? size : t->does->sealed_size(size);
}

/* Replaces `size` bytes by what is to be sent and returns its size; 0 if that failed. */
static inline size_t transport_seal(struct transport *t, char *data, size_t size)
{
    return t == NULL ? size : t->does->seal(t, data, size);
}

/* Where received bytes go, if their text goes to `to`. */
static inline struct iovec transport_room(struct transport *t, char *to)
{
    return t == NULL ? (struct iovec){.iov_base = to, .iov_len = READ_SIZE} : t->does->room(t);
}

/* Turns what is there after `received` more bytes into text, up to READ_SIZE bytes. Returns its size, 0 if the
 * server ended the connection, or -1: errno is EAGAIN if there is none yet, otherwise transport_problem() tells
 * why. `whole` is false if bytes followed that are not text yet. */
static inline ssize_t transport_open(struct transport *t, size_t received, char *to, bool *whole)
{
    *whole = true;
    return t == NULL ? (ssize_t)received : t->does->open(t, received, to, whole);
}

/* Why the connection cannot go on; NULL if it can. */
static inline const char *transport_problem(const struct transport *t)
{
    return t == NULL ? NULL : t->does->problem(t);
}

/* The kind of failure of a connection that did not come about. */
static inline const char *transport_failure_kind(const struct transport *t)
{
    return t == NULL ? "connect" : t->does->failure_kind;
}

static inline void transport_free(struct transport *t)
{
    if (t != NULL)
        t->does->free(t);
}

#endif
