/* The bag calls of the administration interface. pymqi links them; the tests' client library refuses them. */
#ifndef TEST_CMQBC_H
#define TEST_CMQBC_H
#include "cmqc.h"

typedef MQLONG MQHBAG, *PMQHBAG;

enum { MQHB_UNUSABLE_HBAG = -1, MQHB_NONE = -2, MQCBO_ADMIN_BAG = 1, MQHA_BAG_HANDLE = 4001 };
enum { MQSEL_ANY_USER_SELECTOR = -30002, MQSEL_ALL_USER_SELECTORS = -30005, MQIND_NONE = -1 };
enum { MQIASY_COMP_CODE = -8, MQIASY_REASON = -9, MQBL_NULL_TERMINATED = -1 };
enum { MQIT_INTEGER = 1, MQIT_STRING = 2, MQIT_BAG = 3, MQITEM_BYTE_STRING = 8 };

void mqCreateBag(MQLONG Options, PMQHBAG, PMQLONG CompCode, PMQLONG Reason);
void mqDeleteBag(PMQHBAG, PMQLONG CompCode, PMQLONG Reason);
void mqAddInquiry(MQHBAG, MQLONG Selector, PMQLONG CompCode, PMQLONG Reason);
void mqAddInteger(MQHBAG, MQLONG Selector, MQLONG Value, PMQLONG CompCode, PMQLONG Reason);
void mqAddIntegerFilter(MQHBAG, MQLONG Selector, MQLONG Value, MQLONG Operator, PMQLONG CompCode, PMQLONG Reason);
void mqAddString(MQHBAG, MQLONG Selector, MQLONG Length, PMQCHAR Value, PMQLONG CompCode, PMQLONG Reason);
void mqAddStringFilter(MQHBAG, MQLONG Selector, MQLONG Length, PMQCHAR Value, MQLONG Operator, PMQLONG CompCode,
                       PMQLONG Reason);
void mqAddByteString(MQHBAG, MQLONG Selector, MQLONG Length, PMQBYTE Value, PMQLONG CompCode, PMQLONG Reason);
void mqExecute(MQHCONN, MQLONG Command, MQHBAG Options, MQHBAG Admin, MQHBAG Response, MQHOBJ AdminQ,
               MQHOBJ ResponseQ, PMQLONG CompCode, PMQLONG Reason);
void mqCountItems(MQHBAG, MQLONG Selector, PMQLONG Count, PMQLONG CompCode, PMQLONG Reason);
void mqInquireItemInfo(MQHBAG, MQLONG Selector, MQLONG Index, PMQLONG OutSelector, PMQLONG Type, PMQLONG CompCode,
                       PMQLONG Reason);
void mqInquireBag(MQHBAG, MQLONG Selector, MQLONG Index, PMQHBAG Value, PMQLONG CompCode, PMQLONG Reason);
void mqInquireInteger(MQHBAG, MQLONG Selector, MQLONG Index, PMQLONG Value, PMQLONG CompCode, PMQLONG Reason);
void mqInquireString(MQHBAG, MQLONG Selector, MQLONG Index, MQLONG Length, PMQCHAR Value, PMQLONG StringLength,
                     PMQLONG CodedCharSetId, PMQLONG CompCode, PMQLONG Reason);
void mqInquireByteString(MQHBAG, MQLONG Selector, MQLONG Index, MQLONG Length, PMQBYTE Value, PMQLONG StringLength,
                         PMQLONG CompCode, PMQLONG Reason);
#endif
