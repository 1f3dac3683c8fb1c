// The server's HTTP endpoints, as far as the page asks them.

import { readEvents } from "./sse.js";

export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

function headers(key) {
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function checked(response) {
  if (response.ok) return response;
  let message = `The server answered ${response.status}.`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // Not in the API's shape: the status must do.
  }
  const wait = response.headers.get("Retry-After");
  if (response.status === 429 && wait) message += ` (again in ${wait} s)`;
  throw new ApiError(message, response.status);
}

async function ask(path, options) {
  try {
    return await checked(await fetch(path, { ...options, cache: "no-store" }));
  } catch (error) {
    if (error instanceof TypeError) throw new ApiError("The server cannot be reached.");
    throw error;
  }
}

// What the server says of itself: model, strategies, default sampling.
export async function fetchProps(key) {
  return (await ask("/props", { headers: headers(key) })).json();
}

// Yields the chunks of a streamed answer. Throws ApiError, also where the stream breaks off.
export async function* streamChat(body, key, signal) {
  const response = await ask("/v1/chat/completions", {
    method: "POST",
    headers: { ...headers(key), "Content-Type": "application/json" },
    body: JSON.stringify({
      ...body,
      stream: true,
      stream_options: { include_usage: true },
      return_speculation: true,
    }),
    signal,
  });
  try {
    for await (const data of readEvents(response)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(chunk.error.message);
      yield chunk;
    }
  } catch (error) {
    if (error instanceof TypeError) throw new ApiError("The connection was lost.");
    throw error;
  }
  throw new ApiError("The answer broke off before its end.");
}
