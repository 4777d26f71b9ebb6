/* Declarations of the message queue interface, for the tests' own client library (mqi.c) and for building pymqi on it.
 *
 * Only what these two compile against. Structures follow the "C declaration" of their pages in IBM MQ's public
 * developer reference; `tests/queue_manager/test_layouts.py` checks every size against the constants of pymqi and of
 * ibmmq. Values of constants are those of the reference.
 */
#ifndef TEST_CMQC_H
#define TEST_CMQC_H
#include <stdint.h>

#define MQENTRY
#define MQPOINTER *

typedef int8_t MQINT8, *PMQINT8;
typedef int16_t MQINT16, *PMQINT16;
typedef int32_t MQINT32, *PMQINT32;
typedef int64_t MQINT64, *PMQINT64;
typedef float MQFLOAT32, *PMQFLOAT32;
typedef double MQFLOAT64, *PMQFLOAT64;
typedef int32_t MQLONG, *PMQLONG;
typedef MQLONG MQBOOL, *PMQBOOL;
typedef char MQCHAR, *PMQCHAR;
typedef unsigned char MQBYTE, *PMQBYTE;
typedef void *MQPTR, *PMQVOID;
typedef MQLONG MQHCONN, *PMQHCONN;
typedef MQLONG MQHOBJ, *PMQHOBJ;
typedef MQINT64 MQHMSG, *PMQHMSG;

typedef MQCHAR MQCHAR4[4], MQCHAR8[8], MQCHAR12[12], MQCHAR20[20], MQCHAR28[28], MQCHAR32[32], MQCHAR48[48],
    MQCHAR64[64], MQCHAR128[128], MQCHAR256[256], MQCHAR264[264];
typedef MQBYTE MQBYTE4[4], MQBYTE8[8], MQBYTE16[16], MQBYTE24[24], MQBYTE32[32], MQBYTE40[40], MQBYTE128[128];

/* The command levels that pymqi asks for; they decide which versions of the structures it is built with. */
#define MQCMDL_LEVEL_500 500
#define MQCMDL_LEVEL_510 510
#define MQCMDL_LEVEL_520 520
#define MQCMDL_LEVEL_530 530
#define MQCMDL_LEVEL_600 600
#define MQCMDL_LEVEL_700 700
#define MQCMDL_LEVEL_710 710
#define MQCMDL_LEVEL_750 750
#define MQCMDL_LEVEL_800 800

enum { MQCC_OK = 0, MQCC_WARNING = 1, MQCC_FAILED = 2, MQCC_UNKNOWN = -1 };

enum {
  MQRC_NONE = 0,
  MQRC_ALREADY_CONNECTED = 2002,
  MQRC_CONNECTION_BROKEN = 2009,
  MQRC_HCONN_ERROR = 2018,
  MQRC_MAX_CONNS_LIMIT_REACHED = 2025,
  MQRC_MD_ERROR = 2026,
  MQRC_OD_ERROR = 2044,
  MQRC_Q_MGR_NOT_AVAILABLE = 2059,
  MQRC_STORAGE_NOT_AVAILABLE = 2071,
  MQRC_ANOTHER_Q_MGR_CONNECTED = 2103,
  MQRC_CNO_ERROR = 2139,
  MQRC_PMO_ERROR = 2173,
  MQRC_GMO_ERROR = 2186,
  MQRC_CALL_IN_PROGRESS = 2219,
  MQRC_CD_ERROR = 2277,
  MQRC_FUNCTION_NOT_SUPPORTED = 2298,
  MQRC_KEY_REPOSITORY_ERROR = 2381,
  MQRC_STRING_TRUNCATED = 2311,
  MQRC_CMHO_ERROR = 2461,
  MQRC_DMHO_ERROR = 2462,
  MQRC_SMPO_ERROR = 2463,
  MQRC_IMPO_ERROR = 2464,
  MQRC_DMPO_ERROR = 2481,
  MQRC_PD_ERROR = 2482,
  MQRC_BMHO_ERROR = 2489,
  MQRC_MHBO_ERROR = 2501,
  MQRC_HOST_NOT_AVAILABLE = 2538,
  MQRCCF_COMMAND_FAILED = 3008
};

enum { MQHC_DEF_HCONN = 0, MQHC_UNUSABLE_HCONN = -1, MQHO_NONE = 0, MQHO_UNUSABLE_HOBJ = -1 };
#define MQHM_NONE 0LL
#define MQHM_UNUSABLE_HMSG (-1LL)

enum {
  MQCNO_NONE = 0,
  MQCNO_HANDLE_SHARE_NONE = 32,
  MQCNO_HANDLE_SHARE_BLOCK = 64,
  MQCNO_HANDLE_SHARE_NO_BLOCK = 128,
  MQCNO_VERSION_2 = 2,
  MQCNO_VERSION_4 = 4,
  MQCNO_VERSION_5 = 5,
  MQCNO_VERSION_7 = 7,
  MQCD_VERSION_7 = 7,
  MQCSP_AUTH_USER_ID_AND_PWD = 1,
  MQCSP_AUTH_ID_TOKEN = 2,
  MQCSP_VERSION_3 = 3
};

enum { MQIA_FIRST = 1, MQIA_LAST = 2000, MQENC_NATIVE = 546, MQCCSI_APPL = -3, MQVS_NULL_TERMINATED = -1 };
enum { MQVL_NULL_TERMINATED = -1 };
enum { MQIMPO_INQ_FIRST = 0, MQPD_SUPPORT_OPTIONAL = 1, MQCOPY_DEFAULT = 22 };
enum {
  MQTYPE_NULL = 2,
  MQTYPE_BOOLEAN = 4,
  MQTYPE_BYTE_STRING = 8,
  MQTYPE_INT8 = 16,
  MQTYPE_INT16 = 32,
  MQTYPE_INT32 = 64,
  MQTYPE_INT64 = 128,
  MQTYPE_FLOAT32 = 256,
  MQTYPE_FLOAT64 = 512,
  MQTYPE_STRING = 1024
};

typedef struct tagMQCHARV {
  MQPTR VSPtr;
  MQLONG VSOffset, VSBufSize, VSLength, VSCCSID;
} MQCHARV, *PMQCHARV;

typedef struct tagMQMD {
  MQCHAR4 StrucId;
  MQLONG Version, Report, MsgType, Expiry, Feedback, Encoding, CodedCharSetId;
  MQCHAR8 Format;
  MQLONG Priority, Persistence;
  MQBYTE24 MsgId, CorrelId;
  MQLONG BackoutCount;
  MQCHAR48 ReplyToQ, ReplyToQMgr;
  MQCHAR12 UserIdentifier;
  MQBYTE32 AccountingToken;
  MQCHAR32 ApplIdentityData;
  MQLONG PutApplType;
  MQCHAR28 PutApplName;
  MQCHAR8 PutDate, PutTime;
  MQCHAR4 ApplOriginData;
  /* version 2 */
  MQBYTE24 GroupId;
  MQLONG MsgSeqNumber, Offset, MsgFlags, OriginalLength;
} MQMD, *PMQMD;

typedef struct tagMQGMO {
  MQCHAR4 StrucId;
  MQLONG Version, Options, WaitInterval, Signal1, Signal2;
  MQCHAR48 ResolvedQName;
  /* version 2 */
  MQLONG MatchOptions;
  MQCHAR GroupStatus, SegmentStatus, Segmentation, Reserved1;
  /* version 3 */
  MQBYTE16 MsgToken;
  MQLONG ReturnedLength;
  /* version 4 */
  MQLONG Reserved2;
  MQHMSG MsgHandle;
} MQGMO, *PMQGMO;

typedef struct tagMQPMO {
  MQCHAR4 StrucId;
  MQLONG Version, Options, Timeout;
  MQHOBJ Context;
  MQLONG KnownDestCount, UnknownDestCount, InvalidDestCount;
  MQCHAR48 ResolvedQName, ResolvedQMgrName;
  /* version 2 */
  MQLONG RecsPresent, PutMsgRecFields, PutMsgRecOffset, ResponseRecOffset;
  MQPTR PutMsgRecPtr, ResponseRecPtr;
  /* version 3 */
  MQHMSG OriginalMsgHandle, NewMsgHandle;
  MQLONG Action, PubLevel;
} MQPMO, *PMQPMO;

typedef struct tagMQOD {
  MQCHAR4 StrucId;
  MQLONG Version, ObjectType;
  MQCHAR48 ObjectName, ObjectQMgrName, DynamicQName;
  MQCHAR12 AlternateUserId;
  /* version 2 */
  MQLONG RecsPresent, KnownDestCount, UnknownDestCount, InvalidDestCount, ObjectRecOffset, ResponseRecOffset;
  MQPTR ObjectRecPtr, ResponseRecPtr;
  /* version 3 */
  MQBYTE40 AlternateSecurityId;
  MQCHAR48 ResolvedQName, ResolvedQMgrName;
  /* version 4 */
  MQCHARV ObjectString, SelectionString, ResObjectString;
  MQLONG ResolvedType;
} MQOD, *PMQOD;

typedef struct tagMQCSP {
  MQCHAR4 StrucId;
  MQLONG Version, AuthenticationType;
  MQBYTE4 Reserved1;
  MQPTR CSPUserIdPtr;
  MQLONG CSPUserIdOffset, CSPUserIdLength;
  MQBYTE8 Reserved2;
  MQPTR CSPPasswordPtr;
  MQLONG CSPPasswordOffset, CSPPasswordLength;
  /* version 2 */
  MQBYTE8 Reserved3;
  MQPTR InitialKeyPtr;
  MQLONG InitialKeyOffset, InitialKeyLength;
  /* version 3 */
  MQBYTE8 Reserved4;
  MQPTR TokenPtr;
  MQLONG TokenOffset, TokenLength;
} MQCSP, *PMQCSP;

typedef struct tagMQSCO {
  MQCHAR4 StrucId;
  MQLONG Version;
  MQCHAR256 KeyRepository, CryptoHardware;
  MQLONG AuthInfoRecCount, AuthInfoRecOffset;
  MQPTR AuthInfoRecPtr;
  /* version 2 */
  MQLONG KeyResetCount, FipsRequired;
  /* version 3 */
  MQLONG EncryptionPolicySuiteB[4];
  /* version 4 */
  MQLONG CertificateValPolicy;
  /* version 5 */
  MQCHAR64 CertificateLabel;
} MQSCO, *PMQSCO;

typedef struct tagMQCNO {
  MQCHAR4 StrucId;
  MQLONG Version, Options;
  /* version 2 */
  MQLONG ClientConnOffset;
  MQPTR ClientConnPtr;
  /* version 3 */
  MQBYTE128 ConnTag;
  /* version 4 */
  PMQSCO SSLConfigPtr;
  MQLONG SSLConfigOffset;
  /* version 5 */
  MQBYTE24 ConnectionId;
  MQLONG SecurityParmsOffset;
  PMQCSP SecurityParmsPtr;
  /* version 6 */
  PMQCHAR CCDTUrlPtr;
  MQLONG CCDTUrlOffset, CCDTUrlLength;
  MQBYTE8 Reserved;
  /* version 7 */
  MQCHAR28 ApplName;
  MQBYTE4 Reserved2;
} MQCNO, *PMQCNO;

typedef struct tagMQBO {
  MQCHAR4 StrucId;
  MQLONG Version, Options;
} MQBO, *PMQBO;

typedef struct tagMQSD {
  MQCHAR4 StrucId;
  MQLONG Version, Options;
  MQCHAR48 ObjectName;
  MQCHAR12 AlternateUserId;
  MQBYTE40 AlternateSecurityId;
  MQLONG SubExpiry;
  MQCHARV ObjectString, SubName, SubUserData;
  MQBYTE24 SubCorrelId;
  MQLONG PubPriority;
  MQBYTE32 PubAccountingToken;
  MQCHAR32 PubApplIdentityData;
  MQCHARV SelectionString;
  MQLONG SubLevel;
  MQCHARV ResObjectString;
} MQSD, *PMQSD;

typedef struct tagMQSRO {
  MQCHAR4 StrucId;
  MQLONG Version, Options, NumPubs;
} MQSRO, *PMQSRO;

typedef struct tagMQCMHO {
  MQCHAR4 StrucId;
  MQLONG Version, Options;
} MQCMHO, *PMQCMHO;

typedef struct tagMQDMHO {
  MQCHAR4 StrucId;
  MQLONG Version, Options;
} MQDMHO, *PMQDMHO;

typedef struct tagMQDMPO {
  MQCHAR4 StrucId;
  MQLONG Version, Options;
} MQDMPO, *PMQDMPO;

typedef struct tagMQBMHO {
  MQCHAR4 StrucId;
  MQLONG Version, Options;
} MQBMHO, *PMQBMHO;

typedef struct tagMQMHBO {
  MQCHAR4 StrucId;
  MQLONG Version, Options;
} MQMHBO, *PMQMHBO;

typedef struct tagMQSMPO {
  MQCHAR4 StrucId;
  MQLONG Version, Options, ValueEncoding, ValueCCSID;
} MQSMPO, *PMQSMPO;

typedef struct tagMQPD {
  MQCHAR4 StrucId;
  MQLONG Version, Options, Support, Context, CopyOptions;
} MQPD, *PMQPD;

typedef struct tagMQIMPO {
  MQCHAR4 StrucId;
  MQLONG Version, Options, RequestedEncoding, RequestedCCSID, ReturnedEncoding, ReturnedCCSID, Reserved1;
  MQCHARV ReturnedName;
  MQCHAR8 TypeString;
} MQIMPO, *PMQIMPO;

#define MQOD_CURRENT_LENGTH ((int)sizeof(MQOD))
#define MQPMO_CURRENT_LENGTH ((int)sizeof(MQPMO))

#define MQCHARV_DEFAULT (MQPTR)0, 0, 0, 0, MQCCSI_APPL
#define MQBO_DEFAULT {'B', 'O', ' ', ' '}, 1, 0
#define MQCNO_DEFAULT {'C', 'N', 'O', ' '}, 1, MQCNO_NONE
#define MQCSP_DEFAULT {'C', 'S', 'P', ' '}, 1, 0
#define MQPD_DEFAULT {'P', 'D', ' ', ' '}, 1, 0, MQPD_SUPPORT_OPTIONAL, 0, MQCOPY_DEFAULT
#define MQIMPO_DEFAULT \
  {'I', 'M', 'P', 'O'}, 1, MQIMPO_INQ_FIRST, MQENC_NATIVE, MQCCSI_APPL, MQENC_NATIVE, 0, 0, {MQCHARV_DEFAULT}, {' '}

void MQCONN(const char *QMgrName, PMQHCONN, PMQLONG CompCode, PMQLONG Reason);
void MQCONNX(const char *QMgrName, PMQCNO, PMQHCONN, PMQLONG CompCode, PMQLONG Reason);
void MQDISC(PMQHCONN, PMQLONG CompCode, PMQLONG Reason);
void MQOPEN(MQHCONN, PMQVOID ObjDesc, MQLONG Options, PMQHOBJ, PMQLONG CompCode, PMQLONG Reason);
void MQCLOSE(MQHCONN, PMQHOBJ, MQLONG Options, PMQLONG CompCode, PMQLONG Reason);
void MQPUT(MQHCONN, MQHOBJ, PMQVOID MsgDesc, PMQVOID PutMsgOpts, MQLONG BufferLength, PMQVOID Buffer, PMQLONG CompCode,
           PMQLONG Reason);
void MQPUT1(MQHCONN, PMQVOID ObjDesc, PMQVOID MsgDesc, PMQVOID PutMsgOpts, MQLONG BufferLength, PMQVOID Buffer,
            PMQLONG CompCode, PMQLONG Reason);
void MQGET(MQHCONN, MQHOBJ, PMQVOID MsgDesc, PMQVOID GetMsgOpts, MQLONG BufferLength, PMQVOID Buffer,
           PMQLONG DataLength, PMQLONG CompCode, PMQLONG Reason);
void MQBEGIN(MQHCONN, PMQVOID BeginOptions, PMQLONG CompCode, PMQLONG Reason);
void MQCMIT(MQHCONN, PMQLONG CompCode, PMQLONG Reason);
void MQBACK(MQHCONN, PMQLONG CompCode, PMQLONG Reason);
void MQINQ(MQHCONN, MQHOBJ, MQLONG SelectorCount, PMQLONG Selectors, MQLONG IntAttrCount, PMQLONG IntAttrs,
           MQLONG CharAttrLength, PMQCHAR CharAttrs, PMQLONG CompCode, PMQLONG Reason);
void MQSET(MQHCONN, MQHOBJ, MQLONG SelectorCount, PMQLONG Selectors, MQLONG IntAttrCount, PMQLONG IntAttrs,
           MQLONG CharAttrLength, PMQCHAR CharAttrs, PMQLONG CompCode, PMQLONG Reason);
void MQSUB(MQHCONN, PMQVOID SubDesc, PMQHOBJ, PMQHOBJ Hsub, PMQLONG CompCode, PMQLONG Reason);
void MQSUBRQ(MQHCONN, MQHOBJ Hsub, MQLONG Action, PMQVOID SubRqOpts, PMQLONG CompCode, PMQLONG Reason);
void MQSTAT(MQHCONN, MQLONG Type, PMQVOID Status, PMQLONG CompCode, PMQLONG Reason);
void MQCB(MQHCONN, MQLONG Operation, PMQVOID CallbackDesc, MQHOBJ, PMQVOID MsgDesc, PMQVOID GetMsgOpts,
          PMQLONG CompCode, PMQLONG Reason);
void MQCTL(MQHCONN, MQLONG Operation, PMQVOID ControlOpts, PMQLONG CompCode, PMQLONG Reason);
void MQCRTMH(MQHCONN, PMQVOID CrtMsgHOpts, PMQHMSG, PMQLONG CompCode, PMQLONG Reason);
void MQDLTMH(MQHCONN, PMQHMSG, PMQVOID DltMsgHOpts, PMQLONG CompCode, PMQLONG Reason);
void MQSETMP(MQHCONN, MQHMSG, PMQVOID SetPropOpts, PMQVOID Name, PMQVOID PropDesc, MQLONG Type, MQLONG ValueLength,
             PMQVOID Value, PMQLONG CompCode, PMQLONG Reason);
void MQINQMP(MQHCONN, MQHMSG, PMQVOID InqPropOpts, PMQVOID Name, PMQVOID PropDesc, PMQLONG Type, MQLONG ValueLength,
             PMQVOID Value, PMQLONG DataLength, PMQLONG CompCode, PMQLONG Reason);
void MQDLTMP(MQHCONN, MQHMSG, PMQVOID DltPropOpts, PMQVOID Name, PMQLONG CompCode, PMQLONG Reason);
void MQBUFMH(MQHCONN, MQHMSG, PMQVOID BufMsgHOpts, PMQVOID MsgDesc, MQLONG BufferLength, PMQVOID Buffer,
             PMQLONG DataLength, PMQLONG CompCode, PMQLONG Reason);
void MQMHBUF(MQHCONN, MQHMSG, PMQVOID MsgHBufOpts, PMQVOID Name, PMQVOID MsgDesc, MQLONG BufferLength, PMQVOID Buffer,
             PMQLONG DataLength, PMQLONG CompCode, PMQLONG Reason);
#endif
