// Resumable uploads: a file goes up in pieces, and goes on where the connection broke. By tus 1.0 (docs/uploads.md).

import * as rest from "../rest.js";

const PIECE = 8 * 2 ** 20;
const PAUSES = [500, 1000, 2000, 4000, 8000, 15000];
const TUS = { "Tus-Resumable": "1.0.0" };
const PASSING = [0, 409, 429, 502, 503, 504];

/** Whether a file is large enough for this. */
export const isLarge = (file) => file.size >= PIECE;

/**
 * Upload a file and return the identifier of the upload. `known` is one that was begun for this file, `begun` is told a
 * new one, `progress` the bytes that the gateway has. Throws Problem, and AbortError if `signal` says so.
 */
export async function uploaded(file, { known, begun, progress, signal }) {
  let id = known;
  let offset = id ? await offsetOf(id, signal) : null;
  if (offset === null) {
    begun((id = await begin(file, signal)));
    offset = 0;
  }
  for (let failures = 0; offset < file.size; ) {
    try {
      offset = failures ? await offsetOf(id, signal) : offset;
      progress(offset);
      offset = await append(id, file, offset, { signal, progress });
      failures = 0;
    } catch (error) {
      if (!PASSING.includes(error.status) || failures === PAUSES.length) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSES[failures++]));
    }
  }
  return id;
}

async function begin(file, signal) {
  const headers = {
    ...TUS,
    "Upload-Length": String(file.size),
    "Upload-Metadata": `filename ${base64(file.name)}`,
  };
  const response = await rest.request("POST", "v1/uploads", { headers, signal });
  return response.headers.get("Location").split("/").pop();
}

const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

/** Return the number of bytes that the gateway has; null if it has no such upload any more. */
async function offsetOf(id, signal) {
  try {
    const response = await rest.request("HEAD", rest.resource("uploads", id), { headers: TUS, signal });
    return Number(response.headers.get("Upload-Offset"));
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

async function append(id, file, offset, { signal, progress }) {
  const end = Math.min(offset + PIECE, file.size);
  if (end === offset) return end;
  const headers = {
    ...TUS,
    "Content-Type": "application/offset+octet-stream",
    "Upload-Offset": String(offset),
  };
  const options = { headers, signal, progress: (sent) => progress(offset + sent) };
  await rest.upload("PATCH", rest.resource("uploads", id), file.slice(offset, end), options);
  return end;
}
