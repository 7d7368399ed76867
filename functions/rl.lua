#!lua name=rl
--[[ Rate limiting as a library of Redis Functions, for servers on which no module can be loaded.

  rl_fixed, rl_sliding, rl_token, rl_leaky and rl_peek take the arguments of RL.FIXED, RL.SLIDING, RL.TOKEN, RL.LEAKY
  and RL.PEEK, answer the same five integers and keep the same state under the same keys, so that callers of the module
  and of this library can share them.

  One call: words -> rule -> now, read the key -> decide -> write -> reply. Nothing is written before everything that
  can be wrong has been looked at. A refusal, COST 0 and rl_peek write nothing, but for BLOCK and the mending of a
  damaged key.

  Exactness. Lua counts in doubles, which hold every whole number up to 2^53. All quantities here (units, microseconds,
  waits) stay below that. What does not is a product of two of them: each such product stands inside `muldiv`, which
  computes it in limbs. What could not be counted exactly is answered with ERR: see the bounds of this library below.
]]

-- Bounds of the words.
local MOST = 999999999999999            -- units, rates, and the cap of waits and of TTLs, in ms
local MOST_PERIOD_MS = 315360000000     -- 3650d
local SLIDING_MAX_LIMIT = 100000        -- a log holds one entry per unit
local LOG_MOST_COST = 250               -- entries that one call of the log writes
local LOG_SPARE_WORK = 250              -- entries that one call of the log trims or mends, beside its cost
local MOST_BUCKETS = 360
local MOST_FIELDS = 720                 -- fields of a BUCKETS hash
local MOST_KEPT = 1000                  -- parsed rules that are remembered

-- Bounds of this library alone: beyond them a double would round.
local CLOCK_FROM, CLOCK_TO = 1000000000000000, 8000000000000000  -- microseconds: September 2001 to July 2223
local MOST_STORED = 8000000000000000    -- whole units in a stored state; the limiters write at most 2 x 10^15

local SHUT = '1000000000000000000'      -- the count that BLOCK writes; as many digits or more mean a shut key

-- Lua's own functions as locals, which are reached faster than globals. Redis 7.0 hides them while a library is
-- loaded, so the first call fetches them.
local floor, ceil, fmod, min, max, find, format, gsub, match, sub, upper, concat
local integer  -- how `format` writes a whole number

local function fetch_lua()
    floor, ceil, fmod, min, max = math.floor, math.ceil, math.fmod, math.min, math.max
    find, format, gsub, match = string.find, string.format, string.gsub, string.match
    sub, upper, concat = string.sub, string.upper, table.concat
    -- The quick way is right only where C's long has 64 bits.
    integer = format('%d', 1234567890123456) == '1234567890123456' and '%d' or '%.0f'
end

-- A whole number as the server wants it: Lua's own conversion keeps only fourteen digits.
local function text_of(number)
    return format(integer, number)
end

local function capped(ms)
    return min(ms or MOST, MOST)
end

--[[ Arithmetic ]]

-- floor((x * y + z) / c) and the remainder, exact. nil when the quotient is 9.005 x 10^15 or more, which every caller
-- reads as "more than any bound". Takes 0 <= x, y < 2^53, |z| < 2 x 10^15, 0 < c <= 10^15, x * y + z >= 0.
local function muldiv(x, y, z, c)
    local product = x * y
    local dividend = product + z
    if product < 9007199254740992 and dividend < 9007199254740992 then
        -- Both are exact: a double never rounds across 2^53.
        local rest = fmod(dividend, c)
        return (dividend - rest) / c, rest
    end
    -- The quotient from rounded products is at most four off. What it leaves over is computed exactly in limbs of 18
    -- bits (nine products below 2^36 each way) and is small, since the large parts cancel; it says how far to
    -- correct.
    local q = floor(dividend / c)
    if q >= 9005000000000000 then
        return nil
    end
    local x2, y2 = floor(x / 68719476736), floor(y / 68719476736)
    local q2, c2 = floor(q / 68719476736), floor(c / 68719476736)
    local x0, y0, q0, c0 = fmod(x, 262144), fmod(y, 262144), fmod(q, 262144), fmod(c, 262144)
    local x1, y1 = fmod(x - x0, 68719476736) / 262144, fmod(y - y0, 68719476736) / 262144
    local q1, c1 = fmod(q - q0, 68719476736) / 262144, fmod(c - c0, 68719476736) / 262144
    local rest = x2 * y2 - q2 * c2
    rest = rest * 262144 + (x2 * y1 + x1 * y2 - q2 * c1 - q1 * c2)
    rest = rest * 262144 + (x2 * y0 + x1 * y1 + x0 * y2 - q2 * c0 - q1 * c1 - q0 * c2)
    rest = rest * 262144 + (x1 * y0 + x0 * y1 - q1 * c0 - q0 * c1)
    rest = rest * 262144 + (x0 * y0 - q0 * c0 + z)
    while rest < 0 do
        q, rest = q - 1, rest + c
    end
    while rest >= c do
        q, rest = q + 1, rest - c
    end
    return q, rest
end

-- Milliseconds until `rate` per `period_ms` has moved whole + over/1000 units of 1/period_ms, rounded up; nil: beyond
-- any bound.
local function ms_to_move(whole, over, rate, period_ms)
    return (muldiv(whole, period_ms, over + rate - 1, rate))
end

--[[ Words. Every function here answers a value, or nil and what is wrong. ]]

local function shown(word)
    return "'" .. gsub(sub(word, 1, 64), '[^\32-\126]', '?') .. (#word > 64 and '...' or '') .. "'"
end

-- A word that stands for nothing acceptable, or is missing.
local function wrong_word(name, word, accepted)
    if word then
        return nil, name .. ' ' .. shown(word) .. ' is not ' .. accepted
    end
    -- An option is there when its value is not.
    return nil, name .. (find(name, '^%u') and ' has no value: ' or ' is missing: ') .. accepted
end

-- Plain decimal digits without sign, space or leading zero, up to `digits` of them.
local function plain(word, digits)
    return #word <= digits and (word == '0' or find(word, '^[1-9]%d*$') ~= nil)
end

local function whole_number(word, name, from, to)
    local number = word and plain(word, 15) and tonumber(word)
    if number and number >= from and number <= to then
        return number
    end
    return wrong_word(name, word, 'a whole number from ' .. text_of(from) .. ' to ' .. text_of(to))
end

local UNIT_MS = {ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000, w = 604800000}
local CALENDAR_MONTHS = {['1mo'] = 1, ['2mo'] = 2, ['3mo'] = 3, ['4mo'] = 4, ['6mo'] = 6, ['1y'] = 12}
local DURATION = 'a duration from 1ms to 3650d: a whole number with its unit ms, s, m, h, d or w,'
    .. ' such as 250ms, 10s or 1h'
local CALENDAR = ', or with ALIGN 1mo, 2mo, 3mo, 4mo, 6mo or 1y'

-- A length of time in ms, and its unit.
local function duration(word, name, calendar)
    local digits, unit = match(word or '', '^(%d+)(.*)$')
    if digits and plain(digits, 15) then
        local count = tonumber(digits)
        local ms = UNIT_MS[unit] and count * UNIT_MS[unit]
        if ms and ms >= 1 and ms <= MOST_PERIOD_MS then
            return ms, unit
        elseif unit == '' and count > 0 then
            -- Nobody should have to guess whether a bare number means seconds.
            local minutes = text_of(count % 60 == 0 and count / 60 or count)
            return nil, name .. ' ' .. shown(word) .. ' has no unit: say '
                .. digits .. 'ms, ' .. digits .. 's or ' .. minutes .. 'm'
        end
    end
    return wrong_word(name, word, DURATION .. (calendar and CALENDAR or ''))
end

local function offset_ms(word)
    local sign, hours, minutes = match(word or '', '^([+-])(%d%d):(%d%d)$')
    hours, minutes = tonumber(hours), tonumber(minutes)
    if hours and hours <= 23 and minutes <= 59 then
        local ms = (hours * 60 + minutes) * 60000
        return sign == '-' and -ms or ms
    end
    return wrong_word('TZ', word, 'an offset from UTC such as +02:00 or -05:30')
end

local function request_id(word)
    if word and #word >= 1 and #word <= 128 then
        return word
    end
    return wrong_word('ID', word, word and '1 to 128 bytes long' or '1 to 128 bytes')
end

-- How the word behind an option is read; true: none follows.
local READ = {
    COST = function(word) return whole_number(word, 'COST', 0, MOST) end,
    ALIGN = true,
    TZ = offset_ms,
    PARTIAL = true,
    BLOCK = function(word) return duration(word, 'BLOCK') end,
    ID = request_id,
    BUCKETS = function(word) return whole_number(word, 'BUCKETS', 2, MOST_BUCKETS) end,
    SHAPE = true,
    WITHIN = function(word) return duration(word, 'WITHIN') end,
}

-- The options of each limiter, those that exclude each other, and those that need another.
local OPTIONS = {
    FIXED = {'COST', 'ALIGN', 'TZ', 'PARTIAL', 'BLOCK', needs = {'TZ', 'ALIGN'}},
    SLIDING = {'COST', 'PARTIAL', 'ID', 'BUCKETS', apart = {{'BUCKETS', 'ID'}, {'PARTIAL', 'ID'}}},
    TOKEN = {'COST', 'PARTIAL'},
    LEAKY = {'COST', 'PARTIAL', 'SHAPE', 'WITHIN', apart = {{'PARTIAL', 'SHAPE'}}, needs = {'WITHIN', 'SHAPE'}},
}

local SYNTAX = {
    FIXED = 'limit period [COST n] [ALIGN [TZ +hh:mm]] [PARTIAL] [BLOCK duration]',
    SLIDING = 'limit period [COST n] [PARTIAL] [ID id] [BUCKETS b]',
    TOKEN = 'capacity rate period [COST n] [PARTIAL]',
    LEAKY = 'capacity rate period [COST n] [PARTIAL] [SHAPE [WITHIN duration]]',
}

-- The options in words[at ..] go into `rule` under their names.
local function parse_options(rule, kind, words, at, of)
    local known, given = {}, {}
    for _, name in ipairs(OPTIONS[kind]) do
        known[name] = READ[name]
    end
    while at <= #words do
        local name = upper(words[at])
        local read = known[name]
        if not read then
            return of .. ', accepted: ' .. concat(OPTIONS[kind], ', '), words[at]
        elseif given[name] then
            return name .. ' stands twice, once is enough'
        end
        given[name] = true
        local value, wrong = true, nil
        if read ~= true then
            at = at + 1
            value, wrong = read(words[at])
            if value == nil then return wrong end
        end
        rule[name] = value
        at = at + 1
    end
    for _, pair in ipairs(OPTIONS[kind].apart or {}) do
        if given[pair[1]] and given[pair[2]] then
            return pair[1] .. ' and ' .. pair[2] .. ' exclude each other'
        end
    end
    local needs = OPTIONS[kind].needs
    if needs and given[needs[1]] and not given[needs[2]] then
        return needs[1] .. ' needs ' .. needs[2]
    end
    return nil
end

-- The rule in words[at ..]: limit, rate, period_ms and its unit, or months; options under their names; full_ms is the
-- time from empty to full of a bucket. `of` names the place.
local function parse(kind, words, at, of)
    local rule, wrong = {COST = 1}, nil
    local bucket = kind == 'TOKEN' or kind == 'LEAKY'
    rule.limit, wrong = whole_number(words[at], bucket and 'capacity' or 'limit', 0, MOST)
    if wrong then return nil, wrong end
    local limit_word = words[at]
    if bucket then
        at = at + 1
        rule.rate, wrong = whole_number(words[at], 'rate', 1, MOST)
        if wrong then return nil, wrong end
    end
    at = at + 1
    local period = words[at]
    rule.months = kind == 'FIXED' and CALENDAR_MONTHS[period or ''] or nil
    if not rule.months then
        rule.period_ms, rule.unit = duration(period, 'period', kind == 'FIXED')
        if not rule.period_ms then return nil, rule.unit end
    end
    rule.full_ms = bucket and capped(ms_to_move(rule.limit, 0, rule.rate, rule.period_ms)) or nil
    local word
    wrong, word = parse_options(rule, kind, words, at + 1, of)
    if wrong then
        return nil, word and shown(word) .. ' is not an option of ' .. wrong or wrong
    elseif rule.months and not rule.ALIGN then
        return nil, 'period ' .. shown(period) .. ' is a calendar unit and needs ALIGN'
    elseif kind == 'SLIDING' and not rule.BUCKETS then
        if rule.limit > SLIDING_MAX_LIMIT then
            return nil, 'limit ' .. shown(limit_word) .. ' is above ' .. text_of(SLIDING_MAX_LIMIT)
                .. ': a log holds an entry per unit, use BUCKETS for a large window'
        elseif rule.COST > LOG_MOST_COST then
            return nil, "COST '" .. text_of(rule.COST) .. "' is above " .. text_of(LOG_MOST_COST)
                .. ', the most that one call may log, use BUCKETS for larger costs'
        end
    end
    return rule
end

-- Rules already parsed, by how many words they have and by the words. The words of a good rule hold no NUL, so that
-- words joined by NULs that stand here are the words that were parsed. Rules with an ID are not kept: there is no end
-- of them.
local kept, kept_count = {}, 0

local function rule_of(kind, words, at, of)
    local here = kept[of]
    here = here and here[#words]
    local joined = concat(words, '\0')
    local rule = here and here[joined]
    if rule then
        return rule
    end
    local wrong
    rule, wrong = parse(kind, words, at, of)
    if rule and not rule.ID then
        if kept_count >= MOST_KEPT then
            kept, kept_count = {}, 0
        end
        kept[of] = kept[of] or {}
        kept[of][#words] = kept[of][#words] or {}
        kept[of][#words][joined] = rule
        kept_count = kept_count + 1
    end
    return rule, wrong
end

--[[ Refusals to touch what is not ours ]]

local function foreign(holds, whose)
    return {err = 'ERR the key holds a ' .. holds .. ', ' .. whose
        .. ' it seems: use another key name for this limiter'}
end

local function foreign_counter()
    return foreign('string that is not a counter (a whole number from 0 to 9223372036854775807)',
        "somebody else's value")
end

local function foreign_log()
    return foreign('sorted set that is not a log of admissions', 'a leaderboard or leases')
end

local function foreign_hash(form)
    return foreign('hash that is not a ' .. form, "somebody else's or another limiter's")
end

-- A read that can meet a key of another type: the server's own WRONGTYPE, without the trailer that a script gets.
local function refused_read(answer)
    if type(answer) == 'table' and answer.err then
        local wrong_type = find(answer.err, 'WRONGTYPE', 1, true)
        return wrong_type and {err = 'WRONGTYPE Operation against a key holding the wrong kind of value'} or answer
    end
    return nil
end

--[[ FIXED ]]

local DAY_MS = 86400000
local MONDAY_MS = -3 * DAY_MS  -- Monday, 29 December 1969

-- Days from the epoch to the first day of the month `index`, counted in months from year 0. The year is taken to
-- begin in March, so that the leap day comes last; 146097 days are four centuries.
local function month_start(index)
    local year, month = floor(index / 12), index % 12
    local shifted = (month + 10) % 12
    if month < 2 then year = year - 1 end
    local century = floor(year / 100)
    return year * 365 + floor(year / 4) - century + floor(century / 4) + floor((153 * shifted + 2) / 5) - 719468
end

-- The end of the aligned window that holds now_ms; with `after` the end of the window after it (calendar units).
local function aligned_end(rule, now_ms, after)
    local shift = rule.TZ or 0
    local here = now_ms + shift
    if not rule.months then
        local origin = rule.unit == 'w' and MONDAY_MS or 0
        return now_ms - fmod(here - origin, rule.period_ms) + rule.period_ms
    end
    local day = floor(here / DAY_MS)
    -- A first guess of the month from its mean length, corrected by a step either way.
    local index = floor((day + 719528) / 30.436875)
    while month_start(index) > day do index = index - 1 end
    while month_start(index + 1) <= day do index = index + 1 end
    index = index - index % rule.months + rule.months
    if after then index = index + rule.months end
    return month_start(index) * DAY_MS - shift
end

local function fixed(key, rule, now, now_ms, dry)
    local call = redis.call
    local limit, cost, partial = rule.limit, rule.COST, rule.PARTIAL
    local stored = redis.pcall('GET', key)
    local wrong = refused_read(stored)
    if wrong then return wrong end
    local used, ends, open, shut, mended = 0, nil, false, false, false
    if stored then
        if not plain(stored, 19) or (#stored == 19 and stored > '9223372036854775807') then
            return foreign_counter()
        end
        ends = call('PEXPIRETIME', key)
        if ends == -1 or ends > now_ms then
            shut = #stored == 19
            open = stored ~= '0'
            -- Counts above 2^53 are rounded here, but only ever compared with limits, which are far below.
            used = tonumber(stored)
            -- The latest end that this call's numbers allow, and what a later one becomes.
            if rule.months then
                if ends == -1 or (not shut and ends > aligned_end(rule, now_ms, true)) then
                    ends, mended = aligned_end(rule, now_ms), true
                end
            elseif ends == -1 or (not shut and ends > now_ms + rule.period_ms) then
                ends, mended = now_ms + rule.period_ms, true
            end
        end
    end
    local left = max(0, limit - used)
    local reset = open and ends - now_ms or 0
    if cost == 0 then
        return {partial and 0 or 1, limit, left, 0, reset}
    end
    local grant = partial and min(cost, left) or cost
    if grant > left or grant == 0 then
        local never = limit == 0 or (cost > limit and not partial)
        if not dry then
            if rule.BLOCK and not never and not shut then
                ends = max(ends, now_ms + rule.BLOCK)
                call('SET', key, SHUT, 'PXAT', text_of(ends))
                return {0, limit, 0, ends - now_ms, ends - now_ms}
            elseif mended then
                call('PEXPIREAT', key, text_of(ends))
            end
        end
        return {0, limit, left, never and -1 or reset, reset}
    end
    if not open then
        ends = rule.ALIGN and aligned_end(rule, now_ms) or now_ms + rule.period_ms
    end
    if not dry then
        if open and not mended then
            call('INCRBY', key, text_of(grant))
        else
            call('SET', key, text_of(used + grant), 'PXAT', text_of(ends))
        end
    end
    return {partial and grant or 1, limit, left - grant, 0, ends - now_ms}
end

--[[ SLIDING: the log ]]

local function log_member(member)
    return (#member == 16 and find(member, '^[1-9]%d*$'))
        or (#member >= 6 and #member <= 133 and find(member, '^i%d%d%d:'))
end

local function log_score(score)
    local number = tonumber(score)
    return number and number >= 1000000000000000 and number < 10000000000000000 and number == floor(number) and number
end

-- `count` members that are free, from `now` upwards. Beyond the first thousand the search takes growing strides, so
-- that a log whose entries crowd one microsecond costs no more than its logarithm.
local function free_members(key, now, count)
    local found, at, stride, looked = {}, now, 1, 0
    while #found < count do
        local names, ask = {}, min(max(count - #found, 8), 250)
        for i = 1, ask do
            names[i] = text_of(at + (i - 1))
        end
        local scores = redis.call('ZMSCORE', key, unpack(names))
        for i = 1, ask do
            if not scores[i] and #found < count then
                found[#found + 1] = names[i]
            end
        end
        looked = looked + ask
        at = at + ask
        if looked > 1000 and #found < count then
            at, stride = at + stride, stride * 2
        end
    end
    return found
end

-- The `count` highest entries become entries of now; the members stay.
local function mend_log(key, now_text, count)
    local words = {}
    for _, member in ipairs(redis.call('ZRANGE', key, text_of(-count), '-1')) do
        words[#words + 1] = now_text
        words[#words + 1] = member
    end
    redis.call('ZADD', key, unpack(words))
end

local function sliding(key, rule, now, now_ms, dry)
    local call = redis.call
    local limit, cost, partial, id = rule.limit, rule.COST, rule.PARTIAL, rule.ID
    local period_us = rule.period_ms * 1000
    local cutoff = now - period_us
    local lowest = redis.pcall('ZRANGE', key, '0', '0', 'WITHSCORES')
    local wrong = refused_read(lowest)
    if wrong then return wrong end
    local there, live, stale, future, newest = false, 0, 0, 0, 0
    if lowest[1] then
        there = true
        local highest = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
        local first, last = log_score(lowest[2]), log_score(highest[2])
        if not first or not last or not log_member(lowest[1]) or not log_member(highest[1]) then
            return foreign_log()
        end
        if first <= cutoff then
            stale = call('ZCOUNT', key, '-inf', text_of(cutoff))
        end
        if last > now then
            future = call('ZCOUNT', key, '(' .. text_of(now), '+inf')
        end
        live = call('ZCARD', key) - stale
        newest = min(last, now)
    end
    local left = max(0, limit - live)
    local reset = live > 0 and ceil((newest + period_us - now) / 1000) or 0
    local repeated = false
    if id and there and live > 0 then
        local score = call('ZSCORE', key, 'i000:' .. id)
        repeated = score and tonumber(score) > cutoff
    end
    if cost == 0 and not repeated then
        return {partial and 0 or 1, limit, left, 0, reset}
    end
    local grant = partial and min(cost, left) or cost
    if repeated or grant > left or grant == 0 then
        if there and not dry and cost > 0 then
            if future > 0 then
                mend_log(key, text_of(now), min(future, cost + LOG_SPARE_WORK))
            end
            local needed, expiry = ceil((newest + period_us) / 1000), call('PEXPIRETIME', key)
            if expiry == -1 or (live > 0 and expiry < needed) then
                call('PEXPIREAT', key, text_of(max(needed, now_ms) + rule.period_ms))
            end
        end
        if repeated then
            return {1, limit, left, 0, reset}
        end
        local wait = -1
        if limit > 0 and (partial or cost <= limit) then
            -- So many of the oldest units must leave first.
            local must_leave = live + (partial and 1 or cost) - limit
            local rank, score = stale + must_leave - 1, nil
            if rank == 0 then
                score = tonumber(lowest[2])
            else
                score = tonumber(call('ZRANGE', key, text_of(rank), text_of(rank), 'WITHSCORES')[2])
            end
            wait = ceil((min(score, now) + period_us - now) / 1000)
        end
        return {0, limit, left, wait, reset}
    end
    if not dry then
        local now_text = text_of(now)
        local spare = grant + LOG_SPARE_WORK
        if future > 0 then
            local mend = min(future, spare - min(stale, grant + 1))
            mend_log(key, now_text, mend)
            spare = spare - mend
        end
        if id then
            local words = {}
            for unit = 0, grant - 1 do
                words[#words + 1] = now_text
                words[#words + 1] = format('i%03d:', unit) .. id
            end
            call('ZADD', key, unpack(words))
        elseif grant > 1 or call('ZADD', key, 'NX', now_text, now_text) == 0 then
            local words = {}
            for _, member in ipairs(free_members(key, now, grant)) do
                words[#words + 1] = now_text
                words[#words + 1] = member
            end
            call('ZADD', key, unpack(words))
        end
        if stale > 0 then
            if stale <= spare then
                call('ZREMRANGEBYSCORE', key, '-inf', text_of(cutoff))
            else
                -- An id that comes again may have taken some of its own old entries out of the old ones just now.
                local trim = id and min(spare, stale - grant) or spare
                call('ZREMRANGEBYRANK', key, '0', text_of(trim - 1))
            end
        end
        local needed, expiry = ceil((now + period_us) / 1000), there and call('PEXPIRETIME', key) or -1
        if expiry < needed then
            -- One period more than needed, so that the TTL moves once per period and not with every call.
            call('PEXPIREAT', key, text_of(needed + rule.period_ms))
        end
    end
    return {partial and grant or 1, limit, left - grant, 0, rule.period_ms}
end

--[[ SLIDING: sub-windows in a hash ]]

local SUB_WINDOWS = 'window of sub-windows (ends in milliseconds and units)'

local function too_large()
    return {err = 'ERR the key holds more than ' .. text_of(MOST_STORED)
        .. ' units, more than this library can count exactly'}
end

local function buckets(key, rule, now, now_ms, dry)
    local call = redis.call
    local limit, cost, partial, period = rule.limit, rule.COST, rule.PARTIAL, rule.period_ms
    local length = ceil(period / rule.BUCKETS)
    local present = now_ms - fmod(now_ms, length) + length
    local fields = redis.pcall('HLEN', key)
    local wrong = refused_read(fields)
    if wrong then return wrong end
    local there = fields > 0
    if fields > MOST_FIELDS then return foreign_hash(SUB_WINDOWS) end
    local units, ends, gone, ahead = {}, {}, {}, {}
    local used, moved, newest = 0, 0, 0
    if there then
        local hash = call('HGETALL', key)
        local latest = now_ms + ceil(period / 2)
        local all = 0
        for i = 1, #hash, 2 do
            local field, value = hash[i], hash[i + 1]
            if #field ~= 13 or not find(field, '^[1-9]%d*$') or not plain(value, 16) then
                return foreign_hash(SUB_WINDOWS)
            end
            local ending, count = tonumber(field), tonumber(value)
            all = all + count
            if ending > latest then
                ahead[#ahead + 1] = field
                moved = moved + count
            elseif ending + period > now_ms then
                ends[#ends + 1] = ending
                units[ending] = count
                used = used + count
                if ending > newest then newest = ending end
            else
                gone[#gone + 1] = field
            end
        end
        if all > MOST_STORED then return too_large() end
        if moved > 0 then
            if not units[present] then
                ends[#ends + 1] = present
                units[present] = 0
            end
            units[present] = units[present] + moved
            used = used + moved
            newest = max(newest, present)
        end
    end
    local left = max(0, limit - used)
    local reset = newest > 0 and newest + period - now_ms or 0
    if cost == 0 then
        return {partial and 0 or 1, limit, left, 0, reset}
    end
    local function mend()
        if moved > 0 then
            call('HINCRBY', key, text_of(present), text_of(moved))
        end
        if ahead[1] then
            call('HDEL', key, unpack(ahead))
        end
    end
    local grant = partial and min(cost, left) or cost
    if grant > left or grant == 0 then
        if there and not dry then
            mend()
            local expiry, needed = call('PEXPIRETIME', key), (newest > 0 and newest or now_ms) + period
            if expiry == -1 or (newest > 0 and expiry < needed) then
                call('PEXPIREAT', key, text_of(needed))
            end
        end
        local wait = -1
        if limit > 0 and (partial or cost <= limit) then
            -- The oldest leave, one sub-window after another, until what is asked for fits.
            table.sort(ends)
            local after, i = used, 0
            local fits = limit - (partial and 1 or cost)
            while after > fits do
                i = i + 1
                after = after - units[ends[i]]
            end
            wait = ends[i] + period - now_ms
        end
        return {0, limit, left, wait, reset}
    end
    newest = max(newest, present)
    if not dry then
        mend()
        call('HINCRBY', key, text_of(present), text_of(grant))
        if gone[1] then
            call('HDEL', key, unpack(gone))
        end
        if not units[present] and #ends >= MOST_FIELDS then
            -- Only sub-windows of changed periods or counts can be so many. The two oldest merge under the later end.
            table.sort(ends)
            call('HINCRBY', key, text_of(ends[2]), text_of(units[ends[1]]))
            call('HDEL', key, text_of(ends[1]))
        end
        local needed = newest + period
        if (there and call('PEXPIRETIME', key) or -1) < needed then
            call('PEXPIREAT', key, text_of(needed))
        end
    end
    return {partial and grant or 1, limit, left - grant, 0, newest + period - now_ms}
end

--[[ TOKEN and LEAKY: an amount whole + part / period_us, and the instant at which it was true ]]

-- The stored amount in units of 1/period_us; a fraction of another period that does not fit is rounded up or down.
-- nil: not an amount. whole alone with part = nil: more than this library counts.
local function amount(text, negative, period_us, up)
    local sign, digits, plus, above, slash, below = match(text, '^(%-?)(%d+)(%+?)(%d*)(/?)(%d*)$')
    if not digits or not plain(digits, 16) or (sign == '-' and (not negative or digits == '0')) then
        return nil
    end
    local part = 0
    if plus == '+' then
        if slash ~= '/' or not plain(above, 15) or not plain(below, 15) then return nil end
        part, below = tonumber(above), tonumber(below)
        if part >= below or below > 315360000000000 then return nil end
        if below ~= period_us and part > 0 then
            part = muldiv(part, period_us, up and below - 1 or 0, below)
        end
    elseif above ~= '' or slash ~= '' or below ~= '' then
        return nil
    end
    local whole = tonumber(digits)
    if whole > MOST_STORED then return whole, nil end
    if sign == '-' then whole = -whole end
    if part == period_us then
        return whole + 1, 0
    end
    return whole, part
end

local function amount_text(whole, part, period_us)
    if part == 0 then
        return text_of(whole)
    end
    return text_of(whole) .. '+' .. text_of(part) .. '/' .. text_of(period_us)
end

-- whole, part and the instant, from a hash of exactly the fields `name` and `ts`; nil when there is no key; an error
-- as a table.
local function load_amount(key, name, negative, period_us, up)
    local fields = redis.pcall('HLEN', key)
    local wrong = refused_read(fields)
    if wrong then return wrong end
    if fields == 0 then return nil end
    local stored = redis.call('HMGET', key, name, 'ts')
    local text, ts = stored[1], stored[2]
    if fields == 2 and text and ts and #ts == 16 and find(ts, '^[1-9]%d*$') then
        local whole, part = amount(text, negative, period_us, up)
        if part then
            return whole, part, tonumber(ts)
        elseif whole then
            return too_large()
        end
    end
    return foreign_hash((negative and 'token' or 'leaky') .. ' bucket (fields ' .. name .. ' and ts)')
end

-- Mends the key of a bucket that refuses: an instant after now, a TTL that is missing or too short.
local function mend_bucket(key, now, now_ms, ahead, reset, full)
    if ahead then
        redis.call('HSET', key, 'ts', text_of(now))
    end
    local expiry = redis.call('PEXPIRETIME', key)
    -- At the cap no TTL is long enough; one of half the cap is not worth a write with every refusal.
    if expiry < now_ms + (reset < MOST and reset or floor(MOST / 2)) then
        redis.call('PEXPIREAT', key, text_of(now_ms + min(reset + full + 1, MOST)))
    end
end

local function store_bucket(key, name, whole, part, period_us, now, now_ms, there, reset, full)
    redis.call('HSET', key, name, amount_text(whole, part, period_us), 'ts', text_of(now))
    local expiry = there and redis.call('PEXPIRETIME', key) or -1
    if expiry < now_ms + reset then
        -- The time from empty to full more than needed, so that the TTL does not move with every call.
        redis.call('PEXPIREAT', key, text_of(now_ms + min(reset + full + 1, MOST)))
    end
end

local function token(key, rule, now, now_ms, dry)
    local capacity, rate, cost, partial, period = rule.limit, rule.rate, rule.COST, rule.PARTIAL, rule.period_ms
    local period_us, full = period * 1000, rule.full_ms
    local whole, part, ts = load_amount(key, 'tokens', true, period_us, false)
    if type(whole) == 'table' then return whole end
    local there, ahead = whole ~= nil, false
    if there then
        ahead = ts > now
        if not ahead and whole < capacity then
            local gained, rest = muldiv(rate, now - ts, 0, period_us)
            if gained then
                whole, part = whole + gained, part + rest
                if part >= period_us then
                    whole, part = whole + 1, part - period_us
                end
            else
                whole = capacity
            end
        end
    end
    if not there or whole >= capacity then
        whole, part = capacity, 0
    end
    local over = -floor(part / 1000)
    local left = max(0, whole)
    local grant = partial and min(cost, left) or cost
    local refused = cost == 0 or grant > left or grant == 0
    if not refused then
        whole = whole - grant
    end
    local reset = whole == capacity and 0 or capped(ms_to_move(capacity - whole, over, rate, period))
    if cost == 0 then
        return {partial and 0 or 1, capacity, left, 0, reset}
    end
    if refused then
        if there and not dry then
            mend_bucket(key, now, now_ms, ahead, reset, full)
        end
        local wait = -1
        if capacity > 0 and (partial or cost <= capacity) then
            wait = capped(ms_to_move((partial and 1 or cost) - whole, over, rate, period))
        end
        return {0, capacity, left, wait, reset}
    end
    if not dry then
        store_bucket(key, 'tokens', whole, part, period_us, now, now_ms, there, reset, full)
    end
    return {partial and grant or 1, capacity, whole, 0, reset}
end

local function leaky(key, rule, now, now_ms, dry)
    local capacity, rate, cost, partial, period = rule.limit, rule.rate, rule.COST, rule.PARTIAL, rule.period_ms
    local period_us, full = period * 1000, rule.full_ms
    local whole, part, ts = load_amount(key, 'level', false, period_us, true)
    if type(whole) == 'table' then return whole end
    local there, ahead = whole ~= nil, false
    if there then
        ahead = ts > now
        if not ahead then
            local drained, rest = muldiv(rate, now - ts, 0, period_us)
            if drained then
                whole, part = whole - drained, part - rest
                if part < 0 then
                    whole, part = whole - 1, part + period_us
                end
            end
            if not drained or whole < 0 then
                whole, part = 0, 0
            end
        end
    else
        whole, part = 0, 0
    end
    -- A level of 3 and a bit takes up four whole units.
    local over = ceil(part / 1000)
    local left = max(0, capacity - whole - (part > 0 and 1 or 0))
    -- Uncapped: the turn, which is also the time until empty; nil beyond any bound.
    local turn = ms_to_move(whole, over, rate, period)
    if cost == 0 then
        return {partial and 0 or 1, capacity, left, 0, capped(turn)}
    end
    local grant = partial and min(cost, left) or cost
    local late = rule.WITHIN and (turn or 2 * MOST) > rule.WITHIN
    if grant > left or grant == 0 or late then
        local wait = -1
        if capacity > 0 and (partial or cost <= capacity) then
            wait = 0
            if grant > left or grant == 0 then
                wait = capped(ms_to_move(whole + (partial and 1 or cost) - capacity, over, rate, period))
            end
            if late then
                wait = max(wait, capped(turn and turn - rule.WITHIN))
            end
        end
        if there and not dry then
            mend_bucket(key, now, now_ms, ahead, capped(turn), full)
        end
        return {0, capacity, left, wait, capped(turn)}
    end
    whole = whole + grant
    local reset = capped(ms_to_move(whole, over, rate, period))
    if not dry then
        store_bucket(key, 'level', whole, part, period_us, now, now_ms, there, reset, full)
    end
    return {partial and grant or 1, capacity, left - grant, rule.SHAPE and capped(turn) or 0, reset}
end

--[[ Entry points ]]

local DECIDE = {FIXED = fixed, SLIDING = sliding, TOKEN = token, LEAKY = leaky}

local function run(kind, key, words, at, of, dry)
    local rule, wrong = rule_of(kind, words, at, of)
    if not rule then
        return {err = 'ERR ' .. wrong}
    end
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    if now < CLOCK_FROM or now >= CLOCK_TO then
        return {err = "ERR the server's clock stands outside the years in which this library counts exactly,"
            .. ' 2001 to 2223'}
    end
    return (rule.BUCKETS and buckets or DECIDE[kind])(key, rule, now, floor(now / 1000), dry)
end

local function wrong_arity(name, syntax)
    return {err = "ERR wrong number of arguments for '" .. name .. "': FCALL " .. name .. ' 1 key ' .. syntax}
end

local function register(name, kind, words_needed)
    redis.register_function(name, function(keys, args)
        if not floor then fetch_lua() end
        if #keys ~= 1 or #args < words_needed then
            return wrong_arity(name, SYNTAX[kind])
        end
        return run(kind, keys[1], args, 1, name, false)
    end)
end

register('rl_fixed', 'FIXED', 2)
register('rl_sliding', 'SLIDING', 2)
register('rl_token', 'TOKEN', 3)
register('rl_leaky', 'LEAKY', 3)

local PEEK = {FIXED = 'rl_peek FIXED', SLIDING = 'rl_peek SLIDING', TOKEN = 'rl_peek TOKEN', LEAKY = 'rl_peek LEAKY'}

redis.register_function{
    function_name = 'rl_peek',
    flags = {'no-writes'},
    callback = function(keys, args)
        if not floor then fetch_lua() end
        if #keys ~= 1 or #args < 1 then
            return wrong_arity('rl_peek', 'FIXED|SLIDING|TOKEN|LEAKY rule')
        end
        local words = args
        if #args == 1 then
            -- A rule may stand in one argument, its words parted by spaces.
            words = {}
            for word in string.gmatch(args[1], '[^ \t\n\f\r]+') do
                words[#words + 1] = word
            end
        end
        local kind = upper(words[1] or '')
        if not DECIDE[kind] then
            local _, wrong = wrong_word('rule', words[1], 'FIXED, SLIDING, TOKEN or LEAKY')
            return {err = 'ERR ' .. wrong}
        end
        return run(kind, keys[1], words, 2, PEEK[kind], true)
    end,
}
