/* Message handles and properties. The server's `messagecalls` is where these calls are answered. */
#include "client.h"

#include <string.h>

typedef struct {
  MQHMSG message;
  int32_t type, length, name_length, name_ccsid;
} PropertyRequest;

typedef struct {
  MQHMSG message;
  int32_t length, name_length, name_ccsid, descriptor_length;
} BufferRequest;

static const char *characters(const MQCHARV *v) { return v->VSPtr ? v->VSPtr : (const char *)v + v->VSOffset; }

static MQLONG length_in(const MQCHARV *v) {
  return v->VSLength == MQVS_NULL_TERMINATED ? (MQLONG)strlen(characters(v)) : v->VSLength;
}

static struct iovec name_part(const MQCHARV *v) {
  return PART((char *)characters(v), length_in(v) > 0 ? length_in(v) : 0);
}

void MQCRTMH(MQHCONN handle, PMQVOID options, PMQHMSG message, PMQLONG comp, PMQLONG reason) {
  if (!has_id(options, "CMHO")) FAIL(MQRC_CMHO_ERROR);
  struct iovec out[] = {PART(options, sizeof(MQCMHO))}, in[] = {PART(message, sizeof *message)};
  *message = MQHM_UNUSABLE_HMSG;
  call(handle, CRTMH, out, 1, in, 1, comp, reason);
}

void MQDLTMH(MQHCONN handle, PMQHMSG message, PMQVOID options, PMQLONG comp, PMQLONG reason) {
  if (!has_id(options, "DMHO")) FAIL(MQRC_DMHO_ERROR);
  struct iovec out[] = {PART(message, sizeof *message), PART(options, sizeof(MQDMHO))};
  call(handle, DLTMH, out, 2, 0, 0, comp, reason);
  if (*comp != MQCC_FAILED) *message = MQHM_UNUSABLE_HMSG;
}

void MQSETMP(MQHCONN handle, MQHMSG message, PMQVOID options, PMQVOID name, PMQVOID pd, MQLONG type, MQLONG length,
             PMQVOID value, PMQLONG comp, PMQLONG reason) {
  if (!has_id(options, "SMPO")) FAIL(MQRC_SMPO_ERROR);
  if (!has_id(pd, "PD  ")) FAIL(MQRC_PD_ERROR);
  if (type == MQTYPE_STRING && length == MQVL_NULL_TERMINATED) length = strlen(value);
  PropertyRequest request = {message, type, length, length_in(name), ((MQCHARV *)name)->VSCCSID};
  struct iovec out[] = {PART(&request, sizeof request), PART(options, sizeof(MQSMPO)), PART(pd, sizeof(MQPD)),
                        name_part(name), PART(value, length > 0 ? length : 0)};
  struct iovec in[] = {PART(pd, sizeof(MQPD))};
  call(handle, SETMP, out, 5, in, 1, comp, reason);
}

void MQINQMP(MQHCONN handle, MQHMSG message, PMQVOID options, PMQVOID name, PMQVOID pd, PMQLONG type, MQLONG size,
             PMQVOID value, PMQLONG length, PMQLONG comp, PMQLONG reason) {
  if (!has_id(options, "IMPO")) FAIL(MQRC_IMPO_ERROR);
  if (!has_id(pd, "PD  ")) FAIL(MQRC_PD_ERROR);
  PMQIMPO impo = options;
  MQCHARV *returned = &impo->ReturnedName;
  if (!returned->VSPtr && returned->VSOffset) returned->VSPtr = (char *)options + returned->VSOffset;
  int32_t found[] = {*type, 0};
  PropertyRequest request = {message, *type, size, length_in(name), ((MQCHARV *)name)->VSCCSID};
  struct iovec out[] = {PART(&request, sizeof request), PART(impo, sizeof *impo), PART(pd, sizeof(MQPD)),
                        name_part(name)};
  struct iovec in[] = {PART(found, sizeof found), PART(impo, sizeof *impo), PART(pd, sizeof(MQPD)),
                       PART(returned->VSPtr, returned->VSPtr && returned->VSBufSize > 0 ? returned->VSBufSize : 0),
                       PART(value, size > 0 ? size : 0)};
  call(handle, INQMP, out, 4, in, 5, comp, reason);
  *type = found[0];
  *length = found[1];
}

void MQDLTMP(MQHCONN handle, MQHMSG message, PMQVOID options, PMQVOID name, PMQLONG comp, PMQLONG reason) {
  if (!has_id(options, "DMPO")) FAIL(MQRC_DMPO_ERROR);
  PropertyRequest request = {message, 0, 0, length_in(name), ((MQCHARV *)name)->VSCCSID};
  struct iovec out[] = {PART(&request, sizeof request), PART(options, sizeof(MQDMPO)), name_part(name)};
  call(handle, DLTMP, out, 3, 0, 0, comp, reason);
}

void MQBUFMH(MQHCONN handle, MQHMSG message, PMQVOID options, PMQVOID md, MQLONG size, PMQVOID buffer, PMQLONG length,
             PMQLONG comp, PMQLONG reason) {
  if (!has_id(options, "BMHO")) FAIL(MQRC_BMHO_ERROR);
  if (!has_id(md, "MD  ")) FAIL(MQRC_MD_ERROR);
  size_t mds = md_length(md), bytes = size > 0 ? size : 0;
  BufferRequest request = {message, size, 0, 0, mds};
  struct iovec out[] = {PART(&request, sizeof request), PART(options, sizeof(MQBMHO)), PART(md, mds),
                        PART(buffer, bytes)};
  struct iovec in[] = {PART(length, sizeof *length), PART(md, mds), PART(buffer, bytes)};
  call(handle, BUFMH, out, 4, in, 3, comp, reason);
}

void MQMHBUF(MQHCONN handle, MQHMSG message, PMQVOID options, PMQVOID name, PMQVOID md, MQLONG size, PMQVOID buffer,
             PMQLONG length, PMQLONG comp, PMQLONG reason) {
  if (!has_id(options, "MHBO")) FAIL(MQRC_MHBO_ERROR);
  if (!has_id(md, "MD  ")) FAIL(MQRC_MD_ERROR);
  size_t mds = md_length(md);
  BufferRequest request = {message, size, length_in(name), ((MQCHARV *)name)->VSCCSID, mds};
  struct iovec out[] = {PART(&request, sizeof request), PART(options, sizeof(MQMHBO)), name_part(name), PART(md, mds)};
  struct iovec in[] = {PART(length, sizeof *length), PART(md, mds), PART(buffer, size > 0 ? size : 0)};
  *length = 0;
  call(handle, MHBUF, out, 4, in, 3, comp, reason);
}
