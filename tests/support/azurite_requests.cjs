// Loaded into Azurite before its own code (`node --require`): counts the requests, and waits before each is answered,
// as tests/support/object_server.py does for S3.
"use strict";

const http = require("http");

const emit = http.Server.prototype.emit;
const counts = {};
let delay = 0;
let running = 0;
let atOnce = 0;

function control(path) {
  if (path === "/-/counts") return JSON.stringify(counts);
  if (path === "/-/at-once") return String(atOnce);
  if (!path.startsWith("/-/delay/")) return null;
  delay = 1000 * Number(path.slice("/-/delay/".length));
  atOnce = 0;
  return "";
}

http.Server.prototype.emit = function (event, request, response, ...rest) {
  if (event !== "request") return emit.call(this, event, request, response, ...rest);
  const path = request.url.split("?")[0];
  const answer = control(path);
  if (answer !== null) {
    response.end(answer);
    return true;
  }
  const counted = `${request.method} ${path}`;
  counts[counted] = (counts[counted] || 0) + 1;
  running += 1;
  atOnce = Math.max(atOnce, running);
  setTimeout(() => {
    running -= 1;
    emit.call(this, event, request, response, ...rest);
  }, delay);
  return true;
};
