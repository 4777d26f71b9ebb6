/* MQCD, the channel definition with which a client names the queue manager it wants. */
#ifndef TEST_CMQXC_H
#define TEST_CMQXC_H
#include "cmqc.h"

typedef struct tagMQCD {
  MQCHAR20 ChannelName;
  MQLONG Version, ChannelType, TransportType;
  MQCHAR64 Desc;
  MQCHAR48 QMgrName, XmitQName;
  MQCHAR20 ShortConnectionName, MCAName;
  MQCHAR8 ModeName;
  MQCHAR64 TpName;
  MQLONG BatchSize, DiscInterval, ShortRetryCount, ShortRetryInterval, LongRetryCount, LongRetryInterval;
  MQCHAR128 SecurityExit, MsgExit, SendExit, ReceiveExit;
  MQLONG SeqNumberWrap, MaxMsgLength, PutAuthority, DataConversion;
  MQCHAR32 SecurityUserData, MsgUserData, SendUserData, ReceiveUserData;
  /* version 2 */
  MQCHAR12 UserIdentifier, Password, MCAUserIdentifier;
  MQLONG MCAType;
  MQCHAR264 ConnectionName;
  MQCHAR12 RemoteUserIdentifier, RemotePassword;
  /* version 3 */
  MQCHAR128 MsgRetryExit;
  MQCHAR32 MsgRetryUserData;
  MQLONG MsgRetryCount, MsgRetryInterval;
  /* version 4 */
  MQLONG HeartbeatInterval, BatchInterval, NonPersistentMsgSpeed, StrucLength, ExitNameLength, ExitDataLength,
      MsgExitsDefined, SendExitsDefined, ReceiveExitsDefined;
  MQPTR MsgExitPtr, MsgUserDataPtr, SendExitPtr, SendUserDataPtr, ReceiveExitPtr, ReceiveUserDataPtr;
  /* version 5 */
  MQPTR ClusterPtr;
  MQLONG ClustersDefined, NetworkPriority;
  /* version 6 */
  MQLONG LongMCAUserIdLength, LongRemoteUserIdLength;
  MQPTR LongMCAUserIdPtr, LongRemoteUserIdPtr;
  MQBYTE40 MCASecurityId, RemoteSecurityId;
  /* version 7 */
  MQCHAR32 SSLCipherSpec;
  MQPTR SSLPeerNamePtr;
  MQLONG SSLPeerNameLength, SSLClientAuth, KeepAliveInterval;
  MQCHAR48 LocalAddress;
  MQLONG BatchHeartbeat;
  /* version 8 */
  MQLONG HdrCompList[2], MsgCompList[16], CLWLChannelRank, CLWLChannelPriority, CLWLChannelWeight, ChannelMonitoring,
      ChannelStatistics;
  /* version 9 */
  MQLONG SharingConversations, PropertyControl, MaxInstances, MaxInstancesPerClient, ClientChannelWeight,
      ConnectionAffinity;
  /* version 10 */
  MQLONG BatchDataLimit, UseDLQ, DefReconnect;
  /* version 11 */
  MQCHAR64 CertificateLabel;
  /* version 12 */
  MQLONG SPLProtection;
} MQCD, *PMQCD;

#define MQCD_CURRENT_LENGTH ((int)sizeof(MQCD))
#endif
