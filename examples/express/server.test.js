// The example as its callers see it: node, a real Redis with the module, TCP.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'

const DEADLINE_MS = 400
const folder = mkdtempSync(join(tmpdir(), 'express-limits-'))
let redis, app, redisPort, base, db

async function freePort () {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address()
  probe.close()
  await once(probe, 'close')
  return port
}

async function until (condition, what, seconds = 20) {
  const end = Date.now() + seconds * 1000
  for (;;) {
    if (await condition().catch(() => false)) return
    assert.ok(Date.now() < end, `${what}: not within ${seconds} s`)
    await sleep(20)
  }
}

async function startRedis () {
  redis = spawn(process.env.RL_SERVER, ['--port', redisPort, '--bind', '127.0.0.1', '--dir', folder, '--save', '',
    '--appendonly', 'no', '--loadmodule', process.env.RL_MODULE], { stdio: 'ignore' })
  if (!db) {
    db = createClient({ url: `redis://127.0.0.1:${redisPort}` })
    db.on('error', () => {})
    await db.connect()
  }
  await until(async () => await db.ping() === 'PONG', 'redis-server')
}

async function killRedis () {
  redis.kill('SIGKILL')
  await once(redis, 'exit')
}

async function startApp (more = {}) {
  const port = await freePort()
  base = `http://127.0.0.1:${port}`
  app = spawn(process.execPath, ['server.js'], {
    env: { ...process.env, REDIS_URL: `redis://127.0.0.1:${redisPort}`, BIND: `127.0.0.1:${port}`, REDIS_DEADLINE_MS: DEADLINE_MS, ...more },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let said = ''
  app.stderr.on('data', text => { said += text })
  // A machine with much to do takes its time to start a process; one that has ended is not waited for.
  await until(async () => app.exitCode !== null || (await get('/bucket')).status === 200, 'the application', 60)
  assert.equal(app.exitCode, null, `the application ended: ${said}`)
}

async function stopApp () {
  app.kill('SIGTERM')
  if (app.exitCode === null) await once(app, 'exit')
}

async function get (path, method = 'GET') {
  const answer = await fetch(base + path, { method, headers: { connection: 'close' } })
  const text = await answer.text()
  return { status: answer.status, headers: answer.headers, body: text && JSON.parse(text) }
}

async function statuses (count, path) {
  const seen = []
  for (let i = 0; i < count; i++) seen.push((await get(path)).status)
  return seen
}

before(async () => {
  redisPort = await freePort()
  await startRedis()
  await startApp()
})
beforeEach(() => db.flushAll())
after(async () => {
  await stopApp()
  db.destroy()
  redis.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

test('store: request limit + 1 gets 429, by the middleware itself, and a refusal is not counted', async () => {
  const answers = []
  for (let i = 0; i < 8; i++) answers.push(await get('/plain'))
  assert.deepEqual(answers.map(a => a.status), [200, 200, 200, 200, 200, 429, 429, 429])
  assert.deepEqual(answers.map(a => a.headers.get('x-ratelimit-remaining')), ['4', '3', '2', '1', '0', '0', '0', '0'])
  const refused = answers[5]
  assert.equal(refused.headers.get('cache-control'), 'no-store')
  assert.match(refused.headers.get('ratelimit-policy'), /^"plain"; q=5; w=60/)
  assert.match(refused.headers.get('ratelimit'), /^"plain"; r=0; t=(60|59|58)/)
  const seconds = Number(refused.headers.get('retry-after'))
  assert.ok(seconds > 50 && seconds <= 60, `Retry-After ${seconds}`)
  const [key] = await db.keys('express:plain:*')
  assert.equal(await db.get(key), '5')
  assert.ok(await db.pTTL(key) > 0)
})

test('store: hits under load never let more than the limit in', async () => {
  const answers = await Promise.all(Array.from({ length: 60 }, () => get('/plain')))
  assert.equal(answers.filter(a => a.status === 200).length, 5)
  assert.equal(answers.filter(a => a.status === 429).length, 55)
})

test('store: get tells what is used and spends nothing; resetKey makes the key untouched', async () => {
  await statuses(3, '/plain')
  const [name] = await db.keys('express:plain:*')
  const key = encodeURIComponent(name.slice('express:plain:'.length))
  for (let i = 0; i < 3; i++) assert.equal((await get(`/plain/used?key=${key}`)).body.totalHits, 3)
  await get(`/plain/reset?key=${key}`, 'POST')
  assert.equal((await get(`/plain/used?key=${key}`)).body, null)
  assert.deepEqual(await statuses(6, '/plain'), [200, 200, 200, 200, 200, 429])
})

test('store: decrement takes a successful request back', async () => {
  assert.ok((await statuses(12, '/guess?right=1')).every(status => status === 200))
  await until(async () => !(await db.keys('express:guess:*')).length, 'every hit given back')
  assert.deepEqual(await statuses(6, '/guess'), [401, 401, 401, 401, 401, 429])
  assert.deepEqual(await statuses(2, '/guess?right=1'), [429, 429])
})

test('store: a refused request was not charged, so taking it back gives nothing away', async () => {
  assert.deepEqual(await statuses(5, '/order'), [200, 200, 200, 200, 200])
  // The middleware decrements after each of these, for 429 counts as a failed request.
  assert.deepEqual(await statuses(20, '/order'), Array(20).fill(429))
  const [key] = await db.keys('express:order:*')
  assert.equal(await db.get(key), '5')
})

test('store: a failed request gives its hit back', async () => {
  assert.deepEqual(await statuses(10, '/order?fail=1'), Array(10).fill(500))
  await until(async () => !(await db.keys('express:order:*')).length, 'every hit given back')
  assert.deepEqual(await statuses(6, '/order'), [200, 200, 200, 200, 200, 429])
})

test('bucket: a burst passes, the next request is told its wait, and the wait is true', async () => {
  const burst = await get('/bucket?items=10')
  assert.equal(burst.status, 200)
  assert.equal(burst.headers.get('ratelimit-policy'), '"bucket";q=10;w=2')
  const refused = await get('/bucket?items=10')
  assert.equal(refused.status, 429)
  assert.equal(refused.headers.get('cache-control'), 'no-store')
  assert.match(refused.body.detail, /costs 10 .* 5 more every 1s/)
  await sleep(1000 * Number(refused.headers.get('retry-after')))
  assert.equal((await get('/bucket?items=10')).status, 200)
})

test('bucket: where no wait helps there is no Retry-After', async () => {
  const answer = await get('/bucket?items=11')
  assert.equal(answer.status, 422)
  assert.equal(answer.headers.get('retry-after'), null)
})

test('bucket: an error of Redis never opens a route', async () => {
  await get('/open')
  const [key] = await db.keys('express:*:open')
  await db.del(key)
  await db.lPush(key, 'x')
  assert.equal((await get('/open')).status, 503)
})

test('redis-server killed: open goes on, closed and the store say 503, all recover by themselves', async () => {
  await killRedis()
  const started = Date.now()
  assert.deepEqual(await statuses(5, '/open'), [200, 200, 200, 200, 200])
  for (const path of ['/bucket', '/plain']) {
    const answer = await get(path)
    assert.equal(answer.status, 503, path)
    assert.equal(answer.headers.get('cache-control'), 'no-store')
  }
  console.log(`# seven requests without Redis took ${Date.now() - started} ms`)
  await startRedis()
  for (const path of ['/bucket', '/plain', '/open']) await until(async () => (await get(path)).status === 200, `${path} recovers`)
})

test('redis-server hangs: the deadline holds', async () => {
  redis.kill('SIGSTOP')
  try {
    const started = Date.now()
    assert.equal((await get('/open')).status, 200)
    assert.equal((await get('/bucket')).status, 503)
    assert.ok(Date.now() - started < 2 * DEADLINE_MS + 3000)
  } finally {
    redis.kill('SIGCONT')
  }
  await until(async () => (await get('/bucket')).status === 200, 'recovery')
})
