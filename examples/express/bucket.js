// A middleware of its own on RL.TOKEN: a burst of `capacity` requests, then `rate` per `period`.

import { ask, isOutage } from './limits.js'

const up = ms => Math.ceil(ms / 1000)
const UNIT_MS = { ms: 1, s: 1000, m: 60000, h: 3600000, d: 86400000, w: 604800000 }

export function tokenBucket ({
  client, name, capacity, rate, period, key = request => request.ip, cost = () => 1,
  unavailable = 'closed', deadlineMs = 250, onError = () => {}
}) {
  if (!/^[a-z0-9-]+$/.test(name)) throw new TypeError(`a limit's name is made of a-z, 0-9 and -: ${name}`)
  if (!['open', 'closed'].includes(unavailable)) throw new TypeError('unavailable is open or closed')
  const [, count, unit] = /^([0-9]+)(ms|[smhdw])$/.exec(period) ?? []
  if (!unit) throw new TypeError(`not a period: ${period}; write 1s, 5m`)
  const fullSeconds = up(capacity * count * UNIT_MS[unit] / rate)
  const policy = `"${name}";q=${capacity};w=${fullSeconds}`

  return async function limit (request, response, next) {
    const units = cost(request)
    const words = ['RL.TOKEN', `express:{${key(request)}}:${name}`, String(capacity), String(rate), period, 'COST', String(units)]
    response.set('RateLimit-Policy', policy)
    let reply
    try {
      reply = await ask(client, words, deadlineMs)
    } catch (error) {
      onError(error)
      if (isOutage(error) && unavailable === 'open') return next()
      return problem(response.set('Retry-After', '1'), 503, 'temporary-reduced-capacity', 'Limits cannot be checked',
        'The limits of this route cannot be checked at the moment, and it stays shut till then.', name)
    }
    const [allowed, limit, remaining, waitMs, resetMs] = reply
    response.set({
      RateLimit: `"${name}";r=${remaining};t=${up(resetMs)}`,
      'X-RateLimit-Limit': String(limit),
      'X-RateLimit-Remaining': String(remaining),
      'X-RateLimit-Reset': String(up(Date.now() + resetMs))
    })
    if (allowed) return next()
    const budget = `${name} (up to ${capacity} at once, ${rate} more every ${period})`
    if (waitMs < 0) {
      return problem(response, limit === 0 ? 403 : 422, null, 'Request larger than its limit',
        `This request costs ${units}, which ${budget} never admits at once. No wait helps.`, name)
    }
    const seconds = Math.max(1, up(waitMs))
    problem(response.set('Retry-After', String(seconds)), 429, 'quota-exceeded', 'Quota exceeded',
      `This request costs ${units} and would exceed ${budget}. It was not charged. Try again in ${seconds} s.`, name)
  }
}

export function problem (response, status, kind, title, detail, name) {
  const type = kind ? `https://iana.org/assignments/http-problem-types#${kind}` : 'about:blank'
  response.status(status).set('Cache-Control', 'no-store').type('application/problem+json')
  response.send(JSON.stringify({ type, title, status, detail, 'violated-policies': [name] }))
}
