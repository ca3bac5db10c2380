/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * TLS, as a transport.
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

#include "failure.h"
#include "options.h"
#include "transport.h"

/* Reads the certificates, once for all connections. Without --tls it does nothing. */
bool tls_prepare(const struct settings *s, struct failure *f);

/* What this program was built with; NULL if it was built without TLS. */
const char *tls_library(void);

/* The client's side of a new connection; NULL if there is not enough memory. */
struct transport *tls_create(const struct settings *s, struct failure *f);

#endif
