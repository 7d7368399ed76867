// Asking Redis, with a deadline, and telling its troubles apart.

import { createClient, ErrorReply } from 'redis'

// A server that says one of these will serve again without anybody changing a program or a key.
const PASSING = /^(LOADING|BUSY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|READONLY|OOM|MISCONF|NOREPLICAS) /

export function connect (url, connectTimeout = 500) {
  const client = createClient({
    url,
    // A queue of requests that wait for Redis would be served all at once when it is back, long after their callers
    // have gone. Without it they fail at once.
    disableOfflineQueue: true,
    // What a server that hangs was sent and never answered; beyond that nothing is sent any more.
    commandsQueueMaxLength: 1000,
    // One attempt at a time for the whole process, further apart the longer it lasts.
    socket: { connectTimeout, reconnectStrategy: tries => Math.min(100 * 2 ** Math.min(tries, 4), 1000) + Math.random() * 100 }
  })
  // Without a listener an error of the connection would end the process. Decisions see it as their own error.
  client.on('error', () => {})
  client.connect().catch(() => {})
  return client
}

// The client's own time-out ends with the sending of a command; a server that took it and says nothing needs this one.
export async function ask (client, words, deadlineMs) {
  let timer
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer from Redis within ${deadlineMs} ms`)), deadlineMs)
  })
  try {
    return await Promise.race([client.sendCommand(words), late])
  } finally {
    clearTimeout(timer)
  }
}

// Whether Redis cannot be asked now. Any other error (ERR, WRONGTYPE, NOPERM) is no outage and must not open a route.
export function isOutage (error) {
  return !(error instanceof ErrorReply) || PASSING.test(error.message)
}
