// A store for express-rate-limit on RL.FIXED.

import { ask } from './limits.js'

// The middleware increments first and compares then: hits > limit is a refusal. Here the server compares, and what it
// refuses it does not count. Hits are therefore 1 to limit for admitted requests and limit + 1 for every refused one.
export class LimiterStore {
  // The store has to know the limit, for the server decides. A limit that is a function of the request cannot be known.
  constructor ({ client, prefix = 'express:', deadlineMs = 250 }) {
    this.client = client
    this.prefix = prefix
    this.deadlineMs = deadlineMs
    this.localKeys = false // other processes see the same counts
    this.refused = new Map()
  }

  init (options) {
    if (!Number.isSafeInteger(options.limit) || options.limit < 0) {
      throw new TypeError('LimiterStore needs a limit that is a whole number, not a function')
    }
    this.limit = options.limit
    this.windowMs = options.windowMs
    this.rule = ['FIXED', String(options.limit), `${options.windowMs}ms`]
    // Which options take a refused request back as well, for its answer counts as failed, or as successful.
    this.refusalsAreTakenBack = options.skipFailedRequests ||
      (options.skipSuccessfulRequests && options.statusCode < 400)
  }

  async increment (key) {
    const reply = await this.send('RL.FIXED', key, ...this.rule.slice(1))
    const [allowed, limit, remaining, waitMs, resetMs] = reply
    const resetTime = new Date(Date.now() + (resetMs || this.windowMs))
    if (allowed) return { totalHits: limit - remaining, resetTime }
    if (this.refusalsAreTakenBack) this.remember(key, Date.now() + Math.max(waitMs, 0))
    return { totalHits: limit + 1, resetTime }
  }

  // The middleware takes back whatever it incremented, refused requests too. Those were never charged here, and a
  // refund for them would let others in above the limit: as many are swallowed as were refused in this window.
  async decrement (key) {
    const refused = this.refused.get(key)
    if (refused && refused.count > 0 && Date.now() < refused.until) {
      refused.count--
      if (refused.count === 0) this.refused.delete(key)
      return
    }
    await this.send('RL.REFUND', key, ...this.rule)
  }

  async resetKey (key) {
    this.refused.delete(key)
    await ask(this.client, ['DEL', this.prefix + key], this.deadlineMs)
  }

  async get (key) {
    const [, limit, remaining, , resetMs] = await this.send('RL.PEEK', key, ...this.rule, 'COST', '0')
    if (resetMs === 0) return undefined
    return { totalHits: limit - remaining, resetTime: new Date(Date.now() + resetMs) }
  }

  remember (key, until) {
    const now = Date.now()
    const refused = this.refused.get(key)
    if (refused && now < refused.until) {
      refused.count++
      return
    }
    if (this.refused.size >= 10000) {
      for (const [name, entry] of this.refused) if (entry.until <= now) this.refused.delete(name)
    }
    this.refused.set(key, { count: 1, until })
  }

  send (command, key, ...words) {
    return ask(this.client, [command, this.prefix + key, ...words], this.deadlineMs)
  }
}
