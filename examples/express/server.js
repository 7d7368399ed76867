// The two ways in one application. LIMIT and WINDOW_MS are for trying out.

import express from 'express'
import { ipKeyGenerator, rateLimit } from 'express-rate-limit'
import { problem, tokenBucket } from './bucket.js'
import { connect, isOutage } from './limits.js'
import { LimiterStore } from './store.js'

const deadlineMs = Number(process.env.REDIS_DEADLINE_MS ?? 250)
const limit = Number(process.env.LIMIT ?? 5)
const windowMs = Number(process.env.WINDOW_MS ?? 60000)
const client = connect(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379')
const app = express()
app.disable('x-powered-by')

const limiter = (prefix, more = {}) => rateLimit({
  limit,
  windowMs,
  standardHeaders: 'draft-8',
  identifier: prefix,
  legacyHeaders: true,
  store: new LimiterStore({ client, prefix: `express:${prefix}:`, deadlineMs }),
  handler: (request, response) => problem(response, 429, 'quota-exceeded', 'Quota exceeded',
    `More than ${limit} requests in a window of ${windowMs} ms. Try again in ${response.get('Retry-After')} s.`, prefix),
  ...more
})

const plain = limiter('plain')
app.get('/plain', plain, (request, response) => response.json({ ok: true }))
app.get('/plain/used', async (request, response) => response.json(await plain.getKey(request.query.key) ?? null))
app.post('/plain/reset', async (request, response) => {
  await plain.resetKey(request.query.key)
  response.json({ ok: true })
})

// Only failures count: a right answer gives its hit back.
app.get('/guess', limiter('guess', { skipSuccessfulRequests: true }), (request, response) =>
  response.status(request.query.right ? 200 : 401).json({}))
// Only successes count: what failed gives its hit back.
app.get('/order', limiter('order', { skipFailedRequests: true }), (request, response) =>
  response.status(request.query.fail ? 500 : 200).json({}))

const bucket = (name, unavailable) => tokenBucket({
  client,
  name,
  capacity: 10,
  rate: 5,
  period: '1s',
  // Of an IPv6 address the part that one customer has: else everybody has as many budgets as addresses.
  key: request => ipKeyGenerator(request.ip),
  cost: request => items(request),
  unavailable,
  deadlineMs
})
const items = request => /^[1-9][0-9]{0,5}$/.test(request.query.items ?? '') ? request.query.items : '1'
app.get('/bucket', bucket('bucket', 'closed'), (request, response) => response.json({ ok: true }))
app.get('/open', bucket('open', 'open'), (request, response) => response.json({ ok: true }))

// express-rate-limit hands an error of its store on: the request is not admitted.
app.use((error, request, response, next) => {
  if (response.headersSent) return next(error)
  console.error(isOutage(error) ? `Redis cannot be asked: ${error.message}` : error)
  problem(response.set('Retry-After', '1'), 503, 'temporary-reduced-capacity', 'Limits cannot be checked',
    'The limits of this route cannot be checked at the moment, and it stays shut till then.', 'store')
})

const [host, port] = (process.env.BIND ?? '127.0.0.1:8001').split(':')
const server = app.listen(Number(port), host, () => console.log(`listening on http://${host}:${server.address().port}`))
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => {
    server.close(() => process.exit(0))
    client.destroy()
  })
}
