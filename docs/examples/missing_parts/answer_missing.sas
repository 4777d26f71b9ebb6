/* Answer requests for missing parts of attachments that SAS has sent over IBM MQ: send those parts alone again.

   qmgr      queue manager
   requests  queue that the sent messages name as their reply-to queue
   copies    queue with a copy of every sent message: DEFINE QLOCAL(SENT) STREAMQ(COPIES), IBM MQ 9.2.3 or newer
   sent      queue to which the messages were sent; what is put there again is copied again
   fill      the last 4 bytes of a CorrelId in hexadecimal digits: 00000000, or 20202020 for blanks

   A header is not sent again: a request does not say which one it is. Run it from time to time, such as every minute. */

%macro answer_missing(qmgr=, requests=, copies=, sent=, fill=00000000);
data _null_;
   length body request $ 32767 correlid $ 24 key $ 16 part $ 40 objname $ 48;
   length format $ 8 action $ 3;
   retain hconn hrequests hcopies hsent hmap 0;
   array opened {3} hrequests hcopies hsent;
   array names {3} $ 48 _temporary_ ("&requests" "&copies" "&sent");
   array options {3} $ 20 _temporary_ ("INPUT_SHARED" "INPUT_SHARED" "OUTPUT");

   qmgr = "&qmgr";
   call mqconn(qmgr, hconn, cc, reason);
   if cc ^= 0 then goto failed;
   do i = 1 to 3;
      hod = 0; objname = names{i}; option = options{i}; handle = 0;
      call mqod(hod, 'GEN', rc, 'OBJECTNAME', objname);
      call mqopen(hconn, hod, option, handle, cc, reason);
      if cc ^= 0 then goto failed;
      opened{i} = handle;
   end;
   hgmo = 0; hpmo = 0;
   call mqgmo(hgmo, 'GEN', rc);                       /* no wait: an empty queue ends it */
   call mqpmo(hpmo, 'GEN', rc);

   do until (is_empty);
      hmd = 0; request = '';
      call mqmd(hmd, 'GEN', rc);
      call mqget(hconn, hrequests, hmd, hgmo, size, cc, reason);
      is_empty = (reason = 2033);
      if cc ^= 0 and not is_empty then goto failed;
      if not is_empty and size > 0 then do;
         hmap = 0;
         call mqmap(hmap, rc, cats('CHAR,,', size));
         call mqgetparms(hmap, rc, request);
         if index(request, '"missing"') and prxmatch('/"attachment": *"[0-9a-fA-F]{32}"/', request) then link answer;
      end;
   end;
   goto done;

answer:
   key = input(prxchange('s/.*"attachment": *"([0-9a-fA-F]{32})".*/$1/s', 1, request), $hex32.);
   if prxmatch('/"count": *true/', request) then do;
      number = 0;
      link resend;
   end;
   range = prxparse('/\[(\d+), *(\d+|null)\]/');
   start = 1; stop = length(request);
   call prxnext(range, start, stop, request, at, length);
   do while (at > 0);
      first = input(prxposn(range, 1, request), 10.);
      part = prxposn(range, 2, request);
      last = ifn(part = 'null', 4294967295, input(part, ?? 10.));
      is_gone = 0;
      do number = first to last until (is_gone and part = 'null');
         link resend;
      end;
      call prxnext(range, start, stop, request, at, length);
   end;
   return;

resend:                                               /* move one copy; it is copied again where it is put */
   hmd = 0; hdata = 0; hmap = 0;
   correlid = key || put(number, s370fpib4.) || input("&fill", $hex8.);
   call mqmd(hmd, 'GEN', rc, 'CORRELID', correlid);
   call mqget(hconn, hcopies, hmd, hgmo, size, cc, reason);
   is_gone = (cc ^= 0);
   if is_gone then return;
   call mqmap(hmap, rc, cats('CHAR,,', max(size, 1)));
   call mqgetparms(hmap, rc, body);
   if size > 0 then call mqsetparms(hdata, hmap, rc, body);
   call mqput(hconn, hsent, hmd, hpmo, hdata, cc, reason);   /* with the descriptor that it had */
   if cc ^= 0 then goto failed;
   return;

failed:
   message = sysmsg();
   put 'ERROR: requests for missing parts are not answered: ' reason= message=;
done:
   if hconn then call mqdisc(hconn, cc, reason);
run;
%mend answer_missing;
