/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * TLS between a connection and its socket. The socket stays with the connection: tls_seal() turns a command into what
 * is sent, and tls_open() turns what was received into plain text. So a request is encrypted before it is due, the
 * kernel's receive time stamps stay known, and nothing here waits.
 *
 * A record can be read only when all of it is there, and the time stamp of a read belongs to its last byte. So the
 * arrival of a reply is known only if the read ended with the last byte of the record that ends the reply. If the read
 * brought a part of the next record, it is not known, as if that part were plain text.
 *
 * Without SOLOTEST_TLS the program needs no OpenSSL, and tls_prepare() refuses --tls.
 */
#ifndef SOLOTEST_TLS_H
#define SOLOTEST_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "failure.h"
#include "options.h"

#define READ_SIZE 65536 /* bytes that one read of a socket returns at most */

struct tls; /* of one connection */

/* Reads the certificates, once for all connections. Without --tls it does nothing. */
bool tls_prepare(const struct settings *s, struct failure *f);

/* What this program was built with; NULL if it was built without TLS. */
const char *tls_library(void);

struct tls *tls_create(const struct settings *s, struct failure *f);
void tls_free(struct tls *t);

enum handshake { HANDSHAKE_DONE, HANDSHAKE_WAITS, HANDSHAKE_FAILED };

/* Continues the handshake with what was received. Then the caller sends what tls_output() returns, in any case. */
enum handshake tls_shake_hands(struct tls *t, size_t received);

/* Moves what is to be sent to `to`, up to `size` bytes, and returns how many. */
size_t tls_output(struct tls *t, char *to, size_t size);

/* Says why the certificate of the server, or its handshake, is not accepted. */
bool tls_fail(const struct tls *t, const struct settings *s, struct failure *f);

/* How large tls_seal() makes `size` bytes at most. */
size_t tls_sealed_size(size_t size);

/* Replaces `size` bytes by what is to be sent and returns its size; 0 if that failed. */
size_t tls_seal(struct tls *t, char *data, size_t size);

/* Where received bytes go. */
struct iovec tls_room(struct tls *t);

/* Turns what is there after `received` more bytes into plain text, up to READ_SIZE bytes. Returns its size, 0 if the server
 * ended the connection, or -1: errno is EAGAIN if there is none yet, otherwise tls_problem() tells why. `whole` is false if
 * bytes followed that are no plain text yet. */
ssize_t tls_open(struct tls *t, size_t received, char *to, bool *whole);

/* Why the connection cannot go on; NULL if it can. */
const char *tls_problem(const struct tls *t);

#endif
