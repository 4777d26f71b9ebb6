/* What the client library's source files share. */
#ifndef TEST_CLIENT_H
#define TEST_CLIENT_H
#include "cmqc.h"

#include <sys/uio.h>

enum verb {
  CONN = 1, DISC, OPEN, CLOSE, PUT, PUT1, GET, CMIT, BACK, BEGIN, INQ, SET,
  CRTMH, DLTMH, SETMP, INQMP, DLTMP, BUFMH, MHBUF
};

#define FAIL(reason_) do { *comp = MQCC_FAILED; *reason = (reason_); return; } while (0)
#define PART(data, size) (struct iovec){(data), (size)}

#pragma GCC visibility push(hidden)

/* One request and its reply, on the connection of a handle. */
void call(MQHCONN handle, enum verb verb, const struct iovec *out, int outs, const struct iovec *in, int ins,
          PMQLONG comp, PMQLONG reason);

int has_id(const void *structure, const char *id);
size_t md_length(const void *md);

#pragma GCC visibility pop
#endif
