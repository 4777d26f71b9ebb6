/* The message queue interface as a client library: marshals every call to the tests' queue manager process.
 *
 * A request is one frame: its length and its verb (two 32-bit numbers in native order, the length counts what follows
 * it), then the call's arguments. The reply is one frame too: length, completion code, reason, then the output
 * arguments; a call that failed may have fewer of them. Structures travel with as many bytes as their version has.
 * `tests/queue_manager/server/wire.py` is the other end.
 *
 * What a call means is decided there. Here is only what a client library decides by itself: which queue manager a
 * connection goes to, and which thread may use a handle (IBM MQ, "Shared (thread independent) connections with
 * MQCONNX"; a handle that is not shared is given up when its thread ends).
 */
#define _GNU_SOURCE
#include "client.h"
#include "cmqbc.h"
#include "cmqxc.h"

#include <errno.h>
#include <langinfo.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 1024, MAX_PARTS = 6, SHARED = MQCNO_HANDLE_SHARE_BLOCK | MQCNO_HANDLE_SHARE_NO_BLOCK };

typedef struct {
  int used, socket, broken, one_per_thread;
  MQLONG options;
  MQCHAR48 queue_manager;
  pthread_t thread;
  pthread_mutex_t lock; /* one call at a time */
} Connection;

static Connection connections[MAX_CONNECTIONS]; /* by handle; 0 is no handle */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* --- frames ----------------------------------------------------------------------------------------------------- */

static void advance(struct msghdr *m, size_t done) {
  for (; m->msg_iovlen && done >= m->msg_iov->iov_len; m->msg_iov++, m->msg_iovlen--) done -= m->msg_iov->iov_len;
  if (m->msg_iovlen) {
    m->msg_iov->iov_base = (char *)m->msg_iov->iov_base + done;
    m->msg_iov->iov_len -= done;
  }
}

static int send_frame(int fd, enum verb verb, const struct iovec *parts, int count) {
  struct iovec all[1 + MAX_PARTS];
  uint32_t head[2] = {sizeof head[1], verb};
  struct msghdr m = {.msg_iov = all, .msg_iovlen = 1 + count};
  all[0] = PART(head, sizeof head);
  for (int i = 0; i < count; i++) {
    all[1 + i] = parts[i];
    head[0] += parts[i].iov_len;
  }
  for (advance(&m, 0); m.msg_iovlen;) {
    ssize_t sent = sendmsg(fd, &m, MSG_NOSIGNAL);
    if (sent >= 0) advance(&m, sent);
    else if (errno != EINTR) return -1;
  }
  return 0;
}

/* Output arguments go where the caller wants them, without a copy in between. Nothing follows a reply. */
static int receive_frame(int fd, const struct iovec *parts, int count, PMQLONG comp, PMQLONG reason) {
  struct iovec all[1 + MAX_PARTS];
  int32_t head[3];
  struct msghdr m = {.msg_iov = all, .msg_iovlen = 1 + count};
  size_t got = 0, wanted = sizeof head;
  all[0] = PART(head, sizeof head);
  for (int i = 0; i < count; i++) all[1 + i] = parts[i];
  while (got < wanted) {
    ssize_t received = recvmsg(fd, &m, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return -1;
    got += received;
    advance(&m, received);
    if (got >= sizeof head) wanted = sizeof head[0] + (uint32_t)head[0];
  }
  *comp = head[1];
  *reason = head[2];
  return 0;
}

static void exchange(Connection *c, enum verb verb, const struct iovec *out, int outs, const struct iovec *in, int ins,
                     PMQLONG comp, PMQLONG reason) {
  if (!send_frame(c->socket, verb, out, outs) && !receive_frame(c->socket, in, ins, comp, reason)) return;
  close(c->socket);
  c->socket = -1;
  c->broken = 1;
  FAIL(MQRC_CONNECTION_BROKEN);
}

/* --- handles ---------------------------------------------------------------------------------------------------- */

static void release(Connection *c) {
  if (c->socket >= 0) close(c->socket);
  c->socket = -1;
  c->used = 0;
}

static int bound_here(const Connection *c) {
  return c->used && !(c->options & SHARED) && pthread_equal(c->thread, pthread_self());
}

static void on_thread_end(void *unused) {
  (void)unused;
  for (int i = 1; i < MAX_CONNECTIONS; i++)
    if (bound_here(&connections[i])) release(&connections[i]);
}

static void in_forked_child(void) {
  for (int i = 1; i < MAX_CONNECTIONS; i++)
    if (connections[i].used) release(&connections[i]);
}

static void set_up(void) {
  pthread_key_create(&thread_end, on_thread_end);
  pthread_atfork(0, 0, in_forked_child);
}

static Connection *find(MQHCONN handle) {
  return handle > 0 && handle < MAX_CONNECTIONS && connections[handle].used ? &connections[handle] : 0;
}

/* The connection of a handle, for this call only; NULL and a reason when it may not be used now. */
static Connection *enter(MQHCONN handle, PMQLONG comp, PMQLONG reason) {
  Connection *c = find(handle);
  *comp = MQCC_FAILED;
  *reason = MQRC_HCONN_ERROR;
  if (!c || !((c->options & SHARED) || bound_here(c))) return 0;
  if (!(c->options & MQCNO_HANDLE_SHARE_NO_BLOCK)) {
    pthread_mutex_lock(&c->lock);
  } else if (pthread_mutex_trylock(&c->lock)) {
    *reason = MQRC_CALL_IN_PROGRESS;
    return 0;
  }
  if (c->used && !c->broken) return c;
  if (c->used) *reason = MQRC_CONNECTION_BROKEN;
  pthread_mutex_unlock(&c->lock);
  return 0;
}

void call(MQHCONN handle, enum verb verb, const struct iovec *out, int outs, const struct iovec *in, int ins,
          PMQLONG comp, PMQLONG reason) {
  Connection *c = enter(handle, comp, reason);
  if (!c) return;
  exchange(c, verb, out, outs, in, ins, comp, reason);
  pthread_mutex_unlock(&c->lock);
}

/* --- connecting ------------------------------------------------------------------------------------------------- */

static int dial(const char *host, const char *port) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  int fd = -1, on = 1;
  if (getaddrinfo(host, port, &hints, &found)) return -1;
  for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
    fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
      close(fd);
      fd = -1;
    }
  }
  freeaddrinfo(found);
  if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

/* The first of "host(port),host(port)" that answers; 1414 is the port when none is given. */
static int dial_any(char *names) {
  char *rest = 0;
  int fd = -1;
  for (char *host = strtok_r(names, ", ", &rest); host && fd < 0; host = strtok_r(0, ", ", &rest)) {
    char *port = strchr(host, '(');
    if (port) *port++ = 0;
    if (port) port[strcspn(port, ")")] = 0;
    fd = dial(host, port ? port : "1414");
  }
  return fd;
}

typedef struct {
  MQCHAR48 queue_manager;
  MQCHAR20 channel;
  MQCHAR28 application;
  MQCHAR32 cipher;
  int32_t options, process, max_message_length, user_length, password_length, token_length, peer_length, ccsid;
} ConnectRequest;

static void blank_padded(char *to, size_t size, const char *from, size_t length) {
  memset(to, ' ', size);
  if (from) memcpy(to, from, strnlen(from, length < size ? length : size));
}

/* MQSERVER: "channel/transport/connection names" */
static void from_environment(ConnectRequest *request, char *names, size_t size) {
  const char *server = getenv("MQSERVER");
  const char *transport = server ? strchr(server, '/') : 0;
  const char *connection = transport ? strchr(transport + 1, '/') : 0;
  if (!connection) return;
  blank_padded(request->channel, sizeof request->channel, server, transport - server);
  snprintf(names, size, "%s", connection + 1);
}

static void from_channel(ConnectRequest *request, char *names, const MQCD *channel) {
  blank_padded(request->channel, sizeof request->channel, channel->ChannelName, sizeof channel->ChannelName);
  memcpy(names, channel->ConnectionName, sizeof channel->ConnectionName);
  request->max_message_length = channel->MaxMsgLength;
  if (channel->Version >= MQCD_VERSION_7)
    blank_padded(request->cipher, sizeof request->cipher, channel->SSLCipherSpec, sizeof channel->SSLCipherSpec);
}

/* The client's own character set: what MQCCSID says, or else the locale. */
static int32_t client_ccsid(void) {
  const char *said = getenv("MQCCSID"), *codeset = nl_langinfo(CODESET);
  if (said && atoi(said) > 0) return atoi(said);
  return !strncmp(codeset, "ISO-8859-1", 10) ? 819 : 1208;
}

/* A key repository is named with or without the suffix of its file. */
static int key_repository_exists(const PMQSCO security) {
  char path[sizeof(MQCHAR256) + 5] = {0};
  const char *said = getenv("MQSSLKEYR");
  if (security) memcpy(path, security->KeyRepository, sizeof security->KeyRepository);
  for (size_t end = strlen(path); end && path[end - 1] == ' '; end--) path[end - 1] = 0;
  if (!path[0] && said) snprintf(path, sizeof path - 4, "%s", said);
  if (path[0] && !access(path, R_OK)) return 1;
  strcat(path, ".kdb");
  return !access(path, R_OK);
}

static MQHCONN new_handle(int fd, const ConnectRequest *request) {
  MQHCONN handle = 1;
  pthread_mutex_lock(&table_lock);
  while (handle < MAX_CONNECTIONS && connections[handle].used) handle++;
  if (handle < MAX_CONNECTIONS) {
    Connection *c = &connections[handle];
    memset(c, 0, sizeof *c);
    c->used = 1;
    c->socket = fd;
    c->options = request->options;
    c->thread = pthread_self();
    memcpy(c->queue_manager, request->queue_manager, sizeof c->queue_manager);
    pthread_mutex_init(&c->lock, 0);
  }
  pthread_mutex_unlock(&table_lock);
  return handle < MAX_CONNECTIONS ? handle : MQHC_UNUSABLE_HCONN;
}

/* A queue manager may want one unshared handle a thread at most; then the one there is is given out again. */
static MQHCONN handle_of_thread(void) {
  for (MQHCONN handle = 1; handle < MAX_CONNECTIONS; handle++)
    if (bound_here(&connections[handle]) && connections[handle].one_per_thread) return handle;
  return MQHC_UNUSABLE_HCONN;
}

void MQCONNX(const char *name, PMQCNO cno, PMQHCONN handle, PMQLONG comp, PMQLONG reason) {
  ConnectRequest request = {.max_message_length = INT32_MAX, .process = getpid(), .ccsid = client_ccsid()};
  const MQCD *channel = 0;
  char names[sizeof(MQCHAR264) + 1] = {0};
  const MQCSP *security = 0;
  *handle = MQHC_UNUSABLE_HCONN;
  pthread_once(&once, set_up);
  blank_padded(request.queue_manager, sizeof request.queue_manager, name, sizeof request.queue_manager);
  blank_padded(request.channel, sizeof request.channel, 0, 0);
  blank_padded(request.cipher, sizeof request.cipher, 0, 0);
  const char *application = getenv("MQAPPLNAME");
  if (!application || !*application) application = program_invocation_short_name;
  blank_padded(request.application, sizeof request.application, application, sizeof request.application);
  if (cno) {
    if (memcmp(cno->StrucId, "CNO ", sizeof cno->StrucId)) FAIL(MQRC_CNO_ERROR);
    request.options = cno->Options;
    if (cno->Version >= MQCNO_VERSION_2 && cno->ClientConnPtr) {
      channel = cno->ClientConnPtr;
      from_channel(&request, names, channel);
    }
    if (cno->Version >= MQCNO_VERSION_5) security = cno->SecurityParmsPtr;
    if (cno->Version >= MQCNO_VERSION_7 && cno->ApplName[0] > ' ')
      blank_padded(request.application, sizeof request.application, cno->ApplName, sizeof cno->ApplName);
  }
  if (security && security->AuthenticationType == MQCSP_AUTH_USER_ID_AND_PWD) {
    request.user_length = security->CSPUserIdPtr ? security->CSPUserIdLength : 0;
    request.password_length = security->CSPPasswordPtr ? security->CSPPasswordLength : 0;
  }
  if (security && security->Version >= MQCSP_VERSION_3 && security->AuthenticationType == MQCSP_AUTH_ID_TOKEN)
    request.token_length = security->TokenPtr ? security->TokenLength : 0;
  if (channel && channel->Version >= MQCD_VERSION_7 && channel->SSLPeerNamePtr)
    request.peer_length = channel->SSLPeerNameLength;
  if (request.cipher[0] > ' ' && !key_repository_exists(cno && cno->Version >= MQCNO_VERSION_4 ? cno->SSLConfigPtr : 0))
    FAIL(MQRC_KEY_REPOSITORY_ERROR);
  MQHCONN mine = request.options & SHARED ? MQHC_UNUSABLE_HCONN : handle_of_thread();
  if (mine != MQHC_UNUSABLE_HCONN) {
    if (memcmp(connections[mine].queue_manager, request.queue_manager, sizeof request.queue_manager))
      FAIL(MQRC_ANOTHER_Q_MGR_CONNECTED);
    *handle = mine;
    *comp = MQCC_WARNING;
    *reason = MQRC_ALREADY_CONNECTED;
    return;
  }
  if (!names[0]) from_environment(&request, names, sizeof names);
  if (!names[0]) FAIL(MQRC_Q_MGR_NOT_AVAILABLE);
  int fd = dial_any(names);
  if (fd < 0) FAIL(MQRC_HOST_NOT_AVAILABLE);
  MQHCONN new = new_handle(fd, &request);
  if (new == MQHC_UNUSABLE_HCONN) {
    close(fd);
    FAIL(MQRC_MAX_CONNS_LIMIT_REACHED);
  }
  Connection *c = &connections[new];
  struct iovec out[] = {PART(&request, sizeof request),
                        PART(security ? security->CSPUserIdPtr : 0, request.user_length),
                        PART(security ? security->CSPPasswordPtr : 0, request.password_length),
                        PART(request.token_length ? security->TokenPtr : 0, request.token_length),
                        PART(request.peer_length ? channel->SSLPeerNamePtr : 0, request.peer_length)};
  struct iovec in[] = {PART(&c->one_per_thread, sizeof(int32_t))};
  exchange(c, CONN, out, 5, in, 1, comp, reason);
  if (*comp == MQCC_FAILED) {
    if (*reason == MQRC_CONNECTION_BROKEN) *reason = MQRC_Q_MGR_NOT_AVAILABLE;
    release(c);
    return;
  }
  pthread_setspecific(thread_end, c);
  *handle = new;
}

void MQCONN(const char *name, PMQHCONN handle, PMQLONG comp, PMQLONG reason) { MQCONNX(name, 0, handle, comp, reason); }

void MQDISC(PMQHCONN handle, PMQLONG comp, PMQLONG reason) {
  Connection *c = enter(*handle, comp, reason);
  if (c) {
    exchange(c, DISC, 0, 0, 0, 0, comp, reason);
    release(c);
    pthread_mutex_unlock(&c->lock);
  } else if (*reason == MQRC_CONNECTION_BROKEN) {
    release(&connections[*handle]);
  } else {
    return;
  }
  *handle = MQHC_UNUSABLE_HCONN;
}

/* --- objects and messages --------------------------------------------------------------------------------------- */

int has_id(const void *structure, const char *id) { return structure && !memcmp(structure, id, 4); }

static size_t length_of(const void *structure, const size_t *lengths, int versions) {
  MQLONG version = ((const MQMD *)structure)->Version; /* the second word of every structure */
  return lengths[version < 1 ? 0 : version > versions ? versions - 1 : version - 1];
}

size_t md_length(const void *md) { return length_of(md, (const size_t[]){324, 364}, 2); }
static size_t od_length(const void *od) { return length_of(od, (const size_t[]){168, 208, 344, 424}, 4); }
static size_t gmo_length(const void *gmo) { return length_of(gmo, (const size_t[]){72, 80, 100, 112}, 4); }
static size_t pmo_length(const void *pmo) { return length_of(pmo, (const size_t[]){128, 160, 184}, 3); }

void MQOPEN(MQHCONN handle, PMQVOID od, MQLONG options, PMQHOBJ object, PMQLONG comp, PMQLONG reason) {
  if (!has_id(od, "OD  ")) FAIL(MQRC_OD_ERROR);
  MQHOBJ opened = MQHO_UNUSABLE_HOBJ;
  struct iovec out[] = {PART(&options, sizeof options), PART(od, od_length(od))};
  struct iovec in[] = {PART(&opened, sizeof opened), PART(od, od_length(od))};
  call(handle, OPEN, out, 2, in, 2, comp, reason);
  *object = *comp == MQCC_FAILED ? MQHO_UNUSABLE_HOBJ : opened;
}

void MQCLOSE(MQHCONN handle, PMQHOBJ object, MQLONG options, PMQLONG comp, PMQLONG reason) {
  int32_t fixed[] = {*object, options};
  struct iovec out[] = {PART(fixed, sizeof fixed)};
  call(handle, CLOSE, out, 1, 0, 0, comp, reason);
  if (*comp != MQCC_FAILED) *object = MQHO_UNUSABLE_HOBJ;
}

static void put(MQHCONN handle, enum verb verb, MQHOBJ object, PMQVOID od, PMQVOID md, PMQVOID pmo, MQLONG length,
                PMQVOID buffer, PMQLONG comp, PMQLONG reason) {
  if (!has_id(md, "MD  ")) FAIL(MQRC_MD_ERROR);
  if (!has_id(pmo, "PMO ")) FAIL(MQRC_PMO_ERROR);
  size_t ods = od ? od_length(od) : 0, mds = md_length(md), pmos = pmo_length(pmo);
  int32_t fixed[] = {object, ods, mds, pmos};
  struct iovec out[] = {PART(fixed, sizeof fixed), PART(od, ods), PART(md, mds), PART(pmo, pmos),
                        PART(buffer, length > 0 ? length : 0)};
  struct iovec in[] = {PART(od, ods), PART(md, mds), PART(pmo, pmos)};
  call(handle, verb, out, 5, in, 3, comp, reason);
}

void MQPUT(MQHCONN handle, MQHOBJ object, PMQVOID md, PMQVOID pmo, MQLONG length, PMQVOID buffer, PMQLONG comp,
           PMQLONG reason) {
  put(handle, PUT, object, 0, md, pmo, length, buffer, comp, reason);
}

void MQPUT1(MQHCONN handle, PMQVOID od, PMQVOID md, PMQVOID pmo, MQLONG length, PMQVOID buffer, PMQLONG comp,
            PMQLONG reason) {
  if (!has_id(od, "OD  ")) FAIL(MQRC_OD_ERROR);
  put(handle, PUT1, MQHO_NONE, od, md, pmo, length, buffer, comp, reason);
}

void MQGET(MQHCONN handle, MQHOBJ object, PMQVOID md, PMQVOID gmo, MQLONG length, PMQVOID buffer, PMQLONG data_length,
           PMQLONG comp, PMQLONG reason) {
  if (!has_id(md, "MD  ")) FAIL(MQRC_MD_ERROR);
  if (!has_id(gmo, "GMO ")) FAIL(MQRC_GMO_ERROR);
  size_t mds = md_length(md), gmos = gmo_length(gmo);
  int32_t fixed[] = {object, length, mds, gmos};
  struct iovec out[] = {PART(fixed, sizeof fixed), PART(md, mds), PART(gmo, gmos)};
  struct iovec in[] = {PART(data_length, sizeof *data_length), PART(md, mds), PART(gmo, gmos), PART(buffer, length)};
  *data_length = 0;
  call(handle, GET, out, 3, in, length > 0 ? 4 : 3, comp, reason);
}

void MQCMIT(MQHCONN handle, PMQLONG comp, PMQLONG reason) { call(handle, CMIT, 0, 0, 0, 0, comp, reason); }
void MQBACK(MQHCONN handle, PMQLONG comp, PMQLONG reason) { call(handle, BACK, 0, 0, 0, 0, comp, reason); }

void MQBEGIN(MQHCONN handle, PMQVOID options, PMQLONG comp, PMQLONG reason) {
  (void)options;
  call(handle, BEGIN, 0, 0, 0, 0, comp, reason);
}

static size_t longs(MQLONG count) { return count > 0 ? count * sizeof(MQLONG) : 0; }

void MQINQ(MQHCONN handle, MQHOBJ object, MQLONG count, PMQLONG selectors, MQLONG numbers, PMQLONG number,
           MQLONG length, PMQCHAR characters, PMQLONG comp, PMQLONG reason) {
  int32_t fixed[] = {object, count, numbers, length};
  struct iovec out[] = {PART(fixed, sizeof fixed), PART(selectors, longs(count))};
  struct iovec in[] = {PART(number, longs(numbers)), PART(characters, length > 0 ? length : 0)};
  call(handle, INQ, out, 2, in, 2, comp, reason);
}

void MQSET(MQHCONN handle, MQHOBJ object, MQLONG count, PMQLONG selectors, MQLONG numbers, PMQLONG number,
           MQLONG length, PMQCHAR characters, PMQLONG comp, PMQLONG reason) {
  int32_t fixed[] = {object, count, numbers, length};
  struct iovec out[] = {PART(fixed, sizeof fixed), PART(selectors, longs(count)),
                        PART(number, longs(numbers)), PART(characters, length > 0 ? length : 0)};
  call(handle, SET, out, 4, 0, 0, comp, reason);
}

/* --- what this library does not offer: publish and subscribe, callbacks, bags ------------------------------------- */

#define REFUSED(name, ...) \
  void name(__VA_ARGS__, PMQLONG comp, PMQLONG reason) { FAIL(MQRC_FUNCTION_NOT_SUPPORTED); }

#pragma GCC diagnostic ignored "-Wunused-parameter"
REFUSED(MQSUB, MQHCONN c, PMQVOID sd, PMQHOBJ object, PMQHOBJ sub)
REFUSED(MQSUBRQ, MQHCONN c, MQHOBJ sub, MQLONG action, PMQVOID options)
REFUSED(MQSTAT, MQHCONN c, MQLONG type, PMQVOID status)
REFUSED(MQCB, MQHCONN c, MQLONG operation, PMQVOID cbd, MQHOBJ object, PMQVOID md, PMQVOID gmo)
REFUSED(MQCTL, MQHCONN c, MQLONG operation, PMQVOID options)
REFUSED(mqCreateBag, MQLONG options, PMQHBAG bag)
REFUSED(mqDeleteBag, PMQHBAG bag)
REFUSED(mqAddInquiry, MQHBAG bag, MQLONG selector)
REFUSED(mqAddInteger, MQHBAG bag, MQLONG selector, MQLONG value)
REFUSED(mqAddIntegerFilter, MQHBAG bag, MQLONG selector, MQLONG value, MQLONG operation)
REFUSED(mqAddString, MQHBAG bag, MQLONG selector, MQLONG length, PMQCHAR value)
REFUSED(mqAddStringFilter, MQHBAG bag, MQLONG selector, MQLONG length, PMQCHAR value, MQLONG operation)
REFUSED(mqAddByteString, MQHBAG bag, MQLONG selector, MQLONG length, PMQBYTE value)
REFUSED(mqExecute, MQHCONN c, MQLONG command, MQHBAG options, MQHBAG admin, MQHBAG response, MQHOBJ to, MQHOBJ from)
REFUSED(mqCountItems, MQHBAG bag, MQLONG selector, PMQLONG count)
REFUSED(mqInquireItemInfo, MQHBAG bag, MQLONG selector, MQLONG index, PMQLONG out, PMQLONG type)
REFUSED(mqInquireBag, MQHBAG bag, MQLONG selector, MQLONG index, PMQHBAG value)
REFUSED(mqInquireInteger, MQHBAG bag, MQLONG selector, MQLONG index, PMQLONG value)
REFUSED(mqInquireString, MQHBAG bag, MQLONG selector, MQLONG index, MQLONG size, PMQCHAR value, PMQLONG length,
        PMQLONG ccsid)
REFUSED(mqInquireByteString, MQHBAG bag, MQLONG selector, MQLONG index, MQLONG size, PMQBYTE value, PMQLONG length)
